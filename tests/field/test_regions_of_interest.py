"""Samples so many units apart; integrals and means over masks."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import elmfield as ef


def truth(y, x):
    """A smooth function of positions."""
    return np.sin(0.3 * y)[:, None] * np.cos(0.2 * x) + 0.1 * y[:, None]


Y, X = 10 + 0.5 * np.arange(40), 7 - 0.2 * np.arange(50)


@pytest.fixture(scope="module")
def field():
    return ef.fit(truth(Y, X), dims=("y", "x"), coords=(Y, X))


class TestSpacing:
    """``resize(spacing=...)``."""

    def test_one_spacing_for_all_axes_in_the_middle(self, field):
        y = 19.75 + 0.3 * (np.arange(67) - 33)
        x = 2.1 - 0.3 * (np.arange(33) - 16)
        assert_allclose(field.resize(spacing=0.3, antialias=False), truth(y, x), atol=1e-4)

    def test_the_samples_own_spacing_gives_the_samples(self, field):
        assert_allclose(field.resize(spacing=(0.5, 0.2)), field.samples(), atol=1e-12)
        assert_allclose(field.resize(spacing={"y": 0.5}), field.samples(), atol=1e-12)

    def test_wider_ones_are_means(self, field):
        edges = 9.75 + 2.0 * np.arange(11)
        found = field.resize(spacing={"y": 2.0})
        assert_allclose(found, field.means({"y": edges}), atol=1e-12)

    def test_windows_and_uneven_axes(self):
        at = np.cumsum(1 + 0.5 * np.sin(np.arange(40)))
        field = ef.fit(3 * at, coords=(at,))
        low, high = at[4], at[30]
        found = field.resize(spacing=0.5, window={"axis0": (low, high)}, antialias=False)
        n = round((high - low) / 0.5)
        assert_allclose(found, 3 * ((low + high) / 2 + 0.5 * (np.arange(n) - (n - 1) / 2)))

    def test_time_of_a_scan_is_left_alone(self):
        values = np.random.default_rng(0).random((6, 7, 8, 3))
        at = {name: 2.0 * np.arange(n) for name, n in zip("ijkt", values.shape)}
        labels = ef.Labels(affine=np.diag([2, 2, 2, 1.0]).tolist())
        field = ef.fit(ef.Gridded(values=values, dims=tuple("ijkt"), coords=at, labels=labels))
        assert field.resize(spacing=1).shape == (12, 14, 16, 3)

    @pytest.mark.parametrize(
        "wrong", [0, -1, np.nan, "x", (1, 2, 3), {"z": 1}, {"y": 0}, 1e-300, None, [None, 1]]
    )
    def test_what_is_refused(self, field, wrong):
        asked = {"shape": (3, 3)} if wrong is None else {}
        with pytest.raises((ValueError, TypeError), match=r"spacing|coords|shape"):
            field.resize(spacing=wrong or 0, **asked)

    def test_files_without_a_place_in_world_space(self, field, tmp_path):
        ef.write(field, tmp_path / "a.npz", spacing=0.25)
        found = ef.read(tmp_path / "a.npz")
        assert_allclose(np.diff(found.coords["y"]), 0.25)
        assert_array_equal(found.values, field.resize(spacing=0.25))


class TestMasks:
    """Integrals and means over what a mask selects."""

    def test_a_box_of_samples_is_a_box(self, field):
        mask = np.zeros((40, 50), bool)
        mask[3:20, 10:31] = True
        low, high = [11.25, 0.9], [19.75, 5.1]
        assert_allclose(field.integral(mask=mask), field.integral(low, high), rtol=1e-10)
        mean = field.means([11.25, 19.75], [0.9, 5.1])[0, 0]
        assert_allclose(field.means(mask=mask), mean, rtol=1e-10)

    def test_any_shape_is_the_sum_of_its_cells(self, rng):
        values, mask = rng.random((30, 20, 2)), rng.random((30, 20)) < 0.3
        field = ef.fit(values, channel_axis=-1, samples="means")
        assert_allclose(field.integral(mask=mask), values[mask].sum(axis=0), rtol=1e-9)
        assert_allclose(field.means(mask=mask), values[mask].mean(axis=0), rtol=1e-9)

    def test_what_is_missing_does_not_count_in_a_mean(self, rng):
        values, mask = rng.random((30, 20)), rng.random((30, 20)) < 0.3
        values[:9] = np.nan
        field = ef.fit(values, samples="means", missing="nan")
        known = mask & ~np.isnan(values)
        assert_allclose(field.means(mask=mask), values[known].mean(), rtol=1e-6)
        assert np.isnan(field.means(mask=np.arange(30)[:, None] + np.zeros(20) < 5))

    def test_uneven_axes_count_by_their_own_unit(self):
        at = np.cumsum(1 + 0.5 * np.sin(np.arange(30)))
        mask = (np.arange(30) > 4) & (np.arange(30) < 12)
        field = ef.fit(2 * at, coords=(at,))
        low, high = (at[4] + at[5]) / 2, (at[11] + at[12]) / 2
        assert_allclose(field.integral(mask=mask), field.integral([low], [high]), rtol=1e-9)

    def test_tensors_are_followed(self, rng):
        torch = pytest.importorskip("torch")
        values = torch.tensor(rng.random((20, 20)), requires_grad=True)
        mask = rng.random((20, 20)) < 0.5
        ef.fit(values, ef.smooth(order=2)).integral(mask=mask).backward()
        assert_allclose(values.grad.sum(), mask.sum(), rtol=1e-6)

    @pytest.mark.parametrize(
        "asked",
        [
            {"mask": np.ones((4, 4), bool)},
            {"mask": np.ones((40, 50))},
            {"mask": np.zeros((40, 50), bool)},
            {"mask": np.ones((40, 50), bool), "low": [11, 1], "high": [12, 2]},
        ],
    )
    def test_what_is_refused(self, field, asked):
        with pytest.raises(ValueError, match="mask"):
            field.integral(**asked)
        with pytest.raises(ValueError, match="corners"):
            field.integral()
