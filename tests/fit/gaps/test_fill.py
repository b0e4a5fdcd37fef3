import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import elmfield as ef
from elmfield.fit.gaps.fill import fill_missing, rounding_of
from elmfield.fit.gaps.gap_boxes import gaussian_members, solve_boxes
from oracles import beliefs as oracle
from support import EPS, close, host, inside, on_grid, on_samples, wave

SEEDS = st.integers(0, 2**32 - 1)


def gaps(rng, shape, share):
    missing = rng.random(shape) < share
    missing.flat[0] = False  # something must be there
    return missing


@given(
    shape=st.sampled_from([(50,), (1,), (2, 3), (33, 20), (1, 40), (9, 8, 7), (4, 3, 4, 3)]),
    share=st.floats(0, 0.999),
    seed=SEEDS,
    periodic=st.booleans(),
)
@pytest.mark.slow
def test_what_is_present_is_met_and_the_rest_is_bounded(shape, share, seed, periodic):
    rng = np.random.default_rng(seed)
    values = rng.standard_normal(shape)
    missing = gaps(rng, shape, share)
    axes = tuple(range(len(shape))) if periodic else ()
    field = ef.fit(np.where(missing, np.nan, values), periodic=axes)
    found = on_samples(field)
    close(found[~missing], values[~missing], 1e-9)
    # Least energy does not overshoot far: a few times the range of what it goes through.
    spread = np.ptp(values[~missing]) + 1
    assert np.all(np.abs(found - values[~missing].mean()) < 3 * spread)
    assert np.isfinite(field(inside(rng, shape, 20))).all()


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("order", [1.1, 2.0])
def test_a_smooth_function_is_found_in_its_gaps(share, order, rng):
    truth = on_grid(wave, (70, 60))
    missing = gaps(rng, truth.shape, share)
    field = ef.fit(np.where(missing, np.nan, truth), ef.smooth(order=order))
    # With a tenth of the samples left they are 3 apart: (0.3 · 3)² / 8 of the amplitude and more.
    error = np.abs(on_samples(field) - truth)[missing]
    lines = 3 if order < 1.5 else 1  # order 1.1 joins samples by nearly straight lines
    assert np.sqrt(np.mean(error**2)) < lines * {0.1: 3e-3, 0.5: 1e-2, 0.9: 6e-2}[share]


def test_a_hole_of_two_thirds_of_a_wave_is_filled():
    truth = on_grid(wave, (60, 60))
    hole = np.zeros(truth.shape, bool)
    hole[22:34, 25:37] = True
    assert np.abs(on_samples(ef.fit(truth, mask=hole)) - truth)[hole].max() < 0.25


def test_edges_go_on_through_gaps(rng):
    i, j = np.indices((64, 64)) - 31.5
    truth = np.tanh(0.8 * i + 0.6 * j)
    missing = gaps(rng, truth.shape, 0.5)
    error = np.abs(on_samples(ef.fit(truth, mask=missing)) - truth)[missing]
    assert np.sqrt(np.mean(error**2)) < 0.02  # isotropic boxes leave 0.05


@pytest.mark.parametrize("share", [0.3, 0.7])
@pytest.mark.parametrize("settings", [ef.paper(), ef.smooth(order=1.1)], ids=["paper", "smooth"])
def test_the_order_of_filling_suits_a_photograph(share, settings):
    """Neighbours of the chosen order, 0.3 away, do worse; orders above it are those asked for."""
    picture = pytest.importorskip("skimage.data").camera()[100:180, 150:230, None].astype(float)
    gone = np.random.default_rng(0).random(picture.shape) < share
    order = settings.fill_order
    filled = [
        fill_missing(np.where(gone, 0, picture), ~gone, (False, False), o)
        for o in (order - 0.3, order, order + 0.3)
    ]
    below, chosen, above = (ef.psnr(picture[gone], f[gone]) for f in filled)
    assert chosen > max(below, above)
    assert ef.smooth(order=3).fill_order == 3


def test_a_constant_fills_with_itself(xp):
    values = np.full((40, 30), 7.25)
    values[5:38, 3:25] = np.nan
    close(on_samples(ef.fit(xp.asarray(values))), 7.25, 64 * EPS)


