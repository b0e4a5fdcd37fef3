"""What both ends know of a tile's levels: sizes of boxes, planes of means, which boxes are cut.

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
from typing import Any

import numpy as np
from numpy.typing import NDArray

from elmfield._array import compiled
from elmfield.codec.adaptive import Adaptive
from elmfield.codec.lossy import means
from elmfield.codec.lossy.boxes import FRACTION, LARGEST, Floats, Modes, joined, modes, samples
from elmfield.codec.lossy.contexts import Counts, Walk, checkerboard, neighbours
from elmfield.codec.lossy.lanes import damaged
from elmfield.codec.lossy.magnitudes import LARGEST_MAGNITUDE

Whole = NDArray[np.int64]
Mask = NDArray[np.bool_]
Shape = tuple[int, ...]

ABOVE = {1: 16, 2: 8, 3: 4, 4: 4}
"""Size of the boxes of a plane of means, by axes."""
UNIT = 1 << FRACTION


def boxed(shape: Shape, B: int) -> Shape:
    """Channels and numbers of boxes along each axis."""
    return (shape[0], *(-(-n // B) for n in shape[1:]))


FEW = 16
"""A plane of so many means is written as it is."""


def few(shape: Shape) -> bool:
    """Whether a plane is written as it is."""
    return math.prod(shape[1:]) <= FEW


def planes(shape: Shape, B: int) -> list[Shape]:
    """Shapes of the planes of means above boxes of B samples, upwards to one of few means."""
    found = [boxed(shape, B)]
    while not few(found[-1]):
        found.append(boxed(found[-1], ABOVE[len(shape) - 1]))
    return found


def pieces(mask: NDArray[np.generic], grid: Shape) -> NDArray[np.generic]:
    """Something of every box for each of its halves along all axes: (C G,) as (C 2G ...,)."""
    out = mask.reshape(grid)
    for k in range(1, len(grid)):
        out = out.repeat(2, axis=k)
    return out.ravel()


def halved_magnitudes(A: Counts, m: Modes, grid: Shape) -> Counts:
    """Magnitudes of boxes as the halves would have them, rows sorted: means of 2^d modes."""
    d, b = m.d, m.B // 2
    natural = np.empty_like(A)
    natural[m.rows] = A
    groups = natural.reshape([v for _ in range(d) for v in (b, 2)] + [-1])
    total = (groups.sum(axis=tuple(range(1, 2 * d, 2)), dtype=np.int32) + (1 << d >> 1)) >> d
    rows = total.reshape(b**d, -1)[modes(b, d).rows]
    whose = pieces(np.arange(A.shape[1]), grid)
    return np.asarray(rows.take(whose, axis=1))


@dataclass(frozen=True)
class Part:
    """Boxes of one size: their modes, the plane of their means, which of them are coded here."""

    m: Modes
    plane: Whole  # (C, G...)
    active: Mask | None = None  # (C G,)

    def walk(self, around: Counts | None = None) -> Walk:
        """The order of coding."""
        return Walk(self.m.B, self.plane.shape, means.expected(self.plane), self.active, around)

    def values(self, q: Counts, points: NDArray[np.int8], weights: NDArray[np.int8]) -> Floats:
        """Modes in units, natural order, as whole floats; of all boxes, (M, boxes)."""
        return self._values(q, points, weights, np.arange(q.shape[1]))

    def active_values(
        self, q: Counts, points: NDArray[np.int8], weights: NDArray[np.int8]
    ) -> Floats:
        """The same of active boxes only."""
        if self.active is None:
            return self.values(q, points, weights)
        return self._values(q, points, weights, np.flatnonzero(self.active))

    def _values(
        self,
        q: Counts,
        points: NDArray[np.int8],
        weights: NDArray[np.int8],
        boxes: NDArray[np.intp],
    ) -> Floats:
        out = np.zeros((len(q), len(boxes)), np.float64)
        if compiled.pays(0):
            from elmfield.codec.lossy import loops

            loops.values(q, self.m.rows, boxes, np.append([0], points), out)
        else:
            q = q.take(boxes, axis=1)
            some = np.flatnonzero(q)
            v = q.ravel()[some]
            a = np.abs(v)
            r = a * float(UNIT) - points.astype(np.float64)[np.minimum(a, 3) - 1]
            i, j = np.divmod(some, len(boxes))
            out[self.m.rows[i], j] = np.where(v < 0, -r, r)
        out[0] = self.plane.ravel()[boxes]
        for row, guess in means.predicted(means.differences(self.plane, self.m), weights):
            out[self.m.rows[row]] += guess[boxes]
        return out

    def samples(self, r: Floats) -> Whole:
        """Samples of all boxes in units, (C, G B...)."""
        y = samples(r, self.m.B, self.m.d).reshape([self.m.B] * self.m.d + list(self.plane.shape))
        return joined(y, self.m.d).astype(np.int64)


def few_bytes(steps: Whole) -> bytes:
    """Differences of whole numbers in order, behind a byte for their width in bytes."""
    differences = np.diff(steps.ravel(), prepend=0)
    width = next(w for w in (1, 2, 4) if w == 4 or np.abs(differences).max() < 1 << (8 * w - 1))
    return bytes([width]) + differences.astype(f"<i{width}").tobytes()


def few_means(data: bytes, shape: Shape) -> Whole:
    """What :func:`few_bytes` wrote."""
    width = data[0] if data else 0
    if width not in (1, 2, 4) or len(data) != 1 + width * math.prod(shape):
        raise damaged("begins with a wrong plane")
    steps = np.cumsum(np.frombuffer(data, f"<i{width}", offset=1), dtype=np.int64)
    if int(np.abs(steps).max()) > LARGEST >> FRACTION:
        raise damaged("begins with impossible means")
    return steps.reshape(shape)


def too_large(q: NDArray[Any], r: Floats, part: "Part") -> bool:
    """Whether counts, or modes made of them, exceed what a decoder's whole numbers hold."""
    growth = (2 * part.m.B) ** ((part.m.d - 1) / 2)
    largest, most = (max(-float(a.min(initial=0)), float(a.max(initial=0))) for a in (q, r))
    return largest > LARGEST_MAGNITUDE or not most * growth <= LARGEST


