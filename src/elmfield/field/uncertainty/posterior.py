"""How sure a field is: which posterior it has, and what callers ask of it."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from itertools import product as cartesian
from typing import TYPE_CHECKING, Any

import numpy as np

from elmfield._array.backend import move, namespace, to_numpy
from elmfield._array.running import runs
from elmfield._array.typing import Array, Floats
from elmfield.field.blend.means import cells_of_mask
from elmfield.field.coefficients.stored import Nodes
from elmfield.field.coordinates.labels import date_errors
from elmfield.field.coordinates.output_positions import shows_gaps
from elmfield.field.coordinates.parse import own_samples
from elmfield.field.uncertainty import priors
from elmfield.field.uncertainty.error_parts import ErrorParts, LayerErrors
from elmfield.field.uncertainty.lattice import Lattice, mixture_spread
from elmfield.field.uncertainty.neighbours import Neighbours

if TYPE_CHECKING:
    from elmfield.field.model import Model

Part = Lattice | Neighbours | ErrorParts

DEVIATIONS = ("value", "gradient", "laplacian")
"""Quantities that have a standard deviation at points."""

USUAL_POWER = 1.2
"""Power of a prior that neither samples nor settings tell."""

QUADRATURE, MORE_PLACES = 3, 4
"""Places between two samples, on each axis, by which means are taken; and more for each block.

