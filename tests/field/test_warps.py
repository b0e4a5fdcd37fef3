"""Fields through maps: turned, projected, bent, and averaged where the map shrinks."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import elmfield as ef
from elmfield.errors import OutsideDomainError


def turn(degrees, shape, zoom=1.0):
    """The matrix that turns an array about its middle."""
    t = np.deg2rad(degrees)
    R = zoom * np.array([[np.cos(t), -np.sin(t)], [np.sin(t), np.cos(t)]])
    c = (np.asarray(shape) - 1) / 2
    return np.column_stack([R, c - R @ c])


@pytest.fixture(scope="module")
def waves():
    y, x = np.mgrid[0:60, 0:70]
    return np.sin(0.21 * y + 0.1 * x) * np.cos(0.13 * x - 0.05 * y)


@pytest.fixture(scope="module")
def field(waves):
    return ef.fit(waves, ef.smooth(order=6))


def test_a_matrix_says_where_each_sample_lies(field):
    M = turn(23, field.shape)
    i, j = np.mgrid[0:60, 0:70]
    at = np.stack([i, j], axis=-1) @ M[:, :2].T + M[:, 2]
    assert_allclose(field.warp(M), field(at, outside="nan"), atol=1e-9)
    square = np.vstack([M, [0, 0, 1]])
    assert_allclose(field.warp(square, (20, 30)), field(at, outside="nan")[:20, :30], atol=1e-9)
    assert_allclose(field.warp(lambda x: x @ M[:, :2].T + M[:, 2]), field.warp(M), atol=1e-12)


def test_displacements_and_functions_and_channels(waves):
    field = ef.fit(np.stack([waves, 2 * waves]), channel_axis=0)
    by = np.zeros((50, 64, 2))
    by[..., 0], by[..., 1] = 3.25, 1.5
    i, j = np.mgrid[0:50, 0:64]
    wanted = field(np.stack([i + 3.25, j + 1.5], axis=-1))
    found = field.warp(by)
    assert found.shape == (2, 50, 64)
    assert_allclose(found, np.moveaxis(wanted, -1, 0), atol=1e-9)


@pytest.mark.parametrize("kind", ["EuclideanTransform", "AffineTransform", "ProjectiveTransform"])
def test_objects_of_skimage_are_taken_as_its_warp_takes_them(waves, field, kind):
    transform = pytest.importorskip("skimage.transform")
    how = {
        "EuclideanTransform": {"rotation": 0.3, "translation": (12, -6)},
        "AffineTransform": {"scale": (0.9, 0.8), "shear": 0.1, "translation": (4, 5)},
        "ProjectiveTransform": {
            "matrix": np.array([[0.9, 0.1, 3], [0.05, 0.8, 2], [1e-3, 5e-4, 1]])
        },
    }[kind]
    T = getattr(transform, kind)(**how)
    ours, theirs = field.warp(T), transform.warp(waves, T, order=5)
    i, j = np.mgrid[0:60, 0:70]
    x, y = T(np.column_stack([j.ravel(), i.ravel()])).T.reshape(2, 60, 70)
    inner = (y > 8) & (y < 51) & (x > 8) & (x < 61)  # near the border splines go their own way
    assert inner.mean() > 0.3
    assert np.abs(ours - theirs)[inner].max() < 5e-3


def test_straight_lines_stay_exact_where_a_map_shrinks():
    y, x = np.mgrid[0:80, 0:90]
    field = ef.fit(2.0 * y + x)
    M = np.array([[3.1, 0.4, 6], [-0.3, 2.7, 9]])
    i, j = np.mgrid[0:20, 0:25]
    wanted = 2 * (3.1 * i + 0.4 * j + 6) + (-0.3 * i + 2.7 * j + 9)
    found = field.warp(M, (20, 25))
    assert_allclose(found[:20, :20][~np.isnan(found[:20, :20])].size, 400)
    assert_allclose(found, np.where(np.isnan(found), np.nan, wanted), atol=1e-8)


def test_what_is_too_fine_for_the_result_is_averaged_out():
    y, x = np.mgrid[0:128, 0:128]
    field = ef.fit(np.cos(np.pi * 0.8 * x) + 0 * y)
    M = turn(30, (32, 32), zoom=4.0)
    M[:, 2] += 63.5 - 15.5
    fine = field.warp(M, (32, 32))
    rough = field.warp(M, (32, 32), antialias=False)
    assert np.nanstd(rough) > 0.5
    assert np.nanstd(fine) < 0.12
    stretched = np.array([[4.0, 0, 1.5], [0, 4.0, 1.5]])
    assert_allclose(field.warp(stretched, (32, 32)), field.resize((32, 32)), atol=1e-12)


def test_a_horizon_lies_outside(field):
    P = np.array([[1.0, 0, 0], [0, 1, 0], [0, -0.02, 1]])  # columns beyond 50 lie nowhere
    found = field.warp(P, (20, 70))
    assert np.isnan(found[:, 50:]).all()
    assert not np.isnan(found[:, :10]).any()


def test_outside(field):
    M = np.array([[1.0, 0, -5], [0, 1, 0]])
    assert np.isnan(field.warp(M)[:4]).all()
    assert (field.warp(M, fill=7.0)[:4] == 7).all()
    assert_allclose(field.warp(M, outside="nearest")[0], field([[-0.5, j] for j in range(70)]))
    with pytest.raises(OutsideDomainError):
        field.warp(M, outside="raise")
    with pytest.raises(ValueError, match=r"\d+ samples lie outside .*fill=0"):
        field.warp(M, dtype="uint8")
    assert field.warp(M, dtype=np.uint8, fill=0).dtype == np.uint8


@pytest.mark.parametrize(
    ("transform", "message"),
    [
        ([[1, 1, 0], [1, 1, 0]], "`transform` must be invertible; got a singular matrix"),
        (np.zeros((3, 3)), "must be invertible"),
        (np.eye(4), r"a matrix of shape \(2, 3\) or \(3, 3\)"),
        ([[1, 0, np.nan], [0, 1, 0]], "finite numbers"),
        (lambda x: x[:, :1], "must give a place, 2 numbers, for each of"),
    ],
)
def test_transforms_that_are_none(field, transform, message):
    with pytest.raises(ValueError, match=message):
        field.warp(transform)
    with pytest.raises(TypeError, match=r"`transform` must be a matrix.*got a str"):
        field.warp("rotate")
    with pytest.raises(ValueError, match="`shape` must be 2 whole numbers"):
        field.warp(np.eye(3), (5,))
    with pytest.raises(ValueError, match="displacements are for a result of shape"):
        field.warp(np.zeros((5, 6, 2)), (5, 7))


def test_tensors():
    torch = pytest.importorskip("torch")
    values = torch.rand(20, 24, dtype=torch.float64)
    found = ef.fit(values).warp(turn(10, (20, 24), 2.0), (8, 8))
    assert isinstance(found, torch.Tensor)


@pytest.mark.slow
def test_twelve_turns_of_a_photograph(data):
    """Twelve turns by 30 degrees, the default's order each time; in full: docs/images.md."""
    whole = np.asarray(ef.read(data / "kodak" / "kodim23.png")).astype(float).mean(axis=-1)
    picture = whole[::2, ::2]
    now = picture
    for _ in range(12):
        now = ef.fit(now).warp(turn(30, picture.shape), outside="nearest")
    i, j = np.indices(picture.shape)
    c = (np.asarray(picture.shape) - 1) / 2
    inner = np.hypot(i - c[0], j - c[1]) < 0.45 * min(picture.shape)
    assert ef.psnr(picture[inner], now[inner], data_range=255) > 32
