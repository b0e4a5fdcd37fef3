"""Arrays fitted slab by slab into a file: the same as in memory, whatever they are."""

import json
import os
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

import elmfield as ef
from elmfield.io.model import sample_files
from support import close, inside

SMALL = 1 << 18
"""Bytes of memory: blocks of a few tiles."""


def rough(shape, seed=0, dtype="float32"):
    rng = np.random.default_rng(seed)
    return (280 + rng.standard_normal(shape).cumsum(0)).astype(dtype)


def entries(path):
    """All files of a model folder, by name."""
    return {p.relative_to(path).as_posix(): p.read_bytes() for p in path.rglob("*") if p.is_file()}


def both(values, settings, tmp_path, **options):
    """What is streamed, and what is fitted in memory and saved."""
    streamed, saved = tmp_path / "streamed.elm.zarr", tmp_path / "saved.elm.zarr"
    field = ef.fit(values, settings, out=streamed, memory_limit=SMALL, **options)
    whole = ef.fit(values, settings, **options)
    ef.save(whole, saved)
    return field, whole, entries(streamed), entries(saved)


@pytest.mark.parametrize(
    "settings",
    [None, ef.smooth(order=1.5), ef.oriented(), ef.smooth(psnr=40), ef.smooth(bits=2)],
    ids=str,
)
def test_the_same_bytes_as_from_memory(settings, tmp_path):
    field, whole, streamed, saved = both(rough((70, 90)), settings, tmp_path)
    assert streamed == saved
    assert field.settings == whole.settings
    assert sorted(os.listdir(tmp_path)) == ["saved.elm.zarr", "streamed.elm.zarr"]


@pytest.mark.parametrize("shape", [(1,), (7,), (3, 3), (7, 2), (2, 3, 4)], ids=str)
@pytest.mark.parametrize("settings", [None, ef.oriented()], ids=["smooth", "oriented"])
def test_arrays_too_small_for_a_spectrum(shape, settings, tmp_path):
    """Streams looked for the rounding of samples that they had not kept."""
    streamed, saved = both(rough(shape), settings, tmp_path)[2:]
    assert streamed == saved


@pytest.mark.thorough
@pytest.mark.parametrize("settings", [ef.smooth(max_error=0.01), ef.smooth(psnr=60)], ids=str)
def test_overviews_of_coded_samples_are_the_same(settings, tmp_path, monkeypatch):
    monkeypatch.setattr(sample_files, "MIN_SAMPLES", 1000)
    streamed, saved = both(rough((70, 90)), settings, tmp_path)[2:]
    assert "overview/c/0/0" in saved  # some tile has no coarse picture of its own
    assert streamed == saved


@pytest.mark.thorough
@pytest.mark.parametrize("settings", [ef.smooth(max_error=0.1), ef.smooth(psnr=40)], ids=str)
def test_what_coding_lost_is_that_at_the_samples(settings, tmp_path):
    """Streams wrote down what was asked for, fields in memory what boxes had that overlap."""
    values = rough((70, 90))
    values[20:30, 40:60] = np.nan
    field, whole = both(values, settings, tmp_path)[:2]
    there = np.isfinite(values)
    off = (whole.grid(*map(np.arange, values.shape)) - values)[there].astype(float)
    lost = np.sqrt(np.mean(off**2))
    assert whole.model.evidence.coding == pytest.approx(lost, rel=1e-3)
    assert field.model.evidence.coding == whole.model.evidence.coding


def test_one_file_has_the_same_bytes_too(tmp_path):
    values = rough((60, 80))
    ef.fit(values, out=tmp_path / "a.elm", memory_limit=SMALL)
    ef.save(ef.fit(values), tmp_path / "b.elm")
    assert (tmp_path / "a.elm").read_bytes() == (tmp_path / "b.elm").read_bytes()


@pytest.mark.parametrize(
    ("shape", "level"),
    [((900, 900), None), ((1100, 1000), 5), ((20000, 40000), 6), ((200, 200, 200), 4)],
)
def test_an_overview_is_never_large(shape, level, monkeypatch):
    from elmfield.field.coefficients.tiles import Tiling
    from elmfield.io.model import sample_files

    monkeypatch.setattr(sample_files, "MIN_SAMPLES", 1 << 20)
    tiling = Tiling((0,) * (len(shape) + 1), (*shape, 1), (64,) * len(shape) + (1,))
    assert sample_files.level_of(tiling) == level


