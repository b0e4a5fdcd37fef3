"""Volumes: every plane, the letters of a patient, windows of scans."""

from dataclasses import replace

import numpy as np
import pytest

import elmfield as ef
from elmfield.io.view_source import scene_of
from elmfield.show.scene import pairs_of
from scans import AFFINES, scan, turned
from support import close

RAS = {"R": (0, 1), "L": (0, -1), "A": (1, 1), "P": (1, -1), "S": (2, 1), "I": (2, -1)}


@pytest.fixture(scope="module")
def volume():
    """A head that runs to the left, the back and the head: 12 × 14 × 10 samples, oblong ones."""
    return scan(turned((0, 0, 0), (2, 2, 3), (5, 9, -7), (-1, -1, 1)), (12, 14, 10))


@pytest.fixture(scope="module")
def head(opened, volume):
    return opened(volume, ef.smooth(cell=5), title="head.nii")


def with_header(samples, **elements):
    tags = {"modality": "00080060", "levels": "00281050", "widths": "00281051"}
    told = {tags[name]: {"vr": "DS", "Value": value} for name, value in elements.items()}
    return replace(samples, labels=replace(samples.labels, header={"dicom": told}))


@pytest.mark.parametrize("affine", AFFINES)
def test_letters_say_what_lies_at_the_sides(affine):
    scene = scene_of(scan(affine, (6, 7, 8)))
    names = [other.plane.name for other in scene.planes.values()]
    assert names == ["axial", "coronal", "sagittal"]
    for other in scene.planes.values():
        plane = other.plane
        corner = np.transpose([plane.edges(0, [(n, n + 1)] * 2) for n in (0, 5)])[0]
        for k, pair in enumerate((plane.letters[:2], plane.letters[2:])):
            way = affine[:3, plane.axes[k]] * (corner[k][0] - corner[k][1])  # to the first letter
            axis, sign = RAS[pair[0]]
            assert way[axis] * sign > 0
            assert RAS[pair[1]] == (axis, -sign)
        assert plane.letters[0] in "AS"  # front and head are up
        assert plane.letters[2] in "RA"  # seen from the feet; faces look to the left


@pytest.mark.parametrize("affine", AFFINES)
def test_a_plane_of_a_scan_has_the_letters_of_the_volume(affine):
    samples = scan(affine, (6, 7, 8))
    whole = scene_of(samples).planes
    for k in range(3):
        plane = scene_of(samples.pick(samples.dims[k], 2)).plane
        a, b = sorted(j for j in range(3) if j != k)
        same = next(s.plane for pair, s in whole.items() if set(pair) == {a, b})
        assert (plane.name, plane.letters) == (same.name, same.letters)
        assert plane.flipped == same.flipped


def test_every_plane_shows_its_own_values(head):
    field = head.field
    for plane in head.json("/facts.json")["planes"]:
        (r, c), (k,) = plane["axes"], plane["others"]
        tile = head.tile(0, 0, 0, plane=f"{r},{c}", at=4.3)
        x = np.zeros((*tile.shape[:2], 3))
        sides = [
            (a + (np.arange(n) + 0.5) / s) if not f else (b - (np.arange(n) + 0.5) / s)
            for a, b, s, f, n in zip(
                plane["low"], plane["high"], plane["squares"], plane["flipped"], x.shape
            )
        ]
        x[..., r], x[..., c] = np.meshgrid(*sides, indexing="ij")
        x[..., k] = 4.3
        at = np.stack([a.from_index(x[..., i]) for i, a in enumerate(field.domain.axes)], -1)
        close(tile[..., 0], field(at, outside="nearest"), 1e-5)
    sizes = [tuple(p["squares"]) for p in head.json("/facts.json")["planes"]]
    assert sizes == [(1.0, 1.0), (1.5, 1.0), (1.5, 1.0)]


