"""The demo and the README keep their word: what they show runs, and says what it says."""

import re
import subprocess
import sys

import pytest

from elmfield.cli import look_commands
from support import ROOT

README = ROOT / "README.md"


@pytest.mark.slow
def test_the_demo_prints_a_table_and_writes_a_page_for_each_preset(run, folder, monkeypatch):
    data = pytest.importorskip("skimage.data")
    part = data.camera()[96:192, 192:288]  # takes a tenth of the time that the whole picture takes
    monkeypatch.setattr(data, "camera", lambda: part)
    monkeypatch.setattr(look_commands, "TILE_BYTES", 1 << 16)
    said = run("demo", "--output", "made").stdout
    found = re.findall(r"^ *([a-z ]*?) +held-out PSNR (\S+) dB", said, re.MULTILINE)
    heldout = {name: float(score) for name, score in found}
    assert list(heldout) == ["smooth", "oriented", "paper", "linear spline", "cubic spline"]
    assert heldout["smooth"] > 25
    for name in ("smooth", "oriented", "paper"):
        assert (folder / "made" / name / "facts.js").is_file()
        assert f"made/{name}/index.html" in said
    index = (folder / "made" / "index.html").read_text(encoding="utf-8")
    assert "made/index.html" in said
    for name, score in heldout.items():
        assert f"<th>{name}</th><td>held-out PSNR {score:.2f} dB" in index
    links = re.findall(r'href="(\S+?)"', index)
    assert links == [f"{name}/index.html" for name in ("smooth", "oriented", "paper")]
    assert index.count("<img src=") == 3


def blocks():
    text = README.read_text(encoding="utf-8")
    return re.findall(r"```python\n(.*?)```", text, flags=re.S)


@pytest.mark.slow
def test_readme_blocks_run_in_order(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # some of them write files
    assert blocks()
    names = {}
    for number, block in enumerate(blocks()):
        exec(compile(block, f"README.md, block {number}", "exec"), names)  # in one namespace


@pytest.mark.slow
def test_tables_of_the_documents_are_those_of_the_record():
    script = ROOT / "benchmarks" / "tables.py"
    done = subprocess.run([sys.executable, script, "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
