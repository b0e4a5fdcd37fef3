"""Tiles as bytes: a short head, then numbers; what the page's `numbers.js` unpacks.

====== ======= ==========================================================
offset kind    what
====== ======= ==========================================================
0      4 bytes ``ELM1``
4      uint8   0: float32, NaN missing; 1: uint16 from `low` to `high`,
               65535 missing; 2: uint8, a mask
5      uint8   channels
6      uint8   1 for a first look that will be better if asked for again
7      uint8   0
8      uint16  rows, and uint16 columns
12     float32 low, and float32 high
20             numbers, row by row, channels last, little-endian
====== ======= ==========================================================
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
    """Numbers (p, q, C) in 16 bits each, from the tile's lowest to its highest."""
    finite = np.isfinite(values)
    low = float(values[finite].min(initial=np.inf)) if finite.any() else 0.0
    high = float(values[finite].max(initial=-np.inf)) if finite.any() else 1.0
    span = high - low if high > low else 1.0
    whole = np.where(finite, np.round((np.where(finite, values, low) - low) / span * 65534), GONE)
    p, q, C = values.shape
    head = HEAD.pack(b"ELM1", 1, C, 0, 0, p, q, low, low + span)
    return head + bytes(whole.astype("<u2").tobytes())


def unpacked(data: bytes) -> Array:
    """The numbers of a tile, (p, q, C), for tests and programs."""
    _, kind, C, _, _, p, q, low, high = HEAD.unpack_from(data)
    if kind == 0:
        return np.frombuffer(data, "<f4", offset=HEAD.size).reshape(p, q, C)
    if kind == 2:
        return np.frombuffer(data, np.uint8, offset=HEAD.size).reshape(p, q, 1)
    whole = np.frombuffer(data, "<u2", offset=HEAD.size).reshape(p, q, C)
    return np.where(whole == GONE, np.nan, low + whole * ((high - low) / 65534)).astype(np.float32)
