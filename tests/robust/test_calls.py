"""Calls from seeds: refused with a sentence, or finite and as promised."""

import numpy as np
import pytest
from hypothesis import given, settings

import elmfield as ef
from robust.calls import bad_call, one_call, one_fit_of_observations, one_fit_of_points
from robust.conftest import PROFILE
from robust.lossless import one_calendar, one_trip
from robust.promises import checked
from support import SEEDS


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return tmp_path_factory.mktemp("calls") / "model.elm"


@PROFILE
@given(seed=SEEDS)
def test_any_call_is_answered_or_refused(seed, path):
    assert one_call(seed, path) in ("done", "refused")


@PROFILE
@given(seed=SEEDS)
def test_an_odd_argument_is_refused_in_our_own_words(seed, path):
    assert bad_call(seed, path.parent) in ("done", "refused")


@PROFILE
@given(seed=SEEDS)
def test_scattered_samples_are_met_or_refused(seed):
    assert one_fit_of_points(seed) in ("done", "refused")


@pytest.mark.parametrize("seed", range(12))
def test_observations_are_fitted_or_refused(seed):
    assert one_fit_of_observations(seed) in ("done", "refused")


def test_numbers_that_no_float_holds_are_refused():
    x = np.sin(np.arange(600) / 9).reshape(20, 30)
    field, paper = ef.fit(x, dims=("y", "x")), ef.fit(x, ef.paper(width=30))
    for wrong in (np.inf, np.ma.masked, 10**400, "x"):
        with pytest.raises(ValueError, match="`region` must lie between 0 and"):
            paper.weights(wrong)
    with pytest.raises(ValueError, match=r"`scale` is too large for axis 'y'; got 1e\+308"):
        field.resize(scale=[1e308, 1e308])
    with pytest.raises(TypeError, match=r"`window` must be a mapping .*; got \[\]"):
        field.resize(window=[])
    for call in (
        lambda: field.keep(psnr=10**400),
        lambda: field.tabulate(10**400),
        lambda: ef.smooth(denoise=10**400),
        lambda: ef.fit(x, ef.smooth(cell=10**400)),
    ):
        with pytest.raises(ValueError, match=r"must be .*; got 1000"):
            call()


