"""Forks, threads, kills and full disks: the same numbers, and old, new or nothing at a place."""

import os
import resource
import signal
import subprocess
import sys

import numpy as np
import pytest

import elmfield as ef
from robust.damage import spoiled
from robust.processes import (
    killed,
    killed_append,
    killed_fit,
    read_by_pool,
    read_by_threads,
    small_parts,
    values,
)

pytestmark = pytest.mark.skipif(os.name == "nt", reason="forks and signals are Unix's")


@pytest.fixture(params=["model.elm", "model.elm.zarr"])
def path(request, tmp_path):
    return tmp_path / request.param


def test_forked_workers_share_a_lazy_field(path):
    ef.save(ef.fit(values(0)), path)
    for _ in range(2):
        field = ef.load(path)
        field([3.0, 4.0])  # opened, and read from, before the fork
        assert read_by_pool(path, "fork", field) == 0


@pytest.mark.slow
def test_spawned_workers_read_for_themselves(tmp_path):
    ef.save(ef.fit(values(0)), tmp_path / "model.elm")
    assert read_by_pool(tmp_path / "model.elm", "spawn", ef.load(tmp_path / "model.elm")) == 0


def test_threads_share_a_lazy_field(path):
    ef.save(ef.fit(values(0)), path)
    assert read_by_threads(path, 4) == 0


def test_a_killed_save_leaves_old_or_new_and_the_next_one_clears_up(path):
    old, new = ef.fit(values(0)), ef.fit(values(1))
    told = [f.samples() for f in (old, new)]
    found = set()
    for k in range(8):
        ef.save(old, path)
        found.add(killed(path, lambda p: ef.save(new, p), *told, 0.002 * k))
    assert found <= {"old", "new"}
    # What a process leaves that dies in the middle, whatever the clock says:
    child = os.fork()
    if child == 0:

        def die(*_):
            os.kill(os.getpid(), signal.SIGKILL)

        ef.save(new, path, progress=die)
    os.waitpid(child, 0)
    assert len(os.listdir(path.parent)) == 2
    ef.save(new, path)
    assert os.listdir(path.parent) == [path.name]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_an_append_that_is_killed_is_completed_by_the_same_call(tmp_path, monkeypatch):
    """`make fuzz` does it 200 times; it doubled samples, or left a model that reads as damaged."""
    small_parts(monkeypatch.setattr)
    for number in range(8):
        found = killed_append([number // 4], number, tmp_path)
        assert found in ("old", "new"), number


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_stream_that_is_killed_leaves_nothing_behind(tmp_path, monkeypatch):
    """Files that were being written stayed in the model."""
    small_parts(monkeypatch.setattr)
    for number in range(6):
        found = killed_fit([number // 3], number, tmp_path)
        assert found in ("none", "new"), number


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_folders_in_which_work_lies_are_not_believed(tmp_path, monkeypatch):
    small_parts(monkeypatch.setattr)
    for number in range(6):
        found = spoiled([number], tmp_path)
        assert found in ("done", "refused"), number


def test_work_that_goes_on_elsewhere_is_left_alone(tmp_path):
    """A save of another process to the same place is no leftover."""
    from elmfield.io.store.atomic_write import scratch_folder

    path = tmp_path / "model.elm"
    with scratch_folder(path) as work:
        ef.save(ef.fit(values(0, 16)), path)
        assert work.exists()
    assert os.listdir(tmp_path) == ["model.elm"]


def test_a_full_disk_keeps_what_was_there(path):
    """A limit on the size of files stands in for it."""
    ef.save(ef.fit(values(0)), path)
    was = ef.load(path, lazy=False).samples()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            sys.dont_write_bytecode = True  # compiled modules would end at the limit
            resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
            ef.save(ef.fit(values(1)), path)
        except ef.StoreError as error:
            code = 0 if "Nothing was left behind" in str(error) else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    np.testing.assert_array_equal(ef.load(path).samples(), was)
    assert os.listdir(path.parent) == [path.name]


@pytest.mark.slow
def test_ctrl_c_while_importing_is_quiet():
    """From the first moment on: the command is interrupted while it is still being imported."""
    code = "import os, signal, sys\nsys.argv = ['elmfield', '--help']\n" + (
        "class Early:\n"
        "    def find_spec(self, name, *_):\n"
        "        if name == 'numpy':\n"
        "            os.kill(os.getpid(), signal.SIGINT)\n"
        "sys.meta_path.insert(0, Early())\n"
        "from elmfield_command import main\nmain()\n"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (ran.returncode, ran.stdout) == (130, "")
    assert ran.stderr == "Interrupted; nothing half-written was left behind.\n"
