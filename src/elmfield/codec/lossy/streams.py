"""Symbols and raw bits of a part of a tile as bytes, and back."""

from copy import copy
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from elmfield._array import compiled
from elmfield.codec.adaptive import Adaptive
from elmfield.codec.ans import Tables, too_short
from elmfield.codec.lossy.contexts import CHECKPOINTS, Counts, Places, Small
from elmfield.codec.lossy.lanes import LaneReader, coded, damaged
from elmfield.codec.lossy.magnitudes import (
    BASES,
    DIRECT,
    FIRST_LOW,
    LARGEST_MAGNITUDE,
    SEEN,
    WIDTHS,
    packed,
    tokens_of,
    unpacked,
)
from elmfield.codec.lossy.priors import Prior

TABLE_BITS = 12
WEIGHT, LIMIT = 16, 1 << 18
PATIENCE = 1024


class Learned:
    """The tables of one section while it is coded.

    They learn when enough has been seen: `PATIENCE` symbols and an eighth of all before.
    """

    def __init__(self, prior: Prior) -> None:
        self.contexts = prior.contexts
        self.tokens, self.flags = (tables.copy() for tables in _fresh(prior))


@lru_cache(maxsize=8)
def _fresh(prior: Prior) -> "tuple[Patient, Patient]":
    return Patient(prior.tokens), Patient(prior.flags)


class Patient:
    """Adaptive tables that wait until there is enough to learn."""

    def __init__(self, counts: NDArray[np.int64]) -> None:
        self.adaptive = Adaptive(counts, TABLE_BITS, weight=WEIGHT, limit=LIMIT)
        self.seen = np.zeros(counts.shape, np.int64)
        self.n = np.zeros(2, np.int64)  # symbols that were learned, and that wait

    def copy(self) -> "Patient":
        """Tables that learn apart from these."""
        found = copy(self)
        found.adaptive, found.seen, found.n = self.adaptive.copy(), self.seen.copy(), self.n.copy()
        return found

    @property
    def tables(self) -> Tables:
        """What is believed now."""
        return self.adaptive.tables

    def update(self, classes: NDArray[np.integer], symbols: Small) -> None:
        """Take note of a batch."""
        where = classes.astype(np.intp) * len(self.seen[0]) + symbols
        self.seen += np.bincount(where, minlength=self.seen.size).reshape(self.seen.shape)
        self.n[1] += len(symbols)
        if self.n[1] >= PATIENCE + self.n[0] // 8:
            self.adaptive.learn(self.seen)
            self.n[:] = self.n.sum(), 0
            self.seen[:] = 0


# --- writing --------------------------------------------------------------------------------------


@dataclass
class StreamWriter:
    """Batches of symbols in the order of reading, and raw bits behind them."""

    _batches: list[tuple[NDArray[np.uint32], int]] = field(default_factory=list)
    _raw: list[NDArray[np.uint8]] = field(default_factory=list)

    def symbols(
        self, tables: Adaptive | Patient, classes: NDArray[np.integer], symbols: Small
    ) -> None:
        """Append a batch, shape (n,), and learn from it."""
        entries = tables.tables.entries
        where = classes.astype(np.intp) * entries.shape[1] + symbols
        self.batch(entries.take(where), tables.tables.bits)
        tables.update(classes, symbols)

    def batch(self, entries: NDArray[np.uint32], bits: int) -> None:
        """Append a batch of entries, from which tables have learned already."""
        self._batches.append((entries, bits))

    def raw(self, bits: NDArray[np.uint8]) -> None:
        """Append raw bits; they are read after all symbols."""
        self._raw.append(bits)

    def content(self) -> bytes:
        """The bytes of all of it."""
        raw = np.concatenate(self._raw) if self._raw else np.zeros(0, np.uint8)
        return coded(self._batches, raw)


class StreamReader:
    """What a :class:`StreamWriter` wrote."""

    def __init__(self, data: bytes) -> None:
        self.decoder = LaneReader(data)
        self._raw = np.zeros(0, np.uint8)

    def symbols(self, tables: Adaptive | Patient, classes: NDArray[np.integer]) -> Small:
        """The next batch, shape (n,)."""
        symbols = self._decoded(tables.tables, classes)
        tables.update(classes, symbols)
        return symbols

    def _decoded(self, tables: Tables, classes: NDArray[np.integer]) -> Small:
        if not compiled.pays(0):
            return self.decoder.decode(tables, classes)
        from elmfield.codec.lossy import loops

        states, words, place = self.decoder.lone
        out, rows = np.empty(len(classes), np.uint8), classes.astype(np.uint8)
        if not loops.symbols(
            rows, tables.slots, tables.entries, tables.bits, states, words, place, out
        ):
            raise too_short()
        self.decoder.go_on(place)
        return out

    def finish(self) -> None:
        """Say that all symbols were read: raw bits follow."""
        self._raw = self.decoder.raw_bits()

    @property
    def left(self) -> NDArray[np.uint8]:
        """All raw bits that were not read yet."""
        return self._raw

    def raw(self, n: int) -> NDArray[np.uint8]:
        """The next n raw bits."""
        if n > len(self._raw):
            raise damaged("ends before its last raw bit")
        bits, self._raw = self._raw[:n], self._raw[n:]
        return bits


