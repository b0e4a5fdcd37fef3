"""The order read off a spectrum: what rounding adds to it does not count."""

import numpy as np
import pytest

from elmfield.local.order import exponent, spectral_orders, suited_orders
from elmfield.samples import Samples
from support import close


def at_hand(y, offset=0.0, scale=1.0):
    every = np.ones(y.shape[-1])
    return Samples(raw=y, offset=offset * every, scale=scale * every, data_range=1.0)


def test_power_below_the_floor_does_not_count():
    omega = np.pi * np.maximum(np.arange(17), 0.5) / 16
    power = omega**-8.0
    floor = 10 * power[10]
    assert exponent(power + floor, floor) > 3
    assert exponent(power + floor) < 1.5
    assert exponent(np.full(17, floor), floor) is None


@pytest.mark.parametrize("p", [1.2, 1.8])
def test_means_have_the_order_of_what_was_averaged(p, rng):
    n, r = 4096, 8
    lines = np.fft.irfft(
        np.fft.rfft(rng.standard_normal((24, n))) / np.arange(0.5, n // 2 + 1) ** p, n=n
    )
    means = lines.reshape(24, n // r, r).mean(axis=-1).T[..., None]
    close(spectral_orders(at_hand(means), 1.1, means=True)[0], p, 0.15)
    assert spectral_orders(at_hand(means), 1.1)[0] > p + 0.2


def test_offset_and_scale_change_no_order(rng):
    y = rng.standard_normal((90, 70, 2)).cumsum(axis=0)
    offset, scale = np.array([5.0, -3.0]), np.array([2.0, 0.5])
    raw = y * scale + offset
    assert suited_orders(at_hand(raw, offset, scale), 1.1) == suited_orders(at_hand(y), 1.1)


def test_few_lines_of_a_large_array_tell_the_same(rng, monkeypatch):
    y = rng.standard_normal((700, 500)).cumsum(axis=0).cumsum(axis=1)[..., None]
    few = suited_orders(at_hand(y), 1.1)
    monkeypatch.setattr("elmfield.local.order.SPECTRUM_SAMPLES", 1 << 30)
    close(few, suited_orders(at_hand(y), 1.1), 0.15)


def test_no_copy_of_all_samples_is_made(rng):
    y = rng.standard_normal((1200, 1000, 3))
    seen = []

    class Watched(Samples):
        def standardise(self, part):
            seen.append(part.size)
            return super().standardise(part)

    suited_orders(Watched(raw=y, offset=np.zeros(3), scale=np.ones(3), data_range=1.0), 1.1)
    assert max(seen) < y.size / 6


class TestFewSamples:
    def choose(self, y):
        return suited_orders(at_hand(y[:, None]), 1.1)

    def test_no_model_is_taken_that_meets_two_samples_by_chance(self, monkeypatch):
        # Left out of the line alone, samples take lines for free, 3.8 times a spline's error.
        y = np.tanh(4 * (np.linspace(0, 1, 19) - 0.3))
        orders, free = self.choose(y)
        assert free == (7,)
        assert orders == (7.75,)
        monkeypatch.setattr("elmfield.local.order.SHORTER_LINES", 0)
        assert self.choose(y)[1] == (2,)

    def test_backwards_it_is_the_same(self, rng):
        for n in (13, 20, 31):
            y = np.sin(np.linspace(0, 7, n)) + 1e-3 * rng.standard_normal(n)
            assert self.choose(y) == self.choose(y[::-1])

    def test_random_numbers_are_mostly_rough(self, rng):
        orders = [self.choose(rng.standard_normal(n))[0][0] for n in (12, 24) for _ in range(30)]
        assert np.mean(np.array(orders) > 2) < 0.15
