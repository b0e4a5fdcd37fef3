"""The xarray backend and accessor: ``xr.open_dataset("sst.elm", engine="elmfield")``, ``da.elm``.

Imports xarray; nothing else in the package imports this module before xarray is there. ``da.elm``
works lazily, and on all grids of a Dataset.
"""

import warnings
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np
import xarray as xr
from xarray.backends import BackendArray, BackendEntrypoint
from xarray.core import indexing

from elmfield._array.backend import to_numpy
from elmfield._array.checks import by_name, is_path
from elmfield._array.typing import Array, Integers
from elmfield.field import Field
from elmfield.field.adapters import labelled_arrays
from elmfield.field.coordinates.output_positions import shows_gaps
from elmfield.field.grid_values import MEAN_MIN_COVER, LazyGrid, at_samples, exact_samples, matching
from elmfield.fit.curvilinear import Curvilinear
from elmfield.io.api import fit, regrid
from elmfield.io.conventions import ENCODED, bounds_of, face_mesh_of, map_axes, mesh_of
from elmfield.io.export.output_grid import TargetGrid
from elmfield.io.export.rendering import Rendering, coordinates_at
from elmfield.io.files import is_model
from elmfield.io.inputs import to_xarray
from elmfield.io.model.load import load
from elmfield.settings import Settings, smooth

METHODS = {"slinear": 1.0, "linear": 1.0, "cubic": 2.0, "quintic": 3.0}
"""Orders that stand for methods of xarray's `interp`; without one the samples choose."""

NUMBER = "number of {}"
"""A coordinate that tells parts of a Dask array where along a dim they are."""


# --- model files ----------------------------------------------------------------------------------


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
        values = _Decoded(path, scale, missing, None, field)
        axes = list(zip(field.domain.axes, values.positions))
        moved = [a.name for a, at in axes if scale != 1 or len(at) < a.size]
        shown = [
            None if a.coords is None and a.name not in moved else coordinates_at(a, at)
            for a, at in axes
        ]
        shell = labelled_arrays.make_dataarray(
            np.broadcast_to(np.zeros((), values.dtype), values.shape),
            field.domain.dims, shown, field.model.channel_axis, about, moved,
        )  # fmt: skip
        ds = labelled_arrays.split_variables(shell, about)
        if isinstance(ds, xr.DataArray):
            name = about.name or "field"
            ds = ds.to_dataset(name=name + "_values" * (name in shell.dims))
            ds.attrs = dict(about.file_attrs)
        for k, (key, one) in enumerate(ds.data_vars.items()):
            if about.variables:
                values = _Decoded(path, scale, missing, k, field)
            sizes = zip(one.dims, matching(values.field.model, values.shape), values.shape)
            chunks = {"preferred_chunks": {d: c for d, c, n in sizes if c < n}}
            lazy = indexing.LazilyIndexedArray(values)
            ds[key] = xr.Variable(one.dims, lazy, dict(one.attrs), chunks)
        ds = field.with_places(ds) if isinstance(field, Curvilinear) and scale == 1 else ds
        names = [drop_variables] if isinstance(drop_variables, str) else drop_variables or ()
        return ds.drop_vars([n for n in names if n in ds.variables])

    def guess_can_open(self, filename_or_obj: object) -> bool:
        """Whether the name is that of a model file."""
        return is_path(filename_or_obj) and is_model(str(filename_or_obj).rstrip("/"))


class _Decoded(BackendArray):
    """A field at grid positions, as an array that is evaluated where it is indexed.

    Of all its channels, or of one of its variables, `only`, by number.
    """

    def __init__(
        self, path: str, scale: float, missing: str | None, only: int | None, field: Field | None
    ) -> None:
        self.path, self.scale, self.missing, self.only = path, scale, missing, only
        whole = load(path) if field is None else field
        if only is not None:
            whole = whole[list(whole.labels.variables)[only]]
        self.field = whole
        model = whole.model
        self._lazy = LazyGrid(model, gaps=shows_gaps(model, missing))
        self.positions, self.channel = self._lazy.places, model.channel_axis
        if scale != 1:
            # Beyond the end of an axis that repeats they run on.
            self.positions = model.coordinates.positions(scale=scale, align="nodes")
            self._lazy = replace(self._lazy, x=model.coordinates.in_turn(self.positions))
        self.shape, self.dtype = self._lazy.shape, self._lazy.dtype

    def __reduce__(self) -> tuple[Any, ...]:
        return _Decoded, (self.path, self.scale, self.missing, self.only, None)

    def __getitem__(self, key: Any) -> Array:
        if isinstance(key, indexing.VectorizedIndexer):
            return self._points(key.tuple)
        # Values on the grid that slices, numbers and lists of them span.
        index = [np.arange(n)[k] for n, k in zip(self.shape, key.tuple)]
        dropped = tuple(k for k, i in enumerate(index) if np.ndim(i) == 0)
        return np.squeeze(self._lazy[tuple(np.atleast_1d(i) for i in index)], axis=dropped)

    def _points(self, key: tuple[Array, ...]) -> Array:
        """Values at single points: each is evaluated once, not the grid that they would span.

        The lazy array of xarray around this one makes arrays of numbers of all slices of such keys.
        """
        index = np.broadcast_arrays(*(i % n for i, n in zip(key, self.shape)))  # also from the end
        full = index[0].shape
        space = [i.reshape(-1) for k, i in enumerate(index) if k != self.channel]
        at = [p[i] for p, i in zip(self.positions, space)]
        boxes = exact_samples(self._lazy.model) if self.scale == 1 else None
        if boxes is not None and boxes.tiles is not None:
            values = self._picked([c.astype(np.int64) for c in at], boxes.tiles.tiling.tile)
        else:
            axes = self.field.domain.axes
            points = np.stack([a.from_index(c) for a, c in zip(axes, at)], axis=-1)
            values = to_numpy(self.field(points, outside="nearest", missing=self.missing))
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


