"""Compiled loops: used once they pay, never needed."""

import subprocess
import sys
import textwrap

import numpy as np
import pytest
from hypothesis import given, settings

from elmfield._array import compiled
from robust import twins
from support import SEEDS


def total(x):
    found = 0
    for i in range(x.size):
        found += x[i]
    return found


def test_a_process_pays_for_the_compiler_once_it_has_enough_to_do(monkeypatch):
    monkeypatch.setattr(compiled, "installed", lambda: True)
    monkeypatch.setattr(compiled._Seen, "work", 0)
    assert not compiled.pays(compiled.MIN_SAMPLES - 1)
    assert compiled.pays(1)
    monkeypatch.setattr(compiled, "installed", lambda: False)
    assert not compiled.pays(10 * compiled.MIN_SAMPLES)


@pytest.mark.parametrize("value", ["0", "1"])
def test_a_variable_turns_it_off(value):
    code = "from elmfield._array import compiled; print(compiled.installed())"
    env = {"PYTHONPATH": ":".join(sys.path), "ELMFIELD_COMPILED": value}
    out = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True)
    assert out.stdout.split() == [str(value == "1" and compiled.installed())]


@pytest.mark.skipif(not compiled.installed(), reason="numba is not installed")
@settings(max_examples=6)
@given(seed=SEEDS)
def test_bytes_and_merges_are_those_of_numpy(seed):
    assert twins.attempt(seed) == "the same"


@pytest.mark.slow
@pytest.mark.skipif(not compiled.installed(), reason="numba is not installed")
def test_a_process_with_and_without_loops_makes_the_same_model(tmp_path):
    """Of an array so large that loops are compiled, with nothing patched."""
    code = """
        import sys, numpy as np, elmfield as ef
        from elmfield._array import compiled
        x = np.random.default_rng(0).standard_normal((400, 400)).cumsum(0).cumsum(1)
        ef.save(ef.fit(x), sys.argv[1] + "/a.elm")
        ef.save(ef.fit(x, ef.smooth(max_error=1.0)), sys.argv[1] + "/b.elm")
        np.save(sys.argv[1] + "/c.npy", ef.beam(x[:96, :96], cell=8, regions=20).labels)
        print(compiled.pays(0))
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
    assert compiled.compiled(total)(np.arange(5)) == 10
    assert asked == [True, False]
