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
    with pytest.raises(ValueError, match=r"\d+ samples outside the field .*fill=0"):
        field.warp(M, dtype="uint8")
    assert field.warp(M, dtype=np.uint8, fill=0).dtype == np.uint8


@pytest.mark.parametrize(
    ("transform", "message"),
    [
        ([[1, 1, 0], [1, 1, 0]], "`transform` must be invertible; got"),
        (np.zeros((3, 3)), "must be invertible"),
        (np.eye(4), r"a matrix of shape \(2, 3\) or \(3, 3\)"),
        ([[1, 0, np.nan], [0, 1, 0]], "finite numbers"),
        (lambda x: x[:, :1], "must give a place, 2 numbers, for each of"),
    ],
)
def test_transforms_that_are_none(field, transform, message):
    with pytest.raises(ValueError, match=message):
        field.warp(transform)
    with pytest.raises(TypeError, match=r"`transform` must be a matrix.*got '"):
        field.warp("rotate")
    with pytest.raises(ValueError, match="`shape` must be 2 whole numbers"):
        field.warp(np.eye(3), (5,))
    with pytest.raises(ValueError, match=r"`shape` must be .*that of the displacements"):
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
    picture = whole[::2, ::2][28:228, 92:292]
    now = picture
    for _ in range(12):
        now = ef.fit(now).warp(turn(30, picture.shape), outside="nearest")
    i, j = np.indices(picture.shape)
    c = (np.asarray(picture.shape) - 1) / 2
    inner = np.hypot(i - c[0], j - c[1]) < 0.45 * min(picture.shape)
    assert ef.psnr(picture[inner], now[inner], data_range=255) > 32


# --- along the axes -------------------------------------------------------------------------------

ALONG = {
    "shifted": [[1, 0, 0.5], [0, 1, -0.25]],
    "stretched": [[0.7, 0, 1], [0, 0.4, 30]],
    "flipped": [[-1, 0, 59], [0, 1, 0]],
    "swapped": [[0, 1, 0], [1, 0, 0]],
    "turned by 90 degrees": [[0, -1, 59], [1, 0, 0]],
    "partly outside": [[1.1, 0, -20], [0, 1.2, 15]],
    "outside": [[1, 0, 500], [0, 1, 0]],
    "not normalised": [[2, 0, 1], [0, 2, 0], [0, 0, 2]],
    "all but rounding": [[1 + 1e-9, 3e-9, 0.5], [-2e-9, 1, 0]],
}


@pytest.mark.parametrize("kind", ALONG)
def test_a_matrix_along_the_axes_is_what_a_function_gives(field, kind):
    M = np.asarray(ALONG[kind], float)
    linear, shift = M[:2, :2] / M[2:, 2:].sum() ** (len(M) == 3), M[:2, 2]
    shift = shift / 2 if len(M) == 3 else shift
    wanted = field.warp(lambda x: x @ linear.T + shift, (50, 55), antialias=False)
    found = field.warp(M, (50, 55), antialias=False)
    assert np.array_equal(np.isnan(found), np.isnan(wanted))
    assert_allclose(found, wanted, atol=1e-7)  # a step of 1e-7 samples where rounding moves it
    filled = field.warp(M, (50, 55), antialias=False, fill=-9)
    assert_allclose(filled, np.where(np.isnan(wanted), -9, wanted), atol=1e-7)


def test_means_along_the_axes_are_exact_in_any_sense(field):
    still = [[4.0, 0, 1.5], [0, 5, 2]]  # boxes that fill the array
    wanted = field.resize((15, 14))
    assert_allclose(field.warp(still, (15, 14)), wanted, atol=1e-12)
    assert_allclose(field.warp([[-4.0, 0, 57.5], [0, 5, 2]], (15, 14)), wanted[::-1], atol=1e-12)
    assert_allclose(field.warp([[0.0, 4, 1.5], [5, 0, 2]], (14, 15)), wanted.T, atol=1e-12)
    assert_allclose(field.warp(still, (1, 14))[0], wanted[0], atol=1e-12)  # one row of boxes
    moved = field.warp([[4.0, 0, -6.5], [0, 5, 2]], (15, 14))  # two rows of them outside
    assert np.isnan(moved[:2]).all()
    assert_allclose(moved[2:], wanted[:13], atol=1e-12)


def test_channels_stay_where_they_are_when_axes_are_swapped(waves):
    for axis in (0, 1, 2):
        field = ef.fit(np.stack([waves, 2 * waves, -waves], axis=axis), channel_axis=axis)
        found = field.warp([[0, 1, 0], [1, 0, 0]], (70, 60))
        wanted = np.stack([waves.T, 2 * waves.T, -waves.T], axis=axis)
        assert_allclose(found, wanted, atol=1e-9)


def test_an_axis_that_goes_round_goes_round_in_a_map(rng):
    field = ef.fit(rng.random((24, 20)), periodic=0)
    found = field.warp([[1, 0, 30.25], [0, 1, 0.5]], (24, 19))
    at = np.stack(np.meshgrid(np.arange(24) + 6.25, np.arange(19) + 0.5, indexing="ij"), axis=-1)
    assert_allclose(found, field(at), atol=1e-9)


