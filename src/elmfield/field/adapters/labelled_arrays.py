"""A field as labelled arrays: positions by xarray's rules in, DataArrays and Datasets out.

xarray is imported when one of its containers is asked for. Dims and coordinates of
results are decided here, values come from the field.
"""

import warnings
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Union

import numpy as np

from elmfield._array.backend import is_array, to_numpy
from elmfield._array.checks import array, choice, shown
from elmfield._array.typing import Array, Floats
from elmfield.domain.sphere import is_latitude, is_longitude
from elmfield.errors import need
from elmfield.field.coordinates.labels import Attrs, Labels, coordinates_in, coordinates_out
from elmfield.field.coordinates.output_positions import mark_outside, shows_gaps, whole_dtype
from elmfield.field.coordinates.parse import check_names, own_coords, own_samples
from elmfield.field.coordinates.units import derivative_labels
from elmfield.field.grid_values import LazyGrid, at_samples, gridded, to_dask
from elmfield.field.point_values import QUANTITIES, query

if TYPE_CHECKING:
    import xarray

    from elmfield.field.model import Model

BAND_DEVIATIONS = 2.0
"""Half the width of a band around a line, in standard deviations."""

XArray = Union["xarray.DataArray", "xarray.Dataset"]
"""What is made of one variable, or of those of a Dataset."""

DIRECTIONS = ("direction", "direction_2")
"""Dims along which components of derivatives lie."""


def make_dataarray(
    values: Array,
    names: Sequence[str],
    coordinates: Sequence[Floats | None],
    channel_axis: int | None,
    labels: Labels,
    moved: Sequence[str] = (),
) -> "xarray.DataArray":
    """An xarray.DataArray of gridded values.

    Parameters
    ----------
    values : array
        With channels, if any, on axis `channel_axis`.
    names, coordinates : sequences
        Of the other axes, in array order; None for an axis that only counts.
    channel_axis : int or None
        Where the channels are.
    labels : Labels
        What is known about them.
    moved : sequence of str
        Axes that are not at the samples' own positions; other coordinates on them are left out.
    """
    dims: list[str] = list(names)
    coords: dict[str, Any] = {}
    for name, c in zip(names, coordinates):
        if c is not None:
            axis = labels.axis(name)
            coords[name] = (name, coordinates_out(c, axis), dict(axis.attrs))
    if channel_axis is not None:
        channels, label = labels.channels, channel_dim(labels, dims)
        dims.insert(channel_axis, label)
        if len(channels.labels) == values.shape[channel_axis]:
            coords[label] = (label, np.asarray(channels.labels), dict(channels.attrs))
    for name, other in labels.coords_off(moved).items():
        if name not in coords and name not in dims and set(other.dims) <= set(dims):
            kept = np.asarray(other.values)
            if kept.shape == tuple(values.shape[dims.index(k)] for k in other.dims):
                coords[name] = (tuple(other.dims), kept, dict(other.attrs))
    xarray, attrs = need("xarray", "xarray", "to_xarray"), dict(labels.attrs)
    found = xarray.DataArray(values, coords=coords, dims=dims, name=labels.name, attrs=attrs)
    return with_encoding(found, labels)


def with_encoding(found: "xarray.DataArray", labels: Labels) -> "xarray.DataArray":
    """A DataArray that says which number stands for a missing one, and how a file held it.

    Whole numbers hold that number themselves; floats are NaN there, and a file of them has it.
    """
    fill, whole = labels.fill_value, found.dtype.kind in "iu"
    if whole and fill is not None and np.isfinite(fill):
        found.attrs["_FillValue"] = np.asarray(fill).astype(found.dtype)[()]
    elif found.dtype.kind == "f":
        found.encoding.update(labels.encoding)
        if fill is not None:
            found.encoding["_FillValue"] = fill
    return found


def channel_dim(labels: Labels, dims: Sequence[str]) -> str:
    """Name of the dim of channels, different from those of the axes."""
    label = labels.channels.name
    while label in dims:
        label += "_"
    return label


def split_variables(array: "xarray.DataArray", labels: Labels) -> XArray:
    """A DataArray as it is, or as the Dataset whose variables were fitted as its channels."""
    if not labels.variables:
        return array
    found = {}
    for k, (name, about) in enumerate(labels.variables.items()):
        one = array.isel({labels.channels.name: k}, drop=True)
        one.attrs = dict(about.attrs)
        found[name] = one.rename(name)
    make = need("xarray", "xarray", "a Dataset").Dataset
    whole: xarray.Dataset = make(found, attrs=dict(labels.file_attrs))
    return whole


