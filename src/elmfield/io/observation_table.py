"""Tables of observations: values, slopes and means in a CSV file, a row each."""

import csv
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from elmfield import observe as ob

RESERVED = ("kind", "along", "value", "noise")
"""Columns that are no axes."""


def read_observations(path: Path) -> tuple[list[ob.Observation], tuple[str, ...]]:
    """Read observations and the names of the axes from a CSV file.

    Columns: ``value``; a column for each axis, for values and slopes; ``<axis>_low`` and
    ``<axis>_high`` for means; and if needed ``kind`` (value, slope or mean), ``along`` (the axis of
    a slope), ``noise`` (empty: estimated, 0: kept). Rows of one kind, axis and whether their noise
    is known are one instrument.
    """
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    if not rows or "value" not in rows[0]:
        raise ValueError(f"{path.name}: a table of observations needs a column `value` and rows.")
    names = [c for c in rows[0] if c not in RESERVED]
    plain = [c.removesuffix("_low").removesuffix("_high") for c in names]
    axes = tuple(dict.fromkeys(plain))
    sets: dict[tuple[str, str, str], list[dict[str, str]]] = {}
    for row in rows:
        noise = (row.get("noise") or "").strip()
        known = "unknown" if not noise else "kept" if _number(path, noise) == 0 else "known"
        key = ((row.get("kind") or "value").strip(), (row.get("along") or "").strip(), known)
        sets.setdefault(key, []).append(row)
    return [_observation(path, key, own, axes) for key, own in sets.items()], axes


def _number(path: Path, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"{path.name}: {text!r} is not a number.") from None


def _observation(
    path: Path, key: tuple[str, str, str], rows: list[dict[str, str]], axes: Sequence[str]
) -> ob.Observation:
    """The rows of one kind."""
    kind, along, known = key

    def columns(names: Sequence[str]) -> np.ndarray:
        if missing := [n for n in names if n not in rows[0]]:
            raise ValueError(f"{path.name}: rows of kind {kind!r} need the column {missing[0]!r}.")
        return np.array([[_number(path, row[n] or "") for n in names] for row in rows])

    y = columns(["value"])[:, 0]
    noise = None if known == "unknown" else columns(["noise"])[:, 0]
    if kind == "mean":
        low, high = (columns([f"{a}_{end}" for a in axes]) for end in ("low", "high"))
        return ob.means(low, high, y, noise=noise)
    if kind == "value":
        return ob.values(columns(axes), y, noise=noise)
    if kind != "slope" or along not in axes:
        raise ValueError(
            f"{path.name}: `kind` must be value, slope or mean, and a slope says `along` which of "
            f"{list(axes)}; got {kind!r} along {along!r}."
        )
    return ob.derivatives(columns(axes), y, order=[int(a == along) for a in axes], noise=noise)
