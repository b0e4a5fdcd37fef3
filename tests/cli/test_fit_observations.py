"""The command on tables of observations."""

import json
from itertools import pairwise

import numpy as np
import pytest

EDGES = [0, 31, 59, 90, 120]


@pytest.mark.thorough
def test_means_of_a_table_are_kept(run, folder):
    rows = (f"mean,{a},{b},{np.sin(a):.6f},0\n" for a, b in pairwise(EDGES))
    (folder / "months.csv").write_text("kind,t_low,t_high,value,noise\n" + "".join(rows))
    words = ("fit", "--observations", "months.csv", "--spacing", "1", "-o", "days.elm")
    told = json.loads(run(*words, "--json").stdout)
    assert told["rows"] == 4
    held = json.loads(run("info", "days.elm", "--json").stdout)
    assert held["n_coefficients"] == told["coefficients"]


def test_one_of_both_inputs(run, folder):
    (folder / "a.csv").write_text("x,value\n1,2\n")
    assert "one of them" in run("fit", "-o", "a.elm", code=2).stderr
    words = ("fit", "a.csv", "--observations", "a.csv", "-o", "a.elm")
    assert "one of them" in run(*words, code=2).stderr