# --- tensors --------------------------------------------------------------------------------------


def maps(torch):
    """Maps of (5, 4) samples by a tensor that torch follows: how to make one, and its numbers."""
    i, j = np.indices((5, 4))
    wavy = 0.4 * np.stack([np.sin(i / 2 + j), np.cos(i - j / 3)], axis=-1) + 0.3
    straight = torch.tensor([[0.9, 0.2, 1.1], [-0.1, 0.7, 2.3]], dtype=torch.float64)
    along = torch.tensor([[0.5, 0.0, 1.2], [0.0, 0.6, 0.7]], dtype=torch.float64)
    bent = torch.cat([straight, torch.tensor([[2e-3, -3e-3, 1.0]], dtype=torch.float64)])
    shift = torch.tensor([0.3, -0.2], dtype=torch.float64)
    return {
        "displacements": (lambda d: d, torch.tensor(wavy)),
        "matrix": (lambda m: m, straight),
        "matrix along the axes": (lambda m: m, along),
        "projective": (lambda m: m, bent),
        "shrinking": (lambda m: m, 2.2 * along),
        "function": (lambda s: lambda x: torch.sin(x / 5 + s) * 3 + 5, shift),
    }


KINDS = ("displacements", "matrix", "matrix along the axes", "projective", "shrinking", "function")


@pytest.mark.parametrize("kind", KINDS)
def test_torch_follows_a_map(kind):
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    y = torch.rand(14, 13, dtype=torch.float64)
    field = ef.fit(y, ef.smooth(order=2))
    make, at = maps(torch)[kind]

    def mapped(t):
        return field.warp(make(t), (5, 4), outside="nearest")

    assert mapped(at).shape == (5, 4)
    assert torch.autograd.gradcheck(mapped, (at.clone().requires_grad_(),))

    def of_samples(values):
        return ef.fit(values, ef.smooth(order=2)).warp(make(at), (5, 4), outside="nearest").sum()

    (by_samples,) = torch.autograd.grad(of_samples(y.requires_grad_()), y)
    step = torch.rand(14, 13, dtype=torch.float64)
    slope = (of_samples(y.detach() + step) - of_samples(y.detach() - step)) / 2  # it is linear
    assert_allclose(float((by_samples * step).sum()), float(slope), rtol=1e-9)


def test_samples_beyond_a_horizon_leave_gradients_finite():
    torch = pytest.importorskip("torch")
    field = ef.fit(torch.rand(20, 20, dtype=torch.float64))
    P = torch.tensor([[1.0, 0, 0], [0, 1, 0], [0, -0.08, 1]], dtype=torch.float64)
    found = field.warp(P.requires_grad_())
    assert torch.isnan(found).any()
    (slope,) = torch.autograd.grad(found.nansum(), P)
    assert torch.isfinite(slope).all()
    assert slope.abs().max() > 0


def test_functions_get_points_of_the_fields_library(xp):
    field = ef.fit(xp.asarray(np.random.default_rng(0).random((12, 10))))
    seen = []

    def still(x):
        seen.append(x)
        return x

    field.warp(still)
    assert all(type(x) is type(xp.asarray(np.zeros(1))) for x in seen)
    assert all(str(x.dtype).endswith("float64") for x in seen)


def test_what_numpy_cannot_follow_is_refused(field):
    torch = pytest.importorskip("torch")
    by = torch.zeros(60, 70, 2, requires_grad=True)
    for transform in (
        by,
        torch.eye(2, 3, requires_grad=True),
        lambda x: by.reshape(-1, 2)[: len(x)],
    ):
        with pytest.raises(TypeError, match="a transform that requires gradients needs a field of"):
            field.warp(transform)
    assert_allclose(field.warp(by.detach()), field.samples(), atol=1e-9)


@pytest.mark.slow
def test_a_deformable_registration_trains():
    """Displacements found by descent through the field, kept smooth by a regulariser."""
    torch = pytest.importorskip("torch")
    i, j = (torch.tensor(a, dtype=torch.float64) for a in np.indices((24, 24)))

    def blob(a, b):
        return torch.exp(-(((i - a) / 5) ** 2) - ((j - b) / 5) ** 2)

    moving, fixed = ef.fit(blob(11, 12), ef.smooth(order=2)), blob(12.5, 10.5)
    by = torch.zeros(24, 24, 2, dtype=torch.float64, requires_grad=True)
    descent = torch.optim.Adam([by], lr=0.1)
    losses = []
    for _ in range(60):
        off = ((moving.warp(by, outside="nearest") - fixed) ** 2).mean()
        rough = by.diff(dim=0).square().mean() + by.diff(dim=1).square().mean()
        losses.append(float(off.detach()))
        descent.zero_grad()
        (off + 1e-3 * rough).backward()
        descent.step()
    assert losses[-1] < 0.01 * losses[0]
    assert_allclose(by.detach()[12, 11], [-1.5, 1.5], atol=0.5)  # the blob came from there
