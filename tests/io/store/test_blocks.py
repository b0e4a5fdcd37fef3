"""Arrays in blocks: any parts in, any runs out, and every claim checked."""

import gc
import json
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

import elmfield as ef
from elmfield.io.store import blocks
from elmfield.io.store.blocks import ArrayReader, block_length, write_array
from elmfield.io.store.stores import FolderStore

SIZE = 100_003  # in blocks that it does not fill


@pytest.fixture(params=[True, False], ids=["compressed", "plain"])
def written(request, rng, tmp_path):
    """Numbers, and the entries that hold them."""
    values = rng.standard_normal(SIZE).cumsum()
    memory = FolderStore(str(tmp_path))
    parts = np.split(values, [0, 1, 17, 50_000, 50_000, 99_999])
    write_array(memory, "c", iter(parts), SIZE, "float64", request.param)
    return values, memory


def opened(memory, size=SIZE, kinds=("float64",)):
    n = sum(key.startswith("c/c/") for key in memory.sizes())
    sums = "".join(memory.read(f"c/c/{i}")[-4:].hex() for i in range(n))
    return ArrayReader(memory, {"c": sums}).open("c", size, *kinds)


def test_numbers_come_back_bit_for_bit(written):
    values, memory = written
    found = opened(memory)
    assert len(found._keys) == 3
    assert np.array_equal(found.read_all(), values)


@pytest.mark.parametrize("kind", ["float16", "float32", "uint8", "int64"])
def test_every_kind_comes_back(kind, rng, tmp_path):
    values = rng.integers(0, 200, 3001).astype(kind)
    memory = FolderStore(str(tmp_path))
    sums = write_array(memory, "c", iter([values]), 3001, kind, True)
    blocks = [memory.read(k) for k in memory.sizes() if k != "c/zarr.json"]
    assert sums == "".join(b[-4:].hex() for b in blocks)
    found = opened(memory, 3001, (kind,)).read_all()
    assert found.dtype == values.dtype
    assert np.array_equal(found, values)


def test_runs_come_in_the_order_asked_for(written, rng):
    values, memory = written
    starts = rng.integers(0, SIZE - 3000, 60)
    counts = rng.integers(0, 3000, 60)
    starts[7] = starts[6] + counts[6]  # neighbours
    expected = np.concatenate([values[s : s + n] for s, n in zip(starts, counts)])
    assert np.array_equal(opened(memory).gather(starts, counts), expected)


def test_a_run_reads_no_more_than_its_blocks(written, monkeypatch):
    values, memory = written
    found, asked, read = opened(memory), [], FolderStore.read
    monkeypatch.setattr(FolderStore, "read", lambda s, key: asked.append(key) or read(s, key))
    where = np.array([found.block + 5]), np.array([10])
    assert np.array_equal(found.gather(*where), values[found.block + 5 : found.block + 15])
    found.gather(*where)
    assert asked == ["c/c/1"]  # once: it is kept


def test_kept_blocks_stay_within_their_bytes(written, monkeypatch):
    values, memory = written
    found = opened(memory)
    monkeypatch.setattr(blocks, "CACHE_BYTES", 2 * found.block * 8)
    assert np.array_equal(found.read_all(), values)
    assert len(found._cache) == 2


def test_a_flipped_bit_is_noticed(written):
    _, memory = written
    data = bytearray(memory.read("c/c/1"))
    data[len(data) // 2] ^= 4
    memory.write("c/c/1", bytes(data))
    found = opened(memory)
    found.gather(np.array([0]), np.array([10]))  # another block
    with pytest.raises(ef.StoreError, match=r"array 'c': block 1 cannot be decoded"):
        found.read_all()


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"shape": [SIZE + 1]}, f"{SIZE} numbers of type float64 were expected"),
        ({"data_type": "float32"}, "of type float64 were expected"),
        ({"codecs": [{"name": "bytes"}]}, "were expected"),
        ({"chunk_grid": {}}, "its description makes no sense"),
        (
            {"chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [1 << 40]}}},
            "blocks of 1099511627776 numbers",
        ),
        (
            {"chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [100]}}},
            "blocks are missing",
        ),
    ],
)
def test_a_description_that_does_not_hold_is_refused(written, change, why):
    _, memory = written
    about = json.loads(memory.read("c/zarr.json"))
    memory.write("c/zarr.json", json.dumps({**about, **change}).encode())
    with pytest.raises(ef.StoreError, match=why):
        opened(memory)


def test_blocks_are_of_one_length_and_hardly_padded():
    for size in (1, 1000, 32_768, 99_999, 10**7):
        block = block_length(size, 8)
        count = -(-size // block)
        assert count * block - size < count  # less than one number each
        assert block * 8 <= 2**18 * 1.5


@pytest.mark.thorough
@pytest.mark.skipif(sys.platform != "linux", reason="counts the open files of Linux")
def test_a_model_in_a_cycle_of_references_is_closed_and_nothing_is_said(tmp_path):
    ef.save(ef.fit(np.eye(20)), tmp_path / "a.elm")
    gc.collect()  # what other tests left open is closed before it is counted
    before = len(list(Path("/proc/self/fd").iterdir()))
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        for _ in range(20):
            holder = [ef.load(tmp_path / "a.elm")]
            holder.append(holder)
        del holder
        gc.collect()
    assert [str(w.message) for w in told] == []
    assert len(list(Path("/proc/self/fd").iterdir())) == before
