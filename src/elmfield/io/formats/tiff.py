"""TIFF: stacks and pictures through tifffile; maps (GeoTIFF) through rasterio, coordinates kept."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from elmfield.domain.sphere import horizontal
from elmfield.io.errors import reading
from elmfield.io.formats.profiles import as_text, icc_for
from elmfield.io.formats.raster import as_picture
from elmfield.io.formats.registry import need
from elmfield.io.gridded import Gridded, as_filed, grid_of, plain_grid
from elmfield.io.lazy import Lazy
from elmfield.io.model.plain import keepable
from elmfield.io.pixels import check_pixels

GEO_TAGS = (33550, 33922, 34264, 34735)
"""Pixel scale, tie points, transformation, keys: any of them makes a TIFF a map."""

ICC = 34675
"""The tag of a colour profile."""

SEARCHED = 1 << 22
"""Pixels that are searched at a time for the number that stands for none."""

WHITE_IS_LEAST, PALETTE = 0, 3
"""Photometric interpretations, as the standard counts them."""


def read(path: Path, variable: str | None = None) -> Gridded:
    """A picture, a stack or a map."""
    tifffile = need("tifffile", "io", "reading TIFF files")
    with reading(path, "TIFF"):
        with tifffile.TiffFile(path) as file:
            is_map = any(tag in file.pages[0].tags for tag in GEO_TAGS)
            if not is_map:
                series = file.series[0]
                check_pixels(path, series.shape)
                found = _plain(*_seen(series.asarray(), series.axes, series.keyframe))
                icc = file.pages[0].tags.get(ICC)
                return found if icc is None else with_header(found, icc=as_text(icc.value))
        return _map(path)


def with_header(samples: Gridded, **header: Any) -> Gridded:
    """Samples with more in their header."""
    kept = {**samples.attributes.get("header", {}), **header}
    return replace(samples, attributes={**samples.attributes, "header": kept})


def opened(path: Path, variable: str | None = None) -> Gridded:
    """The same; tiles and strips are read as they are needed."""
    tifffile = need("tifffile", "io", "reading TIFF files")
    with reading(path, "TIFF"):
        with tifffile.TiffFile(path) as file:
            is_map = any(tag in file.pages[0].tags for tag in GEO_TAGS)
            series = file.series[0]
            coloured = series.keyframe.photometric in (PALETTE, WHITE_IS_LEAST)
            shape, dtype, axes = tuple(series.shape), series.dtype, series.axes
            stored = tuple(series.keyframe.chunks)
            icc = file.pages[0].tags.get(ICC)
        check_pixels(path, shape)
        if is_map:
            return _map(path, lazily=True)
        if coloured:
            return read(path, variable)
    stored = (*(1,) * (len(shape) - len(stored)), *stored)[-len(shape) :]
    found = _plain(Lazy(Pages(path), shape, np.dtype(dtype), stored=stored), axes)
    return found if icc is None else with_header(found, icc=as_text(icc.value))


@dataclass(frozen=True)
class Pages:
    """Reads slabs of a TIFF file's first series."""

    path: Path

    def __call__(self, slab: tuple[slice, ...]) -> Any:
        """The slab, of whatever tiles it touches."""
        tifffile = need("tifffile", "io", "reading TIFF files")
        zarr = need("zarr", "xarray", "reading parts of TIFF files")
        with tifffile.TiffFile(self.path) as file, file.series[0].aszarr(level=0) as store:
            return np.asarray(zarr.open_array(store, mode="r")[slab])


@dataclass(frozen=True)
class Windows:
    """Reads windows of a map: bands, rows, columns; gaps are NaN, and numbers as they are meant."""

    path: Path
    dtype: Any
    nodata: float | None
    scales: tuple[float, ...]
    offsets: tuple[float, ...]

    def __call__(self, slab: tuple[slice, ...]) -> Any:
        """The window, of whatever tiles it touches."""
        rasterio = need("rasterio", "geo", "reading a TIFF file with map coordinates")
        bands, rows, columns = slab
        every = list(range(bands.start, bands.stop, bands.step or 1))
        window = ((rows.start, rows.stop), (columns.start, columns.stop))
        with rasterio.open(self.path) as file:
            values = file.read([b + 1 for b in every], window=window)
        values = values[:, :: rows.step or 1, :: columns.step or 1]
        return self.meant(values, every)

    def meant(self, values: Any, bands: Sequence[int]) -> Any:
        """Numbers of some bands as they are meant."""
        gaps = None if self.nodata is None else values == self.nodata
        scales, offsets = (
            np.reshape(v, (-1, 1, 1))[list(bands)] for v in (self.scales, self.offsets)
        )
        if np.any(scales != 1) or np.any(offsets != 0):
            values = values * scales + offsets
        values = values.astype(self.dtype, copy=False)
        return values if gaps is None else np.where(gaps, np.asarray(np.nan, self.dtype), values)


