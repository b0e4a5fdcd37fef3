"""The Python of the documents runs, page by page, from an empty folder."""

import ast
import importlib.util
import re
import textwrap

import pytest

import elmfield as ef
from support import ROOT, close, on_grid, wave

PAGES = [
    p.stem for p in sorted((ROOT / "docs").glob("*.md")) if "```python" in p.read_text("utf-8")
]


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


def test_every_block_of_the_site_runs_somewhere():
    # Pages run above; tutorials and the gallery are scripts, which the site runs when it is made.
    for page in (ROOT / "docs").rglob("*.md"):
        if "```python" in page.read_text("utf-8") and "made" not in page.parts:
            assert page.parent == ROOT / "docs", f"{page} is not run by a test"


SCRIPTS = sorted((ROOT / "docs").glob("tutorials/*.py")) + sorted(
    (ROOT / "docs").glob("gallery/*.py")
)


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda p: p.stem)
def test_scripts_of_the_site_use_names_that_exist(path):
    # They run when the site is made; here, what they take from the library is there.
    names = {"ef": ef}
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("elmfield"):
            exec(compile(ast.Module([node], []), path.name, "exec"), names)
        elif isinstance(node, ast.Attribute) and getattr(node.value, "id", "") == "ef":
            assert node.attr in ef.__all__, f"{path.name}: ef.{node.attr}"


def test_a_model_of_your_own_fits_tensors(rng):
    torch = pytest.importorskip("torch")
    path = ROOT / "docs" / "tutorials" / "10_own_model.py"
    wanted = ("Constant", "Means", "dataclass", "np", "ef")
    own = [
        node
        for node in ast.parse(path.read_text("utf-8")).body
        if getattr(node, "name", "") in wanted
        or any((a.asname or a.name) in wanted for a in getattr(node, "names", ()))
    ]
    names = {"__name__": "own_model"}
    exec(compile(ast.Module(own, []), path.name, "exec"), names)
    values, x = rng.random((20, 17)), rng.random((4, 2)) * 15
    plain = ef.fit(values, names["Means"]())
    field = ef.fit(torch.as_tensor(values), names["Means"]())
    for ask in (lambda f: f(x), lambda f: f.gradient(x), lambda f: f.samples()):
        close(ask(field), ask(plain), 1e-12)
    close(plain.to("cpu")(x), plain(x), 1e-12)


def test_every_page_has_its_place_in_the_contents():
    contents = "\n".join(
        re.findall(r"```\{toctree\}(.*?)```", (ROOT / "docs" / "index.md").read_text("utf-8"), re.S)
    )
    for page in (ROOT / "docs").glob("*.md"):
        assert page.stem == "index" or re.search(rf"^{page.stem}$", contents, re.M), (
            f"docs/index.md has no line for {page.name} in its contents"
        )


def test_the_reference_has_every_public_name():
    pages = [p.read_text("utf-8") for p in (ROOT / "docs" / "reference").glob("*.rst")]
    told = set(re.findall(r"^\.\. (?:auto)?(?:function|class):: (\w+)", "\n".join(pages), re.M))
    assert set(ef.__all__) <= told


def test_every_error_of_ours_has_a_paragraph():
    import elmfield.errors

    text = (ROOT / "docs" / "errors.md").read_text("utf-8")
    for name, thing in vars(elmfield.errors).items():
        if isinstance(thing, type) and thing.__module__ == "elmfield.errors":
            assert f"`{name}`" in text or f"## {name}" in text, name


def test_links_lead_somewhere():
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]
    for page in pages:
        if "made" in page.parts:
            continue
        for link in re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text("utf-8")):
            if "://" in link:
                continue
            if link == "made/commands.md":  # by docs/conf.py
                continue
            if link.startswith("made/"):  # by the site, of a script
                link = link.removeprefix("made/").replace(".rst", ".py")
                link = link.replace("index.py", "GALLERY_HEADER.rst")
            assert (page.parent / link).exists(), f"{page.name}: {link}"


def test_notes_are_gathered_under_their_version():
    spec = importlib.util.spec_from_file_location("gather", ROOT / "changes" / "gather.py")
    gather = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(gather)
    older = "# Changes\n\n## 0.0.9 (2020-01-01)\n\n### A note\n\nText.\n"
    title = f"## {ef.__version__} (unreleased)"
    once = gather.gathered(older, ["# News\n\nOf today.\n"])
    assert once.index(title) < once.index("### News") < once.index("## 0.0.9 (2020-01-01)")
    assert once.endswith("### A note\n\nText.\n")
    assert gather.gathered(once, []) == once
    twice = gather.gathered(once, ["# More\n"], "2026-01-01")
    assert f"## {ef.__version__} (2026-01-01)\n\n### News\n\nOf today.\n\n### More\n" in twice
    log = (ROOT / "CHANGELOG.md").read_text("utf-8")
    assert title in log
    assert gather.gathered(log, []) == log


def test_the_modules_that_documents_name_exist():
    module = re.compile(r"`((?:[a-z_]+/)*[a-z_]+\.py|(?:[a-z_]+/)+)`")
    roots = [ROOT, ROOT / "src" / "elmfield", ROOT / "tests", ROOT / "benchmarks"]
    pages = ("method", "beam", "index", "oriented", "scale", "speed", "view", "results", "defaults")
    for name in ("CONTRIBUTING.md", "README.md", *(f"docs/{page}.md" for page in pages)):
        for path in module.findall((ROOT / name).read_text("utf-8")):
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


def test_contributing_lists_every_module():
    spec = importlib.util.spec_from_file_location("listing", ROOT / "docs" / "listing.py")
    listing = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(listing)
    block = listing.PLACE.search((ROOT / "CONTRIBUTING.md").read_text("utf-8"))[0]
    listed = [line.split()[0] for line in block.splitlines()[3:-2]]
    assert listed == [line.split()[0] for line in listing.lines()], (
        "modules were added or moved: run `python docs/listing.py --write`"
    )
