"""Functions from the posterior: at points, or as fields.

By Matheron's rule: a function of the prior, less what its own samples say of it, differs from zero
as the truth does from the field.
"""

import math
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product as cartesian
from typing import TYPE_CHECKING, Any

import numpy as np

from elmfield._array.backend import move, namespace, to_numpy
from elmfield._array.checks import whole
from elmfield._array.running import runs
from elmfield._array.typing import Array, Floats, Integers
from elmfield.domain import Axis, Domain
from elmfield.field.coordinates.labels import Labels
from elmfield.field.uncertainty.error_parts import ErrorParts
from elmfield.field.uncertainty.lattice import Lattice
from elmfield.field.uncertainty.neighbours import BATCH_NUMBERS, Neighbours
from elmfield.field.uncertainty.posterior import covariance_at_points
from elmfield.settings import Smooth

if TYPE_CHECKING:
    from elmfield.field.model import Model

DRAW_MAX_POINTS = 4096
"""Points at which functions are drawn together, at most: one dense factorisation."""

REFINEMENT = 3
"""Places a sample on each axis at which fields are drawn; odd, so that samples are among them."""

KEPT_NUMBERS = 1 << 24
"""Numbers of functions of the prior that are made together."""

KEPT_LABELS = ("name", "title", "attrs", "channels", "variables", "crs")
"""What of a field's labels drawn ones share."""


def draw_around(model: "Model", mean: Array, n: int, points: Any, seed: int) -> Array:
    """Functions from the posterior at points (..., d), around a mean; see :meth:`Field.draw`."""
    x, n = model.coordinates.points(points, model.offset), whole("n", n)
    if (m := math.prod(x.shape[:-1])) > DRAW_MAX_POINTS:
        raise ValueError(
            f"functions are drawn at {DRAW_MAX_POINTS} points at most; got {m}. Take a part of "
            "them, or a coarser grid."
        )
    x, part = namespace(x).reshape(x, (m, -1)), model.posterior.inner
    if isinstance(part, ErrorParts) and not model.is_complex:
        index = np.asarray(to_numpy(model.coordinates.to_index(x, "raise")[0]), np.float64)
        off = part.draw(index, n, model.n_channels, seed) * to_numpy(model.scale)
    else:
        C = np.asarray(to_numpy(covariance_at_points(model, x)))
        off = _correlated(C.reshape(m, m, -1), n, seed)
    return mean + move(off.reshape(n, *mean.shape), model.offset, model.offset.dtype)


def _correlated(C: Floats, n: int, seed: int) -> Floats:
    """Random numbers, (n, m, C), with covariances (m, m, C).

    By the symmetric root of a covariance, the only one that does not depend on signs and on the
    order of eigenvectors: what is drawn is the same on every machine, to rounding.
    """
    g, U = np.linalg.eigh(np.moveaxis(C, 2, 0))
    z = np.random.default_rng(seed).standard_normal((len(g), n, g.shape[1]))
    return np.moveaxis(z @ (U * np.sqrt(np.maximum(g, 0))[:, None]) @ U.mT, 0, -1)


# --- fields ---------------------------------------------------------------------------------------


def draw_models(model: "Model", n: int, seed: int) -> list["Model"]:
    """Functions from the posterior as models of their own; see :meth:`Field.draw`."""
    from elmfield.fit.encoder import Encoder  # the one step up: what is drawn has to be fitted

    n = whole("n", n)
    d, post, blended, k = len(model.shape), model.posterior, model.blended, model.channel_axis
    part = post.inner
    every = blended.is_scattered or isinstance(part, ErrorParts)
    low, high = ((0,) * d, model.shape) if every else blended.needed
    sizes = [b - a for a, b in zip(low, high)]
    fine = REFINEMENT if model.observed is None else 1
    steps = [fine if j in post.wide else 1 for j in range(d)]
    index = [a + (np.arange(m * r) + 0.5) / r - 0.5 for a, m, r in zip(low, sizes, steps)]
    mean = np.asarray(to_numpy(blended.on_grid(index)), np.float64)
    x = post.own(np.stack(np.meshgrid(*index, indexing="ij"), axis=-1).reshape(-1, d))
    waves = [sizes[j] for j in post.wide]
    drawn = part if isinstance(part, ErrorParts) else PriorWaves(part, waves)
    off = drawn.draw(x, n, mean.shape[-1], seed)
    xp, like = namespace(model.offset), model.offset
    values = move((mean + off.reshape(n, *mean.shape)).reshape(-1, mean.shape[-1]), like)
    frames = xp.reshape(model.finish(values, constant=True), (n, *mean.shape[:-1], -1))
    frames = frames[..., 0] if k is None else xp.moveaxis(frames, -1, k + 1)
    axes = zip(model.domain.axes, index)
    encode = Encoder(
        shape=tuple(frames.shape[1:]),
        settings=Smooth(order=getattr(model.settings, "order", "auto")),
        channel_axis=k,
        domain=Domain.of([Axis.through(a.name, a.from_index(i), a.period) for a, i in axes]),
    )
    about = {name: replace(own, ticks=(), dtype=None) for name, own in model.labels.axes.items()}
    labels = Labels(axes=about, **{name: getattr(model.labels, name) for name in KEPT_LABELS})
    return [replace(f.model, labels=labels) for f in encode.batch(frames)]


