"""The public functions on samples and files: fit, encoder, read, write, regrid."""

import warnings
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import DTypeLike

from elmfield._array.backend import as_dtype, is_array, is_dask, is_labelled, to_device
from elmfield._array.checks import choice
from elmfield._array.progress import reporter
from elmfield._array.running import HOST_BATCH_BYTES
from elmfield._array.running import memory_limit as limited
from elmfield._array.typing import Array, Progress
from elmfield.domain import Periodic
from elmfield.domain.sphere import widest_gap
from elmfield.field import Field
from elmfield.fit import Encoder
from elmfield.fit import encoder as encoder_of
from elmfield.fit.curvilinear import FaceField
from elmfield.fit.mesh import fold_of
from elmfield.io.conventions import FaceMesh, face_mesh_of
from elmfield.io.export.output_grid import OutputGrid
from elmfield.io.export.rendering import Rendering
from elmfield.io.files import StrPath, format_of, is_model, path_of, put, read
from elmfield.io.formats.medical import LABEL
from elmfield.io.gridded import Gridded, classes_as_channels, premultiply
from elmfield.io.inputs import encoder_for, is_xarray, on_mesh, parse_input, samples_of, to_xarray
from elmfield.io.model.metadata import keepable
from elmfield.io.store.stores import is_url
from elmfield.partition import Partition
from elmfield.samples import unmasked
from elmfield.settings import Oriented, Settings, Smooth, smooth

if TYPE_CHECKING:
    import xarray

__all__ = ["OutputGrid", "encoder", "fit", "read", "regrid", "write"]

WIDEST_GAP = 30.0
"""Degrees of longitude without a node, below which a mesh goes all around the Earth."""


