"""Quality against width from one projection, beside a fit for each width."""

import numpy as np
import pytest

import elmfield as ef
from elmfield.measure.scores import Curve
from support import host


@pytest.fixture(scope="module")
def picture():
    from skimage.data import camera

    return camera()[::4, ::4].astype(float)  # 128 x 128


@pytest.mark.filterwarnings("ignore::elmfield.RankWarning")  # raw coordinates repeat themselves
@pytest.mark.parametrize("frequencies", [10, 0])
def test_a_curve_holds_the_fits_of_all_widths(picture, frequencies):
    settings = ef.paper(cell=16, width=256, frequencies=frequencies)
    curve = ef.psnr_by_width(picture, settings, [16, 64, 200])
    for m, found, paper in zip(curve.widths, curve.psnr, curve.paper_psnr):
        fitted = ef.fit(picture, ef.paper(cell=16, width=int(m), frequencies=frequencies))
        # Same column space; H's conditioning times rounding bounds the difference in dB.
        assert found == pytest.approx(ef.psnr(picture, fitted.samples()), abs=1e-5)
        assert paper == pytest.approx(ef.paper_psnr(picture, fitted.samples()), abs=1e-5)
    whole = ef.psnr_by_width(picture, settings)
    assert np.all(np.diff(whole.mse) <= 0)


def test_channels_and_cells_that_do_not_divide_count_once(rng):
    values = rng.random((19, 23, 2)) + 1
    found = ef.psnr_by_width(values, ef.paper(cell=8, width=30), [7, 30], channel_axis=-1)
    for m, mse in zip(found.widths, found.mse):
        fitted = ef.fit(values, ef.paper(cell=8, width=int(m)), channel_axis=-1).samples()
        assert mse == pytest.approx(np.mean((values - fitted) ** 2), rel=1e-6)
    assert found.data_range == np.ptp(values)
    assert found.peak == values.max()


def test_a_curve_is_the_same_on_every_library(xp, rng):
    values = rng.random((20, 16))
    settings = ef.paper(cell=8, width=20)
    expected = ef.psnr_by_width(values, settings)
    found = ef.psnr_by_width(xp.asarray(values), settings)
    np.testing.assert_allclose(host(found.mse), expected.mse, rtol=0, atol=1e-12)


def test_the_two_ratios_are_those_of_their_definitions():
    curve = Curve(np.array([1, 2]), np.array([0.04, 0.0]), data_range=2.0, peak=4.0)
    assert curve.psnr[0] == pytest.approx(20)
    assert curve.psnr[1] == np.inf
    assert curve.paper_psnr[0] == pytest.approx(-10 * np.log10(0.0025 + 1e-8))
    assert curve.paper_psnr[1] == pytest.approx(80)


def test_curves_refuse_what_they_cannot_say(picture):
    with pytest.raises(ValueError, match="with one width; got"):
        ef.psnr_by_width(picture, ef.paper(width=[20] * 16))
    with pytest.raises(ValueError, match="between 1 and the settings' width, 64"):
        ef.psnr_by_width(picture, ef.paper(width=64), [100])
    with pytest.raises(ValueError, match="none missing"):
        ef.psnr_by_width(np.where(picture > 200, np.nan, picture), ef.paper())


MERGED = {"cell": 16, "regions": 20}


@pytest.mark.parametrize(
    "options", [{"layers": "own"}, {"overlap": 2}, {"solver": "lstsq"}, {"ridge": 1.0}]
)
def test_a_curve_of_every_kind_is_that_of_its_fits(picture, options):
    curve = ef.psnr_by_width(picture, ef.paper(cell=16, width=64, **options), [16, 64])
    for m, found in zip(curve.widths, curve.psnr):
        fitted = ef.fit(picture, ef.paper(cell=16, width=int(m), **options)).samples()
        assert found == pytest.approx(ef.psnr(picture, fitted), abs=1e-5)


@pytest.mark.thorough
@pytest.mark.parametrize("layers", ["shared", "own"])
@pytest.mark.filterwarnings("ignore::elmfield.RankWarning")
def test_a_curve_on_merged_regions_is_that_of_their_fits(picture, layers):
    part = ef.beam(picture, **MERGED)
    curve = ef.psnr_by_width(picture, ef.paper(width=64, layers=layers), [16, 64], partition=part)
    for m, found in zip(curve.widths, curve.psnr):
        settings = ef.paper(width=int(m), layers=layers)
        fitted = ef.fit(picture, settings, partition=part).samples()
        assert found == pytest.approx(ef.psnr(picture, fitted), abs=1e-4)


@pytest.mark.slow
def test_seeds_have_a_mean_and_a_spread(picture):
    shared = ef.over_seeds(picture, ef.paper(cell=16, width=64), seeds=6)
    own = ef.over_seeds(
        picture, ef.paper(cell=16, width=64, layers="own"), seeds=[3, 4, 5, 6, 7, 8]
    )
    assert shared.scores[2] == pytest.approx(
        ef.paper_psnr(picture, ef.fit(picture, ef.paper(cell=16, width=64, seed=2)).samples())
    )
    assert shared.mean == pytest.approx(np.mean(shared.scores))
    assert own.spread < 0.6 * shared.spread  # an average over 64 layers instead of one
    assert abs(own.mean - shared.mean) < 3 * shared.spread
    one = ef.over_seeds(picture, ef.paper(cell=16, width=64), seeds=1, score=ef.mae)
    assert one.spread == 0
    with pytest.raises(TypeError, match=r"must come from paper\(...\); got"):
        ef.over_seeds(picture, ef.smooth())
