"""Every fault that was once found by trying to break it, and the test that would find it again.

== ===================================== ==========================================================
1  nodata values make all NaN            test_calls: test_a_number_that_stands_for_no_data_is_named
2  narrow files round offset and scale   test_calls: test_offsets_keep_their_digits_in_narrow_files
3  blocks mixed between folder models    test_damage: test_a_block_of_another_model_is_noticed,
                                         test_blocks_that_changed_places_are_noticed,
                                         test_a_folder_that_is_replaced_under_an_open_field_is_noticed
4  memory on long axes                   here: test_long_axes_take_little_memory
5  targets that never return             test_calls: test_any_scale_comes_to_an_end
6  saving over what is not ours          test_places: test_another_zarr_store_is_left_alone,
                                         test_a_replace_that_fails_keeps_the_old
7  forked workers                        test_processes: test_forked_workers_share_a_lazy_field
8  promises broken                       test_calls: test_whole_numbers_beyond_float64_are_told,
                                         test_a_psnr_near_all_digits_is_reached
9  files that cannot be loaded           test_calls: test_what_is_saved_can_be_loaded
10 close points are missed               test_calls: test_close_points_are_met
11 foreign exceptions of `load`          here: test_metadata_of_the_wrong_kind_are_refused,
                                         test_things_that_are_no_files_are_refused
12 a full or read-only folder of modes   _array/test_cache:
                                         test_a_folder_that_cannot_be_written_is_named_once
13 half pictures, tracebacks             here: test_a_full_disk_leaves_no_half_file;
   closed pipes, ASCII, long CSV, bombs  test_commands: test_a_reader_may_stop_early,
                                         test_closed_streams_are_no_failure,
                                         test_terminals_that_know_ascii_only,
                                         test_bad_input_has_a_code_and_a_sentence,
                                         test_a_bomb_can_be_allowed
   `xyzt_units` 0xff                     here: test_a_volume_whose_units_are_none
   Ctrl-C in the first moment            test_processes: test_ctrl_c_while_importing_is_quiet
14 leftovers of killed saves             test_processes:
                                         test_a_killed_save_leaves_old_or_new_and_the_next_one_clears_up
   links as targets, long names          test_places: test_links_are_followed, test_long_names_work
   quality of very many channels         here: test_many_channels_are_kept_in_one_go
15 appends cut short add samples twice   test_processes:
                                         test_an_append_that_is_killed_is_completed_by_the_same_call;
   or leave a model that is damaged      io/stream/test_append: test_the_same_call_goes_on,
                                         test_readers_see_the_old_or_the_new_model_at_every_moment
   lists of moves that are believed      io/stream/test_append:
                                         test_nothing_beside_a_model_is_believed,
                                         test_nothing_is_moved_through_links
16 small arrays cannot be streamed       io/stream/test_fit_stream:
                                         test_arrays_too_small_for_a_spectrum
   files left in finished models         test_processes:
                                         test_a_stream_that_is_killed_leaves_nothing_behind
   no workers, no end                    cli/test_mistakes: test_mistakes_have_a_message_and_a_code
17 JSON bombs, entries without a limit   io/model/test_damage: test_a_json_bomb_costs_little_memory,
                                         test_entries_larger_than_any_are_refused
   lying targets                         io/model/test_damage: test_a_target_that_is_none_is_refused
== ===================================== ==========================================================
"""

import json
import os
import subprocess
import sys
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

import elmfield as ef
from robust.damage import limited, write_folder


@pytest.mark.parametrize("shape", [(150_000,), (2, 75_000)])
def test_long_axes_take_little_memory(shape, rng):
    """2.2 KB a sample it was, whatever the limit."""
    field = ef.fit(rng.standard_normal(shape))
    with ef.memory_limit(1 << 20):
        tracemalloc.start()
        field.samples()
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert most < 100 * 150_000 + (1 << 22)


def test_many_channels_are_kept_in_one_go(rng):
    """The codec's work is that of the samples, not of the channels squared."""
    field = ef.fit(rng.standard_normal((8, 800)), channel_axis=1)
    with limited(60):
        kept = field.keep(psnr=30)
    assert ef.psnr(field.samples(), kept.samples()) >= 29.9


def test_a_volume_whose_units_are_none(tmp_path, rng):
    nibabel = pytest.importorskip("nibabel")
    path = tmp_path / "x.nii"
    values = rng.random((4, 5, 6)).astype("f4")
    nibabel.save(nibabel.Nifti1Image(values, np.eye(4)), path)
    data = bytearray(path.read_bytes())
    data[123] = 0xFF  # xyzt_units
    path.write_bytes(data)
    np.testing.assert_array_equal(ef.read(path).values, values)


# --- what `load` once passed on -------------------------------------------------------------------


@pytest.fixture(scope="module")
def entries(tmp_path_factory):
    """The files of a small model in a folder."""
    path = tmp_path_factory.mktemp("whole") / "model.elm.zarr"
    ef.save(ef.fit(np.sin(np.arange(144) / 5).reshape(12, 12), ef.smooth(cell=6)), path)
    return {str(p.relative_to(path)): p.read_bytes() for p in path.rglob("*") if p.is_file()}


