"""Noise taken out of samples, against the equations written out box by box."""

import numpy as np
import pytest

import elmfield as ef
from elmfield.fit.noise import family_shapes, learn_shapes
from elmfield.fit.noise_model import noise_level, remove_noise
from elmfield.local.energy_mixture import fold_parities, unfold_parities
from oracles import beliefs as oracle
from support import close, host


def picture(shape):
    i, j = np.indices(shape)
    return 50 * np.tanh((i - 0.6 * j) / 3) + 20 * np.sin(j / 6)


def covariances(shapes):
    """(K, S, S), from even and odd parts."""
    S = sum(h.bases.shape[1] for h in shapes.halves)
    return sum(P @ h.covariances @ P.T for P, h in zip(fold_parities(np.eye(S)), shapes.halves))


def test_a_box_is_denoised_as_written_out(xp, rng):
    shapes = family_shapes((5, 5))
    y = 3 * rng.standard_normal((2, 25)).cumsum(1)
    found = host(shapes(xp.asarray(y)))
    for g in range(2):
        wanted = oracle.denoised(covariances(shapes), shapes.prior, shapes.amplitudes, y[g])
        close(found[g, :, 0], wanted, 1e-9 * np.ptp(y))


@pytest.mark.parametrize("S", [1, 2, 7, 10])
def test_parts_even_and_odd_make_the_box_again(S, xp, rng):
    y = rng.standard_normal((3, S))
    even, odd = fold_parities(xp.asarray(y))
    assert even.shape[1] - odd.shape[1] == S % 2
    close(host(unfold_parities(even, odd)), y, 1e-15)


def test_shapes_stay_covariances_and_are_drawn_towards_the_boxes(rng):
    start = family_shapes((6, 6))
    one = np.sin(np.arange(36) * 1.7) * 6  # the same in all boxes, at any strength
    Y = one * rng.standard_normal((3000, 1)) + rng.standard_normal((3000, 36))
    found = learn_shapes(start, Y)
    variances = np.concatenate([h.variances for h in found.halves], axis=1)
    assert variances.min() >= 0
    close(variances.mean(axis=1), np.ones(len(variances)), 1e-12)
    one = (one - one.mean()) / np.linalg.norm(one - one.mean())
    before, after = (
        np.max(np.einsum("i,kij,j->k", one, covariances(s), one)) for s in (start, found)
    )
    assert after > 5 * before


@pytest.mark.parametrize("shape", [(20000,), (60, 70), (24, 20, 18), (1, 20000)])
def test_the_level_of_noise_is_found(shape, rng):
    noise = 0.7 * rng.standard_normal((*shape, 2)) * [1, 3]
    assert noise_level(noise) == pytest.approx([0.7, 2.1], rel=0.1)


def test_what_was_filled_in_does_not_tell_the_level(rng):
    y = rng.standard_normal((80, 80, 1))
    present = np.ones(y.shape, bool)
    present[:, :40] = False
    y[:, :40] = 0
    assert noise_level(y) < 0.2
    assert noise_level(y, present) == pytest.approx([1.0], rel=0.08)


@pytest.mark.thorough
@pytest.mark.parametrize("missing", [0.02, 0.2, 0.5])
def test_scattered_gaps_do_not_hide_the_level(missing, rng):
    truth = np.add.outer(np.arange(70.0) ** 2 / 500, np.sin(np.arange(64) / 6))
    y = truth + 0.3 * rng.standard_normal(truth.shape)
    y[rng.uniform(size=y.shape) < missing] = np.nan
    field = ef.fit(y, ef.smooth(denoise=True))  # filled in between, samples have less noise
    assert field.model.evidence.noise == pytest.approx([0.3], rel=0.12)
    gone = np.isnan(y)
    error = np.abs(field.samples(missing="fill") - truth)
    s = field.grid(*map(np.arange, y.shape), quantity="std", missing="fill")
    for some in (gone, ~gone):
        assert np.mean(error[some] < 1.645 * s[some]) > 0.8


@pytest.mark.slow
@pytest.mark.parametrize("settings", [ef.oriented, ef.smooth])
@pytest.mark.parametrize("level", [10.0, True])
def test_most_of_the_noise_goes(settings, level, rng):
    truth = picture((80, 90))
    noisy = truth + 10 * rng.standard_normal(truth.shape)
    field = ef.fit(noisy, settings(denoise=level))
    assert np.sqrt(np.mean((field.samples() - truth) ** 2)) < 4
    # What was taken off is told.
    off = field.error_map()
    assert 6 < np.median(off) < 12


