"""torch's `gradcheck` and `gradgradcheck`, in float64: by points, by coefficients, by samples."""

import numpy as np
import pytest

import elmfield as ef

pytest.importorskip("torch")
import torch
from torch.autograd import gradcheck, gradgradcheck

RNG = np.random.default_rng(7)
SAMPLES = torch.as_tensor(RNG.standard_normal((9, 8)).cumsum(0).cumsum(1) / 100)
MASK = torch.as_tensor(RNG.random((9, 8)) < 0.2)
PLACES, VALUES = torch.as_tensor(RNG.random((24, 2)) * [8, 7]), torch.as_tensor(RNG.random(24))
AT = torch.as_tensor(RNG.random((3, 2)) * [6, 5] + 0.7)

FITS = {
    "default": lambda y: ef.fit(y),
    "oriented": lambda y: ef.fit(y, ef.oriented()),
    "gaps": lambda y: ef.fit(y, mask=MASK),
    "noise": lambda y: ef.fit(y, ef.smooth(denoise=0.05)),
}
SCATTERED = {
    "scattered": lambda y: ef.fit_points(PLACES, y),
    "scattered, noise": lambda y: ef.fit_points(PLACES, y, denoise=0.05),
}
CHECKS = pytest.mark.parametrize("check", [gradcheck, gradgradcheck])


@CHECKS
@pytest.mark.parametrize("made", [*FITS, *SCATTERED])
def test_points(made, check):
    field = FITS[made](SAMPLES) if made in FITS else SCATTERED[made](VALUES)
    assert check(field, (AT.clone().requires_grad_(),))


@CHECKS
@pytest.mark.parametrize("made", FITS)
def test_module(made, check):
    module = FITS[made](SAMPLES).module().double()
    named = dict(module.named_parameters())

    def values(x, *parameters):
        return torch.func.functional_call(module, dict(zip(named, parameters)), (x,))

    fast = made == "oriented"  # thousands of coefficients: along a random direction
    assert check(values, (AT.clone().requires_grad_(), *named.values()), fast_mode=fast)


@CHECKS
@pytest.mark.parametrize("made", [*FITS, "scattered"])  # denoising of scattered samples is refused
def test_samples(made, check):
    fit, y = (FITS[made], SAMPLES) if made in FITS else (SCATTERED[made], VALUES)
    inputs = (y.clone().requires_grad_(), AT.clone().requires_grad_())
    assert check(lambda y, x: fit(y)(x), inputs, fast_mode=True)  # a fit for every difference
