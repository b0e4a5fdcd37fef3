"""Pictures in and out: PNG, JPEG, JPEG 2000, JPEG XL, WebP, AVIF, HEIF, BMP, GIF, PNM.

A picture is an array of areas, rows first; colours are channels on the last axis, and the frames of
an animation lie along a first axis, time. PNG, JPEG 2000 and JPEG XL go through imagecodecs: the
common readers turn 16-bit colours into 8-bit ones without a word. The rest is Pillow's.

EXIF and ICC profiles are kept as text (base64) in the header of the labels, so that a model file
holds them too. Pixels come upright: the EXIF orientation is undone, and then says so.
"""

import base64
import struct
import warnings
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from elmfield._array.typing import Array
from elmfield.domain.sphere import is_latitude
from elmfield.field.coordinates.labels import Attrs, AxisLabels, ChannelLabels, Labels
from elmfield.io.files import UnreadableError, check_pixels, need, reading, suffix_of
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

ORIENTATION, WIDTH, HEIGHT, DETAILS = 0x0112, 0xA002, 0xA003, 0x8769
"""Numbers of EXIF tags; the sizes lie in a directory of their own, DETAILS."""

MARK = b"Exif\0\0"
"""What stands before EXIF in JPEG files."""

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
        check_pixels(path, SIZES[codec](data))
        values = np.asarray(getattr(codecs, f"{codec}_decode")(data))
        header, lies = _read_header(path)
    return make_picture(turn_upright(values, lies), header)


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
    k, channels = (None, ChannelLabels()) if values.ndim == 2 else (2, _colours(values))
    labels = Labels(align="areas", samples="means", channels=channels, header=header or {})
    return Gridded(values=values, dims=("row", "column"), channel_axis=k, labels=labels)


def _colours(values: Array) -> ChannelLabels:
    """What the channels of a picture are called."""
    return ChannelLabels(name="colour", labels=LABELS.get(values.shape[-1], LABELS[4]))


def _read_header(path: Path) -> tuple[dict[str, str], int]:
    """EXIF and ICC profile of a picture that Pillow knows, and how it lies."""
    with suppress(ImportError):
        from PIL import Image, UnidentifiedImageError

        # Files of another codec's kind do not open; their pixels were read all the same.
        with suppress(UnidentifiedImageError), _open_pillow(Image, path) as opened:
            return read_exif(opened)
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
        header, lies = read_exif(opened)
        count = getattr(opened, "n_frames", 1)  # pictures that cannot move have no such number
        check_pixels(path, (count, *opened.size))
        if count == 1:
            return make_picture(turn_upright(_pixels(opened), lies), header)
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
    exif = exif_for(header, h, w)
    icc = icc_for(header, 1 if values.ndim == 2 else values.shape[2])
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
            options |= {"icc_profile": icc, "exif": b"" if exif is None else MARK + exif}
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
    return PNG + chunk(b"IHDR", head) + carried + chunk(b"IDAT", body) + chunk(b"IEND", b"")


# --- what a file says besides its pixels ----------------------------------------------------------


def read_exif(opened: Any) -> tuple[dict[str, str], int]:
    """EXIF (upright) and ICC profile of an opened Pillow picture; and how it lies, 1 to 8."""
    kept, exif = {}, opened.getexif()
    lies = exif.get(ORIENTATION, 1)
    if ORIENTATION in exif:
        exif[ORIENTATION] = 1
    if len(exif):
        kept["exif"] = as_text(exif.tobytes())
    if opened.info.get("icc_profile"):
        kept["icc"] = as_text(opened.info["icc_profile"])
    return kept, lies if lies in range(1, 9) else 1


def turn_upright(values: Array, lies: int) -> Array:
    """An array of rows and columns, turned as its EXIF orientation says."""
    if lies in (5, 6, 7, 8):
        values = np.swapaxes(values, 0, 1)
    if lies in (3, 4, 7, 8):
        values = values[::-1]
    if lies in (2, 3, 6, 7):
        values = values[:, ::-1]
    return np.ascontiguousarray(values)


def exif_for(header: Attrs, height: int, width: int) -> bytes | None:
    """The EXIF bytes to write, without a mark, with the size the picture has now."""
    if "exif" not in header:
        return None
    data = as_bytes(header["exif"]).removeprefix(MARK)
    try:
        from PIL import Image
    except ImportError:
        return data
    exif = Image.Exif()
    exif.load(MARK + data)
    details = exif.get_ifd(DETAILS)
    if WIDTH in details or HEIGHT in details:
        details[WIDTH], details[HEIGHT] = width, height
    return bytes(exif.tobytes()).removeprefix(MARK)