def interpolate(
    model: "Model",
    coords: Mapping[str, Array],
    quantity: str,
    outside: str,
    missing: str | None,
    chunks: object = None,
    bounds: str = "domain",
    method: str | None = None,
    kwargs: Attrs | None = None,
    std: bool = False,
) -> XArray:
    """A quantity of a field at `coords`; see `Field.interp`."""
    choice("quantity", quantity, QUANTITIES)
    if choice("std", std, (True, False)):
        return _with_std(model, coords, quantity, outside, missing, chunks, bounds, method, kwargs)
    gaps = shows_gaps(model, missing)
    if method is not None:
        if quantity != "value" or chunks is not None:
            raise ValueError("`method` is for values in memory; leave `quantity`, `chunks` out.")
        own: Any = interpolate(model, {}, quantity, outside, missing)
        found: XArray = own.interp(dict(coords), method=method, kwargs=kwargs)
        return found
    if choice("bounds", bounds, ("domain", "nan")) == "nan" or is_nan_outside(kwargs):
        outside = "nan"

    def on_grid(columns: list[Array]) -> Array:
        if not coords and quantity == "value" and chunks is None:
            # Whole numbers as they were, if a number among them stands for a missing one.
            kind = whole_dtype(model, missing) if model.labels.dtype is not None else None
            return to_numpy(at_samples(model, own_samples(model.domain), kind, gaps=gaps))
        x, beyond = model.coordinates.columns(tuple(columns), outside)
        if chunks is not None:
            lazy = LazyGrid(model, x if coords else None, beyond, quantity, None, gaps)
            return to_dask(lazy, chunks)
        found = gridded(model, x, None, quantity, gaps=gaps)
        return to_numpy(mark_outside(found, beyond, model.channel_axis))

    def call(points: Array) -> Array:
        if chunks is not None:
            raise ValueError("`chunks` needs coords that span a grid: one line of them per axis.")
        return query(model, quantity, points, outside, missing)

    return evaluate_at_labels(
        model, coords, quantity, call, on_grid=on_grid, directions=model.domain.dims, bounds=bounds
    )


def is_nan_outside(kwargs: Attrs | None) -> bool:
    """Whether the `kwargs` of xarray's interp ask for NaN outside; no other number is made."""
    if "fill_value" not in (kwargs or {}):
        return False
    fill = dict(kwargs or {})["fill_value"]
    told = np.asarray(np.nan if fill is None else fill)
    if told.dtype.kind not in "iufc" or not np.isnan(told).all():
        raise ValueError(f"`fill_value` must be NaN; got {fill!r}. Say outside='nearest'.")
    return True


def coordinates_like(names: Iterable[object], other: Any) -> Any:
    """Coordinates of a labelled array or Dataset by those names that it has too, without texts.

    Anything else comes back as it is.
    """
    if not hasattr(other, "coords"):
        return other
    at = {str(n): other.coords[n] for n in names if n in other.coords}
    return {n: c for n, c in at.items() if c.dtype.kind in "biufmM" or _is_date(c)}


def _is_date(c: Any) -> bool:
    return bool(c.dtype.kind == "O" and c.size and hasattr(c.values.flat[0], "calendar"))