def _deep(n):
    found = []
    for _ in range(n):
        found = [found]
    return found


@pytest.mark.parametrize("version", [0, 1, 2])
@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("probe", {"at": "x", "values": "y"}), ("probe", 3), ("attributes", [1]), ("orders", 0),
        ("offset", [[]]), ("offset", None), ("offset", [float("nan")]), ("scale", [None]),
        ("scale", float("nan")), ("attributes", _deep(500)), ("scale", 0), ("shape", None),
    ],
    ids=lambda v: str(v)[:20],
)  # fmt: skip
def test_metadata_of_the_wrong_kind_are_refused(tmp_path, entries, key, value, version):
    root = json.loads(entries["zarr.json"])
    meta = root["attributes"]["elmfield"]
    meta.pop("digest", None)  # as somebody would who puts the check sums right
    meta |= {key: value, "format": version}
    write_folder(tmp_path / "m.elm.zarr", entries | {"zarr.json": json.dumps(root).encode()})
    with limited(), pytest.raises(ef.StoreError):
        ef.load(tmp_path / "m.elm.zarr").samples()


@pytest.mark.skipif(os.name == "nt", reason="pipes and links are Unix's")
@pytest.mark.parametrize("thing", ["folder", "loop", "endless", "pipe"])
def test_things_that_are_no_files_are_refused(tmp_path, entries, thing):
    for name in entries:
        path = tmp_path / name.replace("/", "-") / "m.elm.zarr"
        write_folder(path, entries)
        place = path / name
        place.unlink()
        {
            "folder": place.mkdir,
            "loop": lambda place=place: place.symlink_to(place.name),
            "endless": lambda place=place: place.symlink_to("/dev/zero"),
            "pipe": lambda place=place: os.mkfifo(place),
        }[thing]()
        with limited(), pytest.raises(ef.StoreError):
            ef.load(path).samples()


# --- full disks -----------------------------------------------------------------------------------

WRITERS = {
    "fit": "fit {0}/x.npy -o new.elm",
    "fit a folder": "fit {0}/x.npy -o new.elm.zarr",
    "render png": "render {0}/m.elm -o new.png",
    "render tif": "render {0}/m.elm -o new.tif",
    "render nc": "render {0}/m.elm -o new.nc",
    "render npy": "render {0}/m.elm -o new.npy",
    "compare": "compare {0}/x.npy {0}/m.elm --map new.png",
    "beam": "beam {0}/x.npy --regions 3 -o new.png",
    "view": "view {0}/m.elm --export page --no-open",
}

SMALL = """
import os, sys
from elmfield.cli import main
os.chdir(sys.argv[1])
with open("filler", "wb") as file:  # all but three pages
    file.write(bytes((64 - 12) << 10))
for words in sys.argv[3:]:
    code = None
    try:
        main(words.format(sys.argv[2]).split())
    except SystemExit as left:
        code = left.code
    print(words.split()[0], code, sorted(os.listdir()), flush=True)
"""


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="mounts a small disk, as on Linux")
def test_a_full_disk_leaves_no_half_file(tmp_path, rng):
    """A disk of 64 KiB in a name space of its own, nearly full."""
    disk, data = tmp_path / "disk", tmp_path / "data"
    disk.mkdir(), data.mkdir()
    values = rng.random((120, 130))
    np.save(data / "x.npy", values)
    ef.save(ef.fit(values), data / "m.elm")
    mounted = f"mount -t tmpfs -o size=64k tmpfs {disk}"
    own = ["unshare", "--map-root-user", "--mount", "sh", "-c"]
    try:
        subprocess.run([*own, mounted], check=True, capture_output=True, timeout=20)
    except (OSError, subprocess.SubprocessError) as error:
        pytest.skip(f"no small disk can be mounted here: {error}")
    script = tmp_path / "script.py"
    script.write_text(SMALL)
    ran = subprocess.run(
        [*own, f'{mounted} && exec "$@"', "sh", sys.executable, script, disk, data,
         *WRITERS.values()],
        capture_output=True, text=True, timeout=200,
    )  # fmt: skip
    lines = ran.stdout.splitlines()
    for words, line in zip(WRITERS.values(), lines, strict=True):
        assert line == f"{words.split()[0]} 3 ['filler']", ran.stdout + ran.stderr
    assert "Traceback" not in ran.stderr
    told = [line for line in ran.stderr.splitlines() if line.startswith("Error: ")]
    assert len(told) == len(WRITERS), ran.stderr
    assert Path(disk).is_dir()


@pytest.mark.parametrize(
    ("call", "wanted"),
    [
        (lambda: ef.smooth(denoise=[""]), "`denoise` must be True, False"),
        (lambda: ef.over_seeds(np.eye(20), ef.paper(cell=10, width=5), seeds=1 << 62), "at most"),
        (lambda: ef.fit(np.eye(9), channel_axis=np.array(["a", "b"])), "`channel_axis` must be"),
    ],
)
def test_odd_arguments_are_refused_in_a_sentence(call, wanted):
    with pytest.raises(ValueError, match=wanted):
        call()
