"""The xarray backend and accessor: ``xr.open_dataset("sst.elm", engine="elmfield")``, ``da.elm``.

Imports xarray; nothing else in the package imports this module before xarray is there.
"""

from dataclasses import replace
from typing import Any

import numpy as np
import xarray as xr
from xarray.backends import BackendArray, BackendEntrypoint
from xarray.core import indexing

from elmfield._array.backend import to_numpy
from elmfield._array.checks import is_path
from elmfield._array.typing import Array, Integers
from elmfield.field import Field
from elmfield.field.adapters.labelled_arrays import make_dataarray, split_variables
from elmfield.field.coordinates.output_positions import shows_gaps
from elmfield.field.grid_values import LazyGrid, at_samples, exact_samples, matching
from elmfield.fit.curvilinear import Curvilinear
from elmfield.io.accessor import ElmAccessor
from elmfield.io.export.rendering import coordinates_at
from elmfield.io.files import is_model
from elmfield.io.model.load import load


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
        shell = make_dataarray(
            np.broadcast_to(np.zeros((), values.dtype), values.shape),
            field.domain.dims, shown, field.model.channel_axis, about, moved,
        )  # fmt: skip
        ds = split_variables(shell, about)
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


xr.register_dataarray_accessor("elm")(ElmAccessor)  # type: ignore[no-untyped-call]
xr.register_dataset_accessor("elm")(ElmAccessor)  # type: ignore[no-untyped-call]
