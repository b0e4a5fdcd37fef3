"""Pictures in and out: PNG, JPEG, JPEG 2000, JPEG XL, WebP, AVIF, HEIF, BMP, GIF, PNM.

A picture is an array of areas, rows first; colours are channels on the last axis, and the frames of
an animation lie along a first axis, time. PNG, JPEG 2000 and JPEG XL go through imagecodecs: the
common readers turn 16-bit colours into 8-bit ones without a word. The rest is Pillow's.
"""

import struct
import warnings
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from elmfield._array.typing import Array
from elmfield.domain.sphere import is_latitude
from elmfield.field.coordinates.labels import Attrs, AxisLabels, ChannelLabels, Labels
from elmfield.io.files import UnreadableError, check_pixels, need, reading, suffix_of
from elmfield.io.formats import picture_headers as headers
from elmfield.io.gridded import Gridded
from elmfield.show.pictures import colourise

BY_CODECS = {
    ".png": "png", ".jp2": "jpeg2k", ".j2k": "jpeg2k", ".jxl": "jpegxl",
    ".heic": "heif", ".heif": "heif",
}  # fmt: skip
"""Which of imagecodecs' readers takes a kind of file."""

SAVED: dict[str, dict[str, Any]] = {
    ".jpg": {"quality": 95},
    ".jpeg": {"quality": 95},
    ".webp": {"lossless": True, "exact": True, "quality": 100},
    ".avif": {"quality": 95, "subsampling": "4:4:4"},
}
"""What Pillow is asked for where a kind of file has EXIF and a profile."""

OPAQUE = (".jpg", ".jpeg", ".bmp", ".ppm", ".pgm")
"""Kinds that have no transparency."""

LABELS = {2: ["grey", "alpha"], 3: ["red", "green", "blue"], 4: ["red", "green", "blue", "alpha"]}
"""What the channels of a picture are called, by their number."""


def read(path: Path, variable: str | None = None, *, lazily: bool = False) -> Gridded:
    """A picture; of an animation all frames."""
    codec = BY_CODECS.get(suffix_of(path))
    with reading(path, "a picture"):
        if codec is None or (codec == "png" and _is_for_pillow(path)):
            return _read_by_pillow(path)
        codecs = need("imagecodecs", "io", f"reading {path.suffix[1:]} files")
        if not getattr(codecs, codec.upper()).available:
            raise UnreadableError(f"{path.name}: this build of imagecodecs has no {codec} codec.")
        data = path.read_bytes()
        check_pixels(path, headers.SIZES[codec](data))
        values = np.asarray(getattr(codecs, f"{codec}_decode")(data))
        header, lies = _read_header(path)
    return make_picture(headers.turn_upright(values, lies), header)


def _is_for_pillow(path: Path) -> bool:
    """Whether a PNG file is left to Pillow: no imagecodecs, no colours of 16 bits."""
    with path.open("rb") as file:
        depth, colour = (*file.read(26)[24:], 0, 0)[:2]
    return find_spec("imagecodecs") is None and not (depth == 16 and colour != 0)


def make_picture(values: Array, header: Attrs | None = None) -> Gridded:
    """An array of rows, columns and perhaps colours."""
    values = np.asarray(values)
    if values.ndim == 3 and values.shape[-1] == 1:
        values = values[..., 0]
    labels = Labels(align="areas", samples="means", header=header or {})
    if values.ndim == 2:
        return Gridded(values=values, dims=("row", "column"), labels=labels)
    labels = replace(labels, channels=_colours(values))
    return Gridded(values=values, dims=("row", "column"), channel_axis=2, labels=labels)


def _colours(values: Array) -> ChannelLabels:
    """What the channels of a picture are called."""
    return ChannelLabels(name="colour", labels=LABELS.get(values.shape[-1], LABELS[4]))


def _read_header(path: Path) -> tuple[dict[str, str], int]:
    """EXIF and ICC profile of a picture that Pillow knows, and how it lies."""
    try:
        from PIL import Image, UnidentifiedImageError
    except ImportError:
        return {}, 1
    # Files of another codec's kind do not open; their pixels were read all the same.
    with suppress(UnidentifiedImageError), _open_pillow(Image, path) as opened:
        return headers.read_exif(opened)
    return {}, 1


