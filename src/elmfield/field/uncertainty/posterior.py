"""How sure a field is: which posterior it has, and what callers ask of it."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from elmfield._array.backend import move, namespace, to_numpy
from elmfield._array.checks import choice, is_whole, shown
from elmfield._array.typing import Array, Floats
from elmfield.field.coordinates.dates import date_errors
from elmfield.field.coordinates.parse import own_samples
from elmfield.field.uncertainty.lattice import Lattice
from elmfield.field.uncertainty.neighbours import Neighbours
from elmfield.field.uncertainty.prior import Prior, Terms

if TYPE_CHECKING:
    from elmfield.field.model import Model

DEVIATIONS = ("value", "gradient", "laplacian")
"""Quantities that have a standard deviation at points."""

USUAL_POWER = 1.2
"""Power of a prior that neither samples nor settings tell."""

QUADRATURE = 3
"""Places between two samples, on each axis, by which means over boxes are taken."""

BLOCK_MAX_PLACES = 2000
"""Places of a box whose covariances are taken together, at most."""

DRAW_MAX_POINTS = 4096
"""Points at which functions are drawn together, at most: one dense factorisation."""


@dataclass(frozen=True)
class Evidence:
    """What a fit found out about noise, in the caller's units.

    Parameters
    ----------
    noise : tuple of float, or None
        Standard deviation of each channel's noise.
    amplitude : tuple of float, or None
        Standard deviation of each channel's prior at a distance of one sample, where the fit
        estimated it too.
    left : float
        The part of the noise's variance that is left in the samples.
    coding : float
        Root mean square of what coding lost, where only the file knows it.
    """

    noise: tuple[float, ...] | None = None
    amplitude: tuple[float, ...] | None = None
    left: float = 1.0
    coding: float = 0.0

    @classmethod
    def of_noise(cls, level: Array | float, left: float, scale: Array) -> "Evidence":
        """Noise of one level in all channels, or of a level in each, and the part that is left."""
        each = np.broadcast_to(np.asarray(to_numpy(level), np.float64), (int(scale.shape[0]),))
        return cls(tuple(each.tolist()), left=left)

    def channels(self, own: slice) -> "Evidence":
        """The same of some channels."""
        noise, amplitude = (None if a is None else a[own] for a in (self.noise, self.amplitude))
        return replace(self, noise=noise, amplitude=amplitude)


class Posterior(Protocol):
    """How sure a function of index coordinates is, in the unit of the fit."""

    @property
    def shares(self) -> tuple[float, ...]:
        """Left-out samples inside 50, 90 and 99 %; empty where none could be left out."""

    @property
    def floor(self) -> Floats:
        """Variance that every value has besides, (C,)."""

    def variance(self, x: Floats, terms: Terms = ()) -> Floats:
        """Variances (n, C) of values, or of derivatives, at index coordinates x, (n, d)."""

    def on_grid(self, x: Sequence[Floats]) -> Floats:
        """Variances (..., C) of values on the grid of index coordinates x."""

    def joint(self, x: Floats) -> Floats:
        """Covariances per amplitude of values at places x near each other, (n, n)."""

    def amplitudes(self, x: Floats) -> Floats:
        """Standard deviations of the prior at places, (n, C)."""

    @property
    def block(self) -> float:
        """Samples on each axis of a box whose covariances fit into one dense matrix."""

    def pattern(self, low: Floats, high: Floats) -> Any:
        """What boxes with the same covariances per amplitude share; None where none are alike."""


@dataclass(frozen=True, eq=False)
class Part:
    """A posterior that knows only the axes of more than one sample, from a first sample on."""

    inner: Posterior
    first: Floats
    wide: tuple[int, ...]

    @property
    def shares(self) -> tuple[float, ...]:
        """Left-out samples inside 50, 90 and 99 %; empty where none could be left out."""
        return self.inner.shares

    @property
    def floor(self) -> Floats:
        """Variance that every value has besides, (C,)."""
        return self.inner.floor

    def _own(self, x: Floats) -> Floats:
        return (x - self.first)[:, list(self.wide)]

    def variance(self, x: Floats, terms: Terms = ()) -> Floats:
        """Variances of values, or of derivatives; those along one sample have none."""
        own = tuple(
            (c, tuple(order[k] for k in self.wide))
            for c, order in terms
            if sum(order) == sum(order[k] for k in self.wide)
        )
        found = self.inner.variance(self._own(x), own)
        return found if own or not terms else np.zeros_like(found)

    def on_grid(self, x: Sequence[Floats]) -> Floats:
        """Variances on a grid."""
        found = self.inner.on_grid([x[k] - self.first[k] for k in self.wide])
        shape = [len(c) if k in self.wide else 1 for k, c in enumerate(x)]
        found = found.reshape(*shape, -1)
        return np.broadcast_to(found, (*map(len, x), found.shape[-1]))

    def joint(self, x: Floats) -> Floats:
        """Covariances per amplitude."""
        return self.inner.joint(self._own(x))

    def amplitudes(self, x: Floats) -> Floats:
        """Standard deviations of the prior."""
        return self.inner.amplitudes(self._own(x))

    @property
    def block(self) -> float:
        """Samples on each axis of a box whose covariances fit into one dense matrix."""
        return self.inner.block

    def pattern(self, low: Floats, high: Floats) -> Any:
        """What boxes with the same covariances per amplitude share."""
        return self.inner.pattern(self._own(low[None])[0], self._own(high[None])[0])


def why_none(model: "Model") -> str | None:
    """Why a field has no posterior; None if it has one."""
    if model.labels.alpha is not None:
        return (
            "a picture with transparency has no standard deviation: its colours were fitted times "
            "alpha. Fit the colours, image[..., :3]."
        )
    groups = model.blended.groups
    if not model.blended.is_scattered and any(g.model.axes is None for g in groups):
        return (
            "this field has no standard deviation: a random layer through its samples says nothing "
            "about what lies between them. Fit with smooth() or oriented()."
        )
    return None


def posterior_of(model: "Model") -> Posterior:
    """The posterior of a field, calibrated on its samples."""
    if (reason := why_none(model)) is not None:
        raise TypeError(reason)
    order = getattr(model.settings, "order", None)
    power = 2 * float(np.mean(order)) - 1 if order is not None else USUAL_POWER
    units = np.asarray(to_numpy(model.scale), np.float64)
    return (_of_points if model.blended.is_scattered else _of_grid)(model, power, units)


def _of_points(model: "Model", power: float, units: Floats) -> Posterior:
    """The posterior of scattered samples; of noisy ones, as the fit found noise and amplitude."""
    blended, evidence = model.blended, model.evidence
    every = [np.asarray(to_numpy(g.nodes.positions)) for g in blended.groups if g.nodes is not None]
    x = np.unique(np.concatenate(every), axis=0)
    periods = np.where(blended.partition.periodic, np.asarray(model.shape, float), np.inf)
    if evidence is not None and evidence.amplitude is not None:
        amplitude = np.asarray(evidence.amplitude) / units
        assert evidence.noise is not None
        ratio = float(np.mean((np.asarray(evidence.noise) / units / amplitude) ** 2))
        return Neighbours(
            x=x, y=np.zeros((len(x), len(units))), periods=periods, amplitude=amplitude,
            prior=Prior(power, np.ones(x.shape[1])), noise=ratio, factor=1.0,
        )  # fmt: skip
    at = move(x, blended.like, namespace(blended.like).float64)
    y = np.asarray(to_numpy(blended.partials(at, [(0,) * x.shape[1]])[0]), np.float64)
    return Neighbours.calibrated(x, y, periods, power=power, floor=np.zeros(1))


def _of_grid(model: "Model", power: float, units: Floats) -> Posterior:
    """The posterior of samples on a grid, complete or with gaps."""
    blended = model.blended
    low, high = blended.needed
    boxes, gone = blended.source_samples, model.missing
    sizes = [b - a for a, b in zip(low, high)]
    wide = tuple(k for k, n in enumerate(sizes) if n > 1) or (0,)

    def whole(x: Sequence[Any]) -> list[Any]:
        """Positions on wide axes, from the first sample, as positions on all."""
        own = dict(zip(wide, x))
        return [own.get(k) for k in range(len(low))]

    def read(slab: tuple[slice, ...]) -> Floats:
        own = [
            slice(a, a + 1) if s is None else slice(s.start + a, s.stop + a)
            for s, a in zip(whole(slab), low)
        ]
        if boxes is None:
            return values([np.arange(s.start, s.stop, dtype=float) for s in slab])
        found = np.asarray(to_numpy(boxes.read_standardised(tuple(own))), np.float64)
        return found.reshape(*(found.shape[k] for k in wide), -1)

    def values(x: Sequence[Floats]) -> Floats:
        at = [np.asarray([a]) if c is None else c + a for c, a in zip(whole(x), low)]
        found = np.asarray(to_numpy(blended.on_grid(at)), np.float64)
        return found.reshape(*(found.shape[k] for k in wide), -1)

    shape = tuple(sizes[k] for k in wide)
    periodic = tuple(blended.partition.periodic[k] for k in wide)
    floor = (coding_error(model) / units) ** 2
    evidence = Evidence() if model.evidence is None else model.evidence
    noise = None if evidence.noise is None else np.asarray(evidence.noise) / units
    if gone is not None:
        gone = gone if gone.ndim == len(low) else gone.any(axis=-1)
        gone = gone[tuple(map(slice, low, high))].reshape(shape)
    found: Posterior
    if gone is not None and gone.any() and not gone.all():
        y = read(tuple(slice(0, n) for n in shape))[~gone]
        periods = np.where(periodic, shape, np.inf)
        x = np.argwhere(~gone).astype(float)
        found = Neighbours.calibrated(x, y, periods, power=power, floor=floor)
    else:
        means = model.labels.samples == "means"
        found = Lattice.calibrated(
            shape, periodic, read,
            values=values, power=power, means=means, floor=floor, noise=noise,
            left=evidence.left,
        )  # fmt: skip
    return Part(found, np.asarray(low, float), wide)


def coding_error(model: "Model") -> float:
    """Root mean square of what coding lost, in the caller's units."""
    boxes, target = model.blended.source_samples, getattr(model.settings, "target", None)
    if target is None and (boxes is None or not boxes.is_lossy):
        return 0.0
    if model.evidence is not None and model.evidence.coding:
        return model.evidence.coding
    if model.residual is not None:
        count = float(np.prod(model.partition.boxes[1], axis=1, dtype=float).sum())
        return math.sqrt(float(np.sum(model.residual)) / model.n_channels / count)
    if target is not None and target.kind == "psnr":
        return float(model.data_range * 10 ** (-target.value / 20))
    return float(target.value) / math.sqrt(3) if target and target.kind == "max_error" else 0.0