def fit(
    values: Array | Gridded | StrPath,
    settings: Settings | None = None,
    *,
    channel_axis: int | str | None = None,
    mask: Array | None = None,
    dims: Sequence[str] | None = None,
    coords: Mapping[str, Array] | Sequence[Array | None] | None = None,
    periodic: Periodic | None = None,
    bounds: Mapping[str, Array] | None = None,
    partition: Partition | None = None,
    variable: str | None = None,
    samples: str | None = None,
    labels: bool | None = None,
    missing: str | None = None,
    device: object = None,
    out: StrPath | None = None,
    memory_limit: int | None = None,
    progress: Progress | bool = False,
) -> Field:
    """A Field through samples on a grid: one local model per region, blended.

    Parameters
    ----------
    values : array, xarray.DataArray, image, Gridded, or path
        Samples on a grid: real, integer or complex; NaN marks a missing one. A DataArray, an image
        of nibabel or SimpleITK, what :func:`elmfield.read` gives, and a file bring their own dims,
        coords, gaps and attributes. Also what has a shape, a dtype and slices: Zarr and HDF5
        arrays, Dask arrays. Tensors of torch stay tensors; arrays of JAX are read as NumPy's. A
        Dataset of UGRID goes through :func:`elmfield.fit_points`: values at its nodes, or in the
        middles of its faces.
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
    bounds : mapping, optional
        Of means: borders of the samples' cells by dim, (n + 1,) or (n, 2) as CF has them; by
        default those that a Dataset or file has, or midway between samples.
    partition : Partition, optional
        Use these regions instead of the settings' own.
    variable : str, optional
        Which of several arrays in a file, or on a mesh of UGRID.
    samples : {"points", "means"}, optional
        What the numbers are: values at points, or means over the samples' cells, which reach
        halfway to the next sample. The field's means over these are then what was given, and
        `resize`, `warp`, `grid` and `write` give means over the cells of their results. By default
        what a file says: pictures are means over their pixels; arrays are points.
    labels : bool, optional
        Whether the numbers are classes, as in a segmentation, at most 64: then values are classes
        too, wherever they are asked, and `means` and `integral` tell the share of each, on a last
        axis in ascending order. By default what a scan says, or looks like.
    missing : {"nan", "fill"}, optional
        What the field answers, if not asked otherwise, where samples were missing. "nan" leaves
        gaps as they are and is faster; the default of DataArrays, Gridded and files. "fill" fills
        them with care; the default of bare arrays.
    device : optional
        Move the array there first, for instance "cuda".
    out : path, optional
        Fit slab by slab into this model file, ``name.elm`` or the folder ``name.elm.zarr``, also
        behind an fsspec URL (``s3://...``): the array is never whole in memory, the field reads the
        file. Cut short, the same call goes on where it was. Dask arrays go through its scheduler.
    memory_limit : int, optional
        Bytes that batches of intermediate results may take; see `elmfield.memory_limit`.
    progress : bool or callable
        True for a bar, or a callable of (stage, done, total).

    Returns
    -------
    Field
        In the array library and on the device of `values`. float32 in gives float32 coefficients,
        everything else float64. With `out`, what ``load(out)`` gives. Of a DataArray with latitude
        and longitude (or y and x) of two dims a :class:`Curvilinear`, which goes by these.

    Examples
    --------
    >>> import numpy as np, elmfield as ef
    >>> x = np.linspace(0, 1, 40)
    >>> field = ef.fit(np.sin(6 * x)[:, None] * np.cos(4 * x))
    >>> bool(abs(field([10.5, 20.25]) - np.sin(6 * 10.5 / 39) * np.cos(4 * 20.25 / 39)) < 1e-2)
    True
    """
    if not is_array(values) and (mesh := face_mesh_of(values)) is not None:
        return _fit_mesh(values, mesh, variable, settings, progress)
    tell = reporter(progress)
    limit = nullcontext() if memory_limit is None else limited(memory_limit)
    given = parse_input(
        values, channel_axis=channel_axis, dims=dims, coords=coords, periodic=periodic,
        bounds=bounds, variable=variable, lazily=out is not None,
    )  # fmt: skip
    way = given.labels.missing if missing is None else missing
    is_labels = given.labels.header.get("intent_code") == LABEL and out is None
    if choice("labels", is_labels if labels is None else labels, (True, False)):
        if out is not None:
            raise ValueError("`labels` are fitted in memory. Leave `out` away, and save the field.")
        given = classes_as_channels(given)
    given, settings = settle_samples(given, settings, samples, partition)
    if bounds is not None and given.labels.samples != "means":
        raise ValueError("`bounds` are of cells that samples are means of; say samples='means'.")
    if out is not None:
        from elmfield.io.stream.fit_stream import fit_to

        if device is not None:
            raise ValueError("`device` cannot be chosen together with `out`: coding has none.")
        how: Any = {"mask": mask, "partition": partition, "missing": way, "progress": tell}
        with limit:
            return fit_to(given, settings, str(out) if is_url(out) else path_of(out), **how)
    most = HOST_BATCH_BYTES if memory_limit is None else memory_limit
    if is_dask(given.values) and given.values.nbytes > most:
        warnings.warn(
            f"this Dask array of {given.values.nbytes / 2**20:.0f} MiB is computed whole, in "
            "memory; fit(..., out='name.elm.zarr') works on it block by block.",
            stacklevel=2,
        )
    fold = None
    if not given.is_map and given.dims[-1] in given.periods and mask is None:
        fold = fold_of(*given.places.values())
    if fold is not None:
        whole = fold.beyond(np.asarray(given.values), *given.array_axes[-2:])
        given = replace(given, values=whole)
    array, mask = unmasked(given.values, mask, given.channel_axis, None)
    if device is not None:
        array = to_device(array, device)
    given = given if array is given.values else replace(given, values=array)
    encode = encoder_for(given, settings, partition)
    with limit:
        field = encode(array, mask=mask, missing=way, progress=tell)
    about, k = given.labels.of_field(field.labels), field.model.channel_axis
    made = Field(replace(field.model, labels=about, channel_axis=None if about.classes else k))
    return on_mesh(made, given, fold)


def _fit_mesh(
    ds: Array, mesh: FaceMesh, variable: str | None, settings: Any, progress: Progress | bool
) -> Field:
    """The Field of values at the faces, or the nodes, of a mesh of UGRID, through `fit_points`."""
    from elmfield.fit.scattered.points import fit_points  # as :mod:`elmfield` does: it is large

    places = {(mesh.dims["face"],): mesh.middles, (mesh.dims["node"],): mesh.nodes}
    own = {str(k): v for k, v in ds.data_vars.items() if v.dims in places and k not in mesh.parts}
    name = next(iter(own)) if variable is None and len(own) == 1 else variable
    if name not in own:
        raise ValueError(
            f"`variable` must name one of {list(own)}, which lie along {' or '.join(*zip(*places))}"
            f" of the mesh alone; got {variable!r}. Choose a time or level: dataset.isel(...)."
        )
    da = own[name]
    at, about = places[da.dims], dict[str, Any](dims=mesh.names)
    if mesh.names[1] == "longitude" and widest_gap(at[:, 1])[1] < WIDEST_GAP:
        at = np.stack([at[:, 0], at[:, 1] % 360], axis=-1)
        about |= {"periodic": "longitude", "bounds": ((-90.0, 0.0), (90.0, 360.0))}
    made = fit_points(at, da.values, settings, progress=progress, **about)
    labels = replace(made.labels, name=name, attrs=keepable(da.attrs))
    model = replace(made.model, labels=labels)
    if da.dims[0] != mesh.dims["face"]:
        return Field(model)
    return FaceField(model, mesh.corners, da.values.astype(np.float64), mesh.names[0] == "y")


