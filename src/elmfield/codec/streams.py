"""Symbols and raw bits of a part of a tile as bytes, and back."""

from copy import deepcopy
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from elmfield.codec.adaptive import Adaptive
from elmfield.codec.ans import Decoder, Encoder, Tables
from elmfield.codec.contexts import Counts, Places, Small
from elmfield.codec.magnitudes import BASES, DIRECT, SEEN, WIDTHS, packed, tokens_of, unpacked
from elmfield.codec.priors import Prior
from elmfield.errors import StoreError

TABLE_BITS = 12
MOST_LANES = 4096
BITS_PER_LANE = 1000
"""A lane costs about 4 bits, because the octave of its state must be written."""
WEIGHT, LIMIT = 16, 1 << 18
PATIENCE = 1024


def damaged(what: str) -> StoreError:
    """What to raise where bytes cannot be what an encoder wrote."""
    return StoreError(f"A coded tile {what}: the data are cut off or damaged.")


class Learned:
    """The tables of one section while it is coded.

    They learn when enough has been seen: `PATIENCE` symbols and an eighth of all before.
    """

    def __init__(self, prior: Prior) -> None:
        self.contexts = prior.contexts
        self.tokens, self.flags = deepcopy(_fresh(prior))


@lru_cache(maxsize=8)
def _fresh(prior: Prior) -> "tuple[Patient, Patient]":
    return Patient(prior.tokens), Patient(prior.flags)


class Patient:
    """Adaptive tables that wait until there is enough to learn."""

    def __init__(self, counts: NDArray[np.int64]) -> None:
        self._adaptive = Adaptive(counts, TABLE_BITS, weight=WEIGHT, limit=LIMIT)
        self._waiting: list[tuple[NDArray[np.integer], Small]] = []
        self._n_waiting = self._n = 0

    @property
    def tables(self) -> Tables:
        """What is believed now."""
        return self._adaptive.tables

    def update(self, classes: NDArray[np.integer], symbols: Small) -> None:
        """Take note of a batch."""
        self._waiting.append((classes, symbols))
        self._n_waiting += len(symbols)
        if self._n_waiting >= PATIENCE + self._n // 8:
            self._n, self._n_waiting = self._n + self._n_waiting, 0
            seen = [np.concatenate(lists) for lists in zip(*self._waiting)]
            self._adaptive.update(*seen)
            self._waiting = []


# --- states of lanes, without their slack ---------------------------------------------------------


def _compact(words: NDArray[np.uint16], lanes: int) -> bytes:
    """A stream whose states are written with as many bits as they have.

    States are spread evenly over octaves from 2^16 to 2^32: 32 bits for each would waste 8 on average. Here: four
    bits for the octave of every lane, then the bits below its leading one.
    """
    halves = words[: 2 * lanes].astype(np.uint64)
    states = halves[::2] | halves[1::2] << np.uint64(16)
    octave = np.floor(np.log2(states.astype(np.float64))).astype(np.int64)  # exact below 2^53
    below = states.astype(np.int64) - (np.int64(1) << octave)
    bits = np.concatenate([packed(octave - 16, np.full(lanes, 4)), packed(below, octave)])
    head = np.packbits(bits).tobytes()
    return head + words[2 * lanes :].astype("<u2").tobytes()


