"""What a caller holds as Gridded samples: arrays, DataArrays and Datasets, images, files.

:func:`parse_input` is the one way in; :func:`to_xarray` is the way back. xarray is not imported
before one of its containers turns up.
"""

import sys
import warnings
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from elmfield._array.backend import is_array, to_numpy
from elmfield._array.checks import array, by_name, entries, is_integer, is_path
from elmfield._array.typing import Array, Floats
from elmfield.domain import Periodic, names_of, periods_of
from elmfield.domain.box import coords_by_axis
from elmfield.domain.sphere import is_longitude
from elmfield.errors import ChannelWarning
from elmfield.field import Field
from elmfield.field.adapters.labelled_arrays import XArray, make_dataarray, split_variables
from elmfield.field.coordinates.labels import (
    Attrs,
    AxisLabels,
    ChannelLabels,
    CoordinateLabels,
    Labels,
    VariableLabels,
    add_ticks,
    coordinates_in,
    date_errors,
)
from elmfield.fit import Encoder, encoder
from elmfield.fit.curvilinear import curvilinear
from elmfield.fit.mesh import Fold
from elmfield.io import conventions as cf
from elmfield.io.files import read
from elmfield.io.formats.arrays import Lazy
from elmfield.io.formats.medical import from_image
from elmfield.io.gridded import Gridded, axis_number, step_of
from elmfield.io.model.metadata import keepable
from elmfield.partition import Partition
from elmfield.samples import with_nan
from elmfield.settings import Settings

if TYPE_CHECKING:
    import xarray

PICTURE_MIN_SIDE = 16
"""Rows and columns from which an array of three or four layers looks like a picture in colour."""

CHANNEL_DIMS = ("band", "channel")
"""Dims that hold channels, unless a caller says otherwise: those of rasters, and of `to_xarray`."""

COORD_MAX_SIZE = 4096
"""Entries up to which other coordinates are kept with a field."""


def parse_input(
    values: Array,
    *,
    channel_axis: Hashable = None,
    dims: Sequence[str] | None = None,
    coords: Mapping[str, Array] | Sequence[Array | None] | None = None,
    periodic: Periodic | None = None,
    bounds: Mapping[str, Array] | None = None,
    variable: str | None = None,
    lazily: bool = False,
) -> Gridded:
    """What a caller holds, with its place and labels; labels that are given twice are refused.

    Files and DataArrays `lazily` stay where they are. ``labels.missing`` says what gaps become
    unless the caller says otherwise: they stay where samples have labels, and are filled in bare
    arrays.
    """
    if variable is not None and not is_path(values):
        got = f"variable={variable!r} for a {type(values).__name__}"
        raise TypeError(f"`variable` names an array in a file; got {got}. Leave it out.")
    values = values if is_array(values) else from_image(values)
    if not (is_path(values) or is_xarray(values) or isinstance(values, Gridded)):
        around = () if periodic is None else periodic
        made = _from_array(values, channel_axis, dims, coords, around)
        return replace(made, bounds=by_name("bounds", bounds))
    for name, own in (("dims", dims), ("coords", coords)):
        if own is not None:
            raise TypeError(f"`{name}` comes from {_label_source(values)}.")
    samples = samples_of(values, channel_axis, variable, lazily)
    labels, cells = replace(samples.labels, missing="nan"), dict(samples.bounds)
    for name, b in by_name("bounds", bounds).items():
        cells[name] = coordinates_in(b, labels.axis(name))
    periods = samples.periods
    if periodic is not None:
        called: tuple[Any, ...] = samples.dims
        if is_xarray(values) and not is_dataset(values):  # its dims may be numbers
            called = tuple(d for d in values.dims if str(d) in samples.dims)
        periods = {samples.dims[k]: p for k, p in periods_of(periodic, called).items()}
    return replace(samples, labels=labels, bounds=cells, periods=periods)


