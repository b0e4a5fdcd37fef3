"""A field to look at: drawn as pictures, and as a page in the browser one can walk into.

`scene` says what is seen, which axes are shown and where a pixel lies; `layers` turns a part of it
into numbers; `view_tiles` keeps them; `app` reads requests and answers them; `pages` runs it, or
writes a page that needs no server. Colours are given to numbers in the page.
"""
