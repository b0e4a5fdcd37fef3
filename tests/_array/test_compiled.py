"""Compiled loops: used once they pay, never needed."""

import subprocess
import sys
import textwrap

import numpy as np
import pytest
from hypothesis import given, settings

from elmfield._array import running
from elmfield.cli import cli
from robust import twins
from support import SEEDS


def total(x):
    found = 0
    for i in range(x.size):
        found += x[i]
    return found


def test_loops_are_loaded_once_there_is_enough_to_do_and_compiled_for_large_jobs(monkeypatch):
    """The first colour picture took 14 s instead of 1: loops were compiled for it."""
    done = []
    monkeypatch.setattr(running, "installed", lambda: True)
    monkeypatch.setattr(running._Seen, "work", 0)
    monkeypatch.setattr(running._Seen, "is_ready", None)
    monkeypatch.setattr(running, "were_compiled", lambda: True)
    assert not running.pays(running.MIN_SAMPLES - 1)
    assert running.pays(1)
    monkeypatch.setattr(running, "were_compiled", lambda: done.append("asked"))
    monkeypatch.setattr(running, "compile_loops", lambda: setattr(running._Seen, "is_ready", True))
    running._Seen.is_ready = None
    for _ in range(3):  # many small jobs are none that pays
        assert not running.pays(running.COMPILE_MIN_SAMPLES - 1)
        running._Seen.is_ready = running._Seen.is_ready or False
    assert done == ["asked"]
    assert running.pays(running.COMPILE_MIN_SAMPLES)
    assert running.pays(1)
    monkeypatch.setattr(running, "installed", lambda: False)
    assert not running.pays(10 * running.COMPILE_MIN_SAMPLES)


@pytest.mark.slow
@pytest.mark.skipif(not running.installed(), reason="numba is not installed")
def test_the_command_compiles_ahead(tmp_path, monkeypatch, capsys):
    """A picture is then coded with loops; before, nothing is compiled for it."""
    code = """
        import numpy as np
        from elmfield.codec import pack, unpack
        from elmfield._array import running
        unpack(pack(np.zeros((600, 600)) + np.random.default_rng(0).random((600, 600))))
        print(running.pays(0))
    """
    env = {"PYTHONPATH": ":".join(sys.path), "PATH": "/usr/bin"}

    def run(code, **more):
        ran = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(code)],
            env=env | more, capture_output=True, text=True, check=True,
        )  # fmt: skip
        return ran.stdout.split()

    command = "from elmfield.cli import main; main(['compile'])"
    assert run(code, NUMBA_CACHE_DIR=str(tmp_path)) == ["False"]  # an empty folder
    # Compiling all takes long: it goes where the other tests keep their loops.
    assert run(command) in (["compiled"], ["compiled", "before"])
    assert run(code) == ["True"]
    assert run(command) == ["compiled", "before"]
    done = []
    monkeypatch.setattr(running, "were_compiled", lambda: bool(done))
    monkeypatch.setattr(running, "compile_loops", lambda: done.append("compiled"))
    for told in ("compiled\n", "compiled before\n"):
        cli.main(["compile"], standalone_mode=False)
        assert capsys.readouterr().out == told
    assert done == ["compiled"] * 2


@pytest.mark.slow
@pytest.mark.parametrize("value", ["0", "1"])
def test_a_variable_turns_it_off(value):
    code = "from elmfield._array import running; print(running.installed())"
    env = {"PYTHONPATH": ":".join(sys.path), "ELMFIELD_COMPILED": value}
    out = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True)
    assert out.stdout.split() == [str(value == "1" and running.installed())]


@pytest.mark.slow
@pytest.mark.skipif(not running.installed(), reason="numba is not installed")
@settings(max_examples=6)
@given(seed=SEEDS)
def test_bytes_and_merges_are_those_of_numpy(seed):
    assert twins.attempt(seed) == "the same"


@pytest.mark.slow
@pytest.mark.skipif(not running.installed(), reason="numba is not installed")
def test_a_process_with_and_without_loops_makes_the_same_model(tmp_path):
    """With nothing patched."""
    code = """
        import sys, numpy as np, elmfield as ef
        from elmfield._array import running
        if running.installed():
            running.compile_loops()
        x = np.random.default_rng(0).standard_normal((160, 160)).cumsum(0).cumsum(1)
        ef.save(ef.fit(x), sys.argv[1] + "/a.elm")
        ef.save(ef.fit(x, ef.smooth(max_error=1.0)), sys.argv[1] + "/b.elm")
        np.save(sys.argv[1] + "/c.npy", ef.beam(x[:96, :96], cell=8, regions=20).labels)
        print(running.pays(0))
    """
    made = []
    for value in ("0", "1"):
        folder = tmp_path / value
        folder.mkdir()
        env = {"PYTHONPATH": ":".join(sys.path), "ELMFIELD_COMPILED": value}
        out = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(code), str(folder)],
            env=env, capture_output=True, text=True, check=True,
        )  # fmt: skip
        assert out.stdout.split() == [str(value == "1")]
        made.append({p.name: p.read_bytes() for p in folder.iterdir()})
    assert len(made[0]) == 3
    assert made[0] == made[1]


@pytest.mark.thorough
def test_a_loop_without_a_folder_to_keep_it_in_is_compiled_all_the_same(monkeypatch):
    numba = pytest.importorskip("numba")
    usual, asked = numba.njit, []

    def njit(*loops, cache=False, **options):
        if loops:  # numba's own
            return usual(*loops, cache=cache, **options)
        asked.append(cache)
        if cache:
            raise RuntimeError("cannot cache function: no locator available")
        return usual(**options)

    monkeypatch.setattr(numba, "njit", njit)
    assert running.compiled(total)(np.arange(5)) == 10
    assert asked == [True, False]
