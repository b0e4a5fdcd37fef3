"""Sparse corrections: whole numbers at the samples whose error is larger than promised.

They are coded in the order of a lattice, the samples of even place first, knowing how many
corrected samples are near among those coded already, and how rough the decoded samples are there.
"""

from collections.abc import Iterator
from itertools import product

import numpy as np
from numpy.typing import NDArray

from elmfield.codec.adaptive import Adaptive
from elmfield.codec.lossy.lanes import damaged
from elmfield.codec.lossy.magnitudes import packed, unpacked
from elmfield.codec.lossy.smoothing import levels, roughness
from elmfield.codec.lossy.streams import StreamReader, StreamWriter

Whole = NDArray[np.int64]
Mask = NDArray[np.bool_]
Small = NDArray[np.uint8]

STEPS = (4, 8, 16, 24, 32, 48, 64, 96, 128, 256, 512)
"""Roughness from which on its levels begin, in units."""
ROUGH = len(STEPS) + 1
NEAR = 4
TOKENS = 4
"""A correction's magnitude is 0, 1, 2, or 3 and 24 raw bits."""
RAW_BITS = 24
LARGEST_CORRECTION = (1 << RAW_BITS) - 1


def _counts() -> Whole:
    """Counts at the start, by nearness: corrections are rare, and stand together."""
    by_near = np.array([[240, 14, 1, 1], [200, 50, 4, 2], [160, 80, 12, 4], [128, 100, 20, 8]])
    return np.tile(by_near, (2 * ROUGH, 1))


def _batches(hit: Mask, y: Whole) -> Iterator[tuple[tuple[slice, ...], Small]]:
    """Places and classes, lattice by lattice; who reads says which samples are corrected."""
    d, rough = y.ndim - 1, levels(roughness(y), STEPS)
    near = np.zeros([n + 2 if k else n for k, n in enumerate(y.shape)], np.uint8)
    inner = (slice(None),) + (slice(1, -1),) * d
    for j, corner in enumerate(product((0, 1), repeat=d)):
        where = (slice(None), *(slice(o, None, 2) for o in corner))
        if not hit[where].size:
            continue
        classes = np.minimum(near[inner][where], NEAR - 1)
        classes += NEAR * rough[where]
        classes += ROUGH * NEAR * (j > 0)
        yield where, classes.ravel()
        hits = hit[where].view(np.uint8)
        for offset in product((0, 1, 2), repeat=d):
            shifted = tuple(
                slice(o + a, o + a + 2 * n - 1, 2)
                for o, a, n in zip(corner, offset, hits.shape[1:], strict=True)
            )
            near[(slice(None), *shifted)] += hits


def written(c: Whole, y: Whole) -> bytes:
    """Bytes of corrections (C, n...) to samples that decode to `y`."""
    writer, tables = StreamWriter(), Adaptive(_counts(), 12)
    raw = []
    for where, classes in _batches(c != 0, y):
        values = c[where]
        size = np.abs(values).ravel()
        writer.symbols(tables, classes, np.minimum(size, TOKENS - 1).astype(np.uint8))
        large = size[size >= TOKENS - 1]
        raw += [packed(large, np.full(len(large), RAW_BITS)), (values.ravel()[size > 0] < 0)]
    for bits in raw:
        writer.raw(bits.astype(np.uint8))
    return writer.content()


def read(data: bytes, y: Whole) -> Whole:
    """Corrections to `y`."""
    reader, tables = StreamReader(data), Adaptive(_counts(), 12)
    c, hit = np.zeros(y.shape, np.int64), np.zeros(y.shape, bool)
    places = []
    for where, classes in _batches(hit, y):
        tokens = reader.symbols(tables, classes)
        hit[where] = tokens.reshape(hit[where].shape) > 0
        places.append((where, tokens))
    reader.finish()
    for where, tokens in places:
        size = tokens.astype(np.int64)
        large = np.flatnonzero(size == TOKENS - 1)
        size[large] = unpacked(reader.raw(RAW_BITS * len(large)), np.full(len(large), RAW_BITS))
        some = np.flatnonzero(size)
        size[some] *= 1 - 2 * reader.raw(len(some)).astype(np.int64)
        if len(some) < np.count_nonzero(tokens):
            raise damaged("has corrections of nothing")
        c[where] = size.reshape(c[where].shape)
    return c
