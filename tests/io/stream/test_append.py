"""Samples put at the end of an axis: the seam is coded again, all else stays."""

import os
import shutil
from pathlib import Path

import numpy as np
import pytest

import elmfield as ef
from elmfield._array.running import capacity
from elmfield.field.grid_values import coarse_means
from elmfield.io.store.stores import FolderStore
from elmfield.io.stream import append, work_folder
from robust import processes
from support import block_means, close


def frames(n, first=0, dtype="float32"):
    t = np.arange(first, first + n)[:, None, None] / 9
    y, x = np.arange(24)[:, None] / 5, np.arange(20) / 4
    return (280 + 9 * np.sin(t + y) * np.cos(x)).astype(dtype)


def contents(path):
    return {p.relative_to(path).as_posix(): p.read_bytes() for p in path.rglob("*") if p.is_file()}


@pytest.fixture(scope="module")
def first(tmp_path_factory):
    return tmp_path_factory.mktemp("archive") / "a.elm.zarr"


@pytest.fixture
def archive(tmp_path, first):
    """A copy of a model that is fitted once; not sooner than here, where tiles are small."""
    if not first.exists():
        ef.fit(frames(100), ef.smooth(order=2), out=first)
    return Path(shutil.copytree(first, tmp_path / first.name))


@pytest.mark.thorough
def test_only_the_seam_is_written_again(archive):
    before = contents(archive)
    field = ef.append(archive, frames(10, 100))
    after = contents(archive)
    tile = field.model.blended.source_samples.tiles.tiling.tile[0]
    seam = 100 // tile
    old = [k for k in before if k.startswith("samples/c/") and int(k.split("/")[2]) < seam]
    assert old
    assert all(before[k] == after[k] for k in old)
    whole = ef.fit(frames(110), ef.smooth(order=2))
    close(field.samples(), whole.samples(), 1e-4)
    points = np.random.default_rng(0).random((50, 3)) * [109, 23, 19]
    close(field(points), whole(points), 1e-3)
    assert field.model.data_range == whole.model.data_range
    ef.save(whole, archive.parent / "b.elm.zarr")
    seen = [n for n in after if n.startswith("overview/")]
    assert len(seen) == 2
    assert all((archive.parent / "b.elm.zarr" / n).read_bytes() == after[n] for n in seen)
    shutil.rmtree(archive.parent / "b.elm.zarr")
    assert sorted(p.name for p in archive.parent.iterdir()) == ["a.elm.zarr"]


@pytest.mark.thorough
def test_again_and_again(archive, monkeypatch):
    ef.append(archive, frames(7, 100))
    decoded = []
    monkeypatch.setattr(
        append, "_find_limits", lambda j, own=append._find_limits: decoded.append(j.model) or own(j)
    )
    field = ef.append(archive, frames(30, 107))
    assert decoded[0].field.labels.limits is not None  # known: nothing was decoded to find them
    close(field.samples(), frames(137), 1e-4)


@pytest.mark.thorough
@pytest.mark.parametrize("cut", [30, 7])
def test_coarse_levels_are_means_across_the_seam(cut, tmp_path):
    """Tiles are as long as the first samples were, no power of two."""
    every = frames(90, dtype="float64")
    ef.fit(every[:cut], ef.smooth(order=2), out=tmp_path / "a.elm.zarr")
    ef.append(tmp_path / "a.elm.zarr", every[cut:40])
    field = ef.append(tmp_path / "a.elm.zarr", every[40:])
    for k in (1, 2, 4, 6, 8):
        close(
            coarse_means(field.model, k), block_means(every, k, 3), 280 * 2.0**-24
        )  # a file's own are float32


@pytest.mark.thorough
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


@pytest.mark.thorough
@pytest.mark.parametrize("dtype", ["uint8", "complex64"])
def test_other_axes_channels_and_dtypes(dtype, tmp_path):
    path = tmp_path / "a.elm.zarr"
    values = np.stack([frames(8, dtype=dtype), frames(8, 3, dtype=dtype)], axis=1)
    ef.fit(values, ef.smooth(order=2), channel_axis=1, out=path)
    field = ef.append(path, values[..., :5], axis=2)
    close(field.samples(), np.concatenate([values, values[..., :5]], axis=-1), 1e-3)


