"""A field in the browser: a page one can walk into, and the small server behind it.

`scene` says what is seen, which axes are shown and where a pixel lies; `layers` turns a part of it
into numbers; `view_tiles` keeps them; `app` reads requests and answers them; `server` runs it;
`export_page` writes a page that needs no server. Colours are given to numbers in the page.
"""
