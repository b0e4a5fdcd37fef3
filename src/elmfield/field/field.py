"""Field: a function of physical coordinates; callable, differentiable, integrable.

``f(x) = offset + scale Σ_i φ_i(x) f_i(x)`` with one local model f_i per region. Asks the rooms
beside it to read coordinates, measure and describe; puts units and channels back. How coefficients
were found, and what a file is, it does not know.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from elmfield._array.backend import cast, namespace, to_numpy
from elmfield._array.memory import capacity, runs, with_less_memory
from elmfield._array.typing import Array, Floats
from elmfield.domain import Domain
from elmfield.field import derivatives
from elmfield.field.blended import Blended
from elmfield.field.gridded import gridded
from elmfield.field.integrals import integral
from elmfield.field.labels import dataarray
from elmfield.field.measured import errors_by_cell, own_values
from elmfield.field.placing import marked, positions
from elmfield.field.quality import Target, meet
from elmfield.field.reading import Reader, own_samples
from elmfield.field.report import Report, describe
from elmfield.partition import Partition


@dataclass(frozen=True, eq=False, kw_only=True)
class Field:
    """A continuous function of d coordinates with C channels.

    Made by :func:`elmfield.fit` and :func:`elmfield.fit_points`; call it with points.

    Parameters
    ----------
    domain : Domain
        The box, its axes and their units.
    blended : Blended
        Local models and their windows, in index coordinates.
    offset, scale : arrays, shape (C,)
        Taken off the samples before fitting, put back on the way out.
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
    settings : object
        What the field was made with.
    attributes : mapping
        What the input said about itself (names, units, reference system), for the rooms that talk
        to files; plain numbers, texts, lists and mappings of them.
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
    settings: object = None
    attributes: Mapping[str, Any] = field(default_factory=dict, repr=False)

    # --- what a person wants to know -----------------------------------------------------------

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
        """Number of channels C; a complex one counts once."""
        return int(self.offset.shape[0]) // (2 if self.is_complex else 1)

    @property
    def n_coefficients(self) -> int:
        """Numbers stored, all regions and channels together."""
        return sum(g.coefficients.n_stored for g in self.blended.groups)

    @property
    def dtype(self) -> Any:
        """Dtype of the values; complex where the samples were."""
        return self.joined(self.offset[:0]).dtype

    @property
    def coefficient_dtype(self) -> Any:
        """Dtype of the stored numbers: real, also where values are complex."""
        return self.blended.dtype

    def __repr__(self) -> str:
        sizes = "×".join(map(str, self.shape))
        return (
            f"Field({sizes}, {self.n_channels} channel{'s' * (self.n_channels != 1)}, "
            f"{self.partition.n_regions} regions, {self.n_coefficients} coefficients)"
        )

    @property
    def index_cost(self) -> float:
        """What it takes to say which modes were kept, in coefficients of 32 bits."""
        return sum(g.coefficients.index_bits for g in self.blended.groups) / 32

    def error_map(self, samples: Array | None = None) -> Floats:
        """Root mean square error at the samples of each cell's region, one number per cell.

        Measured against `samples`, what was fitted; NaN is left out, a region without any gets NaN.
        Without `samples` these are the errors of the local models, before they are blended, at the
        samples each was fitted to: those around its region too, and those that were filled in.
        """
        return errors_by_cell(self, samples)

    def report(self, samples: Array | None = None, *, heldout: float | None = None) -> Report:
        """Sizes, ranks and errors: numbers, as a table that prints itself.

        Errors are measured against `samples`, what was fitted; NaN is left out. For a crop, all of
        it or what the crop has of it. `heldout` is a score from `elmfield.heldout_score` to put
        beside them.
        """
        return describe(self, samples, heldout)

    def _repr_html_(self) -> str:
        return self.report()._repr_html_()

    # --- fewer coefficients --------------------------------------------------------------------

    def keep(
        self,
        *,
        psnr: float | None = None,
        max_error: float | None = None,
        coefficients: int | None = None,
        per_region: int | None = None,
    ) -> "Field":
        """The same function with fewer coefficients, without fitting again.

        Errors are measured against this field's own values at the samples; of a crop, at those
        inside it.

        Parameters
        ----------
        psnr : float
            As few as this PSNR needs, in dB of the samples' range (of a crop, of those inside it);
            or
        max_error : float
            as few as a largest absolute error needs; or
        coefficients : int
            this many in all, the index included, where they buy most; or
        per_region : int
            this many in every region and channel, the strongest.
        """
        target = Target.one_of(
            psnr=psnr, max_error=max_error, coefficients=coefficients, per_region=per_region
        )
        if target is None:
            raise ValueError(
                "say what is wanted: exactly one of psnr, max_error, coefficients, per_region."
            )
        samples = own_values(self, measured=target.kind in ("psnr", "max_error"))
        kept, dropped = meet(self.blended.with_boxes, samples, target)
        left = None if self.residual is None else self.residual + dropped
        return replace(self, blended=replace(self.blended, groups=kept.groups), residual=left)

    def channels(
        self, own: slice, *, channel_axis: int | None, data_range: float | None = None
    ) -> "Field":
        """The field of some of its channels, which may be the only one there is."""
        return replace(
            self,
            blended=self.blended.channels(own),
            offset=self.offset[own],
            scale=self.scale[own],
            channel_axis=channel_axis,
            data_range=self.data_range if data_range is None else data_range,
            residual=None,
        )

    def weights(self, region: int) -> Array:
        """Output weights α of one region's hidden neurons, shape (m,) or (m, C).

        The local model is ``offset + Σ_j α_j h_j(t)``, in local coordinates t.
        """
        N = self.partition.n_regions
        if int(region) != region or not 0 <= region < N:
            raise ValueError(f"`region` must lie between 0 and {N - 1}; got {region}.")
        alpha = self.blended.weights(int(region))
        alpha = self.finish(alpha, constant=False)
        return alpha[..., 0] if self.channel_axis is None else alpha

    # --- values at points ----------------------------------------------------------------------

    def __call__(self, points: Array, *, outside: str = "raise") -> Array:
        """Values at `points`.

        Parameters
        ----------
        points : array, shape (..., d)
            Coordinates: sample indices for a plain array, else in the axes' own units. On axes of
            dates datetime64 or ISO text, or seconds since the first sample.
        outside : {"raise", "nearest", "nan"}
            What to do with points outside the domain.

        Returns
        -------
        array, shape (...,) or (..., C)
        """
        zero = (0,) * len(self.shape)
        return self._query(points, outside, lambda x, *_: self.blended.partials(x, [zero])[0], True)

    def gradient(self, points: Array, *, outside: str = "raise") -> Array:
        """First derivatives along the axes, shape (..., d) or (..., C, d), per coordinate unit."""
        return self._query(points, outside, partial(derivatives.gradient, self.blended))

    def hessian(self, points: Array, *, outside: str = "raise") -> Array:
        """Second derivatives, shape (..., d, d) or (..., C, d, d), per coordinate unit squared."""
        return self._query(points, outside, partial(derivatives.hessian, self.blended))

    def laplacian(self, points: Array, *, outside: str = "raise") -> Array:
        """Sum of the unmixed second derivatives, shape (...,) or (..., C)."""
        return self._query(points, outside, partial(derivatives.laplacian, self.blended))

    @with_less_memory
    def _query(self, points: Array, outside: str, take: Any, constant: bool = False) -> Array:
        """Check the points, evaluate them in batches, give back the shape the caller expects."""
        if outside not in ("raise", "nearest", "nan"):
            raise ValueError(f"`outside` must be 'raise', 'nearest' or 'nan'; got {outside!r}.")
        x = self._reader.points(points, self.offset)
        xp, d = namespace(x), len(self.shape)
        lead = tuple(x.shape[:-1])
        x = xp.reshape(x, (-1, d))
        index, slope, bend, beyond = self._reader.to_index(x, outside, not constant)
        step = max(1, capacity(self.offset) // (6 * d + 4 * int(self.offset.shape[0])))
        parts = [
            self.finish(take(*(a[i:j, :] for a in (index, slope, bend))), constant)
            for i, j in runs(x.shape[0], step)
        ]
        out = parts[0] if len(parts) == 1 else xp.concat(parts, axis=0)
        if beyond is not None:
            mark = xp.reshape(beyond, (-1,) + (1,) * (out.ndim - 1))
            out = xp.where(mark, xp.full_like(out, xp.nan), out)
        out = xp.reshape(out, lead + tuple(out.shape[1:]))
        return out[(slice(None),) * len(lead) + (0, ...)] if self.channel_axis is None else out

    @property
    def _reader(self) -> Reader:
        return Reader(self.domain, self.attributes.get("axes", {}))

    def finish(self, values: Array, constant: bool) -> Array:
        """Undo scale and offset; values (n, C, ...); pair up real and imaginary parts."""
        xp = namespace(values)
        tail = (1,) * (values.ndim - 2)
        values = values * cast(xp.reshape(self.scale, (-1, *tail)), values)
        if constant:
            values = values + cast(xp.reshape(self.offset, (-1, *tail)), values)
        return self.joined(values, axis=1)

    def joined(self, values: Array, axis: int = 0) -> Array:
        """Real and imaginary parts, which follow each other along an axis, as complex numbers."""
        if not self.is_complex:
            return values
        C, before = values.shape[axis] // 2, (slice(None),) * axis
        return values[(*before, slice(None, C), ...)] + 1j * values[(*before, slice(C, None), ...)]

    # --- values on grids -----------------------------------------------------------------------

    def resize(
        self,
        shape: int | Sequence[int] | None = None,
        *,
        scale: float | Sequence[float] | None = None,
        window: Mapping[str, tuple[Any, Any]] | None = None,
        align: str = "areas",
        quantity: str = "value",
        dtype: Any = None,
    ) -> Array:
        """The field at another number of samples, each standing for an equal part of the domain.

        Sample j of n' sits at ``(j + 1/2) n / n' - 1/2``, as in `skimage.transform.resize`.

        Parameters
        ----------
        shape : int or sequence of int, optional
            New number of samples on each axis (without channels); or
        scale : float or sequence of float
            new samples per old one.
        window : mapping, optional
            The part to show on some axes, ``{dim: (low, high)}``, in the axes' own units; by
            default all. On a periodic axis it may lie anywhere.
        align : {"areas", "nodes"}
            "nodes" keeps old samples among the new ones, as weather services do.
        quantity : {"value", "gradient", "laplacian"}
            What to show; "gradient" is its magnitude. Both per unit of the coordinates.
        dtype : optional
            Of the result; integers are rounded and clipped, booleans are True from 1/2 on. Default:
            the field's own.
        """
        x = self.places(shape, scale=scale, window=window, align=align)
        return gridded(self, self._reader.in_turn(x), dtype, quantity)

    def places(
        self,
        shape: int | Sequence[int] | None = None,
        *,
        scale: float | Sequence[float] | None = None,
        window: Mapping[str, tuple[Any, Any]] | None = None,
        align: str = "areas",
    ) -> list[Floats]:
        """Index coordinates of the grid that `resize` would use, one array per axis.

        On a periodic axis they run on beyond its end, as the window does.
        """
        if shape is not None and scale is not None:
            raise ValueError(f"say `shape` or `scale`, not both; got {shape!r} and {scale!r}.")
        return positions(
            self.domain,
            shape=shape,
            scale=scale,
            window=self._reader.window({} if window is None else window),
            align=align,
        )

    def samples(self, *, dtype: Any = None) -> Array:
        """The field at its own samples: an array like the one fitted, or what a crop has of it."""
        return gridded(self, [own.astype(np.float64) for own in own_samples(self.domain)], dtype)

    def grid(
        self,
        *coords: Array | Mapping[str, Array],
        quantity: str = "value",
        dtype: Any = None,
        outside: str = "raise",
    ) -> Array:
        """Values on the grid spanned by one array of coordinates per axis.

        Parameters
        ----------
        *coords : arrays, or one mapping
            One per axis, in the axes' own units, or by dim: axes left out keep their samples. On
            axes of dates datetime64 or ISO text, or seconds since the first sample.
        quantity : {"value", "gradient", "laplacian"}
            As for `resize`.
        dtype : optional
            As for `resize`. Integers and booleans cannot say NaN.
        outside : {"raise", "nearest", "nan"}
            What to do with positions outside the domain.

        Returns
        -------
        array, shape (len(coords[0]), ..., len(coords[d-1]))
            With channels where the input had them.
        """
        d = len(self.shape)
        given = self._reader.by_axis(coords)
        if len(given) != d:
            raise ValueError(
                f"`grid` takes one array of coordinates per axis, {d}; got {len(given)}."
            )
        columns = [self._reader.column(k, c, outside) for k, c in enumerate(given)]
        x, beyond = map(list, zip(*columns))
        return marked(gridded(self, x, dtype, quantity), beyond, self.channel_axis)

    def to_xarray(
        self,
        coords: Mapping[str, Array] | None = None,
        *,
        quantity: str = "value",
        outside: str = "raise",
    ) -> Any:
        """Values on a grid as an xarray.DataArray, with the dims, coords and attrs of the input.

        Parameters
        ----------
        coords : mapping, optional
            Where to evaluate, by axis name: 1-D arrays (or DataArrays) in the axes' own units,
            dates on axes of dates. Axes that are not named keep their samples' positions.
        quantity : {"value", "gradient", "laplacian"}
            As for `resize`.
        outside : {"raise", "nearest", "nan"}
            What to do with positions outside the domain.
        """
        at, shown, moved = self._reader.named({} if coords is None else coords)
        values = to_numpy(self.grid(*at, outside=outside))
        return dataarray(values, self.domain.dims, shown, self.channel_axis, self.attributes, moved)

    # --- boxes ---------------------------------------------------------------------------------

    def crop(self, low: Sequence[Any], high: Sequence[Any]) -> "Field":
        """The same function on a smaller box, without the regions that do not reach into it.

        Parameters
        ----------
        low, high : sequences of float
            Corners of the box, in the axes' own units; on axes of dates datetime64 or ISO text, or
            seconds since the first sample.

        Notes
        -----
        On a periodic axis the box may lie in any turn, but not across the end of the array. A box
        of a whole period leaves the axis as it is.
        """
        corners = self._reader.corners(low, high)
        with self._reader.telling_epochs():
            domain = self.domain.crop(*corners)
        blended = self.blended.crop(domain.low, domain.high)
        return replace(self, domain=domain, blended=blended, residual=None)

    def integral(self, low: Sequence[Any], high: Sequence[Any]) -> Array:
        """Integral over the box between two corners, a number or shape (C,).

        Parameters
        ----------
        low, high : sequences of float
            Corners as for `crop`. On a periodic axis the box may lie anywhere, across the end of
            the array too, and be as long as one period.

        Notes
        -----
        Gauss-Legendre between the knots of the windows, with enough nodes for the highest frequency
        of the product layer: exact to rounding there. Uneven coordinates add the knots of their
        map, and the nodes lie evenly in the coordinate: a constant is exact to rounding, the rest
        is a quadrature of 24 nodes per sample, about 1e-14 of the field's range. Per second on axes
        of dates. ReLU layers have kinks: about three digits better than the midpoint rule on the
        samples, no more.
        """
        ends = self._reader.corners(low, high)
        with self._reader.telling_epochs():
            span = self.domain.span(*ends)
        lengths = [b - a for a, b in zip(*ends)]
        value = integral(self.blended, self.domain.axes, span, lengths)
        xp = namespace(value)
        value = value * xp.astype(self.scale, xp.float64)
        value = value + math.prod(lengths) * xp.astype(self.offset, xp.float64)
        value = self.joined(xp.astype(value, self.coefficient_dtype))
        return value[0] if self.channel_axis is None else value
