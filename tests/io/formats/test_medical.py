"""Volumes with a place in the scanner."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import elmfield as ef
from elmfield import read, write
from elmfield.io.gridded import Gridded
from elmfield.io.rendered import rendered
from scans import AFFINES, places, scan, truth

RNG = np.random.default_rng(0)


def test_volumes_keep_their_affine_at_another_resolution(tmp_path):
    pytest.importorskip("nibabel")
    affine = [[-2.0, 0.1, 0, 90], [0, 2.5, 0.2, -120], [0.1, 0, 3, -70], [0, 0, 0, 1]]
    about = {"affine": affine, "align": "areas"}
    zooms = np.linalg.norm(np.asarray(affine)[:3, :3], axis=0)
    at = {name: np.arange(n) * z for name, n, z in zip("ijk", (16, 18, 14), zooms)}
    values = RNG.random((16, 18, 14))
    samples = Gridded(values=values, dims=("i", "j", "k"), coords=at, attributes=about)
    field = ef.fit(samples)
    write(rendered(field, scale=2), tmp_path / "x.nii.gz")
    new = np.asarray(read(tmp_path / "x.nii.gz").attributes["affine"])
    assert_allclose(new[:, :3], np.asarray(affine)[:, :3] / 2, atol=1e-6)
    # The outer corner of the first voxel is where it was.
    assert_allclose(
        new @ [-0.5, -0.5, -0.5, 1], affine @ np.asarray([-0.5, -0.5, -0.5, 1]), atol=1e-5
    )


@pytest.mark.parametrize("way", ["sform", "qform only"])
@pytest.mark.parametrize("kind", range(9))
def test_nine_affines_through_files(tmp_path, kind, way):
    """Read, reslice, write: nibabel finds the affine and the axes' directions, and the values."""
    nibabel = pytest.importorskip("nibabel")
    affine = AFFINES[kind]
    values = truth(places(affine, (20, 18, 16))).astype(np.float32)
    image = nibabel.Nifti1Image(values, affine)
    if way == "qform only":
        image.set_qform(affine, code=1)
        image.set_sform(None, code=0)
    nibabel.save(image, tmp_path / "x.nii.gz")
    field = ef.fit(tmp_path / "x.nii.gz")
    assert_allclose(field.world.affine, affine, atol=1e-4)
    assert field.world.orientation == "".join(nibabel.aff2axcodes(affine))
    ef.write(field, tmp_path / "same.nii.gz")
    ef.write(field, tmp_path / "even.nii.gz", spacing=1.5)
    same, even = (nibabel.load(tmp_path / f"{name}.nii.gz") for name in ("same", "even"))
    assert_allclose(same.affine, affine, atol=1e-4)
    assert int(same.header["sform_code"]) == (0 if way == "qform only" else 2)
    assert_allclose(np.asarray(same.dataobj), values, atol=1e-5)
    assert_allclose(even.header.get_zooms(), 1.5, rtol=1e-5)
    assert nibabel.aff2axcodes(even.affine) == nibabel.aff2axcodes(affine)
    inner = (slice(4, -4),) * 3
    wanted = truth(places(even.affine, even.shape))[inner]
    assert_allclose(np.asarray(even.dataobj)[inner], wanted, atol=5e-3)  # of the default


def test_like_another_scan(tmp_path):
    nibabel = pytest.importorskip("nibabel")
    here, there = AFFINES[1], AFFINES[-1].copy()
    there[:3, 3] = here[:3, :3] @ [9, 8, 7] + here[:3, 3] - there[:3, :3] @ [3, 3, 3]
    for name, affine, shape in (("a", here, (20, 18, 16)), ("b", there, (7, 8, 6))):
        nibabel.save(
            nibabel.Nifti1Image(truth(places(affine, shape)).astype(np.float32), affine),
            tmp_path / f"{name}.nii",
        )
    field = ef.fit(tmp_path / "a.nii", ef.smooth(order=6))
    ef.write(field, tmp_path / "c.nii", like=tmp_path / "b.nii", antialias=False)
    image = nibabel.load(tmp_path / "c.nii")
    assert_allclose(image.affine, there, atol=1e-5)
    found, wanted = np.asarray(image.dataobj), truth(places(there, (7, 8, 6)))
    assert np.isfinite(found).mean() > 0.8
    assert_allclose(found, np.where(np.isnan(found), np.nan, wanted), atol=2e-3)


def test_volumes_in_time(tmp_path):
    nibabel = pytest.importorskip("nibabel")
    values = RNG.random((9, 8, 7, 12)).astype(np.float32)
    image = nibabel.Nifti1Image(values, np.diag([2.0, 2, 3, 1]))
    image.header.set_xyzt_units("mm", "sec")
    image.header.set_zooms((2, 2, 3, 1.5))
    image.header["toffset"] = 4.0
    nibabel.save(image, tmp_path / "x.nii.gz")
    samples = read(tmp_path / "x.nii.gz")
    assert samples.dims == ("i", "j", "k", "t")
    assert_allclose(samples.coords["t"], 4 + 1.5 * np.arange(12))
    ef.write(ef.fit(samples), tmp_path / "y.nii.gz", spacing=2.0)
    back = nibabel.load(tmp_path / "y.nii.gz")
    assert back.shape[3] == 12
    assert_allclose(back.header.get_zooms(), (2, 2, 2, 1.5), rtol=1e-6)
    assert float(back.header["toffset"]) == 4
    assert back.header.get_xyzt_units() == ("mm", "sec")


def test_scans_and_other_questions_do_not_mix(tmp_path):
    field = ef.fit(scan(AFFINES[0]))
    with pytest.raises(ValueError, match="say `spacing` or `scale`, not both"):
        ef.write(field, tmp_path / "x.nii", spacing=1, scale=2)
    with pytest.raises(ValueError, match="`spacing` is for values; got quantity='gradient'"):
        ef.write(field, tmp_path / "x.nii", spacing=1, quantity="gradient")
    with pytest.raises(ValueError, match="an `affine` needs the `shape` of the new grid"):
        ef.write(field, tmp_path / "x.nii", affine=np.eye(4))
    with pytest.raises(ValueError, match="does not know where its samples lie in the room"):
        ef.write(ef.fit(RNG.random((6, 6, 6))), tmp_path / "x.nii", spacing=1)
