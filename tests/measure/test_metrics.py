import math

import numpy as np
import pytest

import elmfield as ef
import oracles
from support import close


@pytest.fixture
def pair(rng):
    truth = rng.random((7, 9)) * 200 + 20
    return truth, truth + rng.standard_normal((7, 9))


def test_metrics_are_their_definitions(xp, pair):
    truth, estimate = pair
    ours = [xp.asarray(a) for a in pair]
    peak = truth.max() - truth.min()
    close(ef.psnr(*ours), oracles.psnr(truth, estimate, peak), 1e-10)
    close(ef.psnr(*ours, data_range=255), oracles.psnr(truth, estimate, 255), 1e-10)
    close(ef.paper_psnr(*ours), oracles.paper_psnr(truth, estimate), 1e-10)
    close(ef.mae(*ours), np.abs(truth - estimate).mean(), 1e-12)
    close(ef.max_error(*ours), np.abs(truth - estimate).max(), 1e-12)


def test_the_paper_s_psnr_has_a_ceiling_and_the_true_one_has_none(pair):
    truth, _ = pair
    close(ef.paper_psnr(truth, truth), 80, 1e-12)
    assert ef.psnr(truth, truth) == math.inf
    assert ef.psnr(truth, truth + 1e-9) > 200


def test_the_paper_averages_decibels_over_bands(pair):
    truth, estimate = (np.stack([a, a / 3], axis=0) for a in pair)
    estimate[1] += 5
    each = [oracles.paper_psnr(t, e) for t, e in zip(truth, estimate)]
    close(ef.paper_psnr(truth, estimate, channel_axis=0), np.mean(each), 1e-10)


def test_integers_do_not_wrap_around():
    a, b = np.array([0, 255], np.uint8), np.array([1, 254], np.uint8)
    assert ef.max_error(a, b) == 1
    assert ef.mae(a, b) == 1


def test_complex_errors_are_moduli():
    a = np.array([1 + 1j, 2.0])
    close(ef.mae(a, a + (3 + 4j)), 5, 1e-15)
    close(ef.max_error(a, a * 1j), np.abs(a - a * 1j).max(), 1e-15)


@pytest.mark.parametrize("metric", [ef.psnr, ef.paper_psnr, ef.mae, ef.max_error])
def test_bad_pairs_say_what_is_wrong(metric):
    with pytest.raises(ValueError, match=r"must have the same shape; got \(2,\) and \(3,\)"):
        metric(np.zeros(2), np.zeros(3))
    with pytest.raises(ValueError, match="at least one sample; got an empty array"):
        metric(np.zeros(0), np.zeros(0))


def test_an_infinite_estimate_is_infinitely_far():
    assert ef.psnr([0.0, 1.0], [np.inf, 1.0]) == -np.inf
    for measure in (ef.psnr, ef.mae, ef.max_error, ef.paper_psnr):
        with pytest.raises(ValueError, match="`truth` must be finite"):
            measure([0.0, np.inf], [0.0, 1.0])


def test_peaks_must_be_positive():
    with pytest.raises(ValueError, match="`data_range` must be a positive number; got -1"):
        ef.psnr(np.zeros(2), np.ones(2), data_range=-1)
    with pytest.raises(ValueError, match=r"divides by max\(truth\), which must be positive; got"):
        ef.paper_psnr(-np.ones(2), np.zeros(2))


def test_the_range_of_complex_samples_is_that_of_both_parts():
    a = np.array([1 + 1j, 2.0, 5j])
    close(ef.psnr(a, a + 1), 10 * np.log10(25), 1e-12)
    close(ef.psnr(1j * a, 1j * a + 1), 10 * np.log10(7**2), 1e-12)  # -5 to 2
    close(ef.psnr(1j * np.arange(5), 1j * np.arange(5) + 1), 10 * np.log10(16), 1e-12)


@pytest.mark.parametrize("metric", [ef.psnr, ef.paper_psnr, ef.mae, ef.max_error])
def test_missing_samples_do_not_count(metric, pair):
    truth, estimate = pair
    gone = np.zeros(truth.shape, bool)
    gone[2, 3:6] = gone[5] = True
    expected = metric(truth[~gone], estimate[~gone])
    spoilt = np.where(gone, -9999.0, truth)
    close(metric(np.ma.masked_array(spoilt, gone), estimate), expected, 1e-12)
    close(metric(truth, np.ma.masked_array(np.where(gone, 1e9, estimate), gone)), expected, 1e-12)
    close(metric(np.where(gone, np.nan, truth), estimate), expected, 1e-12)
    with pytest.raises(ValueError, match="all are NaN or masked"):
        metric(np.full(3, np.nan), np.zeros(3))


def test_what_an_estimate_does_not_say_is_an_error(pair):
    truth, estimate = pair
    estimate[0, 0] = np.nan
    assert np.isnan(ef.mae(truth, estimate))


def test_bands_have_gaps_of_their_own(pair):
    truth, estimate = (np.stack([a, a / 3], axis=0) for a in pair)
    truth[0, :3] = np.nan
    each = [
        oracles.paper_psnr(truth[0, 3:], estimate[0, 3:]),
        oracles.paper_psnr(truth[1], estimate[1]),
    ]
    close(ef.paper_psnr(truth, estimate, channel_axis=0), np.mean(each), 1e-10)
    truth[0] = np.nan
    with pytest.raises(ValueError, match="every channel needs at least one sample"):
        ef.paper_psnr(truth, estimate, channel_axis=0)


def test_the_paper_s_psnr_is_for_real_samples():
    with pytest.raises(TypeError, match=r"for real samples; got complex ones\. Use `psnr`"):
        ef.paper_psnr(np.ones(3) * 1j, np.ones(3))
