"""Tiles: parts of what is seen at a level, kept while there is room; one is made at a time.

Far out a pixel stands for many samples. Their means are built once, in the background, piece by
piece. Until they are there, tiles are first looks: means of the samples a field is made of, or
those that a file tells before it is decoded; else one place for each of fewer pixels.

As bytes, which the page's `numbers.js` unpacks, a tile is a short head, then numbers.

====== ======= ==========================================================
offset kind    what
====== ======= ==========================================================
0      4 bytes ``ELM1``
4      uint8   0: float32, NaN missing; 1: uint16 from `low` to `high`,
               65535 missing, as differences; 2: uint8, a mask
5      uint8   channels
6      uint8   1 for a first look that will be better if asked for again
7      uint8   of differences, how many times they were taken: 1 or 2
8      uint16  rows, and uint16 columns
12     float32 low, and float32 high
20             numbers, row by row, channels last, little-endian
====== ======= ==========================================================

Differences are taken along each row, modulo 65536; 0, -1, 1, -2 ... are written as 0, 1, 2, 3 ...,
all their low bytes first, then all their high ones: close in, where neighbours are nearly on a
line, they compress to half.
"""

import math
import struct
import threading
import time
from contextlib import nullcontext
from functools import cached_property, lru_cache, partial
from itertools import product

import numpy as np

from elmfield._array.backend import to_numpy
from elmfield._array.cache import Recent
from elmfield._array.typing import Array
from elmfield.field.grid_values import coarse_means
from elmfield.samples import channels_last
from elmfield.show import layers
from elmfield.show.layers import Look, middles
from elmfield.show.scene import TILE_PIXELS, Scene, Spans

HEAD = struct.Struct("<4sBBBBHHff")
MISSING_CODE = 65535
"""Stands for a missing number in 16 bits."""

KEPT_BYTES = 64 << 20
"""Of tiles that are kept."""

OVERVIEW_NUMBERS = 1 << 22
"""Of one overview, at most."""

MAX_OVERVIEWS = 6
"""That are kept: of three planes, and those before a slider moved."""

FIRST_NUMBERS = 1 << 18
"""Of a first look."""

LOSSY_MAX_SAMPLES = 1 << 26
"""Of a file coded with loss, to be looked at first: all their first bytes are read at once."""

PIECE_SAMPLES = 1 << 18
"""Samples evaluated before another request gets its turn."""

RANGE_PLACES = 160
"""Along each axis that is shown, of which the range of colours is read."""

SLIDER_PLACES = 3
"""Along each slider, of which it is read."""

ZERO_SHARE = 1e-6
"""What is smaller than this part of the range is 0 in it, but for rounding: no one reads -8e-12."""


class Overview:
    """Means of all that a look shows, at a level and at those above it.

    `level` is the finest that has at most `OVERVIEW_NUMBERS` of them; `step` makes the next piece.
    """

    def __init__(self, scene: Scene, look: Look) -> None:
        self.scene, self.look = scene.on_axes(look.axes), look
        plane, C = self.scene.plane, len(look.channels)
        self.level = 1
        while np.prod(plane.pixels(self.level)) * C > OVERVIEW_NUMBERS:
            self.level += 1
        size = plane.pixels(self.level)
        self.error: Exception | None = None
        self._base = np.full((*size, C), np.inf, np.float32)  # infinite: not yet
        self._side = max(8, min(TILE_PIXELS, int(PIECE_SAMPLES**0.5) >> self.level))
        self._pieces = list(product(*(range(0, n, self._side) for n in size)))

    @property
    def done(self) -> bool:
        """Whether all of it is there."""
        return not self._pieces

    def shows(self, level: int) -> bool:
        """Whether there is something to show at a level: all of it, or a first look."""
        return level >= self.level and (self.done or "first" in vars(self))

    def step(self) -> None:
        """Make one piece more."""
        spans = [
            (k, min(k + self._side, n)) for k, n in zip(self._pieces[-1], self._base.shape[:2])
        ]
        edges = self.scene.plane.edges(self.level, spans)
        where = tuple(slice(*span) for span in spans)
        self._base[where] = layers.means_on_plane(self.scene, self.look, *edges)
        self._pieces.pop()

    def part(self, level: int, spans: Spans) -> Array:
        """The means in some rows and columns of pixels; infinite where they are not there yet."""
        shown = _at_level(self._base, self.level, level, spans)
        if self.done or self.first is None:
            return shown
        coarse, values = self.first
        return np.where(np.isinf(shown), _at_level(values, coarse, level, spans), shown)

    @cached_property
    def first(self) -> tuple[int, Array] | None:
        """Level and numbers of a first look; None where all of a file would have to be decoded."""
        scene, field, look = self.scene, self.scene.field, self.look
        boxes = field.model.blended.source_samples
        is_plain = (look.quantity, look.method) == ("value", "field") and not field.model.is_complex
        level = self.level
        is_coded = boxes is not None and boxes.tiles is not None
        if boxes is not None and is_coded:
            n, quick = math.prod(field.shape), boxes.quick_level
            if not is_plain or quick is None or (boxes.is_lossy and n > LOSSY_MAX_SAMPLES):
                return None
            level = quick
        elif boxes is None or not is_plain or len(field.shape) > 2 or scene.missing is not None:
            while math.prod(scene.plane.pixels(level)) > FIRST_NUMBERS:
                level += 1
            return level, layers.on_plane(scene, look, *map(middles, scene.plane.edges(level)))
        most = 4 * FIRST_NUMBERS if is_coded else FIRST_NUMBERS
        while math.prod(-(-n >> level) for n in field.shape) > most:
            level += 1
        values = channels_last(to_numpy(coarse_means(field.model, level)), field.model.channel_axis)
        x = layers.spread(scene, look.at, *map(middles, scene.plane.edges(level)))
        at = [
            np.clip(np.floor((c + 0.5) / 2**level).astype(int), 0, m - 1)
            for c, m in zip(x, values.shape)
        ]
        shown = np.asarray(scene.to_plane(values[np.ix_(*at)]), np.float32)
        return level, shown[..., list(look.channels)]


