"""Scans in world coordinates."""

import itertools

import numpy as np
import pytest
from numpy.testing import assert_allclose

import elmfield as ef
from elmfield.field.adapters.affine import codes_of, spacing_of
from elmfield.io.gridded import Gridded
from scans import AFFINES, places, scan, truth, turned


@pytest.mark.parametrize("affine", AFFINES)
def test_a_known_function_is_itself_in_the_room(affine):
    field = ef.fit(scan(affine), ef.smooth(order=6))
    rng = np.random.default_rng(0)
    points = places(affine, (26, 24, 22))[4:-4, 4:-4, 4:-4].reshape(-1, 3)
    points = points[rng.choice(len(points), 300)] + rng.uniform(-0.9, 0.9, (300, 3))
    assert_allclose(field.world(points), truth(points), atol=2e-4)
    step = 1e-3
    slopes = [(truth(points + step * e) - truth(points - step * e)) / (2 * step) for e in np.eye(3)]
    assert_allclose(field.world.gradient(points), np.stack(slopes, axis=-1), atol=2e-3)


@pytest.mark.parametrize("affine", [AFFINES[1], AFFINES[-2], AFFINES[-1]])
def test_reslicing_agrees_with_the_function_and_with_simpleitk(affine):
    field = ef.fit(scan(affine), ef.smooth(order=6))
    target = turned((-10, 25, 5), (2.1, 1.9, 2.0), affine[:3, 3])
    middle = affine[:3, :3] @ [12.5, 11.5, 10.5] + affine[:3, 3]
    target[:3, 3] = middle - target[:3, :3] @ [4.5, 5, 4]
    found = field.world.reslice(target, (10, 11, 9), antialias=False)  # values, not means
    wanted = truth(places(target, (10, 11, 9)))
    assert not np.isnan(found).any()
    ours = np.abs(found - wanted).max()
    assert ours < 2e-4

    sitk = pytest.importorskip("SimpleITK")
    flip = np.diag([-1.0, -1.0, 1.0])  # ITK's room is DICOM's

    def image(A, values):
        out = sitk.GetImageFromArray(np.ascontiguousarray(values.transpose(2, 1, 0)))
        zooms = np.linalg.norm(A[:3, :3], axis=0)
        out.SetSpacing(zooms.tolist())
        out.SetDirection((flip @ A[:3, :3] / zooms).ravel().tolist())
        out.SetOrigin((flip @ A[:3, 3]).tolist())
        return out

    there = image(target, np.zeros((10, 11, 9)))
    moved = sitk.Resample(
        image(affine, truth(places(affine, (26, 24, 22)))), there, sitk.Transform(),
        sitk.sitkBSpline, np.nan, sitk.sitkFloat64,
    )  # fmt: skip
    theirs = sitk.GetArrayFromImage(moved).transpose(2, 1, 0)
    own = np.abs(theirs - wanted).max()  # its own interpolation error
    assert np.abs(theirs - found).max() < own + ours
    assert ours < own


@pytest.mark.parametrize("flip", [False, True])
def test_an_oblique_scan_is_averaged_exactly_on_its_own_axes(flip, rng):
    """Affines come in float32, which leaves 1e-8 off the diagonal between two of them."""
    affine = turned((20, -15, 35), (1.8, 2.2, 2.4), (-112, 130, 84)).astype(np.float32)
    field = ef.fit(scan(affine.astype(float), values=rng.standard_normal((26, 24, 22))))
    wanted = field.resize((13, 8, 11))
    change = np.diag([2.0, 3.0, 2.0, 1.0])
    change[:3, 3] = 0.5, 1, 0.5
    if flip:  # and to other axes of the same grid
        change, wanted = change @ np.diag([-1.0, 1, 1, 1]), wanted[::-1].transpose(2, 0, 1)
        change[0, 3] = 24.5
        change[:, :3] = change[:, [2, 0, 1]]
    target = (affine.astype(float) @ change).astype(np.float32)
    found = field.world.reslice(target, wanted.shape)
    # A sample may be 1e-5 samples off, where means of noise change by 1 a sample at most.
    assert_allclose(found, wanted, atol=2e-5)


