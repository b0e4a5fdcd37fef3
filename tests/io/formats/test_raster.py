"""Pictures: PNG, JPEG, JPEG 2000."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from elmfield import read, write
from elmfield.io.formats.raster import png
from elmfield.io.gridded import plain_grid

RNG = np.random.default_rng(0)
ROW = ("row", "column")


@pytest.mark.parametrize("kind", [np.uint8, np.uint16])
@pytest.mark.parametrize("channels", [None, 2, 3, 4])
@pytest.mark.parametrize("suffix", [".png", ".tif"])
def test_pictures_keep_their_depth(tmp_path, kind, channels, suffix):
    """16-bit colours too, which the usual reader turns into 8-bit ones without a word."""
    shape = (9, 11) if channels is None else (9, 11, channels)
    values = RNG.integers(0, np.iinfo(kind).max, shape, kind)
    channel = None if channels is None else 2
    write(plain_grid(values, ROW, channel), tmp_path / f"x{suffix}")
    back = read(tmp_path / f"x{suffix}")
    assert back.values.dtype == kind
    if suffix == ".png" or channels != 2:
        assert_array_equal(back.values, values)
        assert back.channel_axis == channel


def test_our_png_is_everyones(tmp_path):
    Image = pytest.importorskip("PIL.Image")
    for shape in ((7, 5), (7, 5, 3), (7, 5, 4)):
        values = RNG.integers(0, 256, shape, np.uint8)
        (tmp_path / "x.png").write_bytes(png(values))
        assert_array_equal(np.asarray(Image.open(tmp_path / "x.png")), values)


def test_jpeg_is_turned_upright(tmp_path):
    Image = pytest.importorskip("PIL.Image")
    values = np.zeros((20, 30), np.uint8)
    values[:, 20:] = 255
    exif = Image.Exif()
    exif[0x0112] = 6  # to be turned by a quarter
    Image.fromarray(values).save(tmp_path / "x.jpg", exif=exif, quality=95)
    assert read(tmp_path / "x.jpg").shape == (30, 20)


def test_jpeg_2000_without_loss(tmp_path):
    values = RNG.integers(0, 65535, (40, 50), np.uint16)
    write(plain_grid(values, ROW), tmp_path / "x.jp2")
    assert_array_equal(read(tmp_path / "x.jp2").values, values)
