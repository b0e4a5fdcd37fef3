"""The xarray backend and accessor: ``xr.open_dataset("sst.elm", engine="elmfield")``, ``da.elm``.

Imports xarray; nothing else in the package imports this module before xarray is there.
"""

import warnings
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from typing import Any

import numpy as np
import xarray as xr
from xarray.backends import BackendArray, BackendEntrypoint
from xarray.core import indexing

from elmfield._array.backend import to_numpy
from elmfield._array.checks import choice, is_path
from elmfield._array.typing import Array, Integers
from elmfield.domain.sphere import is_longitude
from elmfield.field import Field
from elmfield.field.adapters.labelled_arrays import make_dataarray, split_variables
from elmfield.field.coordinates.labels import Attrs
from elmfield.field.coordinates.output_positions import shows_gaps
from elmfield.field.grid_values import LazyGrid, at_samples, exact_samples, matching
from elmfield.io.api import fit, regrid
from elmfield.io.export.output_grid import TargetGrid
from elmfield.io.export.rendering import Rendering, coordinates_at
from elmfield.io.files import is_model
from elmfield.io.inputs import to_dataarray
from elmfield.io.model.load import load
from elmfield.settings import Settings, smooth


class ElmfieldBackend(BackendEntrypoint):
    """Opens a model file as a Dataset, decoded where it is looked at.

    Of one variable, or of those of the Dataset that was fitted.
    """

    description = "Open elmfield model files (.elm, .elm.zarr) at their own grid, lazily"
    open_dataset_parameters = ("filename_or_obj", "drop_variables", "scale", "missing")

    def open_dataset(
        self,
        filename_or_obj: Any,
        *,
        drop_variables: Any = None,
        scale: float = 1,
        missing: str | None = None,
    ) -> xr.Dataset:
        """A Dataset on the samples' own grid, or on one with `scale` times as many nodes.

        `missing`, "nan" or "fill", says what values are where samples were missing.
        """
        path = str(filename_or_obj)
        field = load(path)
        about = field.labels
        values = _Decoded(path, scale, missing, field=field)
        axes = list(zip(field.domain.axes, values.positions))
        moved = [a.name for a, at in axes if scale != 1 or len(at) < a.size]
        shown = [
            None if a.coords is None and a.name not in moved else coordinates_at(a, at)
            for a, at in axes
        ]
        shell = make_dataarray(
            np.broadcast_to(np.zeros((), values.dtype), values.shape),
            field.domain.dims, shown, field.model.channel_axis, about, moved,
        )  # fmt: skip
        coords = {k: v.variable for k, v in shell.coords.items()}
        found = {}
        if about.variables:
            dims = [d for k, d in enumerate(shell.dims) if k != field.model.channel_axis]
            coords = {k: v for k, v in coords.items() if k in dims or k not in shell.dims}
            for k, (name, told) in enumerate(about.variables.items()):
                one = _Decoded(path, scale, missing, k, field=field)
                found[name] = _lazy(dims, one, told.attrs)
        else:
            name = about.name or "field"
            name += "_values" if name in shell.dims else ""
            found[name] = _lazy(shell.dims, values, shell.attrs)
        ds = xr.Dataset(found, coords=coords, attrs=dict(about.file_attrs))
        if drop_variables is not None:
            names = [drop_variables] if isinstance(drop_variables, str) else drop_variables
            ds = ds.drop_vars([n for n in names if n in ds.variables])
        return ds

    def guess_can_open(self, filename_or_obj: object) -> bool:
        """Whether the name is that of a model file."""
        return is_path(filename_or_obj) and is_model(str(filename_or_obj).rstrip("/"))


def _lazy(dims: Sequence[Hashable], values: "_Decoded", attrs: Attrs) -> xr.Variable:
    """A variable that is decoded where it is looked at."""
    sizes = matching(values._field.model, values.shape)
    chunks = {d: c for d, c, n in zip(dims, sizes, values.shape) if c < n}
    lazy = indexing.LazilyIndexedArray(values)
    return xr.Variable(dims, lazy, dict(attrs), {"preferred_chunks": chunks})


