"""Compiled loops of entropy coding: symbols and raw bits to words and back, tables from counts.

The NumPy functions they stand in for are named in each docstring; both give the same numbers.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from elmfield._array.running import compiled

Array = NDArray[Any]


@compiled
def count_tokens(
    energy: Array,
    far: Array,
    z: Array,
    tokens: Array,
    lowest: int,
    coarse: int,
    counts: Array,
    pairs: Array,
) -> None:
    """Run `lossless.frame.Frame.count_tokens`.

    `tokens` has those of z below its length; those of larger ones follow from their bits.
    """
    bins, shift = energy.view(np.int64), 50 + coarse
    most, n_tokens = counts.shape[0] // 2 - 1, counts.shape[1]
    for i in range(z.size):
        number = np.int64(z[i])
        if number < tokens.size:
            token = np.int64(tokens[number])
        else:
            length = 0
            while number >> length >= 8:
                length += 1
            token = 4 * length + np.int64(number >> length) + 4
        context = 2 * min(max((bins[i] >> shift) - lowest, 0), most) + far[i]
        counts[context, token] += 1
        pairs[i] = context * n_tokens + token


@compiled
def encode_steps(
    pairs: Array,
    z: Array,
    entries: Array,
    raw: Array,
    bits: int,
    blocks: Any,
    states: Array,
    words: Array,
    top: int,
) -> int:
    """Encode the stream of `lossless.plane_coder` for one plane; return where the words begin.

    `words` holds a tail from `top` on; `entries` and `raw` bits are by pair. Steps are coded
    backwards, so is every batch; at last `states` are those that the stream begins with.
    """
    G, B = blocks.rows.shape
    L, alive, width = states.size, 0, blocks.width
    first = np.zeros((G, B), np.int64)  # of every block among the samples
    n = most = 0
    for g in range(G):
        for b in range(B):
            first[g, b] = n
            n += width * blocks.rows[g, b]
    step = np.empty(G * B * blocks.height, np.int64)
    number = np.empty(G * B * blocks.height, np.int64)
    for t in range(len(blocks.spans) - 1, -1, -1):
        kept = L if t == 0 else min(L, blocks.later[t - 1])
        for lane in range(alive, kept):
            states[lane] = 1 << 16
            if top < words.size:
                states[lane] += words[top]
                top += 1
        alive = max(alive, kept)
        n = most = 0
        for g in range(G):
            low, high = blocks.spans[t, 0] - blocks.skew[g], blocks.spans[t, 1] - blocks.skew[g]
            for y in range(max(low, 0), min(high, blocks.height)):
                x = t - 2 * (y + blocks.skew[g])
                for b in range(B):
                    if y < blocks.rows[g, b]:
                        at = first[g, b] + y * width + x
                        step[n] = pairs[at]
                        number[n] = z[at]
                        most = max(most, raw[pairs[at]])
                        n += 1
        for low in range((most - 1) // 15 * 15, -1, -15):
            lane = n % L
            for i in range(n - 1, -1, -1):
                lane = (lane if lane else L) - 1
                some = min(raw[step[i]] - low, 15)
                if some > 0:
                    x = states[lane]
                    if x >> (32 - some):
                        top -= 1
                        words[top] = x & 0xFFFF
                        x >>= 16
                    states[lane] = (x << some) + ((number[i] >> low) & ((1 << some) - 1))
        lane = n % L
        for i in range(n - 1, -1, -1):
            lane = (lane if lane else L) - 1
            entry, x = entries[step[i]], states[lane]
            freq = entry & 0xFFFF
            if x >> (32 - bits) >= freq:
                top -= 1
                words[top] = x & 0xFFFF
                x >>= 16
            quotient = np.int64(x / freq)
            states[lane] = (quotient << bits) + (x - quotient * freq) + (entry >> 16)
    return top