def test_a_memory_limit_around_it_holds(tmp_path, monkeypatch):
    path, seen, whole = tmp_path / "a.elm.zarr", [], append.JoinedSource.read
    ef.save(ef.fit(np.zeros((20, 30)), ef.smooth(order=2)), path)

    def read(joined, slab=()):
        seen.append(capacity(np.empty(0)))
        return whole(joined, slab)

    monkeypatch.setattr(append.JoinedSource, "read", read)
    with ef.memory_limit(1 << 20):
        ef.append(path, np.zeros((3, 30)))
    assert set(seen) == {1 << 17}


@pytest.mark.thorough
def test_dates_go_on(tmp_path):
    xr = pytest.importorskip("xarray")
    time = np.datetime64("2024-01-01") + np.arange(30) * np.timedelta64(6, "h")
    da = xr.DataArray(frames(30), dims=("time", "y", "x"), coords={"time": time})
    ef.fit(da[:20], ef.smooth(order=2), out=tmp_path / "a.elm.zarr")
    field = ef.append(tmp_path / "a.elm.zarr", da[20:])
    assert np.array_equal(field.to_xarray().time.values, time)
    close(field.samples(), da.values, 1e-4)


# --- cut short, or read meanwhile -----------------------------------------------------------------


class Stop(BaseException):
    """Work is cut short."""


def cut_at(monkeypatch, path, name):
    """Let the first move of a file of this name to its place in a model fail."""
    replace = os.replace

    def dying(a, b):
        if Path(b).name == name and Path(b).is_relative_to(path) and "next-" not in str(b):
            raise Stop
        replace(a, b)

    monkeypatch.setattr(append.os, "replace", dying)


def few(n, first=0):
    return frames(n, first)[:, :16, :8]


@pytest.fixture
def small(tmp_path):
    """A model of two tiles, the second not full; it gets an overview as it grows."""
    path = tmp_path / "small.elm.zarr"
    ef.fit(few(30), ef.smooth(order=2), out=path)
    return path


def is_first(field, n=None):
    """Whether a field is that of the first frames, or of the first n."""
    found = field.samples()
    m = len(found)
    return n in (None, m) and np.allclose(found, few(m), rtol=0, atol=1e-3)


@pytest.mark.thorough
@pytest.mark.skipif(not hasattr(os, "fork"), reason="a process of its own is forked")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_readers_see_the_old_or_the_new_model_at_every_moment(small):
    """They were told that the model is damaged, or saw parts of it."""
    early = ef.load(small)

    def look(number):
        now = ef.load(small)
        if not (now.shape[0] in (30, 43) and is_first(now) and is_first(early, 30)):
            os._exit(2)

    assert processes.watched(lambda: ef.append(small, few(13, 30)), look) == 0
    assert is_first(ef.load(small), 43)
    assert is_first(early, 30)


def test_a_model_that_grows_while_it_is_opened_is_old_or_new(small, tmp_path, monkeypatch):
    read, before = FolderStore.read, contents(small)
    reads = []
    monkeypatch.setattr(FolderStore, "read", lambda f, key: reads.append(key) or read(f, key))
    ef.load(small)
    for n in range(len(reads)):
        path = tmp_path / f"{n}.elm.zarr"
        shutil.copytree(small, path)
        left = iter([*range(n), "now", *[None] * 10_000])

        def reading(folder, key, path=path, left=left):
            if next(left) == "now":
                ef.append(path, few(13, 30))
            return read(folder, key)

        monkeypatch.setattr(FolderStore, "read", reading)
        assert is_first(ef.load(path))
    assert contents(small) == before


@pytest.mark.thorough
def test_a_field_that_is_open_stays_as_it_was(small, tmp_path):
    """Tiles at the seam, which it had not read, are another's now."""
    early = ef.load(small)
    for n in range(30, 70, 5):
        ef.append(small, few(5, n))
    ef.save(early, tmp_path / "early.elm")
    assert is_first(early, 30)
    assert is_first(ef.load(tmp_path / "early.elm"), 30)
    late = ef.load(small)
    ef.fit(few(90, 7), ef.smooth(order=2), out=small)  # another model: noticed
    with pytest.raises(ef.StoreError, match="belongs to another"):
        late.samples()