def test_other_answers_know_the_plane_too(head):
    line = head.json("/profile?plane=2,1&at=3&line=1,2,7,9")
    t = np.asarray(line["t"])
    index = np.stack([np.full_like(t, 3), 2 + 7 * t, 1 + 6 * t], -1)
    at = np.stack([a.from_index(index[:, k]) for k, a in enumerate(head.field.domain.axes)], -1)
    close(line["values"][0], head.field(at), 1e-5)
    everywhere = head.json("/quantiles?plane=2,1&at=3")
    assert everywhere == head.json("/quantiles?at=5")
    answer = head.get("/download?plane=2,1&at=3&window=0,8,2,9&format=.png&scale=2")
    height, width = (int.from_bytes(answer.body[k : k + 4], "big") for k in (20, 16))
    assert (height, width) == (24, 14)  # rows are one and a half times as large
    lines = head.tile(-2, 0, 0, plane="2,1", at=3, quantity="regions")
    assert lines.any()


@pytest.mark.parametrize("plane", ["1,2", "0,0", "7,1", "0.5,1"])
def test_planes_that_are_not_there_are_refused(head, plane):
    told = head.json(f"/tile/0/0/0?plane={plane}&at=3", code=400)
    assert "`plane` must be one of [(1, 0), (2, 0), (2, 1)]; got" in told["error"]


def test_no_plane_of_a_series_or_by_words(head, opened):
    assert "2 numbers" in head.json("/tile/0/0/0?plane=axial&at=3", code=400)["error"]
    client = opened(np.sin(np.arange(30.0)))
    told = client.json("/series?plane=0,1&between=0,9", code=400)
    assert "`plane` must be one of []; got" in told["error"]


def test_planes_without_a_patient_have_the_last_axes_first():
    assert pairs_of((5, 20, 30)) == [(1, 2), (0, 2), (0, 1)]
    assert pairs_of((5, 1, 30)) == [(0, 2)]
    assert pairs_of((1, 30)) == []
    assert pairs_of((4, 5, 6, 7), "LPS")[:3] == [(1, 0), (2, 0), (2, 1)]
    assert pairs_of((4, 5, 6, 7), "SRA")[:3] == [(2, 1), (0, 1), (0, 2)]


def test_a_plane_keeps_what_is_missing(opened, volume):
    values = np.array(volume.values)
    values[3:6, 4:8, 2:5] = np.nan
    client = opened(replace(volume, values=values))
    gone = np.isnan(client.tile(0, 0, 0, plane="2,1", at=4)[..., 0])
    flipped = client.scene.planes[2, 1].plane.flipped
    assert flipped == (True, False)
    rows = 10 - 1 - np.flatnonzero(gone.any(axis=1)) / 1.5
    assert 1.2 < rows.min() < rows.max() < 4.8
    assert np.flatnonzero(gone.any(axis=0)).tolist() == [4, 5, 6, 7]


def test_scans_are_grey_and_know_their_windows(volume):
    facts = scene_of(volume).facts()
    assert facts["grey"]
    assert facts["scan"]
    assert facts["top"] is None
    assert facts["windows"] == []
    ct = with_header(volume, modality=["CT"], levels=[40.0, -600.0], widths=[400.0, 1500.0])
    facts = scene_of(ct).facts()
    assert facts["modality"] == "CT"
    assert facts["windows"] == [[-160.0, 240.0], [-1350.0, 150.0]]
    damaged = with_header(volume, modality=[], levels=[None, "x"], widths=[3.0, 4.0])
    assert scene_of(damaged).facts()["windows"] == []
    assert not scene_of(np.zeros((4, 5, 6))).facts()["grey"]


def test_an_affine_without_volume_gives_plain_planes(volume):
    flat = replace(volume, labels=replace(volume.labels, affine=np.diag([1.0, 1, 0, 1]).tolist()))
    assert [s.plane.name for s in scene_of(flat).planes.values()] == ["j × k", "i × k", "i × j"]


@pytest.mark.thorough
def test_a_written_page_has_the_first_plane_alone(volume, tmp_path):
    from elmfield.io.view_source import export_view

    export_view(scene_of(volume), tmp_path, size=1 << 20)
    facts = (tmp_path / "facts.js").read_text()
    assert facts.count('"letters"') == 2  # of the only plane, and of the list of one
    assert '"name": "axial"' in facts
    assert ef.fit(volume).world.orientation == "LPS"
