"""A field as labelled arrays: positions by xarray's rules in, DataArrays and Datasets out.

xarray is imported when one of its containers is asked for. Whose dims become whose is decided here;
what stands there is asked of the field.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from elmfield._array.backend import to_numpy
from elmfield._array.checks import choice
from elmfield._array.typing import Array
from elmfield.field.labels import (
    coordinates_in,
    coordinates_out,
    dataarray,
    derived,
    need_xarray,
    unstacked,
)
from elmfield.field.reading import own_samples

if TYPE_CHECKING:
    from elmfield.field.on_grids import OnGrids

QUANTITIES = ("value", "gradient", "hessian", "laplacian")
"""What can be asked at labelled positions."""

DIRECTIONS = ("direction", "direction_2")
"""Dims along which components of derivatives lie."""


def interpolated(
    field: "OnGrids",
    coords: Mapping[str, Any],
    quantity: str,
    outside: str,
    missing: str | None,
) -> Any:
    """A quantity of a field at `coords`; see `Field.interp`."""
    choice("quantity", quantity, QUANTITIES)
    calls: Any = {
        "value": field,
        "gradient": field.gradient,
        "hessian": field.hessian,
        "laplacian": field.laplacian,
    }
    call = calls[quantity]
    return at_labels(
        field,
        coords,
        quantity,
        lambda points: call(points, outside=outside, missing=missing),
        on_grid=None
        if quantity != "value"
        else lambda columns: field.grid(*columns, outside=outside, missing=missing),
        directions=field.domain.dims,
    )


def at_labels(
    field: "OnGrids",
    coords: Mapping[str, Any],
    quantity: str,
    call: Callable[[Array], Array],
    *,
    on_grid: Callable[[list[Array]], Array] | None = None,
    directions: Sequence[str] = (),
    units: Callable[[str | None], str | None] | None = None,
    is_scalar: bool = False,
) -> Any:
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
        Values at points (..., d); on the grid of one column per axis, where that is cheaper.
    directions : sequence of str
        What components are called.
    units : callable, optional
        The unit of the result, from that of the field.
    is_scalar : bool
        Whether the channels have become one number.
    """
    need_xarray("labelled results")
    unknown = sorted(set(map(str, coords)) - set(field.domain.dims))
    if unknown:
        raise ValueError(f"`coords` names {unknown}, but the axes are {list(field.domain.dims)}.")
    given = {name: _variable(field, name, c) for name, c in coords.items()}
    shell = _shell(field)
    own = {name: shell[name].variable for name in field.domain.dims if name not in given}
    at = {name: given[name][1] if name in given else own[name] for name in field.domain.dims}
    _same_lengths(at)
    values, dims = _evaluated(field, at, call, on_grid, is_scalar)
    found = _labels(field, shell, {name: target for name, (target, _) in given.items()})
    if is_scalar and _channel(field) in found.coords:
        found = found.drop_vars(_channel(field))
    return _dressed(field, values, dims, found, quantity, directions, units, is_scalar)


def _variable(field: "OnGrids", name: str, given: Any) -> tuple[Any, Any]:
    """What a caller gives for an axis: to label with, and in the numbers the axis counts in."""
    import xarray

    about = field.attributes.get("axes", {}).get(name, {})
    if isinstance(given, tuple) and len(given) == 2 and isinstance(given[0], (str, list, tuple)):
        given = xarray.Variable(*given)
    if isinstance(given, (xarray.DataArray, xarray.Variable)):
        target: Any = given
    else:
        values = np.asarray(to_numpy(given))
        if values.ndim > 1:
            raise ValueError(
                f"positions on axis {name!r} have {values.ndim} axes, {values.shape}, without "
                "names. Give a DataArray, whose dims say what they are."
            )
        target = xarray.Variable((name,) * values.ndim, values)
    try:
        numbers = coordinates_in(np.asarray(target.values), about)
    except (TypeError, ValueError) as error:
        raise type(error)(f"on axis {name!r}, {error}") from error
    if target.dtype.kind in "USO" or (about.get("epoch") is not None and target.dtype.kind in "if"):
        target = target.copy(data=coordinates_out(numbers, about))  # dates as the axis has them
    return target, xarray.Variable(target.dims, numbers)


def _shell(field: "OnGrids") -> Any:
    """An empty Dataset with the coordinates of the field's own samples, numbers on every axis."""
    import xarray

    own = own_samples(field.domain)
    at = [
        a.from_index(o.astype(float)) if a.coords is None else a.coords[o]
        for a, o in zip(field.domain.axes, own)
    ]
    return xarray.Dataset(coords={name: (name, c) for name, c in zip(field.domain.dims, at)})


def _same_lengths(at: Mapping[str, Any]) -> None:
    """Refuse dims that are longer on one axis than on another."""
    sizes: dict[Any, tuple[int, str]] = {}
    for name, v in at.items():
        for dim, n in v.sizes.items():
            if sizes.setdefault(dim, (n, name))[0] != n:
                raise ValueError(
                    f"positions that share dim {dim!r} must be as many; got {sizes[dim][0]} on "
                    f"axis {sizes[dim][1]!r} and {n} on axis {name!r}."
                )