def test_periodic_gaps_are_filled_from_the_other_side():
    n = 64
    truth = np.cos(2 * np.pi * np.arange(n) / n)
    missing = np.zeros(n, bool)
    missing[[0, 1, 2, 62, 63]] = True
    error = [
        np.abs(
            on_samples(ef.fit(truth, ef.smooth(order=2), mask=missing, periodic=p)) - truth
        ).max()
        for p in ([0], [])
    ]
    assert error[0] < 0.01
    assert error[0] < error[1] / 3


@pytest.mark.parametrize("share", [0.2, 0.8])
def test_boxes_are_filled_as_written_out(share, xp, rng):
    members = gaussian_members((8, 8), (2.0,), True)
    Y = rng.standard_normal((6, 64, 1)).cumsum(1)
    M = ~np.stack([gaps(rng, 64, share) for _ in range(6)])
    who = np.tile(np.array([0, 3, 17]), (6, 1))
    said, e = solve_boxes(members.moved(xp.asarray(Y)), *map(xp.asarray, (Y, M, who)))
    said, e = host(said), host(e)
    for g in range(6):
        for b, k in enumerate(who[g]):
            wanted, evidence = oracle.filled(members.covariances[k], Y[g, :, 0], M[g])
            # A level of variance 1e3 and a nugget of 1e-4: seven digits of sixteen are lost.
            close(np.where(M[g], Y[g, :, 0], said[g, b, :, 0]), wanted, 1e-6 * np.ptp(Y))
            close(e[g, b], evidence, 1e-4)


def test_all_libraries_fill_alike(xp, rng):
    values = rng.standard_normal((30, 21)).cumsum(0)
    present = ~gaps(rng, values.shape, 0.4)
    given = (np.where(present, values, 0.0)[..., None], present[..., None])
    wanted = fill_missing(*given, (False, True))
    found = host(fill_missing(*map(xp.asarray, given), (False, True)))
    close(found, wanted, 1e-9 * np.ptp(values))
    assert np.array_equal(found[present], values[present][:, None])


@pytest.mark.thorough
def test_a_mirrored_array_is_filled_as_the_mirror_image(rng):
    values = rng.standard_normal((37, 50)).cumsum(0).cumsum(1)
    present = ~gaps(rng, values.shape, 0.5)
    given = (np.where(present, values, 0.0)[..., None], present[..., None])
    wanted = fill_missing(*given, (False, False))
    for way in ((slice(None, None, -1),), (slice(None), slice(None, None, -1))):
        found = fill_missing(*(a[way] for a in given), (False, False))
        close(found[way], wanted, 1e-7 * np.ptp(values))


# Of the range; docs/method.md says so. Slopes are held back, most where samples are on one side.
@pytest.mark.parametrize(("share", "bound"), [(0.3, 5e-4), (0.7, 3e-3), (None, 0.05)])
def test_planes_are_nearly_filled_as_planes(share, bound, rng):
    values = on_grid(lambda x: 2 * x[..., 0] + 3 * x[..., 1], (64, 64))
    missing = np.zeros(values.shape, bool)
    if share is None:
        missing[:, -14:] = True
    else:
        missing = gaps(rng, values.shape, share)
    filled = on_samples(ef.fit(values, mask=missing))
    error = np.abs(filled - values)[missing].max() / np.ptp(values)
    assert error < bound


# --- ways to say that a sample is missing ------------------------------------------------------


@pytest.mark.thorough
def test_nan_mask_and_masked_array_are_one(xp, rng):
    values = rng.standard_normal((21, 17))
    missing = gaps(rng, values.shape, 0.2)
    expected = on_samples(ef.fit(np.where(missing, np.nan, values)))
    close(on_samples(ef.fit(xp.asarray(values), mask=xp.asarray(missing))), expected, 1e-10)
    close(on_samples(ef.fit(xp.asarray(values), mask=missing)), expected, 1e-10)
    assert np.array_equal(on_samples(ef.fit(np.ma.masked_array(values, missing))), expected)
    both = np.ma.masked_array(values, missing & (np.arange(17) < 9))
    assert np.array_equal(on_samples(ef.fit(both, mask=missing)), expected)