# --- the two coders of a walk ---------------------------------------------------------------------


def _cheaper(
    x: NDArray[np.float32], q: Counts, classes: Small, costs: NDArray[np.float32], price: float
) -> None:
    """Take one off where the bits saved are worth the error."""
    some = np.flatnonzero((q > 0) & (q < DIRECT))
    high, c = q.ravel()[some], classes.ravel()[some].astype(np.intp) * costs.shape[1]
    saved = costs.take(c + high) - costs.take(c + high - 1)
    # (x - q + 1)² - (x - q)² = 2 (x - q) + 1
    error = 2 * (x.ravel()[some] - high) + 1
    q.ravel()[some] -= error < price * saved


def down(x: NDArray[np.float32]) -> NDArray[np.float32]:
    """Sums of columns, row after row; NumPy adds a single column in another order."""
    sums: NDArray[np.float32] = x.sum(axis=0) if x.shape[1] > 1 else x.cumsum(axis=0)[-1]
    return sums


@dataclass
class Pricer:
    """What boxes would cost, bits and error, if they were coded like this; nothing is written."""

    x: NDArray[np.float32]
    last: Places
    price: float
    costs: NDArray[np.float32]
    flag_costs: NDArray[np.float32]
    starts: list[int]

    def __post_init__(self) -> None:
        self.error, self.bits = (np.zeros(self.x.shape[1], np.float32) for _ in range(2))
        # squares of all modes from a checkpoint on: the error of a box that stops there
        first = [self.starts[s] for s in CHECKPOINTS if s < len(self.starts) - 1]
        spans = [self.x[a:b] for a, b in pairwise([*first, len(self.x)])]
        squares = np.stack([down(x * x) for x in spans])
        self.left = np.ascontiguousarray(np.cumsum(squares[::-1], axis=0)[::-1])

    def going_on(self, classes: Small, boxes: Places, diagonal: int) -> NDArray[np.bool_]:
        """Whether boxes go on."""
        on = self.last.take(boxes) >= diagonal
        self.bits[boxes] += self.flag_costs.take(classes.astype(np.intp) * 2 + on)
        stopped = boxes[~on]
        self.error[stopped] += self.left[CHECKPOINTS.index(diagonal)].take(stopped)
        return on

    def magnitudes(self, classes: Small, rows: slice, boxes: Places) -> Counts:
        """The best magnitudes of a batch; their price is added up."""
        x = self.x[rows].take(boxes, axis=1)
        q = (x + np.float32(0.5)).astype(np.int32)
        _cheaper(x, q, classes, self.costs, self.price)
        bits = self.costs.take(
            classes.astype(np.intp) * self.costs.shape[1] + tokens_of(q, classes)
        )
        self.bits[boxes] += down(bits)
        x -= q
        self.error[boxes] += down(x * x)
        return np.minimum(q, 1 << 14)