def _at_level(values: Array, own: int, level: int, spans: Spans) -> Array:
    """Some rows and columns of pixels at a level, of means (p, q, C) at a level of their own."""
    if level <= own:  # each of theirs stands for several
        at = [np.arange(*span) >> (own - level) for span in spans]
        return np.asarray(values[np.ix_(*(np.minimum(a, n - 1) for a, n in zip(at, values.shape)))])
    size = 1 << (level - own)
    some = values[tuple(slice(first * size, last * size) for first, last in spans)]
    for _ in range(level - own):
        some = halved(some)
    return some


class Tiles:
    """The tiles of a scene.

    All evaluation goes through one lock: fields make no promise about several threads, and linear
    algebra has threads of its own.
    """

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.lock = threading.Lock()
        self._kept = Recent[tuple[object, ...], bytes]()
        self._overview = lru_cache(MAX_OVERVIEWS)(partial(Overview, scene))
        self._wanted: Overview | None = None
        self._builder: threading.Thread | None = None
        self._stats: dict[object, list[list[float]]] = {}
        self._stopped = False

    def close(self) -> None:
        """Build no further."""
        self._stopped = True

    def tile(self, look: Look, level: int, row: int, column: int) -> bytes:
        """One tile, packed."""
        key = (look, level, row, column)
        if (kept := self._kept.find(key)) is not None:
            return kept
        # Where nothing must be evaluated it need not wait.
        shows = level > 0 and look.quantity != "regions" and self._overview(look).shows(level)
        with nullcontext() if shows else self.lock:
            values, draft = self.values(*key)
        made = pack_floats(values, draft=draft)
        if not draft:
            self._kept.keep(key, made, KEPT_BYTES, len)
        return made

    def values(self, look: Look, level: int, row: int, column: int) -> tuple[Array, bool]:
        """The numbers of a tile, and whether they are a first look."""
        scene = self.scene.on_axes(look.axes)
        sides = zip((row, column), scene.plane.pixels(level))
        spans = [(k * TILE_PIXELS, min((k + 1) * TILE_PIXELS, n)) for k, n in sides]
        edges = scene.plane.edges(level, spans)
        if look.quantity == "regions":
            return layers.region_lines(scene, look.at, *edges), False
        if level <= 0:
            return layers.on_plane(scene, look, *map(middles, edges)), False
        overview = self._overview(look)
        if level < overview.level:
            return layers.means_on_plane(scene, look, *edges), False
        if overview.done:
            return overview.part(level, spans), False
        if overview.error is not None:
            raise overview.error
        self._build(overview)
        return overview.part(level, spans), True

    def whole(self, look: Look, level: int, row: int, column: int) -> Array:
        """The numbers of a tile, never a first look: what is missing for it is made at once."""
        if level > 0 and look.quantity != "regions":
            overview = self._overview(look)
            while level >= overview.level and not overview.done:
                overview.step()
        return self.values(look, level, row, column)[0]

    def ready(self, look: Look) -> None:
        """Take a first look and begin with the overview, before anybody asks."""
        with self.lock:
            if self.scene.plane.coarsest > 0:
                overview = self._overview(look)
                _ = overview.first  # which tiles show until the means are there
                self._build(overview)

    def quantiles(self, look: Look) -> list[list[float]]:
        """0 to 100 percent of what a look shows, for each channel; read at a few thousand places.

        The same wherever the sliders stand, so that colours keep their meaning. Callers of several
        threads hold the lock.
        """
        key, found = (look.quantity, look.channels, look.part), []
        if key in self._stats:
            return self._stats[key]
        scene, domain = self.scene, self.scene.field.domain
        places = dict.fromkeys(scene.others, SLIDER_PLACES)
        usual = RANGE_PLACES ** (2 if scene.is_series else 1)
        x = [
            np.unique(np.linspace(0, n - 1, min(n, places.get(k, usual))).round())
            for k, n in enumerate(scene.field.shape)
        ]
        x = list(map(np.clip, x, domain.low, domain.high))
        values = layers.numbers(scene, look, x).reshape(-1, len(look.channels))
        for v in values.T:
            v = v[np.isfinite(v)]
            q = np.percentile(v, np.arange(101)) if v.size else np.linspace(0, 1, 101)
            q[np.abs(q) < ZERO_SHARE * (q[-1] - q[0])] = 0
            found.append(q.tolist())
        return self._stats.setdefault(key, found)

    def _build(self, overview: Overview) -> None:
        self._wanted = overview
        if self._builder is None or not self._builder.is_alive():
            self._builder = threading.Thread(target=self._work, daemon=True, name="overview")
            self._builder.start()

    def _work(self) -> None:
        """Piece by piece of the overview that was asked for last; tiles come between."""
        while not self._stopped:
            time.sleep(0.002)  # requests that wait for the lock go first
            with self.lock:
                wanted = self._wanted
                if wanted is None or wanted.done:
                    self._wanted = None
                    return
                try:
                    wanted.step()
                except Exception as error:  # whoever asks next for the same numbers is told
                    wanted.error, self._wanted = error, None
                    return