def random_case(seed):
    """Samples of any shape and dtype; what is said of them; whether some are missing."""
    rng = np.random.default_rng(seed)
    d = int(rng.integers(1, 5))
    shape = tuple(int(n) for n in rng.integers(3, {1: 3000, 2: 60, 3: 18, 4: 9}[d], d))
    dtype = ["float32", "uint8", "float64", "int16", "complex64", "float16"][seed % 6]
    values, options = rough(shape, seed, dtype), {}
    gaps = dtype in ("float32", "float64") and seed % 5 < 2
    if rng.random() < 0.5:
        options["periodic"] = int(rng.integers(d))
    if gaps:
        values[rng.random(shape) < 0.1] = np.nan
        values.reshape(-1)[0] = 280
    if rng.random() < 0.4:
        k = int(rng.integers(d + 1))
        values = np.stack([values, values[::-1] if not gaps else values * 2], axis=k)
        options["channel_axis"] = k
    return values, options, gaps


@pytest.mark.thorough
@pytest.mark.parametrize(
    "seeds",
    [range(6), *(pytest.param(range(a, a + 12), marks=pytest.mark.slow) for a in (6, 18))],
    ids=str,
)
def test_random_shapes_are_equal_to_memory(seeds, tmp_path):
    da = pytest.importorskip("dask.array")
    for seed in seeds:
        values, options, gaps = random_case(seed)
        rng = np.random.default_rng(seed)
        chunks = tuple(int(rng.integers(max(1, n // 4), n + 1)) for n in values.shape)
        source = da.from_array(values, chunks=chunks) if seed % 2 else values
        out, saved = tmp_path / f"{seed}.elm.zarr", tmp_path / f"{seed}-saved.elm.zarr"
        ef.fit(source, ef.smooth(order=2), out=out, memory_limit=SMALL, **options)
        whole = ef.fit(values, ef.smooth(order=2), **options)
        ef.save(whole, saved)
        if gaps:  # systems are solved in other batches: rounding
            allowed = 1e-5 if values.dtype == "float32" else 1e-7
            close(ef.load(out).samples(), whole.samples(), allowed * np.nanmax(np.abs(values)))
            assert entries(out).keys() == entries(saved).keys()
        else:
            assert entries(out) == entries(saved), seed


def gappy(kind):
    values = rough((80, 70)).astype(float)
    rng = np.random.default_rng(1)
    if kind == "cubic":
        values = np.polynomial.polynomial.polygrid2d(
            np.linspace(0, 1, 80), np.linspace(0, 1, 70), rng.standard_normal((4, 4))
        )
    if kind == "hole":
        values[20:60, 10:50] = np.nan
    values[rng.random(values.shape) < 0.2] = np.nan
    if kind == "channels":
        other = rough((80, 70), 2).astype(float)
        other[5:15] = np.nan
        values = np.stack([values, other], axis=-1)
    return values


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        *((kind, None) for kind in ("scattered", "hole", "periodic", "channels", "cubic")),
        *((kind, ef.smooth(order=1.5)) for kind in ("hole", "cubic")),
        *((kind, ef.smooth(order=4)) for kind in ("scattered", "channels")),
    ],
    ids=str,
)
def test_gaps_are_filled_as_in_memory(kind, settings, tmp_path):
    values = gappy(kind)
    options = {"periodic": 1} if kind == "periodic" else {}
    options |= {"channel_axis": -1} if kind == "channels" else {}
    field, whole, _, _ = both(values, settings, tmp_path, **options)
    assert field.settings == whole.settings
    # Systems are solved in other batches, of other sizes: rounding, times their condition.
    exact = kind == "cubic" and settings != ef.smooth(order=1.5)
    close(field.samples(), whole.samples(), (1e-12 if exact else 1e-6) * np.nanstd(values))
    gone = field.model.blended.source_samples.gaps(tuple(slice(0, n) for n in field.shape))
    every = np.broadcast_to(gone, (*field.shape, field.model.offset.shape[0]))
    assert np.array_equal(every.reshape(values.shape), np.isnan(values))


@pytest.mark.thorough
def test_a_mask_marks_what_is_missing(tmp_path):
    values, mask = rough((40, 50), dtype="uint8"), np.zeros((40, 50), bool)
    mask[10:14, 20:30] = True
    field = ef.fit(values, out=tmp_path / "a.elm", mask=mask)
    close(field.samples(), ef.fit(values, mask=mask).samples(), 1e-6)


@pytest.mark.parametrize("settings", [ef.paper(cell=16, width=40), ef.smooth(order=2)], ids=str)
def test_coefficients_of_merged_regions_stream(settings, tmp_path):
    values = rough((64, 48), dtype="float64")
    partition = ef.beam(values, cell=8, regions=12)
    if settings == ef.paper(cell=16, width=40):
        settings = ef.paper(width=40)
    field, whole, streamed, saved = both(values, settings, tmp_path, partition=partition)
    assert streamed.keys() == saved.keys()
    close(field.samples(), whole.samples(), 1e-9)
    close(field.error_map(), whole.error_map(), 1e-6)


def sources(tmp_path):
    """The same samples wherever they may lie."""
    da, zarr = pytest.importorskip("dask.array"), pytest.importorskip("zarr")
    values = rough((90, 70))
    np.save(tmp_path / "x.npy", values)
    stored = zarr.create_array(tmp_path / "x.z", shape=values.shape, chunks=(37, 29), dtype="f4")
    stored[:] = values
    return {
        "an array": values,
        "a memory map": np.load(tmp_path / "x.npy", mmap_mode="r"),
        "a path": tmp_path / "x.npy",
        "Zarr": stored,
        "Dask": da.from_array(values, chunks=(41, 23)),
    }


@pytest.mark.thorough
def test_sources_of_all_kinds_are_alike(tmp_path):
    found = {}
    for name, source in sources(tmp_path).items():
        ef.fit(source, out=tmp_path / "a.elm", memory_limit=SMALL)
        found[name] = len((tmp_path / "a.elm").read_bytes())
        close(ef.load(tmp_path / "a.elm").samples(), rough((90, 70)), 1e-4)
    assert len({v for k, v in found.items() if k != "a path"}) == 1  # that one names its axes


def test_a_list_is_an_array(tmp_path, monkeypatch):
    values = rough((9, 8), dtype="float64")
    monkeypatch.chdir(tmp_path)
    field = ef.fit(values.tolist(), out="a.elm")
    assert np.array_equal(field.samples(), values)
    assert os.listdir() == ["a.elm"]


def test_files_keep_their_coordinates(tmp_path):
    xr = pytest.importorskip("xarray")
    values = rough((60, 50))
    da = xr.DataArray(
        values, dims=("y", "x"), coords={"y": np.arange(60) * 0.5}, name="t", attrs={"units": "K"}
    )
    da.to_netcdf(tmp_path / "x.nc")
    for source in (tmp_path / "x.nc", da, da.chunk({"y": 17})):
        field = ef.fit(source, out=tmp_path / "a.elm", memory_limit=SMALL)
        shown = field.to_xarray()
        assert shown.attrs["units"] == "K"
        close(shown.coords["y"].values, da.coords["y"].values, 0)


@pytest.mark.thorough
def test_tiled_pictures_and_videos_are_read_in_parts(tmp_path):
    tifffile, _ = pytest.importorskip("tifffile"), pytest.importorskip("av")
    picture = (rough((80, 96)) * 100).astype(np.uint16)
    tifffile.imwrite(tmp_path / "x.tif", picture, tile=(32, 32))
    frames = rough((7, 32, 48), dtype="uint8")[..., None].repeat(3, -1)
    ef.write(frames, tmp_path / "x.mkv", channel_axis=-1)
    for name in ("x.tif", "x.mkv"):
        ef.fit(tmp_path / name, out=tmp_path / "a.elm", memory_limit=1 << 16)
        ef.save(ef.fit(tmp_path / name), tmp_path / "b.elm")
        assert (tmp_path / "a.elm").read_bytes() == (tmp_path / "b.elm").read_bytes()


@pytest.mark.parametrize("has_gaps", [False, True])
def test_a_map_whose_file_marks_gaps_is_kept_as_in_memory(has_gaps, tmp_path):
    rasterio = pytest.importorskip("rasterio")
    values = rough((70, 64), dtype="uint16")
    if has_gaps:
        values[50:53, 20:24] = 0
    about = {"driver": "GTiff", "height": 70, "width": 64, "count": 1, "dtype": "uint16"}
    about |= {"tiled": True, "blockxsize": 32, "blockysize": 16}
    transform = rasterio.Affine(10.0, 0, 3e5, 0, -10.0, 5e6)
    with rasterio.open(tmp_path / "x.tif", "w", nodata=0, transform=transform, **about) as file:
        file.write(values[None])
    field = ef.fit(tmp_path / "x.tif", ef.smooth(order=2), out=tmp_path / "a.elm")
    whole = ef.fit(tmp_path / "x.tif", ef.smooth(order=2))
    assert (
        field.model.input_dtype == whole.model.input_dtype == ("float32" if has_gaps else "uint16")
    )
    assert field.labels == whole.labels
    close(field.samples(), whole.samples(), 1e-3)


# --- memory ---------------------------------------------------------------------------------------


class Counted:
    """A source that makes its samples when asked, and knows how many were asked for at once."""

    shape, dtype = (400, 300), np.dtype("float32")

    def __init__(self):
        self.most = 0

    def __getitem__(self, slab):
        rows, columns = (np.arange(s.start, s.stop) for s in slab)
        self.most = max(self.most, len(rows) * len(columns))
        return np.sin(rows[:, None] / 50 + columns / 70).round(2).astype("float32")


@pytest.mark.thorough
def test_an_array_is_never_whole_in_memory(tmp_path):
    source = Counted()
    field = ef.fit(source, ef.smooth(order=2), out=tmp_path / "a.elm", memory_limit=1 << 19)
    assert source.most * 4 * 8 <= 1 << 19
    at = np.array([[123.0, 277.0], [399.0, 0.0]])
    close(field(at), np.sin(at[:, 0] / 50 + at[:, 1] / 70).round(2), 1e-5)


# --- cut short ------------------------------------------------------------------------------------


def kill_while_fitting(values, out, delay):
    """Let a process of its own fit, and kill it after some seconds; whether it was still at it."""
    pid = os.fork()
    if pid == 0:
        with suppress(BaseException):
            ef.fit(values, ef.smooth(order=2), out=out, memory_limit=SMALL)
        os._exit(0)
    time.sleep(delay)
    os.kill(pid, signal.SIGKILL)
    return os.waitpid(pid, 0)[1] == signal.SIGKILL


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are not forked here")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_work_that_was_killed_goes_on(tmp_path):
    """benchmarks/scale.py kills does it thirty times."""
    values, out = rough((150, 120)), tmp_path / "a.elm.zarr"
    began = time.perf_counter()
    ef.save(ef.fit(values, ef.smooth(order=2)), tmp_path / "b.elm.zarr")
    took = time.perf_counter() - began
    killed = 0
    for delay in np.random.default_rng(0).random(5) * 2 * took:
        killed += kill_while_fitting(values, out, delay)
        ef.fit(values, ef.smooth(order=2), out=out, memory_limit=SMALL)
        assert entries(out) == entries(tmp_path / "b.elm.zarr")
        assert sorted(os.listdir(tmp_path)) == ["a.elm.zarr", "b.elm.zarr"]
        shutil.rmtree(out)
    assert killed


def test_what_is_done_is_not_done_again(tmp_path, monkeypatch):
    from elmfield.io.model.sample_files import TileArray

    values, out, coded = rough((150, 120)), tmp_path / "a.elm.zarr", []
    put = TileArray.write_tile

    def failing(*args):
        coded.append(1)
        if len(coded) == 6:
            raise OSError(28, "No space left on device")
        return put(*args)

    monkeypatch.setattr(TileArray, "write_tile", failing)
    with pytest.raises(ef.StoreError, match=r"No space left.*goes on from there"):
        ef.fit(values, ef.smooth(order=2), out=out, memory_limit=SMALL)
    assert not out.exists()
    before = len(coded)
    ef.fit(values, ef.smooth(order=2), out=out, memory_limit=SMALL)
    total = len(list((out / "samples" / "c").rglob("*")))
    assert len(coded) - before < total
    close(ef.load(out).samples(), values, 1e-4)


class Told:
    """A reporter that stops the work once a stage has come so far."""

    def __init__(self, stage=None, at=None):
        self.stage, self.at, self.heard = stage, at, {}

    def __call__(self, stage, done, total):
        self.heard.setdefault(stage, []).append((done, total))
        if stage == self.stage and done >= self.at:
            raise KeyboardInterrupt


def partly_flat():
    """Samples of which some tiles are all alike: those have no coarse picture when coded."""
    values = rough((70, 90))
    values[:, 48:] = 7
    return values


@pytest.mark.parametrize("limit", [SMALL, 4 * SMALL])
def test_errors_and_overviews_are_found_while_blocks_are_coded(limit, tmp_path):
    """There was a check behind the coding, which took longer and began anew after a kill."""
    values, settings = partly_flat(), ef.smooth(order=2, max_error=0.05)
    ef.save(ef.fit(values, settings), tmp_path / "b.elm.zarr")
    out, told = tmp_path / "a.elm.zarr", Told("fit", 2)
    with pytest.raises(KeyboardInterrupt):
        ef.fit(values, settings, out=out, memory_limit=SMALL, progress=told)
    told = Told()
    ef.fit(values, settings, out=out, memory_limit=limit, progress=told)
    assert set(told.heard) == {"survey", "fit"}
    assert entries(out) == entries(tmp_path / "b.elm.zarr")


def _nothing(path):
    path.write_bytes(b"")


def _a_list(path):
    path.write_text("[1]")


def _deep(path):
    path.write_text("[" * 100_000)


def _other_types(path):
    found = json.loads(path.read_text())
    path.write_text(json.dumps(dict.fromkeys(found, "x")))


def _no_tiles(path):
    found = json.loads(path.read_text())
    path.write_text(json.dumps({**found, "checks": [{}, {}], "errors": []}))


def _a_folder(path):
    path.unlink()
    path.mkdir()


@pytest.mark.parametrize("damage", [_nothing, _a_list, _deep, _other_types, _no_tiles])
def test_damaged_notes_are_not_believed(damage, tmp_path):
    values, settings = partly_flat(), ef.smooth(order=2, max_error=0.05)
    ef.save(ef.fit(values, settings), tmp_path / "b.elm.zarr")
    out = tmp_path / "a.elm.zarr"
    with pytest.raises(KeyboardInterrupt):
        ef.fit(values, settings, out=out, memory_limit=SMALL, progress=Told("fit", 2))
    notes = [*tmp_path.glob(".a.elm.zarr.partial/done-*/*")]
    assert notes
    for note in notes:
        damage(note)
    ef.fit(values, settings, out=out, memory_limit=SMALL)
    assert entries(out) == entries(tmp_path / "b.elm.zarr")
    assert sorted(os.listdir(tmp_path)) == ["a.elm.zarr", "b.elm.zarr"]


@pytest.mark.thorough
@pytest.mark.parametrize("damage", [_nothing, Path.unlink], ids=["empty", "gone"])
def test_tiles_that_are_not_whole_are_made_again(damage, tmp_path):
    """A system that crashes may leave empty files of which a note says that they are done."""
    values, out = rough((150, 120)), tmp_path / "a.elm.zarr"
    ef.save(ef.fit(values, ef.smooth(order=2)), tmp_path / "b.elm.zarr")
    with pytest.raises(KeyboardInterrupt):
        ef.fit(values, ef.smooth(order=2), out=out, memory_limit=SMALL, progress=Told("fit", 6))
    tiles = [*tmp_path.glob(".a.elm.zarr.partial/model-as/samples/c/*/*")]
    assert len(tiles) >= 6
    for tile in tiles[::3]:
        damage(tile)
    ef.fit(values, ef.smooth(order=2), out=out, memory_limit=SMALL)
    assert entries(out) == entries(tmp_path / "b.elm.zarr")


@pytest.mark.parametrize("name", ["a.elm", "a.elm.zarr"])
def test_work_killed_just_after_its_last_move_is_no_trap(name, tmp_path, monkeypatch):
    from elmfield.io.stream import work_folder

    values, out = rough((90, 70)), tmp_path / name
    with monkeypatch.context() as patch:
        patch.setattr(
            work_folder.shutil, "rmtree", lambda *a, **k: (_ for _ in ()).throw(SystemExit)
        )
        with pytest.raises(SystemExit):
            ef.fit(values, ef.smooth(order=2), out=out, memory_limit=SMALL)
    field = ef.fit(values, ef.smooth(order=2), out=out, memory_limit=SMALL)
    close(field.samples(), values, 1e-4)
    assert os.listdir(tmp_path) == [name]


def test_a_disk_that_is_full_in_the_middle_loses_nothing(tmp_path, monkeypatch):
    resource = pytest.importorskip("resource")
    monkeypatch.setattr(sys, "dont_write_bytecode", True)  # modules would end at the limit
    values, out = rough((150, 120)), tmp_path / "a.elm"
    own = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (30_000, own[1]))  # a tile fits, the file does not
    try:
        with pytest.raises(ef.StoreError, match=r"File too large.*goes on from there"):
            ef.fit(values, ef.smooth(order=2), out=out, memory_limit=SMALL)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, own)
    assert not out.exists()
    close(ef.fit(values, ef.smooth(order=2), out=out, memory_limit=SMALL).samples(), values, 1e-4)
    assert os.listdir(tmp_path) == ["a.elm"]


