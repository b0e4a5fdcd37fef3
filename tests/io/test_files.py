"""What is said where a file, a package or a format does not do."""

import sys
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from elmfield import read, write
from elmfield.errors import MissingExtraError
from elmfield.io.files import UnreadableError, format_of
from scans import plain_grid

RNG = np.random.default_rng(0)
ROW = ("row", "column")


@pytest.mark.parametrize(
    ("name", "package", "extra"),
    [
        ("x.jp2", "imagecodecs", "io"),
        ("x.jpg", "PIL.Image", "io"),
        ("x.tif", "tifffile", "io"),
        ("x.nii", "nibabel", "io"),
        ("x.dcm", "pydicom", "io"),
        ("x.wav", "soundfile", "io"),
        ("x.mp4", "av", "video"),
        ("x.nc", "xarray", "xarray"),
        ("x.grib2", "eccodes", "grib"),
    ],
)
def test_a_missing_extra_is_named(tmp_path, monkeypatch, name, package, extra):
    (tmp_path / name).write_bytes(b"nothing")
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtraError, match=rf"pip install 'elmfield\[{extra}\]'"):
        read(tmp_path / name)


@pytest.mark.parametrize(
    "name",
    ["x.png", "x.jpg", "x.jp2", "x.tif", "x.nii", "x.dcm", "x.mat", "x.npy", "x.wav", "x.nc"],
)
@pytest.mark.parametrize("content", [b"", b"not at all what its name says" * 20])
def test_files_that_are_not_what_they_are_called(tmp_path, name, content):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(UnreadableError, match=f"{name} cannot be read as"):
        read(tmp_path / name)


@pytest.mark.parametrize(("name", "cut"), [("x.tif", 0.2), ("x.npz", 0.5), ("x.mat", 20)])
def test_a_file_cut_short_is_unreadable(tmp_path, name, cut):
    """Whatever the library behind it raises: DeflateError, BadZipFile, IndexError."""
    write(plain_grid(RNG.random((30, 40)), ROW), tmp_path / name)
    data = (tmp_path / name).read_bytes()
    (tmp_path / name).write_bytes(data[: int(cut if cut > 1 else cut * len(data))])
    with pytest.raises(UnreadableError, match=f"{name} cannot be read as"):
        read(tmp_path / name)


def test_only_named_arrays_can_be_asked_for(tmp_path):
    write(plain_grid(np.eye(9), ROW), tmp_path / "x.npy")
    with pytest.raises(ValueError, match=r"\.npy files have no names; got variable 'foo'"):
        read(tmp_path / "x.npy", variable="foo")


def test_unknown_kinds_and_missing_files():
    with pytest.raises(ValueError, match=r"files ending in '\.xyz' are not known; known: \.png"):
        format_of("a.xyz")
    with pytest.raises(FileNotFoundError, match="no file nowhere"):
        read("nowhere.png")


def test_what_a_format_cannot_hold_is_said(tmp_path):
    cube = plain_grid(RNG.random((4, 5, 6)), ("a", "b", "c"))
    with pytest.raises(ValueError, match="a picture has two axes; got 3"):
        write(cube, tmp_path / "x.png")
    with pytest.raises(ValueError, match="sound has one axis"):
        write(cube, tmp_path / "x.wav")
    with pytest.raises(ValueError, match="only from a model of a DICOM file"):
        write(plain_grid(np.eye(4), ROW), tmp_path / "x.dcm")
    with pytest.raises(ValueError, match="NetCDF has no complex numbers"):
        write(plain_grid(np.eye(4) * 1j, ROW), tmp_path / "x.nc")
    with pytest.raises(ValueError, match="at most four channels"):
        write(plain_grid(np.ones((4, 4, 7)), ROW, 2), tmp_path / "x.png")
    assert list(tmp_path.iterdir()) == []


def test_a_failing_writer_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "x.npy"
    write(plain_grid(np.eye(4), ROW), path)

    def fail(target, *_, **__):
        Path(target).write_bytes(b"half")
        raise KeyboardInterrupt

    monkeypatch.setattr(np, "save", fail)
    with pytest.raises(KeyboardInterrupt):
        write(plain_grid(np.ones(4), ("row",)), path)
    assert_array_equal(np.load(path), np.eye(4))
    assert [p.name for p in tmp_path.iterdir()] == ["x.npy"]
