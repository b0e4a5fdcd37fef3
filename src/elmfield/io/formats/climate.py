"""NetCDF, GRIB and Zarr, through xarray: variables with dims, coords and attrs.

``_FillValue``, ``scale_factor`` and ``add_offset`` are applied on the way in.
"""

import warnings
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from elmfield._array.typing import Floats
from elmfield.field.coordinates.labels import Attrs
from elmfield.io.conventions import bounds_of, load_pyproj
from elmfield.io.files import NoSuchArrayError, need, reading, suffix_of
from elmfield.io.formats.arrays import choose
from elmfield.io.gridded import Gridded
from elmfield.io.inputs import from_dataarray, to_xarray
from elmfield.io.model.metadata import keepable

if TYPE_CHECKING:
    import xarray as xr

Keys = list[tuple[str, str | float]]
"""What ecCodes is told of a message, in this order."""

STORED_AS = {"bool": "int8", "float16": "float32"}
"""What numbers are written as, of which NetCDF has none."""

PACKED = {"scale_factor", "add_offset"}
"""What an encoding has where numbers were stored as others."""


def _kind_of(path: Path) -> str:
    known = {".zarr": "Zarr", **dict.fromkeys((".grib", ".grib2", ".grb", ".grb2"), "GRIB")}
    return known.get(suffix_of(path), "NetCDF")


def read(path: Path, variable: str | None = None, *, lazily: bool = False) -> Gridded:
    """A variable; the only one, or the one that is named.

    `lazily` the file stays open, and its chunks or messages are read as they are needed.
    """
    kind = _kind_of(path)
    with reading(path, kind):
        found = _open(path)
        with ExitStack() as stack:
            for ds in () if lazily else found:
                stack.enter_context(ds)
            da = _pick(path, found, variable)
            da = da if lazily else da.load()
            cells = {name: b for ds in found for name, b in bounds_of(ds)[0].items()}
    if kind == "GRIB":
        da.encoding["chunksizes"] = (*(1,) * (da.ndim - 2), *da.shape[-2:])  # messages
        return from_dataarray(da, lazily=lazily)
    made = from_dataarray(da, lazily=lazily, bounds=cells)
    labels, stored = made.labels, np.dtype(da.encoding.get("dtype", da.dtype))
    if labels.fill_value is not None and stored.kind in "iu" and not PACKED & set(da.encoding):
        labels = replace(labels, dtype=stored.name)  # whole numbers, which have a gap among them
    return replace(made, labels=replace(labels, file_attrs=keepable(found[0].attrs)))


def _open(path: Path) -> "list[xr.Dataset]":
    """Datasets of a file: one, or of GRIB messages as many as they have grids."""
    xarray = need("xarray", "xarray", f"reading {path.name}")
    kind = _kind_of(path)
    if find_spec("eccodes") is not None and find_spec("pyproj") is not None:
        load_pyproj("maps")  # before somebody else does so
    if kind == "GRIB":
        need("eccodes", "grib", "reading GRIB files")
        cfgrib = need("cfgrib", "grib", "reading GRIB files")
        own = {"indexpath": "", "decode_timedelta": True}  # no index files next to the data
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about merging, which is not asked for
            found: list[xr.Dataset] = cfgrib.open_datasets(str(path), backend_kwargs=own)
        if not found:
            raise ValueError("it has no messages")
        return found
    engine = "zarr" if kind == "Zarr" else None
    if engine is not None:
        need("zarr", "xarray", "reading Zarr stores")
    try:
        return [xarray.open_dataset(path, engine=engine, decode_timedelta=True)]
    except ValueError as error:
        if "engine" not in str(error) and "backend" not in str(error):
            raise
        need("netCDF4", "geo", f"reading {path.name}")
        raise ValueError("it is none") from error


def _pick(path: Path, found: "Sequence[xr.Dataset]", variable: str | None) -> "xr.DataArray":
    every = [(str(k), v) for ds in found for k, v in ds.data_vars.items()]
    arrays = dict(every)
    cells = set[str]().union(*(bounds_of(ds)[1] for ds in found if variable is None))
    own = {k: v for k, v in arrays.items() if v.ndim and v.dtype.kind in "biufc"}
    shapes = {k: v.shape for k, v in own.items() if k not in cells}
    name = choose(path, shapes, variable)
    if (n := sum(k == name for k, _ in every)) > 1:
        raise NoSuchArrayError(
            f"{path.name} has {name!r} on {n} grids, or kinds of levels. Open it with "
            f"cfgrib.open_datasets, and fit one of the arrays."
        )
    return arrays[name]


