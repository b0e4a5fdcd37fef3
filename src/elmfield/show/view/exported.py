"""A page that needs no server: the same page, and its tiles as files.

Numbers are kept in 16 bits from each tile's lowest to its highest, and compressed. As many levels
go in as fit the size that is asked for: the whole picture first, then closer and closer.
"""

import gzip
import json
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from elmfield._array.progress import silent
from elmfield._array.typing import Progress
from elmfield.show.view.app import PAGE, page_file
from elmfield.show.view.looks import Look
from elmfield.show.view.packed import packed, shortened
from elmfield.show.view.plane import TILE
from elmfield.show.view.scene import METHODS, Scene
from elmfield.show.view.tiles import Tiles, line

SIZE = 64 << 20
"""Bytes of tiles, before they are compressed."""

CLOSEST = -4
"""The finest level that goes in: 16 pixels to a sample."""

Put = Callable[[str, bytes], None]
"""Takes a file of the page: its path below the page's folder, and its content."""


@dataclass(frozen=True)
class Layer:
    """One picture of the page: a look, and the levels of it that go in."""

    name: str
    look: Look
    finest: int


def export(
    scene: Scene, put: Put, *, size: int = SIZE, progress: Progress = silent
) -> dict[str, int]:
    """Hand every file of a static page to `put`; how many there are of each kind.

    Parameters
    ----------
    scene : Scene
        What is seen; sliders stay where they begin.
    put : callable
        Takes path and content of each file.
    size : int
        Bytes that tiles may take before they are compressed.
    progress : callable
        Of (stage, done, total).
    """
    tiles = Tiles(scene)
    facts = scene.facts()
    shown = (0, 1, 2) if scene.is_picture else (0,)
    first = Look(channels=shown, at=scene.start)
    if scene.is_series:
        facts["exported"] = {"series": _series(scene, first)}
        count = 0
    else:
        layers = _layers(scene, first, size)
        facts["exported"] = {
            "layers": {l.name: {"finest": l.finest} for l in layers},
            "quantiles": {q: tiles.quantiles(_of(first, q)) for q in _quantities(layers)},
            "channels": shown,
        }
        facts["methods"] = [m for m in METHODS if f"value-{m}" in facts["exported"]["layers"]]
        facts["quantities"] = _quantities(layers)
        count = _put_tiles(tiles, layers, put, progress)
    facts["formats"], facts["lacks"] = [], {}
    facts["directions"] = False
    for name in PAGE:
        put(name, page_file(name))
    put("facts.json", json.dumps(facts).encode())
    return {"tiles": count, "files": len(PAGE) + 1}


def _of(first: Look, quantity: str) -> Look:
    return Look(quantity=quantity, channels=first.channels, part=first.part, at=first.at)


def _quantities(layers: list[Layer]) -> list[str]:
    found = [l.look.quantity for l in layers if l.look.quantity != "regions"]
    return list(dict.fromkeys(found))


def _layers(scene: Scene, first: Look, size: int) -> list[Layer]:
    """What goes in, level by level while it fits: the field, splines beside it, and the rest."""
    others = [("value", m) for m in METHODS] + [(q, "field") for q in scene.quantities[1:]]
    looks = {
        f"{q}-{m}": Look(quantity=q, method=m, channels=first.channels, at=first.at)
        for q, m in others
    }
    looks["regions-field"] = Look(quantity="regions", at=first.at)

    def bytes_of(look: Look, finest: int) -> int:
        channels = 0.5 if look.quantity == "regions" else len(look.channels)
        levels = range(finest, scene.plane.coarsest + 1)
        return int(sum(math.prod(scene.plane.pixels(z)) * 2 * channels for z in levels))

    finest = dict.fromkeys(looks, scene.plane.coarsest)
    for level in range(scene.plane.coarsest - 1, CLOSEST - 1, -1):
        for name in looks:  # the field first, splines beside it, the others
            closer = {**finest, name: level}
            if (
                finest[name] == level + 1
                and sum(map(bytes_of, looks.values(), closer.values())) <= size
            ):
                finest = closer
    return [Layer(name, look, finest[name]) for name, look in looks.items()]


def _put_tiles(tiles: Tiles, layers: list[Layer], put: Put, progress: Progress) -> int:
    work = [(layer, *where) for layer in layers for where in _places(tiles.scene, layer)]
    for done, (layer, level, row, column) in enumerate(work, 1):
        with tiles.lock:
            values = tiles.whole(layer.look, level, row, column)
        data = packed(values) if values.dtype == bool else shortened(values)
        put(f"tiles/{layer.name}/{level}/{row}_{column}.gz", gzip.compress(data, 6, mtime=0))
        progress("export", done, len(work))
    return len(work)


def _places(scene: Scene, layer: Layer) -> Iterator[tuple[int, int, int]]:
    for level in range(scene.plane.coarsest, layer.finest - 1, -1):
        rows, columns = (math.ceil(n / TILE) for n in scene.plane.pixels(level))
        for row in range(rows):
            for column in range(columns):
                yield level, row, column


def _series(scene: Scene, look: Look) -> dict[str, object]:
    """A series whole, at no more places than a page can hold."""
    n = scene.field.shape[scene.along]
    k = scene.along
    low, high = scene.field.domain.low[k], scene.field.domain.high[k]
    at, values, spans = line(scene, look, low, high, min(16 * n, 1 << 16))

    def plain(rows: object) -> list[list[float | None]]:
        return [[float(v) if math.isfinite(v) else None for v in row] for row in rows]  # type: ignore[attr-defined]

    return {
        "at": at.tolist(),
        "values": plain(values.T),
        "low": plain(spans[..., 0].T),
        "high": plain(spans[..., 1].T),
    }
