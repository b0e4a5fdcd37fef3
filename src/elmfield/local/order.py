"""The energy order that suits an array, read off its spectrum, or off samples left out.

If a signal's power falls as ω^(-2p) along an axis, the best linear interpolation uses an energy of
order p. The exponent is fitted to the upper octave of the spectrum, with the part beyond the
Nyquist frequency folded back as sampling folds it. What rounding adds to a spectrum is not the
signal's: where it drowns the upper octave, the octave below counts. Where that says that an array
is smooth, or few samples make a spectrum, samples are left out in turn, and the order is taken that
says best what they were.
"""

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from elmfield._array.backend import move, namespace, to_numpy, to_numpy_all
from elmfield._array.cache import memoised
from elmfield._array.typing import Array, Floats, Integers
from elmfield.local.bases.axis_modes import axis_modes
from elmfield.local.energies import STEEPEST, Family, affine, complement, covariances, positions
from elmfield.samples import Grid, View

SEGMENT_SAMPLES = 32
"""Samples per segment of the averaged periodogram."""

LEAST_SAMPLES = 8
"""Axes shorter than this say nothing about their spectrum."""

SPECTRUM_SAMPLES = 1 << 16
"""Samples looked at along an axis, about: lines far apart of a larger array, or parts of a long
line. A fit of 512² samples takes 1.4 times as long as with a given order."""

ROUNDING_SAMPLES = 1 << 13
"""Samples looked at for the step they were rounded to, about."""

ORDER_LIMITS = (0.9, 8.0)
"""Orders outside this range are never chosen."""

CLEAR_RATIO = 8.0
"""A frequency counts where its power is this many times what rounding alone would give."""

CALM_EXPONENT = 3.0
"""Exponent of what is so slow that rounding hides all but its first few frequencies: order 4."""


SMOOTH_ORDER = 2.5
"""From this order of the spectrum on, samples left out choose the order."""

SMOOTH_MODELS = tuple(
    (s, q) for s in (2.5, 3.0, 3.5, 4.0, 5.0, 6.0, 7.0, 8.0) for q in (2, math.ceil(s))
)
"""Orders, and numbers of polynomials without a price, that are tried then."""

ROUGH_MODELS = ((1.1, 2), (1.5, 2), (2.0, 2))
"""Those that are tried besides where a spectrum has too few lines."""

SHORTER_LINES, OUTERMOST_WEIGHT = 3, 0.3
"""Samples by which lines of few samples are shortened at their ends, and what errors of outermost
samples are multiplied by: functions are asked for half a sample beyond the others, not a whole one.
In the line alone the two samples beside its ends decide, and some model meets these by chance: of
700 lines of 12 to 32 samples 18 had errors above 5 times a spline's, now 9."""

LINE_OFFSET = 0.75
"""How much smoother it is right to be half-way between samples than where a sample is left out, on
smooth arrays: with 0 seven slices of a flow lose 0.2 dB inside, with 1 they lose 0.3 at borders."""

SPECTRUM_SHARE, MIDDLING_FREE, MIDDLING_ORDER = 2 / 3, 3, 5.0
"""How far an order goes back to the spectrum's, where at most so many polynomials are free and that
is below this one: with 0 nineteen slices of a flow lose up to 0.06 dB inside to the spectrum's
order and gain 0.6 at borders, with 2/3 up to 0.02 and 0.2."""

LEFT_OUT_SEGMENTS = 1024
"""Segments in which samples are left out, at most about."""


def spectral_orders(view: View, fallback: float, means: bool = False) -> tuple[float, ...]:
    """The order for each axis of samples (..., C) by its spectrum alone, in steps of 0.05.

    ``order = 0.05 + 1.3 p`` was chosen on the 33 arrays of the README's results, none held back; an
    axis too short to tell, or of straight lines only, takes the mean of the others, or `fallback`.
    Of `means` over cells p is that of the function, whose spectrum falls less steeply than theirs,
    and the order is p itself: on 12 pictures, averaged and enlarged, 0.02 dB better.
    """
    return orders_of(exponents(view, means), *((0.0, 1.0) if means else (0.05, 1.3)), fallback)


