"""From the files of a data set to its array: what is read, cropped, made grey, averaged.

Files are read by :mod:`elmfield.io`. Arrays leave as float64 with their channels last, unless a
function says otherwise. This room knows no folder and no name of a data set.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from elmfield._array.typing import Array, Floats, Progress
from elmfield.io.api import read

LUMA = (0.299, 0.587, 0.114)
"""Weights of red, green and blue in ITU-R 601 luma."""

BANDS = {"im10": (3, 2, 1, 7), "im20": (4, 5, 6, 8, 10, 11), "im60": (0, 9)}
"""Places of the bands of a file in native resolutions among B01 ... B08, B8A, B09, B11, B12."""


def grey(picture: Array) -> Floats:
    """ITU-R 601 luma of an RGB picture, shape (n0, n1, 3), not rounded; opacity is dropped."""
    values = np.asarray(picture, dtype=np.float64)
    if values.ndim != 3 or values.shape[-1] not in (3, 4):
        raise ValueError(
            "`picture` must have shape (rows, columns, 3), or 4 with opacity; got shape "
            f"{values.shape}."
        )
    made: Floats = values[..., :3] @ np.asarray(LUMA)
    return made


def centre(picture: Array, size: int = 512) -> Array:
    """The `size` by `size` samples in the middle, of all channels."""
    sides = _sides(picture)
    if not isinstance(size, (int, np.integer)) or not 1 <= size <= min(sides):
        raise ValueError(
            f"`size` must be a whole number from 1 to the picture's shorter side, {min(sides)}; "
            f"got {size!r}."
        )
    top, left = ((n - size) // 2 for n in sides)
    return picture[top : top + size, left : left + size]


def halved(picture: Array) -> Array:
    """Means of 2 by 2 samples, channel by channel."""
    if any(n % 2 for n in _sides(picture)):
        raise ValueError(
            f"`picture` must have even numbers of rows and columns; got shape {picture.shape}."
        )
    return (picture[::2, ::2] + picture[1::2, ::2] + picture[::2, 1::2] + picture[1::2, 1::2]) / 4


def resized(picture: Array, shape: Sequence[int]) -> Floats:
    """Area averages: each new sample is the mean of the part of the old picture that it covers.

    ``new = R0 old R1ᵀ``; row `i` of ``R`` holds the shares of the old samples in the new one.

    Parameters
    ----------
    picture : array, shape (n0, n1) or (n0, n1, C)
        Samples that stand for equal areas.
    shape : pair of int
        Rows and columns that are wanted.
    """
    made = np.asarray(picture, dtype=np.float64)
    _sides(made)
    if np.shape(shape) != (2,) or any(int(n) != n or n < 1 for n in shape):
        raise ValueError(f"`shape` must be two whole numbers of at least 1; got {shape!r}.")
    for axis, new in enumerate(shape):
        R = shares(made.shape[axis], new)
        made = np.moveaxis(np.tensordot(R, made, (1, axis)), 0, axis)
    return made


def _sides(picture: Array) -> tuple[int, int]:
    """Rows and columns of a picture, which may have channels."""
    if np.ndim(picture) not in (2, 3):
        raise ValueError(
            "`picture` must have shape (rows, columns), or channels after them; got shape "
            f"{np.shape(picture)}."
        )
    return picture.shape[0], picture.shape[1]


def shares(old: int, new: int) -> Floats:
    """Shares of `old` equal intervals in each of `new` ones, shape (new, old); rows sum to one."""
    a, b = np.arange(old + 1) / old, np.arange(new + 1) / new
    low = np.maximum(a[None, :-1], b[:-1, None])
    high = np.minimum(a[None, 1:], b[1:, None])
    R: Floats = np.maximum(high - low, 0) * new
    return R


def photograph(paths: Sequence[Path], prepare: str, size: int = 512) -> Floats:
    """A Kodak picture: a grey square by "crop" or "resize", or the "whole" picture in colour.

    Smaller than 512, the crop is 512 first and then averaged, so that both show the same view.
    """
    whole = np.asarray(read(paths[0]).values, dtype=np.float64)
    if prepare == "whole":
        return whole
    if prepare == "resize":
        return resized(grey(whole), (size, size))
    made = grey(centre(whole))
    while made.shape[0] > size:
        made = np.asarray(halved(made))
    return made


def plain(paths: Sequence[Path], prepare: str = "", variable: str | None = None) -> Floats:
    """The one array of a file, or the one that is named; axes of one sample dropped."""
    found = read(paths[0], variable=variable)
    values = found.values
    if found.channel_axis is not None:
        values = np.moveaxis(values, found.channel_axis, -1)
    made: Floats = np.squeeze(np.asarray(values, dtype=np.float64))
    return made


def weather(paths: Sequence[Path], prepare: str = "", variable: str | None = None) -> Floats:
    """A field on latitudes and longitudes; the first step where a file has several."""
    values = plain(paths, prepare, variable if paths[0].suffix == ".grib2" else None)
    return values if values.ndim == 2 else values[0]


def native_bands(paths: Sequence[Path], prepare: str = "") -> Floats:
    """Twelve Sentinel-2 bands on the 10 m grid; coarser ones repeated, values as measured."""
    made = np.empty((600, 600, 12))
    for variable, places in BANDS.items():
        found = read(paths[0], variable=variable).values
        times = made.shape[0] // found.shape[0]
        made[..., list(places)] = np.repeat(np.repeat(found, times, axis=0), times, axis=1)
    return made


def coils(paths: Sequence[Path], prepare: str = "coils") -> Array:
    """K-space of all coils, complex64, (rows, columns, coils), of a BART file (header last).

    With "magnitude" the picture: the root of the sum over coils of squared inverse transforms.
    """
    sizes = [int(n) for n in paths[1].read_text().splitlines()[1].split()]
    k = np.fromfile(paths[0], np.complex64).reshape([n for n in sizes if n > 1], order="F")
    if prepare != "magnitude":
        return k
    axes = (0, 1)
    pictures = np.fft.fftshift(np.fft.ifft2(np.fft.ifftshift(k, axes), axes=axes), axes)
    return np.sqrt((np.abs(pictures.astype(np.complex128)) ** 2).sum(axis=-1))


def write_camera(path: Path, progress: Progress) -> None:
    """Write the picture that comes with scikit-image, `skimage.data.camera()`, as a file."""
    from PIL import Image
    from skimage.data import camera

    Image.fromarray(camera()).save(path)  # type: ignore[no-untyped-call]


def flow(paths: Sequence[Path], prepare: str = "") -> Array:
    """Vorticity over space and time, float32 as stored."""
    with np.load(paths[0]) as stored:
        return stored["w"]