def evaluate_at_labels(
    model: "Model",
    coords: Mapping[str, Array],
    quantity: str,
    call: Callable[[Array], Array],
    *,
    on_grid: Callable[[list[Array]], Array] | None = None,
    directions: Sequence[str] = (),
    units: Callable[[str | None], str | None] | None = None,
    is_scalar: bool = False,
    bounds: str = "domain",
) -> XArray:
    """What `call` gives at positions by xarray's rules, labelled.

    Parameters
    ----------
    field : Field
        Whose axes and attributes these are.
    coords : mapping
        Positions by dim.
    quantity : str
        What it is called.
    call, on_grid : callables
        Values at points (..., d); on the grid of one column per axis, where that is cheaper, on the
        host or as a Dask array.
    directions : sequence of str
        What components are called.
    units : callable, optional
        The unit of the result, from that of the field.
    is_scalar : bool
        Whether the channels have become one number.
    bounds : {"domain", "nan"}
        Whether positions beyond the outermost samples are asked, or are NaN.
    """
    xarray = need("xarray", "xarray", "labelled results")
    check_names("coords", coords, model.domain.dims)
    given = {name: _variable(model, name, c) for name, c in coords.items()}
    mine = dict(zip(model.domain.dims, own_coords(model.domain)))
    if bounds == "nan":
        for a in model.domain.axes:
            if a.name in given and a.period is None:
                target, v = given[a.name]
                inside = (v.values >= mine[a.name].min()) & (v.values <= mine[a.name].max())
                given[a.name] = target, v.copy(data=np.where(inside, v.values, np.nan))
    shell = xarray.Dataset(coords={n: (n, c) for n, c in mine.items()})  # numbers on every axis
    own = {name: shell[name].variable for name in model.domain.dims if name not in given}
    at = {name: given[name][1] if name in given else own[name] for name in model.domain.dims}
    sizes: dict[Hashable, tuple[int, str]] = {}
    for name, v in at.items():
        for dim, n in v.sizes.items():
            if sizes.setdefault(dim, (n, name))[0] != n:
                raise ValueError(
                    f"positions that share dim {dim!r} must be as many; got {sizes[dim][0]} on "
                    f"axis {sizes[dim][1]!r} and {n} on axis {name!r}."
                )
    values, dims = _values_and_dims(model, at, call, on_grid, is_scalar)
    found = _coords_of(model, shell, {name: target for name, (target, _) in given.items()})
    parts, about = {d: (d, list(directions)) for d in DIRECTIONS if d in dims}, model.labels
    if is_scalar:  # of a vector, whose components have one unit
        found = found.drop_vars(channel_dim(about, model.domain.dims), errors="ignore")
        first = next((v.attrs for v in about.variables.values()), about.attrs)
        about = replace(about, variables={}, attrs=first, name=quantity)
    if quantity != "value":
        own_dims = model.domain.dims
        about = derivative_labels(about, quantity, own_dims, units, has_parts=bool(parts))
    attrs = dict(about.attrs) | ({"long_name": quantity} if is_scalar else {})
    every = dict[Hashable, Any](found.coords) | parts
    array = xarray.DataArray(values, coords=every, dims=dims, name=about.name, attrs=attrs)
    return split_variables(with_encoding(array, about) if quantity == "value" else array, about)


def as_variable(name: str, given: Array) -> Array:
    """Positions that a caller gives for an axis, a DataArray or a Variable, with their dims."""
    xarray = need("xarray", "xarray", "labelled positions")
    if isinstance(given, tuple) and len(given) == 2 and isinstance(given[0], (str, list, tuple)):
        return xarray.Variable(*given)
    if isinstance(given, (xarray.DataArray, xarray.Variable)):
        return given
    values = to_numpy(given) if is_array(given) else array(name, given)
    if values.ndim > 1:
        raise ValueError(
            f"positions have {values.ndim} axes, {values.shape}, without names. Give a DataArray, "
            "whose dims say what they are."
        )
    return xarray.Variable((name,) * values.ndim, values)


def _variable(model: "Model", name: str, given: Array) -> "tuple[Array, xarray.Variable]":
    """What a caller gives for an axis: to label with, and in the numbers the axis counts in."""
    import xarray

    about = model.labels.axis(name)
    try:
        target = as_variable(name, given)
        if not target.size or target.dtype.kind == "b":
            raise ValueError(f"positions must be numbers, at least one; got {shown(given)}.")
        numbers = coordinates_in(np.asarray(target.values), about)
    except (TypeError, ValueError) as error:
        raise type(error)(f"on axis {name!r}, {error}") from error
    if target.dtype.kind in "USO" or (about.epoch is not None and target.dtype.kind in "if"):
        target = target.copy(data=coordinates_out(numbers, about))  # dates as the axis has them
    return target, xarray.Variable(target.dims, numbers)


def _values_and_dims(
    model: "Model",
    at: Mapping[str, "xarray.Variable"],
    call: Callable[[Array], Array],
    on_grid: Callable[[list[Array]], Array] | None,
    is_scalar: bool,
) -> tuple[Array, list[Hashable]]:
    """Values, and the dims they have: the axes' in turn, with channels where the input had them."""
    space = {d: n for v in at.values() for d, n in v.sizes.items()}
    channel = None if is_scalar else model.channel_axis
    spans = sum(v.ndim for v in at.values()) == len(space) and all(v.ndim < 2 for v in at.values())
    if spans and on_grid is not None:
        values = on_grid([np.atleast_1d(v.values) for v in at.values()])
        if channel is not None:
            values = np.moveaxis(values, channel, len(at))
        values = values.squeeze(axis=tuple(k for k, v in enumerate(at.values()) if not v.ndim))
    else:
        columns = [np.asarray(v.set_dims(space).transpose(*space).values) for v in at.values()]  # type: ignore[no-untyped-call]
        values = np.asarray(to_numpy(call(np.stack(columns, axis=-1))))
    dims, label = list(space), channel_dim(model.labels, model.domain.dims)
    if channel is not None:
        dims.append(label)
    dims += DIRECTIONS[: values.ndim - len(dims)]
    if channel is not None:  # after the dims of the axes that stood before it
        before = {d for name in model.domain.dims[:channel] for d in at[name].dims}
        values = np.moveaxis(values, dims.index(label), len(before))
        dims.remove(label)
        dims.insert(len(before), label)
    return values, dims