# --- what callers ask for -------------------------------------------------------------------------


def deviations(model: "Model", variances: Floats) -> Array:
    """Standard deviations in the caller's units, (n, C, ...), from variances in that of the fit."""
    units = np.asarray(to_numpy(model.scale), np.float64) ** 2
    found = variances * units.reshape(-1, *(1,) * (variances.ndim - 2))
    if model.is_complex:
        half = found.shape[1] // 2
        found = found[:, :half] + found[:, half:]
    return move(np.sqrt(found), model.offset, model.offset.dtype)


def std_at_points(
    model: "Model", points: Any, quantity: str, outside: str, missing: str | None
) -> Array:
    """Standard deviations at points (..., d); see :meth:`Field.std`."""
    choice("quantity", quantity, DEVIATIONS)
    x = model.coordinates.points(points, model.offset)
    xp, d = namespace(x), x.shape[-1]
    lead = tuple(x.shape[:-1])
    index, slope, _, beyond = model.coordinates.to_index(xp.reshape(x, (-1, d)), outside, True)
    at, own = (np.asarray(to_numpy(a), np.float64) for a in (index, slope))
    unit = np.eye(d, dtype=int)
    if quantity == "value":
        found = model.posterior.variance(at)
    elif quantity == "gradient":
        parts = [model.posterior.variance(at, ((1.0, tuple(map(int, e))),)) for e in unit]
        found = np.stack(parts, axis=-1) * own[:, None, :] ** 2
    else:
        if any(a.knots is not None for a in model.domain.axes):
            raise TypeError("the standard deviation of a Laplacian needs axes of even steps.")
        terms = (
            tuple((float(s), tuple(2 * int(i) for i in e)) for s, e in zip(own[0] ** 2, unit))
            if len(own)
            else ()
        )
        found = model.posterior.variance(at, terms)
    out = deviations(model, found)
    mark, gone = None if beyond is None else beyond[:, None], model.hidden(index, missing)
    if gone is not None:
        mark = gone if mark is None else mark | gone
    if mark is not None:
        mark = xp.reshape(mark, (*mark.shape, *(1,) * (out.ndim - 2)))
        out = xp.where(mark, xp.full_like(out, xp.nan), out)
    out = xp.reshape(out, lead + tuple(out.shape[1:]))
    return out[(slice(None),) * len(lead) + (0, ...)] if model.channel_axis is None else out


