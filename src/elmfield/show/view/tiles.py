"""Tiles: parts of what is seen at a level, kept while there is room; one is made at a time.

Far out a pixel stands for many samples. Their means are built once, in the background, piece by
piece. Until they are there, tiles are first looks: means of the samples a field is made of, or
those that a file tells before it is decoded; else the pieces so far, or one place for each pixel.
"""

import math
import threading
import time
from collections import OrderedDict
from functools import cached_property

import numpy as np

from elmfield._array.backend import move, to_numpy
from elmfield._array.typing import Array, Floats
from elmfield.field import Field
from elmfield.field.tiles import Coded
from elmfield.show.view.looks import Look, means_on_plane, numbers, on_plane, region_lines, spread
from elmfield.show.view.packed import packed
from elmfield.show.view.plane import TILE
from elmfield.show.view.scene import Scene

KEPT = 64 << 20
"""Bytes of tiles that are kept."""

NUMBERS = 1 << 22
"""Numbers of one overview."""

QUICK = 1 << 18
"""Numbers of a first look, and"""
READ = 1 << 26
"""samples it may be of in a file coded with loss: all their first bytes are read at once."""

OVERVIEWS = 4
"""Overviews that are kept."""

AT_ONCE = 1 << 18
"""Samples that are evaluated before somebody else may ask."""

STATED = 160
"""Places along each axis, and"""
PLACES = 3
"""places along each slider, of which the range of colours is read."""


class Overview:
    """Means of all that a look shows, at a level and at those above it.

    `level` is the finest that has at most `NUMBERS` of them; `step` makes the next piece.
    """

    def __init__(self, scene: Scene, look: Look) -> None:
        self.scene, self.look = scene, look  # `drafts` are first looks while there is no better
        plane, C = scene.plane, len(look.channels)
        self.level = 1
        while np.prod(plane.pixels(self.level)) * C > NUMBERS:
            self.level += 1
        self.size = plane.pixels(self.level)
        self.levels: dict[int, Array] = {}
        self.drafts: dict[tuple[int, int, int], Array] = {}
        self.error: Exception | None = None
        self._base = np.full((*self.size, C), np.inf, np.float32)  # infinite: not yet
        side = max(8, min(TILE, int(AT_ONCE**0.5) >> self.level))
        self._pieces = [
            (i, j) for i in range(0, self.size[0], side) for j in range(0, self.size[1], side)
        ]
        self._side = side

    @property
    def done(self) -> bool:
        """Whether all of it is there."""
        return bool(self.levels)

    def step(self) -> None:
        """Make one piece more."""
        i, j = self._pieces.pop()
        ends = [min(k + self._side, n) for k, n in zip((i, j), self.size)]
        edges = [
            self.scene.plane.edges(k, self.level, first, last)
            for k, (first, last) in enumerate(zip((i, j), ends))
        ]
        self._base[i : ends[0], j : ends[1]] = means_on_plane(self.scene, self.look, *edges)
        if not self._pieces:
            self._finish()

    def _finish(self) -> None:
        levels, level = {self.level: self._base}, self.level
        while level < self.scene.plane.coarsest:
            levels[level + 1] = halved(levels[level])
            level += 1
        self.levels = levels
        self.drafts.clear()

    def part(self, level: int, rows: tuple[int, int], columns: tuple[int, int]) -> Array:
        """The means in some rows and columns of pixels; infinite where nobody knows them yet."""
        if self.done:
            return self.levels[level][rows[0] : rows[1], columns[0] : columns[1]]
        shown = _at_level(self._base, self.level, level, rows, columns)
        if self.first is None:
            return shown
        coarse, values = self.first
        return np.where(np.isinf(shown), _at_level(values, coarse, level, rows, columns), shown)

    @cached_property
    def first(self) -> tuple[int, Array] | None:
        """Level and numbers of a first look: means of samples in memory, or those a file has ready.

        None where there are none to be had quickly: other quantities, files without an overview.
        """
        field, look = self.scene.field, self.look
        boxes = field.blended.made_of
        plain = (look.quantity, look.method) == ("value", "field") and not field.is_complex
        if boxes is None or not plain:
            return None
        if boxes.coded is not None:
            return self._glance(boxes.coded)
        plane, n = self.scene.plane, math.prod(field.shape)
        if plane.size != field.shape or self.scene.missing is not None:
            return None
        level = self.level
        while n >> (2 * level) > QUICK:
            level += 1
        values = _means_of_samples(field, level)
        for axis, flipped in enumerate(plane.flipped):
            values = np.flip(values, axis) if flipped else values
        return level, np.asarray(values[..., list(look.channels)], np.float32)

    def _glance(self, coded: Coded) -> tuple[int, Array] | None:
        """What a file tells before it is decoded, at the pixels of a level."""
        scene, level = self.scene, coded.glance
        n = math.prod(scene.field.shape)
        if level is None or (coded.is_lossy and n > READ):
            return None
        while math.prod(-(-m >> level) for m in scene.field.shape) > 4 * QUICK:
            level += 1
        values = to_numpy(scene.field.coarse(level))
        k = scene.field.channel_axis
        values = values[..., None] if k is None else np.moveaxis(values, k, -1)
        pixels = scene.plane.pixels(level)
        sides = [middles(scene.plane.edges(s, level, 0, m)) for s, m in enumerate(pixels)]
        x = spread(scene, self.look.at, dict(enumerate(sides)))
        at = [
            np.clip(np.floor((c + 0.5) / 2**level).astype(int), 0, m - 1)
            for c, m in zip(x, values.shape)
        ]
        rest = tuple(k for k in range(values.ndim - 1) if k not in scene.plane.axes)
        shown = np.asarray(values[np.ix_(*at)].squeeze(rest), np.float32)
        return level, shown[..., list(self.look.channels)]


