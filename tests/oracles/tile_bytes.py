"""Tiles of the page as numbers again, as its `numbers.js` unpacks them."""

import struct

import numpy as np

HEAD = struct.Struct("<4sBBBBHHff")
GONE = 65535


def unpacked(data):
    """The numbers of a tile, (p, q, C)."""
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
