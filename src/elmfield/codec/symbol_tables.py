"""Tables of the entropy coder: how often symbols come, fixed, or learned from what was coded."""

from copy import copy
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from elmfield._array import running
from elmfield._array.typing import Integers

Symbols = NDArray[np.uint8]
Entries = NDArray[np.uint32]
"""``start * 2^16 + freq`` of symbols."""
Learning = tuple[Integers, Integers, Integers, Integers, Entries, Symbols, int, int, int]
"""What compiled loops are given of :class:`AdaptiveTables`."""

TABLE_BITS = 12
"""Every table sums to 2^12: a frequency fits 16 bits, a symbol sends at most one word."""


@dataclass(frozen=True)
class Tables:
    """Frequencies of symbols, one row for each class.

    Parameters
    ----------
    entries : array of uint32, shape (K, A)
        ``start * 2^16 + freq`` of every symbol of every class.
    slots : array of uint8, shape (K, 2^12)
        Which symbol owns a slot.
    """

    entries: Entries
    slots: Symbols

    @classmethod
    def of(cls, freq: NDArray[np.integer]) -> "Tables":
        """Return the tables of :func:`frequencies`, (K, A), A at most 256."""
        freq = np.asarray(freq, np.int64)
        K, A = freq.shape
        start = np.cumsum(freq, axis=1) - freq
        owners = np.tile(np.arange(A, dtype=np.uint8), K)
        slots = np.repeat(owners, freq.ravel()).reshape(K, 1 << TABLE_BITS)
        return cls((start << 16 | freq).astype(np.uint32), slots)


def frequencies(counts: NDArray[np.integer]) -> Integers:
    """Return frequencies that sum to 2^12 in every row, in proportion to counts, (K, A).

    ``f = [c > 0] + floor(c (2^12 - n) / sum c)`` with n the number of counts above 0, and what is
    missing to ``2^12`` is added to the largest count (the first of them). A count of 0 gets no
    frequency; a row of zeros gives everything to symbol 0.
    """
    c = np.asarray(counts, np.int64)
    total = c.sum(axis=1, keepdims=True)
    n = np.count_nonzero(c, axis=1)[:, None]
    f = (c > 0) + c * ((1 << TABLE_BITS) - n) // np.maximum(total, 1)
    f[np.arange(len(c)), c.argmax(axis=1)] += (1 << TABLE_BITS) - f.sum(axis=1)
    return np.asarray(f, np.int64)


class AdaptiveTables:
    """Tables that learn from what was coded; both ends do the same integer arithmetic.

    Parameters
    ----------
    counts : array of integers, shape (K, A)
        Initial counts; symbols that may come need at least 1.
    weight : int
        What one symbol adds to its count.
    limit : int
        A class whose counts sum to more than this has them halved, ``(c + 1) >> 1``.
    patience : int, optional
        Learn only once this many symbols, and an eighth of all before, have come; after every
        batch by default.

    Notes
    -----
    A class gets a new table when what was added since its last one is an eighth of its sum or more,
    so tables are made often at first and rarely later.
    """

    def __init__(
        self,
        counts: NDArray[np.integer],
        *,
        weight: int = 32,
        limit: int = 1 << 16,
        patience: int | None = None,
    ) -> None:
        self.counts = np.array(counts, np.int64)
        self.weight, self.limit = weight, limit
        self.patience = -(1 << 62) if patience is None else patience
        self.fresh = np.zeros(len(self.counts), np.int64)  # added since the last table
        self.seen = np.zeros_like(self.counts)  # symbols since counts were last changed
        self.n = np.zeros(2, np.int64)  # symbols that were learned, and that wait
        self.tables = Tables.of(frequencies(self.counts))

    def copy(self) -> "AdaptiveTables":
        """Return tables that learn apart from these."""
        new = copy(self)
        new.counts, new.seen = self.counts.copy(), self.seen.copy()
        new.fresh, new.n = self.fresh.copy(), self.n.copy()
        new.tables = Tables(self.tables.entries.copy(), self.tables.slots.copy())
        return new

    @property
    def arrays(self) -> Learning:
        """What `kernels.update` changes, and its numbers."""
        known = self.counts, self.seen, self.fresh, self.n, self.tables.entries, self.tables.slots
        return *known, self.weight, self.limit, self.patience

    def update(self, classes: NDArray[np.integer], symbols: NDArray[np.integer]) -> None:
        """Learn from a batch that both ends know by now: symbols and their classes."""
        if running.pays(0):
            from elmfield.codec import kernels

            kernels.update(self.arrays, as_bytes(classes), as_bytes(symbols))
            return
        where = np.asarray(classes, np.intp).ravel() * self.seen.shape[1] + symbols.ravel()
        self.seen += np.bincount(where, minlength=self.seen.size).reshape(self.seen.shape)
        self.n[1] += symbols.size
        if self.n[1] < self.patience + self.n[0] // 8:
            return
        self.n[:] = self.n.sum(), 0
        self.seen *= self.weight
        self.counts += self.seen
        self.fresh += self.seen.sum(axis=1)
        self.seen[:] = 0
        sums = self.counts.sum(axis=1)
        while (large := np.flatnonzero(sums > self.limit)).size:
            self.counts[large] = (self.counts[large] + 1) >> 1
            sums[large] = self.counts[large].sum(axis=1)
        stale = np.flatnonzero((self.fresh > 0) & (self.fresh * 8 >= sums))
        if stale.size:
            new = Tables.of(frequencies(self.counts[stale]))
            self.tables.entries[stale], self.tables.slots[stale] = new.entries, new.slots
            self.fresh[stale] = 0


def as_bytes(x: NDArray[np.integer]) -> Symbols:
    """Return classes or symbols, flat, as compiled loops take them."""
    return np.ascontiguousarray(x, np.uint8).reshape(-1)