def test_planes_and_what_lies_outside():
    affine = AFFINES[-2]
    field = ef.fit(scan(affine), ef.smooth(order=6))
    plane = field.world.reslice(affine, (26, 24, 1))
    assert_allclose(plane[..., 0], field.samples()[..., 0], atol=1e-9)
    away = affine.copy()
    away[:3, 3] += 500
    assert np.isnan(field.world.reslice(away, (3, 3, 3))).all()


def test_even_voxels_fill_the_same_room():
    affine = turned((20, -15, 35), (1.0, 2.0, 4.0), (3, 4, 5))
    field = ef.fit(scan(affine, (24, 20, 12)))
    new, shape = field.world.isotropic(2.0)
    assert shape == (12, 20, 24)
    assert_allclose(spacing_of(new), (2, 2, 2))
    assert codes_of(new) == codes_of(affine)
    for corner in itertools.product((0, 1), repeat=3):  # outer corners of the voxels
        old_at = np.asarray(corner) * [24, 20, 12] - 0.5
        new_at = np.asarray(corner) * shape - 0.5
        assert_allclose(new @ [*new_at, 1], affine @ [*old_at, 1], atol=1e-9)


def test_time_stays_time():
    affine = AFFINES[1]
    index = places(affine, (12, 12, 12))
    values = truth(index)[..., None] * (1 + 0.5 * np.sin(0.4 * np.arange(10)))
    base = scan(affine, (12, 12, 12), truth(index))
    at = {**base.coords, "t": np.arange(10) * 2.5}
    samples = Gridded(values=values, dims=("i", "j", "k", "t"), coords=at, labels=base.labels)
    field = ef.fit(samples)
    point = affine[:3, :3] @ [5, 6, 7] + affine[:3, 3]
    assert_allclose(field.world([*point, 10.0]), values[5, 6, 7, 4], atol=1e-6)
    assert field.world.reslice(affine, (4, 5, 6)).shape == (4, 5, 6, 10)


def test_parts_and_slices_know_their_place(rng):
    affine = AFFINES[-2]
    part = scan(affine).pick("i", slice(4, 20, 2)).pick("k", slice(3, None))
    field = ef.fit(part)
    at = affine @ [4 + 2 * 3, 5, 3 + 6, 1]
    assert_allclose(field.world.affine @ [3, 5, 6, 1], at, atol=1e-9)
    assert_allclose(field.world(at[:3]), part.values[3, 5, 6], atol=1e-9)
    one = ef.fit(scan(affine).pick("j", 7))
    with pytest.raises(ValueError, match="world coordinates need three axes in space; got i, k"):
        one.world(at[:3])


def test_codes_are_those_of_nibabel(rng):
    nibabel = pytest.importorskip("nibabel")
    for affine in AFFINES:
        assert codes_of(affine) == "".join(nibabel.aff2axcodes(affine))
    for _ in range(50):
        A = turned(rng.uniform(-180, 180, 3), rng.uniform(0.5, 3, 3), (0, 0, 0))
        assert codes_of(A) == "".join(nibabel.aff2axcodes(A))
        assert codes_of(np.diag([-1.0, -1, 1, 1]) @ A, "LPS") == codes_of(A)


def test_bad_affines_say_what_is_wrong():
    field = ef.fit(scan(AFFINES[0]))
    flat = np.diag([1.0, 1.0, 0.0, 1.0])
    with pytest.raises(ValueError, match="`affine` must be invertible, so that voxels"):
        field.world.reslice(flat, (3, 3, 3))
    with pytest.raises(ValueError, match=r"`affine` must be a matrix of shape \(4, 4\)"):
        field.world.reslice(np.eye(3), (3, 3, 3))
    with pytest.raises(ValueError, match="`shape` must be 3 whole numbers"):
        field.world.reslice(np.eye(4), (3, 3))
    with pytest.raises(ValueError, match=r"x, y, z in millimetres; got \(2,\)"):
        field.world([1.0, 2.0])
    with pytest.raises(ValueError, match="does not know where its samples lie in world space"):
        _ = ef.fit(np.random.default_rng(0).random((8, 8, 8))).world.affine
    with pytest.raises(ValueError, match="the file's affine` must be invertible"):
        _ = ef.fit(
            Gridded(
                values=np.zeros((8, 8, 8)) + np.arange(8.0),
                dims=("i", "j", "k"),
                labels=ef.Labels(affine=flat.tolist()),
            )
        ).world.affine
    with pytest.raises(ValueError, match="`spacing` must be millimetres above 0"):
        field.world.isotropic(0)
