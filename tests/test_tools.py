"""Tools around the library: pinned versions agree, the scripts of counts and times count right."""

import importlib.util
import re

import pytest

from support import ROOT


def loaded(path):
    spec = importlib.util.spec_from_file_location(f"tool_{path.stem}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_hooks_pin_what_the_environment_pins():
    pins = dict(
        re.findall(r"([\w-]+)==([\w.]+)", (ROOT / "requirements-dev.txt").read_text("utf-8"))
    )
    hooks = re.findall(r"([\w-]+)==([\w.]+)", (ROOT / ".pre-commit-config.yaml").read_text("utf-8"))
    assert {"ruff", "import-linter"} <= {name for name, _ in hooks}
    for name, version in hooks:
        assert pins.get(name, version) == version


def test_times_of_two_commits_are_compared():
    compared = loaded(ROOT / "benchmarks" / "compare.py").compared
    lines, is_slower = compared(
        {"a": 1.0, "b": 2.0, "c": 1e-5}, {"a": 1.5, "b": 1.0, "c": 1.0}, 1.25
    )
    assert is_slower
    assert [line.split() for line in lines] == [
        ["1.50x", "1.0000", "s", "1.5000", "s", "a"],
        ["0.50x", "2.0000", "s", "1.0000", "s", "b"],
    ]
    assert not compared({"a": 1.0}, {"a": 1.2}, 1.25)[1]


def test_every_suite_of_others_is_counted():
    count = loaded(ROOT / "tests" / "outside" / "count.py")
    suites = {p.stem.removeprefix("test_") for p in (ROOT / "tests" / "outside").glob("test_*.py")}
    assert set(count.SUITES) == suites
    page = (ROOT / "docs" / "judges.md").read_text("utf-8")
    for _, what in count.SUITES.values():
        assert f" | {what} | " in page


@pytest.mark.parametrize("run", [True, False])
def test_counts_of_suites_that_did_not_run_stay(run):
    count = loaded(ROOT / "tests" / "outside" / "count.py")
    found = {suite: {} for suite in count.SUITES}
    old = f"| verde 0.0 | {count.SUITES['verde'][1]} | 7 | 0 | 9 |\n"
    if run:
        found["scipy_grid"] = {"passed": 3, "failed": 1, "not applicable": 2}
    made = count.table(found, old)
    assert old in made
    assert ("| 3 | 1 | 2 |" in made) == run
