"""Words out: tables, JSON, sizes and coordinates."""

import json
import sys
from pathlib import Path
from typing import Any

import click


def show(rows: dict[str, Any], title: str | None = None) -> None:
    """A table of two columns."""
    from rich.console import Console
    from rich.table import Table

    table = Table(show_header=False, box=None, title=title, title_justify="left", padding=(0, 2))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in rows.items():
        table.add_row(name, str(value))
    Console(highlight=False, markup=False).print(table)


def print_json(content: Any) -> None:
    """Print JSON, for machines."""
    from elmfield.io.model.plain import to_plain

    def finite(value: Any) -> Any:  # JSON has no word for infinities and NaN: null
        if isinstance(value, dict):
            return None if set(value) == {"$float"} else {k: finite(v) for k, v in value.items()}
        return [finite(v) for v in value] if isinstance(value, list) else value

    plain = (getattr(sys.stdout, "encoding", None) or "ascii").lower().startswith("utf")
    click.echo(json.dumps(finite(to_plain(content)), indent=2, ensure_ascii=not plain))


def size_of(path: Path) -> int:
    """Bytes of a file, or of all files in a folder."""
    parts = [path] if path.is_file() else [p for p in path.rglob("*") if p.is_file()]
    return sum(p.stat().st_size for p in parts)


def in_bytes(n: float) -> str:
    """A size as people say it."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if n < 1024 or unit == "GiB":
            return f"{n:.0f} {unit}" if unit == "B" else f"{n:.1f} {unit}"
        n /= 1024
    return ""
