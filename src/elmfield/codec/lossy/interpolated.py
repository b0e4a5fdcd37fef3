"""Tiles to a bound, by interpolation: known samples are halved again and again.

The first sample is written as it is. Then, from the widest distance to the shortest and axis after
axis, the samples halfway between known ones are predicted from these, and what is left of them is
rounded to whole steps. ``docs/codec.md`` says how the bytes are laid out.

Every phase is one batch of NumPy calls for all its samples, or a compiled loop. Both do the same
operations of float64, one at a time: the same numbers on every machine.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from elmfield._array import running
from elmfield._array.typing import Floats
from elmfield.codec.ans import AdaptiveTables, StreamReader, StreamWriter, Symbols
from elmfield.codec.container import INTERPOLATED, Head, damaged, fill_up
from elmfield.codec.lossy.lossy_tile import Values, finish_samples, read_missing
from elmfield.codec.lossy.packing import Coded, PreparedTile
from elmfield.codec.lossy.transform import UNIT, neighbours

WEIGHT = 4096
"""Weights count in 4096ths."""
FINE_LEVELS = 3
"""In all but so many rounds of halving steps are half as long: much is predicted from these few
samples."""
ACTIVITY_LEVELS = 24
LEAST_ACTIVITY = 8.0
"""Levels of what is expected, two to an octave, from an eighth of a step on."""
LOWEST = int(np.array(LEAST_ACTIVITY).view(np.int64) >> 51)
LARGEST_SIZE = 1000.0 * UNIT
"""What was added to a guess counts as no more than this, in units, where more is expected."""
USUAL_WEIGHTS, USUAL_SHIFT = (-512, 0), 3
"""Those of the cubic through four samples in a row, and the shift of levels that goes with them."""
LEARNING_SAMPLES = 512
"""With fewer samples a phase has the usual weights."""
LEARNED_SAMPLES, SOME_ROWS, ORDER_SAMPLES = 1 << 12, 64, 1 << 14
"""Samples of a phase that weights are fitted to, on so many rows; samples from which the order of
axes is chosen."""
DIRECT = 32
N_TOKENS = DIRECT - 1 + 19
"""Numbers below 31 are their own tokens, larger ones are written by octave."""
PIECE_BITS, MAX_PIECES = (15, 14, 12), 24
"""Tables learn after 2^15, 2^14 or 2^12 symbols of a phase, with little to much effort, or more
where it would be too often. ERA5 takes 0.8 % more bytes with the first, 0.9 % fewer with the last.
"""
LARGEST_NUMBER = (1 << 24) - 2
LARGEST_UNITS = 2.0**36
FREQUENT_EFFORT = 7
"""Effort from which on tables learn often."""


# --- phases: samples halfway between known ones, predicted from what is around them ---------------


class Phase(NamedTuple):
    """Samples halfway between known ones along an axis."""

    new: tuple[slice, ...]
    axis: int
    across: tuple[int, ...]  # axes whose samples between are known
    kind: int  # 0 at first, 1 in the last round, 2 for the last phase
    unit: int


@lru_cache(maxsize=64)
def phases(shape: tuple[int, ...], order: tuple[int, ...]) -> list[Phase]:
    """Return the phases of an array; `order` has its axes, four times their delays added.

    The axes are halved in turn, a delayed one so many levels later, once both ends are known.
    """
    turns = [
        (level - (delay if 2 << level < shape[axis] else 0), -place, axis, 1 << level)
        for place, (delay, axis) in enumerate(divmod(code, 4) for code in order)
        for level in range((shape[axis] - 1).bit_length())
    ]
    turns.sort(reverse=True)
    gaps = [1 << (n - 1).bit_length() for n in shape]  # between known samples
    done, found = dict[int, int](), []
    for level, _, axis, s in turns:
        across = [k for k, last in done.items() if k != axis and (last <= level or gaps[k] == 1)]
        at = [slice(0, None, gap) for gap in gaps]
        at[axis] = slice(s, None, 2 * s)
        rounds = level - turns[-1][0]
        unit = UNIT if rounds < FINE_LEVELS else UNIT // 2
        found.append(Phase(tuple(at), axis, tuple(across), int(rounds == 0), unit))
        gaps[axis], done[axis] = s, level
    return [*found[:-1], *(p._replace(kind=2) for p in found[-1:])]


class Around:
    """Terms of new samples, from what is known around them: pair, activity, far and turn."""

    def __init__(self, known: Floats, sizes: Floats, phase: Phase, shape: tuple[int, ...]) -> None:
        axis, rest = phase.axis, known.shape
        self.n = len(range(*phase.new[axis].indices(shape[axis])))
        self.known, self.sizes, self.phase = known, sizes, phase
        self.shape = (*rest[:axis], self.n, *rest[axis + 1 :])

    @cached_property
    def terms(self) -> list[Floats]:
        """The terms of all samples."""
        axis = self.phase.axis
        a, b, c, d = _in_a_row(self.known, axis, self.n, line=True)
        pair = a + b
        far = c + d
        far -= pair
        activity = np.abs(far)
        np.subtract(a, b, out=a)
        activity += np.abs(a, out=a)
        left, right, *_ = _in_a_row(self.sizes, axis, self.n, line=False)
        left += right
        left *= 2
        activity += left
        turns = []
        if self.phase.across:
            sides = np.add.reduce([np.add(*neighbours(pair, k)) for k in self.phase.across])
            sides *= 0.5 / len(self.phase.across)
            sides -= pair
            turns.append(sides)
            activity += np.abs(sides) * 2
        activity *= 0.25
        activity += LEAST_ACTIVITY
        return [pair, activity, far, *turns]

    def some_terms(self, rows: int) -> Floats:
        """Return the terms of every so many rows, (terms, rows, width)."""
        if running.pays(0):
            from elmfield.codec import kernels

            return kernels.find_terms(self, rows)
        return np.stack([term.reshape(-1, self.shape[-1])[::rows] for term in self.terms])

    def predict(self, weights: Sequence[int], shift: int) -> tuple[Floats, Symbols]:
        """Return guesses of all samples, and their classes, flat."""
        if running.pays(0):
            from elmfield.codec import kernels

            return kernels.predict(self, weights, shift)
        pair, activity, *turns = self.terms
        guess = pair * 0.5
        for weight, turn in zip(weights, turns):
            guess += turn * (weight / (2 * WEIGHT))
        guess += 0.5
        np.floor(guess, out=guess)
        level = activity.view(np.int64) >> 51
        level -= LOWEST + shift
        np.clip(level, 0, ACTIVITY_LEVELS - 1, out=level)
        level += ACTIVITY_LEVELS * self.phase.kind
        return guess.reshape(-1), level.astype(np.uint8).reshape(-1)


def _in_a_row(x: Floats, axis: int, n: int, *, line: bool) -> list[Floats]:
    """Return the samples before and after n places halfway, and those one further out.

    Where the last place has none behind it, a line goes on; else, and elsewhere, the last repeats.
    """
    m = x.shape[axis]
    around = np.take(x, np.clip(np.arange(-1, n + 2), 0, m - 1), axis=axis)
    low = (slice(None),) * axis
    if line and 1 < m == n:
        last = (*low, slice(m, m + 1))
        around[(*low, slice(m + 1, None))] = 2 * around[last] - around[(*low, slice(m - 1, m))]
    found = [around[(*low, slice(o, o + n))] for o in range(4)]
    return [found[1].copy(), found[2], found[0], found[3]]


def interleave(even: Floats, odd: Floats, axis: int) -> Floats:
    """Return samples of which every second one is new."""
    shape = list(even.shape)
    shape[axis] += odd.shape[axis]
    out, low = np.empty(shape), (slice(None),) * axis
    out[(*low, slice(0, None, 2))] = even
    out[(*low, slice(1, None, 2))] = odd
    return out


def walk(
    shape: tuple[int, ...], order: tuple[int, ...], first: float, coder: "_Encoder | _Decoder"
) -> Floats:
    """Return all samples in units, as `coder` finds them phase by phase.

    It settles the weights of a phase and the shift of its levels, then adds to guesses, in place,
    what is left of samples, and returns that.
    """
    known = np.full((1,) * len(shape), first)
    sizes = np.zeros(known.shape)
    for phase in phases(shape, order):
        around = Around(known, sizes, phase, shape)
        guess, classes = around.predict(*coder.settle(phase, around))
        left = coder.numbers(phase, guess, classes)
        known = interleave(known, guess.reshape(around.shape), phase.axis)
        if phase.kind < 2:
            np.minimum(np.abs(left, out=left), LARGEST_SIZE, out=left)
            sizes = interleave(sizes, left.reshape(around.shape), phase.axis)
    return known


# --- numbers as symbols ---------------------------------------------------------------------------


@lru_cache(maxsize=1)
def _initial_tables() -> AdaptiveTables:
    """Return tables of tokens to begin with: numbers fall off by one factor, the higher the mean.

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
    return AdaptiveTables(counts.reshape(-1, N_TOKENS))


