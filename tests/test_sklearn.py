"""Estimators predict what fields say; coefficients mean the same at every resolution."""

import pickle
import runpy
from pathlib import Path

import numpy as np
import pytest

import elmfield as ef

pytest.importorskip("sklearn", minversion="1.6")

from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from elmfield.sklearn import FieldRegressor, FieldTransformer


def waves(rng, n, outputs=None):
    X = rng.uniform(0, 1, (n, 2))
    y = np.sin(5 * X[:, 0]) + X[:, 1] ** 2
    return X, y if outputs is None else np.stack([y, -y], axis=1)


@pytest.mark.parametrize("outputs", [None, 2])
def test_predictions_are_those_of_fit_points(outputs, rng):
    X, y = waves(rng, 150, outputs)
    model = FieldRegressor(denoise=False).fit(X, y)
    expected = ef.fit_points(X, y)
    np.testing.assert_array_equal(model.predict(X[:20]), expected(X[:20]))
    assert model.score(*waves(rng, 100, outputs)) > 0.99
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict(X), model.predict(X))


def test_points_outside_get_the_value_at_the_border(rng):
    model = FieldRegressor().fit(*waves(rng, 100))
    near, far, other = model.predict([[2.0, 0.5], [9.0, 0.5], [2.0, 0.9]])
    assert near == far != other
    inside = model.predict([[0.999, 0.5]])[0]
    assert abs(near - inside) < 0.2 < abs(near - model.predict([[0.5, 0.5]])[0])


@pytest.mark.thorough
def test_pipelines_and_searches(rng):
    X, y = waves(rng, 120)
    y = y + 0.05 * rng.standard_normal(len(y))
    steps = make_pipeline(StandardScaler(), FieldRegressor())
    search = GridSearchCV(steps, {"fieldregressor__order": [1.1, 2.0]}, cv=3).fit(X * [1, 1e6], y)
    assert search.best_score_ > 0.9
    assert clone(search.best_estimator_[-1]).get_params()["order"] in (1.1, 2.0)


def test_twenty_features_take_no_longer_than_ten(rng):
    """Corners of cells are 2^d: an axis of one cell has none."""
    X = rng.uniform(size=(60, 24))
    assert FieldRegressor().fit(X, X.sum(axis=1)).predict(X).shape == (60,)


@pytest.mark.parametrize(("shape", "modes"), [((20,), (9,)), ((8, 8), (6, 6)), ((5, 6, 4), None)])
def test_coefficients_are_linear_and_come_back(shape, modes, rng):
    X = rng.standard_normal((7, int(np.prod(shape))))
    t = FieldTransformer(shape=shape, modes=modes).fit(X)
    C = t.transform(X)
    np.testing.assert_allclose(t.transform(2 * X[:3] - X[3:6]), 2 * C[:3] - C[3:6], atol=1e-10)
    back = t.inverse_transform(C)
    if modes is None:
        np.testing.assert_allclose(back, X, atol=1e-12)
    flat = t.inverse_transform(t.transform(np.full_like(X, 3.0)))
    np.testing.assert_allclose(flat, 3.0, atol=1e-10)  # through fewer modes too
    assert len(t.get_feature_names_out()) == C.shape[1]


@pytest.mark.parametrize(("samples", "off"), [("points", 0.01), ("means", 0.001)])
def test_coefficients_mean_the_same_at_every_resolution(samples, off):
    def picture(n):  # means over pixels of one smooth function on the unit square
        x = (np.arange(8 * n) + 0.5) / (8 * n)
        fine = np.cos(2 * x)[:, None] + np.sin(3 * x)[None, :]
        return fine.reshape(n, 8, n, 8).mean(axis=(1, 3)).reshape(1, -1)

    found = [
        FieldTransformer(shape=(n, n), modes=(6, 6), samples=samples).fit_transform(picture(n))
        for n in (6, 9, 12, 24)
    ]
    for other in found[1:]:
        assert np.linalg.norm(other - found[0]) < off * np.linalg.norm(found[0])


@pytest.mark.slow
def test_digits_are_classified_at_any_resolution():
    pytest.importorskip("matplotlib").use("agg")
    pytest.importorskip("skimage")
    page = runpy.run_path(str(Path(__file__).parents[1] / "docs" / "gallery" / "digits.py"))
    page["plt"].close("all")
    right = {n: np.mean(rows, axis=0) for n, rows in page["right"].items()}
    assert right[8][2] > right[8][0] - 0.01
    for n in (6, 12):  # better than by pixels, resized linearly and cubically
        assert right[n][2] > right[n][:2].max()


def test_shapes_that_do_not_fit_are_refused(rng):
    X = rng.random((4, 12))
    with pytest.raises(ValueError, match="as many samples as rows, 12"):
        FieldTransformer(shape=(5, 5)).fit(X)
    with pytest.raises(ValueError, match=r"`X` must have shape \(n, 12\); got \(2, 3\)"):
        FieldTransformer().fit(X).inverse_transform(np.ones((2, 3)))


def test_deviations_are_those_of_the_field(rng):
    X, y = waves(rng, 150, 2)
    model = FieldRegressor().fit(X, y + 0.1 * rng.standard_normal(y.shape))
    values, s = model.predict(X[:20], return_std=True)
    np.testing.assert_array_equal(values, model.predict(X[:20]))
    np.testing.assert_array_equal(s, model.field_.std(X[:20]))


@pytest.mark.thorough
@pytest.mark.parametrize("denoise", [0.1, True])
def test_weights_are_repeated_samples_and_inverse_variances(denoise, rng):
    X, y = waves(rng, 150)
    times = rng.integers(0, 4, len(X))
    noise = rng.standard_normal(len(X)) * np.where(rng.random(len(X)) < 0.5, 0.5, 0.05)
    model = FieldRegressor(denoise=denoise, order=2.0, spacing=0.08)
    weighted = model.fit(X, y + noise, times).predict(X)
    again = np.repeat(np.arange(len(X)), times)
    ones = np.ones(len(again))
    repeated = clone(model).fit(X[again], (y + noise)[again], ones).predict(X)
    np.testing.assert_allclose(weighted, repeated, atol=1e-9)
    known = clone(model).fit(X, y + noise, (0.1 / np.where(np.abs(noise) > 0.1, 0.5, 0.05)) ** 2)
    plain = clone(model).fit(X, y + noise)
    errors = [np.sqrt(np.mean((m.predict(X) - y) ** 2)) for m in (known, plain)]
    assert errors[0] < 0.7 * errors[1]


def test_weights_give_the_weighted_least_squares():
    """One region: the minimum of energy and weighted residuals, solved as one dense system."""
    rng = np.random.default_rng(3)
    x, w = np.sort(rng.uniform(0, 10, 12)), rng.uniform(0.2, 5, 12)
    y = np.sin(x) + 0.1 * rng.standard_normal(12)
    field = ef.fit_points(x[:, None], y, ef.smooth(order=2.0), denoise=0.1, weights=w)
    misses = w * (field(x[:, None]) - y)
    # Weighted residuals are orthogonal to what costs nothing: planes.
    assert abs(misses.sum()) < 1e-8
    assert abs((misses * x).sum()) < 1e-7


def test_wrong_weights_are_refused(rng):
    X, y = waves(rng, 20)
    with pytest.raises(ValueError, match="`weights` must be 20 numbers, 0 or more"):
        ef.fit_points(X, y, denoise=True, weights=-np.ones(20))
    with pytest.raises(ValueError, match="`weights` must be 20 numbers"):
        ef.fit_points(X, y, denoise=True, weights=np.ones(3))
