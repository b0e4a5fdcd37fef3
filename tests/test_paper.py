"""The scripts of ``paper/``: each runs, at a toy size, and what is committed is what they give."""

import contextlib
import importlib
import io
import json
import shutil
import sys
import warnings
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from matplotlib.figure import Figure
from PIL import Image

from paper.research.datasets import navier_stokes

PAPER = Path(__file__).parents[1] / "paper"
SHARED = {"claims", "common", "document", "figures", "training", "report", "run"}
SCRIPTS = sorted({p.stem for p in PAPER.glob("*.py")} - SHARED)
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not PAPER.exists(), reason="needs the repository's paper/ folder"),
]


def imported(name):
    """A script as a module: in one process, as importing torch takes longer than they do."""
    if str(PAPER) not in sys.path:
        sys.path.insert(0, str(PAPER))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return importlib.import_module(name)


def run(*arguments, script="run"):
    """What `run.py`, or another script, prints when a user gives it these words."""
    module = imported(script)
    imported("figures").plt.rcParams["savefig.dpi"] = 30
    before, sys.argv, printed = sys.argv, [f"{script}.py", *map(str, arguments)], io.StringIO()
    main = getattr(module, "main", None) if script in SHARED else None
    try:
        with contextlib.redirect_stdout(printed), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if main is None:
                imported("common").main(module.compute, module.draw, script)
            else:
                main()
    finally:
        sys.argv = before
    return printed.getvalue()


def every_script_leaves_numbers_with_their_circumstances(toy):
    assert len(SCRIPTS) >= 12
    for script in SCRIPTS:
        record = json.loads((toy / "results" / "cpu" / f"{script}.json").read_text())
        assert record["units"], script
        for name, unit in record["units"].items():
            assert unit["settings"]["profile"] == "toy", (script, name)
            assert unit["about"]["device"], (script, name)
            assert unit["about"]["versions"]["elmfield"], (script, name)
            assert len(unit["about"]["code"]) == 12, (script, name)


def closed_form_rows_are_at_the_papers_ceiling(toy):
    units = json.loads((toy / "results" / "cpu" / "images.json").read_text())["units"]
    assert units["kodim05: ELM-INR"]["result"]["paper_psnr"] >= 79.9
    assert units["kodim05: ELM-INR"]["result"]["heldout"] < 10  # and useless between the samples
    for method in ("SIREN", "FFN", "GaussNet", "WIRE", "hash grid, tuned"):
        row = units[f"kodim05: {method}"]["result"]
        assert row["log"][0][0] == 0, method
        assert row["log"][-1][0] == row["steps"] == 8, method
        assert row["paper_psnr"] == pytest.approx(row["log"][-1][2], abs=0.01), method


def the_report_has_both_forms_and_every_part(toy):
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


def pictures_that_may_not_be_published_are_kept_apart(toy):
    names = {p.stem for p in (toy / "figures").rglob("*.png")}
    assert names
    assert not [n for n in names if "cameraman" in n or "worldview" in n]
    assert "images-cameraman" in {p.stem for p in (toy / "private").rglob("*.png")}


def what_is_recorded_is_not_run_again(toy):
    again = run("co2", "toy", "--profile", "toy", "--folder", toy)
    assert "[co2] SIREN" not in again  # a unit that is worked on is announced
    more = run("toy", "--profile", "toy", "--folder", toy, "--again")
    assert "[toy] toy field" in more


def test_all_scripts_run(data, tmp_path, monkeypatch):
    """One test, as a fixture would run them in every process that tests run in."""
    draw = Figure.savefig  # without a look at how much is empty, which draws everything twice
    monkeypatch.setattr(Figure, "savefig", lambda figure, path, **options: draw(figure, path))
    monkeypatch.setattr(Figure, "get_layout_engine", lambda figure: None)
    run("--profile", "toy", "--folder", tmp_path)
    every_script_leaves_numbers_with_their_circumstances(tmp_path)
    closed_form_rows_are_at_the_papers_ceiling(tmp_path)
    the_report_has_both_forms_and_every_part(tmp_path)
    pictures_that_may_not_be_published_are_kept_apart(tmp_path)
    what_is_recorded_is_not_run_again(tmp_path)


