"""The scripts of ``paper/``: each runs, at a toy size, and what is committed is what they give."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

PAPER = Path(__file__).parents[1] / "paper"
SHARED = {"claims", "common", "document", "figures", "training", "report", "run"}
SCRIPTS = sorted({p.stem for p in PAPER.glob("*.py")} - SHARED)
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not PAPER.exists(), reason="needs the repository's paper/ folder"),
]


def python(*arguments, **environment):
    """Run a script as a user does, one thread, and give back what it printed."""
    one = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    done = subprocess.run(
        [sys.executable, *map(str, arguments)],
        capture_output=True,
        text=True,
        env=os.environ | one | environment,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


@pytest.fixture(scope="module")
def toy(data, tmp_path_factory):
    """A folder in which every script has run."""
    folder = tmp_path_factory.mktemp("paper")
    python(PAPER / "run.py", "--profile", "toy", "--folder", folder)
    return folder


def test_every_script_leaves_numbers_with_their_circumstances(toy):
    assert len(SCRIPTS) >= 12
    for script in SCRIPTS:
        record = json.loads((toy / "results" / "cpu" / f"{script}.json").read_text())
        assert record["units"], script
        for name, unit in record["units"].items():
            assert unit["settings"]["profile"] == "toy", (script, name)
            assert unit["about"]["device"], (script, name)
            assert unit["about"]["versions"]["elmfield"], (script, name)
            assert len(unit["about"]["code"]) == 12, (script, name)


def test_closed_form_rows_are_at_the_papers_ceiling(toy):
    units = json.loads((toy / "results" / "cpu" / "images.json").read_text())["units"]
    assert units["kodim05: ELM-INR"]["result"]["paper_psnr"] >= 79.9
    assert units["kodim05: ELM-INR"]["result"]["heldout"] < 10  # and useless between the samples
    for method in ("SIREN", "FFN", "GaussNet", "WIRE", "hash grid, tuned"):
        row = units[f"kodim05: {method}"]["result"]
        assert row["log"][0][0] == 0, method
        assert row["log"][-1][0] == row["steps"] == 8, method
        assert row["paper_psnr"] == pytest.approx(row["log"][-1][2], abs=0.01), method


def test_the_report_has_both_forms_and_every_part(toy):
    text = (toy / "REPORT.md").read_text()
    for part in ("Claims", "What the text leaves open", "Theory", "Data",
                 "How to read this", "Pictures", "The search", "Satellite scenes", "Navier-Stokes",
                 "Energy budgets", "BEAM at equal N and m", "Ablation", "Runs"):  # fmt: skip
        assert f"# {part}" in text, part
        assert part in (toy / "report.html").read_text(), part
    for row in ("kodim05", "WorldView-3 CDG", "SIREN, 10×", "hash grid, tuned", "ELM-INR, S = m"):
        assert f"\n| {row}" in text, row
    for line in text.splitlines():
        if line.startswith("!["):
            path = toy / line.split("](")[1].rstrip(")")
            assert path.stat().st_size > 1000, path


def test_without_data_everything_else_is_measured(tmp_path):
    empty, nowhere = tmp_path / "empty", "http://127.0.0.1:9"
    empty.mkdir()
    places = {"ELMFIELD_DATA": str(empty), "ELMFIELD_CACHE": str(tmp_path / "cache")}
    told = python(
        PAPER / "run.py", "--profile", "toy", "--folder", tmp_path, "--closed",
        **places, http_proxy=nowhere, https_proxy=nowhere,
    )  # fmt: skip
    assert "data sets are not at hand; their rows are marked." in told
    assert "  kodim05: Kodak 5" in told
    text = (tmp_path / "REPORT.md").read_text()
    assert "data not at hand" in text
    units = json.loads((tmp_path / "results" / "cpu" / "readings.json").read_text())["units"]
    assert any("CC0" in name for name in units)
    assert not any("kodim" in name for name in units)
    assert (tmp_path / "results" / "cpu" / "toy.json").exists()


def test_a_record_of_other_code_is_marked(tmp_path):
    code = (
        "import sys; sys.path[:0] = [{paper!r}]\n"
        "from pathlib import Path\n"
        "import report\n"
        "from common import Run, is_current\n"
        "run = Run('images', folder=Path({folder!r}))\n"
        "run.unit('kodim05: ELM-INR', lambda: {{'paper_psnr': 79.0}})\n"
        "records = report.Records(run.folder)\n"
        "_, unit = records.get('images', 'kodim05: ELM-INR')\n"
        "assert is_current(unit) and records.mark(unit) == ''\n"
        "unit['about']['code'] = '0' * 12\n"
        "assert records.mark(unit) == '†'\n"
        "assert report.verdict(78.4, 79.0) == 'reproduced'\n"
        "assert report.verdict(30.5, 35.8) == 'better (+5.3 dB)'\n"
        "assert report.verdict(44.2, 36.9) == 'worse (-7.3 dB)'\n"
        "assert report.verdict(33.7, 40.0, 'stand-in').startswith('not comparable')\n"
    )
    python("-c", code.format(paper=str(PAPER), folder=str(tmp_path)))


def test_pictures_that_may_not_be_published_are_kept_apart(toy):
    names = {p.stem for p in (toy / "figures").rglob("*.png")}
    assert names
    assert not [n for n in names if "cameraman" in n or "worldview" in n]
    assert "images-cameraman" in {p.stem for p in (toy / "private").rglob("*.png")}


def test_what_is_recorded_is_not_run_again(toy):
    again = python(PAPER / "run.py", "co2", "toy", "--profile", "toy", "--folder", toy)
    assert "[co2] SIREN" not in again  # a unit that is worked on is announced
    more = python(PAPER / "run.py", "toy", "--profile", "toy", "--folder", toy, "--again")
    assert "[toy] toy field" in more


def test_a_fresh_clone_measures_what_is_recorded_anew(tmp_path):
    code = (
        "import sys; sys.path.insert(0, {paper!r})\n"
        "import shutil; from dataclasses import replace; from pathlib import Path\n"
        "from common import Run\n"
        "run = Run('some', folder=Path({folder!r}))\n"
        "run.unit('one', lambda: {{'x': 1}})\n"
        "assert run.unit('one', lambda: {{'x': 2}}) == {{'x': 1}}\n"
        "shutil.rmtree(run.folder / 'kept')\n"
        "assert replace(run, recorded=True).unit('one', lambda: {{'x': 2}}) == {{'x': 1}}\n"
        "assert run.unit('one', lambda: {{'x': 2}}) == {{'x': 2}}\n"
    )
    python("-c", code.format(paper=str(PAPER), folder=str(tmp_path)))


def test_the_whole_search_is_a_unit_for_every_setting(data, tmp_path, monkeypatch):
    monkeypatch.setenv("ALL", "1")
    python(PAPER / "search.py", "--profile", "toy", "--folder", tmp_path)
    record = json.loads((tmp_path / "results" / "cpu" / "full_search.json").read_text())
    networks = [u["settings"]["network"] for u in record["units"].values()]
    assert len(networks) == 4 * 2
    assert {(n["hidden"], n["layers"], n["rate"]) for n in networks} == {
        (256, 3, 5e-5), (256, 3, 1e-4),
    }  # fmt: skip
    assert "[full_search]" not in python(
        PAPER / "search.py", "--profile", "toy", "--folder", tmp_path
    )


def test_a_run_that_breaks_off_keeps_what_it_had(tmp_path):
    code = (
        "import sys; sys.path.insert(0, {paper!r})\n"
        "from pathlib import Path\n"
        "from common import Run\n"
        "run = Run('some', folder=Path({folder!r}))\n"
        "run.unit('first', lambda: {{'x': 1.5}}, width=3)\n"
        "try:\n"
        "    run.unit('second', lambda: 1 / 0)\n"
        "except ZeroDivisionError: pass\n"
        "assert run.unit('first', lambda: 1 / 0, width=3) == {{'x': 1.5}}\n"
        "assert run.unit('first', lambda: {{'x': 2}}, width=4) == {{'x': 2}}\n"
    )
    python("-c", code.format(paper=str(PAPER), folder=str(tmp_path)))
    record = json.loads((tmp_path / "results" / "cpu" / "some.json").read_text())
    assert list(record["units"]) == ["first"]


def test_the_committed_report_is_what_the_records_give():
    python(PAPER / "report.py", "--check")


def test_a_script_that_does_not_exist_is_refused():
    done = subprocess.run(
        [sys.executable, PAPER / "run.py", "nonsense"], capture_output=True, text=True
    )
    assert done.returncode == 2
    assert "no script ['nonsense']" in done.stderr
