"""What a request asks for: words checked, numbers bounded; anything else is refused."""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from elmfield._array.typing import Floats
from elmfield.show.view.looks import Look
from elmfield.show.view.plane import FINEST
from elmfield.show.view.scene import METHODS, PARTS, Scene

MOST = 1 << 24
"""Values in one download."""

WORDS = 2000
"""Characters of a question."""

NUMBER = re.compile(r"-?\d{1,12}(\.\d{1,17})?([eE][+-]?\d{1,2})?\Z", re.ASCII)


class NotThereError(LookupError):
    """There is no such tile."""


def number(text: str, name: str) -> float:
    """A finite number as people write it."""
    if not NUMBER.match(text):
        raise ValueError(f"`{name}` must be a number; got {text[:40]!r}.")
    return float(text)


def several(query: Mapping[str, str], name: str, count: int) -> tuple[float, ...]:
    """So many numbers, joined by commas."""
    parts = query.get(name, "").split(",") if query.get(name) else []
    if len(parts) != count:
        raise ValueError(f"`{name}` must be {count} numbers joined by commas; got {len(parts)}.")
    return tuple(number(p, name) for p in parts)


def one_of(query: Mapping[str, str], name: str, known: tuple[str, ...]) -> str:
    """One of the words that are known, the first by default."""
    word = query.get(name, known[0])
    if word not in known:
        raise ValueError(f"`{name}` must be one of {', '.join(known)}; got {word[:40]!r}.")
    return word


def look_of(scene: Scene, query: Mapping[str, str]) -> Look:
    """What is to be shown."""
    known = (*scene.quantities, "regions")
    n = scene.field.n_channels
    chosen = query.get("channels", "0").split(",")
    if not 1 <= len(chosen) <= 4 or not all(c.isascii() and c.isdigit() for c in chosen):
        raise ValueError("`channels` must be up to four numbers joined by commas.")
    channels = tuple(int(c) for c in chosen)
    if max(channels) >= n:
        raise ValueError(f"`channels` must lie below {n}; got {max(channels)}.")
    at = several(query, "at", len(scene.others)) if scene.others else ()
    low, high = scene.field.domain.low, scene.field.domain.high
    inside = tuple(min(max(v, low[k]), high[k]) for k, v in zip(scene.others, at))
    return Look(
        quantity=one_of(query, "quantity", known),
        method=one_of(query, "method", METHODS),
        channels=channels,
        part=one_of(query, "part", PARTS),
        at=inside,
    )


def tile_of(scene: Scene, words: Mapping[str, str]) -> tuple[int, int, int]:
    """Level, row and column of a tile that is there."""
    if scene.is_series:
        raise NotThereError("a series has no tiles.")
    found = []
    for name in ("level", "row", "column"):
        text = words[name]
        if not re.fullmatch(r"-?[0-9]{1,9}", text):
            raise NotThereError(f"there is no tile with {name} {text[:40]!r}.")
        found.append(int(text))
    level, row, column = found
    if not FINEST <= level <= scene.plane.coarsest:
        raise NotThereError(
            f"levels run from {FINEST} to {scene.plane.coarsest}; there is no level {level}."
        )
    rows, columns = (math.ceil(n / 256) for n in scene.plane.pixels(level))
    if not (0 <= row < rows and 0 <= column < columns):
        raise NotThereError(f"there is no tile {row}, {column} at level {level}.")
    return level, row, column


def ends_of(scene: Scene, query: Mapping[str, str]) -> tuple[Floats, Floats]:
    """Both ends of a line in the plane, inside the domain."""
    a, b, c, d = several(query, "line", 4)
    low, high = scene.plane.low, scene.plane.high
    ends = np.clip(np.asarray([[a, b], [c, d]]), low, high)
    return ends[0], ends[1]


@dataclass(frozen=True)
class Wanted:
    """A file that is asked for: its kind, the part of the plane, and its size in samples.

    `rows` and `columns` are index coordinates of both ends, ascending.
    """

    suffix: str
    look: Look
    rows: tuple[float, float]
    columns: tuple[float, float]
    shape: tuple[int, int]
    colours: str = "viridis"
    limits: tuple[float, float] | None = None


def wanted(scene: Scene, query: Mapping[str, str]) -> Wanted:
    """The download that is asked for; not more of it than fits in memory."""
    look = look_of(scene, query)
    if look.quantity not in ("value", "gradient", "laplacian"):
        raise ValueError("values, gradients and Laplacians can be downloaded.")
    if not scene.formats:
        raise ValueError("this page cannot write files.")
    a, b, c, d = several(query, "window", 4)
    low, high = scene.plane.low, scene.plane.high
    rows = (max(min(a, b), low[0]), min(max(a, b), high[0]))
    columns = (max(min(c, d), low[1]), min(max(c, d), high[1]))
    if not (rows[0] < rows[1] and columns[0] < columns[1]):
        raise ValueError("the window holds nothing; move into the picture first.")
    scale = number(query.get("scale", "1"), "scale")
    if not 1e-6 < scale <= 64:
        raise ValueError(f"`scale` must lie between 0 and 64 samples to a sample; got {scale:g}.")
    shape = tuple(max(1, round((e - s) * scale)) for s, e in (rows, columns))
    if math.prod(shape) * len(look.channels) > MOST:
        raise ValueError(
            f"{shape[0]} by {shape[1]} values are more than the {MOST} of one download; zoom in, "
            "or take a smaller scale."
        )
    limits = several(query, "limits", 2) if "limits" in query else None
    return Wanted(
        suffix=one_of(query, "format", scene.formats),
        look=look,
        rows=rows,
        columns=columns,
        shape=shape,  # type: ignore[arg-type]
        colours=query.get("colours", "viridis")[:40],
        limits=limits,  # type: ignore[arg-type]
    )
