"""The door: arrays, DataArrays and files in; fields out, and files again. `fit`, `read`, `write`.

Here it is found out what a caller holds: numbers alone, or numbers with dims, coords and
attributes. The pipeline behind it sees arrays only.
"""

import os
import shutil
import tempfile
from collections.abc import Hashable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from elmfield._array.backend import as_dtype, to_device, to_numpy
from elmfield._array.memory import memory_limit as limited
from elmfield._array.progress import reporter
from elmfield._array.typing import Array, Progress
from elmfield.domain import Periodic
from elmfield.field import Field
from elmfield.fit import encoder
from elmfield.io.dataarrays import from_dataarray, is_dataarray, is_dataset
from elmfield.io.errors import NoSuchArrayError
from elmfield.io.formats.registry import NAMED, format_of, is_model, suffix_of
from elmfield.io.gridded import Gridded, axis_number, plain_grid
from elmfield.io.rendered import rendered
from elmfield.partition import Partition
from elmfield.samples import unmasked, with_nan
from elmfield.settings import Settings

StrPath = str | os.PathLike[str]


def fit(
    values: Array | Gridded | StrPath,
    settings: Settings | None = None,
    *,
    channel_axis: int | str | None = None,
    mask: Array | None = None,
    dims: Sequence[str] | None = None,
    coords: Mapping[str, Array] | Sequence[Array | None] | None = None,
    periodic: Periodic | None = None,
    partition: Partition | None = None,
    variable: str | None = None,
    device: object = None,
    memory_limit: int | None = None,
    progress: Progress | bool = False,
) -> Field:
    """A Field through samples on a grid: one local model per region, blended.

    Parameters
    ----------
    values : array, xarray.DataArray, Gridded, or path
        Samples on a grid: real, integer or complex; NaN marks a missing one. A DataArray, what
        :func:`elmfield.read` gives, and a file bring their own dims, coords, gaps and attributes.
    settings : optional
        ``smooth(...)``, the default, or ``paper(...)``.
    channel_axis : int or str, optional
        Which axis holds channels (colours, bands) rather than space, by number or name; files of
        pictures and maps know theirs.
    mask : array of bool, optional
        True where a sample is missing, as in `numpy.ma`; of the shape of `values`, or of that
        without the channel axis.
    dims : sequence of str, optional
        What the axes are called: those that are not channels, or all of them.
    coords : mapping or sequence, optional
        Where the samples lie: an array for each axis that is not channels (None for indices), or a
        mapping by name.
    periodic : name, number, sequence or mapping, optional
        Axes that repeat, by name or number (channels do not count); as a mapping, with their
        periods. By default none, but a longitude whose samples cover the circle evenly.
    partition : Partition, optional
        Use these regions instead of the settings' own.
    variable : str, optional
        Which of several arrays in a file.
    device : optional
        Move the array there first, for instance "cuda".
    memory_limit : int, optional
        Bytes that batches of intermediate results may take; see `elmfield.memory_limit`.
    progress : bool or callable
        True for a bar, or a callable of (stage, done, total).

    Returns
    -------
    Field
        In the array library and on the device of `values`. float32 in gives float32 coefficients,
        everything else float64.

    Examples
    --------
    >>> import numpy as np, elmfield as ef
    >>> x = np.linspace(0, 1, 40)
    >>> field = ef.fit(np.sin(6 * x)[:, None] * np.cos(4 * x))
    >>> bool(abs(field([10.5, 20.25]) - np.sin(6 * 10.5 / 39) * np.cos(4 * 20.25 / 39)) < 1e-2)
    True
    """
    tell = reporter(progress)
    given = _given(values, channel_axis, dims, coords, periodic, variable)
    array, mask = unmasked(given.values, mask, given.channel_axis, None)
    if device is not None:
        array = to_device(array, device)
    encode = encoder(
        array.shape,
        settings,
        channel_axis=given.channel_axis,
        dims=given.dims,
        coords=given.coords,
        periodic=given.periodic,
        partition=partition,
    )
    with nullcontext() if memory_limit is None else limited(memory_limit):
        field: Field = encode(array, mask=mask, progress=tell)
    return replace(field, attributes=given.attributes) if given.attributes else field


