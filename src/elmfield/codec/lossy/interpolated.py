"""Tiles to a bound, by interpolation: known samples are halved again and again.

The first sample is written as it is. Then, from the widest distance to the shortest and axis after
axis, the samples halfway between known ones are predicted from these, and what is left of them is
rounded to whole steps. Every phase is one batch of NumPy calls for all its samples, at both ends,
so no loop has to be compiled. ``docs/codec.md`` says how the bytes are laid out.

Both ends do the same operations of float64, one at a time: the same numbers on every machine.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from elmfield._array.typing import Floats, Integers
from elmfield.codec.ans import AdaptiveTables, Tables
from elmfield.codec.container import INTERPOLATED, Head, damaged, fill_up
from elmfield.codec.lossy.coder import TABLE_BITS, StreamReader, StreamWriter
from elmfield.codec.lossy.lossy_tile import Values, read_missing, round_samples
from elmfield.codec.lossy.packing import Coded, PreparedTile
from elmfield.codec.lossy.transform import UNIT

WEIGHT = 4096
"""Weights count in 4096ths."""
USUAL_WEIGHTS = (-512, 0)
"""Those of the cubic through four samples in a row."""
LEARNING_SAMPLES = 512
"""With fewer samples a phase has the usual weights."""
LEARNED_SAMPLES, ORDER_SAMPLES = 1 << 13, 1 << 16
"""Samples of a phase that weights are fitted to; samples from which the order of axes is chosen."""
FINE_LEVELS = 2
"""At this distance (as a power of two) and above steps are half as long: much is predicted from
these few samples."""
ACTIVITY_LEVELS = 24
LEAST_ACTIVITY = 8.0
"""Levels of what is expected, two to an octave, from an eighth of a step on."""
DIRECT = 32
N_TOKENS = DIRECT - 1 + 19
"""Numbers below 31 are their own tokens, larger ones are written by octave."""
PIECE_SYMBOLS, MAX_PIECES = 1 << 14, 24
"""Tables learn after so many symbols of a phase, or more where it would be too often."""
LARGEST_NUMBER = (1 << 24) - 2
LARGEST_UNITS = 2.0**36


class Phase(NamedTuple):
    """Samples halfway between known ones along an axis."""

    new: tuple[slice, ...]
    axis: int
    across: tuple[int, ...]  # axes whose samples between are known at this distance
    kind: int  # 0 for wide distances, 1 for neighbours, 2 for the last phase
    unit: int


@lru_cache(maxsize=64)
def phases(shape: tuple[int, ...], order: tuple[int, ...]) -> list[Phase]:
    """Return the phases of an array, with its axes in some order."""
    found = []
    for level in reversed(range((max(shape) - 1).bit_length())):
        s, across = 1 << level, list[int]()
        for axis in order:
            if s >= shape[axis]:
                continue
            at = [slice(0, None, s if k in across else 2 * s) for k in range(len(shape))]
            at[axis] = slice(s, None, 2 * s)
            unit = UNIT if level < FINE_LEVELS else UNIT // 2
            found.append(Phase(tuple(at), axis, tuple(across), int(level == 0), unit))
            across.append(axis)
    return [*found[:-1], *(last._replace(kind=2) for last in found[-1:])]


class Coder(Protocol):
    """What is done in a phase: by an encoder, and by a decoder."""

    def weights(self, phase: Phase, pair: Floats, turns: list[Floats]) -> Sequence[int]:
        """Return the weights of a phase."""

    def numbers(self, phase: Phase, guess: Floats, activity: Floats) -> Floats:
        """Return what is left of its samples, in whole steps."""


def walk(shape: tuple[int, ...], order: tuple[int, ...], first: float, coder: Coder) -> Floats:
    """Return all samples in units, as `coder` finds them phase by phase."""
    known = np.full((1,) * len(shape), first)
    sizes = np.zeros(known.shape)
    for phase in phases(shape, order):
        axis = phase.axis
        n = len(range(*phase.new[axis].indices(shape[axis])))
        a, b, c, d = _in_a_row(known, axis, n)
        pair = a + b
        far = c + d
        far -= pair
        turns = [far]
        activity = np.abs(far)
        np.subtract(a, b, out=a)
        activity += np.abs(a, out=a)
        left, right, *_ = _in_a_row(sizes, axis, n)
        left += right
        activity += left
        activity += left
        if phase.across:
            sides = np.add.reduce([_neighbour_sums(pair, k) for k in phase.across])
            sides *= 0.5 / len(phase.across)
            sides -= pair
            turns.append(sides)
            activity += np.abs(sides) * 2
        activity *= 0.25
        activity += LEAST_ACTIVITY
        guess = pair * 0.5
        for weight, turn in zip(coder.weights(phase, pair, turns), turns):
            if weight:
                guess += turn * (weight / (2 * WEIGHT))
        guess += 0.5
        np.floor(guess, out=guess)
        left = coder.numbers(phase, guess, activity)
        left *= phase.unit
        guess += left
        known = _interleave(known, guess, axis)
        if phase.kind < 2:
            sizes = _interleave(sizes, np.minimum(np.abs(left, out=left), 1000.0 * UNIT), axis)
    return known


def _classes(activity: Floats, phase: Phase, shift: int) -> Integers:
    """Return classes of samples by what is expected, (n,): two to an octave, from `shift` on."""
    found: Integers = activity.reshape(-1).view(np.int64) >> 51
    found -= _LOWEST + shift
    np.maximum(found, 0, out=found)
    np.minimum(found, ACTIVITY_LEVELS - 1, out=found)
    found += ACTIVITY_LEVELS * phase.kind
    return found


_LOWEST = int(np.array(LEAST_ACTIVITY).view(np.int64) >> 51)


def _in_a_row(x: Floats, axis: int, n: int) -> list[Floats]:
    """Return the samples before and after n places halfway, and those one further out."""
    m = x.shape[axis]
    around = np.take(x, np.clip(np.arange(-1, n + 2), 0, m - 1), axis=axis)
    low = (slice(None),) * axis
    found = [around[(*low, slice(o, o + n))] for o in range(4)]
    return [found[1].copy(), found[2], found[0], found[3]]


def _neighbour_sums(x: Floats, axis: int) -> Floats:
    """Return sums of both neighbours along an axis; an end is its own."""
    n, low = x.shape[axis], (slice(None),) * axis
    around = x.take(np.clip(np.arange(-1, n + 1), 0, n - 1), axis=axis)
    return np.asarray(around[(*low, slice(n))] + around[(*low, slice(2, None))])


def _interleave(even: Floats, odd: Floats, axis: int) -> Floats:
    """Return samples of which every second one is new."""
    shape = list(even.shape)
    shape[axis] += odd.shape[axis]
    out, low = np.empty(shape), (slice(None),) * axis
    out[(*low, slice(0, None, 2))] = even
    out[(*low, slice(1, None, 2))] = odd
    return out


# --- numbers as symbols ---------------------------------------------------------------------------


@lru_cache(maxsize=1)
def _initial_counts() -> Integers:
    """Return counts of tokens to begin with: numbers fall off by one factor, the higher the mean.

    Whole numbers only: the same on every machine.
    """
    counts = np.ones((3, ACTIVITY_LEVELS, N_TOKENS), np.int64)
    for kind, level in np.ndindex(3, ACTIVITY_LEVELS):
        mean = max(1, round(2 ** (level / 2)) * (1 if kind == 2 else 2))  # in 16ths
        rest = 1 << 12
        for v in range(1, 1 << 12):
            token = v - 1 if v < DIRECT else DIRECT - 6 + v.bit_length() - 1
            some = rest * 16 // (mean + 16)
            counts[kind, level, token] += some
            rest -= some
    return counts.reshape(-1, N_TOKENS)


@lru_cache(maxsize=1)
def _raw_tables() -> Tables:
    """Return tables for numbers of 0 to 8 bits that are all as likely; the class is the bits."""
    freq = np.zeros((9, 256), np.int64)
    for bits in range(9):
        freq[bits, : 1 << bits] = 1 << TABLE_BITS - bits
    return Tables.of(freq, TABLE_BITS)


def _tables() -> AdaptiveTables:
    return AdaptiveTables(_initial_counts())


def _pieces(n: int) -> list[slice]:
    """Return the parts of a phase after which tables learn."""
    size = max(PIECE_SYMBOLS, -(-n // MAX_PIECES))
    return [slice(a, a + size) for a in range(0, n, size)]


_DIRECT_TOKENS = np.append(np.arange(DIRECT - 1), np.uint8(255)).astype(np.uint8)


@dataclass
class _Encoder(Coder):
    """Samples in units; weights are learned, symbols written."""

    t: Floats
    writer: StreamWriter
    tables: AdaptiveTables
    learned: list[int]

    def weights(self, phase: Phase, pair: Floats, turns: list[Floats]) -> Sequence[int]:
        """Fit weights to some samples; rough places count less."""
        own = self.t[phase.new]
        if own.size < LEARNING_SAMPLES:
            return USUAL_WEIGHTS
        some = slice(None, None, max(1, own.size // LEARNED_SAMPLES))
        X = np.stack([turn.reshape(-1)[some] * 0.5 for turn in turns])
        y = own.reshape(-1)[some] - 0.5 * pair.reshape(-1)[some]
        trusted = X / (np.abs(X).sum(axis=0) + UNIT / 2)
        W = np.linalg.solve(trusted @ X.T + 1e-3 * np.eye(len(X)), trusted @ y)
        whole = np.clip(np.rint(np.nan_to_num(W) * WEIGHT), -32767, 32767)
        found = [int(w) for w in whole]
        self.learned += found
        return found

    def numbers(self, phase: Phase, guess: Floats, activity: Floats) -> Floats:
        """Round what is left, and write it."""
        left = self.t[phase.new] - guess
        left *= 1 / phase.unit
        shift = 0
        if left.size >= LEARNING_SAMPLES:
            some = slice(None, None, max(1, left.size // LEARNED_SAMPLES))
            size = np.abs(left.reshape(-1)[some]).mean()
            found = 2 * np.log2(activity.reshape(-1)[some].mean() / (2 * UNIT * size + 1e-3))
            shift = int(np.clip(np.rint(found), -64, 64))
            self.learned.append(shift)
        classes = _classes(activity, phase, shift)
        np.rint(left, out=left)
        flat = left.reshape(-1)
        size = np.abs(flat)
        if float(size.max(initial=0.0)) * 2 > LARGEST_NUMBER:
            raise OverflowError
        number = size.astype(np.int32)
        if phase.kind == 2:
            self.writer.raw.append((flat < 0).astype(np.uint8)[number > 0])
        else:
            number += number
            number -= flat > 0
        tokens = _DIRECT_TOKENS.take(number, mode="clip")
        large = np.flatnonzero(tokens == 255)
        if large.size:
            v = number[large] + 1
            bits = np.frexp(v.astype(np.float64))[1] - 1
            tokens[large] = DIRECT - 6 + bits
        for some in _pieces(len(tokens)):
            self.writer.symbols(self.tables, classes[some], tokens[some])
        for low in range(0, int(bits.max(initial=0)) if large.size else 0, 8):
            some = np.clip(bits - low, 0, 8)
            part = (v >> low) & ((1 << some) - 1)
            entries = _raw_tables().entries
            self.writer.batches.append(entries.reshape(-1).take(some * 256 + part))
        return left


@dataclass
class _Decoder(Coder):
    """Symbols that are read."""

    reader: StreamReader
    tables: AdaptiveTables
    learned: list[int]

    def weights(self, phase: Phase, pair: Floats, turns: list[Floats]) -> Sequence[int]:
        """Take the next weights."""
        if pair.size < LEARNING_SAMPLES:
            return USUAL_WEIGHTS
        return [self.learned.pop(0) for _ in turns]

    def numbers(self, phase: Phase, guess: Floats, activity: Floats) -> Floats:
        """Read what is left."""
        shift = self.learned.pop(0) if guess.size >= LEARNING_SAMPLES else 0
        classes = _classes(activity, phase, shift)
        number = np.empty(classes.size, np.int32)
        for some in _pieces(classes.size):
            number[some] = self.reader.symbols(self.tables, classes[some])
        large = np.flatnonzero(number >= DIRECT - 1)
        if large.size:
            bits = number[large] - (DIRECT - 6)
            v = 1 << bits
            for low in range(0, int(bits.max()), 8):
                part = self.reader.decode(_raw_tables(), np.clip(bits - low, 0, 8))
                v += part.astype(np.int32) << low
            number[large] = v - 1
        if phase.kind == 2:
            self.reader.finish_symbols()
            there = np.flatnonzero(number)
            number[there] *= 1 - 2 * self.reader.raw(len(there)).astype(np.int32)
            return number.reshape(guess.shape).astype(np.float64)
        left = (number + 1) >> 1
        np.negative(left, out=left, where=(number & 1) == 0)
        return left.reshape(guess.shape).astype(np.float64)


# --- tiles ----------------------------------------------------------------------------------------


def _n_weights(shape: tuple[int, ...], order: tuple[int, ...]) -> int:
    """Return how many weights and shifts a tile has."""
    total = 0
    for phase in phases(shape, order):
        n = np.prod([len(range(*s.indices(m))) for s, m in zip(phase.new, shape)])
        total += (2 + bool(phase.across)) * bool(n >= LEARNING_SAMPLES)
    return total


def choose_order(x: Floats) -> tuple[int, ...]:
    """Return the axes of samples, the smoothest last: half of the samples lie between along it."""
    every = max(1, round((x.size / ORDER_SAMPLES) ** (1 / max(1, x.ndim - 1))))
    rough = []
    for k, n in enumerate(x.shape):
        some = x[tuple(slice(None, None, 1 if j == k else every) for j in range(x.ndim))]
        rough.append(float(np.abs(np.diff(some, 2, axis=k)).mean()) if n > 2 else 0.0)
    return tuple(np.argsort(rough, kind="stable")[::-1].tolist())


def pack_interpolated(tile: PreparedTile, half: float) -> Coded | None:
    """Return a tile no sample of which is further off than `half`, before it has its dtype.

    None where that takes too large numbers, or where there are several channels.
    """
    step, x = 2 * half * (1 - 2.0**-30), tile.x[0]
    if len(tile.x) > 1 or step < np.finfo(np.float64).tiny:
        return None
    with np.errstate(over="ignore"):
        t = (x - tile.offset) / step
    t *= UNIT
    if not float(np.abs(t).max()) < LARGEST_UNITS:
        return None
    order = choose_order(t)
    first = round(float(t.flat[0]))
    encoder = _Encoder(t, StreamWriter(), _tables(), [])
    try:
        units = walk(t.shape, order, float(first), encoder)
    except OverflowError:
        return None
    out = tile.head.writer(INTERPOLATED)
    out.data += bytes([tile.missing is not None, *order])
    out.float(tile.offset)
    out.float(step)
    out.signed(first)
    out.data += np.array(encoder.learned, "<i2").tobytes()
    if tile.missing is not None:
        gaps = tile.missing_bytes()
        out.number(len(gaps))
        out.data += gaps
    out.data += encoder.writer.content()
    found = _finish(units[None], tile.head, tile.offset, step, tile.missing)
    return fill_up(bytes(out.data), t.size, INTERPOLATED), found


def _finish(
    units: Floats, head: Head, offset: float, step: float, missing: NDArray[np.bool_] | None
) -> Values:
    found = round_samples(units, offset, step, head.dtype)
    if missing is not None:
        found[missing] = np.nan
    return head.restore(found)


def unpack(data: bytes) -> Values:
    """Return the array of a tile; StoreError where the bytes are damaged."""
    head, reader = Head.read(data, INTERPOLATED)
    C, *shape = head.spread
    d, gaps = len(shape), reader.take(1)[0]
    order = tuple(reader.take(d))
    bad = head.dtype.kind == "b" or 0 in head.shape or C > 1 or gaps > (head.dtype.kind == "f")
    if bad or sorted(order) != list(range(d)) or np.prod(shape) < 2:
        raise damaged("names an impossible dtype or shape")
    offset, step, first = reader.float(), reader.float(), reader.signed()
    if not (np.isfinite([offset, step]).all() and step > 0 and abs(first) < LARGEST_UNITS):
        raise damaged("has an impossible step")
    learned = reader.array("<i2", _n_weights(tuple(shape), order)).tolist()
    missing = read_missing(reader.take(reader.number()), head.spread) if gaps else None
    decoder = _Decoder(StreamReader(reader.rest()), _tables(), learned)
    units = walk(tuple(shape), order, float(first), decoder)
    return _finish(units[None], head, offset, step, missing)