def test_changed_samples_are_noticed(tmp_path, monkeypatch):
    from elmfield.io.stream.work_folder import Work

    values, out = rough((150, 120)), tmp_path / "a.elm.zarr"
    with monkeypatch.context() as patch:
        patch.setattr(Work, "finish", lambda *args: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            ef.fit(values, ef.smooth(order=2), out=out, memory_limit=SMALL)
    changed = values.copy()
    changed[100, 5:7] = values[100, 6:4:-1]  # the same range and mean: the plan is the same
    field = ef.fit(changed, ef.smooth(order=2), out=out, memory_limit=SMALL)
    close(field.samples(), changed, 1e-4)


# --- bad input ------------------------------------------------------------------------------------


def test_a_store_of_others_is_left_alone(tmp_path):
    zarr = pytest.importorskip("zarr")
    other = tmp_path / "a.elm.zarr"
    zarr.create_array(other, shape=(3,), dtype="f4")[:] = 1
    before = entries(other)
    with pytest.raises(ef.StoreError, match="no model of elmfield, and is left alone"):
        ef.fit(rough((20, 20)), out=other)
    assert entries(other) == before


def test_a_model_is_replaced_once_the_new_one_is_there(tmp_path):
    out = tmp_path / "a.elm.zarr"
    ef.fit(rough((20, 20)), out=out)
    ef.fit(rough((30, 20), 1), out=out)
    close(ef.load(out).samples(), rough((30, 20), 1), 1e-4)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (ef.smooth(denoise=True), "`denoise` has to see the whole array"),
        (ef.smooth(coefficients=900), "`coefficients` has to see all coefficients at once"),
    ],
)
def test_what_cannot_stream_says_so(settings, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        ef.fit(rough((40, 40)), settings, out=tmp_path / "a.elm")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("out", "error", "message"),
    [
        ("a.npy", ValueError, "`out` must end in .elm or .elm.zarr"),
        ("nowhere/a.elm", ef.StoreError, "its folder does not exist"),
    ],
)
def test_bad_targets(out, error, message, tmp_path):
    with pytest.raises(error, match=message):
        ef.fit(rough((20, 20)), out=tmp_path / out)


