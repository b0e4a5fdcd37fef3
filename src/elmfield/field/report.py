"""What a person wants to know about a field, as a table that prints itself."""

from dataclasses import dataclass
from html import escape


@dataclass(frozen=True)
class Report:
    """What is known about a field: rows of a name and a text, printed as a table."""

    rows: dict[str, str]

    def __getitem__(self, name: str) -> str:
        return self.rows[name]

    def __str__(self) -> str:
        width = max(map(len, self.rows))
        return "\n".join(f"{name:<{width}}  {text}" for name, text in self.rows.items())

    __repr__ = __str__

    def _repr_html_(self) -> str:
        cells = (f"<tr><th>{escape(k)}</th><td>{escape(v)}</td></tr>" for k, v in self.rows.items())
        return f"<table>{''.join(cells)}</table>"
