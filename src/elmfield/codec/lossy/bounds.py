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


def _batches(c: Whole, y: Whole) -> Iterator[tuple[tuple[slice, ...], NDArray[np.intp]]]:
    """Places and classes, lattice by lattice; `c` is filled by who reads."""
    d, rough = c.ndim - 1, levels(roughness(y), STEPS).astype(np.intp)
    near = np.zeros([n + 2 if k else n for k, n in enumerate(c.shape)], np.int64)
    inner = (slice(None),) + (slice(1, -1),) * d
    for j, corner in enumerate(product((0, 1), repeat=d)):
        where = (slice(None), *(slice(o, None, 2) for o in corner))
        if not c[where].size:
            continue
        level = np.minimum(near[inner][where], NEAR - 1)
        yield where, (((j > 0) * ROUGH + rough[where]) * NEAR + level).ravel()
        hits = np.minimum(np.abs(c[where]), 1)
        for offset in product((0, 1, 2), repeat=d):
            shifted = tuple(
                slice(o + a, o + a + 2 * n - 1, 2)
                for o, a, n in zip(corner, offset, hits.shape[1:], strict=True)
            )
            near[(slice(None), *shifted)] += hits


def written(c: Whole, y: Whole) -> bytes:
    """Bytes of corrections (C, n...) to samples that decode to `y`."""
    writer, tables = StreamWriter(), Adaptive(_counts(), 12)
    seen = np.zeros_like(c)
    raw = []
    for where, classes in _batches(seen, y):
        values = c[where]
        seen[where] = values
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
    c = np.zeros(y.shape, np.int64)
    places = []
    for where, classes in _batches(c, y):
        tokens = reader.symbols(tables, classes)
        c[where] = tokens.reshape(c[where].shape)
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