def _expanded(data: bytes, lanes: int) -> NDArray[np.uint16]:
    """What :func:`_compact` made smaller."""
    bits = np.unpackbits(np.frombuffer(data, np.uint8, min(len(data), 4 * lanes + 1)))
    if len(bits) < 4 * lanes:
        raise damaged("is too short for its lanes")
    octave = unpacked(bits, np.full(lanes, 4)) + 16
    size = -(-int(4 * lanes + octave.sum()) // 8)
    if len(data) < size or (len(data) - size) % 2:
        raise damaged("has a stream of the wrong length")
    states = (np.int64(1) << octave) + unpacked(bits[4 * lanes :], octave)
    halves = np.stack([states & 0xFFFF, states >> 16], axis=1).astype(np.uint16)
    return np.concatenate([halves.ravel(), np.frombuffer(data, "<u2", offset=size)])


# --- writing --------------------------------------------------------------------------------------


@dataclass
class StreamWriter:
    """Batches of symbols in the order of reading, and raw bits behind them."""

    _batches: list[tuple[NDArray[np.uint32], int]] = field(default_factory=list)
    _raw: list[NDArray[np.uint8]] = field(default_factory=list)

    def symbols(self, tables: Adaptive | Patient, classes: NDArray[np.integer], symbols: Small) -> None:
        """Append a batch, shape (n,), and learn from it."""
        entries = tables.tables.entries
        where = classes.astype(np.intp) * entries.shape[1] + symbols
        self._batches.append((entries.take(where), tables.tables.bits))
        tables.update(classes, symbols)

    def raw(self, bits: NDArray[np.uint8]) -> None:
        """Append raw bits; they are read after all symbols."""
        self._raw.append(bits)

    def _size(self) -> float:
        """About the bits of the symbols and all raw bits."""
        total = float(sum(map(len, self._raw)))
        for entries, bits in self._batches:
            freq = (entries & np.uint32(0xFFFF)).astype(np.float32)
            total += bits * len(freq) - float(np.log2(freq).sum())
        return total

    def content(self) -> bytes:
        """The bytes: the number of lanes in two bytes, then the stream."""
        bits = np.concatenate(self._raw) if self._raw else np.zeros(0, np.uint8)
        bits = np.concatenate([bits, np.zeros(-len(bits) % 16, np.uint8)])
        tail = np.packbits(bits).view(">u2").astype(np.uint16)
        largest = max((len(entries) for entries, _ in self._batches), default=1)
        lanes = max(1, min(MOST_LANES, len(tail), largest, int(self._size() / BITS_PER_LANE)))
        encoder = Encoder(lanes)
        for entries, table_bits in self._batches:
            encoder.push_entries(entries, table_bits)
        return lanes.to_bytes(2, "little") + _compact(encoder.finish(tail), lanes)


class StreamReader:
    """What a :class:`StreamWriter` wrote."""

    def __init__(self, data: bytes) -> None:
        lanes = int.from_bytes(data[:2], "little")
        if not 1 <= lanes <= MOST_LANES:
            raise damaged(f"names {lanes} lanes")
        self._decoder = Decoder([_expanded(data[2:], lanes)], lanes)
        self._raw = np.zeros(0, np.uint8)

    def symbols(self, tables: Adaptive | Patient, classes: NDArray[np.integer]) -> Small:
        """The next batch, shape (n,)."""
        symbols = self._decoder.decode(tables.tables, classes)
        tables.update(classes, symbols)
        return symbols

    def finish(self) -> None:
        """Say that all symbols were read: raw bits follow."""
        words = self._decoder.finish()[0]
        self._raw = np.unpackbits(words.astype(">u2").view(np.uint8))

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


@dataclass
class Pricer:
    """What boxes would cost, bits and error, if they were coded like this; nothing is written."""

    x: NDArray[np.float32]
    last: Places
    price: float
    costs: NDArray[np.float32]
    flag_costs: NDArray[np.float32]

    def __post_init__(self) -> None:
        self.error = np.einsum("mn,mn->n", self.x, self.x)
        self.bits = np.zeros(self.x.shape[1], np.float32)

    def going_on(self, classes: Small, boxes: Places, diagonal: int) -> NDArray[np.bool_]:
        """Whether boxes go on."""
        on = self.last.take(boxes) >= diagonal
        self.bits[boxes] += self.flag_costs.take(classes.astype(np.intp) * 2 + on)
        return on

    def magnitudes(self, classes: Small, rows: slice, boxes: Places) -> Counts:
        """The best magnitudes of a batch; their price is added up."""
        x = self.x[rows].take(boxes, axis=1)
        q = (x + np.float32(0.5)).astype(np.int32)
        _cheaper(x, q, classes, self.costs, self.price)
        bits = self.costs.take(classes.astype(np.intp) * self.costs.shape[1] + tokens_of(q, classes))
        self.bits[boxes] += bits.sum(axis=0)
        self.error[boxes] += ((q - 2 * x) * q).sum(axis=0)
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
        where = classes.astype(np.intp) * WIDTHS.shape[1] + tokens
        widths = WIDTHS.take(where)
        wide = np.flatnonzero(widths)
        if not wide.size:
            return q
        w = widths.ravel()[wide]
        self._wide.append(packed(q.ravel()[wide] - BASES.take(where.ravel()[wide]), w))
        return SEEN.take(where)

    def finish(self, negative: NDArray[np.bool_]) -> None:
        """Write raw bits: low bits, then signs of what is not 0, in the order of rows."""
        for bits in self._wide:
            self.writer.raw(bits)
        self.writer.raw(negative.ravel()[np.flatnonzero(self.q)].view(np.uint8))


class Follower:
    """Reads magnitudes in the order of a walk."""

    def __init__(self, learned: Learned, reader: StreamReader) -> None:
        self.learned, self.reader = learned, reader
        self._wide: list[tuple[Places, Counts, Counts]] = []

    def going_on(self, classes: Small, boxes: Places, diagonal: int) -> NDArray[np.bool_]:
        """Whether boxes go on, as it was written."""
        return self.reader.symbols(self.learned.flags, classes).view(np.bool_)

    def magnitudes(self, classes: Small, rows: slice, boxes: Places) -> Counts:
        """Magnitudes of a batch, but for their raw bits."""
        tokens = self.reader.symbols(self.learned.tokens, classes.ravel()).reshape(classes.shape)
        where = classes.astype(np.intp) * WIDTHS.shape[1] + tokens
        widths = WIDTHS.take(where)
        wide = np.flatnonzero(widths)
        if not wide.size:
            return tokens.astype(np.int32)
        i, j = np.divmod(wide, len(boxes))
        self._wide.append(
            ((rows.start + i, boxes[j]), widths.ravel()[wide], BASES.take(where.ravel()[wide]))
        )
        return SEEN.take(where)

    def finish(self, A: Counts, active: NDArray[np.bool_] | None) -> Counts:
        """Whole numbers with their signs from what the walk saw, shape (M, boxes)."""
        if active is not None:
            A = A * active
        for (i, j), widths, bases in self._wide:
            A[i, j] = bases + unpacked(self.reader.raw(int(widths.sum())), widths)
        A[0] = 0
        some = np.flatnonzero(A)
        negative = self.reader.raw(len(some)).astype(np.int32)
        flat = A.ravel()
        flat[some] *= 1 - 2 * negative
        return A
