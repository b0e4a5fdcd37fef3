"""Sections of bytes to samples in steps, and what both ends know of a tile's levels.

Every section of a tile holds one level, the smallest first, so a decoder that stops early has a
small picture:

- a plane of few means, as it is;
- boxes of planes of means, down to the plane of the means of boxes of samples;
- boxes of samples.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from elmfield.codec.ans import StreamReader
from elmfield.codec.container import damaged
from elmfield.codec.lossy import contexts, deblock, transform
from elmfield.codec.lossy.coder import MagnitudeReader, code_boxes, section_tables
from elmfield.codec.lossy.contexts import BoxWalk, Counts, load_prior
from elmfield.codec.lossy.transform import FRACTION, LARGEST, UNIT, Floats, Modes, Whole, modes

Shape = tuple[int, ...]

PLANE_BOX = {1: 16, 2: 8, 3: 4, 4: 4}
"""Size of the boxes of a plane of means, by axes."""
FEW_MEANS = 16
"""A plane of so many means is written as it is."""


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


@dataclass(frozen=True)
class Part:
    """Boxes of one size: their modes, and the plane of their means."""

    m: Modes
    plane: Whole  # (C, G...)

    @cached_property
    def differences(self) -> list[tuple[int, Whole]]:
        """Rows that can be predicted, and what they follow."""
        return transform.plane_differences(self.plane, self.m)

    def walk(self) -> BoxWalk:
        """Return the order of coding."""
        return BoxWalk(self.m.B, self.plane.shape, transform.expect_magnitudes(self.plane))

    def values(self, q: Counts, points: NDArray[np.int8], weights: NDArray[np.int8]) -> Floats:
        """Return modes in units, natural order, as whole floats."""
        out = np.zeros(q.shape, np.float64)
        some = np.flatnonzero(q)
        v = q.ravel()[some]
        a = np.abs(v)
        r = a * float(UNIT) - points.astype(np.float64)[np.minimum(a, 3) - 1]
        i, j = np.divmod(some, q.shape[1])
        out[self.m.rows[i], j] = np.where(v < 0, -r, r)
        out[0] = self.plane.ravel()
        for row, guess in transform.predict_rows(self.differences, weights):
            out[self.m.rows[row]] += guess
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


# --- reading --------------------------------------------------------------------------------------


def read_samples(
    sections: list[bytes], shape: Shape, B: int, gains: NDArray[np.uint8] | None
) -> Whole:
    """Return samples in units of ``step / 2^FRACTION``; `gains` say how strongly to deblock."""
    y = _read_part(sections[-1], B, read_means(sections, shape, B), shape)
    if gains is None:
        return y
    return deblock.smooth(y, B, load_prior(len(shape) - 1).smoothing, gains)


def read_means(sections: list[bytes], shape: Shape, B: int) -> Whole:
    """Return the plane of the means of the boxes of samples, in units."""
    shapes = plane_shapes(shape, B)
    plane = _read_few(sections[0], shapes[-1]) * UNIT
    for wanted, data in zip(reversed(shapes[:-1]), sections[1:]):
        plane = _read_part(data, PLANE_BOX[len(shape) - 1], plane, wanted)
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


def _read_part(data: bytes, B: int, plane: Whole, shape: Shape) -> Whole:
    """Return the samples of a section of boxes, from the plane of their means."""
    part, d = Part(modes(B, len(shape) - 1), plane), len(shape) - 1
    n = part.m.starts[min(3, len(part.m.starts) - 1)] - 1
    if len(data) < 3 + n + 3:
        raise damaged("has a section that is too short")
    points, weights = np.frombuffer(data, np.int8, 3), np.frombuffer(data, np.int8, n, 3)
    reader, walk = StreamReader(data[3 + n :]), part.walk()
    coder = MagnitudeReader(section_tables(d), reader, walk.A.shape[1])
    code_boxes(walk, load_prior(d), coder)
    reader.finish()
    q = coder.finish(walk.A)
    r = part.values(q, points, weights)
    if part.overflows(q, r):
        raise damaged("has impossible values")
    return part.samples(r)[tuple(slice(n) for n in shape)]