@contextmanager
def _open_pillow(pillow: Any, path: Path) -> Iterator[Any]:
    """A picture that Pillow knows, its size checked by us: Pillow's own limit has no way out."""
    limit, pillow.MAX_IMAGE_PIXELS = pillow.MAX_IMAGE_PIXELS, None
    try:
        opened = pillow.open(path)
    finally:
        pillow.MAX_IMAGE_PIXELS = limit
    with opened:
        check_pixels(path, opened.size)
        yield opened


def _read_by_pillow(path: Path) -> Gridded:
    """A picture of one frame, or all frames of an animation: (T, H, W, colours)."""
    pillow = need("PIL.Image", "io", f"reading {path.suffix[1:]} files")
    with _open_pillow(pillow, path) as opened:
        header, lies = headers.read_exif(opened)
        count = getattr(opened, "n_frames", 1)  # pictures that cannot move have no such number
        check_pixels(path, (count, *opened.size))
        if count == 1:
            return make_picture(headers.turn_upright(_pixels(opened), lies), header)
        frames, times = [], []
        for k in range(count):
            opened.seek(k)
            frames.append(np.asarray(opened.convert("RGBA")))
            times.append(float(opened.info.get("duration", 100)) / 1000)
    values = np.stack(frames)
    if (values[..., 3] == 255).all():
        values = values[..., :3]
    began = np.concatenate([[0.0], np.cumsum([t or 0.1 for t in times])[:-1]])
    axes = {"time": AxisLabels(attrs={"units": "s"})}
    labels = Labels(align="areas", axes=axes, channels=_colours(values), header=header)
    dims, at = ("time", "row", "column"), {"time": began}
    return Gridded(values=values, dims=dims, coords=at, channel_axis=3, labels=labels)


def _pixels(opened: Any) -> Array:
    """The pixels of a Pillow picture: grey or colours, with or without transparency."""
    if opened.mode == "1":
        opened = opened.convert("L")
    elif opened.mode in ("P", "PA"):
        opened = opened.convert("RGBA" if "transparency" in opened.info else "RGB")
    elif opened.mode not in ("L", "LA", "RGB", "RGBA", "F") and not opened.mode.startswith("I"):
        opened = opened.convert("RGB")
    return np.array(opened)


def write(samples: Gridded, path: Path, *, colours: str | None = None) -> None:
    """Write a picture: whole numbers of 8 or 16 bits as they are, others grey or through a map."""
    suffix, header = suffix_of(path), samples.labels.header
    if BY_CODECS.get(suffix) == "heif":
        raise ValueError(f"{path.name}: HEIF files are only read. Write an .avif file instead.")
    if suffix == ".gif" and len(samples.dims) == 3:
        _write_frames(samples, path)
        return
    values = to_pixels(samples, path, colours)
    if values.ndim == 3 and values.shape[-1] == 1:
        values = values[..., 0]
    h, w = values.shape[:2]
    exif = headers.exif_for(header, h, w)
    icc = headers.icc_for(header, 1 if values.ndim == 2 else values.shape[2])
    if suffix == ".png":
        path.write_bytes(png(values, exif=exif, icc=icc))
    elif suffix in BY_CODECS:
        codecs = need("imagecodecs", "io", f"writing {suffix[1:]} files")
        if suffix == ".jxl":
            data = codecs.jpegxl_encode(values, lossless=True)
        else:
            data = codecs.jpeg2k_encode(values, level=0, codecformat=suffix[1:], reversible=True)
        path.write_bytes(data)
    else:
        pillow = need("PIL.Image", "io", f"writing {path.suffix[1:]} files")
        options = dict(SAVED.get(suffix, {}))
        if options:
            options |= {"icc_profile": icc, "exif": b"" if exif is None else headers.MARK + exif}
        pillow.fromarray(_to_pillow(values, suffix)).save(path, **options)


def _to_pillow(values: Array, suffix: str) -> Array:
    """Pixels as a kind of file can hold them: 8 bits, without transparency where there is none."""
    if values.dtype == np.uint16 and suffix != ".pgm":
        values = (values >> 8).astype(np.uint8)
    if values.ndim == 3 and values.shape[-1] == 2:
        values = values[..., 0] if suffix in OPAQUE else values[..., [0, 0, 0, 1]]
    if values.ndim == 3 and suffix in OPAQUE:
        values = values[..., :3]
    if suffix == ".pgm" and values.ndim == 3:
        raise ValueError("a .pgm file is grey; got colours. Write a .ppm file instead.")
    return np.ascontiguousarray(values)