def test_noise_alone_is_taken_off(rng):
    noise = rng.standard_normal((64, 64))
    assert np.std(ef.fit(noise, ef.oriented(denoise=1.0)).samples()) < 0.15


@pytest.mark.parametrize("shape", [(1,), (2,), (3, 1), (5, 5), (4, 4, 4, 4)])
def test_small_arrays_are_denoised(shape, rng):
    y = rng.standard_normal(shape)
    for level in (True, 0.5):
        assert np.isfinite(ef.fit(y, ef.oriented(denoise=level)).samples()).all()


def test_a_signal_far_above_the_noise_is_kept(rng):
    truth = picture((60, 60))
    noisy = truth + 1e-6 * rng.standard_normal(truth.shape)
    found = ef.fit(noisy, ef.smooth(denoise=1e-6)).samples()
    close(found, truth, 2e-5)


@pytest.mark.thorough
def test_constants_and_ramps_are_left_alone():
    i, j = np.indices((40, 30))
    for values in (np.full((40, 30), 4.5), 2.0 * i - j):
        for level in (True, 3.0):
            found = ef.fit(values, ef.oriented(denoise=level)).samples()
            close(found, values, 1e-11 * max(1, np.ptp(values)))


@pytest.mark.thorough
def test_clip_keeps_to_the_limits_of_the_samples(rng):
    truth = np.where(picture((60, 60)) > 0, 255.0, 0.0)
    noisy = np.clip(truth + 40 * rng.standard_normal(truth.shape), 0, 255)
    noisy[rng.random(truth.shape) < 0.1] = np.nan
    free = ef.fit(noisy, ef.oriented(denoise=40.0)).samples()
    kept = ef.fit(noisy, ef.oriented(denoise=40.0, clip=True)).samples()
    assert kept.min() >= -1e-9
    assert kept.max() <= 255 + 1e-9
    close(kept, np.clip(free, 0, 255), 1e-9)


def test_all_libraries_denoise_alike(xp, rng):
    y = picture((30, 33)) / 50 + 0.1 * rng.standard_normal((30, 33))
    found = host(remove_noise(xp.asarray(y), np.array(0.1), (False, True))[0])
    close(found, remove_noise(y, np.array(0.1), (False, True))[0], 1e-4)  # single precision


@pytest.mark.thorough
def test_channels_have_levels_of_their_own(rng):
    truth = picture((60, 60))
    noisy = np.stack([truth + s * rng.standard_normal(truth.shape) for s in (2, 20)], axis=-1)
    found = ef.fit(noisy, ef.oriented(denoise=True), channel_axis=-1).samples()
    errors = np.sqrt(np.mean((found - truth[..., None]) ** 2, axis=(0, 1)))
    assert errors[0] < 1.6
    assert errors[1] < 8


@pytest.mark.parametrize("shape", [(90,), (14, 13), (5, 4, 5)])
def test_what_torch_follows_is_the_same(shape, rng):
    torch = pytest.importorskip("torch")
    noise = np.array(1e-4)
    grid = np.meshgrid(*(np.arange(n) / 10 for n in shape), indexing="ij")
    y = np.sin(sum(grid)) + noise * rng.standard_normal(shape)
    wraps = (False,) * len(shape)
    found, _ = remove_noise(torch.as_tensor(y).requires_grad_(), noise, wraps)
    close(found.detach(), remove_noise(y, noise, wraps)[0], 1e-10)


def test_noise_whose_squares_overflow_is_taken_out_without_a_warning():
    noisy = 1e200 * (np.sin(np.arange(900.0) / 40).reshape(30, 30) + 0.1 * np.eye(30))
    field = ef.fit(noisy, ef.smooth(denoise=1e199))
    assert np.isfinite(field.samples()).all()
    assert field.model.residual is None


def test_no_box_may_be_whole():
    rng = np.random.default_rng(0)
    y = np.add.outer(np.arange(40.0), np.arange(40.0)) / 10
    y[rng.random(y.shape) < 0.2] = np.nan
    given = y + 0.01 * rng.standard_normal(y.shape)
    found = ef.fit(given, ef.smooth(denoise=True)).samples()
    assert np.nanstd(found - y) < 0.008
