"""What a caller holds: numbers alone, or numbers with dims, coords and attributes.

Arrays of any library, DataArrays, Gridded samples and paths enter; an array and its place leave.
"""

import warnings
from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from elmfield._array.backend import to_numpy
from elmfield._array.typing import Array
from elmfield.errors import ChannelWarning
from elmfield.io.dataarrays import from_dataarray, from_dataset, is_dataarray, is_dataset
from elmfield.io.files import is_path, opened, read
from elmfield.io.gridded import Gridded, axis_number, plain_grid
from elmfield.samples import with_nan

COLOURED = 16
"""Rows and columns from which an array of three or four layers looks like a picture in colour."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Given:
    """An array and what the pipeline asks about it."""

    values: Array
    channel_axis: int | None
    dims: Sequence[str] | None
    coords: Any
    periodic: Any
    attributes: Mapping[str, Any]
    missing: str


def given_as(
    values: Any,
    channel_axis: Any,
    dims: Any,
    coords: Any,
    periodic: Any,
    variable: str | None,
    lazily: bool = False,
) -> Given:
    """What a caller holds, as an array and its place; labels that are given twice are refused.

    Files and DataArrays `lazily` stay where they are.
    """
    if variable is not None and not is_path(values):
        raise TypeError(
            f"`variable` names an array in a file; got variable={variable!r} for a "
            f"{type(values).__name__}. Leave it out."
        )
    if is_dataset(values):
        if channel_axis is not None:
            raise TypeError(
                f"`channel_axis` is for one array; the variables of a Dataset are its channels. "
                f"Fit one of them: dataset[{_first(values)!r}]."
            )
        values = from_dataset(values)
    if not (is_path(values) or is_dataarray(values) or isinstance(values, Gridded)):
        return _bare(values, channel_axis, dims, coords, periodic)
    for name, own in (("dims", dims), ("coords", coords)):
        if own is not None:
            raise TypeError(f"`{name}` comes from {_told_by(values)}.")
    known = {} if not is_dataarray(values) else {d: str(d) for d in values.dims}
    samples = samples_of(values, channel_axis, variable, lazily)
    return Given(
        values=samples.values,
        channel_axis=samples.channel_axis,
        dims=samples.dims,
        coords=samples.coords,
        periodic=samples.periods if periodic is None else _as_names(periodic, known),
        attributes=dict(samples.attributes),
        missing="nan",
    )


def _bare(values: Any, channel_axis: Any, dims: Any, coords: Any, periodic: Any) -> Given:
    """An array, which knows nothing of itself."""
    attributes: dict[str, Any] = {}
    if isinstance(channel_axis, str) and dims is None:
        raise ValueError(
            f"`channel_axis` names a dim, {channel_axis!r}, and an array has none. Give its "
            "number, or the names of all axes: dims=(...)."
        )
    if channel_axis is None and dims is None and coords is None:
        _ask_about_colours(np.shape(values))
    every = None if dims is None else [str(name) for name in dims]
    if every is not None and channel_axis is not None and len(every) == np.ndim(values):
        k = axis_number(channel_axis, every)
        attributes = {"channels": {"name": every[k]}}
        channel_axis, dims = k, every[:k] + every[k + 1 :]
    elif every is not None and isinstance(channel_axis, str):
        raise ValueError(
            f"`dims` must name all {np.ndim(values)} axes, channels too, where `channel_axis` is a "
            f"name; got {tuple(every)!r} and channel_axis={channel_axis!r}."
        )
    return Given(
        values=values,
        channel_axis=channel_axis,
        dims=dims,
        coords=coords,
        periodic=() if periodic is None else periodic,
        attributes=attributes,
        missing="fill",
    )


def _ask_about_colours(shape: tuple[int, ...]) -> None:
    """Warn if an array looks like a picture in colour, whose colours would be taken as an axis."""
    if len(shape) == 3 and shape[-1] in (3, 4) and min(shape[:2]) >= COLOURED:
        warnings.warn(
            f"an array of shape {shape} looks like a picture in colour, but its last axis is taken "
            "as one of space. Say channel_axis=-1 if it holds colours; give dims=(...) to name "
            "three axes of space.",
            ChannelWarning,
            stacklevel=5,
        )


def samples_of(
    values: Any, channel_axis: Any = None, variable: str | None = None, lazily: bool = False
) -> Gridded:
    """Anything that is not a field as gridded samples."""
    if is_dataarray(values):
        return from_dataarray(values, channel_axis=channel_axis, lazily=lazily)
    if is_dataset(values):
        return from_dataset(values)
    samples: Gridded
    if isinstance(values, Gridded):
        samples = values
    elif is_path(values):
        samples = (opened if lazily else read)(values, variable=variable)
    else:
        array = to_numpy(with_nan(values))
        samples = plain_grid(array, [f"axis{k}" for k in range(array.ndim)])
    return samples if channel_axis is None else samples.with_channels(channel_axis)


@contextmanager
def telling_dates(attributes: Mapping[str, Any]) -> Iterator[None]:
    """Messages about the period of an axis of dates say how to give one."""
    try:
        yield
    except ValueError as error:
        for name, about in attributes.get("axes", {}).items():
            if about.get("epoch") is not None and f"axis {name!r}" in str(error):
                raise ValueError(
                    f"{error} It is an axis of dates, which count seconds: "
                    f"periodic={{{name!r}: numpy.timedelta64(365, 'D')}}, for instance."
                ) from error
        raise


def _as_names(periodic: Any, known: Mapping[Hashable, str]) -> Any:
    """`periodic` with the dims of a DataArray, which may be numbers too, as names of axes."""
    if isinstance(periodic, Mapping):
        return {known.get(k, k): v for k, v in periodic.items()}
    if isinstance(periodic, (str, int, np.integer)):
        return known.get(periodic, periodic)
    return [known.get(k, k) for k in periodic]


def _told_by(values: Any) -> str:
    """Who says what the axes are called, and what to do about it."""
    if is_dataarray(values):
        return "the DataArray itself; rename or assign there"
    if is_path(values):
        return "the file itself; fit the bare array instead: np.asarray(read(path))"
    return "the samples themselves; fit the bare array instead: np.asarray(samples)"


def _first(dataset: Any) -> str:
    return str(next(iter(dataset.data_vars), "name"))
