"""Noise in several channels, of levels that differ, of counts; and noise that is not white."""

import warnings

import numpy as np
import pytest

import elmfield as ef
from elmfield.fit.noise_model import remove_mixed_noise
from support import close


def scene(n=72):
    y, x = np.mgrid[:n, :n]
    edges = np.tanh((x + 0.6 * y - 50) / 2) + ((y // 12 + x // 18) % 2)
    return 60 * edges + 30 * np.sin(x / 7)


def rms(e):
    return float(np.sqrt(np.mean(e**2)))


def cleaned(values, denoise, **options):
    return ef.fit(values, ef.oriented(order=1.1, denoise=denoise), **options).samples()


@pytest.mark.slow
def test_channels_that_vary_together_help_each_other(rng):
    clean = scene()[..., None] * [1.0, 0.9, 1.1] + [0, 20, 40]
    noisy = clean + 15 * rng.standard_normal(clean.shape)
    together = rms(cleaned(noisy, 15.0, channel_axis=-1) - clean)
    alone = rms(np.stack([cleaned(noisy[..., k], 15.0) for k in range(3)], axis=-1) - clean)
    assert together < 0.8 * alone


@pytest.mark.slow
def test_each_channel_has_a_noise_of_its_own(rng):
    level = np.array([4.0, 12.0, 30.0, 8.0])
    clean = scene()[..., None] * [1.0, 0.5, 2.0, -1.0]
    noisy = clean + level * rng.standard_normal(clean.shape)
    found = cleaned(noisy, level, channel_axis=-1)
    alone = [cleaned(noisy[..., k], level[k]) for k in range(4)]
    for k in range(4):
        assert rms(found[..., k] - clean[..., k]) < rms(alone[k] - clean[..., k])
    field = ef.fit(noisy, ef.smooth(denoise=True), channel_axis=-1)
    close(np.asarray(field.settings.denoise) / level, np.ones(4), 0.15)
    assert field.report()["noise taken out"] == field.settings.denoise


@pytest.mark.slow
def test_channels_and_orders_of_channels_do_not_matter(rng):
    """The map between channels is orthonormal: turned channels give turned results."""
    y = rng.standard_normal((40, 40, 3)).cumsum(0)
    one, along = np.ones(3), (False, False)
    U = np.linalg.qr(rng.standard_normal((3, 3)))[0]
    expected, left = remove_mixed_noise(y, one, along)
    turned, left_turned = remove_mixed_noise(y @ U, one, along)
    close(turned, expected @ U, 1e-4)
    close(left_turned.sum(axis=-1), left.sum(axis=-1), 1e-3)  # a turn keeps the sum of variances
    silent = np.concatenate([y, np.zeros((40, 40, 1))], axis=-1)
    found, _ = remove_mixed_noise(silent, np.append(one, 0.0), along)
    close(found[..., :3], expected, 1e-5)
    assert not found[..., 3].any()


@pytest.mark.slow
def test_a_map_of_noise(rng):
    clean = scene()
    level = np.linspace(3, 40, 72)[:, None] * np.ones((72, 72))
    noisy = clean + level * rng.standard_normal(clean.shape)
    mapped = rms(cleaned(noisy, level) - clean)
    assert mapped < min(rms(cleaned(noisy, s) - clean) for s in (10.0, 20.0, 30.0))
    both = np.stack([noisy, noisy], axis=-1)
    same = ef.fit(both, ef.smooth(denoise=level), channel_axis=-1)
    assert same.settings.denoise == pytest.approx(np.median(level))
    with pytest.raises(ValueError, match=r"an array like the samples, channels last, \(72, 72, 1"):
        ef.fit(noisy, ef.smooth(denoise=level[:9]))
    for wrong in (-level, "gauss", np.full(3, np.nan), 0.0):
        with pytest.raises(ValueError, match="`denoise` must be True, False, 'poisson'"):
            ef.smooth(denoise=wrong)
    with pytest.raises(ValueError, match="one standard deviation for scattered samples"):
        ef.fit_points(rng.random((30, 2)), rng.random(30), denoise="poisson")


@pytest.mark.slow
@pytest.mark.parametrize("peak", [5, 30, 100])
def test_counts(peak, rng):
    clean = np.clip(scene() + 120, 5, None) / 240 * peak
    counts = rng.poisson(clean)
    found = cleaned(counts, "poisson")
    assert found.min() >= 0
    assert rms(found - clean) < 0.85 * min(rms(cleaned(counts, True) - clean), rms(counts - clean))
    # No bias: means of counts have this standard error, of which four are allowed.
    assert abs(np.mean(found - clean)) < 4 * np.sqrt(clean.mean() / clean.size)
    with pytest.raises(ValueError, match="is for counts, which are not negative"):
        cleaned(counts - counts.max(), "poisson")


@pytest.mark.slow
def test_noise_that_is_not_white_is_noticed(rng):
    y, x = np.mgrid[:192, :192]
    clean = 100 + 40 * np.sin(x / 40) * np.cos(y / 50)
    white = 10 * rng.standard_normal(clean.shape)
    wide = sum(np.roll(white, (i, j), (0, 1)) for i in (0, 1) for j in (0, 1)) / 2
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ef.fit(clean + white, ef.smooth(denoise=True))
        ef.fit(clean + wide, ef.smooth(denoise=10.0))
    with pytest.warns(ef.NoiseWarning, match="the noise is not white: at half the frequency"):
        ef.fit(clean + wide, ef.smooth(denoise=True))


@pytest.mark.slow
def test_levels_are_saved(rng, tmp_path):
    noisy = scene() + 9 * rng.standard_normal((72, 72))
    for denoise in (True, "poisson", np.full((72, 72), 9.0)):
        shifted = noisy - noisy.min() if denoise is not True else noisy
        field = ef.fit(shifted, ef.oriented(order=1.1, denoise=denoise))
        ef.save(field, tmp_path / "a.elm")
        assert ef.load(tmp_path / "a.elm").settings == field.settings
    assert ef.fit(noisy, ef.smooth(denoise=True)).settings.denoise == pytest.approx(9, rel=0.1)