Means over boxes of 1 to 10 samples are then 0.3 to 0.9 % off; without the others up to 4 %.
"""

LEAST_FREE = 0.1
"""Part of its samples that a dense layer must not follow for what it leaves over to tell errors:
with less, 90 % intervals of two pictures held 40 %; with 0.2 they held 83 %."""

LEFT_BLOCK = 4
"""Samples on each axis of the blocks by which is known how much noise is left."""

BLOCK_MAX_PLACES = 2000
"""Places of a box whose covariances are taken together, at most."""


@dataclass(frozen=True, eq=False)
class Evidence:
    """What a fit found out about noise, in the caller's units.

    Parameters
    ----------
    noise, amplitude : tuples of float, or None
        Standard deviation of each channel's noise, and of its prior at a distance of one sample,
        where the fit estimated that too.
    left : array, shape (..., C), or None
        The part of the noise's variance that is left in blocks of about LEFT_BLOCK samples.
    coding : float or None
        Root mean square of what coding lost; None where the residual of a fit says it.
    observed : bool
        Whether the field was fitted to observations: its samples are no data.
    """

    noise: tuple[float, ...] | None = None
    amplitude: tuple[float, ...] | None = None
    left: Array | None = None
    coding: float | None = None
    observed: bool = False

    @classmethod
    def of_noise(cls, levels: Sequence[float], left: Floats, scale: Array) -> "Evidence":
        """Noise of a level in each channel, and the part left in each sample; both if complex."""
        for k, n in enumerate(left.shape[:-1]):
            m = blocks_of(n)
            at = np.arange(m + 1) * n // m
            width = np.diff(at).reshape(-1, *(1,) * (left.ndim - 1 - k))
            left = np.add.reduceat(left, at[:-1], axis=k) / width
        noise = tuple(np.resize(levels, int(scale.shape[0])).tolist())
        return cls(noise, left=left.astype(np.float16))

    def channels(self, own: slice) -> "Evidence":
        """The same of some channels."""
        noise, amplitude = (None if a is None else a[own] for a in (self.noise, self.amplitude))
        left = None if self.left is None else self.left[..., own]
        return replace(self, noise=noise, amplitude=amplitude, left=left)


def blocks_of(n: int) -> int:
    """Blocks of an axis of n samples."""
    return -(-n // LEFT_BLOCK)


@dataclass(frozen=True, eq=False)
class Posterior:
    """How sure a field's function is, in the unit of the fit.

    Parameters
    ----------
    inner : Lattice, Neighbours or ErrorParts
        Of the axes with more than one sample, counted from a first sample.
    first : array, shape (d,)
        The first sample.
    wide : list of int
        These axes.
    """

    inner: Part
    first: Floats
    wide: list[int]

    def own(self, x: Floats) -> Floats:
        """Places (..., d) as the inner posterior counts them."""
        return np.asarray((x - self.first)[..., self.wide])

    def variance(self, x: Floats, terms: priors.Terms = ()) -> Floats:
        """Variances (n, C) of values, or of derivatives, at index coordinates x, (n, d)."""
        own = [(c, tuple(order[k] for k in self.wide)) for c, order in terms]
        own = [(c, order) for c, order in own if sum(order)]  # nothing is known along one sample
        found = self.inner.variance(self.own(x), tuple(own))
        return found if own or not terms else np.zeros_like(found)

    def on_grid(self, x: Sequence[Floats]) -> Floats:
        """Variances (..., C) of values on the grid of index coordinates x."""
        found = self.inner.on_grid([x[k] - self.first[k] for k in self.wide])
        found = found.reshape(*(len(c) if k in self.wide else 1 for k, c in enumerate(x)), -1)
        return np.broadcast_to(found, (*map(len, x), found.shape[-1]))

    def covariance(self, x: Floats) -> Floats:
        """Covariances at places near each other, (n, n, C), with `variance` on the diagonal."""
        at, floor = self.own(x), self.inner.floor
        unit = self.inner.joint(at)
        variance = self.inner.variance(at) - floor
        own = np.diagonal(unit)  # below a part of the largest it is rounding
        own = np.sqrt(np.maximum(own, 1e-9 * own.max(initial=0) + 1e-300))[:, None]
        same = np.clip(unit / own / own.T, -1, 1)
        np.fill_diagonal(same, 1)
        s = np.sqrt(np.maximum(variance, 0))
        return np.asarray(same[:, :, None] * s[:, None] * s + np.eye(len(x))[:, :, None] * floor)

    def mean_variance(self, ends: Floats, known: priors.Known) -> Floats:
        """Variance of the mean over a box between ends, (d, 2): (C,).

        `known` keeps what boxes that are alike share.
        """
        edges, shares = [], []
        for a, b in np.sort(ends, axis=1).tolist():
            e = np.append(a + np.arange(max(1, math.ceil(b - a - 1e-9))), b)
            edges.append(e)
            shares.append(np.diff(e) / (b - a) if b > a else np.ones(1))
        return self.sum_variance(edges, reduce(np.multiply.outer, shares), known)

    def sum_variance(self, edges: Sequence[Floats], volume: Floats, known: priors.Known) -> Floats:
        """Variance of a sum over cells between edges, weighted by their volumes, (C,).

        Cells are cut into blocks whose errors are taken for independent.
        """
        edges, inner = [edges[k] - self.first[k] for k in self.wide], self.inner
        volume = volume.reshape([len(e) - 1 for e in edges])
        total = np.sum(volume**2) * inner.floor
        blocks = [[slice(*r) for r in runs(n, int(min(inner.block, n)))] for n in volume.shape]
        for cells in cartesian(*blocks):
            own = volume[cells]
            if not own.any():
                continue
            most = (BLOCK_MAX_PLACES / np.count_nonzero(own)) ** (1 / own.ndim)
            q = max(1, min(int(most), math.ceil(QUADRATURE + MORE_PLACES / max(own.shape))))
            ends = [(e[:-1][c, None], e[1:][c, None]) for e, c in zip(edges, cells)]
            each = [q if (b > a).any() else 1 for a, b in ends]
            axes = [
                (a + (b - a) * (np.arange(m) + 0.5) / m).ravel() for (a, b), m in zip(ends, each)
            ]
            weights = reduce(lambda w, k: np.repeat(w, each[k], axis=k), range(own.ndim), own)
            box = np.asarray([a[0, 0] for a, _ in ends]), np.asarray([b[-1, 0] for _, b in ends])
            weights = weights.ravel() / math.prod(each)
            total = total + inner.sum_variance(axes, weights, box, known)
        return np.asarray(np.maximum(total, 0))


def why_none(model: "Model") -> str | None:
    """Why a field has no posterior; None if it has one."""
    if model.labels.alpha is not None:
        return (
            "a picture with transparency has no standard deviation: its colours were fitted times "
            "alpha. Fit the colours, image[..., :3]."
        )
    if model.labels.classes:
        return "classes have no standard deviation; `means` tells which share each class has."
    if model.evidence is not None and model.evidence.observed and model.observed is None:
        return (
            "this field was fitted to observations, and how sure it is was not kept: files, crops "
            "and single channels do without, `positive` and oriented() do not tell. Ask the field "
            "that fit_observations returned."
        )
    if not _is_dense(model):
        return None
    if model.blended.is_scattered or model.residual is None:
        return (
            "this field has no standard deviation: its random layers do not know what they left "
            "over of their samples, which are scattered, cropped or a file of coded ones. Fit a "
            "grid, or with smooth()."
        )
    least = LayerErrors(model.blended, np.zeros(0), _ridge(model)).least_free
    if least < LEAST_FREE:
        return (
            "this field has no standard deviation: a random layer through its samples says nothing "
            f"about what lies between them, and this one leaves {100 * least:.0f} % of them free. "
            "Fit with smooth() or oriented(), a larger `ridge`, or a smaller `width`."
        )
    return None


def _is_dense(model: "Model") -> bool:
    """Whether regions are plain least squares of dense layers, or of a local model like these."""
    g = model.blended.groups[0]
    plain = g.model.axes is None and getattr(g.model, "order", None) is None
    return plain and not isinstance(g.nodes, Nodes)


def _ridge(model: "Model") -> float:
    """The penalty on the weights of a dense layer."""
    return float(getattr(model.settings, "ridge", 0.0))


def _gone(model: "Model") -> Array | None:
    """Which samples are missing in any channel; None where none is."""
    gone = model.missing
    if gone is not None and gone.ndim > len(model.shape):
        gone = gone.any(axis=-1)
    return gone if gone is not None and gone.any() else None


def posterior_of(model: "Model") -> Posterior:
    """The posterior of a field, calibrated on its samples."""
    if model.observed is None and (reason := why_none(model)) is not None:
        raise TypeError(reason)
    units, d = np.asarray(to_numpy(model.scale), np.float64), len(model.shape)
    inner: Part
    if model.observed is not None:
        inner = model.observed
    elif _is_dense(model):
        gone, squares = _gone(model), np.asarray(to_numpy(model.residual), np.float64)
        here = None if gone is None else ~gone
        inner = LayerErrors(model.blended, squares / np.sum(units**2), _ridge(model), here)
    else:
        order = getattr(model.settings, "order", None)
        power = 2 * float(np.mean(order)) - 1 if order is not None else USUAL_POWER
        power = min(max(power, priors.LEAST_POWER), priors.LARGEST_POWER)
        if not model.blended.is_scattered:
            return _of_grid(model, power, units)
        inner = _of_points(model, priors.Prior(power, np.ones(d)), units)
    return Posterior(inner, np.zeros(d), list(range(d)))


def _of_points(model: "Model", prior: priors.Prior, units: Floats) -> Neighbours:
    """The posterior of scattered samples; of noisy ones, as the fit found noise and amplitude."""
    blended, found = model.blended, model.evidence or Evidence()
    nodes = [g.nodes for g in blended.groups if isinstance(g.nodes, Nodes)]
    every = np.concatenate([to_numpy(n.positions) for n in nodes])
    x, first = np.unique(every, axis=0, return_index=True)
    periods = np.where(blended.partition.periodic, model.shape, np.inf)
    if found.noise is None or found.amplitude is None:
        values = partial(_values_at, model)
        near = Neighbours(x=x, y=values(x), periods=periods, prior=prior, values=values)
        return near.calibrated()
    noise, amplitude = (np.asarray(a) / units for a in (found.noise, found.amplitude))
    parts = [np.ones(len(n.positions)) if n.noise is None else n.noise for n in nodes]
    near = Neighbours(
        x=x, y=np.zeros((len(x), len(units))), periods=periods, prior=prior, amplitude=amplitude,
        noise=float(np.mean((noise / amplitude) ** 2)) * np.concatenate(parts)[first],
    )  # fmt: skip
    return near.binned()


def _values_at(model: "Model", x: Floats) -> Floats:
    """The function at index coordinates (n, d), in the unit of the fit: (n, C)."""
    blended = model.blended
    at = move(x, blended.like, namespace(blended.like).float64)
    return np.asarray(to_numpy(blended.partials(at, [(0,) * x.shape[1]])[0]), np.float64)


def _of_grid(model: "Model", power: float, units: Floats) -> Posterior:
    """The posterior of samples on a grid, complete or with gaps."""
    blended, gone, known = model.blended, _gone(model), model.evidence or Evidence()
    (low, high), boxes = blended.needed, blended.source_samples
    wide = [k for k, (a, b) in enumerate(zip(low, high)) if b - a > 1] or [0]
    shape = tuple(high[k] - low[k] for k in wide)
    periodic = tuple(blended.partition.periodic[k] for k in wide)

    def read(slab: Sequence[slice]) -> Floats:
        own = [slice(a, a + 1) for a in low]
        for k, s in zip(wide, slab):
            own[k] = slice(s.start + low[k], s.stop + low[k])
        if boxes is None:
            return values([np.arange(s.start, s.stop, dtype=float) for s in slab])
        return narrowed(boxes.read_standardised(tuple(own)))

    def on_own(function: Callable[[list[Floats]], Array], x: Sequence[Floats]) -> Floats:
        at = [np.asarray([float(a)]) for a in low]
        for k, c in zip(wide, x):
            at[k] = c + low[k]
        return narrowed(function(at))

    def narrowed(found: Array) -> Floats:
        host = np.asarray(to_numpy(found), np.float64)
        return host.reshape(*(host.shape[k] for k in wide), -1)

    def values_at(x: Floats) -> Floats:
        at = np.tile(np.asarray(low, float), (len(x), 1))
        at[:, wide] += x
        return _values_at(model, at)

    values, spread = partial(on_own, blended.on_grid), mixture_spread(blended)
    floor = (model.coding_error / units) ** 2
    noise, left = None, None
    if known.noise is not None and known.left is not None and min(known.noise) > 0:
        noise = (np.asarray(known.noise) / units) ** 2
        left = noise * np.asarray(known.left, np.float64)
        for k in set(range(len(low))) - set(wide):
            left = left.take([low[k] * left.shape[k] // model.shape[k]], axis=k)
        left = narrowed(left)
    gone = None if gone is None else gone[tuple(map(slice, low, high))].reshape(shape)
    inner: Part
    prior = priors.Prior(power, np.ones(len(wide)))
    if gone is not None and gone.any() and not gone.all():
        y = read([slice(0, n) for n in shape])
        holes = np.where(gone[..., None], np.nan, y)
        found = priors.prior_of(prior, [holes[slab] for slab in priors.probes(shape)])
        inner = Neighbours(
            x=np.argwhere(~gone).astype(float), y=y[~gone], values=values_at, prior=found,
            periods=np.where(periodic, shape, np.inf),
            lost=floor if left is None else floor + left.mean(axis=tuple(range(len(wide)))),
        ).calibrated(finds_power=found is prior)  # fmt: skip
    else:
        means = noise is None and model.labels.samples == "means"
        inner = Lattice(
            shape=shape, periodic=periodic, read=read, lost=floor, noise=noise, left=left,
            prior=replace(prior, means=means),
            values=None if means or noise is not None else values,
            chooses=not getattr(model.settings, "is_linear", True),
            spread=None if spread is None else partial(on_own, spread),
            source=[(low[k], model.shape[k]) for k in wide],
        ).calibrated()  # fmt: skip
    return Posterior(inner, np.asarray(low, float), wide)


# --- what callers ask for -------------------------------------------------------------------------


def deviations(model: "Model", variances: Floats) -> Array:
    """Standard deviations in the caller's units, (..., C), from variances in that of the fit."""
    found = np.sqrt(variances)
    found *= np.asarray(to_numpy(model.scale), np.float64)
    if model.is_complex:
        found = np.hypot(*np.split(found, 2, axis=-1))
    return move(found, model.offset, model.offset.dtype)


