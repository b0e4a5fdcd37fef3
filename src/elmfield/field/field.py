"""Field: a function of physical coordinates; callable, differentiable, integrable.

What it is at points and on grids is written in `pointwise` and `on_grids`; here it is cropped,
integrated, measured, and told in fewer coefficients. How coefficients were found, and what a file
is, it does not know.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from elmfield._array.backend import itemsize, namespace
from elmfield._array.typing import Array, Floats
from elmfield.field.means import averaged, over
from elmfield.field.measured import errors_by_cell, own_values
from elmfield.field.missing import of_channels
from elmfield.field.moving import moved
from elmfield.field.on_grids import OnGrids
from elmfield.field.quality import coded_again, meet
from elmfield.field.reading import own_samples
from elmfield.field.report import Report, describe
from elmfield.field.tables import Table, tabulate
from elmfield.field.target import Target
from elmfield.field.transparent import without
from elmfield.field.warps import warped
from elmfield.field.world import World


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Field(OnGrids):
    """A continuous function of d coordinates with C channels.

    Made by :func:`elmfield.fit` and :func:`elmfield.fit_points`; call it with points.

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
    gaps : array of bool, or None
        What `missing` is, unless the samples that the field is made of know it.
    settings : object
        What the field was made with.
    attributes : mapping
        What the input said about itself (names, units, reference system), for the rooms that talk
        to files; plain numbers, texts, lists and mappings of them.

    Examples
    --------
    >>> import numpy as np, elmfield as ef
    >>> field = ef.fit(np.add.outer(np.arange(20.0), np.arange(30.0)))
    >>> field([2.5, 3.25]).round(9), field.gradient([2.5, 3.25]).round(9)
    (np.float64(5.75), array([1., 1.]))
    """

    # --- what a person wants to know -----------------------------------------------------------

    @property
    def n_bytes(self) -> int:
        """Bytes of all that is kept: coded samples, samples as they are, or coefficients."""
        boxes = self.blended.made_of
        if boxes is not None:
            return boxes.n_bytes
        index = sum(g.coefficients.index_bits for g in self.blended.groups) / 8
        return math.ceil(self.n_coefficients * itemsize(self.blended.like) + index)

    def __repr__(self) -> str:
        sizes, own = (
            "×".join(map(str, s)) for s in (self.shape, map(len, own_samples(self.domain)))
        )
        sizes = sizes if own == sizes else f"{own} of {sizes}"
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

    # --- less to keep --------------------------------------------------------------------------

    def keep(
        self,
        *,
        psnr: float | None = None,
        max_error: float | None = None,
        bits: float | None = None,
        bytes: int | None = None,
        coefficients: int | None = None,
        per_region: int | None = None,
    ) -> "Field":
        """The same function in fewer bytes or coefficients, without fitting again.

        Errors are measured against this field's own values at the samples; of a crop, at those
        inside it. The first four code the samples, where these settle the field; else the first
        two leave modes out, as the last two do.

        Parameters
        ----------
        psnr : float
            As little as this PSNR needs, in dB of the samples' range (of a crop, of those inside
            it); or
        max_error : float
            as little as a largest absolute error needs; or
        bits : float
            as well as this many bits a sample allow; or
        bytes : int
            as well as this many bytes for all samples allow; or
        coefficients : int
            this many in all, the index included, where they buy most; or
        per_region : int
            this many in every region and channel, the strongest.

        Examples
        --------
        >>> import numpy as np, elmfield as ef
        >>> field = ef.fit(np.sin(np.arange(64)[:, None] / 5) * np.cos(np.arange(64) / 7))
        >>> field.keep(psnr=40).n_bytes < field.n_bytes
        True
        """
        target = Target.one_of(
            psnr=psnr,
            max_error=max_error,
            bits=bits,
            bytes=bytes,
            coefficients=coefficients,
            per_region=per_region,
        )
        if target is None:
            raise ValueError(
                "say what is wanted: exactly one of psnr, max_error, bits, bytes, coefficients, "
                "per_region."
            )
        if target.is_coded and self.blended.made_of is not None:
            kept, dropped = coded_again(self, target)
        else:
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
            gaps=of_channels(self.gaps, own, len(self.shape)),
            attributes=without(self.attributes, "alpha"),
        )

    def __getitem__(self, name: str) -> "Field":
        """The field of one variable, if it was fitted to a Dataset."""
        variables = self.attributes.get("variables", {})
        if name not in variables:
            told = f"its variables are {list(variables)}" if variables else "it has no variables"
            raise KeyError(f"{name!r}: this field was not fitted to such a variable; {told}.")
        k, own = list(variables).index(name), variables[name]
        left = {a: v for a, v in self.attributes.items() if a not in ("variables", "channels")}
        one = self.channels(slice(k, k + 1), channel_axis=None, data_range=own.get("range"))
        return replace(one, attributes={**left, "name": name, "attrs": own.get("attrs", {})})

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

    # --- other views ---------------------------------------------------------------------------

    def warp(
        self,
        transform: Any,
        shape: Sequence[int] | None = None,
        *,
        antialias: bool = True,
        outside: str = "nan",
        fill: float | None = None,
        dtype: Any = None,
    ) -> Array:
        """The field through a map: turned, sheared, projected, bent.

        Parameters
        ----------
        transform : array, skimage.transform object, or callable
            Where each sample of the result lies among the samples of the field, in sample numbers,
            axis by axis: a matrix of shape (d, d + 1) or (d + 1, d + 1), affine or projective; or
            displacements, (..., d), one for each sample of the result; or a function of points,
            (n, d) to (n, d). Objects of `skimage.transform` are taken as its `warp` takes them.
        shape : sequence of int, optional
            Samples of the result on each axis; by default as many as the field has.
        antialias : bool
            Whether values are means over what a sample of the result covers, where the map shrinks.
        outside : {"nan", "nearest", "raise"}
            What to do with samples that lie outside the domain.
        fill : float, optional
            What they are instead of NaN.
        dtype : optional
            Of the result, as for `resize`.

        Notes
        -----
        A mean is taken over 1.5 places for every sample that is covered along an axis (at most 64).
        A matrix that only stretches and shifts is averaged exactly, as by `resize`.

        Examples
        --------
        >>> import numpy as np, elmfield as ef
        >>> field = ef.fit(np.add.outer(np.arange(20.0), np.arange(30.0)))
        >>> field.warp([[1, 0, 0.5], [0, 1, 0]], (4, 4))[0].round(9)      # half a sample down
        array([0.5, 1.5, 2.5, 3.5])
        """
        return warped(
            self, transform, shape,
            antialias=antialias, outside=outside, fill=fill, dtype=dtype,
        )  # fmt: skip

    @property
    def world(self) -> World:
        """The field of a scan in millimetres of the room: values, gradients, other grids."""
        return World(self)

    # --- at lookup speed -----------------------------------------------------------------------

    def tabulate(
        self,
        tolerance: float = 1e-6,
        order: int = 1,
        window: Mapping[str, tuple[Any, Any]] | None = None,
    ) -> Table:
        """The field at lookup speed: called like the field, within a certified distance of it.

        Parameters
        ----------
        tolerance : float
            How far values may be from the field's, as a part of its range.
        order : {0, 1, 2}
            Derivatives up to this order keep the tolerance too, in parts of the range per sample.
        window : mapping, optional
            The part to tabulate on some axes, ``{dim: (low, high)}``; by default all.

        Raises
        ------
        MemoryError
            Before the memory is spent, where the table would take more than the limit:
            :func:`elmfield.memory_limit`, or 1 GiB (8 GiB on a GPU) if none is set.

        Examples
        --------
        >>> import numpy as np, elmfield as ef
        >>> field = ef.fit(np.sin(np.arange(40)[:, None] / 5) * np.cos(np.arange(40) / 7))
        >>> table = field.tabulate(1e-6)
        >>> bool(abs(table([10.3, 20.7]) - field([10.3, 20.7])) < 2e-6)
        True
        """
        return tabulate(self if window is None else self._window(window), tolerance, order)

    def module(self) -> Any:
        """The field as a `torch.nn.Module`, its coefficients as a parameter.

        ``field.module()(points)`` are the field's values, points outside moved to the border. It
        has a `state_dict`, compiles in one graph (``torch.compile(..., fullgraph=True)``), and
        works under `torch.func.vmap` and `torch.func.jacrev`. A module takes memory for every
        point that the field itself would not need: give it some ten thousand at a time.
        """
        from elmfield.field.modules import field_module  # torch: only who asks for it has it

        return field_module(self)

    def to(self, where: Any) -> "Field":
        """The same field in another library or on another device.

        Parameters
        ----------
        where : str, device or array
            A device, as "cpu" or "cuda:0", where the field becomes one of torch; or "numpy"; or an
            array of the library and on the device that is wanted.
        """
        return moved(self, where)

    def _window(self, window: Mapping[str, tuple[Any, Any]]) -> "Field":
        """The crop to a window."""
        self._reader.window(window)  # it says what is wrong with names and ends
        ends = [
            window.get(a.name, a.from_index(np.asarray([low, high])))
            for a, low, high in zip(self.domain.axes, self.domain.low, self.domain.high)
        ]
        low, high = ([sorted(e)[i] for e in ends] for i in (0, 1))
        return self.crop(low, high)

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

        Examples
        --------
        >>> import numpy as np, elmfield as ef
        >>> ef.fit(np.eye(64)).crop([10, 10], [20, 20])([12.0, 12.0]).round(9)
        np.float64(1.0)
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

        Examples
        --------
        >>> import numpy as np, elmfield as ef
        >>> field = ef.fit(np.add.outer(np.arange(20.0), np.zeros(30)))
        >>> field.integral([0, 0], [2, 3]).round(9)
        np.float64(6.0)
        """
        ends = self._reader.corners(low, high)
        with self._reader.telling_epochs():
            span = self.domain.span(*ends)
        volume = math.prod(b - a for a, b in zip(*ends))
        edges = [np.asarray(e) for e in zip(*span)]
        mean, _ = averaged(self, over(self, edges, fine=True), False)
        xp = namespace(mean)
        value = xp.astype(volume * xp.reshape(mean, (-1,)), self.dtype)
        return value[0] if self.channel_axis is None else value
