"""Modes kept for the next array: in memory up to a limit, in a folder on request."""

import multiprocessing
import warnings

import numpy as np
import pytest

import elmfield as ef
from elmfield._array.cache import CACHE, Cache
from elmfield.local.bases import axis_modes, product_modes
from support import coefficients_of


@pytest.fixture
def own_cache():
    """The process's cache, empty, and as it was afterwards."""
    kept = CACHE.max_bytes, CACHE.folder
    CACHE.clear()
    yield CACHE
    CACHE.max_bytes, CACHE.folder = kept
    CACHE.clear()


def test_modes_are_made_once_for_equal_settings(own_cache, monkeypatch, rng):
    made = []
    original = ef.Dense.__call__
    monkeypatch.setattr(
        ef.Dense, "__call__", lambda self, t, *a: made.append(1) or original(self, t, *a)
    )
    values = rng.random((32, 32))
    first = ef.fit(values, ef.paper(cell=16, width=64))
    again = ef.fit(values, ef.paper(cell=16, width=64))
    assert len(made) == 1
    ef.fit(values, ef.paper(cell=16, width=64, seed=1))
    assert len(made) == 2
    np.testing.assert_array_equal(
        coefficients_of(first.model.blended.groups[0]),
        coefficients_of(again.model.blended.groups[0]),
    )


def test_the_cache_forgets_the_least_recently_used(rng):
    cache = Cache(max_bytes=3 * 8000)
    make = lambda: {"a": rng.random(1000)}  # noqa: E731
    like = np.empty(0)
    kept = {name: cache.get(name, like, make)["a"] for name in "xyz"}
    cache.get("x", like, make)
    cache.get("w", like, make)  # y goes
    assert sum(a["a"].nbytes for a in cache._kept.values()) <= cache.max_bytes
    assert cache.get("x", like, make)["a"] is kept["x"]
    assert cache.get("y", like, make)["a"] is not kept["y"]


def test_a_folder_serves_another_cache(tmp_path, rng):
    values = rng.random(50)
    like = np.empty(0)
    Cache(folder=tmp_path).get("name", like, lambda: {"a": values})

    def never():
        raise AssertionError("made again")

    np.testing.assert_array_equal(Cache(folder=tmp_path).get("name", like, never)["a"], values)


@pytest.mark.parametrize("damage", ["cut", "flip", "empty", "other"])
def test_a_damaged_cache_file_is_made_again_with_a_warning(tmp_path, damage, rng):
    like = np.empty(0)
    Cache(folder=tmp_path).get("name", like, lambda: {"a": np.arange(500.0)})
    (path,) = tmp_path.glob("*.npz")
    raw = bytearray(path.read_bytes())
    if damage == "cut":
        raw = raw[: len(raw) // 2]
    elif damage == "flip":
        raw[len(raw) // 2] ^= 0xFF
    elif damage == "empty":
        raw = b""
    else:
        np.savez(path, name="else", digest="x", a=np.zeros(3))
        raw = path.read_bytes()
    path.write_bytes(raw)
    with pytest.warns(UserWarning, match="cannot be used .* made again"):
        found = Cache(folder=tmp_path).get("name", like, lambda: {"a": np.arange(500.0)})
    np.testing.assert_array_equal(found["a"], np.arange(500.0))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Cache(folder=tmp_path).get("name", like, lambda: {"a": np.zeros(1)})


def _write(folder):
    for k in range(20):
        Cache(folder=folder).get(f"entry {k}", np.empty(0), lambda k=k: {"a": np.full(2000, k)})


@pytest.mark.slow
def test_writers_do_not_disturb_each_other(tmp_path):
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=_write, args=(tmp_path,)) for _ in range(2)]
    for w in workers:
        w.start()
    for w in workers:
        w.join()
        assert w.exitcode == 0
    assert not list(tmp_path.glob(".*"))
    for k in range(20):
        found = Cache(folder=tmp_path).get(f"entry {k}", np.empty(0), lambda: {"a": np.zeros(1)})
        np.testing.assert_array_equal(found["a"], np.full(2000, k))


def test_cache_settings_are_checked(own_cache, tmp_path):
    ef.cache_modes(1 << 20, tmp_path)
    assert own_cache.folder == tmp_path
    with pytest.raises(ValueError, match="`max_bytes` must be a number of bytes, 0 or more"):
        ef.cache_modes(-1)


def test_a_folder_for_modes_that_cannot_be_made(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match=r"`folder` .* cannot be made"):
        ef.cache_modes(folder=tmp_path / "file")
    with pytest.raises(ValueError, match="`max_bytes` must be a number of bytes"):
        ef.cache_modes("a")


def test_clearing_forgets_small_factors_too():
    before = product_modes((6, 7), (1.1, 1.1))
    assert product_modes((6, 7), (1.1, 1.1)) is before
    ef.cache_modes(clear=True)
    assert product_modes((6, 7), (1.1, 1.1)) is not before
    assert axis_modes(6, 1.1) is not before.axes[0]


def test_a_folder_that_cannot_be_written_is_named_once(tmp_path):
    (tmp_path / "file").write_text("")
    cache = Cache(folder=tmp_path / "file" / "below")
    like = np.empty(0)
    with pytest.warns(UserWarning, match=r"modes cannot be kept in .*file.* in memory only"):
        first = cache.get("x", like, lambda: {"a": np.arange(3.0)})
    assert first["a"].tolist() == [0, 1, 2]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cache.get("y", like, lambda: {"a": np.zeros(3)})
    assert cache.get("x", like, lambda: {"a": np.zeros(3)}) is first
    cache.folder = tmp_path / "file" / "elsewhere"
    with pytest.warns(UserWarning, match="elsewhere"):
        cache.get("z", like, lambda: {"a": np.zeros(3)})


@pytest.mark.parametrize("wrong", [True, "1 GB", float("nan"), float("inf"), None])
def test_sizes_that_make_no_sense(own_cache, wrong):
    if wrong is None:
        ef.cache_modes(wrong)
        assert own_cache.max_bytes == 1 << 30
        return
    with pytest.raises(ValueError, match="`max_bytes` must be a number of bytes, 0 or more; got"):
        ef.cache_modes(wrong)
