"""Errors as sums over independent parts: of observations, and of dense random layers.

With a ridge or fewer neurons than samples a region's output weights are ``A Hᵀ y``,
``A = (HᵀH + ridge)⁻¹``: every value is a sum of samples, whose errors are told by what the fit left
over. Regions that blend share samples, so these sums are added before they are squared.
"""

import math
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product as cartesian
from typing import TYPE_CHECKING, cast

import numpy as np

from elmfield._array.running import runs
from elmfield._array.typing import Floats, Integers
from elmfield.field.blend.points import contributions, leibniz, offset
from elmfield.field.uncertainty.neighbours import BATCH_NUMBERS
from elmfield.field.uncertainty.priors import Known, PosteriorPart, Terms
from elmfield.local.bases.dense_weights import OnDense

if TYPE_CHECKING:
    from scipy.sparse import csr_array

    from elmfield.field.blend.blended import Blended

Factors = tuple[Floats, float]

KEPT_NUMBERS = 1 << 25
"""Numbers of factors that are kept between calls, about."""

LEAST_SINGULAR = 1e-10
"""Singular values of a layer below this part of the largest count as 0, as in the fit."""


class ErrorParts(PosteriorPart):
    """How sure a function is: what its values may deviate by, as a sum over r independent parts."""

    @abstractmethod
    def half(self, x: Floats, terms: Terms = ()) -> Floats:
        """Parts (n, C, r) of values, or of sums of derivatives, at index coordinates (n, d)."""

    @property
    def at_once(self) -> int:
        """Places whose parts are made together."""
        return 4096

    def variance(self, x: Floats, terms: Terms = ()) -> Floats:
        """Variances (n, C) of values, or of sums of derivatives, at index coordinates (n, d)."""
        found = np.zeros((len(x), len(self.floor)))
        for i, j in runs(len(x), self.at_once):
            squares = (self.half(x[i:j], terms) ** 2).sum(axis=-1)
            found[i:j] = squares.reshape(j - i, -1)
        return found + (0.0 if terms else self.floor)

    @abstractmethod
    def draw(self, x: Floats, n: int, C: int, seed: int) -> Floats:
        """What n functions of C channels differ by from their mean, (n, m, C), at m places x.

        The same functions wherever they are asked for.
        """

    def joint(self, x: Floats) -> Floats:
        """Covariances of the first channel's values at places x, (n, n)."""
        half = self.half(x)[:, 0]
        return np.asarray(half @ half.T)

    def sum_variance(
        self, axes: Sequence[Floats], weights: Floats, box: tuple[Floats, Floats], known: Known
    ) -> Floats:
        """Variance, (C,), of a weighted sum over places: sums of parts, then of their squares."""
        total, used = np.zeros(()), np.flatnonzero(weights)
        for i, j in runs(len(used), self.at_once):
            places = np.unravel_index(used[i:j], [len(a) for a in axes])
            half = self.half(np.stack([a[k] for a, k in zip(axes, places)], axis=-1))
            total = total + weights[used[i:j]] @ (half if half.ndim == 2 else half.swapaxes(0, 1))
        return np.asarray(np.sum(total**2, axis=-1))


