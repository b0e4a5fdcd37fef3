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
from elmfield.field.labels import dataarray
from elmfield.io.door import fit
from elmfield.io.model.restore import load

CHUNK = 512
"""Samples per chunk and axis that are suggested to Dask."""


class ElmfieldBackend(BackendEntrypoint):
    """Opens a model file as a Dataset of one variable, decoded where it is looked at."""

    description = "Open elmfield model files (.elm, .elm.zarr) at their own grid, lazily"
    open_dataset_parameters = ("filename_or_obj", "drop_variables", "scale")

    def open_dataset(
        self,
        filename_or_obj: Any,
        *,
        drop_variables: Any = None,
        scale: float = 1,
    ) -> xr.Dataset:
        """A Dataset on the samples' own grid, or on one with `scale` times as many nodes."""
        path = str(filename_or_obj)
        field = load(path)
        values = _Decoded(path, scale, field)
        about = dict(field.attributes)
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
        name = str(about.get("name") or "field")
        if name in shell.dims:
            name += "_values"
        variable = xr.Variable(
            shell.dims,
            indexing.LazilyIndexedArray(values),
            shell.attrs,
            {"preferred_chunks": {d: CHUNK for d, n in shell.sizes.items() if n > CHUNK}},
        )
        coords = {k: v.variable for k, v in shell.coords.items()}
        found = xr.Dataset({name: variable}, coords=coords)
        if drop_variables is not None:
            names = [drop_variables] if isinstance(drop_variables, str) else drop_variables
            found = found.drop_vars([n for n in names if n in found.variables])
        return found

    def guess_can_open(self, filename_or_obj: Any) -> bool:
        """Whether the name is that of a model file."""
        name = str(filename_or_obj) if isinstance(filename_or_obj, (str, Path)) else ""
        return name.rstrip("/").endswith((".elm", ".elm.zarr"))


class _Decoded(BackendArray):
    """A field at grid positions, as an array that is evaluated where it is indexed."""

    def __init__(self, path: str, scale: float, field: Field | None = None) -> None:
        self.path, self.scale = path, scale
        self._field = load(path) if field is None else field
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
        return {"path": self.path, "scale": self.scale}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["path"], state["scale"])  # type: ignore[misc]

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
            values = to_numpy(self._field.grid(*at, outside="nearest"))
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
        values = to_numpy(self._field(points, outside="nearest"))
        if self.channel is not None:
            values = values[np.arange(len(values)), index[self.channel].reshape(-1)]
        return values.reshape(full).astype(self.dtype, copy=False)


class ElmAccessor:
    """``da.elm``: fit a field to a DataArray."""

    def __init__(self, da: xr.DataArray) -> None:
        self._da = da

    def fit(self, settings: Any = None, **options: Any) -> Field:
        """The Field of this array; parameters as for :func:`elmfield.fit`."""
        return fit(self._da, settings, **options)


def register() -> None:
    """Give DataArrays their ``elm``, once."""
    if not hasattr(xr.DataArray, "elm"):
        xr.register_dataarray_accessor("elm")(ElmAccessor)  # type: ignore[no-untyped-call]


register()