def _of_channels(model: "Model", variances: Floats) -> Array:
    """Standard deviations in the caller's units, (C,), or of the only channel."""
    found = deviations(model, variances)
    return found[0] if model.channel_axis is None else found


def std_at_index(model: "Model", quantity: str, index: Array) -> Array:
    """Standard deviations (n, C, ...) at index coordinates, (n, d)."""
    x, slopes = np.asarray(to_numpy(index), np.float64), np.asarray(model.domain.per_unit)
    steps, posterior = np.eye(x.shape[1], dtype=int).tolist(), model.posterior
    if quantity == "gradient":
        spacings = enumerate(model.domain.spacings)
        local = [np.ones(len(x)) if s is None else s.per_step(x[:, k]) for k, s in spacings]
        parts = [posterior.variance(x, ((1.0, tuple(e)),)) for e in steps]
        size = slopes * np.stack(local, axis=-1)
        found = deviations(model, np.stack(parts, axis=1) * size[:, :, None] ** 2)
        return namespace(found).moveaxis(found, 1, 2)
    if quantity != "value" and any(model.domain.spacings):
        raise TypeError("standard deviations of Laplacians need axes of even steps.")
    if quantity == "value":
        return deviations(model, posterior.variance(x))
    terms = tuple((float(s) ** 2, tuple(2 * i for i in e)) for s, e in zip(slopes, steps))
    return deviations(model, posterior.variance(x, terms))


