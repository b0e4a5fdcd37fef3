"""Magnitudes as symbols: a class gives the low bits that go as they are, the rest is a token.

A class ``c`` expects magnitudes of about ``2^(c/4 - 8)``. Its lowest ``LOW_BITS[c]`` bits go raw;
what is above them, h, is a token: h itself below `DIRECT`, above an octave with raw bits for the
place in it, and `ESCAPE` with 24 raw bits. Classes that expect little have few tokens, then the
escape. Contexts see magnitudes without the raw bits (the middle of what is possible), so all raw
bits stand together behind the coded symbols.
"""

import numpy as np
from numpy.typing import NDArray

from elmfield._array import compiled
from elmfield.codec.lossy.contexts import Counts, Small

N_CLASSES = 72
DIRECT = 16
ESCAPE = 22
N_TOKENS = 23
ESCAPE_BITS = 24
LARGEST_MAGNITUDE = (1 << ESCAPE_BITS) - 1

_octaves = np.arange(N_CLASSES) / 4 - 8
LOW_BITS = np.maximum(0, np.floor(_octaves - 1.5 + 1e-9)).astype(np.int32)
FIRST_LOW = int(np.argmax(LOW_BITS > 0))
"""The first class with raw bits."""
FIRST_LONG = np.where(_octaves < -4, 4, np.where(_octaves < -1, 8, 1 << 24)).astype(np.int32)
"""The first h that a class writes as an escape."""
TOKEN_BITS = np.array([0] * DIRECT + [4 + j for j in range(ESCAPE - DIRECT)] + [ESCAPE_BITS])
TOKEN_BASE = np.array([*range(DIRECT)] + [DIRECT << j for j in range(ESCAPE - DIRECT)] + [0])
TOKENS = np.array(
    [*range(DIRECT)]
    + [DIRECT + int(h // DIRECT).bit_length() - 1 for h in range(DIRECT, 1024)]
    + [ESCAPE]
).astype(np.uint8)
"""Tokens of what is above the low bits, up to 1024."""
ALLOWED = (np.arange(N_TOKENS) < FIRST_LONG[:, None]) | (np.arange(N_TOKENS) == ESCAPE)
"""Which tokens a class has, shape (classes, tokens)."""

_c, _t = np.arange(N_CLASSES)[:, None], np.arange(N_TOKENS)[None, :]
WIDTHS = (LOW_BITS[_c] + TOKEN_BITS[_t]).astype(np.int32)
"""Raw bits behind a token of a class."""
BASES = (TOKEN_BASE[_t] << LOW_BITS[_c]).astype(np.int32)
SEEN = np.minimum(BASES + np.where(_t == ESCAPE, 8, (1 << WIDTHS) >> 1), 1 << 14).astype(np.int32)
"""The magnitude that contexts see."""


def tokens_of(magnitudes: Counts, classes: Small) -> Small:
    """Tokens of magnitudes, shape as given."""
    h = magnitudes >> LOW_BITS.take(classes)
    tokens: Small = TOKENS.take(np.minimum(h, 1024))
    long = h >= FIRST_LONG.take(classes)
    if long.any():
        tokens[long] = ESCAPE
    return tokens


def packed(values: NDArray[np.integer], widths: NDArray[np.integer]) -> NDArray[np.uint8]:
    """Bits of values, the highest first, one behind the other."""
    widths = widths.astype(np.int64)
    n = int(widths.sum())
    if not n:
        return np.zeros(0, np.uint8)
    if compiled.pays(0):
        from elmfield.codec.lossy import loops

        bits = np.empty(n, np.uint8)
        loops.packed(values.astype(np.int64), widths, bits)
        return bits
    ends = np.cumsum(widths)
    shift = np.repeat(ends, widths) - 1 - np.arange(n)
    return ((np.repeat(values.astype(np.int64), widths) >> shift) & 1).astype(np.uint8)


def unpacked(bits: NDArray[np.uint8], widths: NDArray[np.integer]) -> NDArray[np.int64]:
    """Values of so many bits each; `bits` must be long enough."""
    widths = widths.astype(np.int64)
    out = np.zeros(len(widths), np.int64)
    if compiled.pays(0):
        from elmfield.codec.lossy import loops

        loops.unpacked(np.ascontiguousarray(bits), widths, out)
        return out
    some = np.flatnonzero(widths)
    if some.size:
        ends = np.cumsum(widths)
        n = int(ends[-1])
        shift = np.repeat(ends, widths) - 1 - np.arange(n)
        parts = bits[:n].astype(np.int64) << shift
        out[some] = np.add.reduceat(parts, (ends - widths)[some])
    return out