def suited_orders(view: View, fallback: float) -> tuple[tuple[float, ...], tuple[int, ...]]:
    """The order for each axis of samples (..., C), and how many polynomials have no price there.

    That of the spectrum, with lines for free, unless samples left out choose; an axis that has none
    takes what the others have.
    """
    found = exponents(view)
    spectral = orders_of(found, 0.05, 1.3, fallback)
    chosen = {}
    for k, (n, s, p) in enumerate(zip(view.shape, spectral, found)):
        few = n <= SEGMENT_SAMPLES
        if p is not None and (s >= SMOOTH_ORDER or few):
            order, free = left_out_model(view, k, few)
            if not few and free <= MIDDLING_FREE and s < MIDDLING_ORDER:
                order = round(20 * (order + SPECTRUM_SHARE * (s - order))) / 20
            chosen[k] = (order, free)
        elif p is not None:
            chosen[k] = (s, 2)
    usual = sum(s for s, _ in chosen.values()) / len(chosen) if chosen else fallback
    free = max((q for _, q in chosen.values()), default=2)
    every = [chosen.get(k, (usual, free)) for k in range(len(found))]
    return tuple(s for s, _ in every), tuple(q for _, q in every)


def left_out_model(view: View, k: int, few: bool) -> tuple[float, int]:
    """The order and the number of free polynomials that miss samples left out along axis k least.

    Of a `few` samples all are left out, of the line and of lines shorter at its ends. In a longer
    line a sample counts in the segment in whose middle it lies, and the outermost ones do not.
    """
    models, grid = (ROUGH_MODELS if few else ()) + SMOOTH_MODELS, _segments(view.shape, k)
    length = view.shape[k] if few else SEGMENT_SAMPLES
    seen = view.on(grid)
    xp, count = namespace(seen), len(grid[k]) // length
    pieces = xp.reshape(xp.moveaxis(seen, k, -1), (-1, len(grid[k])))
    if few:  # segments of an even number of samples are the line, or overlap
        pieces = xp.take(pieces, move(np.unique(grid[k], return_index=True)[1], seen), axis=1)
    pieces = pieces[:: max(1, pieces.shape[0] * count // LEFT_OUT_SEGMENTS), :]
    pieces = xp.reshape(pieces, (-1, count, length))
    ways = _left_out(length, models, SHORTER_LINES if few else 0).reshape(length, len(models), -1)

    def missed(part: Array, columns: slice) -> Floats:
        """Sums of squares by model, of samples left out in these columns of segments."""
        own = ways[:, :, columns]
        found = xp.reshape(part, (-1, length)) @ move(own.reshape(length, -1), seen, seen.dtype)
        sums = to_numpy(xp.sum(found * found, axis=0)).reshape(own.shape[1:])
        return np.asarray(sums.sum(axis=1))

    q = length // 4
    size = missed(pieces, slice(None) if few else slice(q, length - q))
    if not few:  # what no other segment has in its middle
        size += missed(pieces[:, :1, :], slice(1, q))
        size += missed(pieces[:, -1:, :], slice(length - q, length - 1))
    order, free = models[int(np.argmin(size))]
    return min(order + LINE_OFFSET, ORDER_LIMITS[1]) if order >= SMOOTH_ORDER else order, free


@memoised(64)
def _left_out(n: int, models: tuple[tuple[float, int], ...], shorter: int) -> Floats:
    """By what each sample of n is missed if it is left out, (n, K n).

    With ``Q = U γ⁻¹ Uᵀ`` over the modes with a price it is ``(Q y)_i / Q_ii`` (Wahba 1990). With
    lines `shorter` by up to so many samples at their ends there are more than n of them: as many
    sums whose squares are theirs in all.
    """
    ways = []
    for s, q in models:
        parts = []
        for less in range(shorter + 1):
            modes = axis_modes(n - less, s, free=q)
            U = modes.basis[:, modes.n_free :] / np.sqrt(modes.smoothness[modes.n_free :])
            Q = U @ U.T
            own = Q / np.diag(Q)
            own[:, [0, -1]] *= OUTERMOST_WEIGHT
            parts += [np.pad(own, ((a, less - a), (0, 0))) for a in range(less + 1)]
        ways.append(np.linalg.qr(np.hstack(parts).T)[1].T if shorter else parts[0])
    return np.hstack(ways)


def orders_of(
    found: Sequence[float | None], first: float, slope: float, fallback: float
) -> tuple[float, ...]:
    """``order = first + slope p`` for the exponent p of each axis, in steps of 0.05."""
    low, high = ORDER_LIMITS
    known = {k: CALM_EXPONENT if p == math.inf else p for k, p in enumerate(found) if p is not None}
    steps = {k: round((first + slope * p) * 20) / 20 for k, p in known.items()}
    orders = {k: min(max(s, low), high) for k, s in steps.items()}
    usual = sum(orders.values()) / len(orders) if orders else fallback
    return tuple(orders.get(k, usual) for k in range(len(found)))


def exponents(view: View, means: bool = False) -> tuple[float | None, ...]:
    """Exponents p of the axes of samples (..., C); None where an axis does not determine one.

    Infinite where the axis is so slow that rounding hides all but its first few frequencies.
    """
    axes = [k for k, n in enumerate(view.shape[:-1]) if n >= LEAST_SAMPLES]
    if not axes:
        return (None,) * (len(view.shape) - 1)
    few = view.every(probe_step(view.shape))
    few, *sizes = to_numpy_all([few, *(_sizes(view, k) for k in axes)])
    rounded = grain(few, view.eps)
    found: list[float | None] = [None] * (len(view.shape) - 1)
    for k, size in zip(axes, sizes):
        length = _length(view.shape[k])
        grid = _segments(view.shape, k)
        count = math.prod(map(len, grid)) * view.shape[-1] // length
        power = (size.astype(np.float64) ** 2).reshape(2, -1).sum(axis=0) / count
        found[k] = exponent(power, rounded * _waves(length)[1], means)
    return tuple(found)


def probe_step(shape: Sequence[int]) -> int:
    """One of how many samples is looked at for its rounding, of an array (..., C)."""
    return max(1, math.prod(shape[:-1]) // ROUNDING_SAMPLES)


def probe_grids(shape: Sequence[int]) -> tuple[Grid, ...]:
    """The samples of an array (..., C) that tell the spectrum of each axis that has one."""
    return tuple(_segments(tuple(shape), k) for k, n in enumerate(shape[:-1]) if n >= LEAST_SAMPLES)


def grain(few: Floats, eps: float) -> float:
    """Variance of the rounding of some samples, (n, C), mean over channels.

    Of whole numbers, packed ones and small differences of large numbers all differences are
    multiples of one step, and rounding is uniform within it; of others it is that of their dtype.
    """
    found = []
    for column in few.T:
        ordered = np.sort(column).astype(np.float64)
        gaps = np.diff(ordered)
        gaps = gaps[gaps > 0]
        size, step = float(max(-ordered[0], ordered[-1])), float(gaps.min(initial=np.inf))
        least = 2 * eps * size
        if len(gaps) > 8:
            times = gaps / step
            if np.abs(times - np.round(times)).max() < 1e-3:
                least = max(least, step / 12**0.5)
        found.append(least**2)
    return float(np.mean(found))


@lru_cache(maxsize=32)
def _segments(shape: tuple[int, ...], k: int) -> Grid:
    """Segments of lines along axis k of an array (..., C): of all lines, or of some far apart.

    Half overlapping ones, or some far apart where a line is very long.
    """
    step, left = math.prod(shape) // SPECTRUM_SAMPLES, list(shape)
    grid = [np.arange(n) for n in shape[:-1]]
    others = [j for j in range(len(grid)) if j != k]
    for j in sorted(others, key=lambda j: -shape[j]):  # the longest axes first
        part = max(1, min(step, shape[j] // 8))
        if part > 1:
            grid[j] = from_both_ends(shape[j], part, part // 2)
            left[j] = len(grid[j])
        step //= part
    length = _length(shape[k])
    apart = max(1, math.prod(left) // SPECTRUM_SAMPLES)
    starts = from_both_ends(shape[k] - length + 1, length // 2 * apart)
    grid[k] = (starts[:, None] + np.arange(length)).reshape(-1)
    return tuple(grid)


def _length(n: int) -> int:
    """Samples of a segment of an axis of n."""
    return min(SEGMENT_SAMPLES, n) // 2 * 2


def _sizes(view: View, k: int) -> Array:
    """Norms of cosines, then of sines, along axis k: Hann-windowed segments, no trends."""
    length = _length(view.shape[k])
    seen = view.on(_segments(view.shape, k))
    xp = namespace(seen)
    pieces = xp.reshape(xp.moveaxis(seen, k, -1), (-1, length))
    return xp.linalg.vector_norm(pieces @ move(_waves(length)[0], seen, seen.dtype), axis=0)


@lru_cache(maxsize=32)
def _waves(length: int) -> tuple[Floats, float]:
    """Cosines and sines of a windowed segment without its trend, and the power of noise of 1."""
    t = np.arange(length) - (length - 1) / 2
    keep = np.eye(length) - 1 / length - np.outer(t, t) / (t @ t)  # takes off mean and trend
    window = np.hanning(length + 2)[1:-1]
    wave = np.exp(-2j * np.pi * np.outer(np.arange(length // 2 + 1), np.arange(length)) / length)
    matrix = (keep * window) @ wave.T
    return np.hstack([matrix.real, matrix.imag]), float(window @ window)


def from_both_ends(n: int, step: int, first: int = 0) -> Integers:
    """Numbers below n, `step` apart: as many from the end as from the beginning.

    A reversed array shows the same of itself, and so is given the same order.
    """
    low = np.arange(first, (n + 1) // 2, step)
    return np.unique(np.concatenate([low, n - 1 - low]))


def exponent(power: Floats, floor: float = 0.0, means: bool = False) -> float | None:
    """Exponent p of the folded power law ``Σ_k |ω + 2πk|^(-2p)`` nearest to the upper octave.

    With `means` each term is multiplied by what the mean over a cell leaves of it, ``sinc²(ω/2)``.
    The octave ends at the last frequency whose power is clear of `floor`; infinite if only the
    first few are, None if none is.
    """
    n = len(power) - 1
    clear = np.flatnonzero(power > CLEAR_RATIO * floor)
    top = int(clear.max(initial=0))
    if top == 0:
        return None
    if top < 4:
        return math.inf
    band = np.arange((top + 1) // 2, top + 1)
    signal = power[band] - floor
    if not np.all(signal > 0):
        return ORDER_LIMITS[1]
    # Of |log signal - model|², both about 0, what differs between candidates.
    candidates, model, squares = _folded(n, top, means)
    misfit = squares - 2 * (model @ np.log(signal))
    return float(candidates[int(np.argmin(misfit))])


@lru_cache(maxsize=32)
def _folded(n: int, top: int, means: bool) -> tuple[Floats, Floats, Floats]:
    """Exponents p, the logarithm of each one's folded power law, and the sum of its squares.

    At the frequencies of n that make the octave below `top`, its mean taken off.
    """
    omega = np.pi * np.arange((top + 1) // 2, top + 1) / n
    p = np.arange(0, 8, 0.01)
    images = np.abs(omega[:, None] + 2 * np.pi * np.arange(-3, 4))
    left = np.sinc(images / (2 * np.pi)) ** 2 if means else 1.0
    model = np.log(np.sum(left * images ** (-2 * p[:, None, None]), axis=2))
    model -= model.mean(axis=1, keepdims=True)
    return p, model, np.sum(model**2, axis=1)


LEAVE_ONE_OUT_OFFSET = 0.3
"""Half-way between samples a smoother energy is right than where a sample is left out."""

LARGEST_RISE = 0.6
"""How far above the spectrum's order the choice may go; nothing where the spectrum is flat."""

VERY_SMOOTH = {1: 4.2, 2: 4.2, 3: 2.4}
"""Exponents of the spectrum, by number of axes, from which large isotropic boxes are better."""


def is_very_smooth(found: Sequence[float | None]) -> bool:
    """Whether an array with these exponents, per axis, is left to large isotropic boxes.

    Navier-Stokes at t = 0 has 6.7 and gains 12 dB there; at t = 99 it has 3.3 and loses 2.6. In
    space boxes of 5 see little: the whole flow, 3.8, gains 0.8 dB, a brain, 1.0, loses 0.4.
    """
    known = [min(p, 8.0) for p in found if p is not None]
    return bool(known) and float(np.mean(known)) >= VERY_SMOOTH[min(len(found), 3)]


def line_order(Y: Array, box: tuple[int, ...], spectral: float, means: bool = False) -> float:
    """The order along a line for boxes of samples Y, (G, S, C), of an array of spectral order.

    Of the orders between ``spectral`` and ``spectral + LARGEST_RISE`` the one whose neighbour,
    smoother by less, predicts samples near the boxes' centres best from all the others.

    Notes
    -----
    Left-out samples alone mislead where an array is aliased (kodim08's shutters: 3.3 instead of
    0.9), the spectrum alone where a smooth signal carries noise (a brain slice: 1.6 instead of
    2.7); together they are within 0.1 of the best order on 29 arrays.
    """
    box = tuple(n for n in box if n > 1)
    d = len(box)
    freedom = LARGEST_RISE * float(np.clip((spectral - 0.9) / 0.6, 0, 1))
    orders = np.round(np.arange(spectral, spectral + freedom + 1e-9, 0.15), 6)
    if len(orders) == 1 or d == 0:
        return spectral
    s = np.minimum(orders + (d - 1) / 2 - LEAVE_ONE_OUT_OFFSET, STEEPEST)
    errors = leave_one_out(Y, box, tuple(s.tolist()), means)
    return float(orders[int(np.argmin(errors))])


def leave_one_out(
    Y: Array, box: tuple[int, ...], orders: tuple[float, ...], means: bool = False
) -> Floats:
    """Mean square of what energies of these orders s say of a central sample left out, (K,).

    From boxes of samples Y, (G, S, C).
    """
    xp = namespace(Y)
    ways = _ways(box, orders, means)
    G, S, C = Y.shape
    flat = xp.reshape(xp.permute_dims(Y, (2, 0, 1)), (C * G, S))
    missed = flat @ move(ways, Y, Y.dtype)
    squares = to_numpy(xp.mean(missed * missed, axis=0)).reshape(len(orders), -1)
    return np.asarray(squares.mean(axis=1))


@memoised(64)
def _ways(box: tuple[int, ...], orders: tuple[float, ...], means: bool) -> Floats:
    """By what each central sample is missed, from all samples of a box; (S, K c).

    With Q the inverse of K beside affine functions, a left-out sample is missed by
    ``(Q y)_i / Q_ii`` (Wahba 1990): no system is solved again.
    """
    kernels = covariances(box, Family.isotropic(len(box), orders), means)
    central = np.flatnonzero(np.all(np.abs(positions(box)) <= 1, axis=1))
    Z = complement(affine(box))
    S = len(Z)
    if not Z.shape[1]:  # every set of samples is affine
        return np.zeros((S, len(orders) * max(1, len(central))))
    Q = Z @ np.linalg.solve(Z.T @ kernels @ Z, np.broadcast_to(Z.T, (len(kernels), *Z.T.shape)))
    own = Q[:, central, central]
    ways = Q[:, central] / np.where(own > 0, own, 1)[..., None]  # (K, c, S)
    return np.ascontiguousarray(ways.reshape(-1, S).T)