CUT_COUNTS = np.array([[64, 64], [96, 16], [80, 32], [64, 64], [32, 80], [16, 96]], np.int64)
"""Counts of boxes that stay and are cut: for even places, then by how many neighbours are cut."""


def cut_tables() -> Adaptive:
    """The tables of cuts at the start."""
    return Adaptive(CUT_COUNTS, 12)


def cut_batches(
    cuts: NDArray[np.uint8], may: Mask, grid: Shape
) -> Iterator[tuple[NDArray[np.intp], NDArray[np.uint8]]]:
    """Boxes that may be cut and their classes, even places first; `cuts` is filled by who reads."""
    one = (1, *grid[1:])
    for phase, boxes in enumerate(checkerboard(one)):
        boxes = boxes[may[boxes]]
        if len(boxes):
            classes = np.zeros(len(boxes), np.uint8)
            if phase:
                d, now = len(one) - 1, cuts.astype(np.int32)
                near = sum(now[a[boxes]] + now[b[boxes]] for _, (a, b) in neighbours(one))
                classes = (1 + np.asarray(near) * 4 // (2 * d)).astype(np.uint8)
            yield boxes, classes


def box_sizes(parts: list[Part], shape: Shape) -> NDArray[np.uint8]:
    """The size of the box that every sample is in, shape (n...)."""
    out = np.full(shape[1:], parts[-1].m.B, np.uint8)
    for part in parts[:-1]:
        if part.active is not None:
            inside = part.active[: math.prod(part.plane.shape[1:])].reshape(part.plane.shape[1:])
            for k, n in enumerate(shape[1:]):
                inside = inside.repeat(part.m.B, axis=k).take(np.arange(n), axis=k)
            out[inside] = part.m.B
    return out


def placed(out: Whole | None, part: Part, r: Floats) -> Whole:
    """Samples of the active boxes of a part, from their modes, put where the boxes are."""
    if part.active is None:
        return part.samples(r)
    B, d = part.m.B, part.m.d
    grid = part.plane.shape
    out = np.zeros((grid[0], *(g * B for g in grid[1:])), np.int64) if out is None else out
    which = np.flatnonzero(part.active)
    if which.size:
        y = samples(r, B, d).astype(np.int64)
        place = np.unravel_index(which, grid)
        split = out.reshape(grid[0], *(v for g in grid[1:] for v in (g, B)))
        order = [0, *(1 + 2 * k for k in range(d)), *(2 + 2 * k for k in range(d))]
        split.transpose(order)[place] = y.T.reshape([-1] + [B] * d)
    return out