def test_what_lies_under_a_mask_does_not_matter(rng):
    values = rng.standard_normal((12, 12))
    missing = gaps(rng, values.shape, 0.2)
    expected = on_samples(ef.fit(values, mask=missing))
    for junk in (np.inf, -1e30, np.nan, 9.96921e36):
        spoilt = np.where(missing, junk, values)
        assert np.array_equal(on_samples(ef.fit(spoilt, mask=missing)), expected)
    assert np.isfinite(ef.fit(np.ma.masked_invalid(np.where(missing, np.inf, values)))([1, 1]))


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_a_mask_has_the_shape_of_the_array_or_lacks_its_channels(xp, axis, rng):
    values = np.moveaxis(rng.standard_normal((14, 13, 2)), -1, axis)
    each = gaps(rng, values.shape, 0.2)
    own = ef.fit(xp.asarray(values), mask=xp.asarray(each), channel_axis=axis)
    by_nan = ef.fit(np.where(each, np.nan, values), channel_axis=axis)
    close(on_samples(own), on_samples(by_nan), 1e-10)
    shared = each.any(axis=axis)
    found = ef.fit(xp.asarray(values), mask=shared, channel_axis=axis)
    expected = ef.fit(
        values, mask=np.broadcast_to(np.expand_dims(shared, axis), each.shape), channel_axis=axis
    )
    close(on_samples(found), on_samples(expected), 1e-10)
    masked = np.ma.masked_array(values, each)
    both = ef.fit(masked, mask=shared, channel_axis=axis)
    close(on_samples(both), on_samples(expected), 1e-10)


def test_a_complex_sample_is_missing_as_a_whole(rng):
    values = rng.standard_normal((15, 15)) + 1j * rng.standard_normal((15, 15))
    half = values.copy()
    half[3, 4] = complex(1.0, np.nan)
    gap = np.zeros((15, 15), bool)
    gap[3, 4] = True
    assert np.array_equal(on_samples(ef.fit(half)), on_samples(ef.fit(values, mask=gap)))


def test_channels_may_miss_different_samples(rng):
    values = rng.standard_normal((18, 16, 2))
    missing = gaps(rng, values.shape, 0.3)
    both = on_samples(ef.fit(values, mask=missing, channel_axis=-1))
    for k in range(2):
        alone = on_samples(ef.fit(values[..., k], mask=missing[..., k]))
        close(both[..., k], alone, 1e-9)  # kernels of condition 1e6, solved in other batches


def test_a_fit_with_gaps_is_linear_too(rng):
    f, g = rng.standard_normal((2, 20, 20))
    missing = gaps(rng, (20, 20), 0.3)
    encode = ef.encoder((20, 20), ef.smooth(order=1.1))
    one, two = on_samples(encode(f, mask=missing)), on_samples(encode(g, mask=missing))
    # The mean is taken of what is present, so that constants are reproduced; it is linear as well.
    close(on_samples(encode(2 * f - 3 * g, mask=missing)), 2 * one - 3 * two, 1e-9)


# --- the paper's least squares with gaps -------------------------------------------------------


def test_the_paper_s_fit_uses_what_is_present(xp, rng):
    values = rng.standard_normal((16, 16))
    missing = gaps(rng, values.shape, 0.3)
    settings = ef.paper(cell=8, width=9, frequencies=2, activation="cos")
    field = ef.fit(xp.asarray(values), settings, mask=missing)
    t = np.linspace(-1, 1, 8)
    at = np.stack(np.meshgrid(t, t, indexing="ij"), axis=-1).reshape(-1, 2)
    H = settings.network(at)
    for region, (a, b) in enumerate([(0, 0), (0, 8), (8, 0), (8, 8)]):
        have = ~missing[a : a + 8, b : b + 8].ravel()
        y = values[a : a + 8, b : b + 8].ravel()
        alpha = np.linalg.lstsq(H[have], y[have], rcond=1e-10)[0]
        close(field.weights(region), alpha, 1e-8 * np.abs(alpha).max())


def test_a_region_without_any_sample_is_filled_from_its_neighbours():
    truth = on_grid(wave, (24, 24))
    missing = np.zeros(truth.shape, bool)
    missing[8:16, 8:16] = True
    field = ef.fit(truth, ef.paper(cell=8, width=30), mask=missing)
    assert np.abs(on_samples(field) - truth)[missing].max() < 0.3


