"""Samples that are means over their cells: a field whose own means are these.

Its values at the samples are found by iteration: what the means of a field still lack is added to
the values it is fitted to.
"""

import math
import warnings
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from elmfield._array.autograd import Linear, adjoint_of, apply_linear, gradient_error
from elmfield._array.backend import cast, move, namespace, requires_grad, to_numpy
from elmfield._array.progress import reporter
from elmfield._array.typing import Array, Floats, Progress
from elmfield.errors import RankWarning
from elmfield.field import Field
from elmfield.field.blend.means import averaged, over
from elmfield.fit.encoder import Encoder
from elmfield.samples import with_nan

REMEMBERED_STEPS = 8
"""Earlier steps that the next one is made of (Anderson's acceleration)."""

MOST_STEPS = 60
"""Steps; about 15 are taken in the plane, where the finest waves keep 0.4 of their height."""

CLOSE_ROUNDINGS = 64
"""Means agree when they differ by less than this many roundings of the range."""


def fit_means(
    encode: Encoder,
    values: Array,
    *,
    mask: Array | None = None,
    missing: str = "fill",
    progress: Progress | bool = False,
) -> Field:
    """The Field whose means over the samples' cells are `values`."""
    settings = encode.settings
    if settings.target is not None or settings.denoise is not False:
        raise ValueError(
            "samples='means' is for settings that meet every sample; got an error target or "
            "denoising. Fit the means first, then use field.keep(...)."
        )
    if requires_grad(values) and not settings.is_linear:
        raise gradient_error("a fit of means that is not linear in them")
    tell = reporter(progress)
    given = with_nan(values)
    first: Field = encode(given, mask=mask, missing=missing)
    there, field = _present(first), first
    held = first.samples(missing="fill")
    own = str(first.dtype).rsplit(".", 1)[-1]
    wide = np.complex128 if first.model.is_complex else np.float64
    limit = (
        CLOSE_ROUNDINGS
        * np.finfo(np.dtype(str(first.model.coefficient_dtype).rsplit(".", 1)[-1])).eps
    )

    def mean(y: Array) -> Array:
        """Means of the field of samples y, where there are some; a gap keeps what was filled in."""
        nonlocal field
        field = encode(y)
        return namespace(y).where(move(there, y), _means(field), y)

    def on_host(y: Floats) -> Floats:
        return np.asarray(to_numpy(mean(move(y.astype(own), first.model.offset))), wide)

    wanted = np.where(there, to_numpy(given).astype(wide), np.asarray(to_numpy(held), wide))
    y, size = _solved(on_host, wanted, limit, lambda k: tell("means", k, MOST_STEPS))
    tell("means", MOST_STEPS, MOST_STEPS)
    if requires_grad(held):
        at = move(y.astype(own), first.model.offset)

        def solve(w: Floats) -> Floats:
            return _solved(on_host, w.astype(wide), limit)[0]

        def solve_back(g: Floats) -> Floats:
            return _solved(adjoint_of(mean, at), g.astype(wide), limit)[0]

        xp = namespace(held)
        followed = xp.where(move(there, held), cast(given, held), held)
        field = encode(apply_linear(solve, solve_back, followed, y))
    if size > math.sqrt(limit):
        warnings.warn(
            f"the field's means still differ from the samples by {size:.1e} of their range; these "
            "settings do not meet every sample.",
            RankWarning,
            stacklevel=3,
        )
    # What is known of the caller's samples, not of those that were fitted.
    return Field(
        replace(
            field.model,
            input_dtype=first.model.input_dtype,
            data_range=first.model.data_range,
            gaps=first.model.missing,
            residual=None,
            labels=replace(first.labels, samples="means"),
        )
    )


def _present(field: Field) -> Array:
    """Which samples were there, of the array's shape or one that fits it."""
    gone = field.model.missing
    if gone is None:
        return np.ones((), bool)
    if field.model.channel_axis is None:
        return ~gone
    whole = gone[..., None] if gone.ndim == len(field.shape) else gone
    return ~np.moveaxis(whole, -1, field.model.channel_axis)


def _means(field: Field) -> Array:
    """Means over the samples' cells, laid out as the array that was fitted."""
    edges = [np.arange(a.size + 1, dtype=float) - 0.5 for a in field.domain.axes]
    found, _ = averaged(field.model, over(field.model, edges), False)
    k = field.model.channel_axis
    return found[..., 0] if k is None else namespace(found).moveaxis(found, -1, k)


def _solved(
    apply: Linear, wanted: Floats, limit: float, tell: Callable[[int], None] = lambda k: None
) -> tuple[Floats, float]:
    """Return y with ``apply(y) = wanted``, and what it lacks at most, in parts of the range."""
    scale = float(np.max(np.abs(wanted - np.mean(wanted)))) or 1.0
    step = Anderson(2.0 ** math.floor(math.log2(scale)))
    y, least, size = wanted, np.inf, np.inf
    for k in range(MOST_STEPS):
        lacks = wanted - apply(y)
        size = float(np.max(np.abs(lacks))) / scale
        tell(k)
        if size < limit or (k > 20 and size > 0.5 * least):
            break
        least = min(least, size)
        y = step(y, lacks)
    return y, size


class Anderson:
    """Steps of a fixed-point iteration, each the best mix of the last few.

    Parameters
    ----------
    unit : float
        About how large numbers are, a power of two: their squares may have no place.
    """

    def __init__(self, unit: float) -> None:
        self._unit = unit
        self._places: list[Floats] = []
        self._lacks: list[Floats] = []

    def __call__(self, y: Array, lacks: Array) -> Array:
        """Where to go from `y`, whose result lacks `lacks`."""
        self._places = [*self._places, y][-REMEMBERED_STEPS - 1 :]
        self._lacks = [*self._lacks, lacks][-REMEMBERED_STEPS - 1 :]
        if len(self._places) == 1:
            return y + lacks
        steps = [a - lacks for a in self._lacks[:-1]]
        D = np.stack([s.reshape(-1) / self._unit for s in steps])
        G = D @ D.conj().T
        right = D.conj() @ (lacks.reshape(-1) / self._unit)
        mix = -np.linalg.lstsq(G.conj(), right, rcond=1e-14)[0]
        out = y + lacks
        for c, place, lack in zip(mix, self._places[:-1], self._lacks[:-1]):
            out = out + c * ((place + lack) - (y + lacks))
        return out
