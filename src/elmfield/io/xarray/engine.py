"""The xarray backend and accessor: ``xr.open_dataset("sst.elm", engine="elmfield")``, ``da.elm``.

Imports xarray; nothing else in the package imports this module before xarray is there.
"""

from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from xarray.backends import BackendArray, BackendEntrypoint
from xarray.core import indexing

from elmfield._array.backend import to_numpy
from elmfield._array.typing import Array, Floats
from elmfield.field import Field
from elmfield.field.delayed import matching
from elmfield.field.labels import dataarray
from elmfield.io.door import fit
from elmfield.io.model.restore import load
from elmfield.io.regrid import means_between, regrid


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
        about = field.attributes
        values = _Decoded(path, scale, missing, field=field)
        shown: list[Floats | None] = []
        for axis, at in zip(field.domain.axes, values.positions):
            if axis.coords is None and scale == 1:
                shown.append(None)
            elif scale == 1:
                shown.append(np.asarray(axis.coords))
            else:
                shown.append(axis.from_index(at))
        moved = field.domain.dims if scale != 1 else ()
        shell = dataarray(
            np.broadcast_to(np.zeros((), values.dtype), values.shape),
            field.domain.dims, shown, field.channel_axis, about, moved,
        )  # fmt: skip
        coords = {k: v.variable for k, v in shell.coords.items()}
        found = {}
        if about.get("variables"):
            dims = [d for k, d in enumerate(shell.dims) if k != field.channel_axis]
            coords.pop(shell.dims[field.channel_axis], None)
            for k, (name, told) in enumerate(about["variables"].items()):
                one = _Decoded(path, scale, missing, k, field=field)
                found[name] = _lazy(dims, one, told.get("attrs", {}))
        else:
            name = str(about.get("name") or "field")
            name += "_values" if name in shell.dims else ""
            found[name] = _lazy(shell.dims, values, shell.attrs)
        ds = xr.Dataset(found, coords=coords, attrs=dict(about.get("global", {})))
        if drop_variables is not None:
            names = [drop_variables] if isinstance(drop_variables, str) else drop_variables
            ds = ds.drop_vars([n for n in names if n in ds.variables])
        return ds

    def guess_can_open(self, filename_or_obj: Any) -> bool:
        """Whether the name is that of a model file."""
        name = str(filename_or_obj) if isinstance(filename_or_obj, (str, Path)) else ""
        return name.rstrip("/").endswith((".elm", ".elm.zarr"))