def std_on_grid(model: "Model", x: Sequence[Floats]) -> Array:
    """Standard deviations (..., C) on a grid of index coordinates."""
    found = model.posterior.on_grid(x)
    flat = deviations(model, found.reshape(-1, found.shape[-1]))
    return namespace(flat).reshape(flat, (*found.shape[:-1], -1))


def covariance_at_points(model: "Model", points: Any, outside: str = "raise") -> Array:
    """Covariances of values at points (n, d): (n, n), or (n, n, C); see :meth:`Field.covariance`."""
    if model.is_complex:
        raise TypeError(
            "covariances of complex values are not given. Fit real and imaginary parts."
        )
    x = model.coordinates.points(points, model.offset)
    if x.ndim != 2:
        raise ValueError(f"`points` must have shape (n, d); got {tuple(x.shape)}.")
    index = np.asarray(to_numpy(model.coordinates.to_index(x, outside, False)[0]), np.float64)
    found = _covariance(model.posterior, index) * np.asarray(to_numpy(model.scale), np.float64) ** 2
    found = found[..., 0] if model.channel_axis is None else found
    return move(found, model.offset)


def _covariance(posterior: Posterior, x: Floats) -> Floats:
    """Covariances in the unit of the fit, (n, n, C)."""
    a, unit = posterior.amplitudes(x), posterior.joint(x)
    return unit[:, :, None] * a[:, None] * a + np.eye(len(x))[:, :, None] * posterior.floor


