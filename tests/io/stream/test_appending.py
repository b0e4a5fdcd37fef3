"""Samples put at the end of an axis: the seam is coded again, all else stays."""

import shutil

import numpy as np
import pytest

import elmfield as ef
from elmfield.io.stream import appending
from support import close


def frames(n, first=0, dtype="float32"):
    t = np.arange(first, first + n)[:, None, None] / 9
    y, x = np.arange(24)[:, None] / 5, np.arange(20) / 4
    return (280 + 9 * np.sin(t + y) * np.cos(x)).astype(dtype)


def contents(path):
    return {p.relative_to(path).as_posix(): p.read_bytes() for p in path.rglob("*") if p.is_file()}


@pytest.fixture
def archive(tmp_path):
    path = tmp_path / "a.elm.zarr"
    ef.fit(frames(100), ef.smooth(order=2), out=path)
    return path


def test_only_the_seam_is_written_again(archive):
    before = contents(archive)
    field = ef.append(archive, frames(10, 100))
    after = contents(archive)
    tile = field.blended.made_of.coded.tiling.tile[0]
    seam = 100 // tile
    old = [k for k in before if k.startswith("samples/c/") and int(k.split("/")[2]) < seam]
    assert old
    assert all(before[k] == after[k] for k in old)
    whole = ef.fit(frames(110), ef.smooth(order=2))
    close(field.samples(), whole.samples(), 1e-4)
    points = np.random.default_rng(0).random((50, 3)) * [109, 23, 19]
    close(field(points), whole(points), 1e-3)
    assert field.data_range == whole.data_range
    ef.save(whole, archive.parent / "b.elm.zarr")
    seen = [n for n in after if n.startswith("overview/")]
    assert len(seen) == 2
    assert all((archive.parent / "b.elm.zarr" / n).read_bytes() == after[n] for n in seen)
    shutil.rmtree(archive.parent / "b.elm.zarr")
    assert sorted(p.name for p in archive.parent.iterdir()) == ["a.elm.zarr"]


def test_again_and_again(archive, monkeypatch):
    ef.append(archive, frames(7, 100))
    decoded = []
    monkeypatch.setattr(
        appending, "_limits", lambda f, *a, own=appending._limits: decoded.append(f) or own(f, *a)
    )
    field = ef.append(archive, frames(30, 107))
    assert "limits" in decoded[0].attributes  # known: nothing was decoded to find them
    close(field.samples(), frames(137), 1e-4)


def test_frames_go_to_the_file_as_they_come(archive):
    taken = []

    def camera():
        for frame in frames(25, 100):
            taken.append(ef.load(archive).shape[0])
            yield frame

    field = ef.append(archive, camera(), memory_limit=1 << 16)  # room for 17 at a time
    close(field.samples(), frames(125), 1e-4)
    assert 100 < taken[-1] < 125  # the first are in the file before the last is there
    assert ef.append(archive, iter(())).shape == field.shape


@pytest.mark.parametrize("dtype", ["uint8", "complex64"])
def test_other_axes_channels_and_dtypes(dtype, tmp_path):
    path = tmp_path / "a.elm.zarr"
    values = np.stack([frames(8, dtype=dtype), frames(8, 3, dtype=dtype)], axis=1)
    ef.fit(values, ef.smooth(order=2), channel_axis=1, out=path)
    field = ef.append(path, values[..., :5], axis=2)
    close(field.samples(), np.concatenate([values, values[..., :5]], axis=-1), 1e-3)


def test_dates_go_on(tmp_path):
    xr = pytest.importorskip("xarray")
    time = np.datetime64("2024-01-01") + np.arange(30) * np.timedelta64(6, "h")
    da = xr.DataArray(frames(30), dims=("time", "y", "x"), coords={"time": time})
    ef.fit(da[:20], ef.smooth(order=2), out=tmp_path / "a.elm.zarr")
    field = ef.append(tmp_path / "a.elm.zarr", da[20:])
    assert np.array_equal(field.to_xarray().time.values, time)
    close(field.samples(), da.values, 1e-4)


def test_moves_that_were_cut_short_are_finished(archive, monkeypatch):
    moved, replace = [], appending.os.replace

    def dying(a, b):
        if str(b).startswith(f"{archive}/samples"):
            moved.append(b)
            if len(moved) == 2:
                raise KeyboardInterrupt
        replace(a, b)

    with monkeypatch.context() as patch:
        patch.setattr(appending.os, "replace", dying)
        with pytest.raises(KeyboardInterrupt):
            ef.append(archive, frames(10, 100))
    field = ef.append(archive, frames(5, 110))
    close(field.samples(), frames(115), 1e-4)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (frames(5)[:, :-1], "must have the model's shape but on one axis"),
        (frames(5, dtype="float64"), "must have the model's dtype, float32; got float64"),
        (np.full((5, 24, 20), np.nan, "f4"), "`values` have gaps"),
    ],
    ids=["shape", "dtype", "gaps"],
)
def test_what_does_not_fit_is_refused(values, message, archive):
    before = contents(archive)
    with pytest.raises(ValueError, match=message):
        ef.append(archive, values)
    assert contents(archive) == before


def test_models_that_cannot_grow_say_why(tmp_path):
    ef.fit(frames(9), ef.smooth(order=2), out=tmp_path / "a.elm")
    with pytest.raises(ValueError, match="can be added to a folder"):
        ef.append(tmp_path / "a.elm", frames(1))
    ef.fit(frames(9), ef.smooth(order=2, max_error=1), out=tmp_path / "b.elm.zarr")
    with pytest.raises(ValueError, match="was coded with loss"):
        ef.append(tmp_path / "b.elm.zarr", frames(1))
    ef.fit(frames(9), ef.smooth(order=2), periodic=0, out=tmp_path / "c.elm.zarr")
    with pytest.raises(ValueError, match="repeats; nothing can follow"):
        ef.append(tmp_path / "c.elm.zarr", frames(1))
