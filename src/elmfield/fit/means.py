"""Samples that are means over their cells: a field whose own means are these.

Enter an encoder and an array; leaves a Field that averages, between the borders of its samples'
cells, to that array. Its values at the samples are found by iteration: what the means of a field
still lack is added to the values it is fitted to.
"""

import math
import warnings
from dataclasses import replace

import numpy as np

from elmfield._array.backend import move, to_numpy
from elmfield._array.progress import reporter
from elmfield._array.typing import Array, Floats, Progress
from elmfield.errors import RankWarning
from elmfield.field import Field
from elmfield.field.means import averaged, over
from elmfield.fit.encoder import Encoder
from elmfield.samples import with_nan

MEMORY = 8
"""Earlier steps that the next one is made of (Anderson's acceleration)."""

MOST = 60
"""Steps; about 15 are taken in the plane, where the finest waves keep 0.4 of their height."""

CLOSE = 64
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
    asked = encode.settings
    if asked.target is not None or asked.denoise is not False:
        raise ValueError(
            "samples='means' is for settings that meet every sample; got an error target or "
            "denoising. Fit the means first, then use field.keep(...)."
        )
    tell = reporter(progress)
    first: Field = encode(values, mask=mask, missing=missing)
    wanted = np.asarray(to_numpy(with_nan(values)))
    wide = np.complex128 if first.is_complex else np.float64
    held = np.asarray(to_numpy(first.samples(missing="fill")), wide)
    there = _present(first)
    wanted = np.where(there, wanted.astype(wide), held)  # a gap keeps what was filled in
    limit = CLOSE * np.finfo(np.dtype(str(first.coefficient_dtype).rsplit(".", 1)[-1])).eps
    scale = float(np.max(np.abs(wanted - np.mean(wanted)))) or 1.0
    step = Anderson(2.0 ** math.floor(math.log2(scale)))
    field, y, least, size = first, wanted, np.inf, np.inf
    own = str(first.dtype).rsplit(".", 1)[-1]
    for k in range(MOST):
        lacks = np.where(there, wanted - _means(field), 0)
        size = float(np.max(np.abs(lacks))) / scale
        tell("means", k, MOST)
        if size < limit or (k > 20 and size > 0.5 * least):
            break
        least = min(least, size)
        y = step(y, lacks)
        field = encode(move(y.astype(own), first.offset))
    tell("means", MOST, MOST)
    if size > math.sqrt(limit):
        warnings.warn(
            f"the field's means still differ from the samples by {size:.1e} of their range; these "
            "settings do not meet every sample.",
            RankWarning,
            stacklevel=3,
        )
    # What is known of the samples that were given, not of those it went through.
    return replace(
        field,
        input_dtype=first.input_dtype,
        data_range=first.data_range,
        gaps=first.missing,
        residual=None,
        attributes={**first.attributes, "samples": "means"},
    )


def _present(field: Field) -> Array:
    """Which samples were there, of the array's shape or one that fits it."""
    gone = field.missing
    if gone is None:
        return np.ones((), bool)
    if field.channel_axis is None:
        return ~gone
    whole = gone[..., None] if gone.ndim == len(field.shape) else gone
    return ~np.moveaxis(whole, -1, field.channel_axis)


def _means(field: Field) -> Array:
    """Means over the samples' cells, laid out as the array that was fitted."""
    edges = [np.arange(a.size + 1, dtype=float) - 0.5 for a in field.domain.axes]
    found = np.asarray(to_numpy(averaged(field, over(field, edges), False)[0]))
    k = field.channel_axis
    return found[..., 0] if k is None else np.moveaxis(found, -1, k)


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
        self._places = [*self._places, y][-MEMORY - 1 :]
        self._lacks = [*self._lacks, lacks][-MEMORY - 1 :]
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