def read(path: StrPath, *, variable: str | None = None) -> Gridded:
    """The samples in a file, with the coordinates and attributes it has.

    Parameters
    ----------
    path : str or path
        The file; its name says what it is.
    variable : str, optional
        Which of several arrays in it.

    Returns
    -------
    Gridded
        ``np.asarray`` of it is the bare array; `fit` takes it whole.

    Raises
    ------
    FileNotFoundError, UnreadableError
        If there is no such file; if it is damaged, or not what its name says.
    ValueError
        If it holds several arrays, or not the one that is asked for.
    MissingExtraError
        If a package is missing; the message names the extra.
    """
    path = _path(path)
    if is_model(path):
        raise ValueError(f"{path.name} is a model, not samples; open it with load({str(path)!r}).")
    if path.is_dir() and suffix_of(path) != ".zarr":
        raise IsADirectoryError(f"{path} is a folder; say which file in it to read.")
    kind = format_of(path)
    if not path.exists():
        raise FileNotFoundError(f"no file {path}")
    if variable is not None and suffix_of(path) not in NAMED:
        raise NoSuchArrayError(
            f"{path.name}: arrays in {kind.name} files have no names; got variable {variable!r}. "
            "Leave it out."
        )
    return kind.room.read(path, variable)


def write(
    values: Array | Gridded | Field,
    path: StrPath,
    *,
    channel_axis: int | str | None = None,
    scale: float | Sequence[float] | None = None,
    shape: int | Sequence[int] | None = None,
    window: Mapping[str, tuple[Any, Any]] | None = None,
    align: str | None = None,
    quantity: str = "value",
    dtype: Any = None,
    colours: str | None = None,
    progress: Progress | bool = False,
) -> None:
    """Write samples, or a field on a grid, to a file of the kind its name says.

    Parameters
    ----------
    values : array, xarray.DataArray, Gridded, or Field
        What to write. A field is evaluated; what its input said about itself goes with it.
    path : str or path
        The file, for instance ``"large.png"``; replaced only once the new one is complete.
    channel_axis : int or str, optional
        Of an array: which axis holds channels (colours, bands).
    scale : float or sequence, optional
        Of a field: new samples per old one, for all axes or each; 1 by default.
    shape : int or sequence of int, optional
        Of a field: new samples on each axis, instead of `scale`.
    window : mapping, optional
        Of a field: the part to write on some axes, ``{dim: (low, high)}``, in the axes' own units,
        dates on axes of dates.
    align : {"areas", "nodes"}, optional
        Of a field: whether a sample stands for the area around it (pictures) or for the node it
        sits on (weather); by default as in the file or DataArray it came from, else areas.
    quantity : {"value", "gradient", "laplacian"}
        Of a field: what to write; "gradient" is its magnitude.
    dtype : optional
        Of the numbers written; integers are rounded and clipped. By default whole numbers stay
        what they were.
    colours : {"viridis", "grey", "error"}, optional
        Of pictures of numbers that are no colours.
    progress : bool or callable
        True for a bar, or a callable of (stage, done, total).
    """
    tell, path = reporter(progress), _path(path)
    if is_model(path):
        raise ValueError(
            f"{path.name} is a model's name; save a field with save(field, {str(path)!r})."
        )
    format_of(path)
    if isinstance(values, Field):
        samples = rendered(
            values, shape, scale=scale, window=window, align=align, quantity=quantity,
            dtype=dtype, progress=tell,
        )  # fmt: skip
    else:
        asked = {"scale": scale, "shape": shape, "window": window, "align": align}
        wrong = [name for name, v in asked.items() if v is not None]
        wrong += ["quantity"] if quantity != "value" else []
        if wrong:
            raise TypeError(
                f"`{wrong[0]}` is for a Field; got {type(values).__name__}. Fit one first: "
                f"write(fit(values), path, {wrong[0]}=...)."
            )
        samples = _samples(values, channel_axis)
        if dtype is not None:
            samples = replace(samples, values=as_dtype(np.asarray(samples.values), dtype))
    put(samples, path, colours)