@pytest.mark.timeout(900)
def test_without_data_everything_else_is_measured(tmp_path, monkeypatch):
    empty, nowhere = tmp_path / "empty", "http://127.0.0.1:9"
    empty.mkdir()
    places = {"ELMFIELD_DATA": empty, "ELMFIELD_CACHE": tmp_path / "cache"}
    for name, value in (places | {"http_proxy": nowhere, "https_proxy": nowhere}).items():
        monkeypatch.setenv(name, str(value))
    # What takes long and is looked at elsewhere: a finer grid of the flow, and drawing.
    monkeypatch.setattr(navier_stokes, "generated", partial(navier_stokes.generated, refine=1))
    blank = Image.new("RGB", (8, 8))
    monkeypatch.setattr(Figure, "savefig", lambda figure, path, **options: blank.save(path))
    told = run("--profile", "toy", "--folder", tmp_path, "--closed")
    assert "data sets are not at hand; their rows are marked." in told
    assert "  kodim05: " in told
    text = (tmp_path / "REPORT.md").read_text()
    assert "data not at hand" in text
    units = json.loads((tmp_path / "results" / "cpu" / "readings.json").read_text())["units"]
    assert any("CC0" in name for name in units)
    assert not any("kodim" in name for name in units)
    assert (tmp_path / "results" / "cpu" / "toy.json").exists()


def test_a_record_of_other_code_is_marked(tmp_path):
    common, report = imported("common"), imported("report")
    made = common.Run("images", folder=tmp_path)
    made.unit("kodim05: ELM-INR", lambda: {"paper_psnr": 79.0})
    records = report.Records(made.folder)
    _, unit = records.get("images", "kodim05: ELM-INR")
    assert common.is_current(unit)
    assert records.mark(unit) == ""
    unit["about"]["code"] = "0" * 12
    assert records.mark(unit) == "†"
    assert report.verdict(78.4, 79.0) == "reproduced"
    assert report.verdict(30.5, 35.8) == "better (+5.3 dB)"
    assert report.verdict(44.2, 36.9) == "worse (-7.3 dB)"
    assert report.verdict(33.7, 40.0, "stand-in").startswith("not comparable")


def test_a_fresh_clone_measures_what_is_recorded_anew(tmp_path):
    made = imported("common").Run("some", folder=tmp_path)
    made.unit("one", lambda: {"x": 1})
    assert made.unit("one", lambda: {"x": 2}) == {"x": 1}
    shutil.rmtree(made.folder / "kept")
    assert replace(made, recorded=True).unit("one", lambda: {"x": 2}) == {"x": 1}
    assert made.unit("one", lambda: {"x": 2}) == {"x": 2}


def test_the_whole_search_is_a_unit_for_every_setting(data, tmp_path, monkeypatch):
    monkeypatch.setenv("ALL", "1")
    run("--profile", "toy", "--folder", tmp_path, script="search")
    record = json.loads((tmp_path / "results" / "cpu" / "full_search.json").read_text())
    networks = [u["settings"]["network"] for u in record["units"].values()]
    assert len(networks) == 4 * 2
    assert {(n["hidden"], n["layers"], n["rate"]) for n in networks} == {
        (256, 3, 5e-5), (256, 3, 1e-4),
    }  # fmt: skip
    again = run("--profile", "toy", "--folder", tmp_path, script="search")
    assert "[full_search]" not in again


def test_a_run_that_breaks_off_keeps_what_it_had(tmp_path):
    made = imported("common").Run("some", folder=tmp_path)
    made.unit("first", lambda: {"x": 1.5}, width=3)
    with pytest.raises(ZeroDivisionError):
        made.unit("second", lambda: 1 / 0)
    assert made.unit("first", lambda: 1 / 0, width=3) == {"x": 1.5}
    assert made.unit("first", lambda: {"x": 2}, width=4) == {"x": 2}
    record = json.loads((tmp_path / "results" / "cpu" / "some.json").read_text())
    assert list(record["units"]) == ["first"]


def test_the_committed_report_is_what_the_records_give():
    with pytest.raises(SystemExit) as ended:
        run("--check", script="report")
    assert ended.value.code == 0


def test_a_script_that_does_not_exist_is_refused(capsys):
    with pytest.raises(SystemExit) as ended:
        run("nonsense")
    assert ended.value.code == 2
    assert "no script ['nonsense']" in capsys.readouterr().err
