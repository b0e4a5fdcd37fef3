"""The door: `fit`, `read` and `write`; arrays, DataArrays and files in, fields and files out.

The pipeline behind it sees arrays only.
"""

import warnings
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from elmfield._array.backend import as_dtype, is_dask, to_device
from elmfield._array.checks import choice
from elmfield._array.memory import HOST
from elmfield._array.memory import memory_limit as limited
from elmfield._array.progress import reporter
from elmfield._array.typing import Array, Progress
from elmfield.domain import Periodic
from elmfield.field import Field
from elmfield.fit import encoder
from elmfield.io.alpha import premultiplied
from elmfield.io.files import StrPath, path_of, put, read
from elmfield.io.formats.registry import format_of, is_model
from elmfield.io.given import Given, given_as, samples_of, telling_dates
from elmfield.io.gridded import Gridded
from elmfield.io.model.entries import is_url, on_disk
from elmfield.io.rendered import rendered
from elmfield.partition import Partition
from elmfield.samples import unmasked
from elmfield.settings import Settings, smooth

__all__ = ["fit", "read", "write"]


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
    samples: str = "points",
    missing: str | None = None,
    device: object = None,
    out: StrPath | None = None,
    memory_limit: int | None = None,
    progress: Progress | bool = False,
) -> Field:
    """A Field through samples on a grid: one local model per region, blended.

    Parameters
    ----------
    values : array, xarray.DataArray, Gridded, or path
        Samples on a grid: real, integer or complex; NaN marks a missing one. A DataArray, what
        :func:`elmfield.read` gives, and a file bring their own dims, coords, gaps and attributes.
        Also what has a shape, a dtype and slices: Zarr and HDF5 arrays, Dask arrays.
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
    samples : {"points", "means"}
        What the numbers are: values at points, or means over the samples' cells, which reach
        halfway to the next sample. The field's means over these are then what was given.
    missing : {"nan", "fill"}, optional
        What the field answers, if not asked otherwise, where samples were missing. "nan" leaves
        gaps as they are and is the faster fit; by default for a DataArray, Gridded or file. "fill"
        fills them with care; by default for a bare array.
    device : optional
        Move the array there first, for instance "cuda".
    out : path, optional
        Fit slab by slab into this model file, ``name.elm`` or the folder ``name.elm.zarr``, also
        behind an fsspec URL (``s3://...``): the
        array is never whole in memory, and what comes back is read from the file. Cut short, the
        same call goes on where it was. A Dask array is worked on by Dask's scheduler.
    memory_limit : int, optional
        Bytes that batches of intermediate results may take; see `elmfield.memory_limit`.
    progress : bool or callable
        True for a bar, or a callable of (stage, done, total).

    Returns
    -------
    Field
        In the array library and on the device of `values`. float32 in gives float32 coefficients,
        everything else float64. With `out`, what ``load(out)`` gives.

    Examples
    --------
    >>> import numpy as np, elmfield as ef
    >>> x = np.linspace(0, 1, 40)
    >>> field = ef.fit(np.sin(6 * x)[:, None] * np.cos(4 * x))
    >>> bool(abs(field([10.5, 20.25]) - np.sin(6 * 10.5 / 39) * np.cos(4 * 20.25 / 39)) < 1e-2)
    True
    """
    tell = reporter(progress)
    limit = nullcontext() if memory_limit is None else limited(memory_limit)
    given = given_as(values, channel_axis, dims, coords, periodic, variable, out is not None)
    choice("samples", samples, ("points", "means"))
    way = given.missing if missing is None else missing
    settings = suited(settings, given.attributes)
    if settings is None or not isinstance(settings, Settings) or settings.target is None:
        # A target is for the samples as they are.
        given = premultiplied(given)
    if out is not None:
        if samples != "points":
            raise ValueError('`samples="means"` has to see all samples; it cannot go to `out`.')
        with limit, telling_dates(given.attributes):
            return _fit_to(_target(out), given, settings, mask, partition, device, way, tell)
    _warn_of_size(given.values, memory_limit)
    array, mask = unmasked(given.values, mask, given.channel_axis, None)
    if device is not None:
        array = to_device(array, device)
    with telling_dates(given.attributes):
        encode = encoder(
            array.shape,
            settings,
            channel_axis=given.channel_axis,
            dims=given.dims,
            coords=given.coords,
            periodic=given.periodic,
            partition=partition,
        )
    with limit:
        if samples == "means":
            from elmfield.fit.means import fit_means  # here: few samples are

            field = fit_means(encode, array, mask=mask, missing=way, progress=tell)
        else:
            field = encode(array, mask=mask, missing=way, progress=tell)
    if not given.attributes:
        return field
    return replace(field, attributes={**given.attributes, **field.attributes})


