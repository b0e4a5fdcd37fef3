"""Residuals as tokens with raw bits behind them, and the tables of tokens in a tile's header."""

from collections.abc import Callable
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from elmfield._array.typing import Integers
from elmfield.codec.adaptive import frequencies
from elmfield.codec.ans import Tables
from elmfield.errors import StoreError

BITS = 12
"""Tables of tokens sum to 2^12."""
DIRECT = 16
N_TOKENS = DIRECT + 4 * 31
"""Numbers below 16 are their own tokens; others give their length and two bits after the first."""
STEPS = 4
"""Frequencies are written to a quarter of an octave."""


def tokens(z: Integers) -> tuple[Integers, Integers]:
    """Token and number of raw bits of numbers 0 <= z < 2^35."""
    if (most := int(z.max(initial=0))) < z.size:
        token, raw = _tokens(np.arange(most + 1))
        return token.take(z), raw.take(z)
    return _tokens(z)


def _tokens(z: Integers) -> tuple[Integers, Integers]:
    length = np.frexp(z.astype(np.float64))[1].astype(np.int64)  # bits of z, exact below 2^53
    raw = np.where(z < DIRECT, 0, length - 3)
    large = DIRECT + 4 * (length - 5) + ((z >> raw) & 3)
    return np.where(z < DIRECT, z, large), raw


def _expanded() -> tuple[Integers, Integers]:
    """Least number and number of raw bits of every token."""
    token = np.arange(N_TOKENS)
    raw = np.where(token < DIRECT, 0, (token - DIRECT) // 4 + 2)
    least = np.where(token < DIRECT, token, (4 + (token - DIRECT) % 4) << raw)
    return least.astype(np.int64), raw.astype(np.int64)


LEAST, RAW = _expanded()


def clustered(counts: Integers, merge: "Merge") -> Integers:
    """Class of every context: contexts share a table where that saves bits; shape (contexts,).

    Greedy: the pair of classes whose union is cheapest is merged while that pays. Prices are whole
    numbers, so that `merge` may be a loop or not.
    """
    used = np.flatnonzero(counts.sum(axis=1))
    classes = np.zeros(len(counts), np.int64)
    if not used.size:
        return classes
    h = np.ascontiguousarray(counts[used][:, : 1 + int(np.flatnonzero(counts.any(axis=0))[-1])])
    few = max(0, int(h.sum()).bit_length() - MOST_COUNTED)
    h = np.maximum(h >> few, h > 0)
    member = merge(h, _entropies(), TOKEN_PRICE >> few, TABLE_PRICE >> few)
    _, classes[used] = np.unique(member, return_inverse=True)
    # A context that never occurred goes with its neighbour: damage may ask for it.
    return classes


MOST_COUNTED = 20
"""Bits of the number of samples that are counted; of more, a half, a quarter, ... are."""
TOKEN_PRICE, TABLE_PRICE = 3 * 64, 8 * 64
"""A table costs about 3 bits for every token that occurs, and a byte; in 64ths of a bit."""

Merge = Callable[[Integers, Integers, int, int], Integers]


@lru_cache(maxsize=1)
def _entropies() -> Integers:
    """``n log2 n`` in 64ths of a bit."""
    n = np.arange((1 << MOST_COUNTED) + (1 << 14), dtype=np.float64)
    return np.rint(64 * n * np.log2(np.maximum(n, 1.0))).astype(np.int64)


def merged(h: Integers, entropies: Integers, token: int, table: int) -> Integers:
    """Which of some rows of counts every row is merged into."""

    def cost(h: Integers) -> Integers:
        """Bits of counts by their own entropy, and of writing their table."""
        inner = entropies.take(h).sum(axis=1)
        found = entropies.take(h.sum(axis=1)) - inner + token * (h > 0).sum(axis=1) + table
        return np.asarray(found, np.int64)

    h, n, never = h.copy(), len(h), np.iinfo(np.int64).max
    own, alive, member = cost(h), np.ones(n, np.bool_), np.arange(n)
    union = np.full((n, n), never)
    for k, row in enumerate(h):  # the lower half is the upper one again
        union[k, k + 1 :] = cost(h[k + 1 :] + row) - own[k] - own[k + 1 :]
    union = np.minimum(union, union.T)
    while True:
        i, j = (int(k) for k in np.unravel_index(int(union.argmin()), union.shape))
        if union[i, j] >= 0:
            return member
        h[i] += h[j]
        own[i] = cost(h[i : i + 1])[0]
        member[member == j] = i
        alive[j] = False
        others = np.flatnonzero(alive & (np.arange(n) != i))
        row = np.full(n, never)
        row[others] = cost(h[others] + h[i]) - own[others] - own[i]
        union[j], union[:, j] = never, never
        union[i], union[:, i] = row, row


def levels_of(counts: Integers) -> NDArray[np.uint8]:
    """Frequencies as written: 0, or 1 + how many quarter octaves the count is above total/2^12."""
    share = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1) * (1 << BITS)
    with np.errstate(divide="ignore"):
        level = np.rint(STEPS * np.log2(np.maximum(share, 1.0))) + 1
    return np.where(counts > 0, level, 0).astype(np.uint8)


def tables_of(level: NDArray[np.uint8]) -> Tables:
    """Tables of written frequencies, shape (K, A): the sizes they say, made to sum to 2^12."""
    if level.size and int(level.max()) > STEPS * BITS + 1:
        raise StoreError("A table of a packed tile holds an impossible frequency: it is damaged.")
    if not level.any(axis=1).all():
        raise StoreError("A table of a packed tile is empty: it is damaged.")
    return Tables.of(frequencies(SIZES[level], BITS), BITS)


# 256 * 2^(q/4), rounded, by integers: the rest are shifts.
SIZES = np.array(
    [0] + [((256, 304, 362, 431)[q % 4] << (q // 4)) for q in range(STEPS * BITS + 1)], np.int64
)