def _lazy(dims: Any, values: "_Decoded", attrs: Any) -> xr.Variable:
    """A variable that is decoded where it is looked at."""
    sizes = matching(values._field, values.shape)
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
            whole = whole[list(whole.attributes["variables"])[only]]
        self._field = whole
        own = [np.arange(n, dtype=float) for n in self._field.domain.shape]
        nodes = own if scale == 1 else self._field.places(scale=scale, align="nodes")
        self.positions: list[Floats] = nodes
        shape = [len(p) for p in self.positions]
        self.channel = self._field.channel_axis
        if self.channel is not None:
            shape.insert(self.channel, self._field.n_channels)
        self.shape = tuple(shape)
        self.dtype = np.dtype(self._field.dtype)

    def __getstate__(self) -> dict[str, Any]:
        return {"path": self.path, "scale": self.scale, "missing": self.missing, "only": self.only}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(**state)  # type: ignore[misc]

    def __getitem__(self, key: Any) -> Array:
        if isinstance(key, indexing.VectorizedIndexer):
            return self._points(key.tuple)
        return self._grid(key.tuple)

    def _grid(self, key: tuple[Any, ...]) -> Array:
        """Values on the grid that slices, numbers and lists of them span."""
        index = [np.arange(n)[k] for n, k in zip(self.shape, key)]
        space = [i for k, i in enumerate(index) if k != self.channel]
        axes = self._field.domain.axes
        at = [a.from_index(p[np.atleast_1d(i)]) for a, p, i in zip(axes, self.positions, space)]
        empty = any(len(c) == 0 for c in at)
        if empty:
            shape = [len(np.atleast_1d(i)) for i in index]
            values = np.empty(shape, self.dtype)
        else:
            values = to_numpy(self._field.grid(*at, outside="nearest", missing=self.missing))
            if self.channel is not None:
                values = np.take(values, np.atleast_1d(index[self.channel]), axis=self.channel)
        values = values.astype(self.dtype, copy=False)
        dropped = tuple(k for k, i in enumerate(index) if np.ndim(i) == 0)
        return np.squeeze(values, axis=dropped)

    def _points(self, key: tuple[Any, ...]) -> Array:
        """Values at single points: each is evaluated once, not the grid that they would span."""
        # Slices become further axes at the end, as in NumPy's own rules for such keys.
        arrays = [k for k in key if not isinstance(k, slice)]
        lead = np.broadcast_shapes(*(np.shape(a) for a in arrays))
        free = [k for k, part in enumerate(key) if isinstance(part, slice)]
        index = []
        for k, part in enumerate(key):
            if isinstance(part, slice):
                line = np.arange(self.shape[k])[part]
                after = len(free) - 1 - free.index(k)
                index.append(
                    line.reshape((1,) * len(lead) + (1,) * free.index(k) + (-1,) + (1,) * after)
                )
            else:
                # Counted from the end, as NumPy allows.
                part = np.where(np.asarray(part) < 0, np.asarray(part) + self.shape[k], part)
                index.append(np.broadcast_to(part, lead).reshape(lead + (1,) * len(free)))
        full = np.broadcast_shapes(*(i.shape for i in index))
        index = [np.broadcast_to(i, full) for i in index]
        space = [i for k, i in enumerate(index) if k != self.channel]
        axes = self._field.domain.axes
        x = [a.from_index(p[i]) for a, p, i in zip(axes, self.positions, space)]
        points = np.stack([c.reshape(-1) for c in x], axis=-1)
        values = to_numpy(self._field(points, outside="nearest", missing=self.missing))
        if self.channel is not None:
            values = values[np.arange(len(values)), index[self.channel].reshape(-1)]
        return values.reshape(full).astype(self.dtype, copy=False)


class ElmAccessor:
    """``da.elm`` and ``ds.elm``: fields of labelled arrays."""

    def __init__(self, labelled: xr.DataArray | xr.Dataset) -> None:
        self._labelled = labelled
        self._made: Field | None = None

    def fit(self, settings: Any = None, **options: Any) -> Field:
        """The Field of this array or Dataset; parameters as for :func:`elmfield.fit`."""
        return fit(self._labelled, settings, **options)

    @property
    def _field(self) -> Field:
        """Of the default's settings, made once."""
        if self._made is None:
            self._made = self.fit()
        return self._made

    def interp(self, coords: Any = None, **options: Any) -> Any:
        """Values at other coordinates; parameters as for :meth:`elmfield.Field.interp`."""
        return self._field.interp(coords, **options)

    def regrid(self, like: Any = None, **options: Any) -> Any:
        """The same on another grid; parameters as for :func:`elmfield.regrid`."""
        return regrid(self._field, like, **options)

    def means(self, edges: Any = None, *, missing: str | None = None, **by_name: Any) -> Any:
        """Means over the boxes between edges, given by dim; at the middle of each box.

        Latitudes count by area. Dims that are not named keep their samples.
        """
        return means_between(self._field, {**dict(edges or {}), **by_name}, missing)


def register() -> None:
    """Give DataArrays and Datasets their ``elm``, once."""
    if not hasattr(xr.DataArray, "elm"):
        xr.register_dataarray_accessor("elm")(ElmAccessor)  # type: ignore[no-untyped-call]
    if not hasattr(xr.Dataset, "elm"):
        xr.register_dataset_accessor("elm")(ElmAccessor)  # type: ignore[no-untyped-call]


register()
