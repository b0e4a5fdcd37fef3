"""A document: headings, paragraphs, tables and figures in order, written as Markdown and as HTML."""

import html
import re
from pathlib import Path

from measurement.tables import table

KINDS = ("cuda", "cpu")
"""Whose records and pictures are shown, the first that has any."""


class Document:
    """Headings, paragraphs, tables and figures in order."""

    def __init__(self):
        self.blocks = []

    def heading(self, text, level=2):
        self.blocks.append(("heading", level, text))

    def text(self, words):
        self.blocks.append(("text", " ".join(words.split())))

    def table(self, heads, rows):
        self.blocks.append(("table", heads, rows))

    def figure(self, name, caption, folder):
        for device in KINDS:
            path = Path("figures") / device / f"{name}.png"
            if (folder / path).exists():
                self.blocks.append(("figure", path.as_posix(), caption))
                return

    def markdown(self):
        out = []
        for kind, *rest in self.blocks:
            if kind == "heading":
                out.append("#" * rest[0] + " " + rest[1])
            elif kind == "text":
                out.append(rest[0])
            elif kind == "figure":
                out.append(f"![{rest[1]}]({rest[0]})\n\n*{rest[1]}*")
            else:
                out.append(table(*rest, tight=True))
        return "\n\n".join(out) + "\n"

    def html(self):
        out = [HEAD]
        for kind, *rest in self.blocks:
            if kind == "heading":
                out.append(f"<h{rest[0]}>{inline(rest[1])}</h{rest[0]}>")
            elif kind == "text":
                out.append(f"<p>{inline(rest[0])}</p>")
            elif kind == "figure":
                caption = inline(rest[1])
                out.append(f'<figure><img src="{rest[0]}" alt="{html.escape(rest[1])}">'
                           f"<figcaption>{caption}</figcaption></figure>")  # fmt: skip
            else:
                heads, rows = rest
                top = "".join(f"<th>{inline(h)}</th>" for h in heads)
                body = "\n".join(
                    "<tr>" + "".join(f"<td>{inline(c)}</td>" for c in r) + "</tr>" for r in rows
                )
                out.append(
                    f"<div class=wide><table><thead><tr>{top}</tr></thead>\n<tbody>{body}</tbody></table></div>"
                )
        return "\n".join([*out, "</main></body></html>"]) + "\n"


HEAD = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>ELM-INR and BEAM, reproduced</title><style>
body { font: 15px/1.5 system-ui, sans-serif; color: #1c1e21; margin: 0 }
main { max-width: 66rem; margin: 2rem auto; padding: 0 1rem }
h1, h2, h3 { line-height: 1.2; margin-top: 2rem }
.wide { overflow-x: auto } table { border-collapse: collapse; font-size: 13px }
th, td { padding: .25rem .6rem; text-align: right; border-bottom: 1px solid #e2e4e8; white-space: nowrap }
th:first-child, td:first-child { text-align: left } thead th { border-bottom: 2px solid #9aa0a8 }
figure { margin: 1.5rem 0 } img { max-width: 100%; height: auto } figcaption { color: #555; font-size: 13px }
code { font-size: 13px; background: #f3f4f6; padding: 0 .2em }
</style></head><body><main>"""


def inline(text):
    """The few marks of Markdown used here, as HTML."""
    parts = html.escape(text, quote=False).split("`")
    text = "".join(f"<code>{p}</code>" if i % 2 else p for i, p in enumerate(parts))
    parts = text.split("**")
    text = "".join(f"<b>{p}</b>" if i % 2 else p for i, p in enumerate(parts))
    text = re.sub(r"\[([^]]+)\]\(([^)]+)\)", r'<a href="\2">\1</a>', text)
    return re.sub(r"(?<![\w*])\*(\w[^*]*)\*(?![\w*])", r"<i>\1</i>", text)