def draw_at_points(model: "Model", n: int, points: Any, seed: int) -> Array:
    """Functions from the posterior at points (..., d): (n, ...); see :meth:`Field.draw`."""
    if not is_whole(n) or n < 1:
        raise ValueError(f"`n` must be a whole number of functions, 1 or more; got {shown(n)}.")
    x = model.coordinates.points(points, model.offset)
    lead = tuple(x.shape[:-1])
    flat = namespace(x).reshape(x, (-1, x.shape[-1]))
    if len(flat) > DRAW_MAX_POINTS:
        raise ValueError(
            f"functions are drawn at {DRAW_MAX_POINTS} points at most; got {len(flat)}. Take a "
            "part of them, or a coarser grid."
        )
    C = np.asarray(to_numpy(covariance_at_points(model, flat))).reshape(len(flat), len(flat), -1)
    index = model.coordinates.to_index(flat, "raise", False)[0]
    (mean,) = model.function_for(len(flat)).partials(index, [(0,) * flat.shape[1]])
    mean = np.asarray(to_numpy(model.finish(mean, True)), np.float64)
    rng, parts = np.random.default_rng(seed), []
    for c in range(C.shape[2]):
        g, U = np.linalg.eigh(C[..., c])
        z = rng.standard_normal((n, len(g)))
        parts.append(z @ (U * np.sqrt(np.maximum(g, 0))).T)
    drawn = (mean + np.stack(parts, axis=-1)).reshape(n, *lead, -1)
    drawn = drawn[..., 0] if model.channel_axis is None else drawn
    return move(drawn, model.offset, model.offset.dtype)


def std_of_means(model: "Model", edges: Sequence[Floats | None]) -> Array:
    """Standard deviations (..., C) of means over boxes between edges, in index coordinates."""
    spans = [
        np.stack([o, o] if e is None else [e[:-1], e[1:]], axis=1)
        for e, o in zip(edges, own_samples(model.domain))
    ]
    sizes, known = [len(s) for s in spans], dict[Any, float]()
    found = []
    for at in np.ndindex(*sizes):
        ends = np.sort([s[i] for s, i in zip(spans, at)], axis=1).astype(float)
        found.append(mean_variance(model.posterior, ends[:, 0], ends[:, 1], known))
    out = deviations(model, np.reshape(found, (math.prod(sizes), -1)))
    return namespace(out).reshape(out, (*sizes, -1))


def std_of_integral(model: "Model", low: Sequence[Any], high: Sequence[Any]) -> Array:
    """Standard deviation of the integral over a box; see :meth:`Field.integral`."""
    ends = model.coordinates.corners(low, high)
    with date_errors(model.labels.axes):
        span = model.domain.span(*ends)
    volume = math.prod(b - a for a, b in zip(*ends))
    found = mean_variance(model.posterior, *(np.asarray(e, float) for e in span), {})
    value = abs(volume) * deviations(model, found[None])[0, ...]
    return value[0] if model.channel_axis is None else value


def mean_variance(
    posterior: Posterior, low: Floats, high: Floats, known: dict[Any, float]
) -> Floats:
    """Variance of the mean over a box in index coordinates, (C,); `known` has what was computed.

    A large box is cut into blocks whose errors are taken for independent.
    """
    counts = np.maximum(1, np.ceil((high - low) / posterior.block - 1e-9)).astype(int)
    steps, total = (high - low) / counts, np.zeros(1)
    for at in np.ndindex(*counts):
        first = low + at * steps
        each = np.maximum(1, np.ceil(QUADRATURE * steps - 1e-9)).astype(int)
        each = np.minimum(each, int(BLOCK_MAX_PLACES ** (1 / max(1, np.sum(each > 1)))))
        axes = [a + h * (np.arange(m) + 0.5) / m for a, h, m in zip(first, steps, each)]
        x = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(axes))
        a, key = posterior.amplitudes(x), posterior.pattern(first, first + steps)
        if key is None:
            own = np.einsum("ic,ij,jc->c", a, posterior.joint(x), a) / len(x) ** 2
        else:
            if key not in known:
                known[key] = float(posterior.joint(x).mean())
            own = known[key] * (a * a).mean(axis=0)
        total = total + own + posterior.floor / max(1.0, float(np.prod(np.maximum(steps, 1))))
    return np.maximum(total / np.prod(counts) ** 2, 0)
