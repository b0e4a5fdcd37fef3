"""The same answers on a CUDA device, and results that stay there."""

import numpy as np
import pytest

import elmfield as ef
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
