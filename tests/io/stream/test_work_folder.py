"""Models that grow behind an fsspec URL: the same bytes, put in place once they are whole."""

import numpy as np
import pytest

import elmfield as ef
from elmfield.io.stream.work_folder import Work
from support import close

fsspec = pytest.importorskip("fsspec")

SMALL = 1 << 18


def rough(shape, seed=0):
    return (280 + np.random.default_rng(seed).standard_normal(shape).cumsum(0)).astype("float32")


@pytest.fixture
def store():
    system = fsspec.filesystem("memory")
    system.mkdirs("/box", exist_ok=True)
    yield system
    system.rm("/box", recursive=True)


def remote(store, name):
    """All files below a folder of a store."""
    root = f"/box/{name}/"
    return {key[len(root) :]: store.cat_file(key) for key in store.find(root)}


def local(path):
    return {p.relative_to(path).as_posix(): p.read_bytes() for p in path.rglob("*") if p.is_file()}


@pytest.mark.thorough
@pytest.mark.parametrize("settings", [ef.smooth(order=2), ef.smooth(order=2, bits=3)], ids=str)
def test_the_same_bytes_as_on_a_disk(settings, store, tmp_path):
    values = rough((90, 70))
    ef.save(ef.fit(values, settings), tmp_path / "a.elm.zarr")
    ef.save(ef.fit(values, settings), tmp_path / "a.elm")
    field = ef.fit(values, settings, out="memory://box/a.elm.zarr", memory_limit=SMALL)
    ef.fit(values, settings, out="memory://box/a.elm", memory_limit=SMALL)
    assert remote(store, "a.elm.zarr") == local(tmp_path / "a.elm.zarr")
    assert store.cat_file("/box/a.elm") == (tmp_path / "a.elm").read_bytes()
    assert field.shape == (90, 70)
    assert sorted(store.ls("/box", detail=False)) == ["/box/a.elm", "/box/a.elm.zarr"]


def test_a_file_url_is_a_path(tmp_path):
    ef.fit(rough((30, 20)), out=f"file://{tmp_path}/a.elm.zarr")
    close(ef.load(tmp_path / "a.elm.zarr").samples(), rough((30, 20)), 1e-4)
    field = ef.append(f"file://{tmp_path}/a.elm.zarr", rough((5, 20)))
    assert field.shape == (35, 20)


@pytest.mark.thorough
def test_gaps_are_filled_with_files_of_this_machine(store):
    values = rough((80, 70)).astype(float)
    values[20:60, 10:50] = np.nan
    field = ef.fit(values, ef.smooth(order=2), out="memory://box/a.elm.zarr")
    close(field.samples(), ef.fit(values, ef.smooth(order=2)).samples(), 1e-5)


@pytest.mark.parametrize("moment", ["before", "while"])
def test_work_cut_short_goes_on(moment, store, monkeypatch):
    out, moved, copy = "memory://box/a.elm.zarr", [], type(store).cp_file
    ef.fit(rough((40, 50), 1), out=out)  # an older one

    def dying(self, *args, **options):
        moved.append(args)
        if len(moved) == (1 if moment == "before" else 3):
            raise KeyboardInterrupt
        return copy(self, *args, **options)

    with monkeypatch.context() as patch:
        patch.setattr(type(store), "cp_file", dying)
        with pytest.raises(KeyboardInterrupt):
            ef.fit(rough((90, 70)), ef.smooth(order=2), out=out, memory_limit=SMALL)
    field = ef.fit(rough((90, 70)), ef.smooth(order=2), out=out, memory_limit=SMALL)
    close(field.samples(), rough((90, 70)), 1e-4)
    assert store.ls("/box", detail=False) == ["/box/a.elm.zarr"]


def test_what_is_not_ours_is_left_alone(store):
    store.pipe_file("/box/a.elm.zarr/zarr.json", b"{}")
    with pytest.raises(ef.StoreError, match="no model of elmfield, and is left alone"):
        Work("memory://box/a.elm.zarr")
    with pytest.raises(ValueError, match="folder on a disk"):
        ef.append("memory://box/a.elm.zarr", rough((3, 3)))
    assert store.find("/box") == ["/box/a.elm.zarr/zarr.json"]
