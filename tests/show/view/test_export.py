"""The page without a server: all its files, the same numbers."""

import base64
import gzip
import json
import re

import numpy as np
import pytest

from elmfield.io.view_source import export_view, scene_of
from elmfield.show.layers import Look
from elmfield.show.pages import PAGE, _layers, page_file
from elmfield.show.view_tiles import Tiles
from oracles.tile_bytes import unpacked


@pytest.fixture(scope="module")
def page(waves, tmp_path_factory):
    folder = tmp_path_factory.mktemp("page")
    n = export_view(scene_of(waves[:280, :300]), folder, size=3 << 20)
    return folder, n


def facts(folder):
    """What the page is told, without a browser."""
    return json.loads((folder / "facts.js").read_text().removeprefix("window.exportedFacts = "))


def tile(path):
    text = path.read_text().removeprefix('document.currentScript.data = "').removesuffix('"')
    return unpacked(gzip.decompress(base64.b64decode(text, validate=True)))


@pytest.mark.slow
def test_all_files_are_there(page):
    folder, n = page
    assert {p.name for p in folder.iterdir()} == {*PAGE, "facts.js", "tiles"}
    assert n == len(list((folder / "tiles").rglob("*.js")))


@pytest.mark.thorough
def test_a_page_opened_as_a_file_may_load_its_parts(page):
    # Browsers refuse modules and fetch() there.
    text = (page[0] / "index.html").read_text()
    parts = re.findall(r'<script src="([^"]+)" defer></script>', text)
    assert len(parts) == text.count("<script")
    assert [parts.index(n) for n in ("facts.js", "view.js")] == [len(parts) - 2, len(parts) - 1]
    assert all((page[0] / name).is_file() for name in parts)


def test_scripts_share_no_names():
    # They are no modules: all of them have one scope, in which the last of a name would win.
    found = []
    for name in PAGE:
        if name.endswith(".js") and not name.endswith(".min.js"):
            source = page_file(name).decode()
            found += re.findall(r"^(?:async )?(?:function|class|const|let) (\w+)", source, re.M)
    assert len(found) > 50
    assert len(found) == len(set(found))


@pytest.mark.thorough
def test_tiles_have_the_field_s_numbers(page, waves):
    folder, _ = page
    tiles = Tiles(scene_of(waves[:280, :300]))
    layers = facts(folder)["exported"]["layers"]
    assert layers["value-field"]["finest"] < 0
    for name, told in layers.items():
        if name.startswith("regions"):
            continue
        quantity, method = name.split("-")
        for level in (1, told["finest"]):
            found = tile(folder / f"tiles/{name}/{level}/0_0.js")
            truth = tiles.whole(Look(quantity=quantity, method=method), level, 0, 0)
            span = truth.max() - truth.min() or 1e-6
            assert np.abs(found - truth).max() <= span / 65534 + 1e-6 * np.abs(truth).max()


def test_the_size_is_kept(waves):
    scene = scene_of(waves)
    first = Look(at=tuple(scene.cross[k] for k in scene.others))
    for size in (1 << 20, 8 << 20, 64 << 20):
        layers = _layers(scene, first, size).values()
        total = sum(
            np.prod(scene.plane.pixels(z)) * (1 if look.quantity == "regions" else 2)
            for look, finest in layers
            for z in range(finest, scene.plane.coarsest + 1)
        )
        assert total <= size or all(finest == scene.plane.coarsest for _, finest in layers)


def test_a_series_goes_whole(tmp_path):
    values = np.sin(0.1 * np.arange(500.0))
    export_view(scene_of(values), tmp_path)
    told = facts(tmp_path)["exported"]["series"]
    assert len(told["at"]) == 8000
    assert np.abs(np.asarray(told["values"][0])).max() == pytest.approx(1, abs=1e-3)
