"""Integer tables of frequencies: made from counts, and learned while coding.

Both ends do the same integer arithmetic in the same order, so they always hold the same tables.
"""

from copy import copy

import numpy as np
from numpy.typing import NDArray

from elmfield._array.typing import Integers
from elmfield.codec.ans import Tables


def frequencies(counts: NDArray[np.integer], bits: int) -> Integers:
    """Frequencies that sum to ``2^bits`` in every row, in proportion to counts; shape (K, A).

    ``f = [c > 0] + floor(c (2^bits - n) / sum c)`` with n the number of counts above 0, and what is
    missing to ``2^bits`` is added to the largest count (the first of them). A count of 0 gets no
    frequency; a row of zeros gives everything to symbol 0.
    """
    c = np.asarray(counts, np.int64)
    total = c.sum(axis=1, keepdims=True)
    n = np.count_nonzero(c, axis=1)[:, None]
    f = (c > 0) + c * ((1 << bits) - n) // np.maximum(total, 1)
    f[np.arange(len(c)), c.argmax(axis=1)] += (1 << bits) - f.sum(axis=1)
    return np.asarray(f, np.int64)


class Adaptive:
    """Tables that follow what was coded.

    Parameters
    ----------
    counts : array of integers, shape (K, A)
        What is believed at first; symbols that may come need a count of at least 1.
    bits : int
        Every table sums to ``2^bits``.
    weight : int
        What one symbol adds to its count.
    limit : int
        A class whose counts sum to more than this has them halved, ``(c + 1) >> 1``.

    Notes
    -----
    A class gets a new table when what was added since its last one is an eighth of its sum or more,
    so tables are made often at first and rarely later.
    """

    def __init__(
        self, counts: NDArray[np.integer], bits: int, *, weight: int = 32, limit: int = 1 << 16
    ) -> None:
        self.counts = np.array(counts, np.int64)
        self.weight, self.limit = weight, limit
        self.fresh = np.zeros(len(self.counts), np.int64)
        self.tables = Tables.of(frequencies(self.counts, bits), bits)

    def copy(self) -> "Adaptive":
        """Tables that learn apart from these."""
        found = copy(self)
        found.counts, found.fresh = self.counts.copy(), self.fresh.copy()
        now = self.tables
        found.tables = Tables(now.bits, now.entries.copy(), now.slots.copy())
        return found

    def update(self, classes: NDArray[np.integer], symbols: NDArray[np.integer]) -> None:
        """Learn from a batch that both ends know by now: symbols and their classes."""
        K, A = self.counts.shape
        where = np.asarray(classes, np.intp).ravel() * A + np.asarray(symbols).ravel()
        self.learn(np.bincount(where, minlength=K * A).reshape(K, A))

    def learn(self, seen: NDArray[np.integer]) -> None:
        """The same from how often each symbol of each class was seen, shape (K, A)."""
        added = seen * self.weight
        self.counts += added
        self.fresh += added.sum(axis=1)
        sums = self.counts.sum(axis=1)
        while (large := np.flatnonzero(sums > self.limit)).size:
            self.counts[large] = (self.counts[large] + 1) >> 1
            sums[large] = self.counts[large].sum(axis=1)
        stale = np.flatnonzero((self.fresh > 0) & (self.fresh * 8 >= sums))
        if stale.size:
            self.tables.replaced(stale, frequencies(self.counts[stale], self.tables.bits))
            self.fresh[stale] = 0
