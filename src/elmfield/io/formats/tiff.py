"""TIFF: stacks and pictures through tifffile; maps (GeoTIFF) through rasterio, coordinates kept."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from elmfield._array.typing import Array, DType, Floats
from elmfield.field.coordinates.labels import AxisLabels, ChannelLabels, Labels
from elmfield.field.coordinates.output_positions import holds
from elmfield.io.conventions import Gaps, map_axes
from elmfield.io.files import check_pixels, need, reading
from elmfield.io.formats.arrays import Lazy
from elmfield.io.formats.raster import as_text, icc_for, make_picture
from elmfield.io.gridded import Gridded, step_of, transform_of, values_for_file
from elmfield.io.model.metadata import keepable

Opened = Any
"""An object of tifffile or rasterio: a page, an open map, its transform."""

GEO_TAGS = (33550, 33922, 34264, 34735)
"""Pixel scale, tie points, transformation, keys: any of them makes a TIFF a map."""

ICC = 34675
"""The tag of a colour profile."""

WHITE_IS_LEAST, PALETTE = 0, 3
"""Photometric interpretations, as the standard counts them."""


def read(path: Path, variable: str | None = None, *, lazily: bool = False) -> Gridded:
    """A picture, a stack or a map; `lazily`, tiles and strips are read as they are needed."""
    tifffile = need("tifffile", "io", "reading TIFF files")
    with reading(path, "TIFF"), tifffile.TiffFile(path) as file:
        tags, series = file.pages[0].tags, file.series[0]
        check_pixels(path, series.shape)
        if any(tag in tags for tag in GEO_TAGS):
            return _read_map(path, lazily)
        page, icc, axes = series.keyframe, tags.get(ICC), series.axes
        sizes, channels = _sizes_of(file)
        values: Array
        if lazily and page.photometric not in (PALETTE, WHITE_IS_LEAST):
            shape, stored = tuple(series.shape), tuple(page.chunks)
            stored = (*(1,) * (len(shape) - len(stored)), *stored)[-len(shape) :]
            values = Lazy(partial(_read_pages, path), shape, np.dtype(series.dtype), stored=stored)
        else:
            values, axes = _to_visible(series.asarray(), axes, page)
        found = _make_stack(values, axes, sizes)
        labels = replace(found.labels, header={} if icc is None else {"icc": as_text(icc.value)})
        if channels and found.channel_axis is not None:
            labels = replace(labels, channels=ChannelLabels(labels=channels))
        return replace(found, labels=labels)


def _read_pages(path: Path, slab: tuple[slice, ...]) -> Array:
    """A slab of a TIFF file's first series, of whatever tiles it touches."""
    tifffile = need("tifffile", "io", "reading TIFF files")
    zarr = need("zarr", "xarray", "reading parts of TIFF files")
    with tifffile.TiffFile(path) as file, file.series[0].aszarr(level=0) as store:
        return np.asarray(zarr.open_array(store, mode="r")[slab])


def _read_window(path: Path, meant: Callable[..., Array], slab: tuple[slice, ...]) -> Array:
    """A window of a map, of whatever tiles it touches: bands, rows, columns."""
    rasterio = need("rasterio", "geo", "reading a TIFF file with map coordinates")
    bands, rows, columns = slab
    window = ((rows.start, rows.stop), (columns.start, columns.stop))
    with rasterio.open(path) as file:
        values = file.read([b + 1 for b in range(file.count)[bands]], window=window)
    return meant(values[:, :: rows.step or 1, :: columns.step or 1], bands)


def _meant(
    gaps: Gaps, dtype: DType, scaling: Floats, values: Array, bands: slice = slice(None)
) -> Array:
    """Numbers of some bands as they are meant: gaps are NaN; `scaling` are factors and offsets."""
    values = gaps.out_of(values)
    scales, offsets = scaling[:, bands, None, None]
    if np.any(scales != 1) or np.any(offsets != 0):
        values = values * scales + offsets
    return values.astype(dtype, copy=False)


def _to_visible(values: Array, axes: str, page: Opened) -> tuple[Array, str]:
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


NAMES = {"Y": "row", "X": "column", "Z": "depth", "T": "time"}
"""What axes are called that tifffile names by letters."""

OME_SIZES = {"X": "PhysicalSizeX", "Y": "PhysicalSizeY", "Z": "PhysicalSizeZ", "T": "TimeIncrement"}
"""Attributes of OME that have the distance between samples."""

Sizes = dict[str, tuple[float, str]]
"""Distance between samples along axes that tifffile names by letters, and its unit."""