@pytest.mark.slow
@pytest.mark.parametrize("share", [0.3, 0.7])
@pytest.mark.parametrize("kind", [np.uint8, float])
def test_flat_areas_do_not_spoil_what_is_beside_them(share, kind):
    """A saturated sky above a rough ground: a trace of noise makes no difference to the fill."""
    rng = np.random.default_rng(3)
    y, x = np.mgrid[:64, :64]
    picture = 128 + 50 * np.sin(0.5 * x + 0.3 * y) + 20 * np.sin(1.3 * x - 0.9 * y)
    picture = np.where(y < 32 + 4 * np.sin(x / 5), 255, picture).astype(kind).astype(float)
    gone = rng.random(picture.shape) < share
    missed = []
    for noise in (0.0, 1.0):
        noisy = picture + noise * rng.uniform(-0.5, 0.5, picture.shape)
        field = ef.fit(np.where(gone, np.nan, noisy))
        missed.append(np.sqrt(np.mean((field.samples() - picture)[gone] ** 2)))
    assert missed[0] < 1.1 * missed[1]


def test_what_samples_were_rounded_by(rng):
    smooth = rng.standard_normal((5000, 1))
    assert rounding_of(smooth) < 1e-12
    assert rounding_of(np.round(smooth, 2)) == pytest.approx(0.01 / 12**0.5, rel=1e-3)
    flat = np.where(rng.random((5000, 1)) < 0.2, 3.0, smooth)
    assert rounding_of(flat) == pytest.approx(1e-3 * np.ptp(flat))
    assert rounding_of(np.zeros((0, 2))) == 0


class TestPolynomials:
    def cubic(self, shape, rng):
        """A random polynomial of degree 3 along each axis, as a function of places (n, d)."""
        c, letters = rng.standard_normal((4,) * len(shape)), "abc"[: len(shape)]
        rows = ",".join("n" + a for a in letters)

        def value(x):
            powers = (x[:, k, None] / (n - 1) for k, n in enumerate(shape))
            return np.einsum(f"{letters},{rows}->n", c, *(p ** np.arange(4) for p in powers))

        at = np.stack(np.indices(shape), axis=-1).reshape(-1, len(shape))
        return value, value(at).reshape(shape)

    @pytest.mark.parametrize("shape", [(40,), (30, 24), (12, 13, 14)], ids=str)
    @pytest.mark.parametrize(
        "settings",
        [ef.smooth(), ef.oriented(), ef.smooth(order=4), ef.oriented(order=4)],
        ids=["smooth", "oriented", "smooth 4", "oriented 4"],
    )
    def test_cubics_are_exact_with_samples_missing(self, shape, settings, rng):
        value, y = self.cubic(shape, rng)
        field = ef.fit(np.where(gaps(rng, shape, 0.3), np.nan, y), settings)
        x = inside(rng, shape, 100)
        close(field(x), value(x), 1e-11 * np.ptp(y))

    def test_lower_orders_are_filled_as_before(self, rng):
        _, y = self.cubic((40,), rng)
        field = ef.fit(np.where(gaps(rng, (40,), 0.3), np.nan, y), ef.smooth(order=1.5))
        assert np.abs(field.samples() - y).max() > 1e-6 * np.ptp(y)

    def test_a_given_order_is_linear_in_rough_and_smooth_parts(self, rng):
        _, y = self.cubic((30, 24), rng)
        rough = rng.standard_normal(y.shape)
        missing = gaps(rng, y.shape, 0.3)
        both, one, other = (
            ef.fit(np.where(missing, np.nan, part), ef.smooth(order=4)).samples()
            for part in (y + rough, y, rough)
        )
        close(both, one + other, 1e-9)

    def test_torch_follows_them(self, rng):
        torch = pytest.importorskip("torch")
        y, step = (torch.tensor(rng.standard_normal(40)) for _ in range(2))
        missing, at = torch.zeros(40, dtype=bool), torch.tensor([[20.3]], dtype=torch.float64)
        missing[[5, 9, 20, 21]] = True

        def value(samples):
            return ef.fit(torch.where(missing, torch.nan, samples), ef.smooth(order=4))(at)[0]

        (slope,) = torch.autograd.grad(value(y.requires_grad_(True)), y)
        rise = (value(y + step) - value(y)).detach()  # the fit is linear
        close((slope * step)[~missing].sum(), rise, 1e-11 * float(abs(rise)))