def _write_frames(samples: Gridded, path: Path) -> None:
    """Write an animation; frames last as their time axis says, to the hundredth of a second."""
    pillow = need("PIL.Image", "io", "writing GIF files")
    values = samples.channels_last
    if values.dtype != np.uint8:
        values = np.clip(np.round(np.nan_to_num(values)), 0, 255).astype(np.uint8)
    frames = [pillow.fromarray(np.ascontiguousarray(np.squeeze(v))) for v in values]
    gaps = np.diff(samples.line(samples.dims[0]))
    lasts = [max(20, int(10 * round(float(g) * 100))) for g in (*gaps, *gaps[-1:])] or 100
    with warnings.catch_warnings():  # about frames that are alike
        warnings.simplefilter("ignore")
        frames[0].save(
            path, format="GIF", save_all=True, append_images=frames[1:], duration=lasts, loop=0,
            disposal=2 if values.ndim == 4 and values.shape[-1] == 4 else 0,
        )  # fmt: skip


def to_pixels(samples: Gridded, path: Path, colours: str | None = None) -> Array:
    """The samples as uint8 or uint16 with colours last: (H, W) or (H, W, 1 to 4)."""
    values, d = _north_up(samples), len(samples.dims)
    extra = tuple(k for k in range(d) if values.shape[k] == 1)[: max(0, d - 2)]
    values, d = np.squeeze(values, axis=extra), d - len(extra)
    if d != 2:
        raise ValueError(
            f"{path.name}: a picture has two axes; got {d} ({', '.join(samples.dims)}). Choose a "
            "slice, another format, or say which axis holds colours: channel_axis=-1."
        )
    if values.ndim == 3 and (n := values.shape[-1]) > 4:
        raise ValueError(f"{path.name}: a picture has at most four channels; got {n}.")
    if values.dtype == bool:
        values = values.astype(np.uint8) * 255
    if values.dtype in (np.uint8, np.uint16) and (colours is None or values.ndim == 3):
        return np.ascontiguousarray(values)
    if values.ndim == 3:
        low, high = float(np.nanmin(values)), float(np.nanmax(values))
        scaled = (values - low) / ((high - low) or 1.0) * 255
        return np.ascontiguousarray(np.round(np.nan_to_num(scaled)).astype(np.uint8))
    shown = colourise(values, colours or "grey")
    if colours not in (None, "grey"):
        return shown
    grey, there = shown[..., 0], np.isfinite(values)
    transparent = np.stack([there * grey, there * np.uint8(255)], axis=-1)  # where missing
    return grey if there.all() else transparent


def _north_up(samples: Gridded) -> Array:
    """Values, channels last, with rows from north to south where they are latitudes or maps."""
    values = samples.channels_last
    for k, name in enumerate(samples.dims):
        c = samples.line(name)
        on_map = name == "y" and samples.labels.transform is not None
        north = on_map or is_latitude(name, samples.labels.axis(name).attrs)
        if north and len(c) > 1 and c[-1] > c[0]:
            values = np.flip(values, axis=k)
    return values


def png(values: Array, *, exif: bytes | None = None, icc: bytes | None = None) -> bytes:
    """A PNG file of uint8 or uint16 values, (H, W) or (H, W, 1 to 4), and what it carries."""
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
        body = name + data
        return struct.pack(">I", len(data)) + body + struct.pack(">I", zlib.crc32(body))

    head = struct.pack(">IIBBBBB", w, h, 8 * values.dtype.itemsize, kind, 0, 0, 0)
    carried = b"" if icc is None else chunk(b"iCCP", b"ICC profile\0\0" + zlib.compress(icc))
    carried += b"" if exif is None else chunk(b"eXIf", exif)
    body = zlib.compress(lines.tobytes(), 6)
    return headers.PNG + chunk(b"IHDR", head) + carried + chunk(b"IDAT", body) + chunk(b"IEND", b"")