def _sizes_of(file: Opened) -> tuple[Sizes, list[str]]:
    """Distances between samples, and names of channels, as microscopes (OME, ImageJ) write them."""
    found: Sizes = {}
    if file.is_ome:
        tifffile = need("tifffile", "io", "reading TIFF files")
        images = tifffile.xml2dict(file.ome_metadata)["OME"]["Image"]
        pixels = (images[0] if isinstance(images, list) else images)["Pixels"]
        for letter, name in OME_SIZES.items():
            usual = "s" if letter == "T" else "µm"
            found[letter] = (float(pixels.get(name, 0)), str(pixels.get(f"{name}Unit", usual)))
        channels = [str(c.get("Name", "")) for c in np.ravel(pixels.get("Channel", []))]
    elif file.is_imagej:
        about, tags = file.imagej_metadata or {}, file.pages[0].tags
        unit = str(about.get("unit", "")).replace("\\u00B5", "µ").replace("micron", "µm")
        for letter, name in {"X": "XResolution", "Y": "YResolution"}.items():
            count, per = tags[name].value if name in tags else (0, 1)
            found[letter] = (per / count if count and unit else 0.0, unit)
        found["Z"] = (float(about.get("spacing", 0)), unit)
        found["T"] = (float(about.get("finterval", 0)), "s")
        channels = []
    else:
        return {}, []
    known = {a: size for a, size in found.items() if size[0] > 0 and np.isfinite(size[0])}
    return known, channels if any(channels) else []


def _make_stack(values: Array, axes: str, sizes: Sizes) -> Gridded:
    """An array whose axes tifffile names by letters; S and C are channels."""
    axes = axes.upper()
    channel = next((axes.index(a) for a in "SC" if a in axes), None)
    if not sizes and (values.ndim == 2 or (values.ndim == 3 and channel == 2)):
        return make_picture(values)
    used: list[str] = []
    coords, labels = {}, {}
    for k, a in enumerate(axes):
        if k != channel:
            name = NAMES.get(a, "frame")
            while name in used:
                name += "_"
            used.append(name)
            if a in sizes:
                coords[name] = sizes[a][0] * np.arange(values.shape[k])
                labels[name] = AxisLabels(attrs={"units": sizes[a][1]})
    dims, about = tuple(used), Labels(align="areas", axes=labels)
    return Gridded(values=values, dims=dims, coords=coords, channel_axis=channel, labels=about)


def _read_map(path: Path, lazily: bool) -> Gridded:
    rasterio = need("rasterio", "geo", "reading a TIFF file with map coordinates")
    with rasterio.open(path) as file:
        whole = (file.count, file.height, file.width)
        check_pixels(path, whole)
        stored, nodata, t = np.result_type(*file.dtypes), file.nodata, file.transform
        values: Array = None if lazily else file.read()
        block = tuple(map(int, file.block_shapes[0]))
        marked = nodata is not None and not np.isnan(nodata)
        gaps = Gaps(nodata, marked and _is_marked(file, nodata, values))
        labels = [text or f"band {k + 1}" for k, text in enumerate(file.descriptions)]
        header, attrs = dict[str, Any](), keepable(file.tags())
        if file.count == 1 and "palette" in file.colorinterp[0].name:
            # In a map the numbers are what counts; their colours are kept in the header.
            header["colours"] = keepable(file.colormap(1))
        scaling = np.array([file.scales, file.offsets], np.float64)
        units = {u for u in file.units if u}
        if len(units) == 1:
            attrs["units"] = units.pop()
        crs = file.crs.to_wkt() if file.crs else None
    is_scaled = bool((scaling != [[1], [0]]).any())  # applied, as NetCDF's are
    dtype = gaps.dtype(stored)
    if is_scaled and (stored != np.float32 or gaps.is_stored):
        dtype = np.dtype(np.float64)
    # The number that marked a gap may well be a scaled value.
    fill = float("nan") if is_scaled and nodata is not None else nodata
    is_area = attrs.get("AREA_OR_POINT") == "Area" and "colours" not in header
    about = Labels(
        align="areas",
        samples="means" if is_area else "points",
        crs=crs,
        transform=list(t[:6]),
        attrs=attrs,
        channels=ChannelLabels(name="band", labels=labels),
        fill_value=fill,
        dtype=stored.name if gaps.is_stored and not is_scaled else None,
        header=header,
    )
    meant = partial(_meant, gaps, dtype, scaling)
    window = partial(_read_window, path, meant)
    values = Lazy(window, whole, dtype, stored=(1, *block)) if lazily else meant(values)
    at = {}
    if t.b == 0 and t.d == 0:
        y, x = (np.arange(n) + 0.5 for n in whole[1:])
        at = {"y": t.f + t.e * y, "x": t.c + t.a * x}
    made = Gridded(values=values, dims=("y", "x"), coords=at, channel_axis=0, labels=about)
    return made if whole[0] > 1 else replace(made, values=values[0], channel_axis=None)


def _is_marked(file: Opened, nodata: float, values: Array) -> bool:
    """Whether some pixel of an open map, of which `values` may be read, has the number for none."""
    blocks = (file.read(window=window) for _, window in file.block_windows(1))
    return any((part == nodata).any() for part in (blocks if values is None else [values]))


