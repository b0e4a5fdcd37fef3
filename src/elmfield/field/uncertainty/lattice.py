"""The posterior of samples on a complete grid: one pattern between samples, and an amplitude.

All samples have the same neighbours, so the variance per amplitude is one function of where a place
lies between them (and near borders). The amplitude is local: what each sample differs by from what
its neighbours say of it, in closed form a filter, averaged over the nearest few.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import product as cartesian

import numpy as np

from elmfield._array.running import runs
from elmfield._array.typing import Floats, Integers
from elmfield.field.blend.blended import Blended
from elmfield.field.coefficients.from_samples import FromSamples
from elmfield.field.uncertainty import priors

PATTERN_BOX = {1: 16, 2: 8, 3: 6, 4: 4}
"""Samples on each axis of the box in which variances are computed; 2 on more than four axes."""

PATTERN_STEPS = {1: 64, 2: 24, 3: 8, 4: 4}
"""Steps of the table of variances between two samples; 2 on more than four axes."""

REACH = {1: 6.0, 2: 2.5, 3: 2.0}
"""Samples farther than this on an axis have no part in an amplitude, by number of axes; else 1.5.

On ten pictures that are not scored anywhere 2 to 3 in the plane were alike.
"""

REGIONS_AT_ONCE = 2048
"""Regions whose members are evaluated together."""

KEPT_RESIDUALS = 1 << 24
"""Residuals that are kept between calls; those of larger arrays are made as far as needed."""

LEAST_VARIANCE = 1e-9
"""Variances below this part of the largest are rounding."""

Taps = tuple[Integers, Floats]
"""Entries of an array along an axis around p positions, (p, t), and their weights of sum 1."""

Read = Callable[[tuple[slice, ...]], Floats]
Combine = Callable[[Floats, Sequence[Taps]], Floats]


@dataclass(frozen=True, eq=False, kw_only=True)
class Lattice(priors.PosteriorPart):
    """Samples on a complete grid, and how sure a function between them is.

    Parameters
    ----------
    shape, periodic : tuples
        Samples on each axis, and which axes repeat.
    read : callable
        The samples of a slab, (..., C).
    prior : Prior
        Of amplitude 1.
    values : callable or None
        The function on a grid of index coordinates.
    chooses : bool
        Whether it chooses among energies by the samples. Then what it differs by from the
        posterior's mean is a part of the signal that is no error any more; otherwise it adds to
        errors.
    spread : callable or None
        Variance among the functions of these energies, on a grid of middles between samples.
    common : array, shape (C,)
        The mean of all residuals.
    known : array, shape (..., C), or None
        Residuals of all samples, where calibration has made them.
    noise : array, shape (C,), or None
        Variance of the noise that was taken out.
    left : array, shape (..., C), or None
        Variances that are left, by blocks of the array that `source` tells: on each axis the first
        of these samples there, and how many there are.
    """

    shape: tuple[int, ...]
    periodic: tuple[bool, ...]
    read: Read = field(repr=False)
    prior: priors.Prior
    values: Callable[[list[Floats]], Floats] | None = field(default=None, repr=False)
    chooses: bool = False
    spread: Callable[[list[Floats]], Floats] | None = field(default=None, repr=False)
    common: Floats = field(default_factory=lambda: np.ones(1))
    known: Floats | None = field(default=None, repr=False)
    noise: Floats | None = None
    left: Floats | None = field(default=None, repr=False)
    source: Sequence[tuple[int, int]] = ()

    def calibrated(self) -> "Lattice":
        """The same with power, stretch and calibration from the samples.

        The prior's own power serves short axes.
        """
        blocks = [self.read(slab) for slab in priors.probes(self.shape)]
        made = replace(self, prior=priors.prior_of(self.prior, blocks))
        residuals = [np.abs(priors.filtered(b, made._filter)) for b in blocks]
        flat, known = np.concatenate([r.reshape(-1, r.shape[-1]) for r in residuals]), None
        if blocks[0].shape[:-1] == self.shape and not any(self.periodic):  # asked for again
            ends = [(n // 2, n // 2) for n in made._filter.shape]
            known = np.pad(residuals[0], [*ends, (0, 0)], mode="edge")
        made = replace(made, common=flat.mean(axis=0), known=known)
        if self.noise is not None:
            return made
        z = [(r / np.maximum(made._smoothed(r), 1e-300)).ravel() for r in residuals]
        return replace(made, calibration=priors.Calibration.of(np.concatenate(z)))

    # --- amplitudes -----------------------------------------------------------------------------

    @cached_property
    def _filter(self) -> Floats:
        """What a left-out sample differs by from what the others of its box say, in deviations."""
        return priors.left_out_filter(self.prior, self.shape)

    def _taps(self, k: int, x: Floats, n: int, wraps: bool) -> Taps:
        """The n residuals of axis k near index coordinates x."""
        reach = REACH.get(len(self.shape), 1.5)
        most = math.ceil(reach)
        at = np.floor(x).astype(np.int64)[:, None] + np.arange(1 - most, most + 1)
        w = priors.compact((x[:, None] - at) / reach)
        return at % n if wraps else np.clip(at, 0, n - 1), w / w.sum(axis=1, keepdims=True)

    def _smoothed(self, residuals: Floats) -> Floats:
        """Amplitudes at the samples of some residuals, (..., C), without each one's own."""
        sizes = residuals.shape[:-1]
        taps = [self._taps(k, np.arange(float(n)), n, False) for k, n in enumerate(sizes)]
        own = math.prod(w[0].max() for _, w in taps)
        total = _on_grid(residuals, taps) - own * residuals + priors.COMMON_SHARE * self.common
        return np.asarray(total / (1 - own + priors.COMMON_SHARE))

    @cached_property
    def _all_maps(self) -> tuple[Floats, Floats, Floats] | None:
        """Residuals of all samples and `_apart`; None where these are too many."""
        if math.prod(self.shape) * len(self.common) > KEPT_RESIDUALS:
            return None
        return self._maps([0] * len(self.shape), self.shape)

    def _maps(self, first: Sequence[int], last: Sequence[int]) -> tuple[Floats, Floats, Floats]:
        """Residuals of the samples from first to last, and what lies apart behind them."""
        return self._residuals(first, last), *self._apart(first, last)

    def _residuals(self, first: Sequence[int], last: Sequence[int]) -> Floats:
        """Residuals of the samples from first to last, (..., C); those at borders repeat others."""
        if self.known is not None:
            return self.known[tuple(map(slice, first, last))]
        slab, inner, outer = [], [], []
        sides = self._filter.shape
        for n, side, wraps, a, b in zip(self.shape, sides, self.periodic, first, last):
            low, high = min(a - side // 2, n - side), max(b + side // 2, side)
            if not wraps:
                low, high = max(low, 0), min(high, n)
            whole = low < 0 or high > n
            slab.append(slice(0, n) if whole else slice(low, high))
            inner.append(np.arange(low, high) % n if whole else np.arange(high - low))
            outer.append(np.clip(np.arange(a, b) - low - side // 2, 0, high - low - side))
        y = self.read(tuple(slab))[np.ix_(*inner)]
        return np.abs(priors.filtered(y, self._filter))[np.ix_(*outer)]

    def _apart(self, first: Sequence[int], last: Sequence[int]) -> tuple[Floats, Floats]:
        """Squares of what the function differs by from the posterior's mean; `spread`; (..., C).

        In amplitudes, in the middle behind each of the samples from first to last; 0 at borders.
        """
        sides = self._pattern_sides
        found, spread = np.zeros((2, *(b - a for a, b in zip(first, last)), len(self.common)))
        low = [max(a, m // 2 - 1) for a, m in zip(first, sides)]
        high = [min(b, n - m // 2) for b, n, m in zip(last, self.shape, sides)]
        if self.values is None or any(m % 2 or b <= a for a, b, m in zip(low, high, sides)):
            return found, spread
        slab = tuple(slice(a + 1 - m // 2, b + m // 2) for a, b, m in zip(low, high, sides))
        weights, (middle,) = self._told(np.zeros((1, len(sides))))
        mean = priors.filtered(self.read(slab), weights.reshape(sides), even=True)
        at = [np.arange(a, b, dtype=float) + 0.5 for a, b in zip(low, high)]
        inner = tuple(slice(a - i, b - i) for a, b, i in zip(low, high, first))
        middle = max(float(middle), 1e-300)
        found[inner] = (self.values(at) - mean) ** 2 / middle
        if self.spread is not None:
            spread[inner] = self.spread(at) / middle
        return found, spread

    def _squares(self, x: Sequence[Floats], combine: Combine) -> Floats:
        """Variances of the prior at points or on a grid, given axis by axis."""
        ends = enumerate(zip(x, self.shape, self.periodic))
        taps = [self._taps(k, c, n, wraps) for k, (c, n, wraps) in ends]
        maps, first = self._all_maps, [0] * len(x)
        if maps is None:
            first = [int(i.min(initial=0)) for i, _ in taps]
            maps = self._maps(first, [int(i.max(initial=0)) + 1 for i, _ in taps])
        total = combine(maps[0], [(i - a, w) for (i, w), a in zip(taps, first)])
        total = total + priors.COMMON_SHARE * self.common
        total *= self.calibration.factor / (1 + priors.COMMON_SHARE)
        total *= total
        if self.values is None:
            return total
        near = [_linear(c - 0.5, n, wraps) for c, n, wraps in zip(x, self.shape, self.periodic)]
        near = [(i - a, w) for (i, w), a in zip(near, first)]
        off = combine(maps[1], near)
        if not self.chooses:
            return np.asarray(total + off)
        total *= total / np.maximum(total + off, 1e-300)
        return np.asarray(total if self.spread is None else total + combine(maps[2], near))

    def amplitudes(self, x: Floats) -> Floats:
        """Standard deviations of what `joint` has covariances of, at points x, (n, d): (n, C)."""
        if self.noise is not None:
            return np.sqrt(self.variance(x) - self.floor)
        return np.sqrt(self._squares(list(x.T), _at_points))

    @property
    def _noise_ratio(self) -> float:
        """Variance of the noise in parts of the square of the mean amplitude."""
        if self.noise is None:
            return 0.0
        a = self.calibration.factor * np.maximum(self.common, 1e-300)
        return float(np.mean(self.noise / a**2))

    # --- variances per amplitude ----------------------------------------------------------------

    @property
    def _pattern(self) -> Floats:
        """Places of the samples of the box for variances, counted from its middle."""
        sides = self._pattern_sides
        return np.indices(sides).reshape(len(sides), -1).T - (np.asarray(sides) - 1) / 2

    @property
    def _pattern_sides(self) -> tuple[int, ...]:
        n = PATTERN_BOX.get(len(self.shape), 2)
        return tuple(n if p else min(n, m) for m, p in zip(self.shape, self.periodic))

    def _seats(self, k: int, x: Floats) -> Floats:
        """Where index coordinates of axis k lie in the pattern's box, from its middle.

        Places far from borders lie between the two samples in the middle.
        """
        n, m = self.shape[k], self._pattern_sides[k]
        inner = m // 2 - 1
        between = inner + x - np.floor(x)
        ends = np.where(x > n - 1 - inner, x - (n - m), between)
        u = between if self.periodic[k] else np.where((m == n) | (x < inner), x, ends)
        return np.asarray(u - (m - 1) / 2)

    def _folded(self, k: int, x: Floats) -> Floats:
        """The same on the side below the middle: variances are those of the other side."""
        return -np.abs(self._seats(k, x))

    def asked_at(self, x: Floats) -> tuple[Floats, Floats, Integers, Floats, Floats]:
        """Offsets (r, k, d) and weights (r, k) of the samples that places x, (n, d), ask.

        Which of these rows each place has, (n,); per amplitude variances, (r,), and noise, (r, k).
        """
        seats = np.stack([self._seats(k, c) for k, c in enumerate(x.T)], axis=1)
        u, rows = np.unique(seats.round(9), axis=0, return_inverse=True)
        weights, unit = self._told(u)
        noise = np.full_like(weights, self._noise_ratio)
        return self._pattern - u[:, None], weights, rows.reshape(-1), unit, noise

    @cached_property
    def _table(self) -> tuple[Floats, int]:
        """Variances per amplitude at all steps between samples of half the box; steps a sample."""
        steps = PATTERN_STEPS.get(len(self.shape), 2)
        axes = [-np.arange(m * steps // 2 + 1)[::-1] / steps for m in self._pattern_sides]
        points = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(axes))
        found = self._told(points)[1]
        if not self.prior.means:
            found = np.where(found > LEAST_VARIANCE * found.max(initial=0), found, 0.0)
        return found.reshape(*map(len, axes), 1), steps

    def _told(self, u: Floats, terms: priors.Terms = ()) -> tuple[Floats, Floats]:
        """What samples of the pattern's box count for at places there, and variances, (n,)."""
        t = self._pattern
        each = runs(len(u), max(1, (1 << 22) // len(t)))
        parts = [self.prior.told(u[i:j], t, self._noise_ratio, terms) for i, j in each]
        weights, variances = map(np.concatenate, zip(*parts))
        return weights, variances

    def _variances(self, x: Sequence[Floats], combine: Combine) -> Floats:
        """Variances of values at points or on a grid, given axis by axis."""
        if self.left is not None:
            ends = zip(x, self.left.shape, self.source, self.periodic)
            near = [((c + a + 0.5) * m / n - 0.5, m, wraps) for c, m, (a, n), wraps in ends]
            return combine(self.left, [_linear(*one) for one in near]) + self.floor
        square = self._squares(x, combine)
        table, steps = self._table
        places = ((self._folded(k, c) * steps, table.shape[k]) for k, c in enumerate(x))
        seats = [_linear(at + n - 1, n, False) for at, n in places]
        square *= combine(table, seats)
        return square + self.floor

    # --- what is asked --------------------------------------------------------------------------

    def variance(self, x: Floats, terms: priors.Terms = ()) -> Floats:
        """Variances (n, C) of values, or of derivatives, at index coordinates x, (n, d)."""
        if not terms:
            return self._variances(list(x.T), _at_points)
        u = np.stack([self._folded(k, c) for k, c in enumerate(x.T)], axis=1)
        unit = self._told(u, terms)[1]
        if self.noise is not None:
            unit = unit / np.maximum(self._told(u)[1], 1e-300)
        return unit[:, None] * self.amplitudes(x) ** 2

    def on_grid(self, x: Sequence[Floats]) -> Floats:
        """Variances (..., C) of values on the grid of index coordinates x."""
        return self._variances(x, _on_grid)

    def joint(self, x: Floats) -> Floats:
        """Covariances per amplitude of values at places x near each other, (n, n)."""
        axes = []
        for c, n, wraps in zip(x.T, self.shape, self.periodic):
            low = int(np.floor(c.min())) - priors.AROUND
            high = int(np.ceil(c.max())) + priors.AROUND + 1
            axes.append(np.arange(low, high) if wraps else np.arange(max(0, low), min(n, high)))
        priors.require_small(math.prod(map(len, axes)))
        t = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(axes))
        found = self.prior.joint(x, t.astype(float), self._noise_ratio)
        own = np.sqrt(np.diagonal(found)) if self.noise is not None else np.ones(len(x))
        return np.asarray(found / own[:, None] / own)

    @property
    def block(self) -> float:
        """Samples on each axis of a box whose covariances fit into one dense matrix."""
        return priors.BLOCKS.get(len(self.shape), 2.0)

    def pattern(self, low: Floats, high: Floats) -> tuple[object, ...]:
        """Where a box lies between samples, and how near to borders: such boxes are alike."""
        key = []
        for a, b, n, wraps in zip(low.tolist(), high.tolist(), self.shape, self.periodic):
            first = math.floor(a + 1e-9)
            ends = min(first, priors.AROUND), min(n - 1 - math.ceil(b), priors.AROUND)
            key.append((round(a - first, 9), round(b - a, 9), *((0, 0) if wraps else ends)))
        return tuple(key)


def _linear(x: Floats, n: int, wraps: bool) -> Taps:
    """The two entries of n along an axis between which positions lie."""
    low = np.floor(x) if wraps else np.clip(np.floor(x), 0, max(n - 2, 0))
    up, at = np.clip(x - low, 0, 1), low.astype(np.int64)[:, None] + np.arange(2)
    return at % n if wraps else np.minimum(at, n - 1), np.stack([1 - up, up], axis=1)


def _at_points(array: Floats, taps: Sequence[Taps]) -> Floats:
    """Weighted sums of an array, (..., C), around points: (n, C)."""
    total: Floats = np.zeros(())
    for at in cartesian(*(range(w.shape[1]) for _, w in taps)):
        weight = math.prod(w[:, j] for (_, w), j in zip(taps, at))
        near = array[tuple(i[:, j] for (i, _), j in zip(taps, at))]
        total = total + near * np.asarray(weight)[:, None]
    return total


def _on_grid(array: Floats, taps: Sequence[Taps]) -> Floats:
    """Weighted sums of an array, (..., C), around the positions of a grid: axis by axis."""
    from scipy.sparse import csr_array  # 0.1 s, for who asks

    for i, w in taps:  # the first axis is summed and goes to the end
        ends = np.arange(0, i.size + 1, i.shape[1])
        rows = csr_array((w.ravel(), i.ravel(), ends), (len(i), array.shape[0]))
        found = rows @ array.reshape(array.shape[0], -1)
        array = np.moveaxis(found.reshape(len(i), *array.shape[1:]), 0, -1)
    return np.moveaxis(array, 0, -1)


# --- mixtures of energies -------------------------------------------------------------------------

# A region that weighs energies by their evidence has a function of each; where these differ the
# mixture, which is their mean, may be wrong by as much. All of them meet the samples.


def mixture_spread(blended: Blended) -> Callable[[Sequence[Floats]], Floats] | None:
    """What gives variances among members on a grid of middles; None without a mixture."""
    every = [g.coefficients for g in blended.groups]
    chosen = [c for c in every if isinstance(c, FromSamples) and c.beliefs is not None]
    return partial(_spread_on_grid, blended, chosen) if len(chosen) == len(every) else None


def _cells_at(borders: Floats, x: Floats) -> tuple[Integers, Integers]:
    """Pairs of a position, by its number, and a cell it lies in; two where it is a border."""
    ends = [np.searchsorted(borders, x, side) - 1 for side in ("left", "right")]
    cells = np.clip(np.concatenate(ends), 0, len(borders) - 2)
    pairs = np.unique(np.stack([np.tile(np.arange(len(x)), 2), cells], axis=1), axis=0)
    return pairs[:, 0], pairs[:, 1]


def _spread_on_grid(blended: Blended, chosen: Sequence[FromSamples], x: Sequence[Floats]) -> Floats:
    """Variances (..., C) on a grid of index coordinates: the mean of the cells that share a place.

    The spread of a region is taken on the grid of half samples of its box.
    """
    part, shape = blended.partition, tuple(map(len, x))
    at, cells = zip(*(_cells_at(part.borders(k), c) for k, c in enumerate(x)))
    region = part.labels[np.ix_(*cells)].ravel()
    place = np.ravel_multi_index(np.ix_(*at), shape).ravel()
    every = np.stack(np.meshgrid(*x, indexing="ij"), axis=-1).reshape(-1, len(x))
    seats = np.rint(2 * (every[place] - blended.centres[region])) / 2
    u, which = np.unique(seats, axis=0, return_inverse=True)
    total, times = np.zeros((len(every), blended.n_channels)), np.bincount(place)
    of, row = (a[region] for a in blended.group_of)
    for k, coefficients in enumerate(chosen):
        own = np.flatnonzero(of == k)
        own = own[np.argsort(row[own], kind="stable")]
        rows, first = np.unique(row[own], return_index=True)
        for i, j in runs(len(rows), REGIONS_AT_ONCE) if len(rows) else ():
            some = own[first[i] : first[j] if j < len(rows) else len(own)]
            found = coefficients.member_spread(rows[i:j], u)
            seat = np.searchsorted(rows[i:j], row[some])
            np.add.at(total, place[some], found[seat, which.reshape(-1)[some]])
    return np.asarray((total / times[:, None]).reshape(*shape, -1))