def test_an_overview_that_was_replaced_is_made_of_the_tiles(tmp_path):
    path, values = tmp_path / "a.elm.zarr", np.add.outer(np.arange(80.0), np.arange(64))
    ef.fit(values[:64], ef.smooth(order=2), out=path)
    early, coarse = ef.load(path), coarse_means(ef.load(path).model, 5)
    ef.append(path, values[64:])
    close(coarse_means(early.model, 5), coarse, 1e-5)


@pytest.mark.parametrize("name", ["zarr.json", "0"])
def test_the_same_call_goes_on(small, name, monkeypatch):
    """It added the samples twice, where the model was old still."""
    whole = small.with_name("whole.elm.zarr")
    shutil.copytree(small, whole)
    ef.append(whole, few(13, 30))
    with monkeypatch.context() as patch:
        cut_at(patch, small, name)
        with pytest.raises(Stop):
            ef.append(small, few(13, 30))
    assert is_first(ef.append(small, few(13, 30)), 43)
    assert contents(small) == contents(whole)


@pytest.mark.parametrize("name", ["zarr.json", "0"])
def test_another_call_adds_what_it_is_given(small, name, monkeypatch):
    with monkeypatch.context() as patch:
        cut_at(patch, small, name)
        with pytest.raises(Stop):
            ef.append(small, few(13, 30))
    n = len(ef.load(small).samples())
    assert n == (30 if name == "zarr.json" else 43)
    assert is_first(ef.append(small, few(4, n)), n + 4)
    assert not [k for k in contents(small) if "next" in k or k.startswith(".")]


def test_a_call_is_known_by_all_its_samples(small, monkeypatch):
    """The first of them, or those of the call before, are other calls."""

    def stop(model):
        raise Stop

    with monkeypatch.context() as patch:
        patch.setattr(work_folder.GrowingModel, "finish", stop)
        for new, n in ((few(13, 30), 43), (few(5, 30), 48), (few(5, 30), 48), (few(6, 30), 54)):
            with pytest.raises(Stop):
                ef.append(small, new)
            assert ef.load(small).shape[0] == n
    assert ef.append(small, few(6, 30)).shape[0] == 54


def test_what_grows_on_one_axis_is_not_seen_while_another_grows(small, monkeypatch):
    """A call that was cut short has left a name for folders; that of another is not it."""
    with monkeypatch.context() as patch:
        patch.setattr(work_folder.GrowingModel, "finish", lambda model: None)
        ef.append(small, few(13, 30))
    seen, write_metadata = [], append.write_metadata

    def looking(*args):
        if not seen:
            seen.append(is_first(ef.load(small), 43))
        return write_metadata(*args)

    monkeypatch.setattr(append, "write_metadata", looking)
    field = ef.append(small, np.repeat(few(43), 3, axis=1)[:, 16:43], axis=1)  # 43 rows, too
    assert field.shape == (43, 43, 8)
    assert seen == [True]


@pytest.mark.thorough
def test_frames_that_were_added_are_not_added_again(tmp_path):
    path = tmp_path / "a.elm.zarr"
    ef.fit(frames(20), ef.smooth(order=2), out=path)

    def camera(n, until=None):
        for i, frame in enumerate(frames(n, 20)):
            if i == until:
                raise Stop
            yield frame

    with pytest.raises(Stop):
        ef.append(path, camera(60, 40), memory_limit=1 << 16)  # 17 at a time
    assert ef.load(path).shape[0] == 54
    field = ef.append(path, camera(60))  # all at once
    close(field.samples(), frames(80), 1e-4)
    # That call came to its end: the same frames are others now.
    with pytest.raises(Stop):
        ef.append(path, camera(60, 20), memory_limit=1 << 16)
    assert ef.load(path).shape[0] == 97
    field = ef.append(path, iter(frames(9, 500)))
    close(field.samples()[:80], frames(80), 1e-4)
    close(field.samples()[80:], np.concatenate([frames(17, 20), frames(9, 500)]), 1e-4)


def test_the_same_samples_in_two_calls_are_added_twice(small):
    ef.append(small, few(5))
    assert len(ef.append(small, few(5)).samples()) == 40