def _seen(values: Any, axes: str, page: Any) -> tuple[Any, str]:
    """Values as one sees them: colours for a palette's indices, and white above black."""
    if page.photometric == PALETTE and page.colormap is not None:
        colours = np.asarray(page.colormap)  # (3, n), 16 bits, mostly made from 8
        low, high = colours & 255, colours >> 8
        if not low.any() or np.array_equal(low, high):
            colours = high.astype(np.uint8)
        return np.moveaxis(colours[:, values], 0, -1), axes + "S"
    if page.photometric == WHITE_IS_LEAST and values.dtype.kind in "bu":
        top = True if values.dtype.kind == "b" else (1 << page.bitspersample) - 1
        values = (top ^ values).astype(values.dtype)
    return values, axes


def _plain(values: Any, axes: str) -> Gridded:
    """An array whose axes tifffile names by letters; S and C are channels."""
    axes = axes.upper()
    channel = next((axes.index(a) for a in "SC" if a in axes), None)
    if values.ndim == 2 or (values.ndim == 3 and channel == 2):
        return as_picture(values)
    names = {"Y": "row", "X": "column", "Z": "depth", "T": "time"}
    used: list[str] = []
    for k, a in enumerate(axes):
        if k != channel:
            name = names.get(a, "frame")
            while name in used:
                name += "_"
            used.append(name)
    return plain_grid(values, used, channel, align="areas")


def _map(path: Path, lazily: bool = False) -> Gridded:
    rasterio = need("rasterio", "geo", "reading a TIFF file with map coordinates")
    with rasterio.open(path) as file:
        whole = (file.count, file.height, file.width)
        check_pixels(path, whole)
        stored = np.result_type(*file.dtypes)
        values: Any = None if lazily else file.read()
        block = tuple(map(int, file.block_shapes[0]))
        t = file.transform
        nodata = file.nodata
        marked = nodata is not None and not np.isnan(nodata)
        has_gaps = marked and _is_marked(file, nodata, values)
        labels = [text or f"band {k + 1}" for k, text in enumerate(file.descriptions)]
        attributes: dict[str, Any] = {
            "align": "areas",
            "crs": file.crs.to_wkt() if file.crs else None,
            "transform": [t.a, t.b, t.c, t.d, t.e, t.f],
            "attrs": keepable(file.tags()),
            "channels": {"name": "band", "labels": labels},
            "fill_value": nodata,
            "header": {"compress": file.profile.get("compress")},
        }
        if file.count == 1 and "palette" in file.colorinterp[0].name:
            # In a map the numbers are what counts; their colours are kept beside them.
            attributes["header"]["colours"] = keepable(file.colormap(1))
        scales, offsets = (np.reshape(v, (-1, 1, 1)) for v in (file.scales, file.offsets))
        units = {u for u in file.units if u}
        if len(units) == 1:
            attributes["attrs"]["units"] = units.pop()
    is_scaled = bool(np.any(scales != 1) or np.any(offsets != 0))  # applied, as NetCDF's are
    dtype = stored
    if has_gaps and stored.kind != "f":
        dtype = np.dtype(np.float64 if stored.itemsize > 2 else np.float32)
    if has_gaps and not is_scaled:
        attributes["dtype"] = stored.name
    if is_scaled:
        dtype = np.dtype(np.float32 if stored == np.float32 and not has_gaps else np.float64)
        # The number that marked a gap may well be a value now.
        attributes["fill_value"] = None if nodata is None else float("nan")
    each = (tuple(map(float, np.ravel(v))) for v in (scales, offsets))
    meant = Windows(path, dtype, nodata if has_gaps else None, *each)
    if lazily:
        return _placed(Lazy(meant, whole, dtype, stored=(1, *block)), t, attributes)
    return _placed(meant.meant(values, range(whole[0])), t, attributes)


