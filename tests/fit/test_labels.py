"""Labels: classes stay classes wherever a field is asked, and lie where they lay."""

import numpy as np
import pytest

import elmfield as ef

CLASSES = (0, 4, 9)


def shapes(n, places=None):
    """Three classes, two ellipses that touch, at the places of n x n pixels of the unit square."""
    y, x = (np.indices((n, n)) + 0.5) / n if places is None else places
    found = np.zeros(y.shape, np.uint8)
    found[np.hypot(y - 0.45, x - 0.4) < 0.28] = 4
    found[np.hypot((y - 0.6) / 0.5, (x - 0.62) / 0.9) < 0.3] = 9
    return found


def dice(a, b):
    """The least Dice score of a class."""
    return min(2 * ((a == c) & (b == c)).sum() / ((a == c).sum() + (b == c).sum()) for c in CLASSES)


@pytest.fixture(scope="module", params=["points", "means"])
def field(request):
    return ef.fit(shapes(48), labels=True, samples=request.param)


@pytest.mark.parametrize("n", [20, 33, 131, 240])
def test_shrunk_and_magnified_labels_are_nearer_than_the_nearest(field, n):
    got, truth = field.resize((n, n)), shapes(n)
    near = ((np.arange(n) + 0.5) * 48 / n).astype(int)
    assert got.dtype == np.uint8
    assert set(np.unique(got)) == set(CLASSES)
    assert dice(got, truth) > dice(shapes(48)[np.ix_(near, near)], truth)


@pytest.mark.parametrize("angle", [0.3, 0.5, 2.0])
def test_turned_labels_are_nearer_than_the_nearest(field, angle):
    c, s = np.cos(angle), np.sin(angle)
    turn, middle = np.array([[c, -s], [s, c]]), np.array([23.5, 23.5])
    shift = middle - turn @ middle
    got = field.warp(np.c_[turn, shift], fill=0)
    at = np.moveaxis(np.indices((48, 48)), 0, -1) @ turn.T + shift
    inside = ((at >= -0.5) & (at <= 47.5)).all(axis=-1)
    truth = shapes(48, np.moveaxis((at + 0.5) / 48, -1, 0))
    near = np.clip(np.rint(at).astype(int), 0, 47)
    nearest = shapes(48)[near[..., 0], near[..., 1]]
    assert got.dtype == np.uint8
    assert set(np.unique(got)) <= set(CLASSES)
    assert dice(got[inside], truth[inside]) > dice(nearest[inside], truth[inside])


@pytest.mark.slow
def test_every_way_of_asking_gives_classes(field, tmp_path):
    ef.save(field, tmp_path / "a.elm")
    loaded = ef.load(tmp_path / "a.elm")
    at = np.random.default_rng(0).uniform(0, 47, (500, 2))
    axes = np.linspace(0, 47, 70), np.linspace(3, 40, 50)
    for one in (field, loaded, field.crop([0, 0], [47, 47])):
        np.testing.assert_array_equal(one.samples()[:47, :47], shapes(48)[:47, :47])
        for got in (one(at), one.grid(*axes), one.interp().values, one.tabulate()(at)):
            assert got.dtype == np.uint8
            assert set(np.unique(got)) <= set(CLASSES)
    assert field([20.0, 20.0]) == 4
    np.testing.assert_array_equal(loaded.resize(scale=3), field.resize(scale=3))
    lazy = field.resize(scale=2, chunks=(30, 40))
    assert lazy.dtype == np.uint8
    np.testing.assert_array_equal(lazy.compute(), field.resize(scale=2))


def test_shares_of_classes():
    labels = shapes(48)
    field = ef.fit(labels, labels=True, samples="means")
    counts = [(labels == c).sum() for c in CLASSES]
    np.testing.assert_allclose(field.integral([-0.5, -0.5], [47.5, 47.5]), counts, rtol=1e-9)
    shares = field.means([9.5, 10.5, 11.5], [19.5, 20.5])
    np.testing.assert_allclose(shares[:, 0], [[0, 1, 0]] * 2, atol=1e-9)
    assert field.weights(0).shape[-1] == 3


def test_missing_labels_stay_missing():
    labels, gone = shapes(48), np.zeros((48, 48), bool)
    gone[:10] = True
    field = ef.fit(labels, labels=True, mask=gone, missing="nan")
    for scale in (1, 2):
        found = field.resize(scale=scale)
        assert np.isnan(found[: 10 * scale]).all()
        assert set(np.unique(found[10 * scale :])) == set(CLASSES)
    assert set(np.unique(field.resize(scale=2, missing="fill"))) <= set(CLASSES)
    as_floats = np.where(gone, np.nan, labels)
    np.testing.assert_array_equal(
        ef.fit(as_floats, labels=True, missing="nan").samples(), as_floats
    )


def test_tensors_stay_tensors():
    torch = pytest.importorskip("torch")
    field = ef.fit(torch.tensor(shapes(48)), labels=True)
    turned = field.warp([[0.9, 0.1, 2], [-0.1, 0.9, 3]], fill=0)
    for got in (field.resize(scale=2), field([[3.0, 4.0]]), turned):
        assert got.dtype == torch.uint8
    assert field.module()(torch.tensor([[20.0, 20.0]])).argmax() == 1


def test_what_classes_do_not_have(field):
    with pytest.raises(ValueError, match="no derivatives"):
        field.gradient([3.0, 4.0])
    with pytest.raises(ValueError, match="no derivatives"):
        field.resize(quantity="laplacian")
    with pytest.raises(TypeError, match="no standard deviation"):
        field.std([3.0, 4.0])


@pytest.mark.parametrize(
    ("labels", "options", "told"),
    [
        (np.arange(100), {}, "64 classes at most; got 100"),
        (np.arange(100) / 3, {}, "whole numbers"),
        (np.full(9, np.nan), {}, "whole numbers"),
        (np.zeros((9, 9, 2), int), {"channel_axis": 2}, "without channels"),
        (np.zeros(9, int), {"out": "a.elm"}, "in memory"),
    ],
)
def test_what_is_refused(labels, options, told):
    with pytest.raises(ValueError, match=told):
        ef.fit(labels, labels=True, **options)
