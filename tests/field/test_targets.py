"""Error targets, truncation, denoising, the automatic order: the promises they make."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import elmfield as ef
from elmfield.field.coefficients.stored import Ragged
from elmfield.field.drop_modes import INDEX_BIT_COST
from elmfield.local.order import exponent
from support import coefficients_of, host, on_grid, wave


@pytest.fixture(scope="module")
def picture():
    from skimage.data import camera

    return camera()[::4, ::4].astype(float)  # 128 x 128


def stored(field):
    """What the field stores, its index included, in coefficients."""
    return field.model.n_coefficients + field.model.index_cost


def rough(seed, shape):
    """A field with structure on all scales, drawn from a seed."""
    rng = np.random.default_rng(seed)
    return np.cumsum(np.cumsum(rng.standard_normal(shape), axis=0), axis=-1)


@pytest.mark.parametrize("asked", [{"coefficients": 900}, {"per_region": 50}, {"psnr": 40}])
def test_gaps_are_still_known_where_fewer_coefficients_are_kept(picture, asked):
    y = picture.copy()
    y[20:24, 30:36] = np.nan
    kept = ef.fit(y, missing="nan").keep(**asked)
    assert np.array_equal(np.isnan(kept.samples()), np.isnan(y))


@pytest.mark.parametrize("overlap", [None, 0, 2])
@pytest.mark.parametrize("target", [30, 45, 60])
def test_a_psnr_is_reached_and_hardly_exceeded(picture, target, overlap):
    field = ef.fit(picture, ef.smooth(psnr=target, overlap=overlap))
    assert target <= ef.psnr(picture, field.samples()) <= target + 0.5


def test_a_psnr_is_reached_on_every_library(xp, picture):
    field = ef.fit(xp.asarray(picture), ef.smooth(psnr=38))
    assert 38 <= ef.psnr(picture, host(field.samples())) <= 38.5


@given(
    seed=st.integers(0, 2**16),
    shape=st.tuples(st.integers(1, 40), st.integers(1, 40)),
    part=st.floats(1e-4, 0.5),
    dtype=st.sampled_from(["float32", "float64"]),
    overlap=st.sampled_from([None, 0.0, 3.0]),
)
def test_a_largest_error_is_never_exceeded(seed, shape, part, dtype, overlap):
    values = rough(seed, shape).astype(dtype)
    bound = part * float(np.ptp(values)) or 1.0
    field = ef.fit(values, ef.smooth(max_error=bound, overlap=overlap, cell=12))
    assert ef.max_error(values, field.samples()) <= bound


def test_a_largest_error_holds_with_channels_gaps_and_periodic_axes(rng):
    values = rough(3, (40, 50))[..., None] * np.array([1.0, 100.0])
    values[10:14, 20:30] = np.nan
    field = ef.fit(values, ef.smooth(max_error=0.5), channel_axis=-1, periodic=[0])
    have = ~np.isnan(values)
    assert ef.max_error(values[have], field.samples()[have]) <= 0.5


def test_a_largest_error_includes_the_rounding_of_what_comes_back():
    # Kelvin in single precision: the answer's own rounding, 3e-5, is part of a bound of 1e-3.
    values = (280 + 5 * rough(7, (60, 60)) / 60).astype("float32")
    field = ef.fit(values, ef.smooth(max_error=1e-3))
    assert ef.max_error(values, field.samples()) <= 1e-3


def spiral(kind=1.0):
    angle = np.add.outer(np.arange(64) / 5, np.arange(64) / 7)
    return (50 * np.exp(1j * angle)).astype(np.result_type(kind, np.complex64))


@pytest.mark.thorough
@pytest.mark.parametrize("kind", ["float32", "float64"])
def test_complex_errors_stay_within_a_bound(kind):
    values = spiral(kind)
    field = ef.fit(values, ef.smooth(max_error=1.0))
    assert 0.5 < ef.max_error(values, field.samples()) <= 1
    later = ef.fit(values).keep(max_error=1.0)
    assert ef.max_error(values, later.samples()) <= 1 + 1e-4
    gone = np.random.default_rng(0).random(values.shape) < 0.1
    bands = np.stack([values, 3 * values[::-1]])
    field = ef.fit(bands, ef.smooth(max_error=1.0), mask=gone, channel_axis=0)
    assert ef.max_error(bands[:, ~gone], field.samples()[:, ~gone]) <= 1


@pytest.mark.parametrize("turn", [1, 1j, np.exp(0.7j)])
@pytest.mark.parametrize("overlap", [None, 2])
def test_complex_arrays_reach_a_psnr(turn, overlap):
    for values in (spiral(), rough(5, (60, 50)) * turn):
        field = ef.fit(values, ef.smooth(psnr=35, overlap=overlap))
        assert 35 <= ef.psnr(values, field.samples()) <= 35.5


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::elmfield.RankWarning")
@pytest.mark.parametrize("overlap", [0, 2])
def test_merged_regions_of_the_paper_keep_a_bound(overlap):
    values = rough(0, (60, 70))
    merged = ef.beam(values, cell=10, regions=10, overlap=overlap)
    full = ef.fit(values, ef.paper(width=300), partition=merged)
    few = full.keep(max_error=1.5)
    assert ef.max_error(full.samples(), few.samples()) <= 1.5
    assert overlap or few.model.n_coefficients < full.model.n_coefficients


def test_a_budget_is_kept_and_spent(picture):
    for budget in (500, 2000, 6000):
        field = ef.fit(picture, ef.smooth(coefficients=budget))
        assert 0.98 * budget <= stored(field) <= budget


def test_a_budget_spread_by_need_beats_the_same_number_everywhere(picture):
    even = ef.fit(picture, ef.smooth(per_region=40))
    spread = ef.fit(picture, ef.smooth(coefficients=int(stored(even))))
    assert ef.psnr(picture, spread.samples()) > ef.psnr(picture, even.samples()) + 1


def test_the_error_of_a_truncation_is_the_energy_it_drops(picture):
    # Without shared samples Parseval is an equality; 1e-9 is rounding of sums of 16384 squares.
    field = ef.fit(picture, ef.smooth(coefficients=3000))
    mse = np.mean((picture - field.samples()) ** 2)
    assert np.sum(field.model.residual) / picture.size == pytest.approx(mse, rel=1e-9)


def test_keep_keeps_the_strongest_of_every_region(picture):
    full = ef.fit(picture, ef.smooth(cell=16, overlap=0.5, context=0))
    few = full.keep(per_region=7)
    counts = few.model.blended.groups[0].coefficients.counts
    assert np.all(counts == 7)
    everything = coefficients_of(full.model.blended.groups[0])[5, :, 0]
    left = few.model.blended.groups[0].coefficients.take(np.array([5]))[0, :, 0]
    strongest = np.sort(np.abs(everything))[-7:]
    np.testing.assert_array_equal(np.sort(np.abs(left[left != 0])), strongest)


def test_coding_without_refitting_equals_a_fit_with_the_target(picture):
    full = ef.fit(picture)
    later, first = full.keep(psnr=40), ef.fit(picture, ef.smooth(psnr=40))
    assert np.array_equal(later.samples(), first.samples())
    assert later.n_bytes == first.n_bytes
    assert ef.max_error(picture, full.keep(max_error=2.0).samples()) <= 2.0


def test_truncation_without_refitting_equals_a_fit_with_the_target(picture):
    full = ef.fit(picture, ef.smooth(cell=16, overlap=0.5, context=0))
    later, first = full.keep(coefficients=3000), ef.fit(picture, ef.smooth(coefficients=3000))
    np.testing.assert_allclose(later.samples(), first.samples(), rtol=0, atol=1e-6)
    assert stored(later) == stored(first)


def test_truncated_fields_still_do_everything(picture):
    field = ef.fit(picture, ef.smooth(psnr=35))
    points = np.random.default_rng(0).uniform(10, 90, (40, 2))
    step = 1e-5
    for k in (0, 1):
        ahead, behind = points.copy(), points.copy()
        ahead[:, k] += step
        behind[:, k] -= step
        slope = (field(ahead) - field(behind)) / (2 * step)
        np.testing.assert_allclose(field.gradient(points)[:, k], slope, rtol=1e-4, atol=1e-3)
    part = field.crop((8, 8), (100, 90))
    np.testing.assert_allclose(part(points), field(points), rtol=0, atol=1e-9)
    np.testing.assert_allclose(
        field.resize((256, 256))[40, 50], field([19.75, 24.75]), rtol=0, atol=1e-9
    )


def test_ragged_coefficients_come_back_where_they_were(rng):
    c = rng.standard_normal((5, 12, 2))
    ranking = rng.permutation(12)
    kept = rng.random((5, 2, 12)) < 0.4
    kept[3] = False
    ragged = Ragged.keep(c, kept, ranking)
    dense = np.zeros_like(c)
    for g in range(5):
        for k in range(2):
            for rank in range(12):
                if kept[g, k, rank]:
                    dense[g, ranking[rank], k] = c[g, ranking[rank], k]
    np.testing.assert_array_equal(ragged.take(np.arange(5)), dense)
    np.testing.assert_array_equal(ragged.take(np.array([4, 1])), dense[[4, 1]])
    np.testing.assert_array_equal(ragged.rows(np.array([2, 3])).take(np.array([0])), dense[[2]])
    lengths = [[max(np.flatnonzero(k), default=-1) + 1 for k in g] for g in kept]
    assert ragged.index_bits == np.sum(lengths) + 16 * 10


def test_the_index_is_paid_for(picture):
    field = ef.fit(picture, ef.smooth(coefficients=3000))
    lengths = field.model.blended.groups[0].coefficients.lengths
    assert field.model.index_cost == INDEX_BIT_COST * (lengths.sum() + 16 * lengths.size)


def test_report_says_what_is_stored_and_how_well(picture):
    field = ef.fit(picture, ef.smooth(psnr=40))
    report = field.report(picture, heldout=31.5)
    assert 40 <= report["PSNR at the samples"] < 41
    assert report["PSNR held out"] == 31.5
    assert "PSNR held out 31.50 dB" in " ".join(str(report).split())
    assert report["coefficients per sample"] == pytest.approx(stored(field) / picture.size)
    assert field.error_map().shape == field.partition.n_cells
    assert "<table>" in field._repr_html_()


@pytest.mark.parametrize("level", [5.0, 25.0])
@pytest.mark.slow
def test_denoising_gains_and_beats_wavelets(level):
    from skimage.data import camera
    from skimage.restoration import denoise_wavelet

    fine = camera()[100:276, 150:326].astype(float)  # as photographed, not thinned out
    noisy = fine + level * np.random.default_rng(1).standard_normal(fine.shape)
    wavelet = 255 * denoise_wavelet(noisy / 255, rescale_sigma=True)
    for denoise in (True, level):
        clean = ef.fit(noisy, ef.smooth(denoise=denoise)).samples()
        assert ef.psnr(fine, clean) > ef.psnr(fine, noisy) + 1
        assert ef.psnr(fine, clean) > ef.psnr(fine, wavelet)


@pytest.mark.thorough
def test_what_denoising_took_off_is_in_the_error(picture):
    noisy = picture + 5 * np.random.default_rng(2).standard_normal(picture.shape)
    for noise in (True, 5.0):
        field = ef.fit(noisy, ef.smooth(denoise=noise, overlap=0, context=0, cell=16))
        # Without shared samples Parseval is an equality.
        mse = np.mean((noisy - field.samples()) ** 2)
        assert np.sum(field.model.residual) / noisy.size == pytest.approx(mse, rel=1e-9)


def test_denoising_leaves_a_clean_smooth_field_alone():
    values = on_grid(wave, (64, 64))
    field = ef.fit(values, ef.smooth(denoise=True, order=3))
    assert ef.psnr(values, field.samples()) > 60


@pytest.mark.parametrize("true", [1.0, 1.5, 2.5])
def test_the_exponent_of_a_folded_power_law_is_found(true):
    omega = np.pi * np.arange(17) / 16
    images = np.abs(omega[:, None] + 2 * np.pi * np.arange(-400, 401))
    with np.errstate(divide="ignore"):
        power = np.sum(images ** (-2 * true), axis=1)
    assert exponent(power) == pytest.approx(true, abs=0.06)


def test_the_automatic_order_follows_the_samples():
    rng = np.random.default_rng(0)
    walks = np.cumsum(rng.standard_normal((200, 300)), axis=1)  # power falls as ω^-2: p = 1
    chosen = ef.fit(walks, ef.smooth(order="auto")).settings.order
    assert chosen[0] == 0.9  # white across the walks: the lowest there is
    assert chosen[1] == pytest.approx(0.05 + 1.3, abs=0.15)
    smooth = ef.fit(on_grid(wave, (60, 60)), ef.smooth(order="auto")).settings.order
    assert min(smooth) > 3


def test_the_automatic_order_pays_between_the_samples():
    values = on_grid(wave, (80, 80))
    usual = ef.heldout_score(values, ef.smooth(order=1.1), border=8)
    chosen = ef.heldout_score(values, border=8)
    assert chosen > usual + 20


def test_an_encoder_settles_the_order_once(rng):
    encode = ef.encoder((40, 40), ef.smooth(order="auto"))
    first = encode(on_grid(wave, (40, 40)))
    second = encode(rng.standard_normal((40, 40)))
    assert second.settings.order == first.settings.order


def test_scattered_samples_choose_an_order_by_leaving_one_out(rng):
    x = rng.random((400, 2))
    smooth = ef.fit_points(x, np.sin(3 * x[:, 0]) * x[:, 1], ef.smooth(order="auto"))
    noise = ef.fit_points(x, rng.standard_normal(400), ef.smooth(order="auto"))
    assert smooth.settings.order > noise.settings.order


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"coefficients": 5}, "at least one per region and channel, 64; got 5"),
        ({"psnr": 30, "per_region": 3}, "only one of .* can be asked for; got psnr, per_region"),
        ({"psnr": -3}, "`psnr` must be a positive number; got -3"),
        ({"psnr": float("nan")}, "`psnr` must be a positive number"),
        ({"max_error": 0}, "`max_error` must be a positive number; got 0"),
        ({"per_region": 1.5}, "`per_region` must be a whole number; got 1.5"),
        ({"per_region": "many"}, "`per_region` must be a positive number; got 'many'"),
        ({"context": 1.5}, "`context` must be a whole number of at least 0"),
        ({"denoise": -1.0}, "`denoise` must be True, False, 'poisson' for counts, or the noise's"),
        ({"denoise": True, "psnr": 30}, "`denoise` and `psnr` cannot be asked for together"),
        ({"order": "best"}, "`order` must be 'auto' or a number"),
    ],
)
def test_impossible_targets_are_refused_with_the_nearest_that_can_be_had(picture, asked, message):
    with pytest.raises(ValueError, match=message):
        ef.fit(picture, ef.smooth(**asked))


def test_truncation_wants_one_target_and_a_footprint(picture, rng):
    field = ef.fit(picture)
    with pytest.raises(ValueError, match="exactly one of psnr, max_error, bits"):
        field.keep()
    scattered = ef.fit_points(rng.random((50, 2)), rng.random(50))
    with pytest.raises(TypeError, match="scattered samples keeps all its coefficients"):
        scattered.keep(psnr=30)
    with pytest.raises(TypeError, match="own product layer and no error target"):
        ef.fit_points(rng.random((50, 2)), rng.random(50), ef.smooth(psnr=30))


@pytest.mark.parametrize("asked", [{"psnr": 35}, {"coefficients": 3000}], ids=str)
def test_what_is_lost_twice_adds_up(picture, asked):
    first = ef.fit(picture, ef.smooth(psnr=50))
    second = first.keep(**asked)
    whole = ef.fit(picture).keep(**asked)
    both = np.hypot(first.model.evidence.coding, whole.model.evidence.coding)
    assert second.model.evidence.coding == pytest.approx(both, rel=0.1)
    assert second.crop([2, 2], [9, 9]).model.evidence.coding == second.model.evidence.coding