def _from_array(
    values: Array, channel_axis: Any, dims: Any, coords: Any, periodic: Periodic
) -> Gridded:
    """An array, which knows nothing of itself, with what the caller says of it."""
    labels = Labels()
    shape = values.shape if hasattr(values, "shape") else array("values", values).shape
    n = len(shape)
    every = [str(name) for name in entries(dims) or ()]
    if isinstance(channel_axis, str) and len(every) != n:
        raise ValueError(
            f"`channel_axis` names a dim, {channel_axis!r}, and an array has none: `dims` must "
            f"name all {n} axes, channels too; got {dims!r}. Or give its number."
        )
    is_plain = channel_axis is None and dims is None and coords is None
    if is_plain and n == 3 and shape[-1] in (3, 4) and min(shape[:2]) >= PICTURE_MIN_SIDE:
        warnings.warn(
            f"an array of shape {shape} looks like a picture in colour, but its last axis is taken "
            "as one of space. Say channel_axis=-1 if it holds colours; give dims=(...) to name "
            "three axes of space.",
            ChannelWarning,
            stacklevel=4,
        )
    if every and channel_axis is not None and len(every) == n:
        k = axis_number(channel_axis, every)
        labels = Labels(channels=ChannelLabels(name=every[k]))
        channel_axis, dims = k, every[:k] + every[k + 1 :]
    if is_integer(channel_axis) and -n <= channel_axis < n:
        channel_axis = int(channel_axis) % n
    names = names_of(dims, n - (channel_axis is not None))
    at = dict(zip(names, coords_by_axis(coords, names)))
    return Gridded(
        values=values,
        dims=names,
        coords={name: c for name, c in at.items() if c is not None},
        channel_axis=channel_axis,
        periods={names[k]: p for k, p in periods_of(periodic, names).items()},
        labels=labels,
    )


def samples_of(
    values: Array, channel_axis: Any = None, variable: str | None = None, lazily: bool = False
) -> Gridded:
    """Anything that is not a field as gridded samples."""
    values = from_image(values)
    if is_dataset(values):
        if channel_axis is not None:
            raise TypeError(
                "`channel_axis` is for one array; the variables of a Dataset are its channels. Fit "
                f"one of them: dataset[{str(next(iter(values.data_vars), 'name'))!r}]."
            )
        return from_dataset(values)
    if is_xarray(values):
        return from_dataarray(values, channel_axis=channel_axis, lazily=lazily)
    if isinstance(values, Gridded):
        samples = values
    elif is_path(values):
        samples = read(values, variable=variable, lazily=lazily)
    else:
        array = to_numpy(with_nan(values))
        samples = Gridded(values=array, dims=names_of(None, array.ndim))
    return samples if channel_axis is None else samples.with_channels(channel_axis)


def _label_source(values: object) -> str:
    """Who says what the axes are called, and what to do about it."""
    if is_xarray(values) and not is_dataset(values):
        return "the DataArray itself; rename or assign there"
    if is_path(values):
        return "the file itself; fit the bare array instead: np.asarray(read(path))"
    return "the samples themselves; fit the bare array instead: np.asarray(samples)"


def encoder_for(
    given: Gridded, settings: Settings | None, partition: Partition | None = None
) -> Encoder:
    """An encoder for samples like these; errors about dates say dates."""
    about: dict[str, Any] = {"dims": given.dims, "coords": given.coords, "periodic": given.periods}
    if given.labels.samples == "means":
        about["bounds"] = {n: b for n, b in given.bounds.items() if n not in given.places}
    with date_errors(given.labels.axes):
        shape, k = given.values.shape, given.channel_axis
        return encoder(shape, settings, channel_axis=k, partition=partition, **about)


def on_mesh(made: Field, given: Gridded, fold: Fold | None = None) -> Field:
    """The field on the mesh where samples lie on one."""
    if not given.places:
        return made
    (a, b), (y, x) = given.places, given.places.values()
    made = made if fold is None else fold.crop(made, len(y))
    how: Any = {"is_map": given.is_map, "fold": fold, "corners": given.corners}
    return replace(curvilinear(made, y, x, **how), names=(a, b))


# --- DataArrays and Datasets ----------------------------------------------------------------------


def is_xarray(values: object) -> bool:
    """Whether `values` is a DataArray or a Dataset; does not import xarray to find out."""
    library = sys.modules.get("xarray")
    return library is not None and isinstance(values, (library.DataArray, library.Dataset))


def is_dataset(values: object) -> bool:
    """Whether `values` is a Dataset."""
    return is_xarray(values) and hasattr(values, "data_vars")