# --- labelled arrays ------------------------------------------------------------------------------


class ElmAccessor:
    """``da.elm`` and ``ds.elm``: fields of labelled arrays.

    A Dask array gives one from `interp`, `regrid` and `means`: each block is fitted when it is
    computed, whole along the dims that change. Variables of a Dataset that have none of these dims
    stay as they are.
    """

    def __init__(self, labelled: xr.DataArray | xr.Dataset) -> None:
        self._labelled = labelled
        self._made: dict[str | None, Field] = {}

    def fit(self, settings: Settings | None = None, **options: Any) -> Field:
        """The Field of this array or Dataset; parameters as for :func:`elmfield.fit`."""
        return fit(self._labelled, settings, **options)

    def _field(self, method: str | None = None) -> Field:
        """Of the default's settings, or of those that a method stands for; each made once."""
        if method not in self._made:
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
        **coords_by_name: Any,
    ) -> Any:
        """Values at other coordinates, as xarray's own `interp` has them.

        Parameters
        ----------
        coords, **coords_by_name
            Positions by dim, as for :meth:`elmfield.Field.interp`.
        method : optional
            "linear", "cubic" or "quintic" for the order of the fit, 1, 2 or 3; by default the one
            that suits the samples. Others are xarray's own.
        assume_sorted : bool
            Positions may come in any order; samples too, unless they are said to be sorted.
        kwargs : mapping, optional
            ``fill_value`` other than NaN is refused: fields do not go on beyond their domain.
        bounds : {"domain", "nan"}
            Whether half a step around the outermost samples has values, or is NaN as in xarray.
        outside, quantity, missing : optional
            As for :meth:`elmfield.Field.interp`; NaN outside by default.
        """
        whole = self._labelled
        at = {str(k): v for k, v in {**by_name("coords", coords), **coords_by_name}.items()}
        if method is not None and method not in METHODS:
            return whole.interp(at, method, assume_sorted, kwargs)  # type: ignore[arg-type]
        labelled_arrays.is_nan_outside(kwargs)
        mixed = [d for d in _mixed_dims(whole) if not (assume_sorted and d in at)]
        told: Any = {"outside": outside, "quantity": quantity, "missing": missing, "bounds": bounds}

        def of(part: Any, at: Mapping[str, Any]) -> Any:
            return part.elm.interp(at, method, True, kwargs, **told)

        if mixed:
            found = of(whole.sortby(mixed), at)
            return found.sel({d: whole[d] for d in mixed if d not in at})
        if isinstance(whole, xr.Dataset):
            if unknown := sorted(set(at) - set(map(str, whole.dims)) - set(map(str, whole.coords))):
                raise ValueError(f"`coords` names {unknown}, but the dims are {list(whole.dims)}.")

            def one(da: xr.DataArray) -> Any:
                return of(da, {k: at[k] for k in at if k in da.dims or k in _places_of(da)})

            texts = whole[[n for n, da in whole.data_vars.items() if da.dtype.kind not in "biuf"]]
            texts = texts.interp({k: v for k, v in at.items() if k in texts.dims})
            return _by_variable(whole, at, one, other=lambda da: texts.get(da.name))
        if whole.chunks is None or not at:
            return self._field(method).interp(at, kwargs=kwargs, **told)
        if quantity != "value" or not set(at) & set(map(str, whole.dims)):
            on_mesh = bool(set(at) & set(_places_of(whole)))
            changed = {*at, *(d for v in at.values() for d in getattr(v, "dims", ()))}
            changed |= set(whole.dims[-2:] if on_mesh else whole.dims)  # derivatives are by all
            return _by_blocks(whole, changed & set(whole.dims), lambda da: of(da, at))
        places = {k: labelled_arrays.as_variable(k, v).compute() for k, v in at.items()}
        places = {k: v.astype("M8[ns]") if v.dtype.kind in "US" else v for k, v in places.items()}

        def part(da: xr.DataArray) -> xr.DataArray:
            here = {d: da.coords[NUMBER.format(d)].values for d in da.dims if d not in places}
            some = {k: v.isel(here, missing_dims="ignore") for k, v in places.items()}
            found: xr.DataArray = of(da.drop_vars([c for c in da.coords if c not in da.dims]), some)
            return found

        counted = {k: np.arange(whole.sizes[k]) for k in places if k not in whole.coords}
        with warnings.catch_warnings():  # of positions that are NaN
            warnings.simplefilter("ignore", RuntimeWarning)
            there = whole.assign_coords(counted).interp(places)  # lazily, for its labels alone
        for k in places.keys() & whole.coords.keys():
            there[k].attrs = there[k].attrs or whole.coords[k].attrs
        return _by_blocks(whole, tuple(places), part, there.sizes, there.coords)

    def interp_like(self, other: xr.DataArray | xr.Dataset, **options: Any) -> Any:
        """Values at the coordinates of something else, on the dims that both have."""
        own = self._labelled
        arrays = [own] if isinstance(own, xr.DataArray) else own.data_vars.values()
        places = {n for da in arrays for n in _places_of(da)}
        names = [*own.dims, *(places if places <= set(other.coords) else ())]
        return self.interp(labelled_arrays.coordinates_like(names, other), **options)

    def regrid(self, like: object = None, **options: Any) -> xr.DataArray | xr.Dataset:
        """The same on another grid; parameters as for :func:`elmfield.regrid`."""
        whole: Any = self._labelled
        dims = list(map(str, whole.dims))
        is_array = isinstance(whole, xr.DataArray)
        told = {d: whole[d].attrs for d in dims if d in whole.coords}
        plane = dims[-2:] if is_array and _places_of(whole) else map_axes(dims, told) or ()
        changed = {*plane, *(d for d in dims if d in getattr(like, "coords", ()))}

        def of(da: xr.DataArray) -> Any:
            return da.elm.regrid(like, **options)

        if plane and is_array and whole.chunks is not None:
            return _by_blocks(whole, changed, of)
        if plane and not is_array and face_mesh_of(whole) is None and _has_several(whole):
            return _by_variable(whole, plane, of, all)
        return regrid(self._field(), like, **options)

    def means(
        self,
        edges: Mapping[str, Array] | None = None,
        *,
        missing: str | None = None,
        min_coverage: float = MEAN_MIN_COVER,
        **edges_by_name: Array,
    ) -> xr.DataArray | xr.Dataset:
        """Means over the boxes between edges, given by dim; at the middle of each box.

        Latitudes count by area. Dims that are not named keep their samples. On a dim of dates edges
        may be a frequency of pandas: ``means(time="MS")`` are those of months. A mean is NaN where
        samples cover less than `min_coverage` of its box.
        """
        whole, named = self._labelled, {**by_name("edges", edges), **edges_by_name}
        both = {n: _periods_of(whole[n], e) if isinstance(e, str) else e for n, e in named.items()}
        told: Any = {"missing": missing, "min_coverage": min_coverage}

        def of(da: xr.DataArray) -> Any:
            return da.elm.means({k: e for k, e in both.items() if k in da.dims}, **told)

        if isinstance(whole, xr.Dataset) and _has_several(whole):
            return _by_variable(whole, both, of)
        is_known = bool(both) and set(both) <= set(map(str, whole.dims))
        if isinstance(whole, xr.DataArray) and whole.chunks is not None and is_known:
            return _by_blocks(whole, both, of)
        field = self._field()
        names, coordinates = field.domain.dims, field.model.coordinates
        if not both or set(map(str, both)) - set(names):
            raise ValueError(f"`edges` must name some of the axes {list(names)}; got {list(both)}.")
        numbers = {n: coordinates.numbers(names.index(n), e) for n, e in both.items()}
        for name, e in numbers.items():
            if e.ndim != 1 or len(e) < 2:
                told = f"edges on axis {name!r} must be at least two, on one line"
                raise ValueError(f"{told}; got shape {e.shape}.")
        middles = {n: (e[:-1] + e[1:]) / 2 for n, e in numbers.items()}
        target = TargetGrid(middles, edges=numbers)
        return to_xarray(Rendering(field=field, mean=True, **told).on_target(target))


