"""Pictures in and out: PNG, JPEG, JPEG 2000.

A picture is an array of areas, rows first; colours are channels on the last axis. PNG goes through
imagecodecs: the common readers turn 16-bit colours into 8-bit ones without a word.
"""

import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from elmfield._array.typing import Array
from elmfield.domain.sphere import is_latitude
from elmfield.io.errors import reading
from elmfield.io.formats.registry import need, suffix_of
from elmfield.io.gridded import Gridded, plain_grid

PNG = b"\x89PNG\r\n\x1a\n"


def read(path: Path, variable: str | None = None) -> Gridded:
    """A picture."""
    suffix, data = suffix_of(path), path.read_bytes()
    with reading(path, "a picture"):
        if suffix == ".png":
            values = _read_png(path, data)
        elif suffix in (".jpg", ".jpeg"):
            values = _read_jpeg(path)
        else:
            codecs = need("imagecodecs", "io", "reading JPEG 2000")
            values = codecs.jpeg2k_decode(data)
    return as_picture(np.asarray(values))


def as_picture(values: Array, **attributes: Any) -> Gridded:
    """An array of rows, columns and perhaps colours."""
    values = np.asarray(values)
    if values.ndim == 3 and values.shape[-1] == 1:
        values = values[..., 0]
    if values.ndim == 2:
        return plain_grid(values, ("row", "column"), align="areas", **attributes)
    labels = {1: ["grey"], 2: ["grey", "alpha"], 3: ["red", "green", "blue"]}
    named = labels.get(values.shape[-1], ["red", "green", "blue", "alpha"])
    channels = {"name": "colour", "labels": named}
    return plain_grid(values, ("row", "column"), 2, align="areas", channels=channels, **attributes)


def _read_png(path: Path, data: bytes) -> Array:
    if data[:8] != PNG or len(data) < 33:
        raise ValueError("it is no PNG file")
    depth, colour = data[24], data[25]
    try:
        import imagecodecs
    except ImportError:
        if depth == 16 and colour != 0:
            need("imagecodecs", "io", "reading a PNG file with 16-bit colours")
        pillow = need("PIL.Image", "io", "reading PNG files")
        with pillow.open(path) as opened:
            if opened.mode in ("P", "1"):
                opened = opened.convert("RGBA" if "transparency" in opened.info else "RGB")
            return np.array(opened)
    return np.asarray(imagecodecs.png_decode(data))


def _read_jpeg(path: Path) -> Array:
    pillow = need("PIL.Image", "io", "reading JPEG files")
    ops = need("PIL.ImageOps", "io", "reading JPEG files")
    with pillow.open(path) as opened:
        upright = ops.exif_transpose(opened)
        if upright.mode not in ("L", "RGB"):
            upright = upright.convert("RGB")
        return np.array(upright)


def write(samples: Gridded, path: Path, *, quality: int = 95, colours: str | None = None) -> None:
    """Write a picture: whole numbers of 8 or 16 bits as they are, others through a colour map."""
    values = colour_last(samples, path, colours)
    suffix = suffix_of(path)
    if suffix == ".png":
        path.write_bytes(png(values))
    elif suffix in (".jpg", ".jpeg"):
        pillow = need("PIL.Image", "io", "writing JPEG files")
        if values.dtype == np.uint16:
            values = (values >> 8).astype(np.uint8)
        if values.ndim == 3 and values.shape[-1] in (2, 4):  # JPEG has no transparency
            values = values[..., :-1]
        values = values[..., 0] if values.ndim == 3 and values.shape[-1] == 1 else values
        pillow.fromarray(values).save(path, quality=quality)
    else:
        codecs = need("imagecodecs", "io", "writing JPEG 2000")
        kind = "jp2" if suffix == ".jp2" else "j2k"
        encoded = codecs.jpeg2k_encode(values, level=0, codecformat=kind, reversible=True)
        path.write_bytes(encoded)


def colour_last(samples: Gridded, path: Path, colours: str | None = None) -> Array:
    """The samples as uint8 or uint16 with colours last: (H, W) or (H, W, 1 to 4)."""
    from elmfield.show.render import picture

    values = np.asarray(samples.values)
    if samples.channel_axis is not None:
        values = np.moveaxis(values, samples.channel_axis, -1)
    values = _north_up(samples, values)
    d = len(samples.dims)
    extra = [k for k in range(d) if values.shape[k] == 1 and d > 2]
    while d - len(extra) < 2 and extra:
        extra.pop()
    values = np.squeeze(values, axis=tuple(extra))
    if d - len(extra) != 2:
        raise ValueError(
            f"{path.name}: a picture has two axes; got {d - len(extra)} "
            f"({', '.join(samples.dims)}). Choose a slice, another format, or say which axis holds "
            "colours: channel_axis=-1."
        )
    if values.ndim == 3 and values.shape[-1] > 4:
        raise ValueError(
            f"{path.name}: a picture has at most four channels; got {values.shape[-1]}. Write a "
            ".tif, .nc or .npy file instead."
        )
    if values.dtype == bool:
        values = values.astype(np.uint8) * 255
    if values.dtype in (np.uint8, np.uint16) and (colours is None or values.ndim == 3):
        return np.ascontiguousarray(values)
    if values.ndim == 3:
        low, high = float(np.nanmin(values)), float(np.nanmax(values))
        scaled = (values - low) / ((high - low) or 1.0) * 255
        return np.ascontiguousarray(np.round(np.nan_to_num(scaled)).astype(np.uint8))
    return picture(values, colours or "viridis")


def _north_up(samples: Gridded, values: Array) -> Array:
    """Values, channels last, with rows from north to south where they are latitudes or maps."""
    about = samples.attributes
    for k, name in enumerate(samples.dims):
        c = samples.coords.get(name)
        on_map = name == "y" and "transform" in about
        north = on_map or is_latitude(name, about.get("axes", {}).get(name, {}).get("attrs", {}))
        if north and c is not None and len(c) > 1 and c[-1] > c[0]:
            values = np.flip(values, axis=k)
    return values


def png(values: Array) -> bytes:
    """A PNG file of uint8 or uint16 values, (H, W) or (H, W, 1 to 4)."""
    values = np.asarray(values)
    h, w = values.shape[:2]
    channels = 1 if values.ndim == 2 else values.shape[2]
    kind = {1: 0, 2: 4, 3: 2, 4: 6}[channels]
    rows = values.astype(values.dtype.newbyteorder(">")).reshape(h, -1).view(np.uint8)
    # Each row less the one above: neighbours are alike, and differences pack better.
    up = np.concatenate([rows[:1], rows[1:] - rows[:-1]])
    lines = np.concatenate([np.full((h, 1), 2, np.uint8), up], axis=1)
    lines[0, 0] = 0

    def chunk(name: bytes, data: bytes) -> bytes:
        return (
            struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
        )

    head = struct.pack(">IIBBBBB", w, h, 8 * values.dtype.itemsize, kind, 0, 0, 0)
    body = zlib.compress(lines.tobytes(), 6)
    return PNG + chunk(b"IHDR", head) + chunk(b"IDAT", body) + chunk(b"IEND", b"")