@dataclass(frozen=True, eq=False)
class PriorWaves:
    """Functions of a prior on a lattice that repeats, REFINEMENT places a sample of each axis.

    Axes that do not repeat have twice their length.
    """

    part: Lattice | Neighbours
    sizes: list[int]

    @cached_property
    def spectra(self) -> tuple[Floats, Floats]:
        """Of the functions, up to a factor; and what a mean over cells leaves of each wave."""
        prior, part = self.part.prior, self.part
        wraps = part.periodic if isinstance(part, Lattice) else np.isfinite(part.periods).tolist()
        lengths = [REFINEMENT * m * (2 - p) for m, p in zip(self.sizes, wraps)]
        turns = [REFINEMENT * np.fft.fftfreq(m) for m in lengths]  # waves a sample
        total, power = np.zeros(lengths), -(prior.power + len(lengths)) / 2
        for turn in cartesian((-1, 0, 1), repeat=len(lengths)):  # faster ones look like slower ones
            ends = zip(turns, turn, prior.stretch)
            square = sum(np.ix_(*(((w + REFINEMENT * t) / s) ** 2 for w, t, s in ends)))
            total += np.where(square > 0, square, np.inf) ** power
        if not prior.means:
            return total, np.ones(())
        near = 2 * np.pi * (np.arange(REFINEMENT)[:, None] - REFINEMENT // 2) / REFINEMENT
        cells = (np.cos(w * near).mean(axis=0) for w in turns)
        return total, np.asarray(math.prod(np.ix_(*cells)))

    def draw(self, x: Floats, n: int, C: int, seed: int) -> Floats:
        """What n functions of C channels differ by from their mean, (n, m, C), at m places x."""
        from scipy.sparse import csr_array  # 0.1 s, for who asks

        rng, (S, B), part = np.random.default_rng(seed), self.spectra, self.part
        if isinstance(part, Neighbours):  # samples between places of the lattice are moved there
            part = replace(part, x=np.rint(REFINEMENT * part.x) / REFINEMENT)
        offsets, weights, rows, unit, noise = part.asked_at(x)

        def seats(at: Floats) -> Integers:
            i = np.rint(REFINEMENT * at).astype(np.int64)
            return np.asarray(np.ravel_multi_index(np.moveaxis(i, -1, 0), S.shape, mode="wrap"))

        own, cell, both = (np.fft.ifftn(S * B**i).real.reshape(-1) for i in range(3))
        square = np.empty(len(weights))  # variances of a function less what its samples say of it
        for i, j in runs(len(weights), max(1, BATCH_NUMBERS // weights.shape[1] ** 2)):
            o, w = offsets[i:j], weights[i:j]
            square[i:j] = own[0] - 2 * np.einsum("ik,ik->i", w, cell[seats(o)])
            square[i:j] += np.einsum("ik,ikl,il->i", w, both[seats(o[:, :, None] - o[:, None])], w)
        heard, floor = np.sum(weights**2 * noise, axis=1), np.broadcast_to(part.floor, (C,))
        ratio = np.sum(square) / max(float(np.sum(unit - heard)), 1e-300)
        square = np.maximum(square + ratio * heard, 1e-12 * own[0])[rows, None]
        blurred = weights * np.sqrt(ratio * noise)
        size = np.sqrt(np.maximum(self.part.variance(x) - floor, 0) / square)
        found, at = np.empty((n * C, len(x))), seats(x)
        for first, last in runs(n * C, max(1, KEPT_NUMBERS // S.size)):
            values, said, grain = np.empty((3, last - first, S.size))
            for e in range(last - first):
                waves = np.sqrt(S) * np.fft.fftn(rng.standard_normal(S.shape))
                values[e] = np.fft.ifftn(waves).real.reshape(-1)
                said[e] = np.fft.ifftn(waves * B).real.reshape(-1) if B.ndim else values[e]
                grain[e] = rng.standard_normal(S.size)
            for i, j in runs(len(x), max(1, BATCH_NUMBERS // weights.shape[1])):
                near, ends = seats(x[i:j, None] + offsets[rows[i:j]]).ravel(), weights.shape[1]
                ends, found[first:last, i:j] = np.arange(0, len(near) + 1, ends), values[:, at[i:j]]
                for w, samples in ((weights, said), (blurred, grain)):
                    w = csr_array((w[rows[i:j]].ravel(), near, ends), (j - i, S.size))
                    found[first:last, i:j] -= (w @ samples.T).T
        drawn = found.reshape(n, C, -1).transpose(0, 2, 1) * size
        return np.asarray(drawn + np.sqrt(floor) * rng.standard_normal(drawn.shape))
