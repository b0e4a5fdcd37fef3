"""Batches within a limit, memory that runs out, modes kept for the next array."""

import multiprocessing
import threading
import tracemalloc
import warnings

import numpy as np
import pytest

import elmfield as ef
from elmfield._array.cache import CACHE, Cache
from elmfield._array.memory import Workspace, room, with_less_memory
from elmfield.local.bases import axis_modes, product_modes
from support import close, host


@pytest.fixture
def own_cache():
    """The process's cache, empty, and as it was afterwards."""
    kept = CACHE.max_bytes, CACHE.folder
    CACHE.clear()
    yield CACHE
    CACHE.max_bytes, CACHE.folder = kept
    CACHE.clear()


def test_a_limit_bounds_the_memory_of_a_fit_and_a_resize(rng):
    values = rng.standard_normal((1024, 1024)).astype("float32")  # 4 MiB in, 6.25 MiB kept
    ef.fit(values[:64, :64])

    def peak(work):
        tracemalloc.start()
        result = work()
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return result, most / 2**20

    field, loose = peak(lambda: ef.fit(values))
    _, tight = peak(lambda: ef.fit(values, memory_limit=1 << 22))
    assert tight < loose
    # Coefficients, and one batch a few times over.
    assert tight < 6.25 + 4 * 4
    with ef.memory_limit(1 << 22):
        _, tight = peak(lambda: field.resize((1024, 1024)))
    assert tight < 3 * 4 + 4 * 4


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    ("settings", "options"),
    [
        (None, {}),
        (None, {"channel_axis": 0}),
        (ef.paper(cell=16, width=256), {}),
        (ef.paper(cell=16, width=100), {}),
    ],
    ids=["default", "channels", "paper", "narrow"],
)
def test_a_fit_holds_at_most_three_times_its_input_and_output(settings, options, dtype, rng):
    shape = (3, 800, 800) if options else (1400, 1400)
    values = rng.standard_normal(shape).astype(dtype)
    ef.fit(values[:, :64, :64] if options else values[:64, :64], settings, **options)  # the modes
    tracemalloc.start()
    field = ef.fit(values, settings, **options)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    output = field.n_coefficients * values.itemsize
    assert most + values.nbytes < 3 * (values.nbytes + output)


def test_limits_nest_and_end(rng):
    like = rng.random(3)
    usual = room(like)
    with ef.memory_limit(1 << 20):
        assert room(like) == 1 << 17
        with ef.memory_limit(1 << 18):
            assert room(like) == 1 << 15
        assert room(like) == 1 << 17
    assert room(like) == usual


@pytest.mark.parametrize("wrong", [0, 1000, -5, True, float("nan")])
def test_absurd_limits_are_refused(wrong):
    with (
        pytest.raises(ValueError, match="`memory_limit` must be a number of bytes"),
        ef.memory_limit(wrong),
    ):
        pass


def test_running_out_of_memory_halves_the_batch_once():
    seen = []

    @with_less_memory
    def work(enough):
        seen.append(room(np.empty(0)))
        if len(seen) < enough:
            raise MemoryError
        return "done"

    assert work(2) == "done"
    assert seen[1] == seen[0] // 2
    seen.clear()
    with pytest.raises(MemoryError, match="smaller `memory_limit`"):
        work(3)

    @with_less_memory
    def broken():
        raise KeyError("not about memory")

    with pytest.raises(KeyError):
        broken()


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
        first.blended.groups[0].coefficients, again.blended.groups[0].coefficients
    )


def test_the_cache_forgets_the_least_recently_used(rng):
    cache = Cache(max_bytes=3 * 8000)
    make = lambda: {"a": rng.random(1000)}  # noqa: E731
    like = np.empty(0)
    kept = {name: cache.get(name, like, make)["a"] for name in "xyz"}
    cache.get("x", like, make)
    cache.get("w", like, make)  # y goes
    assert cache.n_bytes <= cache.max_bytes
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