def _coords_of(
    model: "Model", shell: "xarray.Dataset", targets: Mapping[str, Array]
) -> "xarray.Dataset":
    """Coordinates of the result, as xarray's own `interp` of them gives them."""
    own = own_samples(model.domain)
    sizes = [len(o) for o in own]
    if model.channel_axis is not None:
        sizes.insert(model.channel_axis, model.n_channels)
    shown = [
        None if a.coords is None and len(o) == a.size else shell[a.name].values
        for a, o in zip(model.domain.axes, own)
    ]
    moved = [a.name for a, o in zip(model.domain.axes, own) if len(o) < a.size]
    whole = make_dataarray(
        np.broadcast_to(np.zeros(()), sizes),
        model.domain.dims, shown, model.channel_axis, model.labels, moved,
    )  # fmt: skip
    kept = whole.coords.to_dataset()
    counted = [name for name, c in zip(model.domain.dims, shown) if c is None]
    kept = kept.assign_coords({n: (n, shell[n].values) for n in counted if n in targets})
    if targets:
        with warnings.catch_warnings():  # of positions that are NaN
            warnings.simplefilter("ignore", RuntimeWarning)
            kept = kept.interp(dict(targets))
    for name in targets:
        if name in kept.coords and not kept[name].attrs:
            kept[name].attrs.update(model.labels.axis(name).attrs)
    return kept


def plot_array(array: XArray, ax: Any, options: dict[str, Any]) -> Any:
    """An array drawn as xarray draws it; on a map, if it has latitudes and longitudes."""
    import xarray

    pyplot = need("matplotlib.pyplot", "show", "plot")
    if isinstance(array, xarray.Dataset):
        raise ValueError(
            f"a plot shows one variable; say which of {list(array.data_vars)}: field[name].plot()."
        )
    array = array.squeeze()
    if array.ndim > 2 and not {"row", "col", "hue", "rgb"} & set(options):
        raise ValueError(
            f"a plot has one or two axes; got {list(array.dims)}. Choose a slice, for instance "
            f"plot({{{str(array.dims[0])!r}: ...}})."
        )
    told = [(str(d), array.coords[d].attrs if d in array.coords else {}) for d in array.dims]
    is_map = any(is_latitude(*t) for t in told) and any(is_longitude(*t) for t in told)
    if ax is None and array.ndim == 2 and is_map:
        try:
            import cartopy.crs

            ax = pyplot.axes(projection=cartopy.crs.PlateCarree())
            ax.coastlines()
            options.setdefault("transform", cartopy.crs.PlateCarree())
        except ImportError:
            pass
    return array.plot(ax=ax, **options) if ax is not None else array.plot(**options)


def _with_std(
    model: "Model", coords: Mapping[str, Array], quantity: str, *how: Any
) -> "xarray.Dataset":
    """Values and their standard deviations as variables of one Dataset, named as CF has it."""
    import xarray

    if quantity != "value":
        raise ValueError(f"`std` is of values; got quantity={quantity!r}.")
    pair = [interpolate(model, coords, q, *how) for q in ("value", "std")]
    whole, sure = (
        a.to_dataset(name=str(a.name or "value")) if isinstance(a, xarray.DataArray) else a
        for a in pair
    )
    for name in list(whole.data_vars):
        whole[name].attrs["ancillary_variables"] = f"{name}_std"
        whole[f"{name}_std"] = sure[name]
    return whole


def draw_band(drawn: Any, both: "xarray.Dataset") -> Any:
    """A line that was drawn, with a band of standard deviations around it."""
    mean, deviation = (np.asarray(a.squeeze().values) for a in both.data_vars.values())
    if mean.ndim != 1:
        raise ValueError(
            f"`std` draws a band around a line; got axes {list(both.dims)}. Choose a slice, or "
            "plot(quantity='std')."
        )
    x, off = drawn[0].get_xdata(), BAND_DEVIATIONS * deviation
    drawn[0].axes.fill_between(x, mean - off, mean + off, alpha=0.25, linewidth=0)
    return drawn
