"""Volumes with a place in the scanner."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import elmfield as ef
from elmfield import read, write
from elmfield.io.gridded import Gridded
from elmfield.io.rendered import rendered

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