def test_writers_do_not_disturb_each_other(tmp_path):
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=_write, args=(tmp_path,)) for _ in range(2)]
    for w in workers:
        w.start()
    for w in workers:
        w.join()
        assert w.exitcode == 0
    assert not list(tmp_path.glob("*.part"))
    for k in range(20):
        found = Cache(folder=tmp_path).get(f"entry {k}", np.empty(0), lambda: {"a": np.zeros(1)})
        np.testing.assert_array_equal(found["a"], np.full(2000, k))


def test_cache_settings_are_checked(own_cache, tmp_path):
    ef.cache_modes(1 << 20, tmp_path)
    assert own_cache.folder == tmp_path
    with pytest.raises(ValueError, match="`max_bytes` must be a number of bytes, 0 or more"):
        ef.cache_modes(-1)


@pytest.mark.parametrize("settings", [None, ef.paper(cell=8, width=30), ef.smooth(psnr=30)])
def test_a_batch_gives_the_fields_of_its_frames(xp, settings, rng):
    frames = rng.standard_normal((3, 20, 24, 2))
    encode = ef.encoder((20, 24, 2), settings, channel_axis=-1)
    fields = encode(xp.asarray(frames))
    assert len(fields) == 3
    for frame, field in zip(frames, fields):
        alone = encode(xp.asarray(frame))
        close(field.samples(), host(alone.samples()), 1e-10)
        assert field.data_range == pytest.approx(alone.data_range)
    plain = ef.encoder((20, 24), ef.smooth())
    video = plain(xp.asarray(frames[..., 0]))
    close(video[1].samples(), frames[1, ..., 0], 1e-9)


def test_a_batch_of_another_shape_is_refused(rng):
    encode = ef.encoder((20, 24))
    with pytest.raises(ValueError, match=r"a batch must have shape \(n, 20, 24\)"):
        encode(rng.random((3, 24, 20)))


def test_a_device_that_is_not_there_is_named(rng):
    pytest.importorskip("torch")
    with pytest.raises(ValueError, match="`device` 'meta9' cannot be used here"):
        ef.fit(rng.random((8, 8)), device="meta9")


def test_a_workspace_gives_each_thread_and_name_its_own_memory():
    space = Workspace()
    a, b = space("a", 3, 4), space("b", 3, 4)
    assert a.shape == (3, 4)
    assert not np.shares_memory(a, b)
    assert np.shares_memory(a, space("a", 2, 5))
    assert space("a", 100).size == 100
    others = []
    thread = threading.Thread(target=lambda: others.append(space("b", 3, 4)))
    thread.start()
    thread.join()
    assert not np.shares_memory(others[0], b)


@pytest.mark.parametrize("limit", [1000, 0, "1GB", True])
def test_a_limit_that_makes_no_sense_is_refused_when_it_is_said(limit):
    with pytest.raises(ValueError, match="`memory_limit` must be a number of bytes"):
        ef.memory_limit(limit)


def test_a_folder_for_modes_that_cannot_be_made(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match=r"`folder` .* cannot be made"):
        ef.cache_modes(folder=tmp_path / "file")
    with pytest.raises(ValueError, match="`max_bytes` must be a number of bytes"):
        ef.cache_modes("a")


@pytest.mark.parametrize("name", [3.5, True, [1], "meta", "nonsense"], ids=repr)
def test_a_device_that_is_none(name):
    pytest.importorskip("torch")
    with pytest.raises(ValueError, match="`device`"):
        ef.fit(np.zeros((8, 8)), device=name)


def test_clearing_forgets_small_factors_too():
    before = product_modes((6, 7), (1.1, 1.1))
    assert product_modes((6, 7), (1.1, 1.1)) is before
    ef.cache_modes(clear=True)
    assert product_modes((6, 7), (1.1, 1.1)) is not before
    assert axis_modes(6, 1.1) is not before.axes[0]