def suited(settings: Settings | None, attributes: Mapping[str, Any]) -> Settings | None:
    """The settings that suit the samples, if the caller has none: a sound file's are its own."""
    suits = attributes.get("suits")
    return settings if settings is not None or suits is None else smooth(**suits)


def _target(out: StrPath) -> str | Path:
    """Where a model goes: a path or a URL."""
    local = on_disk(out)
    return str(local) if is_url(local) else path_of(local)


def _fit_to(
    out: str | Path,
    given: Given,
    settings: Settings | None,
    mask: Any,
    partition: Partition | None,
    device: object,
    missing: str,
    progress: Progress,
) -> Field:
    """The field of a model file, made slab by slab."""
    from elmfield.io.stream import fit_to

    if device is not None:
        raise ValueError(
            "`device` cannot be chosen together with `out`: samples are coded on the processor. "
            "Move the field's queries there instead."
        )
    return fit_to(
        given, settings, out, mask=mask, partition=partition, missing=missing, progress=progress
    )


def _warn_of_size(values: Any, limit: int | None) -> None:
    """Say what to do about a Dask array that will hardly fit."""
    most = HOST if limit is None else limit
    if is_dask(values) and values.nbytes > most:
        warnings.warn(
            f"this Dask array of {values.nbytes / 2**20:.0f} MiB is computed whole, in memory; "
            "fit(..., out='name.elm.zarr') works on it block by block.",
            stacklevel=3,
        )


def write(
    values: Array | Gridded | Field,
    path: StrPath,
    *,
    channel_axis: int | str | None = None,
    scale: float | Sequence[float] | None = None,
    shape: int | Sequence[int] | None = None,
    window: Mapping[str, tuple[Any, Any]] | None = None,
    align: str | None = None,
    like: Any = None,
    step: float | Sequence[float] | None = None,
    grid: Sequence[int] | None = None,
    crs: str | None = None,
    mean: bool = False,
    rate: Any = None,
    spacing: float | Sequence[float] | None = None,
    affine: Any = None,
    quantity: str = "value",
    antialias: bool = True,
    missing: str | None = None,
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
    like, step, grid, crs, mean : optional
        Of a field: a target grid, as for :func:`elmfield.regrid`; `like` a scan, its grid in the
        room.
    rate : number or text, optional
        Of sound and video: samples or frames per second, such as 44100 or "30000/1001". Sound is
        band-limited: what a lower rate cannot hold is filtered out.
    spacing : float or sequence of float, optional
        Of a scan: millimetres between voxels, on the grid that fills the same room.
    affine : array, optional
        Of a scan: another grid in the room, with `shape`; see :meth:`Field.world`.
    quantity : {"value", "gradient", "laplacian"}
        Of a field: what to write; "gradient" is its magnitude.
    antialias : bool
        Of a field: whether fewer samples than before are means over what each stands for.
    missing : {"nan", "fill"}, optional
        Of a field: what to write where samples were missing; as for points.
    dtype : optional
        Of the numbers written; integers are rounded and clipped. By default whole numbers stay
        what they were.
    colours : {"viridis", "grey", "error"}, optional
        Of pictures of numbers that are no colours.
    progress : bool or callable
        True for a bar, or a callable of (stage, done, total).

    Examples
    --------
    >>> import numpy as np, elmfield as ef
    >>> field = ef.fit(np.eye(12))
    >>> ef.write(field, "large.npy", scale=2)
    >>> ef.read("large.npy").shape
    (24, 24)
    """
    tell, path = reporter(progress), path_of(path)
    if is_model(path):
        raise ValueError(
            f"{path.name} is a model's name; save a field with save(field, {str(path)!r})."
        )
    format_of(path)
    if isinstance(values, Field):
        samples = rendered(
            values, shape, scale=scale, window=window, align=align, like=like, step=step,
            grid=grid, crs=crs, mean=mean, rate=rate, spacing=spacing, affine=affine,
            quantity=quantity, antialias=antialias,
            missing=missing, dtype=dtype, progress=tell,
        )  # fmt: skip
    else:
        asked = {"scale": scale, "shape": shape, "window": window, "align": align, "like": like}
        asked |= {"step": step, "grid": grid, "crs": crs, "missing": missing, "mean": mean or None}
        asked |= {"rate": rate, "spacing": spacing, "affine": affine}
        wrong = [name for name, v in asked.items() if v is not None]
        wrong += ["quantity"] if quantity != "value" else []
        if wrong:
            raise TypeError(
                f"`{wrong[0]}` is for a Field; got {type(values).__name__}. Fit one first: "
                f"write(fit(values), path, {wrong[0]}=...)."
            )
        samples = samples_of(values, channel_axis)
        if dtype is not None:
            samples = replace(samples, values=as_dtype(np.asarray(samples.values), dtype))
    put(samples, path, colours)
