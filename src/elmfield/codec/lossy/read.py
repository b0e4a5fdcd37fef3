"""Sections of bytes to samples in steps, and what both ends know of a tile's levels.

Every section of a tile holds one level, the smallest first, so a decoder that stops early has a
small picture:

- a plane of few means, as it is;
- boxes of planes of means, down to the plane of the largest boxes;
- for every smaller size of boxes: which boxes are cut in halves, and the means of the pieces;
- the modes of all boxes, large ones first.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from elmfield.codec.ans import AdaptiveTables
from elmfield.codec.container import damaged
from elmfield.codec.lossy import contexts, deblock, transform
from elmfield.codec.lossy.coder import MagnitudeReader, StreamReader, code_boxes, section_tables
from elmfield.codec.lossy.contexts import BoxWalk, Counts, Places, load_prior
from elmfield.codec.lossy.transform import FRACTION, LARGEST, UNIT, Floats, Modes, Whole, modes

Mask = NDArray[np.bool_]
Shape = tuple[int, ...]

PLANE_BOX = {1: 16, 2: 8, 3: 4, 4: 4}
"""Size of the boxes of a plane of means, by axes."""
FEW_MEANS = 16
"""A plane of so many means is written as it is."""
CUT_COUNTS = np.array([[64, 64], [96, 16], [80, 32], [64, 64], [32, 80], [16, 96]], np.int64)
"""Counts of boxes that stay and are cut: for even places, then by how many neighbours are cut."""


def grid_shape(shape: Shape, B: int) -> Shape:
    """Return channels and numbers of boxes along each axis."""
    return (shape[0], *(-(-n // B) for n in shape[1:]))


def is_few(shape: Shape) -> bool:
    """Whether a plane is written as it is."""
    return math.prod(shape[1:]) <= FEW_MEANS


def plane_shapes(shape: Shape, B: int) -> list[Shape]:
    """Return shapes of planes of means above boxes of B samples, upwards to one of few means."""
    found = [grid_shape(shape, B)]
    while not is_few(found[-1]):
        found.append(grid_shape(found[-1], PLANE_BOX[len(shape) - 1]))
    return found


def repeat_for_pieces(mask: NDArray[np.generic], grid: Shape) -> NDArray[np.generic]:
    """Return something of every box for each half along all axes: (C G,) as (C 2G ...,)."""
    out = mask.reshape(grid)
    for k in range(1, len(grid)):
        out = out.repeat(2, axis=k)
    return out.ravel()


def halve_magnitudes(A: Counts, m: Modes, grid: Shape) -> Counts:
    """Return magnitudes of boxes as the halves would have them, rows sorted: means of 2^d modes."""
    d, b = m.d, m.B // 2
    natural = np.empty_like(A)
    natural[m.rows] = A
    groups = natural.reshape([v for _ in range(d) for v in (b, 2)] + [-1])
    total = (groups.sum(axis=tuple(range(1, 2 * d, 2)), dtype=np.int32) + (1 << d >> 1)) >> d
    rows = total.reshape(b**d, -1)[modes(b, d).rows]
    whose = repeat_for_pieces(np.arange(A.shape[1]), grid)
    return np.asarray(rows.take(whose, axis=1))


@dataclass(frozen=True)
class Part:
    """Boxes of one size: their modes, the plane of their means, which of them are coded here."""

    m: Modes
    plane: Whole  # (C, G...)
    active: Mask | None = None  # (C G,)

    @cached_property
    def differences(self) -> list[tuple[int, Whole]]:
        """Rows that can be predicted, and what they follow."""
        return transform.plane_differences(self.plane, self.m)

    def walk(self, around: Counts | None = None) -> BoxWalk:
        """Return the order of coding."""
        lowest = transform.expect_magnitudes(self.plane)
        return BoxWalk(self.m.B, self.plane.shape, lowest, self.active, around)

    def values(
        self, q: Counts, points: NDArray[np.int8], weights: NDArray[np.int8], *, every: bool
    ) -> Floats:
        """Return modes in units, natural order, as whole floats, of every box or active ones."""
        boxes: slice | Places = slice(None)
        if self.active is not None and not every:
            boxes = np.flatnonzero(self.active)
            q = q.take(boxes, axis=1)
        out = np.zeros(q.shape, np.float64)
        some = np.flatnonzero(q)
        v = q.ravel()[some]
        a = np.abs(v)
        r = a * float(UNIT) - points.astype(np.float64)[np.minimum(a, 3) - 1]
        i, j = np.divmod(some, q.shape[1])
        out[self.m.rows[i], j] = np.where(v < 0, -r, r)
        out[0] = self.plane.ravel()[boxes]
        for row, guess in transform.predict_rows(self.differences, weights):
            out[self.m.rows[row]] += guess[boxes]
        return out

    def samples(self, r: Floats) -> Whole:
        """Return samples of all boxes in units, (C, G B...)."""
        shape = [self.m.B] * self.m.d + list(self.plane.shape)
        y = transform.find_samples(r, self.m.B, self.m.d).reshape(shape)
        return transform.join_boxes(y, self.m.d).astype(np.int64)

    def overflows(self, q: NDArray[Any], r: Floats) -> bool:
        """Whether counts, or modes made of them, exceed what a decoder's whole numbers hold."""
        growth = (2 * self.m.B) ** ((self.m.d - 1) / 2)
        largest, most = (max(-float(a.min(initial=0)), float(a.max(initial=0))) for a in (q, r))
        return largest > contexts.LARGEST_MAGNITUDE or not most * growth <= LARGEST

    def place_samples(self, r: Floats, out: Whole | None) -> Whole:
        """Put samples of the active boxes, from their modes, where the boxes are."""
        if self.active is None:
            return self.samples(r)
        B, d, grid = self.m.B, self.m.d, self.plane.shape
        out = np.zeros((grid[0], *(g * B for g in grid[1:])), np.int64) if out is None else out
        which = np.flatnonzero(self.active)
        if which.size:
            y = transform.find_samples(r, B, d).astype(np.int64)
            split = out.reshape(grid[0], *(v for g in grid[1:] for v in (g, B)))
            order = [0, *(1 + 2 * k for k in range(d)), *(2 + 2 * k for k in range(d))]
            place = np.unravel_index(which, grid)
            split.transpose(order)[place] = y.T.reshape([-1] + [B] * d)
        return out


