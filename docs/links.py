"""Checks that every local link and picture of the built site leads to a file and an anchor in it."""

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag, urlsplit


class Page(HTMLParser):
    """The anchors and links of a page."""

    def __init__(self, text):
        super().__init__()
        self.anchors, self.links = set(), []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        self.anchors |= {attributes[k] for k in ("id", "name") if attributes.get(k)}
        self.links += [attributes[k] for k in ("href", "src") if attributes.get(k)]


def broken(root):
    """Yield pairs of a page and a link on it that leads nowhere."""
    pages = {p: Page(p.read_text("utf-8")) for p in root.rglob("*.html")}
    for path, page in pages.items():
        for link in page.links:
            address, anchor = urldefrag(link)
            if urlsplit(address).scheme or address.startswith("//"):
                continue
            target = (
                path if not address else (path.parent / unquote(urlsplit(address).path)).resolve()
            )
            named = not anchor or target not in pages or unquote(anchor) in pages[target].anchors
            if not (target.exists() and named):
                yield path, link


if __name__ == "__main__":
    root = Path(sys.argv[1]).resolve()
    found = sorted({f"{path.relative_to(root)}: {link}" for path, link in broken(root)})
    sys.exit("\n".join(["links that lead nowhere:", *found]) if found else 0)
