"""Records are whole or not there, and say how they were made; tables are Markdown."""

import json
import re

import numpy as np
import pytest

import elmfield as ef
from measurement import records, tables


def test_sections_are_put_beside_each_other(tmp_path, capsys):
    path = tmp_path / "results" / "some.json"
    records.record(path, "one", [{"x": np.float64(1.5), "y": np.arange(2)}], border=3)
    records.record(path, "two", [{"x": 2}], dtype="float32", device="cpu")
    records.record(path, "one", [{"x": 7}])
    assert list(records.read(path)) == ["one", "two"]
    assert records.section_of(path, "one")["rows"] == [{"x": 7}]
    about = records.section_of(path, "two")["about"]
    assert (about["seed"], about["dtype"]) == (0, "float32")
    assert about["versions"]["elmfield"] == ef.__version__
    assert about["device"]
    assert about["commit"] == records.commit()
    assert re.fullmatch(r"[0-9a-f]{7,}(-dirty)?", about["commit"] or "0" * 7)
    assert about["threads"] >= 1
    assert "some: two, 1 rows" in capsys.readouterr().out
    assert [p.name for p in path.parent.iterdir()] == ["some.json"]


def test_writing_that_fails_leaves_what_was_there(tmp_path):
    path = tmp_path / "some.json"
    records.write(path, {"kept": 1})
    with pytest.raises(TypeError):
        records.write(path, {("no", "text"): 1})
    assert json.loads(path.read_text()) == {"kept": 1}


def test_a_digest_of_code_is_of_what_it_does(tmp_path, monkeypatch):
    monkeypatch.setattr(records, "ROOT", tmp_path)
    file = tmp_path / "some.py"
    found = []
    for text in (
        '"""One."""\ndef f(x):\n    """Text."""\n    return x + 1\n',
        '"""Two."""\n\n\ndef f(x):  # a comment\n    return x + 1\n',
        "def f(x):\n    return x + 2\n",
    ):
        file.write_text(text)
        records.code.cache_clear()
        found.append(records.code("some.py"))
    records.code.cache_clear()
    assert found[0] == found[1] != found[2]


def test_what_is_not_recorded_is_named(tmp_path):
    assert records.read(tmp_path / "none.json") == {}
    with pytest.raises(records.NotRecorded, match=r"none.json has no section 'rows'"):
        records.section_of(tmp_path / "none.json", "rows")


def test_tables():
    assert tables.table(["a", "b"], [["x", 1], ["y", 2.5]]) == (
        "| a | b |\n| --- | ---: |\n| x | 1 |\n| y | 2.5 |"
    )
    tight = tables.table(["a", "b", "c"], [], align="lrl", tight=True)
    assert tight == "| a | b | c |\n|---|---:|---|"
    assert tables.bold_best([1.004, 1.001, 0.5]) == ["**1.00**", "1.00", "0.50"]
    assert tables.best_of({"p": 1.0, "q": 3.0}) == ("q", 3.0)


def test_the_shortest_of_a_few_runs_waits_for_each():
    calls = []
    took = records.shortest(lambda: calls.append("work"), 3, lambda: calls.append("wait"))
    assert calls == ["wait", "work", "wait"] * 3
    assert took >= 0