def write(samples: Gridded, path: Path, *, colours: str | None = None) -> None:
    """Write a map if the samples have map coordinates, else a stack."""
    is_map = samples.labels.transform is not None and samples.dims[-2:] == ("y", "x")
    placed = samples if is_map else _to_map(samples)
    if placed is not None:
        _write_map(placed, path)
        return
    tifffile = need("tifffile", "io", "writing TIFF files")
    values = np.asarray(samples.values)
    if values.ndim < 2:
        raise ValueError(f"{path.name}: a TIFF file has two axes or more; got {values.ndim}.")
    if values.dtype.kind in "bc":
        values = values.astype(np.uint8 if values.dtype.kind == "b" else np.complex64)
    colour = samples.channel_axis == values.ndim - 1 and values.shape[-1] in (3, 4)
    options: dict[str, Any] = {"photometric": "rgb" if colour else "minisblack"}
    letters = {"y": "Y", "x": "X", **{name: letter for letter, name in NAMES.items()}}
    axes = [letters.get(n, "Q") for n in samples.dims]
    sizes = _sizes_for_file(samples, axes)
    if samples.channel_axis is not None:
        axes.insert(samples.channel_axis, "S" if colour else "C")
    if len(set(axes)) == len(axes) and (sizes or (not colour and values.ndim > 2)):
        options |= {"metadata": {"axes": "".join(axes), **sizes}, "ome": bool(sizes)}
    channels = 1 if samples.channel_axis is None else values.shape[samples.channel_axis]
    icc = icc_for(samples.labels.header, channels)
    tifffile.imwrite(path, values, compression="zlib", iccprofile=icc, **options)


def _sizes_for_file(samples: Gridded, letters: Sequence[str]) -> dict[str, Any]:
    """Distances between samples and names of channels, as OME calls them; none without units."""
    found: dict[str, Any] = {}
    for name, letter in zip(samples.dims, letters):
        coords, unit = samples.line(name), samples.labels.axis(name).units
        if letter in OME_SIZES and unit and len(coords) > 1:
            found[OME_SIZES[letter]] = abs(step_of(coords))
            found[f"{OME_SIZES[letter]}Unit"] = {"um": "µm", "micron": "µm"}.get(unit, unit)
    called = samples.labels.channels.labels
    if found and called and "C" not in letters and samples.channel_axis is not None:
        found["Channel"] = {"Name": [str(c) for c in called]}
    return found


def _to_map(samples: Gridded) -> Gridded | None:
    """Even coordinates on a map as GeoTIFF has them, north up; None for anything else."""
    told = {name: samples.labels.axis(name).attrs for name in samples.dims}
    is_earth = samples.labels.horizontal(samples.dims) is not None
    crs = samples.labels.crs or ("EPSG:4326" if is_earth else None)
    is_single = all(n == 1 for n in samples.shape[:-2])
    if crs is None or map_axes(samples.dims, told) != samples.dims[-2:] or not is_single:
        return None
    for name in samples.dims[:-2]:
        samples = samples.pick(name, 0)
    for name, way in zip(samples.dims, (-1, 1)):
        c = samples.line(name)
        steps = np.diff(np.asarray(c, np.float64))
        if not steps.size or np.max(np.abs(steps - steps.mean())) > 1e-3 * abs(steps.mean()):
            return None
        samples = samples if steps[0] * way > 0 else samples.pick(name, slice(None, None, -1))
    corners = transform_of(*(samples.coords[name] for name in samples.dims))
    labels = replace(samples.labels, crs=crs, transform=corners, axes={})
    values, k = samples.values, samples.channel_axis
    return Gridded(values=values, dims=("y", "x"), channel_axis=k, labels=labels)


def _write_map(samples: Gridded, path: Path) -> None:
    rasterio = need("rasterio", "geo", "writing a TIFF file with map coordinates")
    about = samples.labels
    assert about.transform is not None
    values = values_for_file(samples)
    k = samples.channel_axis
    values = values[None] if k is None else np.moveaxis(values, k, 0)
    if values.dtype == bool:
        values = values.astype(np.uint8)
    profile = {
        "driver": "GTiff",
        **dict(zip(("count", "height", "width"), values.shape)),
        "dtype": values.dtype.name,
        "crs": about.crs,
        "transform": rasterio.Affine(*about.transform),
        "compress": "deflate",
    }
    fill, kind = about.fill_value, values.dtype
    if fill is None and kind.kind == "f" and np.isnan(values).any():
        fill = float("nan")
    if fill is not None and (kind.kind == "f" or holds(kind, fill)):
        profile["nodata"] = fill
    with rasterio.open(path, "w", **profile) as file:
        file.write(values)
        file.update_tags(**{k: v for k, v in about.attrs.items() if isinstance(v, str)})
        for k, text in enumerate(about.channels.labels[: values.shape[0]], start=1):
            if text != f"band {k}":
                file.set_band_description(k, text)
        if about.units is not None:
            file.units = [about.units] * values.shape[0]
        colours = about.header.get("colours")
        if colours and values.dtype in (np.uint8, np.uint16):
            file.write_colormap(1, {int(k): tuple(v) for k, v in colours.items()})
