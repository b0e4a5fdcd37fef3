"""Sections of bytes to samples in steps."""

import numpy as np
from numpy.typing import NDArray

from elmfield.codec.lossy import smoothing
from elmfield.codec.lossy.boxes import Floats, modes
from elmfield.codec.lossy.lanes import damaged
from elmfield.codec.lossy.parts import (
    ABOVE,
    UNIT,
    Part,
    Shape,
    Whole,
    box_sizes,
    cut_batches,
    cut_tables,
    few_means,
    halved_magnitudes,
    pieces,
    placed,
    planes,
    too_large,
)
from elmfield.codec.lossy.priors import prior
from elmfield.codec.lossy.streams import Follower, Learned, StreamReader
from elmfield.codec.lossy.walking import walked


def read(
    sections: list[bytes], shape: Shape, B: int, n_cuts: int, gains: NDArray[np.uint8] | None
) -> Whole:
    """Samples in units of ``step / 2^FRACTION``; `gains` say how strongly they are smoothed."""
    plane = read_means(sections, shape, B)
    n_planes = len(planes(shape, B))
    if len(sections) < n_planes + n_cuts + 1:
        raise damaged("has too few sections")
    y, parts = _read_boxes(sections[n_planes:], plane, shape, B, n_cuts)
    if gains is None:
        return y
    return smoothing.smoothed(y, box_sizes(parts, shape), prior(len(shape) - 1).smoothing, gains)


def read_means(sections: list[bytes], shape: Shape, B: int) -> Whole:
    """The plane of the means of the largest boxes, in units."""
    d = len(shape) - 1
    above = planes(shape, B)
    if len(sections) < len(above):
        raise damaged("has too few sections")
    plane = few_means(sections[0], above[-1]) * UNIT
    for wanted, data in zip(reversed(above[:-1]), sections[1:]):
        reader, learned = None, Learned(prior(d))
        part = Part(modes(ABOVE[d], d), plane)
        heads, reader = _heads(data, [part])
        plane = part.samples(_read_parts([part], heads, learned, reader, all_boxes=True)[0])
        plane = plane[tuple(slice(n) for n in wanted)]
    return plane


def _heads(
    data: bytes, parts: list[Part]
) -> tuple[list[tuple[NDArray[np.int8], NDArray[np.int8]]], StreamReader]:
    """Points and weights of the parts of a section, and the reader of its stream."""
    heads, a = [], 0
    for part in parts:
        n = part.m.starts[min(3, len(part.m.starts) - 1)] - 1
        if len(data) < a + 3 + n + 3:
            raise damaged("has a section that is too short")
        heads.append((np.frombuffer(data, np.int8, 3, a), np.frombuffer(data, np.int8, n, a + 3)))
        a += 3 + n
    return heads, StreamReader(data[a:])


def _read_parts(
    parts: list[Part],
    heads: list[tuple[NDArray[np.int8], NDArray[np.int8]]],
    learned: Learned,
    reader: StreamReader,
    *,
    all_boxes: bool,
) -> list[Floats]:
    """Modes of all parts of a section in units, natural order; of active boxes or all."""
    around, done = None, []
    for part in parts:
        walk, follower = part.walk(around), Follower(learned, reader)
        walked(walk, learned.contexts, follower)
        done.append((walk, follower))
        if part is not parts[-1]:
            around = halved_magnitudes(walk.A, part.m, part.plane.shape)
    reader.finish()
    found = []
    for part, (walk, follower), (points, weights) in zip(parts, done, heads):
        q = follower.finish(walk.A, part.active)
        made = part.values if all_boxes else part.active_values
        r = made(q, points, weights)
        if too_large(q, r, part):
            raise damaged("has impossible values")
        found.append(r)
    return found


def _read_boxes(
    sections: list[bytes], plane: Whole, shape: Shape, B: int, n_cuts: int
) -> tuple[Whole, list[Part]]:
    """Samples from the sections below the plane of the largest boxes; the parts of the last."""
    C, d = shape[0], len(shape) - 1
    may, parts = np.ones(int(np.prod(plane.shape[1:])), bool), []
    for data in sections[:n_cuts]:
        learned, m = Learned(prior(d)), modes(2, d)
        heads, reader = _heads(data, [Part(m, plane)])
        cuts, tables = np.zeros(len(may), np.uint8), cut_tables()
        for boxes, classes in cut_batches(cuts, may, plane.shape):
            cuts[boxes] = reader.symbols(tables, classes)
        cut = cuts > 0
        part = Part(m, plane, np.tile(cut, C))
        parts.append(Part(modes(B, d), plane, np.tile(may & ~cut, C)))
        may = pieces(cut, (1, *plane.shape[1:]))
        plane = part.samples(_read_parts([part], heads, learned, reader, all_boxes=True)[0])
        B //= 2
    parts.append(Part(modes(B, d), plane, None if may.all() else np.tile(may, C)))
    heads, reader = _heads(sections[n_cuts], parts)
    out = None
    for part, r in zip(
        parts, _read_parts(parts, heads, Learned(prior(d)), reader, all_boxes=False)
    ):
        out = placed(out, part, r)
    assert out is not None
    return out[tuple(slice(n) for n in shape)], parts