def test_a_source_must_keep_its_shape(tmp_path):
    class Shrinking(Counted):
        def __getitem__(self, slab):
            return super().__getitem__(slab)[:-1]

    with pytest.raises(ValueError, match="its shape must not change while it is read"):
        ef.fit(Shrinking(), out=tmp_path / "a.elm")


def test_an_infinite_sample_is_refused(tmp_path):
    values = rough((40, 40))
    values[3, 4] = np.inf
    with pytest.raises(ValueError, match="must be finite"):
        ef.fit(values, out=tmp_path / "a.elm")


# --- Dask -----------------------------------------------------------------------------------------


def test_unknown_chunks_are_refused(tmp_path):
    da = pytest.importorskip("dask.array")
    values = da.from_array(rough((40, 30)), chunks=(10, 30))
    with pytest.raises(ValueError, match="compute_chunk_sizes"):
        ef.fit(values[values[:, 0] > 0], out=tmp_path / "a.elm")


@pytest.mark.parametrize("chunks", [(10, 30), (17, 11)])
def test_a_dask_array_is_fitted_as_the_array_it_stands_for(chunks):
    da = pytest.importorskip("dask.array")
    values, points = rough((40, 30)), inside(np.random.default_rng(0), (40, 30), 20)
    lazy = da.from_array(values, chunks=chunks)
    field = ef.fit(lazy, mask=da.from_array(values > 285, chunks=chunks))
    close(field(da.from_array(points)), ef.fit(values, mask=values > 285)(points), 0)
    close(field.samples()[values <= 285], values[values <= 285], 0)


