"""Tiles as bytes: a short head, then numbers; what the page's `numbers.js` unpacks.

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

import struct

import numpy as np

from elmfield._array.typing import Array

HEAD = struct.Struct("<4sBBBBHHff")
GONE = 65535


def packed(values: Array, *, draft: bool = False) -> bytes:
    """Numbers (p, q, C) as float32, or a mask (p, q)."""
    if values.dtype == bool:
        body, kind, channels = values.astype(np.uint8), 2, 1
    else:
        body, kind, channels = values.astype("<f4"), 0, values.shape[2]
    p, q = values.shape[:2]
    head = HEAD.pack(b"ELM1", kind, channels, draft, 0, p, q, 0, 1)
    return head + bytes(body.tobytes())


def shortened(values: Array) -> bytes:
    """Numbers (p, q, C) in 16 bits each, from the tile's lowest to its highest, as differences."""
    finite = np.isfinite(values)
    low = float(values[finite].min(initial=np.inf)) if finite.any() else 0.0
    high = float(values[finite].max(initial=-np.inf)) if finite.any() else 1.0
    span = high - low if high > low else 1.0
    whole = np.where(finite, np.round((np.where(finite, values, low) - low) / span * 65534), GONE)
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


def unpacked(data: bytes) -> Array:
    """The numbers of a tile, (p, q, C), for tests and programs."""
    _, kind, C, _, times, p, q, low, high = HEAD.unpack_from(data)
    if kind == 0:
        return np.frombuffer(data, "<f4", offset=HEAD.size).reshape(p, q, C)
    if kind == 2:
        return np.frombuffer(data, np.uint8, offset=HEAD.size).reshape(p, q, 1)
    planes = np.frombuffer(data, np.uint8, offset=HEAD.size).reshape(2, -1).astype(np.uint16)
    z = (planes[0] | planes[1] << 8).reshape(p, q, C)
    whole = (z >> 1) ^ (0 - (z & 1))
    for _ in range(times):
        whole = np.cumsum(whole, axis=1, dtype=np.uint16)
    return np.where(whole == GONE, np.nan, low + whole * ((high - low) / 65534)).astype(np.float32)
