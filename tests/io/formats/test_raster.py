"""Pictures of all kinds, and what they carry."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import elmfield as ef
from elmfield import read, write
from elmfield.io.formats.raster import png, size_of_heif, size_of_jpeg_2000, size_of_jpeg_xl
from scans import plain_grid

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


def test_numbers_are_grey_unless_colours_are_asked_for(tmp_path):
    """A denoised photograph of floats was written as a heat map."""
    values = RNG.random((20, 30))
    values[3, 4], values[0, 0], values[0, 1] = np.nan, 0, 1
    grey = np.round(255 * values)
    ef.write(values, tmp_path / "x.png")
    found = ef.read(tmp_path / "x.png").values
    assert_array_equal(found[..., 1], 255 * np.isfinite(values))  # what is missing is transparent
    assert_array_equal(found[5:, :, 0], grey[5:])
    for suffix in (".jpg", ".webp", ".pgm", ".bmp", ".tif"):
        ef.write(values, tmp_path / f"x{suffix}")
    ef.write(ef.fit(values[5:]), tmp_path / "y.png")
    assert ef.read(tmp_path / "y.png").values.shape == (15, 30)
    ef.write(values, tmp_path / "z.png", colours="viridis")
    assert_array_equal(ef.read(tmp_path / "z.png").values[0, :2], [(68, 1, 84), (253, 231, 37)])


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


# --- kinds of pictures ----------------------------------------------------------------------------

EXACT = (".png", ".jp2", ".j2k", ".jxl", ".tif", ".webp", ".bmp", ".ppm")
CLOSE = {".jpg": 6.0, ".avif": 4.0, ".gif": 12.0}
OPAQUE = (".jpg", ".bmp", ".ppm")


def smooth_picture(channels, rng=RNG):
    y, x = np.mgrid[0:48, 0:60] / 60
    waves = [np.sin(5 * x + k) * np.cos(4 * y - k) for k in range(channels)]
    return np.round(127.5 + 120 * np.stack(waves, axis=-1)).astype(np.uint8)


def by_others(path):
    """The pixels as Pillow or imagecodecs read them, not we."""
    if path.suffix in (".jp2", ".j2k", ".jxl"):
        codecs = pytest.importorskip("imagecodecs")
        name = "jpegxl" if path.suffix == ".jxl" else "jpeg2k"
        return getattr(codecs, f"{name}_decode")(path.read_bytes())
    Image = pytest.importorskip("PIL.Image")
    with Image.open(path) as opened:
        return np.asarray(opened.convert("RGB" if opened.mode == "P" else opened.mode))


@pytest.mark.parametrize("channels", [3, 4])
@pytest.mark.parametrize("suffix", [*EXACT, *CLOSE])
def test_eleven_kinds_of_pictures_in_and_out(tmp_path, suffix, channels):
    values, path = smooth_picture(channels), tmp_path / f"x{suffix}"
    if channels == 4 and suffix == ".gif":
        pytest.skip("a GIF's pixels are there or not; see the animated ones")
    write(plain_grid(values, ROW, 2), path)
    wanted = values[..., :3] if suffix in OPAQUE else values
    for found in (read(path).values, by_others(path)):
        assert found.shape == wanted.shape
        gap = np.abs(found.astype(float) - wanted)
        assert gap.max() == 0 if suffix in EXACT else np.sqrt(np.mean(gap**2)) < CLOSE[suffix]
    assert read(path).labels.channels.labels[-1] in ("alpha", "blue")


@pytest.mark.parametrize("suffix", [".png", ".jpg", ".webp", ".avif", ".tif"])
def test_profiles_are_carried_over(tmp_path, suffix):
    Image = pytest.importorskip("PIL.Image")
    from PIL import ImageCms

    icc = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    exif = Image.Exif()
    exif[0x010F], exif[0x0112] = "a maker", 6
    exif.get_ifd(0x8769)[0xA002] = 60
    first = tmp_path / "first.jpg"
    Image.fromarray(smooth_picture(3)).save(first, exif=exif, icc_profile=icc, quality=95)
    field = ef.fit(first)
    assert field.shape == (60, 48)  # upright
    write(field, tmp_path / f"x{suffix}", scale=2)
    with Image.open(tmp_path / f"x{suffix}") as opened:
        assert opened.info["icc_profile"] == icc
        if suffix != ".tif":
            back = opened.getexif()
            assert back[0x010F] == "a maker"
            assert back.get(0x0112, 1) == 1  # it lies as it should already
            assert back.get_ifd(0x8769)[0xA002] == 96  # columns, now twice 48
        assert opened.size == (96, 120)


@pytest.mark.parametrize("lies", range(1, 9))
def test_every_orientation_is_undone_as_pillow_undoes_it(tmp_path, lies):
    Image = pytest.importorskip("PIL.Image")
    from PIL import ImageOps

    exif = Image.Exif()
    exif[0x0112] = lies
    for suffix in (".png", ".webp"):
        path = tmp_path / f"x{suffix}"
        Image.fromarray(smooth_picture(3)).save(path, exif=exif, lossless=True)
        with Image.open(path) as opened:
            assert_array_equal(read(path).values, np.asarray(ImageOps.exif_transpose(opened)))


def test_animations_are_frames_in_time(tmp_path):
    Image = pytest.importorskip("PIL.Image")
    shades = [Image.fromarray(np.full((20, 24), v, np.uint8)) for v in (0, 80, 160, 240)]
    shades[0].save(
        tmp_path / "x.gif", save_all=True, append_images=shades[1:], duration=[40, 80, 40, 40]
    )
    samples = read(tmp_path / "x.gif")
    assert samples.dims == ("time", "row", "column")
    assert samples.values.shape == (4, 20, 24, 3)
    assert_array_equal(samples.values[:, 0, 0, 0], [0, 80, 160, 240])
    np.testing.assert_allclose(samples.coords["time"], [0, 0.04, 0.12, 0.16])
    write(samples, tmp_path / "y.gif")
    with Image.open(tmp_path / "y.gif") as opened:
        assert opened.n_frames == 4
        opened.seek(1)
        assert opened.info["duration"] == 80


def test_heif_is_read_only(tmp_path):
    with pytest.raises(ValueError, match=r"HEIF files are only read. Write an \.avif file"):
        write(plain_grid(smooth_picture(3), ROW, 2), tmp_path / "x.heic")
    (tmp_path / "y.heic").write_bytes(b"nothing")
    with pytest.raises(ValueError, match=r"y\.heic"):
        read(tmp_path / "y.heic")


@pytest.mark.parametrize("suffix", [".png", ".jp2", ".j2k", ".jxl", ".avif", ".webp", ".jpg"])
@pytest.mark.parametrize("shape", [(7, 9), (16, 16), (24, 40), (9, 600), (300, 12)])
def test_sizes_are_known_before_anything_is_unpacked(tmp_path, monkeypatch, suffix, shape):
    path = tmp_path / f"x{suffix}"
    write(plain_grid(np.zeros((*shape, 3), np.uint8), ROW, 2), path)

    def fails(*_, **__):
        raise AssertionError("unpacked")

    for name in ("png_decode", "jpeg2k_decode", "jpegxl_decode"):
        monkeypatch.setattr(f"imagecodecs.{name}", fails)
    monkeypatch.setattr("elmfield.io.formats.raster._pixels", fails)
    with pytest.raises(ValueError, match=f"claims {shape[0] * shape[1]} pixels and at most 50"):
        read(path, max_pixels=50)


def test_sizes_in_boxes_and_of_tiles(tmp_path):
    imagecodecs = pytest.importorskip("imagecodecs")
    values = np.zeros((90, 160, 3), np.uint8)
    boxed = imagecodecs.jpegxl_encode(values, lossless=True, usecontainer=True)
    assert boxed[:4] != b"\xff\x0a\x00\x00"
    assert size_of_jpeg_xl(boxed) == (90, 160)
    write(plain_grid(values, ROW, 2), tmp_path / "x.avif")  # boxes as in HEIF
    assert size_of_heif((tmp_path / "x.avif").read_bytes()) == (90, 160)
    for wrong in (b"", b"\0" * 40, b"\0\0\0\7jp2c" * 9, boxed[:20]):
        for told in (size_of_heif, size_of_jpeg_xl, size_of_jpeg_2000):
            with pytest.raises(ValueError, match="it "):
                told(wrong)
