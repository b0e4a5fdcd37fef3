"""Where models and pictures go: only over what is ours, through links, under long names."""

import json
import os

import numpy as np
import pytest

import elmfield as ef

FIELD = ef.fit(np.sin(np.arange(400) / 9).reshape(20, 20))


def tree(folder):
    return {p.relative_to(folder): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


@pytest.mark.parametrize("stream", [False, True])
def test_another_zarr_store_is_left_alone(tmp_path, stream):
    store = tmp_path / "era5.elm.zarr"
    (store / "t2m" / "c").mkdir(parents=True)
    (store / "zarr.json").write_text(json.dumps({"zarr_format": 3, "node_type": "group"}))
    (store / "t2m" / "c" / "0").write_bytes(b"precious")
    before = tree(tmp_path)
    with pytest.raises(ef.StoreError, match="is no model of elmfield, and is left alone"):
        ef.fit(np.eye(20), out=store) if stream else ef.save(FIELD, store)
    assert tree(tmp_path) == before


def test_another_file_is_left_alone(tmp_path):
    place = tmp_path / "notes.elm"
    place.write_text("precious")
    with pytest.raises(ef.StoreError, match="is left alone"):
        ef.save(FIELD, place)
    assert place.read_text() == "precious"


def test_arrays_that_a_store_holds_besides_are_left_alone(tmp_path):
    store = tmp_path / "x.zarr"
    ef.write(np.eye(5), store)
    ef.write(np.eye(6), store)  # the same arrays: replaced
    (store / "other").mkdir()
    with pytest.raises(OSError, match="holds more, such as 'other'"):
        ef.write(np.eye(7), store)
    assert np.asarray(ef.read(store)).shape == (6, 6)


@pytest.mark.parametrize("exchange", [True, False])
def test_a_replace_that_fails_keeps_the_old(tmp_path, monkeypatch, exchange):
    path = tmp_path / "model.elm.zarr"
    ef.save(FIELD, path)
    before, real = tree(path), os.replace

    def fails(a, b):
        if str(b) == str(path) and str(a).endswith("made"):
            raise OSError(5, "Input/output error")
        real(a, b)

    if not exchange:
        monkeypatch.setattr("elmfield.io.store.atomic_write._exchange", lambda *_: False)
        monkeypatch.setattr(os, "replace", fails)
        with pytest.raises(ef.StoreError, match="Input/output error"):
            ef.save(ef.fit(np.eye(20)), path)
        assert tree(path) == before
    else:
        ef.save(ef.fit(np.eye(20)), path)
        assert tree(path) != before
    assert os.listdir(tmp_path) == [path.name]


@pytest.mark.parametrize("name", ["model.elm", "model.elm.zarr"])
def test_links_are_followed(tmp_path, name):
    (tmp_path / "real").mkdir()
    link = tmp_path / name
    link.symlink_to(tmp_path / "real" / name)
    for _ in range(2):
        ef.save(FIELD, link)
        assert link.is_symlink()
        np.testing.assert_array_equal(ef.load(link).samples(), FIELD.samples())
    picture = tmp_path / "x.png"
    picture.symlink_to(tmp_path / "real" / "x.png")
    ef.write(np.eye(9), picture)
    assert picture.is_symlink()
    assert (tmp_path / "real" / "x.png").stat().st_size > 50


def test_links_that_lead_nowhere_and_pipes_are_told(tmp_path):
    (tmp_path / "a.elm").symlink_to("b.elm")
    (tmp_path / "b.elm").symlink_to("a.elm")
    os.mkfifo(tmp_path / "pipe.elm")
    for name, why in (("a.elm", "leads back"), ("pipe.elm", "a device or a pipe")):
        with pytest.raises(ef.StoreError, match=why):
            ef.save(FIELD, tmp_path / name)
    with pytest.raises(ef.StoreError, match="not a plain file"):
        ef.load(tmp_path / "pipe.elm")


@pytest.mark.parametrize("suffix", [".elm", ".elm.zarr"])
def test_long_names_work(tmp_path, suffix):
    path = tmp_path / ("n" * (255 - len(suffix)) + suffix)
    ef.save(FIELD, path)
    ef.save(FIELD, path)
    np.testing.assert_array_equal(ef.load(path).samples(), FIELD.samples())
    ef.fit(np.eye(20), out=path)
    assert os.listdir(tmp_path) == [path.name]