def from_dataarray(
    da: "xarray.DataArray",
    *,
    channel_axis: Hashable = None,
    lazily: bool = False,
    bounds: Mapping[str, Array] | None = None,
) -> Gridded:
    """A DataArray as gridded samples.

    Parameters
    ----------
    da : xarray.DataArray
        Dims become axes, in their order; their coordinates may be numbers (evenly spaced or not,
        rising or falling), dates or durations.
    channel_axis : optional
        The dim, by name or number, that holds channels rather than space; by default "band" or
        "channel".
    lazily : bool
        Leave the numbers where they are: in a file, or in a Dask array.
    bounds : mapping, optional
        Borders of cells, as a Dataset has them, by coordinate.
    """
    if channel_axis is None and da.ndim > 1:
        channel_axis = next((d for d in da.dims if d in CHANNEL_DIMS), None)
    channel = None if channel_axis is None else axis_number(channel_axis, da.dims)
    da = da.rename({d: str(d) for d in da.dims if not isinstance(d, str)})
    every = list(map(str, da.dims))
    names = tuple(d for k, d in enumerate(every) if k != channel)
    coords: dict[str, Floats] = {}
    axes: dict[str, AxisLabels] = {}
    periods: dict[str, float | None] = {}
    for name in names:
        if name not in da.coords:
            continue
        da = _without_repeat(da, name)
        c = da.coords[name]
        coords[name], axes[name] = _coordinate(name, np.asarray(c.values), keepable(c.attrs))
        if is_circle(name, coords[name], c.attrs):
            periods[name] = 360.0
    places, goes_round = cf.mesh_of(da, names)
    axes |= {name: AxisLabels(attrs=keepable(da.coords[name].attrs)) for name in places}
    if goes_round:
        periods[names[-1]] = None
    gaps, methods = cf.gaps_of(da), da.attrs.get("cell_methods")
    labels = Labels(
        name=None if da.name is None else str(da.name),
        align="nodes",
        attrs=keepable(
            {k: v for k, v in da.attrs.items() if not (gaps.is_stored and k in cf.FILLS)}
        ),
        axes=axes,
        crs=cf.crs_of(da),
        fill_value=gaps.fill,
        dtype=da.dtype.name if gaps.is_stored and da.dtype.kind in "iu" else None,
        encoding=_encoding(da, gaps),
        samples=cf.kind_of_samples(methods, names, axes, names[-2:] if places else ()),
        coords=_other_coords(da, every),
        channels=_channel_labels(da, channel),
    )
    return Gridded(
        values=_values_of(da, gaps) if lazily else gaps.out_of(np.asarray(da.values)),
        dims=names,
        coords=coords,
        channel_axis=channel,
        periods=periods,
        labels=labels,
        places=places,
        bounds={
            n: cf.corners_of(n, places[n].shape, b) if n in places else coordinates_in(b, axes[n])
            for n, b in (bounds or {}).items()
            if n in coords or n in places
        },
    )


def from_dataset(ds: "xarray.Dataset") -> Gridded:
    """The variables of a Dataset, all on one grid, as channels of one array, which comes first.

    Raises
    ------
    ValueError
        If they have different dims, or there are none.
    """
    bounds, named = cf.bounds_of(ds)
    own = {str(k): v for k, v in ds.data_vars.items() if k not in named}
    numeric = {k: v for k, v in own.items() if v.dtype.kind in "biuf" and v.ndim}
    if not numeric:
        raise ValueError("a Dataset must hold at least one variable of real numbers; got none.")
    dims = {v.dims for v in numeric.values()}
    if len(dims) > 1:
        told = ", ".join(f"{k} {tuple(v.dims)}" for k, v in numeric.items())
        raise ValueError(
            f"variables that are fitted together must lie on one grid; got {told}. Choose some: "
            f"dataset[[{next(iter(numeric))!r}]]."
        )
    arrays = [from_dataarray(da, bounds=bounds) for da in numeric.values()]
    if arrays[0].channel_axis is not None:
        raise ValueError(
            "the variables of a Dataset are fitted as channels, and so is the dim "
            f"{arrays[0].channel_name!r}; a field has one axis of them. Fit one variable: "
            f"dataset[{next(iter(numeric))!r}]."
        )
    variables = {}
    for name, one in zip(numeric, arrays):
        known = one.values[~np.isnan(one.values)].astype(np.float64)
        spread = float(np.ptp(known)) if known.size else 0.0
        variables[name] = VariableLabels(attrs=one.labels.attrs, range=spread or 1.0)
    labels = replace(
        arrays[0].labels, name=None, attrs={}, variables=variables, file_attrs=keepable(ds.attrs),
        channels=ChannelLabels(name="variable", labels=list(variables)), crs=cf.crs_of(ds),
    )  # fmt: skip
    values = np.stack([one.values for one in arrays])
    return replace(arrays[0], values=values, channel_axis=0, labels=labels)


def _without_repeat(da: "xarray.DataArray", name: str) -> "xarray.DataArray":
    """A DataArray without the last longitude, if it is the first once more, a circle further."""
    c = da.coords[name]
    if c.dtype.kind not in "iuf":
        return da
    at = np.asarray(c.values, np.float64)
    if not is_circle(name, at[:-1], c.attrs) or abs(abs(at[-1] - at[0]) - 360) > 1e-3:
        return da
    first, last = (np.asarray(da.isel({name: k}).values) for k in (0, -1))
    if not np.array_equal(first, last, equal_nan=first.dtype.kind == "f"):
        return da
    warnings.warn(
        f"{name} {at[-1]:g} repeats {at[0]:g}: the repeated samples are left out, and the axis is "
        "taken to go round.",
        stacklevel=5,
    )
    return da.isel({name: slice(None, -1)})


