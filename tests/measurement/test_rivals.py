"""Rivals against what they are by definition."""

import numpy as np
import pytest
from scipy.fft import dct

from measurement import rivals


@pytest.mark.parametrize("n", [16, 21])
def test_block_cosines_go_through_their_samples(n, rng):
    values = rng.random((n, 3))
    np.testing.assert_allclose(rivals.cosines_at(values, [np.arange(n)]), values, atol=1e-12)


def test_block_cosines_are_a_cosine_series_between_the_samples(rng):
    y, x = rng.random(8), np.array([0.25, 3.5, 7.4])
    c = dct(y, norm="ortho") * np.sqrt(np.where(np.arange(8) == 0, 1, 2) / 8)
    series = np.cos(np.pi * np.outer(x + 0.5, np.arange(8)) / 8) @ c
    np.testing.assert_allclose(rivals.cosines_at(y, [x]), series, atol=1e-12)


@pytest.mark.parametrize("n", [16, 21])
def test_the_block_transform_is_orthonormal_and_keeps_to_its_blocks(n):
    C = rivals.block_transform(n)
    np.testing.assert_allclose(C @ C.T, np.eye(n), atol=1e-12)
    assert not C[:8, 8:].any()


def test_splines_go_through_their_samples_channel_by_channel(rng):
    values = rng.random((9, 8, 2))
    own = [np.arange(n) for n in values.shape[:2]]
    for order in rivals.SPLINES.values():
        np.testing.assert_allclose(rivals.spline_at(values, order, own, -1), values, atol=1e-9)


def test_denoising_takes_noise_away(rng):
    x = np.linspace(0, 6, 64)
    clean = 128 + 90 * np.sin(x)[:, None] * np.cos(x)
    noisy = clean + 20 * rng.standard_normal(clean.shape)
    found = rivals.denoised(noisy, 20, clean)
    assert len(found) == 4
    for name, picture in found.items():
        assert np.std(picture - clean) < np.std(noisy - clean) / 1.5, name


def test_gaps_in_a_plane_are_filled_by_the_plane(rng):
    values = np.add.outer(2.0 * np.arange(12), np.arange(14.0))
    missing = rng.random(values.shape) < 0.3
    missing[0, 0] = missing[-1, -1] = missing[0, -1] = missing[-1, 0] = False
    for name, found, seconds in rivals.filled(values, missing):
        np.testing.assert_allclose(found, values[missing], atol=1e-6, err_msg=name)
        assert seconds >= 0