def write(samples: Gridded, path: Path, *, colours: str | None = None) -> None:
    """Write a variable with its coordinates and attributes."""
    xarray = need("xarray", "xarray", f"writing {path.name}")
    kind = _kind_of(path)
    if kind == "GRIB":
        _write_grib(samples, path)
        return
    name = samples.labels.name or "field"
    if name in samples.dims:
        name += "_values"
    told = to_xarray(samples)
    ds: Any = told if isinstance(told, xarray.Dataset) else told.to_dataset(name=name)
    from elmfield import __version__

    said = dict(samples.labels.file_attrs)
    line = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ} written by elmfield {__version__}"
    history = "\n".join(t for t in (line, str(said.get("history", ""))) if t)
    ds.attrs = {"Conventions": "CF-1.8", **said, "history": history}
    for v in ds.variables.values():  # what no file can hold as an attribute; gaps are said below
        v.attrs = {
            k: int(a) if isinstance(a, bool) else a
            for k, a in v.attrs.items()
            if a is not None and not isinstance(a, dict) and k != "_FillValue"
        }
    encoding: dict[str, Any] = {}
    if (fill := samples.labels.fill_value) is not None:  # and the dtype that a file had
        own = np.dtype(samples.labels.dtype or samples.values.dtype.name)
        encoding = {"_FillValue": own.type(fill), "dtype": own.name}
    if kind == "Zarr":
        need("zarr", "xarray", "writing Zarr stores")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # consolidated metadata is outside the Zarr 3 text
            ds.to_zarr(path, mode="w", encoding={k: encoding for k in ds.data_vars if encoding})
        return
    if samples.values.dtype.kind == "c":
        raise ValueError(f"{path.name}: NetCDF has no complex numbers; write a .npy file instead.")
    if (stored := STORED_AS.get(samples.values.dtype.name)) is not None:
        ds, encoding = ds.astype(stored), {k: v for k, v in encoding.items() if k != "dtype"}
    if samples.values.ndim:
        encoding |= {"zlib": True, "complevel": 4}
    engine = "netcdf4" if find_spec("netCDF4") else "h5netcdf"
    need(engine.replace("netcdf4", "netCDF4"), "geo", "writing NetCDF files")
    ds.to_netcdf(path, engine=engine, encoding=dict.fromkeys(ds.data_vars, encoding))


def grid(path: Path) -> "xr.Dataset":
    """A Dataset of the coordinates in a file of any number of variables, all on one grid."""
    with reading(path, _kind_of(path)), ExitStack() as stack:
        found = [stack.enter_context(ds) for ds in _open(path)]
        for name in ("latitude", "longitude"):
            places: list[Any] = [getattr(ds.coords.get(name), "values", None) for ds in found]
            if not all(np.array_equal(p, places[0]) for p in places):
                each = ", ".join(f"{k} {v.shape}" for ds in found for k, v in ds.data_vars.items())
                raise NoSuchArrayError(
                    f"{path.name} holds arrays on different grids ({each}); say which one: "
                    "like=read(path, variable=...)."
                )
        ds = found[0]
        return ds.drop_vars([n for n in ds.data_vars if not str(n).endswith("_bnds")]).load()


def _write_grib(samples: Gridded, path: Path) -> None:
    """GRIB 2 messages on a regular grid of latitudes and longitudes, one per step of other axes."""
    codes = need("eccodes", "grib", "writing GRIB files")
    if samples.dims[-2:] != ("latitude", "longitude") or samples.channel_axis is not None:
        raise ValueError(f"{path.name}: axes must end in latitude, longitude. Write a .nc file.")
    da: Any = to_xarray(samples)
    lat, lon = (np.asarray(samples.line(n), float) for n in ("latitude", "longitude"))
    for c in (lat, lon):
        if len(c) < 2 or np.max(np.abs(np.diff(c) - (c[-1] - c[0]) / (len(c) - 1))) > 1e-4:
            raise ValueError(f"{path.name}: GRIB needs evenly spaced latitudes and longitudes.")
    about = {k.removeprefix("GRIB_"): v for k, v in da.attrs.items() if k.startswith("GRIB_")}
    others = da.dims[:-2]
    known = {*DATES, "step", *_levels(about)}
    if lost := [d for d in others if d not in known and da.sizes[d] > 1]:
        raise ValueError(f"{path.name}: GRIB has no place for axis {lost[0]!r}. Write a .nc file.")
    with path.open("wb") as file:
        for index in np.ndindex(*(da.sizes[d] for d in others)):
            one = da.isel(dict(zip(others, index)))
            values = np.asarray(one.values, float).reshape(-1)
            dates, steps = _time_keys(one, path)
            # Steps come after the parameter: sums over time count from the forecast's beginning.
            keys = [*_grid_keys(lat, lon), *dates, *_parameter_keys(one, about), *steps]
            if (gone := np.isnan(values)).any():
                keys += [("bitmapPresent", 1), ("missingValue", MISSING_VALUE)]
            message = codes.codes_grib_new_from_samples("regular_ll_sfc_grib2")
            try:
                for key, value in keys:
                    codes.codes_set(message, key, value)
                codes.codes_set_values(message, np.where(gone, MISSING_VALUE, values))
                codes.codes_write(message, file)
            except codes.CodesInternalError as error:
                raise ValueError(f"{path.name}: GRIB cannot hold this: {error}.") from error
            finally:
                codes.codes_release(message)


