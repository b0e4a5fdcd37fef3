"""The demo and the README keep their word: what they show runs, and says what it says."""

import contextlib
import io
import re
import subprocess
import sys
from html.parser import HTMLParser

import numpy as np
import pytest

import elmfield as ef
from elmfield.cli import demo_command as demo
from support import ROOT

README = ROOT / "README.md"


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """What the demo prints, and its page; run once."""
    folder = tmp_path_factory.mktemp("demo")
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        demo.demo.main(["--output", str(folder)], standalone_mode=False)
    assert (folder / "view" / "facts.js").is_file()
    return printed.getvalue(), (folder / "report.html").read_text(encoding="utf-8")


@pytest.fixture
def report(written):
    return written[1]


class Images(HTMLParser):
    def __init__(self):
        super().__init__()
        self.sources, self.links = [], []

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        if tag == "img":
            self.sources.append(given["src"])
        self.links += [given[k] for k in ("href", "src") if k in given]


@pytest.mark.slow
def test_report_is_self_contained(report):
    page = Images()
    page.feed(report)
    # the picture, five enlargements, two partitions
    assert len(page.sources) == 8
    assert page.links.count("view/index.html") == 1  # beside it, and not needed to read it
    page.links.remove("view/index.html")
    assert all(s.startswith("data:image/png;base64,") for s in page.links)
    assert "://" not in report
    assert "url(" not in report
    assert "$" not in report  # every place of the template was filled


@pytest.mark.slow
def test_report_shows_every_method(report):
    rows = re.findall(r"<tr><th>([^<]+)</th>", report)
    assert rows == ["paper preset", "default", "oriented", "linear spline", "cubic spline"]
    captions = re.findall(r"<figcaption>([^<:]+)</figcaption>", report)
    ours = ["paper preset", "default", "oriented"]
    assert captions[1:6] == ["nearest neighbour", "cubic spline", *ours]


@pytest.mark.slow
def test_table_says_what_the_report_says(written):
    printed, page = written
    default = next(line for line in printed.splitlines() if line.startswith("default"))
    heldout = default.split()[-2]
    assert re.search(rf"<td[^>]*>{re.escape(heldout)} dB</td>", page)
    assert float(heldout) > 25


def test_enlargement_of_the_default_passes_through_the_picture():
    rng = np.random.default_rng(7)
    picture = rng.uniform(0, 255, (200, 280))
    large = demo.enlarged(picture, {"default": ef.fit(picture)})["default"]
    row, column, span = demo.DETAIL
    # Eight positions a pixel, none on its centre: the four around it average close to a line
    # through it only if both agree on where pixels lie.
    middle = large.reshape(span, 8, span, 8)[:, 3:5, :, 3:5].mean(axis=(1, 3))
    assert np.corrcoef(middle.ravel(), picture[row:, column:][:span, :span].ravel())[0, 1] > 0.99


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


def test_tables_of_the_documents_are_those_of_the_record():
    script = ROOT / "benchmarks" / "tables.py"
    done = subprocess.run([sys.executable, script, "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
