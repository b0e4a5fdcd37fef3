"""compare and beam: errors, and regions of equal energy."""

import json

import numpy as np

import elmfield as ef
from elmfield import read


def test_beam(run, folder):
    words = ("--cell", 16, "--regions", 40)
    told = json.loads(run("beam", "photo.png", *words, "-o", "r.png", "--json").stdout)
    assert told["regions"] == 40
    assert len(told["energies"]) == 40
    assert sum(told["cells_per_region"]) == 11 * 10
    drawn = read(folder / "r.png").values
    assert drawn.shape == (176, 160, 3)
    assert (drawn == (255, 80, 60)).all(-1).any()


def test_compare(folder, told):
    scores = told("compare", folder / "photo.png", folder / "photo.elm", "--heldout")
    field, values = ef.load(folder / "photo.elm"), read(folder / "photo.png").values
    assert scores["psnr_db"] is None  # infinite: nothing is lost
    assert scores["max_error"] == ef.max_error(values, field.samples()) == 0
    assert scores["heldout_psnr_db"] == ef.heldout_score(values, field.settings, channel_axis=2)
    assert scores["paper_psnr_db"] <= 80
    assert scores["missing"] == 0


def test_gaps_are_not_compared(tmp_path, told):
    values = np.random.default_rng(0).random((30, 40))
    values[3, 4] = np.nan
    np.save(tmp_path / "v.npy", values)
    told("fit", tmp_path / "v.npy", "-o", tmp_path / "m.elm")
    scores = told("compare", tmp_path / "v.npy", tmp_path / "m.elm")
    assert scores["missing"] == 1
    assert scores["psnr_db"] is None
    assert "paper_psnr_db" not in scores