@dataclass(frozen=True, eq=False, kw_only=True)
class ObservedPosterior(ErrorParts):
    """How sure a function of observations is, by parts whose unit is that of its fit.

    Parameters
    ----------
    unit : array, shape (C,) or (1,)
        The unit of the fit that answers are in.
    detail : float
        Variance of what is finer than any row says.
    spread : callable or None
        Factors (n,) at index coordinates (n, d), by which deviations are larger.
    off, noise : tuple of float
        What the rows of each observation are off by, and their noise; root mean squares.
    """

    unit: Floats = field(default_factory=lambda: np.ones(1))
    detail: float = 0.0
    spread: Callable[[Floats], Floats] | None = None
    off: tuple[float, ...] = ()
    noise: tuple[float, ...] = ()

    @property
    def facts(self) -> Mapping[str, object]:
        """What a report says of the solve."""
        return {"rows are off by, rms": self.off, "noise of rows, rms": self.noise}

    @property
    def floor(self) -> Floats:
        """Variance that places do not share, (C,) or (1,)."""
        return np.asarray(self.detail / self.unit**2)

    @abstractmethod
    def parts(self, x: Floats, terms: Terms) -> Floats:
        """Parts (n, C, r) of values, or of sums of derivatives, at index coordinates (n, d)."""

    def half(self, x: Floats, terms: Terms = ()) -> Floats:
        """The same in the unit of the fit."""
        found = self.parts(x, terms) / self.unit[:, None]
        return found if self.spread is None else found * self.spread(x)[:, None, None]

    def draw(self, x: Floats, n: int, C: int, seed: int) -> Floats:
        """What n functions of C channels differ by from their mean, (n, m, C), at m places x."""
        rng = np.random.default_rng(seed)
        _, together, r = self.parts(x[:1], ()).shape  # of all channels, or of one as of each
        z, off = rng.standard_normal((n, C // together, r)), np.empty((n, len(x), C))
        for i, j in runs(len(x), self.at_once):
            own = np.tensordot(self.parts(x[i:j], ()), z, axes=(2, 2))
            off[:, i:j] = np.moveaxis(own, 2, 0).reshape(n, j - i, C)
        off *= 1 if self.spread is None else self.spread(x)[:, None]
        return np.asarray(off / self.unit + np.sqrt(self.floor) * rng.standard_normal(off.shape))


@dataclass(frozen=True, eq=False)
class LayerErrors(ErrorParts):
    """What values of a dense layer may deviate by, as sums over independent parts.

    Parameters
    ----------
    blended : Blended
        The function.
    squares : array, shape (N,)
        Sum of squares, of one channel, that each region's fit left over.
    ridge : float
        The penalty on its weights.
    present : array of bool, or None
        Which samples were there.
    """

    blended: "Blended"
    squares: Floats
    ridge: float
    present: Floats | None = None

    block = 16.0

    def model(self, region: int) -> OnDense:
        """The layer of a region, as drawn."""
        return cast(OnDense, self.blended.local_model(np.asarray([region])))

    def samples(self, region: int) -> tuple[Integers, Floats]:
        """Which samples a region was fitted to, (S,), and their local coordinates, (S, d)."""
        t = self.model(region).positions
        at = np.rint(self.blended.centres[region] + t * self.blended.radii[region]).astype(np.int64)
        here = np.ravel_multi_index(tuple(at.T), self.blended.partition.shape, mode="wrap")
        known = np.ones(len(here), bool) if self.present is None else self.present.ravel()[here]
        return here[known], t[known]

    def features(self, region: int, t: Floats, order: tuple[int, ...]) -> Floats:
        """Neurons of a region at local coordinates t, (n, d): (n, m)."""
        model = self.model(region)
        found = np.asarray(model.rows(t[None], order)[0], np.float64)[0]
        widths = getattr(model, "widths", None)
        return np.asarray(found if widths is None else found[:, : widths[region]])

    @cached_property
    def _kept(self) -> dict[tuple[int, int], Factors]:
        """Factors that are kept, by group, and by region where those of a group differ."""
        return {}

    def factors(self, region: int) -> Factors:
        """``A [Hᵀ, √ridge]``, (m, S + m) or (m, S), and how many samples the weights leave free."""
        group = int(self.blended.group_of[0][region])
        own = self.blended.groups[group]
        alike = own.nodes is None and self.present is None
        key = group, -1 if alike and getattr(own.model, "widths", None) is None else region
        if key not in self._kept:
            t = self.samples(region)[1]
            H = self.features(region, t, (0,) * t.shape[1])
            eye = self.ridge**0.5 * np.eye(H.shape[1] if self.ridge else 0, H.shape[1])
            told = np.linalg.pinv(np.concatenate([H, eye]), rcond=LEAST_SINGULAR)
            found = told, float(len(H) - np.einsum("sm,ms->", H, told[:, : len(H)]))
            if sum(f[0].size for f in self._kept.values()) > KEPT_NUMBERS:
                return found
            self._kept[key] = found
        return self._kept[key]

    @property
    def least_free(self) -> float:
        """Least part of its samples that a region's weights leave free; of one of each group."""
        parts = [1.0]
        for g in self.blended.groups:
            S, first = self.model(int(g.regions[0])).n_samples, int(g.regions[0])
            parts.append((self.factors(first)[1] if self.ridge else S - g.model.n_modes) / S)
        return max(0.0, min(parts))

    @cached_property
    def deviations(self) -> Floats:
        """Standard deviation of a sample from what the layer can follow, (N,)."""
        free = np.asarray([self.factors(r)[1] for r in range(len(self.squares))])
        return np.asarray(np.sqrt(self.squares / np.maximum(free, 1e-9)))

    def half(self, x: Floats, terms: Terms = ()) -> "csr_array":
        """Parts (n, r) of values, or of sums of derivatives, at index coordinates x, (n, d)."""
        from scipy.sparse import csr_array  # 0.1 s, for who asks

        d, shape = x.shape[1], self.blended.partition.shape
        wanted = terms or ((1.0, (0,) * d),)
        top, every = [max(o[k] for _, o in wanted) for k in range(d)], np.arange(len(x))
        points, asked, columns, windows = contributions(self.blended, x, top)
        point = np.concatenate(points)
        t = [offset(self.blended, c, asked, k) for k, c in enumerate(columns)]
        u, total = np.stack(t, axis=1), math.prod(shape)
        widest = max(g.model.n_modes for g in self.blended.groups)
        parts: list[tuple[Integers, Floats, Integers]] = []  # places, parts (n, k), numbers
        for region in np.unique(asked).tolist():
            at = np.flatnonzero(asked == region)
            rows: Floats = np.zeros(())
            for c, order in wanted:
                for factor, times, rest in leibniz(order):
                    w = c * factor * math.prod(own[k][at] for own, k in zip(windows, times))
                    w = w * np.prod(self.blended.radii[region] ** -np.asarray(rest, float))
                    rows = rows + w[:, None] * self.features(region, u[at], rest)
            told = self.deviations[region] * self.factors(region)[0]
            here = self.samples(region)[0]
            weights = total + region * widest + np.arange(told.shape[1] - len(here))
            parts.append((point[at], -rows @ told, np.append(here, weights)))
        if not terms:  # what the layer cannot follow: a number a sample, of unit size in between
            size, low = np.zeros(len(x)), np.floor(x).astype(np.int64)
            own = self.deviations[asked] * math.prod(w[0] for w in windows)
            np.add.at(size, point, own)
            for corner in cartesian((0, 1), repeat=d):
                near = np.prod(np.where(corner, x - low, low + 1 - x), axis=1)
                seat = np.clip(low + corner, 0, np.asarray(shape) - 1)
                sample = np.ravel_multi_index(tuple(seat.T), shape)
                parts.append((every, (size * np.sqrt(near))[:, None], sample[:, None]))
        i = np.concatenate([np.repeat(at, p.shape[1]) for at, p, _ in parts])
        j = np.concatenate([np.broadcast_to(number, p.shape).ravel() for _, p, number in parts])
        data = np.concatenate([p.ravel() for _, p, _ in parts])
        return csr_array((data, (i, j)), (len(x), total + len(self.squares) * widest))

    @property
    def at_once(self) -> int:
        """Places whose parts are made together."""
        most = max(self.model(int(g.regions[0])).n_samples for g in self.blended.groups)
        return max(1, BATCH_NUMBERS // most)

    def draw(self, x: Floats, n: int, C: int, seed: int) -> Floats:
        """What n functions of C channels differ by from their mean, (n, m, C), at m places x."""
        half = self.half(x)
        off = half @ np.random.default_rng(seed).standard_normal((half.shape[1], n * C))
        return np.moveaxis(off.reshape(len(x), n, C), 0, 1)

    def joint(self, x: Floats) -> Floats:
        """Covariances of values at places x, (n, n)."""
        half = self.half(x)
        return np.asarray((half @ half.T).toarray())
