"""Compiled loops that encode the stream of a plane, as `plane_coder` does by NumPy.

Numbers are coded one after the other, the last first, in the order in which NumPy codes many of
them at once: the same words. Imported only once compiled loops pay, because it imports the
compiler.
"""

import numpy as np
from numpy.typing import NDArray

from elmfield._array.running import compiled
from elmfield._array.typing import Integers
from elmfield.codec.ans import LOW
from elmfield.codec.kernels import write
from elmfield.codec.lossless.plane_coder import Plane, layout_steps
from elmfield.codec.lossless.plane_model import N_TOKENS, RAW, TOKEN_BITS


@compiled
def encode(
    entries: NDArray[np.uint32],
    pairs: Integers,
    z: Integers,
    steps: Integers,
    states: Integers,
    words: NDArray[np.uint16],
    at: int,
) -> int:
    """Encode a plane backwards: words come to stand before `at`, where its tail begins.

    Returns the first word. A step's tokens are read before its raw bits, so these are coded first.
    """
    L, alive = states.size, 0
    for start, end, kept in steps[::-1]:
        for lane in range(alive, kept):  # a lane ends with a word that comes next
            states[lane] = LOW + (np.int64(words[at]) if at < words.size else 0)
            at = min(at + 1, words.size)
        alive, most = max(alive, kept), 0
        for i in range(start, end):
            most = max(most, RAW[pairs[i] % N_TOKENS])
        for low in range((most - 1) // 15 * 15, -1, -15):
            lane = (end - start) % L
            for i in range(end - 1, start - 1, -1):
                lane = (lane if lane else L) - 1
                some = min(max(RAW[pairs[i] % N_TOKENS] - low, 0), 15)
                x = states[lane]
                if x >> (32 - some):
                    at -= 1
                    words[at] = x & 0xFFFF
                    x >>= 16
                states[lane] = x << some | ((z[i] >> low) & ((1 << some) - 1))
        tokens = entries[pairs[start:end]].astype(np.int64)
        at = write(states, tokens, words, TOKEN_BITS, at)
    return at


def encode_plane(plane: Plane) -> None:
    """Find the words of a plane."""
    layout, tail = plane.layout, plane.tail
    L, most = layout.n_lanes(plane.halvings), 1 + -(-int(plane.z.max()).bit_length() // 15)
    states, words = np.zeros(L, np.int64), np.empty(plane.z.size * most + tail.size, np.uint16)
    at = words.size - tail.size
    words[at:] = tail
    at = encode(plane.entries, plane.pairs, plane.z, layout_steps(layout, L), states, words, at)
    plane.words = np.concatenate([states.astype("<u4").view("<u2"), words[at:]])