def _pieces(n: int, bits: int) -> list[slice]:
    """Return the parts of a phase after which tables learn."""
    size = max(1 << bits, -(-n // MAX_PIECES))
    return [slice(a, a + size) for a in range(0, n, size)]


@dataclass
class _Encoder:
    """Samples in units; weights are learned, symbols written."""

    t: Floats
    writer: StreamWriter
    tables: AdaptiveTables
    learned: list[int]
    piece: int
    fits: bool

    def settle(self, phase: Phase, around: Around) -> tuple[Sequence[int], int]:
        """Fit weights to some samples, rough places counting less; and the shift."""
        own = self.t[phase.new]
        if own.size < LEARNING_SAMPLES:
            return USUAL_WEIGHTS, 0
        if not self.fits:
            self.learned += [*USUAL_WEIGHTS[: 1 + bool(phase.across)], USUAL_SHIFT]
            return USUAL_WEIGHTS, USUAL_SHIFT
        width, every = own.shape[-1], max(1, own.size // LEARNED_SAMPLES)
        rows = min(every, max(1, own.size // width // SOME_ROWS))
        columns = max(1, every // rows)
        pair, activity, *turns = (
            term[:, ::columns].reshape(-1) for term in around.some_terms(rows)
        )
        X = np.stack(turns) * 0.5
        y = own.reshape(-1, width)[::rows, ::columns].reshape(-1) - 0.5 * pair
        trusted = X / (np.abs(X).sum(axis=0) + UNIT / 2)
        W = np.linalg.solve(trusted @ X.T + 1e-3 * np.eye(len(X)), trusted @ y)
        whole = np.clip(np.rint(np.nan_to_num(W) * WEIGHT), -32767, 32767)
        size = np.abs(y - (whole / WEIGHT) @ X).mean() / phase.unit
        found = 2 * np.log2(activity.mean() / (2 * UNIT * size + 1e-3))
        shift = int(np.clip(np.rint(found), -64, 64))
        weights = [int(w) for w in whole]
        self.learned += [*weights, shift]
        return weights, shift

    def numbers(self, phase: Phase, guess: Floats, classes: Symbols) -> Floats:
        """Round what is left, and write it."""
        is_last, left = phase.kind == 2, self.t[phase.new].reshape(-1) - guess
        left *= 1 / phase.unit
        np.rint(left, out=left)
        number = np.abs(left)
        if not is_last:
            number += number - (left > 0)
        tokens = np.minimum(number, DIRECT - 1).astype(np.uint8)
        signs = (left < 0)[tokens > 0 if is_last else slice(0)].view(np.uint8)
        where = np.flatnonzero(tokens == DIRECT - 1)
        large = number[where]
        if float(large.max(initial=0)) > LARGEST_NUMBER:
            raise OverflowError
        bits = np.frexp(large + 1)[1] - 1
        tokens[where] = DIRECT - 6 + bits
        for some in _pieces(len(tokens), self.piece):
            self.writer.symbols(self.tables, classes[some], tokens[some])
        self.writer.numbers(large.astype(np.int64) + 1, bits)
        self.writer.raw.append(signs)
        return _add(tokens, where, large, signs if is_last else None, phase.unit, guess)


@dataclass
class _Decoder:
    """Symbols that are read."""

    reader: StreamReader
    tables: AdaptiveTables
    learned: list[int]
    piece: int

    def settle(self, phase: Phase, around: Around) -> tuple[Sequence[int], int]:
        """Take the next weights, and the shift."""
        if math.prod(around.shape) < LEARNING_SAMPLES:
            return USUAL_WEIGHTS, 0
        weights = [self.learned.pop(0) for _ in range(1 + bool(phase.across))]
        return weights, self.learned.pop(0)

    def numbers(self, phase: Phase, guess: Floats, classes: Symbols) -> Floats:
        """Read what is left."""
        pieces = _pieces(len(classes), self.piece)
        tokens = np.concatenate([self.reader.symbols(self.tables, classes[p]) for p in pieces])
        where = np.flatnonzero(tokens >= DIRECT - 1)
        bits = tokens[where].astype(np.int64) - (DIRECT - 6)
        large = ((1 << bits) + self.reader.numbers(bits) - 1).astype(np.float64)
        signs = None
        if phase.kind == 2:
            self.reader.finish()
            signs = self.reader.raw(int(np.count_nonzero(tokens)))
        return _add(tokens, where, large, signs, phase.unit, guess)


def _count_from_zero(number: Floats) -> Floats:
    """Return 0, 1, -1, 2, -2, ... for 0, 1, 2, 3, 4, ..."""
    return np.where(number % 2 > 0, (number + 1) / 2, -number / 2)


SMALL_NUMBERS = _count_from_zero(np.arange(N_TOKENS, dtype=np.float64))


def _add(
    tokens: Symbols,
    where: NDArray[np.intp],
    large: Floats,
    signs: Symbols | None,
    unit: int,
    guess: Floats,
) -> Floats:
    """Add what is left of samples to guesses, in place; return it.

    `large` are the numbers that tokens from 31 on, at `where`, stand for. Numbers are magnitudes
    where there are signs, of those above 0; else 0, 1, -1, 2, -2 are numbered from 0 on.
    """
    left = SMALL_NUMBERS.take(tokens) if signs is None else tokens.astype(np.float64)
    left *= unit
    if where.size:
        left[where] = unit * (_count_from_zero(large) if signs is None else large)
    if signs is not None:
        left[np.flatnonzero(tokens != 0)[signs != 0]] *= -1.0
    guess += left
    return left


# --- tiles ----------------------------------------------------------------------------------------


def _n_weights(shape: tuple[int, ...], order: tuple[int, ...]) -> int:
    """Return how many weights and shifts a tile has."""
    total = 0
    for phase in phases(shape, order):
        n = math.prod([len(range(*s.indices(m))) for s, m in zip(phase.new, shape)])
        total += (2 + bool(phase.across)) * bool(n >= LEARNING_SAMPLES)
    return total


def choose_order(x: Floats) -> tuple[int, ...]:
    """Return the axes of samples, the smoothest last, and their delays as `phases` takes them.

    Most samples lie between others along the last axis. It is delayed while samples at its
    distances are nearer to a line than neighbours are along the roughest axis.
    """
    every = max(1, round((x.size / ORDER_SAMPLES) ** (1 / max(1, x.ndim - 1))))
    rough = list[list[float]]()
    for k, n in enumerate(x.shape):
        some = np.moveaxis(x, k, 0)[(slice(None), *[slice(None, None, every)] * (x.ndim - 1))]
        steps = [1 << level for level in range((n - 1).bit_length() - 1)]
        rough.append([float(np.abs(np.diff(some[::s], 2, axis=0)).mean()) for s in steps] or [0.0])
    order = np.argsort([r[0] for r in rough], kind="stable")[::-1].tolist()
    top = rough[order[0]][0]
    return tuple(k + 4 * max(0, sum(r < top for r in rough[k]) - 1) for k in order)


def pack_interpolated(tile: PreparedTile, half: float, effort: int) -> Coded | None:
    """Return a tile no sample of which is further off than `half`, before it has its dtype.

    None where that takes too large numbers, or where there are several channels. With the least
    effort weights are the usual ones.
    """
    step, x = 2 * half * (1 - 2.0**-30), tile.x[0]
    if len(tile.x) > 1 or step < np.finfo(np.float64).tiny:
        return None
    with np.errstate(over="ignore"):
        t = (x - tile.offset) / step
    t *= UNIT
    if not float(np.abs(t).max()) < LARGEST_UNITS:
        return None
    running.pays(t.size // 4)  # NumPy loses less time here than without loss
    order = choose_order(t)
    first = round(float(t.flat[0]))
    piece = PIECE_BITS[(effort > 1) + (effort >= FREQUENT_EFFORT)]
    encoder = _Encoder(t, StreamWriter(), _initial_tables().copy(), [], piece, effort > 1)
    try:
        units = walk(t.shape, order, float(first), encoder)
    except OverflowError:
        return None
    out = tile.head.writer(INTERPOLATED)
    out.data += bytes([2 * piece + (tile.missing is not None), *order])
    out.float(tile.offset)
    out.float(step)
    out.signed(first)
    out.data += np.array(encoder.learned, "<i2").tobytes()
    if tile.missing is not None:
        gaps = tile.missing_bytes()
        out.number(len(gaps))
        out.data += gaps
    out.data += encoder.writer.content()
    found = finish_samples(units[None], tile.offset, step, tile.head, tile.missing)
    return fill_up(bytes(out.data), t.size, INTERPOLATED), found


def unpack(data: bytes) -> Values:
    """Return the array of a tile; StoreError where the bytes are damaged."""
    head, reader = Head.read(data, INTERPOLATED)
    C, *shape = head.spread
    d, (piece, gaps) = len(shape), divmod(reader.take(1)[0], 2)
    order = tuple(reader.take(d))
    bad = head.dtype.kind == "b" or 0 in head.shape or C > 1 or gaps > (head.dtype.kind == "f")
    if bad or sorted(code % 4 for code in order) != list(range(d)) or math.prod(shape) < 2:
        raise damaged("names an impossible dtype or shape")
    offset, step, first = reader.float(), reader.float(), reader.signed()
    if not (np.isfinite([offset, step]).all() and step > 0 and abs(first) < LARGEST_UNITS):
        raise damaged("has an impossible step")
    learned = reader.array("<i2", _n_weights(tuple(shape), order)).tolist()
    missing = read_missing(reader.take(reader.number()), head.spread) if gaps else None
    running.pays(math.prod(shape) // 4)
    decoder = _Decoder(StreamReader(reader.rest()), _initial_tables().copy(), learned, piece)
    units = walk(tuple(shape), order, float(first), decoder)
    return finish_samples(units[None], offset, step, head, missing)