MISSING_VALUE = 3.4e38
"""What ecCodes is told to take for a missing value."""

DATES = ("time", "valid_time")
"""Coordinates that date a message; of files with both, the first is when the forecast began."""


def _levels(about: Attrs) -> tuple[str, ...]:
    """What a coordinate of levels may be called."""
    return (str(about.get("typeOfLevel")), "isobaricInhPa", "pressure_level", "level")


def _grid_keys(lat: Floats, lon: Floats) -> Keys:
    return [
        ("bitsPerValue", 24),
        ("Ni", len(lon)),
        ("Nj", len(lat)),
        ("latitudeOfFirstGridPointInDegrees", float(lat[0])),
        ("latitudeOfLastGridPointInDegrees", float(lat[-1])),
        ("longitudeOfFirstGridPointInDegrees", float(lon[0]) % 360),
        ("longitudeOfLastGridPointInDegrees", float(lon[-1]) % 360),
        ("iDirectionIncrementInDegrees", abs(float(lon[1] - lon[0]))),
        ("jDirectionIncrementInDegrees", abs(float(lat[1] - lat[0]))),
        ("jScansPositively", int(lat[-1] > lat[0])),
    ]


def _scalar(one: "xr.DataArray", name: str, kind: str) -> Any:
    """A coordinate of one number of a kind; None if there is none."""
    c = one.coords.get(name)
    return c.values[()] if c is not None and c.ndim == 0 and c.dtype.kind in kind else None


def _time_keys(one: "xr.DataArray", path: Path) -> tuple[Keys, Keys]:
    """When a forecast began, and its step; of files with two dates, the second less the first."""
    began, valid = (_scalar(one, name, "M") for name in DATES)
    step = _scalar(one, "step", "m")
    if began is None and valid is not None:
        began = valid if step is None else valid - step
    elif step is None and valid is not None:
        step = valid - began
    if began is None:
        raise ValueError(f"{path.name}: GRIB needs a date, time or valid_time. Write a .nc file.")
    at = began.astype("datetime64[s]").item()
    parts = "year", "month", "day", "hour", "minute", "second"
    dates: Keys = [(part, getattr(at, part)) for part in parts]
    if step is None:
        return dates, []
    for unit in ("h", "m", "s"):
        count = step / np.timedelta64(1, unit)
        if count == round(count):
            break
    return dates, [("stepUnits", unit), ("endStep", round(float(count)))]


def _parameter_keys(one: "xr.DataArray", about: Attrs) -> Keys:
    keys: Keys = []
    kind = about.get("typeOfLevel")
    at = next((n for n in _levels(about) if _scalar(one, n, "iuf") is not None), None)
    if at is not None and kind is None:
        units = str(one.coords[at].attrs.get("units", "hPa")).lower()
        kind = "isobaricInhPa" if units in ("hpa", "millibars", "mb", "mbar") else None
    if kind is not None:
        keys.append(("typeOfLevel", str(kind)))
        if at is not None:
            keys.append(("level", float(_scalar(one, at, "iuf"))))
    # The parameter comes after the level: 2 m temperature brings its own, and CDS files that call
    # it "surface" would turn it into another parameter.
    if int(about.get("paramId", 0)):
        keys.append(("paramId", int(about["paramId"])))
    else:
        keys += [(k, 255) for k in ("discipline", "parameterCategory", "parameterNumber")]
    return keys
