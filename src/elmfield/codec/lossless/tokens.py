"""Residuals as tokens with raw bits behind them, and the tables of tokens in a tile's header."""

import numpy as np
from numpy.typing import NDArray

from elmfield._array.typing import Floats, Integers
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


def clustered(counts: Integers, price: float = 3.0) -> Integers:
    """Class of every context: contexts share a table where that saves bits; shape (contexts,).

    Greedy: the pair of classes whose union is cheapest is merged while that pays; a table costs
    about `price` bits for every token that occurs, and a byte.
    """
    used = np.flatnonzero(counts.sum(axis=1))
    classes = np.zeros(len(counts), np.int64)
    if not used.size:
        return classes
    h = counts[used].astype(np.float64)
    own = _cost(h, price)
    union = np.full((used.size, used.size), np.inf)
    for at, row in enumerate(h):  # the lower half is the upper one again
        union[at, at + 1 :] = _cost(h[at + 1 :] + row, price) - own[at] - own[at + 1 :]
    union = np.minimum(union, union.T)
    member = np.arange(used.size)
    while True:
        i, j = np.unravel_index(int(union.argmin()), union.shape)
        if not union[i, j] < 0:
            break
        h[i] += h[j]
        own[i] = _cost(h[i : i + 1], price)[0]
        member[member == j] = i
        union[j], union[:, j], own[j] = np.inf, np.inf, np.inf
        alive = np.isfinite(own)
        row = np.full(used.size, np.inf)
        row[alive] = _cost(h[alive] + h[i], price) - own[alive] - own[i]
        row[i] = np.inf
        union[i], union[:, i] = row, row
    _, classes[used] = np.unique(member, return_inverse=True)
    # A context that never occurred goes with its neighbour: damage may ask for it.
    return classes


def _cost(h: Floats, price: float) -> Floats:
    """Bits of counts by their own entropy, and of writing their table."""
    n = h.sum(axis=1)
    inner = (h * np.log2(np.maximum(h, 1.0))).sum(axis=1)
    return np.asarray(n * np.log2(n) - inner + price * (h > 0).sum(axis=1) + 8.0)


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