def _places_of(da: xr.DataArray) -> list[str]:
    """Names of the two coordinates of a curvilinear grid; none of others."""
    return list(mesh_of(da, list(map(str, da.dims)))[0])


def _has_several(ds: xr.Dataset) -> bool:
    """Whether a Dataset's variables of numbers have different dims."""
    own = ds.drop_vars(bounds_of(ds)[1], errors="ignore").data_vars.values()
    return len({v.dims for v in own if v.dtype.kind in "biuf"}) > 1


def _by_variable(
    ds: xr.Dataset,
    names: Iterable[str],
    make: Callable[[xr.DataArray], Any],
    which: Callable[[Iterable[bool]], bool] = any,
    other: Callable[[xr.DataArray], Any] = lambda da: None,
) -> xr.Dataset:
    """What is made of each variable of numbers with `any` or `all` of some dims; others as is.

    Texts and dates along these dims have no place elsewhere, unless `other` makes some.
    """
    parts, names = {}, list(names)
    for name, da in ds.data_vars.items():
        if not which(n in da.dims or n in _places_of(da) for n in names):
            parts[name] = da.copy()
        elif (made := make(da) if da.dtype.kind in "biuf" else other(da)) is not None:
            parts[name] = made.rename(name)
    return xr.Dataset(parts, attrs=ds.attrs)


