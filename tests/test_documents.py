"""The Python of the documents runs, page by page, from an empty folder."""

import re
import textwrap

import pytest

import elmfield as ef
from support import ROOT, close, on_grid, wave

# The page of the baselines runs with their tests.
PAGES = [
    p.stem for p in sorted((ROOT / "docs").glob("*.md")) if "```python" in p.read_text("utf-8")
]
PAGES.remove("baselines")


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES)
def test_blocks_run_in_order(page, request, tmp_path, monkeypatch):
    from skimage.data import camera

    if page == "beam":
        pytest.importorskip("matplotlib").use("agg")
    if page == "data":
        monkeypatch.setenv("ELMFIELD_DATA", str(request.getfixturevalue("data")))
    monkeypatch.chdir(tmp_path)  # some of them write files
    image = camera()[::4, ::4].astype(float)
    names = {
        "ef": ef,
        "image": image,
        "picture": image,
        "mask": image > 200,
        "field": ef.fit(image),
    }
    text = (ROOT / "docs" / f"{page}.md").read_text("utf-8")
    for number, block in enumerate(re.findall(r"```python\n(.*?)```", text, flags=re.S)):
        exec(compile(block, f"docs/{page}.md, block {number}", "exec"), names)


def test_links_lead_somewhere():
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")]
    for page in pages:
        for link in re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text("utf-8")):
            if "://" not in link:
                assert (page.parent / link).exists(), f"{page.name}: {link}"


def test_the_rooms_that_documents_name_exist():
    room = re.compile(r"`((?:[a-z_]+/)*[a-z_]+\.py|(?:[a-z_]+/)+)`")
    roots = [ROOT, ROOT / "src" / "elmfield", ROOT / "tests", ROOT / "benchmarks"]
    for name in ("CONTRIBUTING.md", "docs/method.md", "docs/beam.md", "docs/index.md", "README.md"):
        for path in room.findall((ROOT / name).read_text("utf-8")):
            made = path.endswith("/legendre.py")  # by who follows CONTRIBUTING
            assert made or any((root / path).exists() for root in roots), f"{name}: {path}"


def test_the_layer_that_contributing_adds_is_one():
    text = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    names = {"__name__": "legendre"}
    exec(textwrap.dedent(re.search(r"   ```python\n(.*?)   ```", text, flags=re.S)[1]), names)
    values = on_grid(wave, (20, 23))
    field = ef.fit(values, ef.smooth(layer=names["Legendre"], order=1.5, cell=8))
    close(field.samples(), values, 1e-9)
    close(field([[7.3, 11.6]]), wave([[7.3, 11.6]]), 0.01)  # between samples, too