def halved(values: Array) -> Array:
    """Means of two by two pixels, (ceil(p / 2), ceil(q / 2), C); missing ones do not count."""
    p, q, C = values.shape
    even = np.full((p + p % 2, q + q % 2, C), np.nan, np.float32)
    even[:p, :q] = values
    return layers.box_means(even, (2, 2), 1)


# --- bytes ----------------------------------------------------------------------------------------


def pack_floats(values: Array, *, draft: bool = False) -> bytes:
    """Numbers (p, q, C) as float32, or a mask (p, q)."""
    if values.dtype == bool:
        body, kind, channels = values.astype(np.uint8), 2, 1
    else:
        body, kind, channels = values.astype("<f4"), 0, values.shape[2]
    p, q = values.shape[:2]
    head = HEAD.pack(b"ELM1", kind, channels, draft, 0, p, q, 0, 1)
    return head + bytes(body.tobytes())


def pack_short(values: Array) -> bytes:
    """Numbers (p, q, C) in 16 bits each, from the tile's lowest to its highest, as differences."""
    finite = np.isfinite(values)
    some = values[finite] if finite.any() else np.asarray([0.0, 1.0])
    low, high = float(some.min()), float(some.max())
    span = high - low if high > low else 1.0
    whole = np.where(
        finite, np.round((np.where(finite, values, low) - low) / span * 65534), MISSING_CODE
    )
    once = _differences(whole.astype(np.uint16))
    times, best = min(
        enumerate((once, _differences(once)), 1), key=lambda d: np.abs(d[1].view(np.int16)).mean()
    )
    d = best.view(np.int16).astype(np.int32)
    z = ((d << 1) ^ (d >> 31)).astype("<u2")
    p, q, C = values.shape
    head = HEAD.pack(b"ELM1", 1, C, 0, times, p, q, low, low + span)
    return head + bytes(z.reshape(-1).view(np.uint8).reshape(-1, 2).T.tobytes())


def _differences(whole: Array) -> Array:
    return np.diff(whole, axis=1, prepend=np.zeros_like(whole[:, :1]))
