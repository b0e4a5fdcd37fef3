"""Compiled loops: used once they pay, never needed."""

import subprocess
import sys

import numpy as np
import pytest

from elmfield._array import compiled


def total(x):
    found = 0
    for i in range(x.size):
        found += x[i]
    return found


def test_a_process_pays_for_the_compiler_once_it_has_enough_to_do(monkeypatch):
    monkeypatch.setattr(compiled, "installed", lambda: True)
    monkeypatch.setattr(compiled._Seen, "work", 0)
    assert not compiled.pays(compiled.ENOUGH - 1)
    assert compiled.pays(1)
    monkeypatch.setattr(compiled, "installed", lambda: False)
    assert not compiled.pays(10 * compiled.ENOUGH)


@pytest.mark.parametrize("value", ["0", "1"])
def test_a_variable_turns_it_off(value):
    code = "from elmfield._array import compiled; print(compiled.installed())"
    env = {"PYTHONPATH": ":".join(sys.path), "ELMFIELD_COMPILED": value}
    out = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True)
    assert out.stdout.split() == [str(value == "1" and compiled.installed())]


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