def _at_level(
    values: Array, own: int, level: int, rows: tuple[int, int], columns: tuple[int, int]
) -> Array:
    """Some rows and columns of pixels at a level, of means (p, q, C) at a level of their own."""
    if level <= own:  # each of theirs stands for several
        at = [np.arange(*span) >> (own - level) for span in (rows, columns)]
        return np.asarray(values[np.ix_(*(np.minimum(a, n - 1) for a, n in zip(at, values.shape)))])
    size = 1 << (level - own)
    some = values[rows[0] * size : rows[1] * size, columns[0] * size : columns[1] * size]
    for _ in range(level - own):
        some = halved(some)
    return some


def _means_of_samples(field: Field, level: int) -> Array:
    """Means of 2^level by 2^level of the samples a field of two axes is made of, (p, q, C)."""
    boxes, (n, m), size = field.blended.made_of, field.shape, 1 << level
    assert boxes is not None
    step = size * max(1, AT_ONCE // (m * size))
    across, found = np.arange(0, m, size), []
    widths = np.diff(np.append(across, m))[:, None]
    for i in range(0, n, step):
        block = to_numpy(boxes.block((slice(i, min(i + step, n)), slice(0, m))))
        down = np.arange(0, len(block), size)
        sums = np.add.reduceat(np.add.reduceat(block, down, axis=0), across, axis=1)
        found.append(sums / (np.diff(np.append(down, len(block)))[:, None, None] * widths))
    means = np.concatenate(found)
    flat = field.finish(move(means.reshape(-1, means.shape[-1]), field.offset), True)
    return to_numpy(flat).reshape(*means.shape[:2], -1)


class Turn:
    """A lock, and whether somebody waits for it: the background lets them go first."""

    def __init__(self) -> None:
        self._lock, self._count, self._waiting = threading.Lock(), threading.Lock(), 0

    def __enter__(self) -> None:
        with self._count:
            self._waiting += 1
        self._lock.acquire()
        with self._count:
            self._waiting -= 1

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    def let_pass(self) -> None:
        """Return when nobody waits."""
        while self._waiting:
            time.sleep(0.001)


class Tiles:
    """The tiles of a scene.

    All evaluation goes through one lock: fields make no promise about several threads, and linear
    algebra has threads of its own.
    """

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.lock = Turn()
        self.evaluated = 0
        self._shelf = threading.RLock()  # of what is kept
        self._kept: OrderedDict[tuple[object, ...], bytes] = OrderedDict()
        self._size = 0
        self._overviews: OrderedDict[Look, Overview] = OrderedDict()
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
        found = self._at_hand(*key)
        if found is None:
            with self.lock:
                values, draft = self.values(look, level, row, column)
            found = packed(values, draft=draft)
            if not draft:
                self._keep(key, found)
        return found

    def _at_hand(self, look: Look, level: int, row: int, column: int) -> bytes | None:
        """A tile for which nothing must be evaluated, so that nobody is waited for."""
        key = (look, level, row, column)
        with self._shelf:
            found = self._kept.get(key)
            if found is not None:
                self._kept.move_to_end(key)
                return found
            overview = self._overviews.get(look)
        if overview is None or overview.done or overview.error or level < overview.level:
            return None
        if not self._is_coded or "first" not in vars(overview):
            return None
        return packed(overview.part(level, *self._spans(level, row, column)), draft=True)

    @property
    def _is_coded(self) -> bool:
        """Whether evaluation means decoding a file."""
        boxes = self.scene.field.blended.made_of
        return boxes is not None and boxes.coded is not None

    def _spans(self, level: int, row: int, column: int) -> list[tuple[int, int]]:
        """Pixels of a tile on both sides, from the first to behind the last."""
        n = self.scene.plane.pixels(level)
        return [(k * TILE, min((k + 1) * TILE, m)) for k, m in zip((row, column), n)]

    def values(self, look: Look, level: int, row: int, column: int) -> tuple[Array, bool]:
        """The numbers of a tile, and whether they are a first look."""
        spans = self._spans(level, row, column)
        edges = [self.scene.plane.edges(k, level, *span) for k, span in enumerate(spans)]
        if look.quantity == "regions":
            return region_lines(self.scene, look.at, *edges), False
        self.evaluated += 1
        if level <= 0:
            return on_plane(self.scene, look, *map(middles, edges)), False
        overview = self._overview(look)
        if level < overview.level:
            return means_on_plane(self.scene, look, *edges), False
        if overview.done:
            return overview.part(level, *spans), False
        if overview.error is not None:
            raise overview.error
        if (
            overview.first is None
            and not self._is_coded
            and (level, row, column) not in overview.drafts
        ):
            overview.drafts[level, row, column] = on_plane(self.scene, look, *map(middles, edges))
        self._build(overview)
        if overview.first is not None or self._is_coded:
            return overview.part(level, *spans), True
        return overview.drafts[level, row, column], True

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
                if overview.first is not None or not overview.done:
                    self._build(overview)

    def quantiles(self, look: Look) -> list[list[float]]:
        """0 to 100 percent of what a look shows, for each channel; read at a few thousand places.

        The same wherever the sliders stand, so that colours keep their meaning.
        """
        key = (look.quantity, look.channels, look.part)
        with self.lock:
            if key not in self._stats:
                self._stats[key] = self._quantiles(look)
        return self._stats[key]

    def _quantiles(self, look: Look) -> list[list[float]]:
        scene = self.scene
        others = set(scene.others)
        x: list[Floats] = []
        for k, n in enumerate(scene.field.shape):
            some = min(n, PLACES if k in others else STATED**2 if scene.is_series else STATED)
            at = np.unique(np.linspace(0, n - 1, some).round())
            x.append(np.clip(at, scene.field.domain.low[k], scene.field.domain.high[k]))
        values = numbers(scene, look, x).reshape(-1, len(look.channels))
        found = []
        for v in values.T:
            v = v[np.isfinite(v)]
            q = np.percentile(v, np.arange(101)) if v.size else np.linspace(0, 1, 101)
            found.append([float(c) for c in q])
        return found

    # --- what is kept ---------------------------------------------------------------------------

    def _keep(self, key: tuple[object, ...], made: bytes) -> None:
        with self._shelf:
            self._size += len(made) - len(self._kept.pop(key, b""))
            self._kept[key] = made
            while self._size > KEPT:
                _, old = self._kept.popitem(last=False)
                self._size -= len(old)

    def _overview(self, look: Look) -> Overview:
        with self._shelf:
            found = self._overviews.get(look)
            if found is None:
                found = self._overviews[look] = Overview(self.scene, look)
                if len(self._overviews) > OVERVIEWS:
                    self._overviews.popitem(last=False)
            self._overviews.move_to_end(look)
            return found

    def _build(self, overview: Overview) -> None:
        self._wanted = overview
        if self._builder is None or not self._builder.is_alive():
            self._builder = threading.Thread(target=self._work, daemon=True, name="overview")
            self._builder.start()

    def _work(self) -> None:
        """Piece by piece of the overview that was asked for last; tiles come between."""
        while not self._stopped:
            self.lock.let_pass()
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


def middles(edges: Floats) -> Floats:
    """Between each two edges."""
    return (edges[:-1] + edges[1:]) / 2


def halved(values: Array) -> Array:
    """Means of two by two pixels, (ceil(p / 2), ceil(q / 2), C); missing ones do not count."""
    p, q, C = values.shape
    even = np.full((p + p % 2, q + q % 2, C), np.nan, np.float32)
    even[:p, :q] = values
    boxes = even.reshape(even.shape[0] // 2, 2, even.shape[1] // 2, 2, C)
    have = np.isfinite(boxes)
    count = have.sum(axis=(1, 3))
    total = np.where(have, boxes, 0).sum(axis=(1, 3))
    none = np.where(np.isinf(boxes).any(axis=(1, 3)), np.inf, np.nan)
    return np.where(count > 0, total / np.maximum(count, 1), none).astype(np.float32)


def line(scene: Scene, look: Look, low: float, high: float, n: int) -> tuple[Floats, Array, Array]:
    """A series between two index coordinates: places, values (n, C), and their spread (n, C, 2).

    Where steps are longer than a sample, values are means and the spread is from the lowest to the
    highest sample of each.
    """
    edges = np.linspace(low, high, n + 1)
    inner = max(1, int(np.ceil((high - low) / n - 1e-9)))
    step = np.diff(edges)[:, None] * ((np.arange(inner) + 0.5) / inner)
    fine = (edges[:-1, None] + step).reshape(-1)
    values = numbers(scene, look, spread(scene, look.at, {0: fine}))
    values = values.reshape(n, inner, len(look.channels))
    with np.errstate(invalid="ignore"):
        spans = np.stack([values.min(axis=1), values.max(axis=1)], axis=-1)
    return middles(edges), values.mean(axis=1), spans