@dataclass
class Chooser:
    """Chooses magnitudes by what they cost, and writes them.

    Parameters
    ----------
    x : array, shape (M, boxes)
        Magnitudes in steps.
    last : array, shape (boxes,)
        The last diagonal worth coding.
    price : float
        Squared steps a bit is worth; 0 rounds to the nearest.
    """

    x: NDArray[np.float32]
    last: Places
    price: float
    costs: NDArray[np.float32]
    learned: Learned
    writer: StreamWriter

    def __post_init__(self) -> None:
        self.q = np.zeros(self.x.shape, np.int32)
        self._wide: list[NDArray[np.uint8]] = []

    def going_on(self, classes: Small, boxes: Places, diagonal: int) -> NDArray[np.bool_]:
        """Whether boxes go on: what comes is worth its bits."""
        on = self.last.take(boxes) >= diagonal
        self.writer.symbols(self.learned.flags, classes, on.view(np.uint8))
        return on

    def magnitudes(self, classes: Small, rows: slice, boxes: Places) -> Counts:
        """The best magnitudes of a batch."""
        x = self.x[rows].take(boxes, axis=1)
        q = (x + np.float32(0.5)).astype(np.int32)
        if self.price:
            _cheaper(x, q, classes, self.costs, self.price)
        self.q[rows][:, boxes] = q
        tokens = tokens_of(q, classes)
        self.writer.symbols(self.learned.tokens, classes.ravel(), tokens.ravel())
        if int(tokens.max()) < DIRECT and int(classes.max()) < FIRST_LOW:
            return q
        where = classes.astype(np.intp) * WIDTHS.shape[1] + tokens
        widths = WIDTHS.take(where)
        wide = np.flatnonzero(widths)
        if not wide.size:
            return q
        w = widths.ravel()[wide]
        self.wide(q.ravel()[wide] - BASES.take(where.ravel()[wide]), w)
        seen: Counts = SEEN.take(where)
        return seen

    def wide(self, values: Counts, widths: Counts) -> None:
        """Take note of numbers of so many raw bits."""
        self._wide.append(packed(values, widths))

    def finish(self, negative: NDArray[np.bool_]) -> tuple[Counts, NDArray[np.float64]]:
        """Write raw bits: low bits, then signs of what is not 0, in the order of rows.

        Returns
        -------
        q : array, shape (M, boxes)
            Magnitudes with their signs.
        off : array, shape (3,)
            How far 1, 2, 3 and more lie above what they stand for, on average.
        """
        for bits in self._wide:
            self.writer.raw(bits)
        if compiled.pays(0):
            from elmfield.codec.lossy import loops

            signs = np.empty(self.q.size, np.uint8)
            sums, n = np.zeros(4), np.zeros(4, np.int64)
            self.writer.raw(signs[: loops.signs(negative, self.x, self.q, signs, sums, n)])
            return self.q, sums[1:] / np.maximum(n[1:], 1)
        some = np.flatnonzero(self.q)
        q, minus = self.q.ravel()[some], negative.ravel()[some]
        self.writer.raw(minus.view(np.uint8))
        # multiples of 2^-25: exact in any order
        above, which = q - self.x.ravel()[some], np.minimum(q, 3)
        mean = np.bincount(which, above, 4)[1:] / np.maximum(np.bincount(which, minlength=4)[1:], 1)
        return np.where(negative, -self.q, self.q), np.asarray(mean, np.float64)


class Follower:
    """Reads magnitudes in the order of a walk."""

    def __init__(self, learned: Learned, reader: StreamReader) -> None:
        self.learned, self.reader = learned, reader
        self._wide: list[tuple[tuple[Places, Places], Counts, Counts]] = []

    def going_on(self, classes: Small, boxes: Places, diagonal: int) -> NDArray[np.bool_]:
        """Whether boxes go on, as it was written."""
        return self.reader.symbols(self.learned.flags, classes).view(np.bool_)

    def magnitudes(self, classes: Small, rows: slice, boxes: Places) -> Counts:
        """Magnitudes of a batch, but for their raw bits."""
        tokens = self.reader.symbols(self.learned.tokens, classes.ravel()).reshape(classes.shape)
        if int(tokens.max()) < DIRECT and int(classes.max()) < FIRST_LOW:
            return tokens.astype(np.int32)
        where = classes.astype(np.intp) * WIDTHS.shape[1] + tokens
        widths = WIDTHS.take(where)
        wide = np.flatnonzero(widths)
        if not wide.size:
            return tokens.astype(np.int32)
        i, j = np.divmod(wide, len(boxes))
        at = (rows.start + i, boxes[j])
        self.wide(at, widths.ravel()[wide], BASES.take(where.ravel()[wide]))
        seen: Counts = SEEN.take(where)
        return seen

    def wide(self, at: tuple[Places, Places], widths: Counts, bases: Counts) -> None:
        """Take note of rows and boxes whose magnitudes have so many raw bits."""
        self._wide.append((at, widths, bases))

    def finish(self, A: Counts, active: NDArray[np.bool_] | None) -> Counts:
        """Whole numbers with their signs from what the walk saw, shape (M, boxes); changes `A`."""
        for (i, j), widths, bases in self._wide:
            found = bases + unpacked(self.reader.raw(int(widths.sum())), widths)
            if int(found.max(initial=0)) > LARGEST_MAGNITUDE:
                raise damaged("has impossible values")
            A[i, j] = found
        if compiled.pays(0):
            from elmfield.codec.lossy import loops

            q = np.zeros_like(A)
            mask = np.zeros(0, np.bool_) if active is None else active
            n = loops.signed(A, mask, self.reader.left, q)
            self.reader.raw(n if n >= 0 else A.size)
            return q
        if active is not None:
            A = A * active
        A[0] = 0
        some = np.flatnonzero(A)
        negative = self.reader.raw(len(some)).astype(np.int32)
        flat = A.ravel()
        flat[some] *= 1 - 2 * negative
        return A