def _by_blocks(
    da: xr.DataArray,
    along: Collection[str],
    make: Callable[[xr.DataArray], xr.DataArray],
    dims: Mapping[Hashable, int] | None = None,
    coords: Any = None,
) -> xr.DataArray:
    """What is made of a Dask array, block by block along the dims that do not change.

    Without `dims` and coords of the result, from what is made of one zero along these.
    """
    lazy: Any = import_module("dask.array")
    others, attrs = [d for d in da.dims if d not in along], da.attrs
    if dims is None:
        some = da.isel({d: slice(0, 1) for d in others})
        one = make(some.copy(data=np.zeros(some.shape, some.dtype)))
        dims, attrs = {d: (da if d in others else one).sizes[d] for d in one.dims}, one.attrs
        kept = {k: c for k, c in da.coords.items() if set(c.dims) <= set(others)}
        coords = kept | {k: c for k, c in one.coords.items() if not set(c.dims) & set(others)}
    whole = da.chunk(dict.fromkeys(along, -1))
    numbers = {NUMBER.format(d): (d, np.arange(da.sizes[d])) for d in others}
    sizes = [whole.chunksizes[d] if d in others else (n,) for d, n in dims.items()]
    empty = lazy.zeros(tuple(dims.values()), np.result_type(da.dtype, np.float32), chunks=sizes)
    found = xr.DataArray(empty, coords, list(dims), da.name, attrs)

    def block(part: xr.DataArray) -> xr.DataArray:
        part.encoding = dict(da.encoding)
        made = make(part).transpose(*dims)
        bare = xr.DataArray(np.asarray(made.values, empty.dtype), dims=list(dims))
        return bare.assign_coords({d: part[d].variable for d in others if d in part.indexes})

    whole, bare = whole.assign_coords(numbers), found.drop_vars(set(found.coords) - set(others))
    if others:
        data = xr.map_blocks(block, whole, template=bare).data
    else:
        delayed: Any = import_module("dask.delayed").delayed
        data = lazy.from_delayed(delayed(block)(whole).data, empty.shape, empty.dtype)
    found = found.copy(data=data)
    found.encoding = {k: v for k, v in da.encoding.items() if k in ENCODED}
    return found


def _mixed_dims(labelled: xr.DataArray | xr.Dataset) -> list[Hashable]:
    """Dims of numbers or dates whose coordinates neither rise nor fall."""
    own = {d: i for d, i in labelled.indexes.items() if d in labelled.dims and i.is_unique}
    falls = [d for d, i in own.items() if i.is_monotonic_decreasing or i.is_monotonic_increasing]
    return [d for d in own if d not in falls and labelled[d].dtype.kind in "iufMm"]


def _periods_of(time: xr.DataArray, frequency: str) -> Array:
    """Edges of the periods, of a frequency of pandas, that dates lie in."""
    first, last = time.values.min(), time.values.max()
    dates: Any = partial(xr.date_range, freq=frequency)
    if time.dtype.kind == "O":
        dates = partial(dates, calendar=first.calendar, use_cftime=True)
    edges = dates(first, last)
    before, after = dates(end=[*edges, first][0], periods=2), dates([last, *edges][-1], periods=2)
    every = np.unique(np.concatenate([before, edges, after]))
    begin, end = np.searchsorted(every, [first, last], side="right")
    return every[max(0, begin - 1) : end + 1]


xr.register_dataarray_accessor("elm")(ElmAccessor)  # type: ignore[no-untyped-call]
xr.register_dataset_accessor("elm")(ElmAccessor)  # type: ignore[no-untyped-call]