class _Decoded(BackendArray):
    """A field at grid positions, as an array that is evaluated where it is indexed.

    Of all its channels, or of one of its variables, `only`, by number.
    """

    def __init__(
        self,
        path: str,
        scale: float,
        missing: str | None = None,
        only: int | None = None,
        *,
        field: Field | None = None,
    ) -> None:
        self.path, self.scale, self.missing, self.only = path, scale, missing, only
        whole = load(path) if field is None else field
        if only is not None:
            whole = whole[list(whole.labels.variables)[only]]
        self._field = whole
        model = whole.model
        self._lazy = LazyGrid(model, gaps=shows_gaps(model, missing))
        self.positions, self.channel = self._lazy.places, model.channel_axis
        if scale != 1:
            # Beyond the end of an axis that repeats they run on.
            self.positions = model.coordinates.positions(scale=scale, align="nodes")
            self._lazy = replace(self._lazy, x=model.coordinates.in_turn(self.positions))
        self.shape, self.dtype = self._lazy.shape, self._lazy.dtype

    def __getstate__(self) -> dict[str, Any]:
        return {"path": self.path, "scale": self.scale, "missing": self.missing, "only": self.only}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(**state)  # type: ignore[misc]

    def __getitem__(self, key: Any) -> Array:
        if isinstance(key, indexing.VectorizedIndexer):
            return self._points(key.tuple)
        # Values on the grid that slices, numbers and lists of them span.
        index = [np.arange(n)[k] for n, k in zip(self.shape, key.tuple)]
        dropped = tuple(k for k, i in enumerate(index) if np.ndim(i) == 0)
        return np.squeeze(self._lazy[tuple(np.atleast_1d(i) for i in index)], axis=dropped)

    def _points(self, key: tuple[Any, ...]) -> Array:
        """Values at single points: each is evaluated once, not the grid that they would span."""
        # Slices become further axes at the end, as in NumPy's own rules for such keys.
        free = [k for k, part in enumerate(key) if isinstance(part, slice)]
        lines = dict(zip(free, np.ix_(*(np.arange(self.shape[k])[key[k]] for k in free))))
        after = (..., *(None,) * len(free))
        index = np.broadcast_arrays(
            *(
                lines[k] if k in lines else (np.asarray(part) % n)[after]  # also from the end
                for k, (part, n) in enumerate(zip(key, self.shape))
            )
        )
        full = index[0].shape
        space = [i.reshape(-1) for k, i in enumerate(index) if k != self.channel]
        at = [p[i] for p, i in zip(self.positions, space)]
        boxes = exact_samples(self._lazy.model) if self.scale == 1 else None
        if boxes is not None and boxes.tiles is not None:
            values = self._picked([c.astype(np.int64) for c in at], boxes.tiles.tiling.tile)
        else:
            axes = self._field.domain.axes
            points = np.stack([a.from_index(c) for a, c in zip(axes, at)], axis=-1)
            values = to_numpy(self._field(points, outside="nearest", missing=self.missing))
        if self.channel is not None:
            values = values[np.arange(len(values)), index[self.channel].reshape(-1)]
        return values.reshape(full).astype(self.dtype, copy=False)

    def _picked(self, index: list[Integers], tile: tuple[int, ...]) -> Array:
        """The samples with these numbers, (n,) or (n, C), those of one tile at a time."""
        n = () if self.channel is None else (self.shape[self.channel],)
        out = np.empty((len(index[0]), *n), self.dtype)
        tiles = np.stack([i // t for i, t in zip(index, tile)], axis=-1)
        _, which = np.unique(tiles, axis=0, return_inverse=True)
        order = np.argsort(which, kind="stable")
        for rows in np.split(order, np.flatnonzero(np.diff(which[order])) + 1):
            spans = [np.unique(i[rows], return_inverse=True) for i in index]
            numbers = [at for at, _ in spans]
            block = at_samples(self._lazy.model, numbers, gaps=self._lazy.gaps)
            if self.channel is not None:
                block = np.moveaxis(block, self.channel, -1)
            out[rows] = block[tuple(inner for _, inner in spans)]
        return out


METHODS = {"slinear": 1.0, "linear": 1.0, "cubic": 2.0, "quintic": 3.0}
"""Orders that stand for the methods of xarray's `interp`; without one the samples choose."""


class ElmAccessor:
    """``da.elm`` and ``ds.elm``: fields of labelled arrays."""

    def __init__(self, labelled: xr.DataArray | xr.Dataset) -> None:
        self._labelled = labelled
        self._made: dict[str | None, Field] = {}

    def fit(self, settings: Settings | None = None, **options: Any) -> Field:
        """The Field of this array or Dataset; parameters as for :func:`elmfield.fit`."""
        return fit(self._labelled, settings, **options)

    def _field(self, method: str | None = None) -> Field:
        """Of the default's settings, or of those that a method stands for; each made once."""
        if method not in self._made:
            if method is not None:
                choice("method", method, tuple(METHODS))
            self._made[method] = self.fit(None if method is None else smooth(order=METHODS[method]))
        return self._made[method]

    def interp(
        self,
        coords: Mapping[str, Array] | None = None,
        method: str | None = None,
        assume_sorted: bool = False,
        kwargs: Mapping[str, Any] | None = None,
        *,
        bounds: str = "domain",
        outside: str = "nan",
        quantity: str = "value",
        missing: str | None = None,
        **by_name: Any,
    ) -> Any:
        """Values at other coordinates, as xarray's own `interp` has them.

        Parameters
        ----------
        coords, **by_name
            Positions by dim, as for :meth:`elmfield.Field.interp`. Variables of a Dataset without
            these dims stay as they are.
        method : {"linear", "cubic", "quintic"}, optional
            The order of the fit, 1, 2 or 3; by default the one that suits the samples.
        assume_sorted : bool
            Positions may come in any order; samples too, unless they are said to be sorted.
        kwargs : mapping, optional
            ``fill_value`` other than NaN is refused: fields do not go on beyond their domain.
        bounds : {"domain", "nan"}
            Whether half a step around the outermost samples has values, or is NaN as in xarray.
        outside, quantity, missing : optional
            As for :meth:`elmfield.Field.interp`; NaN outside by default.

        Notes
        -----
        A Dask array gives one: each block is fitted when it is computed, whole along `coords`.
        """
        choice("bounds", bounds, ("domain", "nan"))
        fill = dict(kwargs or {}).get("fill_value", np.nan)
        told = np.asarray(np.nan if fill is None else fill)
        if told.dtype.kind not in "iufc" or not np.isnan(told).all():
            raise ValueError(f"`fill_value` must be NaN; got {fill!r}. Say outside='nearest'.")
        at = {str(k): v for k, v in {**dict(coords or {}), **by_name}.items()}
        own_order = _mixed_dims(self._labelled)
        mixed = [d for d in own_order if not (assume_sorted and d in at)]
        if mixed:
            about = {"bounds": bounds, "outside": outside, "quantity": quantity}
            found = self._labelled.sortby(mixed).elm.interp(
                at, method, True, kwargs, missing=missing, **about
            )
            return found.sel({d: self._labelled[d] for d in mixed if d not in at})
        own: dict[str, Any] = {"outside": outside, "quantity": quantity, "missing": missing}
        if isinstance(self._labelled, xr.Dataset):
            return self._interp_variables(self._labelled, at, method, bounds, own)
        is_lazy = self._labelled.chunks is not None and at and quantity == "value"
        if is_lazy and set(at) <= set(map(str, self._labelled.dims)):
            return self._interp_blocks(self._labelled, at, method, bounds, own)
        found = self._field(method).interp(at, **own)
        return found if bounds == "domain" else _within_samples(found, self._labelled, at)

    def interp_like(self, other: xr.DataArray | xr.Dataset, **options: Any) -> Any:
        """Values at the coordinates of something else, on the dims that both have."""
        at = {d: other.coords[d] for d in self._labelled.dims if d in other.coords}
        return self.interp({str(d): c for d, c in at.items() if c.dtype.kind != "O"}, **options)

    def _interp_variables(
        self, ds: xr.Dataset, at: dict[str, Any], method: str | None, bounds: str, own: Any
    ) -> xr.Dataset:
        if unknown := sorted(set(at) - set(map(str, ds.dims))):
            raise ValueError(f"`coords` names {unknown}, but the dims are {list(ds.dims)}.")
        parts = {}
        for name, da in ds.data_vars.items():
            some = {k: v for k, v in at.items() if k in da.dims}
            if not some:
                parts[name] = da.copy()
            elif da.dtype.kind in "biuf":  # what is none of numbers has no place elsewhere
                parts[name] = da.elm.interp(some, method, bounds=bounds, **own).rename(name)
        return xr.Dataset(parts, attrs=ds.attrs)

    def _interp_blocks(
        self, da: xr.DataArray, at: dict[str, Any], method: str | None, bounds: str, own: Any
    ) -> xr.DataArray:
        """The same of a Dask array, block by block along the other dims."""
        lazy: Any = import_module("dask.array")
        delayed: Any = import_module("dask.delayed").delayed

        at = {k: _positions(k, v) for k, v in at.items()}
        whole = da.chunk(dict.fromkeys(at, -1))
        dims: dict[Hashable, int] = {}  # the dims of positions in place of the array's
        for d in da.dims:
            dims |= dict(at[str(d)].sizes) if d in at else {d: da.sizes[d]}
        dtype = np.result_type(da.dtype, np.float32)
        axes = {str(d): da.coords[d].variable for d in da.dims if d in da.coords}

        def block(values: Array, part: dict[Hashable, slice]) -> Array:
            own_axes = {k: (v.dims, v[{d: i for d, i in part.items() if d in v.dims}])
                     for k, v in axes.items()}  # fmt: skip
            some = xr.DataArray(values, own_axes, da.dims, attrs=da.attrs)
            some.encoding = da.encoding
            places = {
                k: v.isel({d: i for d, i in part.items() if d in v.dims}) for k, v in at.items()
            }
            found = some.elm.interp(places, method, bounds=bounds, **own)
            return np.asarray(found.transpose(*dims).values, dtype)

        sizes = [whole.chunksizes[d] if d in da.dims and d not in at else (n,)
                 for d, n in dims.items()]  # fmt: skip
        ends = [np.cumsum((0, *c)).tolist() for c in sizes]
        parts = np.empty([len(c) for c in sizes], object)
        for i in np.ndindex(*parts.shape):
            part = {d: slice(*e[k : k + 2]) for d, e, k in zip(dims, ends, i) if d in da.dims}
            part = {d: s for d, s in part.items() if d not in at}
            shape = [c[k] for c, k in zip(sizes, i)]
            made = delayed(block, pure=True)(whole.isel(part).data, part)
            parts[i] = lazy.from_delayed(made, shape, dtype)
        data = lazy.block(parts.tolist()) if parts.ndim else parts[()]
        counted = {k: np.arange(da.sizes[k]) for k in at if k not in da.coords}
        with warnings.catch_warnings():  # of positions that are NaN
            warnings.simplefilter("ignore", RuntimeWarning)
            there = da.coords.to_dataset().assign_coords(counted).interp(at)
        for k in axes.keys() & at.keys():
            there[k].attrs = there[k].attrs or axes[k].attrs
        return xr.DataArray(data, there.coords, list(dims), da.name, da.attrs)

    def regrid(self, like: object = None, **options: Any) -> xr.DataArray | xr.Dataset:
        """The same on another grid; parameters as for :func:`elmfield.regrid`."""
        return regrid(self._field(), like, **options)

    def means(
        self,
        edges: Mapping[str, Array] | None = None,
        *,
        missing: str | None = None,
        **by_name: Array,
    ) -> xr.DataArray | xr.Dataset:
        """Means over the boxes between edges, given by dim; at the middle of each box.

        Latitudes count by area. Dims that are not named keep their samples. On a dim of dates edges
        may be a frequency of pandas: ``means(time="MS")`` are those of months.
        """
        both = {**dict(edges or {}), **by_name}
        for name, e in both.items():
            if isinstance(e, str):
                both[name] = _periods_of(self._labelled[name], e)
        field = self._field()
        names, coordinates = field.domain.dims, field.model.coordinates
        if not both or set(map(str, both)) - set(names):
            raise ValueError(f"`edges` must name some of the axes {list(names)}; got {list(both)}.")
        numbers = {n: coordinates.numbers(names.index(n), e) for n, e in both.items()}
        target = TargetGrid(
            axes={n: (e[:-1] + e[1:]) / 2 for n, e in numbers.items()}, edges=numbers
        )
        out = Rendering(field=field, mean=True, missing=missing).on_target(target)
        return split_variables(to_dataarray(out), out.labels)


def _positions(name: str, given: Any) -> Any:
    """What a caller gives for a dim, with the dims that it has."""
    if isinstance(given, tuple) and len(given) == 2 and isinstance(given[0], (str, list, tuple)):
        return xr.Variable(*given)
    if isinstance(given, (xr.DataArray, xr.Variable)):
        return given.compute()
    values = np.asarray(given)
    return xr.Variable((name,) * values.ndim, values)


def _mixed_dims(labelled: xr.DataArray | xr.Dataset) -> list[Hashable]:
    """Dims of numbers or dates whose coordinates neither rise nor fall."""
    own = {d: i for d, i in labelled.indexes.items() if d in labelled.dims and i.is_unique}
    falls = [d for d, i in own.items() if i.is_monotonic_decreasing or i.is_monotonic_increasing]
    return [d for d in own if d not in falls and labelled[d].dtype.kind in "iufMm"]


def _within_samples(found: Any, da: xr.DataArray, at: Mapping[str, Any]) -> Any:
    """Values with NaN beyond the outermost samples."""
    for name in at:
        own = da.coords[name]
        if name in found.coords and not is_longitude(name, own.attrs):
            c = found.coords[name]
            found = found.where((c >= own.min()) & (c <= own.max()))
    return found


def _periods_of(time: xr.DataArray, frequency: str) -> Array:
    """Edges of the periods, of a frequency of pandas, that dates lie in."""
    first, last = time.values.min(), time.values.max()
    edges = xr.date_range(first, last, freq=frequency)
    before = xr.date_range(end=edges[0] if len(edges) else first, periods=2, freq=frequency)
    after = xr.date_range(start=edges[-1] if len(edges) else last, periods=2, freq=frequency)
    every = np.unique(np.concatenate([before, edges, after]))
    begin = max(0, int(np.searchsorted(every, first, side="right")) - 1)
    return every[begin : int(np.searchsorted(every, last, side="right")) + 1]


def register() -> None:
    """Give DataArrays and Datasets their ``elm``, once."""
    if not hasattr(xr.DataArray, "elm"):
        xr.register_dataarray_accessor("elm")(ElmAccessor)  # type: ignore[no-untyped-call]
    if not hasattr(xr.Dataset, "elm"):
        xr.register_dataset_accessor("elm")(ElmAccessor)  # type: ignore[no-untyped-call]


register()
