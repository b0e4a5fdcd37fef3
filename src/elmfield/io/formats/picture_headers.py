"""What a file of a picture says besides its pixels: size, EXIF, the ICC profile of its colours.

Sizes are read off the first bytes before anything is unpacked, for the kinds whose decoders spend
the memory first: JPEG 2000 (ISO 15444-1, A.5.1 and I), JPEG XL (ISO 18181-1, size header; 18181-2,
boxes) and HEIF (ISO 23008-12, ``ispe``); PNG's are at a fixed place. The other kinds are opened by
libraries that tell.

EXIF and profiles are kept as text (base64) in the header of the labels, so that a model file holds
them too. Pixels come upright: the EXIF orientation is undone, and then says so.
"""

import base64
import struct
from collections.abc import Iterator
from typing import Any

import numpy as np

from elmfield._array.typing import Array
from elmfield.field.coordinates.labels import Attrs

ORIENTATION, WIDTH, HEIGHT, DETAILS = 0x0112, 0xA002, 0xA003, 0x8769
"""Numbers of EXIF tags; the sizes lie in a directory of their own, DETAILS."""

MARK = b"Exif\0\0"
"""What stands before EXIF in JPEG files."""

PNG = b"\x89PNG\r\n\x1a\n"
JPEG_2000 = b"\xff\x4f\xff\x51"
JPEG_XL = b"\xff\x0a"
LENGTHS = (9, 13, 18, 30)
"""Bits of a size in a JPEG XL file, by two bits before it."""
RATIOS = ((1, 1), (12, 10), (4, 3), (3, 2), (16, 9), (5, 4), (2, 1))
"""Width over height that need no number of their own there."""


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
