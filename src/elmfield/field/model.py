"""Model: all that a field is made of. Internal: users hold a :class:`elmfield.Field` around it.

A model either keeps coefficients, or the samples from which coefficients are computed when they
are needed; its `blended` function knows which.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property

import numpy as np

from elmfield._array import backend
from elmfield._array.autograd import Order, differentiable
from elmfield._array.checks import numbers
from elmfield._array.typing import Array, Coordinate, DType
from elmfield.domain import Domain
from elmfield.field.blend.blended import Blended
from elmfield.field.coefficients.stored import Full
from elmfield.field.coordinates import output_positions
from elmfield.field.coordinates.labels import ChannelLabels, Labels, date_errors, unpremultiply
from elmfield.field.coordinates.parse import Coordinates
from elmfield.field.tables.direct_sums import DIRECT_MAX_POINTS, Direct, direct_sums
from elmfield.field.uncertainty.error_parts import ObservedPosterior
from elmfield.field.uncertainty.posterior import Evidence, Posterior, posterior_of
from elmfield.partition import Partition
from elmfield.settings import Settings


@dataclass(frozen=True, eq=False, kw_only=True)
class Model:
    """``f(x) = offset + scale Σ_i φ_i(x) f_i(x)`` with one local model f_i per region.

    Parameters
    ----------
    domain : Domain
        The box, its axes and their units.
    blended : Blended
        Local models and their windows, in index coordinates.
    offset, scale : arrays, shape (C,)
        Taken off the samples before fitting, put back on the way out; their dtype is the field's.
    channel_axis : int or None
        Where gridded results have their channels.
    is_complex : bool
        The second half of the channels holds the imaginary parts.
    input_dtype : str
        What the samples were.
    data_range : float
        Peak to peak of the samples, all channels together.
    residual : array, shape (N,), or None
        Sum of squares that the fit left over in each region's box, all channels.
    gaps : array of bool, (..., 1) or (..., C), or None
        What `missing` is, unless the samples that the field keeps know it.
    settings : Settings or None
        What the field was made with.
    evidence : Evidence or None
        Noise, and its part in the samples, where the fit took some out.
    labels : Labels
        What the input said about itself: names, units, reference system, what is missing.
    observed : ObservedPosterior or None
        How sure a function is that was fitted to observations.
    """

    domain: Domain
    blended: Blended
    offset: Array = field(repr=False)
    scale: Array = field(repr=False)
    channel_axis: int | None = None
    is_complex: bool = False
    input_dtype: str = "float64"
    data_range: float = 1.0
    residual: Array | None = field(default=None, repr=False)
    gaps: Array | None = field(default=None, repr=False)
    settings: Settings | None = None
    evidence: Evidence | None = None
    labels: Labels = field(default_factory=Labels, repr=False)
    observed: ObservedPosterior | None = field(default=None, repr=False)

    def __getstate__(self) -> dict[str, object]:
        """The parameters: what was only computed to be fast is not sent to other processes."""
        return {f.name: getattr(self, f.name) for f in fields(self)}

    # --- sizes and kinds -----------------------------------------------------------------------

    @property
    def shape(self) -> tuple[int, ...]:
        """Samples on each axis of the array the field came from."""
        return self.domain.shape

    @property
    def partition(self) -> Partition:
        """Cells, regions and overlap."""
        return self.blended.partition

    @property
    def n_channels(self) -> int:
        """Number of channels C; a complex one counts once, classes are one."""
        if self.labels.classes:
            return 1
        return int(self.offset.shape[0]) // (2 if self.is_complex else 1)

    @property
    def n_coefficients(self) -> int:
        """Numbers stored, all regions and channels together."""
        return self.blended.n_stored

    @property
    def index_cost(self) -> float:
        """What it takes to say which modes were kept, in coefficients of 32 bits."""
        return sum(g.coefficients.index_bits for g in self.blended.groups) / 32

    @property
    def n_bytes(self) -> int:
        """Bytes of all that is kept: coded samples, samples as they are, or coefficients."""
        boxes = self.blended.source_samples
        if boxes is not None:
            return boxes.n_bytes
        return math.ceil(
            self.n_coefficients * backend.itemsize(self.blended.like) + 4 * self.index_cost
        )

    @property
    def dtype(self) -> DType:
        """Dtype of the values; complex where the samples were."""
        return self.joined(self.offset[:0]).dtype

    @property
    def coefficient_dtype(self) -> DType:
        """Dtype of the stored numbers: real, also where values are complex."""
        return self.blended.dtype

    @cached_property
    def missing(self) -> Array | None:
        """Which samples were missing, None if none was: booleans of the samples' shape.

        On the host; (..., C) where channels differ.
        """
        gone = output_positions.all_gaps(self)
        return gone[..., 0] if gone is not None and gone.shape[-1] == 1 else gone

    @cached_property
    def coordinates(self) -> Coordinates:
        """Reads positions as callers give them: points, grids, boxes, windows."""
        return Coordinates(self.domain, self.labels)

    @cached_property
    def posterior(self) -> Posterior:
        """How sure the function is, from its samples: computed when first asked for."""
        return posterior_of(self)

    @property
    def coding_error(self) -> float:
        """Root mean square of what coding lost, in the caller's units."""
        boxes, target = self.blended.source_samples, getattr(self.settings, "target", None)
        if self.evidence is not None and self.evidence.coding is not None:
            return self.evidence.coding
        if target is None and (boxes is None or not boxes.is_lossy):
            return 0.0
        if self.residual is not None:
            return self.mean_error(self.residual)
        if target is not None and target.kind == "psnr":
            return float(self.data_range * 10 ** (-target.value / 20))
        return float(target.value) / math.sqrt(3) if target and target.kind == "max_error" else 0.0

    def mean_error(self, energy: Array) -> float:
        """Root of the mean square of errors from their energy in the boxes of all regions, (N,)."""
        count = float(np.prod(self.partition.boxes[1], axis=1, dtype=float).sum())
        return math.sqrt(float(np.sum(energy)) / self.n_channels / count)

    # --- the function --------------------------------------------------------------------------

    @cached_property
    def direct(self) -> Direct | None:
        """Direct sums for a few points; None where the function has none."""
        return direct_sums(self) if self.blended.axes is not None else None

    def partials(self, x: Array, orders: list[Order]) -> list[Array]:
        """Mixed derivatives (n, C) at index coordinates x (n, d), in index units.

        Torch differentiates values by derivatives that are known, unless it follows the
        coefficients: that takes a fifth of the time of going back step by step.
        """
        like, plain = self.blended.like, self.blended.partials
        if backend.is_numpy(x):
            return self._known(x, orders)
        if backend.requires_grad(like) or not (backend.is_numpy(like) or backend.is_torch(like)):
            return plain(x, orders)
        return differentiable(self._known, plain, x, orders)

    def _known(self, x: Array, orders: list[Order]) -> list[Array]:
        """The same by direct sums, where there are any and they are faster."""
        n, direct = len(x), self.direct  # no points need no region's coefficients
        if direct is None or not (0 < n <= DIRECT_MAX_POINTS or direct.is_dense(n)):
            return self.blended.partials(x, orders)
        found = direct.partials(np.asarray(backend.to_numpy(x)), orders)
        return found if backend.is_numpy(x) else [backend.move(v, x) for v in found]

    def hidden(self, index: Array, missing: str | None) -> Array | None:
        """Which points, index coordinates (n, d), lie nearest to a gap that is to be seen.

        (n, 1) or (n, C); None where none is to be seen.
        """
        if not output_positions.shows_gaps(self, missing):
            return None
        at = np.asarray(backend.to_numpy(index))
        near = [output_positions.nearest(a, at[:, k]) for k, a in enumerate(self.domain.axes)]
        return backend.move(output_positions.gone_at(self, near, on_grid=False), index)

    def finish(self, values: Array, constant: bool, *, is_rounded: bool = True) -> Array:
        """Undo scale and offset; values (n, C, ...); pair up real and imaginary parts.

        Rounded to the field's own dtype, unless float64 is to stay.
        """
        xp = backend.namespace(values)
        tail = (1,) * (values.ndim - 2)
        if values.dtype != xp.float64:  # offset and scale may be more precise than coefficients
            values = backend.cast(values, self.offset)
        values = values * backend.cast(xp.reshape(self.scale, (-1, *tail)), values)
        if constant:
            values += backend.cast(xp.reshape(self.offset, (-1, *tail)), values)
            values = output_positions.winners(
                self.labels.classes, unpremultiply(self.labels.alpha, values)
            )
        elif self.labels.classes:
            raise ValueError(
                "classes have no derivatives and no deviations; `means` and `integral` tell which "
                "share each class has."
            )
        # A table's polynomials may be more precise than the field.
        values = backend.cast(values, self.offset) if is_rounded else values
        return self.joined(values, axis=1)

    def joined(self, values: Array, axis: int = 0) -> Array:
        """Real and imaginary parts, which follow each other along an axis, as complex numbers."""
        if not self.is_complex:
            return values
        C, before = values.shape[axis] // 2, (slice(None),) * axis
        halves = slice(None, C), slice(C, None)
        return backend.as_complex(*(values[(*before, half, ...)] for half in halves))

    def channels_back(self, values: Array, n_components: int = 0) -> Array:
        """Gridded values (..., C), or with axes of components after that, as the input had them."""
        k = values.ndim - 1 - n_components
        if self.channel_axis is None:
            return values[(slice(None),) * k + (0, ...)]
        return backend.namespace(values).moveaxis(values, k, self.channel_axis)

    # --- models like it ------------------------------------------------------------------------

    @property
    def premultiplied(self) -> "Model":
        """Of a picture with transparency: as it was fitted, colours times alpha."""
        return replace(self, labels=replace(self.labels, alpha=None))

    @property
    def shares(self) -> "Model":
        """Of classes: the functions that are compared, as channels on the last axis."""
        if not self.labels.classes:
            return self
        labels = replace(self.labels, classes=(), dtype=None)
        return replace(self, labels=labels, channel_axis=len(self.shape))

    def coefficients(self, new: Array | None = None) -> "Array | Model":
        """Those of all regions, or the model that has new ones: see :meth:`Field.weights`."""
        if len(self.blended.groups) > 1:
            raise ValueError(
                f"regions have {len(self.blended.groups)} kinds of boxes, and no array holds all "
                "coefficients. Ask for the weights of one region, or use cells that divide the "
                "shape."
            )
        group, like = self.blended.groups[0], self.blended.like
        own = group.coefficients.take(np.arange(self.partition.n_regions))
        scale = backend.cast(self.scale, own)
        if new is None:
            return own * scale
        values = backend.move(
            new if backend.is_torch(new) else numbers("new", new), like, like.dtype
        )
        if tuple(values.shape) != tuple(own.shape):
            raise ValueError(f"`new` must have shape {tuple(own.shape)}; got {values.shape}.")
        group = replace(group, coefficients=Full(values / scale))
        blended = replace(self.blended, groups=(group,))
        gaps = output_positions.all_gaps(self)
        return replace(self, blended=blended, residual=None, gaps=gaps, evidence=None)

    def crop(self, low: Sequence[Coordinate], high: Sequence[Coordinate]) -> "Model":
        """The same on a smaller box, see :meth:`Field.crop`."""
        corners = self.coordinates.corners(low, high)
        with date_errors(self.labels.axes):
            domain = self.domain.crop(*corners)
        blended = self.blended.crop(domain.low, domain.high)
        return replace(self, domain=domain, blended=blended, residual=None, observed=None)

    def channels(
        self, own: slice, *, channel_axis: int | None, data_range: float | None = None
    ) -> "Model":
        """The model of some of its channels, which may be the only one there is."""
        return replace(
            self,
            blended=self.blended.channels(own),
            offset=self.offset[own],
            scale=self.scale[own],
            channel_axis=channel_axis,
            data_range=self.data_range if data_range is None else data_range,
            residual=None,
            observed=None,
            gaps=output_positions.of_channels(self.gaps, own),
            evidence=None if self.evidence is None else self.evidence.channels(own),
            labels=replace(self.labels, alpha=None),
        )

    def __getitem__(self, key: str | int | slice) -> "Model":
        """The model of one variable of a Dataset, by name; or of some channels, by number."""
        if not isinstance(key, str):
            if self.channel_axis is None or self.is_complex:
                raise IndexError("only fields of several real channels are indexed by number.")
            own = range(self.n_channels)[key]
            if isinstance(own, int):
                return self.channels(slice(own, own + 1), channel_axis=None)
            some = slice(own.start, own.stop, own.step)
            return self.channels(some, channel_axis=self.channel_axis)
        variables = self.labels.variables
        if key not in variables:
            told = f"its variables are {list(variables)}" if variables else "it has no variables"
            raise KeyError(f"{key!r}: this field was not fitted to such a variable; {told}.")
        k, about = list(variables).index(key), variables[key]
        one = self.channels(slice(k, k + 1), channel_axis=None, data_range=about.range)
        labels = replace(
            one.labels, name=key, attrs=about.attrs, variables={}, channels=ChannelLabels()
        )
        return replace(one, labels=labels)

    @backend.outside_torch_modes()
    def moved(self, where: object) -> "Model":
        """The same with all that depends on samples at `where`: a device, "numpy", an array."""
        like = backend.move_to(self.offset, where)
        groups = tuple(g.moved(like) for g in self.blended.groups)
        return replace(
            self,
            blended=replace(self.blended, groups=groups),
            offset=backend.move(self.offset, like),
            scale=backend.move(self.scale, like),
        )