def _values_of(da: "xarray.DataArray", gaps: cf.Gaps) -> Array:
    """The numbers of a DataArray where they are; in memory, if they are there."""
    if da.chunks is not None or isinstance(da.variable._data, np.ndarray):
        return gaps.out_of(da.data)
    stored = da.encoding.get("chunksizes") or da.encoding.get("chunks") or ()
    chunk = tuple(stored) if len(stored) == da.ndim else None
    return Lazy(partial(_slab_of, da, gaps), da.shape, gaps.dtype(da.dtype), stored=chunk)


def _slab_of(da: "xarray.DataArray", gaps: cf.Gaps, slab: tuple[slice, ...]) -> Array:
    """Samples of a DataArray that lies in a file."""
    return gaps.out_of(np.asarray(da.isel(dict(zip(da.dims, slab))).values))


def _encoding(da: "xarray.DataArray", gaps: cf.Gaps) -> Attrs:
    """How a file holds the numbers of a DataArray, as far as that suits other ones."""
    own = {k: v for k, v in da.encoding.items() if k in cf.ENCODED}
    if gaps.is_stored:
        own |= {"_FillValue": gaps.fill, "dtype": da.dtype}
    return keepable({k: str(np.dtype(v)) if k == "dtype" else v for k, v in own.items()})


def _channel_labels(da: "xarray.DataArray", channel: int | None) -> ChannelLabels:
    """What is known about a DataArray's dim of channels."""
    name = ChannelLabels.name if channel is None else str(da.dims[channel])
    if channel is None or name not in da.coords:
        return ChannelLabels(name=name)
    c = da.coords[name]
    return ChannelLabels(name=name, attrs=keepable(c.attrs), **keepable({"labels": list(c.values)}))


def _coordinate(name: str, c: Array, attrs: Attrs) -> tuple[Floats, AxisLabels]:
    """Coordinates as numbers, and how to get back."""
    about, first = AxisLabels(attrs=attrs, dtype=str(c.dtype)), c.reshape(-1)[:1]
    if c.dtype.kind == "M":
        about = replace(about, epoch=first[0])
    elif c.dtype.kind == "m":
        about = replace(about, duration=True)
    elif c.dtype.kind == "O" and hasattr(next(iter(first), None), "calendar"):  # cftime's
        epoch = first[0].isoformat().split(".")[0]
        about = replace(about, epoch=epoch, calendar=str(first[0].calendar))
    elif c.dtype.kind not in "iuf":
        raise TypeError(
            f"coordinates of dim {name!r} must be numbers, dates or durations; got {c.dtype}. "
            f"If they name channels, pass channel_axis={name!r}; else drop them: "
            f"da.drop_vars({name!r})."
        )
    # Single-precision coordinates stay so: how even they are is judged by their own rounding.
    at = c if c.dtype == np.float32 else coordinates_in(c, about)
    return at, add_ticks(about, at, c) if c.dtype.kind in "iuMm" else about


def _other_coords(da: "xarray.DataArray", dims: list[str]) -> dict[str, CoordinateLabels]:
    """Coordinates that are no axis: scalars, and short ones along the dims."""
    kept: dict[str, CoordinateLabels] = {}
    for name, c in da.coords.items():
        if name not in dims and c.size <= COORD_MAX_SIZE and keepable({"values": c.values}):
            own, attrs = list(map(str, c.dims)), keepable(c.attrs)
            kept[str(name)] = CoordinateLabels(dims=own, values=c.values, attrs=attrs)
    return kept


def is_circle(name: str, at: Floats, attrs: Attrs) -> bool:
    """Whether an axis is a longitude whose samples cover the circle evenly, once."""
    if not is_longitude(name, attrs) or len(at) < 4:
        return False
    step = step_of(at)
    even = np.max(np.abs(np.diff(at.astype(np.float64)) - step)) < 1e-3 * abs(step)
    return bool(even and abs(abs(step) * len(at) - 360) < 1e-3 * abs(step))


def to_xarray(samples: Gridded) -> XArray:
    """Gridded samples as a DataArray, or the Dataset whose variables are their channels."""
    at, labels = [samples.coords.get(name) for name in samples.dims], samples.labels
    made = make_dataarray(samples.values, samples.dims, at, samples.channel_axis, labels)
    return split_variables(made, labels)
