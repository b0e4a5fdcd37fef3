"""The page without a server: all its files, the same numbers."""

import gzip
import json

import numpy as np
import pytest

from elmfield.io.viewed import export_view, scene_of
from elmfield.show.view.app import PAGE
from elmfield.show.view.exported import _layers
from elmfield.show.view.looks import Look
from elmfield.show.view.packed import unpacked
from elmfield.show.view.tiles import Tiles


@pytest.fixture(scope="module")
def page(waves, tmp_path_factory):
    folder = tmp_path_factory.mktemp("page")
    n = export_view(waves[:280, :300], folder, size=3 << 20)
    return folder, n


def test_all_files_are_there(page):
    folder, n = page
    assert {p.name for p in folder.iterdir()} == {*PAGE, "facts.json", "tiles"}
    assert n == len(list(folder.rglob("*.gz")))


def test_tiles_have_the_field_s_numbers(page, waves):
    folder, _ = page
    tiles = Tiles(scene_of(waves[:280, :300]))
    layers = json.loads((folder / "facts.json").read_text())["exported"]["layers"]
    assert layers["value-field"]["finest"] < 0
    for name, told in layers.items():
        if name.startswith("regions"):
            continue
        quantity, method = name.split("-")
        for level in (1, told["finest"]):
            data = gzip.decompress((folder / f"tiles/{name}/{level}/0_0.gz").read_bytes())
            truth = tiles.whole(Look(quantity=quantity, method=method), level, 0, 0)
            span = truth.max() - truth.min() or 1e-6
            assert np.abs(unpacked(data) - truth).max() <= span / 65534 + 1e-6 * np.abs(truth).max()


def test_the_size_is_kept(waves):
    scene = scene_of(waves)
    first = Look(at=scene.start)
    for size in (1 << 20, 8 << 20, 64 << 20):
        layers = _layers(scene, first, size)
        total = sum(
            np.prod(scene.plane.pixels(z)) * (1 if l.look.quantity == "regions" else 2)
            for l in layers
            for z in range(l.finest, scene.plane.coarsest + 1)
        )
        assert total <= size or all(l.finest == scene.plane.coarsest for l in layers)


def test_a_series_goes_whole(tmp_path):
    values = np.sin(0.1 * np.arange(500.0))
    export_view(values, tmp_path)
    told = json.loads((tmp_path / "facts.json").read_text())["exported"]["series"]
    assert len(told["at"]) == 8000
    assert np.abs(np.asarray(told["values"][0])).max() == pytest.approx(1, abs=1e-3)
