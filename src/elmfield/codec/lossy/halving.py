"""Phases of halving: samples halfway between known ones, predicted from what is around them.

Every phase is one batch of NumPy calls for all its samples, or a compiled loop. Both do the same
operations of float64, one at a time: the same numbers on every machine.
"""

import math
from collections.abc import Sequence
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from elmfield._array.typing import Floats
from elmfield.codec.ans import Symbols
from elmfield.codec.lossy.transform import UNIT, neighbours

WEIGHT = 4096
"""Weights count in 4096ths."""
FINE_LEVELS = 3
"""In all but so many rounds of halving steps are half as long: much is predicted from these few
samples."""
ACTIVITY_LEVELS = 24
LEAST_ACTIVITY = 8.0
"""Levels of what is expected, two to an octave, from an eighth of a step on."""
LARGEST_SIZE = 1000.0 * UNIT
"""What was added to a guess counts as no more than this, in units, where more is expected."""


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
        return np.stack([term.reshape(-1, self.shape[-1])[::rows] for term in self.terms])

    def predict(self, weights: Sequence[int], shift: int) -> tuple[Floats, Symbols]:
        """Return guesses of all samples, and their classes."""
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
        return guess, level.astype(np.uint8)


class CompiledAround(Around):
    """The same by compiled loops."""

    def _run(
        self, terms: Floats, rows: int, guess: Floats, classes: Symbols, *numbers: float
    ) -> None:
        from elmfield.codec import kernels

        places = _geometry(self.known.shape, self.phase.axis, self.phase.across)
        around = self.known.reshape(-1), self.sizes.reshape(-1), *places, self.n
        kernels.predict(around, terms, rows, guess, classes, np.array(numbers))

    def some_terms(self, rows: int) -> Floats:
        """Return the terms of every so many rows, (terms, rows, width)."""
        width = self.shape[-1]
        terms = np.empty((-(-math.prod(self.shape) // (width * rows)), 4, width))
        self._run(terms, rows, np.empty((0, 0)), np.empty((0, 0), np.uint8), 0.0, 0.0, 0.0, 0.0)
        return terms.transpose(1, 0, 2)[: 3 + bool(self.phase.across)]

    def predict(self, weights: Sequence[int], shift: int) -> tuple[Floats, Symbols]:
        """Return guesses of all samples, and their classes."""
        shape = math.prod(self.shape[:-1]), self.shape[-1]
        guess, classes = np.empty(shape), np.empty(shape, np.uint8)
        far, turn = (w / (2 * WEIGHT) for w in (*weights, 0)[:2])
        first = ACTIVITY_LEVELS * self.phase.kind
        self._run(np.empty((1, 4, shape[1])), 0, guess, classes, far, turn, first, LOWEST + shift)
        return guess, classes


@lru_cache(maxsize=256)
def _geometry(
    known: tuple[int, ...], axis: int, across: tuple[int, ...]
) -> tuple[NDArray[np.int64], int]:
    """Return lengths, strides and 1 for axes across, of known samples on four axes, and the axis.

    Axes of length 1 come first.
    """
    more, out = 4 - len(known), np.ones((3, 4), np.int64)
    out[0, more:] = known
    out[1, :3] = np.cumprod(out[0, :0:-1])[::-1]
    out[2] = [k - more in across for k in range(4)]
    return out, more + axis


LOWEST = int(np.array(LEAST_ACTIVITY).view(np.int64) >> 51)


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
