"""Every link and picture of the built site that is not elsewhere leads to a file, and to a place in it."""

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag, urlsplit


class Page(HTMLParser):
    """What a page names: its own places, and where it points."""

    def __init__(self, text):
        super().__init__()
        self.places, self.links = set(), []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        self.places |= {given[k] for k in ("id", "name") if given.get(k)}
        self.links += [given[k] for k in ("href", "src") if given.get(k)]


def broken(root):
    """Pairs of page and link that leads nowhere."""
    pages = {p: Page(p.read_text("utf-8")) for p in root.rglob("*.html")}
    for path, page in pages.items():
        for link in page.links:
            address, place = urldefrag(link)
            if urlsplit(address).scheme or address.startswith("//"):
                continue
            target = (
                path if not address else (path.parent / unquote(urlsplit(address).path)).resolve()
            )
            named = not place or target not in pages or unquote(place) in pages[target].places
            if not (target.exists() and named):
                yield path, link


if __name__ == "__main__":
    root = Path(sys.argv[1]).resolve()
    found = sorted({f"{path.relative_to(root)}: {link}" for path, link in broken(root)})
    sys.exit("\n".join(["links that lead nowhere:", *found]) if found else 0)