def encoder(
    shape: Array,
    settings: Settings | None = None,
    *,
    channel_axis: int | str | None = None,
    dims: Sequence[str] | None = None,
    coords: Mapping[str, Array] | Sequence[Array | None] | None = None,
    periodic: Periodic | None = None,
    partition: Partition | None = None,
) -> Encoder:
    """An Encoder for arrays of one shape: it keeps the factorised modes between calls.

    Parameters
    ----------
    shape : sequence of int, or xarray.DataArray, Dataset or Gridded
        Of the arrays, the channel axis included, if there is one. Or one of them, with labels:
        fields of those that lie on its grid then have their own, as from :func:`elmfield.fit`.
    settings, channel_axis, dims, coords, periodic, partition
        As for :func:`elmfield.fit`.

    Examples
    --------
    >>> import numpy as np, elmfield as ef
    >>> encode = ef.encoder((20, 30), ef.smooth(order=2))
    >>> encode(np.ones((20, 30))).shape
    (20, 30)
    """
    about: dict[str, Any] = {"channel_axis": channel_axis, "dims": dims, "coords": coords}
    if not is_labelled(shape):
        around = () if periodic is None else periodic
        return encoder_of(shape, settings, **about, periodic=around, partition=partition)
    first = parse_input(shape, **about, periodic=periodic)
    encode = encoder_for(first, settings, partition)

    def read(values: Array) -> Gridded:
        given = parse_input(values, channel_axis=channel_axis)
        if not given.is_on_grid_of(first):
            raise ValueError(
                f"an array must lie where the encoder's samples do, on the grid {first.place}; got "
                f"{given.place}. Fit it with elmfield.fit, or make an encoder of it."
            )
        return given

    encode.read, encode.place = read, on_mesh
    return encode


def settle_samples(
    given: Gridded, settings: Settings | None, samples: str | None, partition: Partition | None
) -> tuple[Gridded, Settings | None]:
    """The samples, labelled as points or means, and the settings that suit them.

    What a caller says, or else the file; that is points where settings make no means of them:
    product modes on regular cells do. A sound file has settings of its own. Colours with
    transparency are multiplied by it.
    """
    if settings is None and given.labels.suits:
        settings = smooth(**given.labels.suits)
    kind = given.labels.samples if samples is None else samples
    choice("samples", kind, ("points", "means"))
    if kind == "means":
        chosen: Any = smooth() if settings is None else settings
        fits = isinstance(chosen, (Oriented, Smooth)) and getattr(chosen, "network", None) is None
        if fits and (partition is None or partition.is_regular):
            settings = replace(chosen, samples="means")
        elif samples is None:
            kind = "points"
        else:
            why = "merged regions" if fits else "a network, whose means have no closed form"
            raise ValueError(
                f"samples='means' is for smooth() and oriented() on their own cells; got {why}. "
                "Use samples='points', or fit_observations with observe.means."
            )
    if kind != given.labels.samples:
        given = replace(given, labels=replace(given.labels, samples=kind))
    if settings is None or not isinstance(settings, Settings) or settings.target is None:
        # A target is for the samples as they are.
        given = premultiply(given) if "alpha" in given.labels.channels.labels else given
    return given, settings


