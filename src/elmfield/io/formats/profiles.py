"""What a picture carries beside its pixels: EXIF, and the ICC profile of its colours.

Bytes of other people's making, kept as text (base64) under ``header`` of the attributes, so that a
model file holds them too. Pixels come upright: the EXIF orientation is undone, and then says so.
"""

import base64
from collections.abc import Mapping
from typing import Any

import numpy as np

from elmfield._array.typing import Array

ORIENTATION, WIDTH, HEIGHT, DETAILS = 0x0112, 0xA002, 0xA003, 0x8769
"""Numbers of EXIF tags; the sizes lie in a directory of their own, DETAILS."""

MARK = b"Exif\0\0"
"""What stands before EXIF in JPEG files."""


def kept_of(opened: Any) -> tuple[dict[str, str], int]:
    """EXIF (upright) and ICC profile of an opened Pillow picture; and how it lies, 1 to 8."""
    kept, exif = {}, opened.getexif()
    lies = exif.get(ORIENTATION, 1)
    if len(exif):
        if ORIENTATION in exif:
            exif[ORIENTATION] = 1
        kept["exif"] = as_text(exif.tobytes())
    if opened.info.get("icc_profile"):
        kept["icc"] = as_text(opened.info["icc_profile"])
    return kept, lies if lies in range(1, 9) else 1


def upright(values: Array, lies: int) -> Array:
    """An array of rows and columns, turned as its EXIF orientation says."""
    if lies in (5, 6, 7, 8):
        values = np.swapaxes(values, 0, 1)
    if lies in (3, 4, 7, 8):
        values = values[::-1]
    if lies in (2, 3, 6, 7):
        values = values[:, ::-1]
    return np.ascontiguousarray(values)


def exif_for(header: Mapping[str, Any], height: int, width: int) -> bytes | None:
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


def icc_for(header: Mapping[str, Any], channels: int) -> bytes | None:
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
