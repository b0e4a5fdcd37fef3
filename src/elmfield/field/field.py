"""Field: a function of physical coordinates; callable, differentiable, integrable.

The class says what users can ask, checks it and hands it on; what a field is made of is a `Model`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from elmfield._array.backend import namespace, outside_torch_modes
from elmfield._array.checks import by_name, choice, is_whole, shown
from elmfield._array.typing import Array, Coordinate, DType, Floats
from elmfield.domain import Domain
from elmfield.field.accuracy import Report, describe, errors_by_cell, thumbnail_html
from elmfield.field.adapters import labelled_arrays
from elmfield.field.adapters.affine import World
from elmfield.field.adapters.warp import warped
from elmfield.field.blend import means as over_boxes
from elmfield.field.coordinates.labels import Labels
from elmfield.field.coordinates.output_positions import mark_outside, shows_gaps
from elmfield.field.coordinates.parse import Spacings, own_samples
from elmfield.field.drop_modes import keep_less
from elmfield.field.grid_values import LazyGrid, at_samples, gridded, to_dask
from elmfield.field.model import Model
from elmfield.field.point_values import AtPoints, Missing
from elmfield.field.tables.table import Table, tabulate
from elmfield.field.uncertainty import posterior
from elmfield.field.uncertainty.draws import draw_around, draw_models
from elmfield.partition import Partition
from elmfield.settings import Settings, Target

Coords = Mapping[str, Any]


@dataclass(frozen=True, eq=False, repr=False)
class Field(AtPoints):
    """A continuous function of d coordinates with C channels; call it with points.

    Where samples say all about it, as with the default settings, a field keeps its samples
    (``model.blended.source_samples``) and makes coefficients from them when asked for: nothing is
    lost, a file of coded samples is the smallest there is, and a loaded field is projected again as
    far as it is looked at. Fields of dense layers, merged regions, scattered points or fewer modes
    keep coefficients.

    Parameters
    ----------
    model : Model
        What it is made of. Internal: other packages use it, and it may change without notice.

    Notes
    -----
    What parameters of several methods mean:

    - `points`, shape (..., d): sample indices for a plain array, else in the axes' own units; on
      axes of dates datetime64 or ISO text, or seconds since the first sample. Of NumPy or of the
      field's own library; values are always of the field's, and on its device.
    - `outside`, "raise", "nearest" or "nan": what to do with positions outside the domain.
    - `missing`, "nan" or "fill": NaN, or what was filled in, where the nearest sample was missing,
      or more than half of what a mean covers. By default NaN where DataArrays and files have gaps.
    - `quantity`, "value", "gradient", "gradient_magnitude", "hessian", "laplacian" or "std" (how
      sure values are): derivatives are per unit of the coordinates. Components of gradients (d)
      and Hessians (d, d) come last.
    - `dtype`: integers are rounded and clipped, and cannot be NaN; booleans are True from 1/2 on.
    - `chunks`, as for `dask.array.from_array`: a lazy array comes back, evaluated block by block
      when it is computed; ``{}`` for chunks that match the tiles in which a file keeps samples.

    Examples
    --------
    >>> import numpy as np, elmfield as ef
    >>> field = ef.fit(np.add.outer(np.arange(20.0), np.arange(30.0)))
    >>> field([2.5, 3.25]).round(9), field.gradient([2.5, 3.25]).round(9)
    (np.float64(5.75), array([1., 1.]))
    >>> field.grid([0.5, 1.0, 1.5], [3.25, 4.0]).shape, field.resize(scale=2).shape
    ((3, 2), (40, 60))
    >>> field.integral([0, 0], [2, 3]).round(9), field.keep(psnr=40).n_bytes < field.n_bytes
    (np.float64(15.0), True)
    >>> field.means([0, 2, 4], [0, 10]).round(9).tolist(), field.samples().shape
    ([[6.0], [8.0]], (20, 30))
    >>> field.warp([[1, 0, 0.5], [0, 1, 0]], (4, 4))[0].round(9)  # half a sample down
    array([0.5, 1.5, 2.5, 3.5])
    >>> table = field.crop([5, 5], [15, 25]).tabulate(1e-6)
    >>> bool(abs(table([10.3, 20.7]) - 31) <= table.error)
    True
    """

    model: Model

    def __repr__(self) -> str:
        m, own = self.model, map(len, own_samples(self.domain))
        sizes, inside = ("×".join(map(str, s)) for s in (m.shape, own))
        sizes = sizes if inside == sizes else f"{inside} of {sizes}"
        return (
            f"Field({sizes}, {m.n_channels} channel{'s' * (m.n_channels != 1)}, "
            f"{m.partition.n_regions} regions, {m.n_coefficients} coefficients)"
        )

    def _repr_html_(self) -> str:
        return thumbnail_html(self) + self.report()._repr_html_()

    @property
    def dtype(self) -> DType:
        """Dtype of the values; complex where the samples were."""
        return self.model.dtype

    @property
    def n_bytes(self) -> int:
        """Bytes of all that is kept: coded samples, samples as they are, or coefficients."""
        return self.model.n_bytes

    @property
    def domain(self) -> Domain:
        """The box, its axes and their units."""
        return self.model.domain

    @property
    def partition(self) -> Partition:
        """Cells, regions and overlap."""
        return self.model.partition

    @property
    def settings(self) -> Settings | None:
        """What the field was made with."""
        return self.model.settings

    @property
    def labels(self) -> Labels:
        """What the input said about itself: names, units, reference system; `attrs` of a caller."""
        return self.model.labels

    def report(self, samples: Array | None = None, *, heldout: float | None = None) -> Report:
        """Sizes, ranks and errors: numbers, as a table that prints itself.

        Errors are measured against `samples`, what was fitted (of a crop, all or what it has); NaN
        is left out. `heldout` is a score of :func:`elmfield.heldout_score` to show with them.
        """
        return describe(self.model, samples, heldout)

    def error_map(self, samples: Array | None = None) -> Floats:
        """Root mean square error at the samples of each cell's region, one number per cell.

        Measured against `samples`, what was fitted; NaN is left out. Without them, the errors of
        the local models before they are blended, at all samples that each was fitted to.
        """
        return errors_by_cell(self.model, samples)

    @outside_torch_modes()
    def weights(self, region: int | None = None, *, new: Array | None = None) -> Array:
        """Output weights α of one region's hidden neurons, shape (m,) or (m, C).

        The local model is ``offset + Σ_j α_j h_j(t)``, in local coordinates t. Without a region,
        the coefficients of all regions' modes, (N, r, C), where their boxes are alike; with `new`
        ones of that shape, the field that has them and this one's offset. Torch follows.
        """
        N, model = self.partition.n_regions, self.model.shares
        if region is None:
            found = self.model.coefficients(new)
            return Field(found) if isinstance(found, Model) else found
        if new is not None or not is_whole(region) or not 0 <= region < N:
            told = f"lie between 0 and {N - 1}" if new is None else "be left out with `new`"
            raise ValueError(f"`region` must {told}; got {shown(region)}.")
        alpha = model.finish(model.blended.weights(int(region)), constant=False)
        return alpha[..., 0] if model.channel_axis is None else alpha

    def std(
        self, points: Array, *, quantity: str = "value", outside: str = "raise",
        missing: Missing = None,
    ) -> Array:  # fmt: skip
        """Standard deviations of values at points, or of the `quantity` "gradient" or "laplacian".

        Zero at samples without noise, growing between them, into gaps and beyond the border.
        Calibrated on samples that are left out (`report` says how well), docs/uncertainty.md.
        """
        return self._query(f"std {quantity}", points, outside, missing)

    def covariance(self, points: Array) -> Array:
        """Covariances of values at points (n, d) near each other, shape (n, n) or (n, n, C)."""
        return posterior.covariance_at_points(self.model, points)

    def draw(self, n: int, points: Array | None = None, *, seed: int = 0) -> Array:
        """`n` functions from the posterior, as Fields, or as values at points, shape (n, ...).

        Their mean is the field and their spread its `std`; the same `seed` gives the same.
        """
        if points is None:  # without gaps, and with three samples for each of this field's
            return [Field(model) for model in draw_models(self.model, n, seed)]
        return draw_around(self.model, self(points, missing="fill"), n, points, seed)

    def tabulate(
        self, tolerance: float = 1e-6, order: int = 1, window: Coords | None = None
    ) -> Table:
        """The field at lookup speed: called like the field, within a certified distance of it.

        Parameters
        ----------
        tolerance : float
            How far values may be from the field's, as a part of its range.
        order : {0, 1, 2}
            Derivatives up to this order keep the tolerance too, in parts of the range per sample.
        window : mapping, optional
            The part to tabulate, as for `resize`. A table that would exceed
            :func:`elmfield.memory_limit` (or 1 GiB, 8 on a GPU) raises MemoryError.
        """
        model, at = self.model, self.model.coordinates
        model = model if window is None else model.crop(*at.ends(window))
        return tabulate(model, tolerance, order)

    def grid(
        self, *coords: Array | Mapping[str, Array], quantity: str = "value", dtype: DType = None,
        antialias: bool = True, outside: str = "raise", missing: Missing = None,
    ) -> Array:  # fmt: skip
        """Values on the grid spanned by one array of coordinates per axis.

        Or by dim in one mapping: axes that are left out keep their samples. Of means, means over
        cells that end midway between ordered coordinates; values with ``antialias=False``.
        """
        x, beyond = self.model.coordinates.columns(coords, outside)
        gaps = shows_gaps(self.model, missing)
        boxes = self.model.coordinates.cells(x) if antialias else ()
        values = gridded(self.model, x, dtype, quantity, gaps=gaps, boxes=boxes)
        return mark_outside(values, beyond, self.model.channel_axis)

    def resize(
        self, shape: int | Sequence[int] | None = None, *,
        scale: float | Sequence[float] | None = None, spacing: Spacings | None = None,
        window: Coords | None = None, align: str = "areas", quantity: str = "value",
        dtype: DType = None, antialias: bool = True, missing: Missing = None, chunks: object = None,
    ) -> Array:  # fmt: skip
        """The field at another number of samples, each standing for an equal part of the domain.

        Sample j of n' sits at ``(j + 1/2) n / n' - 1/2``, as in `skimage.transform.resize`.

        Parameters
        ----------
        shape : int or sequence of int, optional
            New number of samples on each axis (without channels); or
        scale : float or sequence of float
            new samples per old one; or
        spacing : float, sequence of float or mapping by dim
            distances between new samples in the axes' units, as many as fit best, in the middle;
            of scans in space, and axes that a mapping leaves out keep their samples.
        window : mapping, optional
            The part to show on some axes, ``{dim: (low, high)}``, in the axes' own units; by
            default all. On a periodic axis it may lie anywhere.
        align : {"areas", "nodes"}
            "nodes" keeps old samples among the new ones, as weather services do.
        antialias : bool
            Whether fewer samples than before are means over what each stands for, which nothing is
            lost from; else, and for derivatives, values at points. Of means all are means.
        """
        at, gaps = self.model.coordinates, shows_gaps(self.model, missing)
        x = at.positions(shape, scale=scale, spacing=spacing, window=window, align=align)
        boxes = at.boxes(x, window) if choice("antialias", antialias, (True, False)) else ()
        if chunks is not None:
            lazy = LazyGrid(self.model, at.in_turn(x), (), quantity, dtype, gaps, boxes)
            return to_dask(lazy, chunks)
        return gridded(self.model, at.in_turn(x), dtype, quantity, gaps=gaps, boxes=boxes)

    def samples(
        self, *, dtype: DType = None, missing: Missing = None, chunks: object = None
    ) -> Array:
        """The samples: an array like the one fitted, or what a crop has of it.

        Without a target, denoising or the paper's least squares these are what was given, bit for
        bit and in the same dtype, native byte order; bfloat16 as float32. Other fields give their
        values there, floating; whole numbers where these were coded with loss. Whole numbers with
        gaps become float64, or, with a `dtype` of integers, what their file had for a gap.
        """
        gaps = shows_gaps(self.model, missing)
        if chunks is None:
            return at_samples(self.model, own_samples(self.domain), dtype, gaps=gaps)
        return to_dask(LazyGrid(self.model, dtype_asked=dtype, gaps=gaps), chunks)

    def means(
        self, *edges: Array | Mapping[str, Array] | None, mask: Array | None = None,
        covered: bool = False, quantity: str = "value", missing: Missing = None,
    ) -> Array:  # fmt: skip
        """Means over the boxes between edges: the integral over each, divided by its volume.

        `edges` ascend; n + 1 edges make n boxes. Axes given as None, or left out of a mapping by
        dim, keep their samples. On a periodic axis edges may lie in any turn and span one period.
        What lies nearest to a missing sample does not count, unless that is filled; with `covered`,
        which part of each box counted comes too. The `quantity` "std" is how sure means are.
        With a `mask` in place of edges, as for `integral`, one mean over all that it selects.

        Exact to rounding for fields of products (the default, `oriented`). Others (BEAM, `paper`)
        are summed at three places or more between two samples on each axis: to 1e-6 where they are
        smooth, a ReLU network through noise to 1e-3 of the range, a few hundredths without overlap.
        """
        model, std = self.model.shares, choice("quantity", quantity, ("value", "std")) == "std"
        if mask is not None:
            over_boxes.refuse_with_mask(edges=bool(edges), covered=bool(covered))
            over = posterior.std_over_mask if std else over_boxes.sum_over_mask
            total, volume = over(model, mask, missing)
            return total / volume
        if std:
            at = model.coordinates.edges_of(edges)
            return model.channels_back(posterior.std_of_means(model, at))
        values, part = over_boxes.means_between(model, edges, missing)
        pair = namespace(values).astype(values, self.dtype), part
        return pair if choice("covered", covered, (True, False)) else pair[0]

    def integral(
        self, low: Sequence[Coordinate] | None = None, high: Sequence[Coordinate] | None = None,
        quantity: str = "value", *, mask: Array | None = None,
    ) -> Array:  # fmt: skip
        """Integral over the box between two corners, a number or shape (C,); or its "std".

        Or over a `mask`, booleans of the samples' shape: over the cells of those that are True.
        Over outlines: :func:`elmfield.polygon_means`.

        On a periodic axis the box may lie anywhere, across the end of the array too, and be as long
        as one period. Per second on axes of dates. Gauss-Legendre between the knots of windows and
        axes: to rounding for fields of products, on uneven axes to 1e-14 of the range; of ReLU
        layers about three digits better than midpoints.
        """
        std = choice("quantity", quantity, ("value", "std")) == "std"
        if mask is not None:
            over_boxes.refuse_with_mask(low=low is not None, high=high is not None)
            over_mask = posterior.std_over_mask if std else over_boxes.sum_over_mask
            return over_mask(self.model.shares, mask, "fill")[0]
        ends = (() if end is None else end for end in (low, high))
        over = posterior.std_of_integral if std else over_boxes.integral_between
        return over(self.model.shares, *ends)

    def warp(
        self, transform: object, shape: Sequence[int] | None = None, *, antialias: bool = True,
        outside: str = "nan", fill: float | None = None, dtype: DType = None,
        missing: Missing = None,
    ) -> Array:  # fmt: skip
        """The field through a map: turned, sheared, projected, bent.

        Parameters
        ----------
        transform : array, skimage.transform object, or callable
            Where each sample of the result lies among the samples of the field, in sample numbers:
            a matrix of shape (d, d + 1) or (d + 1, d + 1), affine or projective; or displacements,
            (..., d), one for each sample of the result; or a function of points, (n, d) to (n, d),
            arrays of the field's library; or as `skimage.transform.warp` takes it. Torch follows.
        shape : sequence of int, optional
            Samples of the result on each axis; by default as many as the field has.
        antialias : bool
            Whether values are means over what a sample of the result covers, where the map shrinks:
            exact where it only stretches, shifts, flips or swaps axes, else over 1.5 places for
            every sample along an axis (at most 64). Of samples that are means all values are.
        fill : float, optional
            What samples that lie outside the domain are instead of NaN.
        """
        return warped(
            self.model, transform, shape,
            antialias=antialias, outside=outside, fill=fill, dtype=dtype, missing=missing,
        )  # fmt: skip

    def interp(
        self, coords: Coords | None = None, method: str | None = None, assume_sorted: bool = False,
        kwargs: Coords | None = None, *, quantity: str = "value", outside: str = "raise",
        bounds: str = "domain", missing: Missing = None, std: bool = False,
        chunks: object = None, **by_dim: Any,
    ) -> Array:  # fmt: skip
        """The field as an xarray.DataArray, with the dims, coords and attrs of the input.

        At its own samples, or as xarray's `interp` has it at `coords`, by dim and in the axes'
        units: numbers drop their axis; 1-D arrays span a grid; DataArrays that share a dim are
        points along it; two-dimensional ones are curvilinear grids. Other axes keep their samples.
        A DataArray or Dataset as `coords` gives its own, on dims of both (xarray's `interp_like`).
        Components of derivatives lie along dims "direction" and "direction_2". A field of a Dataset
        gives one, and so does `std`. A `method` asks xarray's own `interp` through the samples.
        """
        how = quantity, outside, missing, chunks, bounds, method, kwargs, std
        coords = labelled_arrays.coordinates_like(self.domain.dims, coords)
        coords = {**by_name("coords", coords), **by_dim}
        return labelled_arrays.interpolate(self.model, coords, *how)

    to_xarray = interp

    def plot(
        self, coords: Coords | None = None, *, quantity: str = "value", std: bool = False,
        ax: Any = None, **options: Any,
    ) -> Array:  # fmt: skip
        """A quick look: what `interp` gives at `coords`, as xarray's ``plot(**options)`` draws it.

        A line for one axis, colours for two; with cartopy latitudes and longitudes on a map. Choose
        slices by numbers in `coords`. `std` adds a band of two standard deviations to a line.
        """
        drawn = labelled_arrays.plot_array(self.interp(coords, quantity=quantity), ax, options)
        return labelled_arrays.draw_band(drawn, self.interp(coords, std=True)) if std else drawn

    def __getitem__(self, key: str | int | slice) -> "Field":
        """The field of one variable of a Dataset, by name; or of some channels, by number."""
        return Field(self.model[key])

    def crop(self, low: Sequence[Coordinate], high: Sequence[Coordinate]) -> "Field":
        """The same function on a smaller box, without the regions that do not reach into it.

        `low` and `high` are its corners, in any turn of a periodic axis but not across its end.
        """
        return Field(self.model.crop(low, high))

    @outside_torch_modes()
    def keep(
        self, *, psnr: float | None = None, max_error: float | None = None,
        bits: float | None = None, bytes: int | None = None, coefficients: int | None = None,
        per_region: int | None = None,
    ) -> "Field":  # fmt: skip
        """The same function in fewer bytes or coefficients, without fitting again.

        Errors are measured against this field's own values at the samples; of a crop, at those
        inside it. The first four code the samples, where the field keeps them; else the first two
        leave modes out, as the last two do.

        Parameters
        ----------
        psnr, max_error : float
            As little as this PSNR needs, in dB of the samples' range, or a largest error; or
        bits, bytes : float, int
            as well as so many bits a sample, or bytes for all samples, allow; or
        coefficients, per_region : int
            this many in all, the index included, where they buy most; or in every region.
        """
        target = Target.one_of(
            psnr=psnr, max_error=max_error, bits=bits, bytes=bytes,
            coefficients=coefficients, per_region=per_region,
        )  # fmt: skip
        return Field(keep_less(self.model, target))

    def to(self, where: object) -> "Field":
        """The same field at `where`: "numpy", a device of torch as "cpu", or where an array is."""
        return Field(self.model.moved(where))

    def module(self) -> Any:
        """The field as a `torch.nn.Module`, its coefficients as a parameter.

        Points outside are moved to the border. It has a `state_dict`, compiles in one graph
        (``fullgraph=True``), and works under `torch.func.vmap` and `jacrev`. Torch follows it by
        points and parameter, a copy of the coefficients; samples that require gradients are
        refused. Give it some 1e5 points at a time, 1e4 where compiled or batched.
        """
        from elmfield.field.adapters.torch_module import field_module  # imports torch

        return field_module(self.model.shares)

    @property
    def world(self) -> World:
        """The field of a scan in world coordinates, millimetres: values, gradients, other grids."""
        return World(self)