def put(samples: Gridded, path: Path, colours: str | None = None) -> None:
    """Write samples as they are; in place only once the file is complete."""
    if not path.parent.is_dir():
        raise FileNotFoundError(f"cannot write {path}: its folder does not exist")
    work = Path(tempfile.mkdtemp(prefix=f".{path.name}.", suffix=".partial", dir=path.parent))
    try:
        format_of(path).room.write(samples, work / path.name, colours=colours)
        for made in sorted(work.iterdir()):
            place = path.parent / made.name
            if place.is_dir() and made.is_dir():
                os.replace(place, work / f".old-{made.name}")
            os.replace(made, place)
    finally:
        shutil.rmtree(work, ignore_errors=True)


# --- what a caller holds --------------------------------------------------------------------------


@dataclass(frozen=True, eq=False, kw_only=True)
class _Given:
    """An array and what the pipeline asks about it."""

    values: Array
    channel_axis: int | None
    dims: Sequence[str] | None
    coords: Any
    periodic: Any
    attributes: Mapping[str, Any]


def _given(
    values: Any, channel_axis: Any, dims: Any, coords: Any, periodic: Any, variable: str | None
) -> _Given:
    """What a caller holds, as an array and its place; labels that are given twice are refused."""
    if variable is not None and not _is_path(values):
        raise TypeError(
            f"`variable` names an array in a file; got variable={variable!r} for a "
            f"{type(values).__name__}. Leave it out."
        )
    if is_dataset(values):
        raise TypeError(f"a Dataset holds several arrays; say which: dataset[{_first(values)!r}].")
    if not (_is_path(values) or is_dataarray(values) or isinstance(values, Gridded)):
        return _bare(values, channel_axis, dims, coords, periodic)
    for name, own in (("dims", dims), ("coords", coords)):
        if own is not None:
            raise TypeError(f"`{name}` comes from {_told_by(values)}.")
    known = {} if not is_dataarray(values) else {d: str(d) for d in values.dims}
    samples = _samples(values, channel_axis, variable)
    return _Given(
        values=samples.values,
        channel_axis=samples.channel_axis,
        dims=samples.dims,
        coords=samples.coords,
        periodic=samples.periods if periodic is None else _as_names(periodic, known),
        attributes=dict(samples.attributes),
    )


def _bare(values: Any, channel_axis: Any, dims: Any, coords: Any, periodic: Any) -> _Given:
    """An array, which knows nothing of itself."""
    attributes: dict[str, Any] = {}
    if isinstance(channel_axis, str) and dims is None:
        raise ValueError(
            f"`channel_axis` names a dim, {channel_axis!r}, and an array has none. Give its "
            "number, or the names of all axes: dims=(...)."
        )
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
    return _Given(
        values=values,
        channel_axis=channel_axis,
        dims=dims,
        coords=coords,
        periodic=() if periodic is None else periodic,
        attributes=attributes,
    )


def _samples(values: Any, channel_axis: Any = None, variable: str | None = None) -> Gridded:
    """Anything that is not a field as gridded samples."""
    if is_dataarray(values):
        return from_dataarray(values, channel_axis=channel_axis)
    samples: Gridded
    if isinstance(values, Gridded):
        samples = values
    elif _is_path(values):
        samples = read(values, variable=variable)
    else:
        array = to_numpy(with_nan(values))
        samples = plain_grid(array, [f"axis{k}" for k in range(array.ndim)])
    return samples if channel_axis is None else samples.with_channels(channel_axis)


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
    if _is_path(values):
        return "the file itself; fit the bare array instead: np.asarray(read(path))"
    return "the samples themselves; fit the bare array instead: np.asarray(samples)"


def _is_path(values: object) -> bool:
    return isinstance(values, (str, os.PathLike))


def _path(path: Any) -> Path:
    if not _is_path(path):
        raise TypeError(f"`path` must be a text or a path; got a {type(path).__name__}.")
    return Path(path)


def _first(dataset: Any) -> str:
    return str(next(iter(dataset.data_vars), "name"))