def covariance_at_points(model: "Model", points: Any) -> Array:
    """Covariances of values at points (n, d); see :meth:`Field.covariance`."""
    if model.is_complex:
        raise TypeError("complex values have no covariance here. Fit real and imaginary parts.")
    x = model.coordinates.points(points, model.offset)
    if x.ndim != 2:
        raise ValueError(f"`points` must have shape (n, d); got {tuple(x.shape)}.")
    index = np.asarray(to_numpy(model.coordinates.to_index(x, "raise")[0]), np.float64)
    units = np.asarray(to_numpy(model.scale), np.float64)
    found = model.posterior.covariance(index) * units**2
    return move(found[..., 0] if model.channel_axis is None else found, model.offset)


def std_of_means(model: "Model", edges: Sequence[Floats | None]) -> Array:
    """Standard deviations (..., C) of means over boxes between edges, in index coordinates."""
    axes = zip(edges, own_samples(model.domain))
    spans = [np.stack([o, o] if e is None else [e[:-1], e[1:]], axis=1) for e, o in axes]
    known = priors.Known()
    found = [model.posterior.mean_variance(np.stack(ends), known) for ends in cartesian(*spans)]
    return deviations(model, np.reshape(found, (*map(len, spans), -1)))


def std_of_integral(model: "Model", low: Sequence[Any], high: Sequence[Any]) -> Array:
    """Standard deviation of the integral over a box; see :meth:`Field.integral`."""
    ends = model.coordinates.corners(low, high)
    with date_errors(model.labels.axes):
        span = np.transpose(model.domain.span(*ends)).astype(float)
    volume = math.prod(q - p for p, q in zip(*ends))
    return abs(volume) * _of_channels(model, model.posterior.mean_variance(span, priors.Known()))


def std_over_mask(model: "Model", mask: Array, missing: str | None) -> tuple[Array, float]:
    """Standard deviation of the integral over what a mask selects, and the volume that counts."""
    edges, volume = cells_of_mask(model, mask)
    gone = _gone(model) if shows_gaps(model, missing) else None
    if gone is not None:
        volume = volume * ~gone[np.ix_(*(np.rint((e[:-1] + e[1:]) / 2).astype(int) for e in edges))]
    total = model.posterior.sum_variance(edges, volume, priors.Known())
    return _of_channels(model, total), float(volume.sum())