def icc_for(header: Attrs, channels: int) -> bytes | None:
    """The ICC profile to write, if it is one for so many channels."""
    if "icc" not in header:
        return None
    profile = as_bytes(header["icc"])
    colour = {b"GRAY": (1, 2), b"RGB ": (3, 4)}.get(profile[16:20], (3, 4))
    return profile if channels in colour else None


def as_text(data: bytes) -> str:
    """Bytes as text that JSON can hold."""
    return base64.b64encode(data).decode("ascii")


def as_bytes(text: str) -> bytes:
    """What :func:`as_text` was given."""
    return base64.b64decode(text)


# --- sizes ----------------------------------------------------------------------------------------


# Read off the first bytes before anything is unpacked, for the kinds whose decoders spend the
# memory first: JPEG 2000 (ISO 15444-1, A.5.1 and I), JPEG XL (ISO 18181-1, size header; 18181-2,
# boxes) and HEIF (ISO 23008-12, ``ispe``); PNG's are at a fixed place. The other kinds are opened
# by libraries that tell.

PNG = b"\x89PNG\r\n\x1a\n"
JPEG_2000 = b"\xff\x4f\xff\x51"
JPEG_XL = b"\xff\x0a"
LENGTHS = (9, 13, 18, 30)
"""Bits of a size in a JPEG XL file, by two bits before it."""
RATIOS = ((1, 1), (12, 10), (4, 3), (3, 2), (16, 9), (5, 4), (2, 1))
"""Width over height that need no number of their own there."""


def size_of_png(data: bytes) -> tuple[int, int]:
    """Of a PNG file."""
    if data[:8] != PNG or len(data) < 33:
        raise ValueError("it is no PNG file")
    width, height = struct.unpack(">II", data[16:24])
    return height, width


def size_of_jpeg_2000(data: bytes) -> tuple[int, int]:
    """Of a codestream, alone or in a box."""
    for stream in [data] if data[:4] == JPEG_2000 else _boxes(data, b"jp2c"):
        if stream[:4] == JPEG_2000 and len(stream) >= 24:
            right, bottom, left, top = struct.unpack(">4I", stream[8:24])
            return max(0, bottom - top), max(0, right - left)
    raise ValueError("it holds no JPEG 2000 codestream")


def size_of_jpeg_xl(data: bytes) -> tuple[int, int]:
    """Of a codestream, alone, in a box or in several."""
    stream = data
    if data[:2] != JPEG_XL:
        parts = [part[4:] for part in _boxes(data, b"jxlp")]
        stream = b"".join([*_boxes(data, b"jxlc"), *parts])[:16]
    if stream[:2] != JPEG_XL or len(stream) < 4:
        raise ValueError("it holds no JPEG XL codestream")
    bits = int.from_bytes(stream[2:16], "little")

    def take(n: int) -> int:
        nonlocal bits
        found, bits = bits & ((1 << n) - 1), bits >> n
        return found

    eighths = take(1)

    def number() -> int:
        return 8 * (1 + take(5)) if eighths else 1 + take(LENGTHS[take(2)])

    rows = number()
    ratio = take(3)
    if ratio == 0:
        return rows, number()
    across, down = RATIOS[ratio - 1]
    return rows, rows * across // down


def size_of_heif(data: bytes) -> tuple[int, int]:
    """The largest of its pictures: those put together of tiles say how large they become."""
    sizes = [
        struct.unpack(">II", size[4:12])
        for meta in _boxes(data, b"meta")
        for properties in _boxes(meta[4:], b"iprp")
        for container in _boxes(properties, b"ipco")
        for size in _boxes(container, b"ispe")
        if len(size) >= 12
    ]
    if not sizes:
        raise ValueError("it does not tell the size of a picture")
    width, height = max(sizes, key=lambda size: size[0] * size[1])
    return height, width


def _boxes(data: bytes, kind: bytes) -> Iterator[bytes]:
    """What boxes of a kind hold, of those that follow one another."""
    at = 0
    while at + 8 <= len(data):
        length, head = int.from_bytes(data[at : at + 4], "big"), 8
        if length == 1:
            length, head = int.from_bytes(data[at + 8 : at + 16], "big"), 16
        end = len(data) if length == 0 else at + length
        if end < at + head:
            return
        if data[at + 4 : at + 8] == kind:
            yield data[at + head : end]
        at = end


SIZES = {
    "png": size_of_png,
    "jpeg2k": size_of_jpeg_2000,
    "jpegxl": size_of_jpeg_xl,
    "heif": size_of_heif,
}
"""What reads rows and columns that a file claims, by its codec in imagecodecs."""
