"""A page that needs no server: the same page, and its tiles as files.

Facts and tiles are scripts: a page that was opened as a file may load those, and nothing else.
Numbers are kept in 16 bits from each tile's lowest to its highest, compressed, in base 64. As many
levels go in as fit the size that is asked for: the whole picture first, then closer and closer.
"""

import base64
import gzip
import json
import lzma
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from importlib.resources import files

from elmfield._array.progress import silent
from elmfield._array.typing import Progress
from elmfield.show.view.layers import Look, series
from elmfield.show.view.scene import METHODS, TILE_PIXELS, Scene
from elmfield.show.view.view_tiles import Tiles, pack_floats, pack_short

PAGE = (
    *("index.html", "view.css", "view.js", "numbers.js", "axes.js", "series.js", "picture.js"),
    *("profile.js", "state.js", "openseadragon.min.js", "openseadragon.LICENSE.txt", "icon.svg"),
)
"""The files of the page; no others are served."""

TILES_MAX_BYTES = 64 << 20
"""Bytes of tiles, before they are compressed."""

EXPORTED_FINEST_LEVEL = -4
"""The finest level that goes in: 16 pixels to a sample."""

FACTS_TAG = b'<script src="facts.js" defer></script>\n'

Put = Callable[[str, bytes], None]
"""Takes a file of the page: its path below the page's folder, and its content."""


def page_file(name: str) -> bytes:
    """A file of the page; large ones are packed."""
    folder = files(__package__) / "page"
    if (folder / name).is_file():
        return (folder / name).read_bytes()
    return lzma.decompress((folder / f"{name}.xz").read_bytes())


@dataclass(frozen=True)
class Layer:
    """One picture of the page: a look, and the levels of it that go in."""

    name: str
    look: Look
    finest: int


def export(
    scene: Scene, put: Put, *, size: int = TILES_MAX_BYTES, progress: Progress = silent
) -> int:
    """Hand every file of a static page to `put`; return how many of them are tiles.

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
    first, count = Look.first(scene), 0
    if scene.is_series:
        n, k = scene.field.shape[scene.along], scene.along
        ends = scene.field.domain.low[k], scene.field.domain.high[k]
        facts["exported"] = {"series": series(scene, first, *ends, min(16 * n, 1 << 16))}
    else:
        layers = _layers(scene, first, size)
        facts["exported"] = {
            "layers": {l.name: {"finest": l.finest} for l in layers},
            "quantiles": {
                q: tiles.quantiles(replace(first, quantity=q)) for q in _quantities(layers)
            },
            "channels": first.channels,
        }
        facts["methods"] = [m for m in METHODS if f"value-{m}" in facts["exported"]["layers"]]
        facts["quantities"] = _quantities(layers)
        count = _put_tiles(tiles, layers, put, progress)
    facts["formats"], facts["lacks"] = [], {}
    facts["directions"] = False
    page = {name: page_file(name) for name in PAGE}
    last = b'<script src="view.js"'
    page["index.html"] = page["index.html"].replace(last, FACTS_TAG + last)
    page["facts.js"] = b"window.exportedFacts = " + json.dumps(facts).encode()
    for name, data in page.items():
        put(name, data)
    return count


def _quantities(layers: list[Layer]) -> list[str]:
    found = [l.look.quantity for l in layers if l.look.quantity != "regions"]
    return list(dict.fromkeys(found))


def _layers(scene: Scene, first: Look, size: int) -> list[Layer]:
    """What goes in, level by level while it fits: the field, splines, and the rest."""
    others = [("value", m) for m in METHODS] + [(q, "field") for q in scene.quantities[1:]]
    looks = {f"{q}-{m}": replace(first, quantity=q, method=m) for q, m in others}
    looks["regions-field"] = Look(quantity="regions", at=first.at)

    def bytes_of(look: Look, finest: int) -> int:
        channels = 0.5 if look.quantity == "regions" else len(look.channels)
        levels = range(finest, scene.plane.coarsest + 1)
        return int(sum(math.prod(scene.plane.pixels(z)) * 2 * channels for z in levels))

    finest = dict.fromkeys(looks, scene.plane.coarsest)
    for level in range(scene.plane.coarsest - 1, EXPORTED_FINEST_LEVEL - 1, -1):
        for name in looks:  # the field first, splines, the others
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
        data = pack_floats(values) if values.dtype == bool else pack_short(values)
        text = base64.b64encode(gzip.compress(data, 6, mtime=0))
        put(
            f"tiles/{layer.name}/{level}/{row}_{column}.js",
            b'document.currentScript.data = "%b"' % text,
        )
        progress("export", done, len(work))
    return len(work)


def _places(scene: Scene, layer: Layer) -> Iterator[tuple[int, int, int]]:
    for level in range(scene.plane.coarsest, layer.finest - 1, -1):
        rows, columns = (math.ceil(n / TILE_PIXELS) for n in scene.plane.pixels(level))
        for row in range(rows):
            for column in range(columns):
                yield level, row, column
