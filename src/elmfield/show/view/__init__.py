"""A field in the browser: a page one can walk into, and the small server behind it.

`plane` says which axes are shown and where a pixel lies; `scene` what is seen; `looks` turns a part
of it into numbers; `tiles` keeps them; `asked` reads requests; `app` answers them; `served` runs
it; `exported` writes a page that needs no server. Colours are given to numbers in the page.
"""