def _evaluated(
    field: "OnGrids",
    at: Mapping[str, Any],
    call: Callable[[Array], Array],
    on_grid: Callable[[list[Array]], Array] | None,
    is_scalar: bool,
) -> tuple[Array, list[Any]]:
    """Values, and the dims they have: the axes' in turn, with channels where the input had them."""
    space: list[Any] = []
    for v in at.values():
        space += [d for d in v.dims if d not in space]
    channel = None if is_scalar else field.channel_axis
    spans = sum(v.ndim for v in at.values()) == len(space) and all(v.ndim < 2 for v in at.values())
    if spans and on_grid is not None:
        values = to_numpy(on_grid([np.atleast_1d(v.values) for v in at.values()]))
        if channel is not None:
            values = np.moveaxis(values, channel, -1)
        values = np.squeeze(values, axis=tuple(k for k, v in enumerate(at.values()) if not v.ndim))
    else:
        sizes = {d: n for v in at.values() for d, n in v.sizes.items()}
        whole = {d: sizes[d] for d in space}
        columns = [np.asarray(v.set_dims(whole).transpose(*space).values) for v in at.values()]
        values = np.asarray(to_numpy(call(np.stack(columns, axis=-1))))
    dims = list(space)
    if channel is not None:
        dims.append(_channel(field))
    dims += DIRECTIONS[: values.ndim - len(dims)]
    if channel is not None:  # after the dims of the axes that stood before it
        before: list[Any] = []
        for name in field.domain.dims[:channel]:
            before += [d for d in at[name].dims if d not in before]
        values = np.moveaxis(values, dims.index(_channel(field)), len(before))
        dims.remove(_channel(field))
        dims.insert(len(before), _channel(field))
    return values, dims


def _channel(field: "OnGrids") -> str:
    """What the dim of channels is called."""
    label = str(field.attributes.get("channels", {}).get("name", "channel"))
    while label in field.domain.dims:
        label += "_"
    return label


def _labels(field: "OnGrids", shell: Any, targets: Mapping[str, Any]) -> Any:
    """Coordinates of the result, as xarray's own `interp` of them gives them."""
    own = own_samples(field.domain)
    sizes = [len(o) for o in own]
    if field.channel_axis is not None:
        sizes.insert(field.channel_axis, field.n_channels)
    shown = [
        None if a.coords is None and len(o) == a.size else shell[a.name].values
        for a, o in zip(field.domain.axes, own)
    ]
    moved = [a.name for a, o in zip(field.domain.axes, own) if len(o) < a.size]
    whole = dataarray(
        np.broadcast_to(np.zeros(()), sizes),
        field.domain.dims, shown, field.channel_axis, field.attributes, moved,
    )  # fmt: skip
    kept = whole.coords.to_dataset()
    counted = [name for name, c in zip(field.domain.dims, shown) if c is None]
    kept = kept.assign_coords({n: (n, shell[n].values) for n in counted if n in targets})
    if targets:
        kept = kept.interp(dict(targets))
    about = field.attributes.get("axes", {})
    for name in targets:
        if name in kept.coords and not kept[name].attrs:
            kept[name].attrs.update(about.get(name, {}).get("attrs", {}))
    return kept


def _dressed(
    field: "OnGrids",
    values: Array,
    dims: list[Any],
    labels: Any,
    quantity: str,
    directions: Sequence[str],
    units: Callable[[str | None], str | None] | None,
    is_scalar: bool,
) -> Any:
    """A DataArray, or the Dataset of the variables that were fitted together."""
    import xarray

    attributes = dict(field.attributes)
    coords = dict(labels.coords)
    for dim in DIRECTIONS:
        if dim in dims:
            coords[dim] = (dim, list(directions))
    variables = attributes.get("variables", {})
    if is_scalar:  # of a vector, whose components have one unit
        attributes.pop("variables", None)
        first = next(iter(variables.values()), attributes)
        attributes |= {"attrs": first.get("attrs", {}), "name": quantity}
    attrs = dict(attributes.get("attrs", {}))
    if quantity != "value":
        attrs = derived(attributes, quantity, None if units is None else units(attrs.get("units")))
    if is_scalar:
        attrs["long_name"] = quantity
    array = xarray.DataArray(
        values, coords=coords, dims=dims, name=attributes.get("name"), attrs=attrs
    )
    return unstacked(array, attributes, quantity, units)


def plotted(array: Any, ax: Any, options: Mapping[str, Any]) -> Any:
    """An array drawn as xarray draws it; on a map, if it has latitudes and longitudes."""
    import xarray

    try:
        import matplotlib.pyplot
    except ImportError as error:
        raise ImportError("plot needs matplotlib; pip install 'elmfield[show]'.") from error
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
    options = dict(options)
    if ax is None and array.ndim == 2 and _is_map(array):
        try:
            import cartopy.crs

            ax = matplotlib.pyplot.axes(projection=cartopy.crs.PlateCarree())
            ax.coastlines()
            options.setdefault("transform", cartopy.crs.PlateCarree())
        except ImportError:
            pass
    return array.plot(ax=ax, **options) if ax is not None else array.plot(**options)


def _is_map(array: Any) -> bool:
    """Whether an array's dims are latitude and longitude."""
    from elmfield.domain.sphere import is_latitude, is_longitude

    told = [(str(d), array.coords[d].attrs if d in array.coords else {}) for d in array.dims]
    return any(is_latitude(*t) for t in told) and any(is_longitude(*t) for t in told)
