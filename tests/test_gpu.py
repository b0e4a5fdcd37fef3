"""The same answers on a CUDA device, and results that stay there."""

import numpy as np
import pytest

import elmfield as ef
from elmfield import observe as ob
from support import inside

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("settings", [ef.smooth(), ef.paper(cell=16, width=64)], ids=str)
@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 1e-3), ("float64", 1e-8)])
def test_the_gpu_agrees_with_the_host(settings, dtype, tolerance, rng):
    values = rng.standard_normal((50, 41, 2)).astype(dtype)
    x = inside(rng, (50, 41), 64)
    host = ef.fit(values, settings, channel_axis=-1)
    there = ef.fit(values, settings, channel_axis=-1, device="cuda")
    for ask in (
        lambda f: f(x),
        lambda f: f.gradient(x),
        lambda f: f.hessian(x),
        lambda f: f.resize((33, 70)),
        lambda f: f.integral((1, 1), (30, 30)),
        lambda f: f.crop((5, 5), (20, 20)).samples(),
    ):
        found, expected = ask(there), ask(host)
        assert found.is_cuda
        scale = max(1, np.abs(expected).max())
        np.testing.assert_allclose(found.cpu().numpy(), expected, rtol=0, atol=tolerance * scale)


@pytest.mark.parametrize(
    "settings",
    [ef.smooth(), ef.oriented(), ef.smooth(denoise=0.3), ef.paper(cell=16, width=64, ridge=0.3)],
    ids=str,
)
def test_deviations_stay_on_the_gpu(settings, rng):
    values, x = rng.standard_normal((40, 36)).cumsum(0), inside(rng, (40, 36), 16)
    host, there = ef.fit(values, settings), ef.fit(values, settings, device="cuda")
    for ask in (
        lambda f: f.std(x),
        lambda f: f.std(x, quantity="gradient"),
        lambda f: f.covariance(x),
        lambda f: f.draw(2, x, seed=1),
        lambda f: f.draw(1, seed=1)[0](x),
        lambda f: f.resize((20, 30), quantity="std"),
        lambda f: f.means([2, 6], [3, 8], quantity="std"),
        lambda f: f.means(mask=np.ones(f.shape, bool), quantity="std"),
    ):
        found, expected = ask(there), ask(host)
        assert found.is_cuda
        near = {"rtol": 1e-3, "atol": 1e-4 * np.abs(expected).max()}
        np.testing.assert_allclose(found.cpu().numpy(), expected, **near)


def test_missing_samples_on_the_gpu(rng):
    values = rng.standard_normal((40, 40))
    values[rng.random((40, 40)) < 0.2] = np.nan
    found = ef.fit(values, device="cuda").samples().cpu().numpy()
    np.testing.assert_allclose(found, ef.fit(values).samples(), rtol=0, atol=1e-8)


def test_points_of_another_device_are_refused():
    torch = pytest.importorskip("torch")
    field = ef.fit(torch.zeros((8, 8), device="cuda"))
    with pytest.raises(ValueError, match="`points` must live where the field lives"):
        field(torch.zeros((1, 2)))


@pytest.mark.parametrize("positive", [False, True])
def test_observations_on_the_gpu(positive, rng):
    torch = pytest.importorskip("torch")
    x, other = rng.random((80, 2)), rng.random((30, 2))
    y = 2 + np.sin(5 * x[:, 0])
    host, there = (
        ef.fit_observations(
            [ob.values(x, values, noise=0.1)],
            bounds=((0, 0), (1, 1)),
            shape=(10, 10),
            positive=positive,
        )
        for values in (y, torch.as_tensor(y, device="cuda"))
    )
    found = there(torch.as_tensor(other, device="cuda"))
    assert found.is_cuda
    np.testing.assert_allclose(found.cpu().numpy(), host(other), rtol=0, atol=1e-8)
    if not positive:  # those of positive samples do not tell
        spread = there.std(other)
        assert spread.is_cuda
        np.testing.assert_allclose(spread.cpu().numpy(), host.std(other), rtol=0, atol=1e-8)