def cut_batches(
    cuts: NDArray[np.uint8], may: Mask, grid: Shape
) -> Iterator[tuple[NDArray[np.intp], NDArray[np.uint8]]]:
    """Yield boxes that may be cut and their classes, even first; the caller fills `cuts`."""
    one = (1, *grid[1:])
    for phase, boxes in enumerate(contexts.checkerboard(one)):
        boxes = boxes[may[boxes]]
        if len(boxes):
            classes = np.zeros(len(boxes), np.uint8)
            if phase:
                d, now = len(one) - 1, cuts.astype(np.int32)
                pairs = contexts.box_neighbours(one)
                near = sum(now[a[boxes]] + now[b[boxes]] for _, (a, b) in pairs)
                classes = (1 + np.asarray(near) * 4 // (2 * d)).astype(np.uint8)
            yield boxes, classes


def box_sizes(parts: list[Part], shape: Shape) -> NDArray[np.uint8]:
    """Return the size of the box that every sample is in, shape (n...)."""
    out = np.full(shape[1:], parts[-1].m.B, np.uint8)
    for part in parts[:-1]:
        if part.active is not None:
            inside = part.active[: math.prod(part.plane.shape[1:])].reshape(part.plane.shape[1:])
            for k, n in enumerate(shape[1:]):
                inside = inside.repeat(part.m.B, axis=k).take(np.arange(n), axis=k)
            out[inside] = part.m.B
    return out


# --- reading --------------------------------------------------------------------------------------


def read_samples(
    sections: list[bytes], shape: Shape, B: int, n_cuts: int, gains: NDArray[np.uint8] | None
) -> Whole:
    """Return samples in units of ``step / 2^FRACTION``; `gains` say how strongly to deblock."""
    plane = read_means(sections, shape, B)
    n_planes = len(plane_shapes(shape, B))
    y, parts = _read_boxes(sections[n_planes:], plane, shape, B, n_cuts)
    if gains is None:
        return y
    weights = load_prior(len(shape) - 1).smoothing
    return deblock.smooth(y, box_sizes(parts, shape), weights, gains)


def read_means(sections: list[bytes], shape: Shape, B: int) -> Whole:
    """Return the plane of the means of the largest boxes, in units."""
    d, shapes = len(shape) - 1, plane_shapes(shape, B)
    plane = _read_few(sections[0], shapes[-1]) * UNIT
    for wanted, data in zip(reversed(shapes[:-1]), sections[1:]):
        part = Part(modes(PLANE_BOX[d], d), plane)
        heads, reader = _read_heads(data, [part])
        plane = part.samples(_read_parts([part], heads, reader, every=True)[0])
        plane = plane[tuple(slice(n) for n in wanted)]
    return plane


def _read_few(data: bytes, shape: Shape) -> Whole:
    """Return a plane of few means, in steps: differences behind a byte for their width."""
    width = data[0] if data else 0
    if width not in (1, 2, 4) or len(data) != 1 + width * math.prod(shape):
        raise damaged("begins with a wrong plane")
    steps = np.cumsum(np.frombuffer(data, f"<i{width}", offset=1), dtype=np.int64)
    if int(np.abs(steps).max()) > LARGEST >> FRACTION:
        raise damaged("begins with impossible means")
    return steps.reshape(shape)


PartHead = tuple[NDArray[np.int8], NDArray[np.int8]]
"""Points and weights of a part."""


def _read_heads(data: bytes, parts: list[Part]) -> tuple[list[PartHead], StreamReader]:
    """Return the heads of the parts of a section, and the reader of its stream."""
    heads, a = [], 0
    for part in parts:
        n = part.m.starts[min(3, len(part.m.starts) - 1)] - 1
        if len(data) < a + 3 + n + 3:
            raise damaged("has a section that is too short")
        heads.append((np.frombuffer(data, np.int8, 3, a), np.frombuffer(data, np.int8, n, a + 3)))
        a += 3 + n
    return heads, StreamReader(data[a:])


def _read_parts(
    parts: list[Part], heads: list[PartHead], reader: StreamReader, *, every: bool
) -> list[Floats]:
    """Return modes of all parts of a section in units, natural order; of every box or active."""
    around, done, tables = None, [], section_tables(parts[0].m.d)
    for part in parts:
        walk = part.walk(around)
        coder = MagnitudeReader(tables, reader, walk.A.shape[1])
        code_boxes(walk, load_prior(part.m.d), coder)
        done.append((walk, coder))
        if part is not parts[-1]:
            around = halve_magnitudes(walk.A, part.m, part.plane.shape)
    reader.finish_symbols()
    found = []
    for part, (walk, coder), head in zip(parts, done, heads):
        q = coder.finish(walk.A, part.active)
        found.append(part.values(q, *head, every=every))
        if part.overflows(q, found[-1]):
            raise damaged("has impossible values")
    return found


def _read_boxes(
    sections: list[bytes], plane: Whole, shape: Shape, B: int, n_cuts: int
) -> tuple[Whole, list[Part]]:
    """Return samples from the sections below the plane of the largest boxes; the last parts."""
    C, d = shape[0], len(shape) - 1
    may, parts = np.ones(int(np.prod(plane.shape[1:])), bool), []
    for data in sections[:n_cuts]:
        m = modes(2, d)
        heads, reader = _read_heads(data, [Part(m, plane)])
        cuts, tables = np.zeros(len(may), np.uint8), AdaptiveTables(CUT_COUNTS)
        for boxes, classes in cut_batches(cuts, may, plane.shape):
            cuts[boxes] = reader.symbols(tables, classes)
        cut = cuts > 0
        part = Part(m, plane, np.tile(cut, C))
        parts.append(Part(modes(B, d), plane, np.tile(may & ~cut, C)))
        may = repeat_for_pieces(cut, (1, *plane.shape[1:]))
        plane = part.samples(_read_parts([part], heads, reader, every=True)[0])
        B //= 2
    parts.append(Part(modes(B, d), plane, None if may.all() else np.tile(may, C)))
    heads, reader = _read_heads(sections[n_cuts], parts)
    out = None
    for part, r in zip(parts, _read_parts(parts, heads, reader, every=False)):
        out = part.place_samples(r, out)
    assert out is not None
    return out[tuple(slice(n) for n in shape)], parts
