"""Sources that are dear to read: each of their chunks is computed or decoded once."""

import os
from collections import Counter
from itertools import pairwise

import numpy as np
import pytest

import elmfield as ef
from elmfield._array.progress import silent
from elmfield.field.coefficients.tiles import Tiling
from elmfield.field.coordinates.labels import Labels
from elmfield.fit.encoder import encoder
from elmfield.fit.statistics import Slabs
from elmfield.io.stream.fit_stream import Stream
from elmfield.io.stream.work_folder import Work
from elmfield.io.stream.workers import Engine, Spool, count_reads, merge_chunks
from elmfield.samples import Sliced
from support import close

SMALL = 1 << 18


def sea(shape=(150, 130)):
    return np.random.default_rng(0).standard_normal(shape).cumsum(0).astype("float32")


def counted(values, chunks, seen, stop=None):
    """A Dask array that notes which chunks are computed; the one at `stop` fails, once."""
    da = pytest.importorskip("dask.array")

    def block(block_info=None):
        spans = tuple(slice(a, b) for a, b in block_info[None]["array-location"])
        seen[tuple(s.start for s in spans)] += 1
        if stop is not None and stop and spans[0].start == stop[0]:
            stop.clear()
            raise OSError(28, "No space left on device")
        return values[spans]

    every = da.core.normalize_chunks(chunks, values.shape)
    return da.map_blocks(block, chunks=every, dtype=values.dtype, name="sea")


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("settings", "has_gaps"),
    [
        (ef.smooth(order=2), False),
        pytest.param(ef.smooth(order=2, max_error=2.0), True, marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_chunks_of_a_dask_array_are_computed_once(settings, has_gaps, tmp_path):
    values, seen = sea(), Counter()
    if has_gaps:
        values[40:44, 50:53] = np.nan
    source = counted(values, (70, 50), seen)
    field = ef.fit(source, settings, out=tmp_path / "a.elm.zarr", memory_limit=SMALL)
    assert len(seen) == 9
    assert set(seen.values()) == {1}
    allowed = 1e-4 if settings.target is None else 2.0
    here = ~np.isnan(values)
    close(field.samples()[here], values[here], allowed)
    assert os.listdir(tmp_path) == ["a.elm.zarr"]


@pytest.mark.thorough
def test_workers_fill_gaps_too(tmp_path, monkeypatch):
    from elmfield.io.stream import workers

    values, tasks, alone = sea(), [], workers.run_alone

    def noted(work, slab, given):
        tasks.append(type(work).__name__)
        return alone(work, slab, given)

    values[40:44, 50:53] = np.nan
    monkeypatch.setattr(workers, "run_alone", noted)
    source = counted(values, (70, 50), Counter())
    ef.fit(source, ef.smooth(order=2), out=tmp_path / "a.elm.zarr", memory_limit=SMALL)
    assert set(tasks) == {"partial", "Coding"}


@pytest.mark.thorough
def test_chunks_that_were_computed_are_kept_when_work_is_cut_short(tmp_path):
    dask = pytest.importorskip("dask")
    with dask.config.set(scheduler="synchronous"):  # no thread computes on when work is cut
        cut_short_and_gone_on_with(tmp_path)


def cut_short_and_gone_on_with(tmp_path):
    values, seen = sea(), Counter()
    source, out = counted(values, (30, 50), seen, stop=[120]), tmp_path / "a.elm.zarr"
    with pytest.raises(ef.StoreError, match="goes on from there"):
        ef.fit(source, ef.smooth(order=2), out=out, memory_limit=1 << 16)
    done = len(list(tmp_path.rglob("source-*/*.npy")))
    assert done >= 4
    seen.clear()
    ef.fit(source, ef.smooth(order=2), out=out, memory_limit=1 << 16)
    assert seen.total() == 15 - done
    close(ef.load(out).samples(), values, 1e-4)
    other = counted(values + 1, (70, 50), seen).map_blocks(lambda x: x)
    close(ef.fit(other, ef.smooth(order=2), out=out).samples(), values + 1, 1e-4)


@pytest.mark.thorough
def test_a_disk_too_small_for_a_copy_is_no_obstacle(tmp_path, monkeypatch):
    from elmfield.io.stream import workers

    full = workers.shutil.disk_usage(tmp_path)._replace(free=1000)
    monkeypatch.setattr(workers.shutil, "disk_usage", lambda _: full)
    values = sea()
    values[40:44, 50:53] = np.nan
    source = counted(values, (70, 50), Counter())
    field = ef.fit(source, ef.smooth(order=2), out=tmp_path / "a.elm", memory_limit=SMALL)
    here = ~np.isnan(values)
    close(field.samples()[here], values[here], 1e-4)


@pytest.mark.thorough
def test_frames_of_a_video_are_decoded_once(tmp_path, monkeypatch):
    pytest.importorskip("av")
    from elmfield.io.formats.media import Frames

    frames, opened = sea((12, 48, 40)).astype(np.uint8)[..., None].repeat(3, -1), []
    ef.write(frames, tmp_path / "x.mkv", channel_axis=-1)
    decoded = Frames._decoded
    monkeypatch.setattr(Frames, "_decoded", lambda self: opened.append(1) or decoded(self))
    field = ef.fit(
        tmp_path / "x.mkv", ef.smooth(order=2), out=tmp_path / "a.elm.zarr", memory_limit=1 << 16
    )
    assert len(opened) == 1
    close(field.samples(), frames, 0.5)


def test_a_window_of_a_copy_is_what_was_put_there(tmp_path):
    values = sea((30, 20))
    spans = merge_chunks([[7, 7, 7, 7, 2], [20]], 300)
    assert [s.stop - s.start for s in spans[0]] == [14, 14, 2]
    spool = Spool(tmp_path, values.shape, values.dtype, spans)
    for slab in spool.slabs:
        assert not spool.has(slab)
        spool.save(slab, values[slab])
        assert spool.has(slab)
    for slab in ((slice(3, 29), slice(5, 6)), (slice(14, 28), slice(0, 20))):
        assert np.array_equal(spool.read(slab), values[slab])
    assert np.array_equal(spool.read(), values)


def test_how_often_chunks_are_read():
    blocks = [(slice(a, a + 5), slice(b, b + 10)) for a in (0, 5) for b in (0, 10)]
    assert count_reads(blocks, [[10], [20]]) == 4
    assert count_reads(blocks, [[5, 5], [10, 10]]) == 1
    assert count_reads(blocks, [[4, 4, 2], [20]]) == pytest.approx(2 * 14 / 10)


class Chunked:
    """An array in one chunk."""

    shape, dtype, chunks = (60, 40), np.dtype("f4"), (60, 40)

    def __getitem__(self, slab):
        return np.zeros(self.shape, "f4")[slab]


def stream_of(source, encode, engine):
    slabs = Slabs(source=Sliced(source))
    own = {"slabs": slabs, "encode": encode, "labels": Labels()}
    return Stream(**own, engine=engine, progress=silent)


@pytest.mark.parametrize(("times", "copied"), [(2, False), (3, True)])
def test_a_file_is_copied_if_it_would_be_read_three_times_in_a_pass(times, copied, tmp_path):
    encode = encoder(Chunked.shape, ef.smooth(order=2))
    stream = stream_of(Chunked(), encode, Engine())
    rows = np.linspace(0, 60, times + 1).astype(int)
    blocks = [(slice(a, b), slice(0, 40)) for a, b in pairwise(rows)]
    with Work(tmp_path / "a.elm.zarr") as work:
        assert (stream._spool(work, blocks) is not None) == copied


def test_each_worker_gets_four_blocks_but_none_too_small_to_be_coded_fast():
    """16 M samples; tiles of 2 MiB are coded by twos, a million samples."""
    large = Chunked()
    large.shape = large.chunks = (4000, 4000)
    encode = encoder(large.shape, ef.smooth(order=2))
    tiling = Tiling((0, 0, 0), (4000, 4000, 1), (64, 64, 1))
    n_blocks = {}
    with ef.memory_limit(1 << 34):
        for n in (1, 3, 50):
            stream = stream_of(large, encode, Engine(n_workers=n))
            n_blocks[n] = len(stream.blocks(tiling))
    assert n_blocks[1] == 1
    assert 12 <= n_blocks[3] <= 14
    assert 15 <= n_blocks[50] <= 20