def _is_marked(file: Any, nodata: float, values: Any) -> bool:
    """Whether some pixel of an open map, of which `values` may be read, has the number for none."""
    if values is not None:
        return bool((values == nodata).any())
    rows = max(1, SEARCHED // (file.width * file.count))
    rows = -(-rows // file.block_shapes[0][0]) * file.block_shapes[0][0]
    return any(
        bool((file.read(window=((a, min(a + rows, file.height)), (0, file.width))) == nodata).any())
        for a in range(0, file.height, rows)
    )


def _placed(values: Any, t: Any, attributes: dict[str, Any]) -> Gridded:
    """Bands of a map, or the only one, with the coordinates of a transform."""
    channel: int | None = 0
    if values.shape[0] == 1:
        values, channel = values[0], None
    h, w = values.shape[-2:]
    at = {}
    if t.b == 0 and t.d == 0:
        at = {"y": t.f + t.e * (np.arange(h) + 0.5), "x": t.c + t.a * (np.arange(w) + 0.5)}
    return Gridded(
        values=values, dims=("y", "x"), coords=at, channel_axis=channel, attributes=attributes
    )


def write(samples: Gridded, path: Path, *, colours: str | None = None) -> None:
    """Write a map if the samples have map coordinates, else a stack."""
    if "transform" in samples.attributes and samples.dims[-2:] == ("y", "x"):
        _write_map(samples, path)
        return
    on_earth = _on_earth(samples)
    if on_earth is not None:
        _write_map(on_earth, path)
        return
    tifffile = need("tifffile", "io", "writing TIFF files")
    values = np.asarray(samples.values)
    if values.dtype == bool:
        values = values.astype(np.uint8)
    if values.dtype.kind == "c":
        values = values.astype(np.complex64)
    colour = samples.channel_axis == values.ndim - 1 and values.shape[-1] in (3, 4)
    options: dict[str, Any] = {"photometric": "rgb" if colour else "minisblack"}
    if not colour and values.ndim > 2:
        letters = {"row": "Y", "column": "X", "depth": "Z", "time": "T", "y": "Y", "x": "X"}
        axes = [letters.get(n, "Q") for n in samples.dims]
        if samples.channel_axis is not None:
            axes.insert(samples.channel_axis, "C")
        if len(set(axes)) == len(axes):
            options["metadata"] = {"axes": "".join(axes)}
    channels = 1 if samples.channel_axis is None else values.shape[samples.channel_axis]
    icc = icc_for(samples.attributes.get("header", {}), channels)
    tifffile.imwrite(path, values, compression="zlib", iccprofile=icc, **options)


def _on_earth(samples: Gridded) -> Gridded | None:
    """Even latitudes and longitudes as a map, north up; None for anything else."""
    pair = horizontal(samples.dims, samples.attributes.get("axes", {}))
    d = len(samples.dims)
    if pair != (d - 2, d - 1):
        return None
    lat, lon = (samples.coords.get(samples.dims[k]) for k in pair)
    values, axes = np.asarray(samples.values), samples.array_axes
    one = [axes[k] for k in range(d - 2)]
    if lat is None or lon is None or any(values.shape[k] > 1 for k in one):
        return None
    for c in (lat, lon):
        steps = np.diff(np.asarray(c, np.float64))
        if len(c) < 2 or np.max(np.abs(steps - steps.mean())) > 1e-3 * abs(steps.mean()):
            return None
    channel = samples.channel_axis
    if channel is not None:
        values, channel = np.moveaxis(values, channel, 0), 0
        values = values.reshape(len(values), *values.shape[-2:])
    else:
        values = values.reshape(values.shape[-2:])
    north, east = (float(c[-1] - c[0]) / (len(c) - 1) for c in (lat, lon))
    values = values[..., ::-1, :] if north > 0 else values
    values = values[..., ::-1] if east < 0 else values
    top, left = float(max(lat[0], lat[-1])), float(min(lon[0], lon[-1]))
    dlat, dlon = abs(north), abs(east)
    about = {k: v for k, v in samples.attributes.items() if k not in ("grid", "axes")}
    return Gridded(
        values=values,
        dims=("y", "x"),
        channel_axis=channel,
        attributes={
            **about,
            "crs": "EPSG:4326",
            "transform": [dlon, 0.0, left - dlon / 2, 0.0, -dlat, top + dlat / 2],
        },
    )


def _write_map(samples: Gridded, path: Path) -> None:
    rasterio = need("rasterio", "geo", "writing a TIFF file with map coordinates")
    about = samples.attributes
    values = as_filed(samples)
    if samples.channel_axis is None:
        values = values[None]
    elif samples.channel_axis != 0:
        values = np.moveaxis(values, samples.channel_axis, 0)
    if values.dtype == bool:
        values = values.astype(np.uint8)
    (r, c), (dr, dc) = grid_of(samples)
    # The transform is that of corners: sample k covers k to k + 1, and its centre is k + 1/2.
    a, b, x, d, e, y = about["transform"]
    left, top = c + 0.5 - dc / 2, r + 0.5 - dr / 2
    transform = (a * dc, b * dr, a * left + b * top + x, d * dc, e * dr, d * left + e * top + y)
    profile = {
        "driver": "GTiff",
        "height": values.shape[1],
        "width": values.shape[2],
        "count": values.shape[0],
        "dtype": values.dtype.name,
        "crs": about.get("crs"),
        "transform": rasterio.Affine(*transform),
        "compress": "deflate",
    }
    fill = about.get("fill_value")
    if fill is None and values.dtype.kind == "f" and np.isnan(values).any():
        fill = float("nan")
    if fill is not None:
        kind = values.dtype
        if kind.kind == "f" or np.iinfo(kind).min <= fill <= np.iinfo(kind).max:
            profile["nodata"] = fill
    labels = about.get("channels", {}).get("labels", [])
    with rasterio.open(path, "w", **profile) as file:
        file.write(values)
        tags = {k: v for k, v in about.get("attrs", {}).items() if isinstance(v, str)}
        file.update_tags(**tags)
        for k, text in enumerate(labels[: values.shape[0]]):
            if text != f"band {k + 1}":
                file.set_band_description(k + 1, text)
        if "units" in about.get("attrs", {}):
            file.units = [about["attrs"]["units"]] * values.shape[0]
        colours = about.get("header", {}).get("colours")
        if colours and values.dtype in (np.uint8, np.uint16):
            file.write_colormap(1, {int(k): tuple(v) for k, v in colours.items()})