def test_a_large_dask_array_in_memory_is_warned_of():
    da = pytest.importorskip("dask.array")
    values = da.from_array(rough((40, 30)), chunks=(10, 30))
    with pytest.warns(UserWarning, match="fit\\(..., out='name.elm.zarr'\\)"):
        ef.fit(da.concatenate([values] * 30), memory_limit=1 << 16)


def _cluster_script(tmp_path, body):
    script = tmp_path / "work.py"
    script.write_text(textwrap.dedent(body))
    return subprocess.run(
        [sys.executable, script], check=True, capture_output=True, text=True, cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(Path(ef.__file__).parents[1])}, timeout=240,
    )  # fmt: skip


@pytest.mark.slow
def test_a_cluster_writes_the_same_bytes_though_a_worker_dies(tmp_path):
    """A Dask array on a cluster, one of whose workers dies; then a file, by its address."""
    pytest.importorskip("distributed")
    _cluster_script(
        tmp_path,
        """
        import os, numpy as np, dask.array as da, elmfield as ef
        import elmfield.field.coefficients.tiles, elmfield.io.model.sample_files
        from pathlib import Path

        def values():
            noise = np.random.default_rng(0).standard_normal((200, 160))
            return (280 + noise.cumsum(0)).astype("f4")

        class Deadly:
            shape, dtype, ndim = (200, 160), np.dtype("f4"), 2
            def __getitem__(self, slab):
                once = Path("died")
                if slab[0].start > 90 and not once.exists():
                    once.write_text("")
                    os._exit(1)
                return values()[slab]

        if __name__ == "__main__":
            from distributed import Client, LocalCluster
            from elmfield.cli import cli
            elmfield.field.coefficients.tiles.TILE_BYTES = 1 << 13
            elmfield.io.model.sample_files.MIN_SAMPLES = 1 << 12
            x = da.from_array(Deadly(), chunks=(60, 70), asarray=False)
            np.save("x.npy", values())
            with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as c:
                with Client(c):
                    ef.fit(x, ef.smooth(order=2), out="a.elm.zarr", memory_limit=1 << 20)
                words = ["fit", "x.npy", "-o", "c.elm.zarr", "--order", "2", "--quiet"]
                cli.main([*words, "--scheduler", c.scheduler_address], standalone_mode=False)
        """,
    )
    assert (tmp_path / "died").exists()
    ef.save(ef.fit(rough((200, 160)), ef.smooth(order=2)), tmp_path / "b.elm.zarr")
    assert entries(tmp_path / "a.elm.zarr") == entries(tmp_path / "b.elm.zarr")
    tiles = [
        {k: v for k, v in entries(tmp_path / f"{n}.elm.zarr").items() if "/c/" in k} for n in "ac"
    ]
    assert tiles[0] == tiles[1]


@pytest.mark.parametrize(("version", "told"), [(False, "none"), ("0.0.1", "0.0.1")])
def test_workers_without_the_package_are_told_of(version, told):
    from elmfield.io.stream.workers import count_workers

    class Client:
        def run(self, function):
            assert function() == ef.__version__
            return {"tcp://a": ef.__version__, "tcp://b": version}

    with pytest.raises(RuntimeError, match=rf"needs elmfield .*tcp://b has {told}\. Install it"):
        count_workers(Client())