def test_the_same_samples_at_other_places_are_another_call(tmp_path, monkeypatch):
    path, black = tmp_path / "a.elm.zarr", np.zeros((4, 9), "f4")
    ef.fit(
        np.zeros((6, 9), "f4"), ef.smooth(order=2), coords=[np.arange(6.0) ** 1.1, None], out=path
    )
    with monkeypatch.context() as patch:
        cut_at(patch, path, "0")
        with pytest.raises(Stop):
            ef.append(path, black, coords=[10.0, 11, 13, 14])
    field = ef.append(path, black, coords=[20.0, 21, 23, 24])
    assert field.shape == (14, 9)
    np.testing.assert_array_equal(field.domain.axes[0].coords[-4:], [20, 21, 23, 24])


@pytest.mark.thorough
def test_samples_after_a_gap_lie_where_they_are(tmp_path):
    """The axis becomes uneven: the field is that of all samples where they are, and between."""
    time = np.r_[np.arange(30.0), 37 + np.arange(15.0), 60 + 1.5 * np.arange(10)]
    line, path = (288 + 0.02 * time)[:, None] + np.zeros(24), tmp_path / "a.elm.zarr"
    wave = line + np.sin(time / 4)[:, None] * np.cos(np.arange(24) / 7)
    asked, options = np.linspace(0, time[-1], 300), {"dims": ("time", "x")}
    for values in (line, wave):
        shutil.rmtree(path, ignore_errors=True)
        ef.fit(values[:30], coords={"time": time[:30]}, out=path, **options)
        for part in (slice(30, 45), slice(45, None)):
            field = ef.append(path, values[part], axis="time", coords=time[part])
        whole = ef.fit(values, field.settings, coords={"time": time}, **options)
        found = field.grid(asked, np.arange(24.0))
        close(found, whole.grid(asked, np.arange(24.0)), 1e-11)
        close(field.gradient([33.3, 4]), whole.gradient([33.3, 4]), 1e-11)
        if values is line:
            close(found[:, 0], 288 + 0.02 * asked, 1e-11)
    with pytest.raises(ValueError, match=r"axis 'time' is not even; say where samples lie"):
        ef.append(path, wave[:2], axis="time")


def test_a_model_grows_by_one_process_at_a_time(small):
    def frames_of_two():
        yield few(1, 30)[0]
        with pytest.raises(ef.StoreError, match="another process is writing it now"):
            ef.append(small, few(1, 30))
        with pytest.raises(ef.StoreError, match="another process is writing it now"):
            ef.save(ef.fit(np.eye(9)), small)
        yield few(1, 31)[0]

    assert is_first(ef.append(small, frames_of_two()), 32)


@pytest.mark.parametrize("what", ["the folder", "a file in it", "a folder of the model"])
def test_nothing_is_moved_through_links(small, tmp_path, monkeypatch, what):
    """Who unpacks an archive does not know what lies in it."""
    with monkeypatch.context() as patch:
        cut_at(patch, small, "0")
        with pytest.raises(Stop):
            ef.append(small, few(13, 30))
    (folder,) = small.glob("next-*")
    outside = tmp_path / "outside"
    if what == "the folder":
        folder.rename(outside)
        folder.symlink_to(outside)
    elif what == "a file in it":
        outside.mkdir()
        (outside / "x").write_text("precious")
        (folder / "x").symlink_to(outside / "x")
    else:
        (small / "overview").rename(outside)
        (small / "overview").symlink_to(outside)
    before = contents(outside)
    with pytest.raises(ef.StoreError, match=r"is damaged: .*(is a link|blocks are missing)"):
        ef.append(small, few(13, 30))
    assert contents(outside) == before


def test_nothing_beside_a_model_is_believed(small, tmp_path):
    """Files were moved to wherever a list in a hidden folder said."""
    hidden, precious = tmp_path / ".small.elm.zarr.partial", tmp_path / "precious"
    (hidden / "model-new").mkdir(parents=True)
    (hidden / "moves.json").write_text('["../precious"]')
    (hidden / "precious").write_text("no more")
    precious.write_text("still here")
    assert is_first(ef.append(small, few(13, 30)), 43)
    assert precious.read_text() == "still here"


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