@settings(PROFILE, max_examples=PROFILE.max_examples // 4)
@given(seed=SEEDS)
def test_samples_come_back_bit_for_bit(seed, path):
    assert one_trip(seed, path.parent) == "the same"


@settings(PROFILE, max_examples=PROFILE.max_examples // 4)
@given(seed=SEEDS)
def test_dates_come_back_exactly(seed, path):
    assert one_calendar(seed, path.parent) == "the same"


@pytest.mark.parametrize(
    ("name", "dtype"),
    [("spike at a corner", "uint8"), ("powers", "float32"), ("a hole", "float64")],
)
def test_promises_hold_at_every_station(name, dtype, path):
    wrong, _ = checked(name, dtype, path)
    assert not wrong


# --- the findings, each as it was told ------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("settings", [{}, {"psnr": 40}], ids=str)
def test_a_number_that_stands_for_no_data_is_named(dtype, settings, rng):
    x = (280 + rng.standard_normal((64, 64))).astype(dtype)
    x[3, 4] = np.finfo(dtype).min
    with pytest.raises(ValueError, match=r"must lie within .* got -\d.* 1 such of 4096 samples"):
        ef.fit(x, ef.smooth(**settings))
    field = ef.fit(x, ef.smooth(**settings), mask=x == np.finfo(dtype).min)
    assert np.isfinite(field.samples()).all()


@pytest.mark.parametrize("dtype", ["float16", "float32"])
@pytest.mark.parametrize("offset", [1e8, 1e15])
def test_offsets_keep_their_digits_in_narrow_files(tmp_path, dtype, offset):
    x = offset + np.sin(np.arange(1024) / 40).reshape(32, 32)
    field = ef.fit(x, ef.smooth(max_error=0.01))
    ef.save(field, tmp_path / "x.elm", dtype=dtype)
    assert np.abs(ef.load(tmp_path / "x.elm").samples() - x).max() <= 0.01


@pytest.mark.parametrize("scale", [1e-300, 1e-160, 1e-80, 1e100, 1e200, 1e300])
@pytest.mark.parametrize("asked", [{}, {"psnr": 40}, {"coefficients": 100}], ids=str)
def test_any_scale_comes_to_an_end(tmp_path, scale, asked):
    x = scale * np.sin(np.arange(400) / 9).reshape(20, 20)
    if asked and not 1e-140 < scale < 1e140:
        with pytest.raises(ValueError, match="squares of errors"):
            ef.fit(x, ef.smooth(**asked))
        return
    field = ef.fit(x, ef.smooth(**asked))
    ef.save(field, tmp_path / "x.elm")
    back = ef.load(tmp_path / "x.elm").samples()
    assert np.isfinite(back).all()
    if not asked:
        assert np.abs(back - x).max() <= 1e-13 * scale


@pytest.mark.parametrize("out", [False, True])
@pytest.mark.parametrize("scale", [1e-300, 1e200, 1e306])
def test_a_largest_error_holds_at_any_scale(tmp_path, scale, out):
    """Where float64 has no squares of errors too, and without a warning."""
    x, path = scale * np.sin(np.arange(400) / 9).reshape(20, 20), tmp_path / "x.elm"
    settings = ef.smooth(max_error=0.01 * scale)
    if out:
        ef.fit(x, settings, out=path)
    else:
        ef.save(ef.fit(x, settings), path)
    assert np.abs(ef.load(path).samples() - x).max() <= 0.01 * scale
    ef.fit(x, ef.paper(width=20), out=path)
    assert np.isfinite(ef.load(path).samples()).all()


def test_whole_numbers_beyond_float64_are_told():
    x = 2**62 + np.arange(400).reshape(20, 20)
    for asked in ({"max_error": 1}, {"psnr": 40}):
        with pytest.raises(ValueError, match="whole numbers up to"):
            ef.fit(x, ef.smooth(**asked))
    with pytest.warns(UserWarning, match=r"differ from them by up to 4\.6e\+05"):
        ef.fit(x)


@pytest.mark.parametrize("psnr", [200, 240, 300])
def test_a_psnr_near_all_digits_is_reached(psnr):
    x = np.sin(np.arange(4096) / 40).reshape(64, 64)
    x[5, 5] = 1e3
    field = ef.fit(x, ef.smooth(psnr=psnr, overlap=4, cell=16))
    assert ef.psnr(x, field.samples()) >= psnr


def test_what_is_saved_can_be_loaded(tmp_path):
    x = np.asarray([[0, 1.0], [2, 1e300]])
    ef.save(ef.fit(x), tmp_path / "x.elm")
    np.testing.assert_allclose(ef.load(tmp_path / "x.elm").samples(), x, atol=1e287)


@pytest.mark.parametrize("order", [2, 3])
def test_close_points_are_met(order, rng):
    at, v = np.sort(rng.random(100))[:, None] * 99, rng.standard_normal(100)
    field = ef.fit_points(at, v, ef.smooth(order=order))
    assert np.abs(field(at) - v).max() <= 1e-4 * np.ptp(v)


def test_arguments_of_other_kinds_are_told():
    """Found by handing everything to everything."""
    x = np.sin(np.arange(600) / 9).reshape(20, 30)
    line, around = ef.fit(x[0]), ef.fit(x, periodic=0)
    for wrong in ("x", [], 3, x):
        with pytest.raises(TypeError, match="`partition` must come from beam"):
            ef.fit(x, partition=wrong)
    with pytest.raises(ValueError, match="`order` must be"):
        ef.smooth(order=[])
    with pytest.raises(ef.OutsideDomainError):
        around([np.inf, 1.0])
    assert np.isnan(around([np.inf, 1.0], outside="nan"))
    with pytest.raises(ValueError, match="one line of coordinates"):
        line.grid([[]])
    with pytest.raises(ValueError, match="whole numbers of at least 1"):
        line.resize(1e300)
    kept = ef.fit(x, ef.paper(width=30))
    assert ef.psnr(kept.samples(), kept.keep(psnr=5000).samples()) > 250
    assert ef.max_error(kept.samples(), kept.keep(max_error=np.float32(0.5)).samples()) <= 0.5
    huge = np.full(60, 3.2e228)
    huge[4] = np.nan
    with pytest.raises(ValueError, match="squares of errors"):
        ef.fit(huge, ef.paper(width=35)).keep(psnr=20)