def write(
    values: Array | Gridded | Field,
    path: StrPath,
    *,
    grid: OutputGrid | Sequence[int] | None = None,
    channel_axis: int | str | None = None,
    quantity: str = "value",
    mean: bool = False,
    antialias: bool = True,
    missing: str | None = None,
    dtype: DTypeLike | None = None,
    colours: str | None = None,
    progress: Progress | bool = False,
    **where: Any,
) -> None:
    """Write samples, or a field on a grid, to a file of the kind its name says.

    Parameters
    ----------
    values : array, xarray.DataArray, Gridded, or Field
        What to write. A field is evaluated; what its input said about itself goes with it.
    path : str or path
        The file, for instance ``"large.png"``; replaced only once the new one is complete.
    grid : OutputGrid or two whole numbers, optional
        Of a field: where to evaluate it; by default at its own samples.
    **where : optional
        Of a field: the same by name (:class:`elmfield.OutputGrid`): `scale`, `shape`, `window`,
        `align`, `like`, `step`, `crs`; of sound and video `rate`; of scans `spacing`, `affine`.
    channel_axis : int or str, optional
        Of an array: which axis holds channels (colours, bands).
    quantity : {"value", "gradient_magnitude", "laplacian"}
        Of a field: what to write, per unit of the coordinates.
    mean : bool
        Of a field: means over the cells of the grid, as for :func:`elmfield.regrid`.
    antialias : bool
        Of a field: whether fewer samples than before are means over what each stands for.
    missing : {"nan", "fill"}, optional
        Of a field: what to write where samples were missing; as for points.
    dtype : optional
        Of the numbers written; integers are rounded and clipped. By default whole numbers stay
        what they were.
    colours : {"grey", "viridis", "magma", "cividis", "balance", "phase", "error"}
        Of pictures of numbers that are no colours: the map from their least to their greatest. By
        default they are grey, from black to white, and gaps are transparent; whole numbers of 8
        and 16 bits are written as they are.
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
        raise ValueError(f"{path.name} is a model's name; save a field with save(field, path).")
    format_of(path)
    if isinstance(values, Field):
        if not isinstance(grid, OutputGrid):
            grid = OutputGrid(grid=grid, **where)
        elif where:
            raise TypeError(f"say `grid` or `{next(iter(where))}`, not both.")
        samples = Rendering(
            field=values, quantity=quantity, mean=mean, antialias=antialias, dtype=dtype,
            missing=missing, progress=tell,
        ).on(grid)  # fmt: skip
    else:
        asked = {**where, "grid": grid, "missing": missing, "mean": mean or None}
        asked["quantity"] = None if quantity == "value" else quantity
        wrong = [name for name, v in asked.items() if v is not None]
        if wrong:
            raise TypeError(
                f"`{wrong[0]}` is for a Field; got {type(values).__name__}. Fit one first: "
                f"write(fit(values), path, {wrong[0]}=...)."
            )
        samples = samples_of(values, channel_axis)
        if dtype is not None:
            samples = replace(samples, values=as_dtype(np.asarray(samples.values), dtype))
    put(samples, path, colours)


def regrid(
    values: Array | Gridded | Field | StrPath,
    like: object = None,
    *,
    step: float | Sequence[float] | None = None,
    grid: Sequence[int] | None = None,
    crs: str | None = None,
    mean: bool = False,
    quantity: str = "value",
    align: str | None = None,
    missing: str | None = None,
    min_coverage: float = 0.5,
) -> "xarray.DataArray | xarray.Dataset":
    """A field on another grid, as an xarray.DataArray, or a Dataset if it was fitted to one.

    Beyond its domain values are NaN. The mean by area of all cells is the field's own.

    Parameters
    ----------
    values : Field, or what :func:`elmfield.fit` takes
        What to put on the grid.
    like : file, DataArray, Dataset, Gridded, Field or mapping, optional
        its coordinates, by name, as latitude and longitude, or through its reference system; or
    step : float or two
        places so far apart, in the axes' unit (or that of `crs`); or
    grid : two whole numbers
        so many equal cells of latitude and longitude, or of all axes where there are none.
    crs : str, optional
        Another reference system, for instance "EPSG:3035" (extra: geo); with `step` or `grid`, or
        about as many places as samples.
    mean : bool
        Means over the cells of the grid, by area on the sphere: conservative regridding. Cells
        reach halfway to the next place, or to the bounds that `like` has; polygons in other
        reference systems and of two-dimensional coordinates.
    quantity : {"value", "gradient_magnitude", "laplacian", "std"}
        "gradient" is its magnitude; "std" the standard deviation of values, or of means.
    align : {"areas", "nodes"}, optional
        Whether a `step` counts from the first sample (nodes) or from the domain's border (areas).
    missing : {"nan", "fill"}, optional
        As for points.
    min_coverage : float
        A mean is NaN where samples cover less than this part of its cell.

    Examples
    --------
    >>> import numpy as np, elmfield as ef
    >>> latitude, longitude = np.arange(85, -86, -10.0), np.arange(0, 360, 10.0)
    >>> warm = ef.fit(280 + np.zeros((18, 36)), dims=("latitude", "longitude"),
    ...               coords=[latitude, longitude], periodic="longitude")
    >>> ef.regrid(warm, grid=(9, 18), mean=True).shape
    (9, 18)
    """
    asked: Any = {"step": step, "grid": grid, "crs": crs, "align": align}
    how: Any = {"quantity": quantity, "mean": mean, "missing": missing}
    if not (where := OutputGrid(like=like, **asked)).is_target:
        raise ValueError("say which grid: one of `like`, `step`, `grid` and `crs`.")
    given: Any = values
    if is_xarray(given):
        from elmfield.io.xarray import ElmAccessor  # it imports xarray

        return ElmAccessor(given).regrid(like, min_coverage=min_coverage, **asked, **how)
    field = values if isinstance(values, Field) else fit(values)
    return to_xarray(Rendering(field=field, min_coverage=min_coverage, **how).on(where))
