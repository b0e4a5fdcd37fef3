"""A field on grids: resized, at given coordinates, averaged over boxes, with names and units.

Asks the rooms beside it to place, evaluate and label; builds on the field at points.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from elmfield._array.backend import move, namespace
from elmfield._array.checks import is_mapping, whole
from elmfield._array.typing import Array, Floats
from elmfield.field.delayed import Waiting, to_dask
from elmfield.field.gridded import gridded
from elmfield.field.labelled import interpolated, plotted
from elmfield.field.labels import dataarray
from elmfield.field.means import boxes_around, means_over
from elmfield.field.missing import shows_gaps
from elmfield.field.placing import marked, positions
from elmfield.field.pointwise import Pointwise
from elmfield.field.reading import all_samples, own_samples
from elmfield.field.showing import opened
from elmfield.field.stretches import Places, between


@dataclass(frozen=True, eq=False, kw_only=True)
class OnGrids(Pointwise):
    """A field on grids; parameters as for :class:`Pointwise`."""

    def resize(
        self,
        shape: int | Sequence[int] | None = None,
        *,
        scale: float | Sequence[float] | None = None,
        window: Mapping[str, tuple[Any, Any]] | None = None,
        align: str = "areas",
        quantity: str = "value",
        dtype: Any = None,
        antialias: bool = True,
        missing: str | None = None,
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
        antialias : bool
            Whether fewer samples than before are means over what each stands for, which nothing is
            lost from; else, and for derivatives always, values at points.
        missing : {"nan", "fill"}, optional
            As for points; a mean is NaN where more than half of it was missing.

        Examples
        --------
        >>> import numpy as np, elmfield as ef
        >>> field = ef.fit(np.eye(20), dims=("y", "x"))
        >>> field.resize((40, 50)).shape, field.resize(scale=4, window={"y": (0, 5)}).shape
        ((40, 50), (20, 80))
        """
        x = self._places(shape, scale, window, align)
        boxes = self._boxes(x, window) if antialias else ()
        gaps = shows_gaps(self, missing)
        return gridded(self, self._reader.in_turn(x), dtype, quantity, gaps=gaps, boxes=boxes)

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
        return [c[:] for c in self._places(shape, scale, window, align)]

    def _places(self, shape: Any, scale: Any, window: Any, align: str) -> list[Places]:
        if shape is not None and scale is not None:
            raise ValueError(f"say `shape` or `scale`, not both; got {shape!r} and {scale!r}.")
        return positions(
            self.domain,
            shape=shape,
            scale=scale,
            window=self._reader.window({} if window is None else window),
            align=align,
        )

    def in_turn(self, x: Sequence[Floats]) -> list[Floats]:
        """Places of a grid in the turn of periodic axes that is the domain's own."""
        return [c[:] for c in self._reader.in_turn(x)]

    def coordinates(self, name: str, given: Any) -> Floats:
        """Coordinates on an axis as a caller gives them, dates too, as the numbers it counts in."""
        return self._reader.numbers(self.domain.dims.index(name), given)

    def edges_to_index(self, k: int, edges: Array) -> Floats:
        """Edges on axis k, in its unit, as index coordinates."""
        return self._reader.edges(k, edges)

    def boxes(
        self, x: Sequence[Floats], window: Mapping[str, tuple[Any, Any]] | None = None
    ) -> list[Floats | None]:
        """Edges around the places of a grid, in index coordinates; None where they are close."""
        return [None if e is None else e[:] for e in self._boxes(x, window)]

    def _boxes(
        self, x: Sequence[Places], window: Mapping[str, tuple[Any, Any]] | None
    ) -> list[Places | None]:
        seen = self._reader.window({} if window is None else window)
        d = self.domain
        found = []
        for a, c, ends in zip(d.axes, x, zip(d.low, d.high)):
            low, high = seen.get(a.name, ends) if len(c) == 1 else ends
            found.append(between(c, partial(boxes_around, a, low=low, high=high)))
        return found

    def coarse(self, k: int) -> Array:
        """A quick look: about the means of blocks of 2^k samples on each axis.

        Of samples that were coded with loss only the first part of the bytes is decoded. For exact
        values of the function use `resize`.

        Parameters
        ----------
        k : int
            How often to halve; 0 for the samples.

        Returns
        -------
        array, shape (ceil(n / 2^k), ...)
            With channels where the input had them.
        """
        k = whole("k", k, 0)
        boxes, own = self.blended.made_of, tuple(map(len, own_samples(self.domain)))
        if k == 0:
            return self.samples()
        if boxes is None or own != self.shape or self.blended.needed[1] != self.shape:
            return self.resize([max(1, -(-n >> k)) for n in own])
        means = move(boxes.coarse(min(k, 62)), self.offset)
        flat = self.finish(namespace(means).reshape(means, (-1, means.shape[-1])), True)
        out = namespace(flat).reshape(flat, (*means.shape[:-1], -1))
        return self.channels_back(out)

    def to_dask(
        self,
        shape: int | Sequence[int] | None = None,
        *,
        scale: float | Sequence[float] | None = None,
        window: Mapping[str, tuple[Any, Any]] | None = None,
        align: str = "areas",
        quantity: str = "value",
        dtype: Any = None,
        missing: str | None = None,
        chunks: Any = None,
    ) -> Any:
        """The field on a grid as a Dask array, evaluated block by block when it is computed.

        Parameters are those of :meth:`resize`, which does not average here; without any of them on
        the samples' own grid. And
        `chunks`, as for `dask.array.from_array`, by default such that they match the tiles in
        which a file keeps the samples.
        """
        x = self.places(shape, scale=scale, window=window, align=align)
        if shape is None and scale is None and window is None:
            x = [own.astype(np.float64) for own in own_samples(self.domain)]
        x = self.in_turn(x)
        beyond = [np.zeros(len(c), bool) for c in x]
        waiting = Waiting(
            of=self,
            x=x,
            beyond=beyond,
            quantity=quantity,
            kind=dtype,
            gaps=shows_gaps(self, missing),
        )
        return to_dask(waiting, chunks)

    def samples(self, *, dtype: Any = None, missing: str | None = None) -> Array:
        """The field at its own samples: an array like the one fitted, or what a crop has of it.

        `missing` as for points; whole numbers are what their file had for a missing one. Of whole
        numbers that were coded with loss, whole numbers.

        Examples
        --------
        >>> import numpy as np, elmfield as ef
        >>> ef.fit(np.eye(20, dtype="uint8")).samples(dtype="uint8").sum()
        np.uint64(20)
        """
        gaps = shows_gaps(self, missing)
        found = gridded(self, all_samples(self.domain), dtype, gaps=gaps)
        if dtype is None and self.blended.gives_whole_numbers:
            return namespace(found).round(found)
        return found

    def grid(
        self,
        *coords: Array | Mapping[str, Array],
        quantity: str = "value",
        dtype: Any = None,
        outside: str = "raise",
        missing: str | None = None,
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
        missing : {"nan", "fill"}, optional
            As for points.

        Returns
        -------
        array, shape (len(coords[0]), ..., len(coords[d-1]))
            With channels where the input had them.

        Examples
        --------
        >>> import numpy as np, elmfield as ef
        >>> field = ef.fit(np.eye(20), dims=("y", "x"))
        >>> field.grid([0.5, 1.0, 1.5], [3.25, 4.0]).shape, field.grid({"y": [0.5]}).shape
        ((3, 2), (1, 20))
        """
        d = len(self.shape)
        given = self._reader.by_axis(coords)
        if len(given) != d:
            raise ValueError(
                f"`grid` takes one array of coordinates per axis, {d}; got {len(given)}."
            )
        columns = [self._reader.column(k, c, outside) for k, c in enumerate(given)]
        x, beyond = map(list, zip(*columns))
        values = gridded(self, x, dtype, quantity, gaps=shows_gaps(self, missing))
        return marked(values, beyond, self.channel_axis)

    def means(
        self,
        *edges: Array | Mapping[str, Array] | None,
        covered: bool = False,
        missing: str | None = None,
    ) -> Any:
        """Means over the boxes between edges: the integral over each, divided by its volume.

        Parameters
        ----------
        *edges : arrays, or one mapping
            Edges on each axis, ascending, in the axes' own units (dates on axes of dates); n + 1
            edges make n boxes. Axes given as None, or left out of a mapping by dim, keep their
            samples. On a periodic axis edges may lie in any turn and span one period.
        covered : bool
            Return the means and, beside them, which part of each box was not missing.
        missing : {"nan", "fill"}, optional
            With "nan", what lies nearest to a missing sample does not count, and a box that is all
            missing has no mean; with "fill", what was filled in counts too. Default as for points.

        Returns
        -------
        array, shape (n_1, ..., n_d), with channels where the input had them; or two of them

        Notes
        -----
        Exact to rounding for fields of products (the default, `oriented`), at about the cost of a
        grid. Others (BEAM, `paper`) are summed at three places or more between two samples on each
        axis. What is smooth between samples is then known to 1e-6; a ReLU network through noise,
        which is not, to 1e-3 of the range, and without overlap to a few hundredths.

        Examples
        --------
        >>> import numpy as np, elmfield as ef
        >>> field = ef.fit(np.add.outer(np.arange(20.0), np.zeros(30)))
        >>> field.means([0, 2, 4], [0, 10]).round(9)
        array([[1.],
               [3.]])
        """
        gaps = shows_gaps(self, missing)
        d = len(self.shape)
        given: list[Any] = list(edges)
        if len(given) == 1 and is_mapping(given[0]):
            self._reader.named({k: np.zeros(1) for k in given[0]})  # names are known
            given = [given[0].get(name) for name in self.domain.dims]
        if len(given) != d:
            raise ValueError(f"`means` takes one array of edges per axis, {d}; got {len(given)}.")
        at = [None if c is None else self._reader.edges(k, c) for k, c in enumerate(given)]
        own = [o.astype(np.float64) for o in own_samples(self.domain)]
        values, part = means_over(self, at, own, gaps)
        xp = namespace(values)
        if part is None:
            part = np.ones(values.shape)
        part = np.broadcast_to(part, values.shape)
        values = xp.astype(values, self.dtype)
        pair = [self.channels_back(v) for v in (values, part)]
        return (pair[0], pair[1]) if covered else pair[0]

    def channels_back(self, values: Array) -> Array:
        """Gridded values with channels last, (..., C), as the input had them."""
        if self.channel_axis is None:
            return values[..., 0]
        return namespace(values).moveaxis(values, -1, self.channel_axis)

    # --- with names and units ------------------------------------------------------------------

    def interp(
        self,
        coords: Mapping[str, Any] | None = None,
        *,
        quantity: str = "value",
        outside: str = "raise",
        missing: str | None = None,
        **coords_by_name: Any,
    ) -> Any:
        """Values where one asks for them, as xarray's `interp` has it: labelled, and by its rules.

        Parameters
        ----------
        coords, **coords_by_name : mapping, or by name
            Where to evaluate: one entry per axis, in its own unit, dates on axes of dates. Numbers
            drop their axis; 1-D arrays span a grid; DataArrays bring their own dims, and those that
            share a dim are points along it; two-dimensional ones are curvilinear grids. Axes that
            are not named keep their samples.
        quantity : {"value", "gradient", "hessian", "laplacian"}
            Derivatives are per unit of the coordinates; those of a gradient lie along a new dim
            "direction", those of a Hessian along "direction" and "direction_2".
        outside : {"raise", "nearest", "nan"}
            What to do with positions outside the domain.
        missing : {"nan", "fill"}, optional
            As for points.

        Returns
        -------
        xarray.DataArray, or Dataset if the field was fitted to one
        """
        both = {**({} if coords is None else dict(coords)), **coords_by_name}
        return interpolated(self, both, quantity, outside, missing)

    def to_xarray(
        self,
        coords: Mapping[str, Any] | None = None,
        *,
        quantity: str = "value",
        outside: str = "raise",
        missing: str | None = None,
        chunks: Any = None,
    ) -> Any:
        """The field as an xarray.DataArray, with the dims, coords and attrs of the input.

        At its own samples, or at `coords`; parameters and rules as for `interp`. With `chunks`, as
        for `dask.array.from_array`, Dask evaluates when somebody looks; ``{}`` for chunks that
        match the file.
        """
        if chunks is None:
            return interpolated(self, dict(coords or {}), quantity, outside, missing)
        at, shown, moved = self._reader.named({} if coords is None else coords)
        columns = [self._reader.column(k, c, outside) for k, c in enumerate(at)]
        x, beyond = map(list, zip(*columns))
        waiting = Waiting(
            of=self, x=x, beyond=beyond, quantity=quantity, gaps=shows_gaps(self, missing)
        )
        values = to_dask(waiting, chunks)
        return dataarray(values, self.domain.dims, shown, self.channel_axis, self.attributes, moved)

    def plot(
        self,
        coords: Mapping[str, Any] | None = None,
        *,
        quantity: str = "value",
        ax: Any = None,
        **options: Any,
    ) -> Any:
        """A quick look: what `interp` gives at `coords`, drawn as xarray draws it.

        A line for one axis, colours for two (axes, units and a colour bar as the labels say);
        latitudes and longitudes on a map with coastlines where cartopy is installed. Choose slices
        of other axes by numbers in `coords`. `options` are those of ``DataArray.plot``.
        """
        return plotted(interpolated(self, dict(coords or {}), quantity, "raise", None), ax, options)

    def view(
        self,
        *,
        samples: Array | None = None,
        title: str | None = None,
        port: int = 0,
        host: str = "127.0.0.1",
        browser: bool | None = None,
    ) -> Any:
        """A page in the browser that shows the field; parameters as for :func:`elmfield.view`.

        Returns
        -------
        Served
            Has a ``url``; in a notebook it shows itself below the cell; ``close()`` ends it.
        """
        return opened(self, samples=samples, title=title, port=port, host=host, browser=browser)
