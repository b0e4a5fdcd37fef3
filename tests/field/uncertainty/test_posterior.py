"""How sure fields are: standard deviations, covariances, draws."""

from dataclasses import replace

import numpy as np
import pytest

import elmfield as ef
from elmfield import observe as ob
from elmfield.field.uncertainty.lattice import Lattice
from elmfield.field.uncertainty.neighbours import Neighbours
from elmfield.field.uncertainty.priors import Calibration, Prior
from oracles.kriging import krige
from support import Lazy, close

RNG = np.random.default_rng(5)


def rough(shape, power, seed=0):
    """A random array whose increments grow as a power of distance."""
    rng = np.random.default_rng(seed)
    wide = [2 * n for n in shape]
    k = np.meshgrid(*(np.fft.fftfreq(n) for n in wide), indexing="ij")
    r = np.sqrt(sum(q**2 for q in k))
    r.flat[0] = np.inf
    noise = np.fft.fftn(rng.standard_normal(wide)) * r ** (-(power + len(shape)) / 2)
    return np.fft.ifftn(noise).real[tuple(slice(0, n) for n in shape)]


PICTURE = rough((48, 56), 1.5)


GAPS = np.where(RNG.uniform(size=PICTURE.shape) < 0.4, np.nan, PICTURE)
WHERE = RNG.uniform(0, 30, (400, 2))
NOISY = np.sin(WHERE[:, 0] / 3) + 0.1 * RNG.standard_normal(400)
BOX = ((0, 0), (30, 30))

FIELDS = Lazy(
    {
        "smooth": lambda: ef.fit(PICTURE),
        "oriented": lambda: ef.fit(PICTURE, ef.oriented()),
        "gaps": lambda: ef.fit(GAPS),
        "denoised": lambda: ef.fit(PICTURE, ef.smooth(denoise=True)),
        "means": lambda: ef.fit(PICTURE, samples="means"),
        "periodic": lambda: ef.fit(PICTURE, periodic=(1,)),
        "noisy gaps": lambda: ef.fit(GAPS, ef.smooth(denoise=True)),
        "channels": lambda: ef.fit(np.stack([PICTURE, 3 * PICTURE], -1), channel_axis=-1),
        "complex": lambda: ef.fit(PICTURE + 2j * PICTURE),
        "coded": lambda: ef.fit(PICTURE, ef.smooth(psnr=40)),
        "narrow": lambda: ef.fit(PICTURE.astype(np.float32)),
        "scattered": lambda: ef.fit_points(WHERE, np.sin(WHERE[:, 0] / 3), bounds=BOX),
        "noisy scattered": lambda: ef.fit_points(WHERE, NOISY, bounds=BOX, denoise=True),
        "dense": lambda: ef.fit(PICTURE, ef.paper(cell=8, width=32)),
        "ridge": lambda: ef.fit(GAPS, ef.paper(cell=8, width=64, ridge=1.0, layers="own")),
        "smooth dense": lambda: ef.fit(
            PICTURE, ef.smooth(network=ef.paper(width=100).network, cell=8)
        ),
        "line": lambda: ef.fit(rough((200,), 1.5)),
        "volume": lambda: ef.fit(rough((14, 12, 13), 2.0)),
    }
)
"""A field of every kind that has a posterior."""


def inside(field, n=20, seed=1):
    low, high = (np.asarray(c) for c in (field.domain.low, field.domain.high))
    x = np.random.default_rng(seed).uniform(low, high, (n, len(low)))
    return np.stack([a.from_index(x[:, k]) for k, a in enumerate(field.domain.axes)], axis=1)


@pytest.mark.parametrize("kind", FIELDS)
class TestEveryPosterior:
    @pytest.mark.slow
    def test_std_is_positive_and_shaped_like_values(self, kind):
        field = FIELDS[kind]
        x = inside(field).reshape(4, 5, -1)
        found = field.std(x)
        assert found.shape == field(x).shape
        assert np.isfinite(found).all()
        assert (found > 0).all()
        assert found.dtype.kind == "f"

    @pytest.mark.thorough
    def test_grids_equal_points(self, kind):
        field = FIELDS[kind]
        x = inside(field, 3)
        on = np.asarray(field.grid(*x.T, quantity="std"))
        at = np.stack(np.meshgrid(*x.T, indexing="ij"), axis=-1)
        assert np.allclose(on, field.std(at), rtol=1e-5)

    def test_is_continuous(self, kind):
        # Across regions, samples, and changes of neighbours: no jump on a fine line.
        field = FIELDS[kind]
        low, high = (np.asarray(c, float) for c in (field.domain.low, field.domain.high))
        t = np.linspace(0.2, 0.21, 801)[:, None]
        index = low + (high - low) * (t * np.linspace(1, 1.7, len(low)) + 0.1)
        x = np.stack([a.from_index(index[:, k]) for k, a in enumerate(field.domain.axes)], axis=1)
        s = np.asarray(field.std(x)).reshape(801, -1) ** 2
        steps = np.abs(np.diff(s, axis=0)).max(axis=0)
        assert (steps < 0.05 * s.max(axis=0)).all()

    @pytest.mark.slow
    def test_scale_and_file(self, kind, tmp_path):
        field = FIELDS[kind]
        x = inside(field, 4)
        ef.save(field, tmp_path / "a.elm")
        found = ef.load(tmp_path / "a.elm").std(x)
        assert np.allclose(found, field.std(x), rtol=1e-4)

    def test_derivatives_have_deviations(self, kind):
        field = FIELDS[kind]
        x = inside(field, 3)
        slope, bend = field.std(x, quantity="gradient"), field.std(x, quantity="laplacian")
        assert slope.shape == field.gradient(x).shape
        assert bend.shape == field.laplacian(x).shape
        assert (slope > 0).all()
        assert (bend > 0).all()

    def test_draws_have_the_deviation(self, kind):
        field = FIELDS[kind]
        if kind == "complex":
            with pytest.raises(TypeError, match="Fit real and imaginary parts"):
                field.draw(3, inside(field, 2))
            return
        centre = inside(field, 1)
        x = centre + 0.4 * RNG.standard_normal((5, centre.shape[1]))
        low, high = (np.asarray(c, float) for c in (field.domain.low, field.domain.high))
        ends = zip(field.domain.axes, low, high)
        ends = [np.sort(a.from_index(np.asarray(e))) for a, *e in ends]
        x = np.clip(x, *np.transpose(ends))
        drawn = np.asarray(field.draw(1000, x, seed=3))
        # 1000 draws tell a deviation to 1 / sqrt(2000): four and a half times that.
        assert np.allclose(drawn.std(axis=0), field.std(x), rtol=0.1, atol=1e-6)
        assert np.array_equal(drawn, np.asarray(field.draw(1000, x, seed=3)))


SMALL = PICTURE[:9, :11]
SMALL_GAPS = np.where(RNG.uniform(size=SMALL.shape) < 0.3, np.nan, SMALL)
SOME, VALUES = RNG.uniform(0, 6, (20, 2)), RNG.standard_normal(20)
DRAWN = Lazy(
    {
        "plain": lambda: ef.fit(SMALL),
        "noisy": lambda: ef.fit(SMALL, ef.smooth(denoise=0.3 * float(np.std(SMALL)))),
        "gaps": lambda: ef.fit(SMALL_GAPS),
        "periodic": lambda: ef.fit(SMALL, periodic=(1,)),
        "means": lambda: ef.fit(SMALL, samples="means"),
        "channels": lambda: ef.fit(np.stack([SMALL, SMALL**2]), channel_axis=0),
        "complex": lambda: ef.fit(SMALL + 1j * SMALL[::-1]),
        "line": lambda: ef.fit(PICTURE[0], coords=[np.linspace(3, 9, 56)]),
        "narrow": lambda: ef.fit(SMALL[:, :1]),
        "observed": lambda: ef.fit_observations([ob.values(SOME, VALUES)], shape=(7, 7)),
        "scattered": lambda: FIELDS["noisy scattered"].crop([0, 0], [30, 30]),
    }
)


@pytest.mark.slow
@pytest.mark.parametrize("kind", DRAWN)
def test_drawn_fields_have_the_deviation(kind):
    field = DRAWN[kind]
    drawn = field.draw(400, seed=2)
    own = drawn[0].domain
    assert own.dims == field.domain.dims
    assert own.periodic == field.domain.periodic
    at = [a.coords for a in own.axes]
    found = np.stack([np.asarray(f.samples()) for f in drawn])
    s, mean = (np.asarray(field.grid(*at, quantity=q, missing="fill", antialias=False))
               for q in ("std", "value"))  # fmt: skip
    # 400 draws tell a deviation to 1 / sqrt(800), a mean to 1 / sqrt(400): five times that.
    known = s > 1e-6 * s.max()
    ratio = found.std(axis=0)[known] / s[known]
    assert ratio.mean() == pytest.approx(1, abs=0.05)
    assert (np.abs(ratio - 1) < (0.5 if kind == "scattered" else 0.18)).all()
    assert (np.abs(found.mean(axis=0) - mean) < 0.25 * s + 1e-6).all()
    again = field.draw(1, seed=2)[0]
    first = again.samples()[(..., *(0,) * len(at))]
    assert np.allclose(again([a[0] for a in at]), first)
    assert np.array_equal(again.samples(), field.draw(1, seed=2)[0].samples())
    assert not np.array_equal(again.samples(), drawn[1].samples())


@pytest.mark.slow
def test_drawn_fields_vary_together_as_points_do():
    field, x = DRAWN["plain"], np.array([[3.0, 4.0], [3.0, 5.0], [4.0, 5.0]]) + 1 / 3
    found = np.stack([f.samples()[tuple(np.rint(3 * x + 1).astype(int).T)]
                      for f in field.draw(2000, seed=0)])  # fmt: skip
    C = field.covariance(x)
    size = np.sqrt(np.diagonal(C))
    assert np.allclose(np.corrcoef(found.T), C / size / size[:, None], atol=0.1)


@pytest.mark.parametrize("kind", ["smooth", "oriented", "gaps", "periodic", "line", "scattered"])
def test_is_zero_at_samples_and_grows_away_from_them(kind):
    field = FIELDS[kind]
    if kind == "scattered":
        at = field.model.posterior.inner.x[:5]
        at = np.stack([a.from_index(at[:, k]) for k, a in enumerate(field.domain.axes)], axis=1)
        assert (field.std(at) == 0).all()
        return
    at = np.argwhere(np.isfinite(field.samples(missing="nan")))[7:12].astype(float)
    assert (field.std(at, missing="fill") == 0).all()
    if kind != "gaps":
        near, far = (field.std(at + off) for off in (0.1, 0.5))
        assert (near > 0).all()
        assert (far > near).all()


@pytest.mark.thorough
def test_grows_into_gaps_and_beyond_the_border():
    y = PICTURE.copy()
    y[20:30, 20:30] = np.nan
    field = ef.fit(y)
    s = field.std([[20.0, 25.0], [22.0, 25.0], [25.0, 25.0]])
    assert 0 < s[0] < s[1] < s[2]
    edge = ef.fit(PICTURE).std([[0.0, 20.5], [-0.5, 20.5], [10.5, 20.5]])
    assert edge[1] > edge[0]
    assert edge[1] > edge[2]


@pytest.mark.parametrize("power", [0.7, 1.5, 3.0, 4.6])
def test_prior_is_universal_kriging(power):
    t, x = RNG.uniform(0, 6, (40, 2)), RNG.uniform(1, 5, (6, 2))
    weights, C = krige(t, x, power, noise=0.01)
    found = Prior(power, np.ones(2)).joint(x, t, 0.01)
    assert np.allclose(found, C, rtol=1e-4, atol=1e-7 * np.abs(C).max())
    own, variances = Prior(power, np.ones(2)).told(x, t, 0.01)
    assert np.allclose(own, weights, atol=1e-5)
    assert np.allclose(variances, np.diagonal(C), 1e-4)


def test_lattice_is_kriging_of_the_whole_array():
    # Far samples add next to nothing; beyond a corner a box of 8 by 8 leaves out 2 %.
    lattice = Lattice(
        shape=(20, 20), periodic=(False, False), read=None, prior=Prior(1.5, np.ones(2))
    )
    t = np.indices((20, 20)).reshape(2, -1).T.astype(float)
    x = np.array([[9.5, 9.5], [9.0, 9.5], [0.5, 7.5], [-0.5, 3.25], [19.3, 19.4]])
    exact = np.diagonal(krige(t, x, 1.5)[1])
    u = np.stack([lattice._folded(k, x[:, k]) for k in range(2)], axis=1)
    assert np.allclose(lattice._told(u)[1], exact, rtol=0.02)


def test_what_differs_from_the_process_adds_to_errors_or_explains_them():
    # A function 3 above the process's own estimate in the middle of one cell.
    inner, at = FIELDS["smooth"].model.posterior.inner, np.array([[20.5, 20.5]])
    plain = replace(inner, values=None)
    own = plain.variance(at)[0, 0]

    def values(x):
        found = inner.values(x)
        return found + 3 * (x[0] == 20.5)[:, None, None] * (x[1] == 20.5)[:, None]

    before = inner.variance(at)[0, 0] - own  # what it differs by as it is
    found = replace(inner, values=values).variance(at)[0, 0] - own
    assert found == pytest.approx(9, abs=6 * before**0.5 + before)
    less = replace(inner, values=values, chooses=True).variance(at)[0, 0]
    assert less == pytest.approx(own**2 / (own + found), rel=1e-6)
    far = np.array([[10.5, 10.5]])
    assert np.allclose(replace(inner, values=values).variance(far), inner.variance(far))


def test_members_of_a_mixture_add_their_spread():
    # On the samples of one region's box, with the weights and functions of all its energies.
    from elmfield.local import energies

    field = FIELDS["oriented"]
    inner, blended = field.model.posterior.inner, field.model.blended
    region = int(np.argmin(np.abs(blended.centres - 20).sum(axis=1)))
    row, chosen = int(blended.group_of[1][region]), blended.groups[0].coefficients
    u = np.array([0.5, -0.5])
    at = blended.centres[region] + u
    beliefs, start = chosen.beliefs, (blended.centres[region] - 3).astype(int)
    box = PICTURE[tuple(slice(a, a + 7) for a in start)] / float(field.model.scale[0])
    p = chosen.energy_weights(np.array([row]))[0]
    F = energies.kernels_of(beliefs.waves, (7, 7), beliefs.spectra, u[None]) @ beliefs.Q
    each = ((F + energies.affine_at((7, 7), u[None]) @ beliefs.rest) @ box.ravel())[:, 0]
    expected = p @ (each - p @ each) ** 2
    assert chosen.member_spread(np.array([row]), u[None])[0, 0, 0] == pytest.approx(expected)
    assert inner.spread([at[:1], at[1:]])[0, 0, 0] == pytest.approx(expected)
    more = inner.variance(at[None]) - replace(inner, spread=None).variance(at[None])
    assert more[0, 0] == pytest.approx(expected, rel=1e-3)
    assert (field.std(np.indices((4, 4)).reshape(2, -1).T + 20.0) == 0).all()
    assert FIELDS["smooth"].model.posterior.inner.spread is None


@pytest.mark.parametrize("shape", [(60,), (40, 36), (14, 1, 15), (13, 12, 11)])
def test_spread_turns_with_the_array(shape):
    y, settings = rough(shape, 1.2, seed=3), ef.oriented(order=1.3)
    field, back = ef.fit(y, settings), ef.fit(y.T[::-1], settings)
    at = [np.arange(n - 1) + 0.5 for n in shape if n > 1]
    s, turned = (f.model.posterior.inner.spread for f in (field, back))
    s, turned = s(at)[..., 0], turned(at[::-1])[..., 0]
    assert (s > 0).all()
    assert np.allclose(s, turned[::-1].T * float(back.model.scale[0] / field.model.scale[0]) ** 2)


@pytest.mark.slow
def test_a_small_gap_changes_deviations_far_from_it_little():
    y = rough((48, 44), 1.3, seed=7)
    field, holed = ef.fit(y), ef.fit(np.where(np.arange(y.size).reshape(y.shape) == 99, np.nan, y))
    assert holed.model.posterior.inner.prior.power == pytest.approx(
        field.model.posterior.inner.prior.power, rel=0.05
    )
    x = RNG.uniform(12, 40, (300, 2))
    assert np.median(holed.std(x) / field.std(x)) == pytest.approx(1, abs=0.1)
    whole = np.ones(y.shape, bool)
    s = [f.means(mask=whole, quantity="std", missing="fill") for f in (field, holed)]
    assert s[1] == pytest.approx(s[0], rel=0.15)


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind", ["smooth", "oriented", "gaps", "means", "noisy scattered", "dense"]
)
def test_a_thousand_draws_agree_with_deviations_between_samples(kind):
    # Counted: a deviation of 1000 draws errs by 1 / sqrt(2000) of itself.
    field, rng = FIELDS[kind], np.random.default_rng(6)
    z = []
    for _ in range(12):
        x = inside(field, 1, seed=int(rng.integers(1000))) + rng.uniform(-1, 1, (10, 2))
        x = np.clip(x, 0.2, 29.3)
        drawn = field.draw(1000, x, seed=int(rng.integers(1000)))
        z.append((drawn.std(axis=0) / field.std(x) - 1) * np.sqrt(2000))
        assert np.abs(drawn.mean(axis=0) - field(x)).max() < 5 * field.std(x).max() / 1000**0.5
    assert 0.8 < np.std(z) < 1.25
    assert np.mean(np.abs(z) < 1.645) == pytest.approx(0.9, abs=0.08)


@pytest.mark.slow
def test_masks_of_observed_fields_need_no_matrix_of_places():
    field = ef.fit_observations([ob.values(SOME, VALUES)], shape=(120, 110))
    mask = np.zeros(field.shape, bool)
    mask[1:6, 2:6] = True
    box = field.integral([0.5, 1.5], [5.5, 5.5], quantity="std")
    assert field.integral(mask=mask, quantity="std") == pytest.approx(box, rel=0.01)
    assert field.means(mask=np.ones(field.shape, bool), quantity="std") > 0


@pytest.mark.parametrize("power", [1.5, 3.0])
def test_power_and_intervals_are_found(power):
    y = rough((160, 160), power, seed=2)
    field = ef.fit(y[::2, ::2])
    at = np.indices((150, 150)).reshape(2, -1).T / 2
    truth, s = y[:150, :150].reshape(-1), field.std(at)
    between = (at % 1 != 0).any(axis=1)
    error = np.abs(field(at) - truth)[between]
    assert abs(field.model.posterior.inner.prior.power - power) < 0.2
    assert 0.85 < np.mean(error < 1.645 * s[between]) < 0.95
    assert field.report()["left-out samples inside 50, 90, 99 %"][1] == pytest.approx(0.9, abs=1e-3)


@pytest.mark.slow
def test_what_differs_in_gaps_from_what_the_process_allows_adds_to_errors():
    y = rough((40, 40), 4.6, seed=4)
    gone = np.random.default_rng(0).uniform(size=y.shape) < 0.5
    field = ef.fit(np.where(gone, np.nan, y))
    error = np.abs(field.samples(missing="fill") - y)[gone] / float(field.model.scale[0])
    inner, held = field.model.posterior.inner, []
    for part in (inner, replace(inner, values=None)):
        s = np.sqrt(part.variance(np.argwhere(gone).astype(float))[:, 0])
        held.append(np.mean(error < 1.645 * s))
    assert 0.8 < held[0] < 0.96
    assert held[1] < held[0] - 0.05


def test_noisy_points_are_an_exact_process():
    # A process of power 3 with noise, all of it known: deviations of the exact posterior.
    rng = np.random.default_rng(1)
    t, x = rng.uniform(0, 20, (500, 2)), rng.uniform(5, 15, (30, 2))
    near = Neighbours(
        x=t, y=np.zeros((500, 1)), periods=np.full(2, np.inf), prior=Prior(3.0, np.ones(2)),
        noise=0.05, amplitude=np.ones(1),
    )  # fmt: skip
    exact = np.diagonal(krige(t, x, 3.0, noise=0.05)[1])
    assert np.allclose(near.variance(x)[:, 0], exact, rtol=0.03)
    assert np.allclose(np.diagonal(near.joint(x)), exact, rtol=0.03)


@pytest.mark.thorough
def test_bins_of_noisy_points_are_as_sure_as_their_samples():
    rng = np.random.default_rng(0)
    x, at = rng.uniform(0, 24, (600, 2)), rng.uniform(4, 20, (40, 2))
    every = Neighbours(
        x=x, y=rng.standard_normal((600, 1)), periods=np.full(2, np.inf), amplitude=np.ones(1),
        prior=Prior(1.2, np.ones(2)), noise=300.0 / np.repeat([0.5, 1.5], 300),
    )  # fmt: skip
    bins = every.binned()
    assert len(bins.x) < 0.3 * len(x)
    total = 1 / every.noise
    close(np.sum(1 / bins.noise), total.sum(), 1e-12)
    close((bins.y / bins.noise[:, None]).sum(axis=0), total @ every.y, 1e-9)
    every.__dict__["asked"] = 600
    close(bins.variance(at) / every.variance(at), 1, 0.1)
    few = replace(every, noise=1.0)
    assert few.binned() is few


@pytest.mark.thorough
def test_weights_of_points_are_their_own_noise(tmp_path):
    # Surer samples on one side: deviations of the process with the noise of each.
    rng = np.random.default_rng(4)
    x = rng.uniform(0, 20, (500, 2))
    weights = np.where(x[:, 0] < 10, 16.0, 1.0)
    y = np.sin(x[:, 0] / 3) * np.cos(x[:, 1] / 4) + rng.standard_normal(500) * 0.4 / weights**0.5
    field = ef.fit_points(x, y, bounds=((0, 0), (20, 20)), denoise=0.4, weights=weights)
    at = np.stack(np.meshgrid([4.0, 16.0], np.linspace(4, 16, 7), indexing="ij"), axis=-1)
    s, inner = field.std(at), field.model.posterior.inner
    assert s[0].mean() < 0.6 * s[1].mean()
    index = np.stack([a.to_index(at[..., k]) for k, a in enumerate(field.domain.axes)], axis=-1)
    exact = np.diagonal(krige(inner.x, index.reshape(-1, 2), inner.prior.power, inner.noise)[1])
    assert np.allclose(s.ravel(), exact**0.5 * inner.amplitude * field.model.scale, rtol=0.03)
    ef.save(field, tmp_path / "a.elm")
    assert np.allclose(ef.load(tmp_path / "a.elm").std(at), s, rtol=1e-4)
    part = field.crop([1, 1], [19, 19])
    assert np.allclose(part.std(at), s, rtol=0.05)
    ef.save(part, tmp_path / "b.elm")
    assert np.allclose(ef.load(tmp_path / "b.elm").std(at), part.std(at), rtol=1e-4)
    error = np.abs(field(at) - np.sin(at[..., 0] / 3) * np.cos(at[..., 1] / 4))
    assert (error < 4 * s).all()


@pytest.mark.thorough
def test_mean_and_integral_are_those_of_the_exact_process():
    rng = np.random.default_rng(2)
    where = rng.uniform(0, 20, (400, 2))
    values = np.cos(where[:, 0] / 4) + 0.2 * rng.standard_normal(400)
    field = ef.fit_points(where, values, bounds=((0, 0), (20, 20)), denoise=True)
    inner = field.model.posterior.inner
    low, high = np.array([6.0, 7.0]), np.array([12.0, 11.0])
    m = 24
    axes = [a + (b - a) * (np.arange(m) + 0.5) / m for a, b in zip(low, high)]
    x = np.stack(np.meshgrid(*axes, indexing="ij"), -1).reshape(-1, 2)
    index = np.stack([a.to_index(x[:, k]) for k, a in enumerate(field.domain.axes)], axis=1)
    exact = krige(inner.x, index, inner.prior.power, inner.noise)[1].mean() ** 0.5
    exact *= inner.amplitude[0] * float(field.model.scale[0])
    found = field.means([low[0], high[0]], [low[1], high[1]], quantity="std")[0, 0]
    assert found == pytest.approx(exact, rel=0.02)
    assert field.integral(low, high, quantity="std") == pytest.approx(found * 24, rel=1e-9)


@pytest.mark.parametrize(
    "kind", ["smooth", "gaps", "denoised", "channels", "dense", "noisy scattered"]
)
def test_masks_have_the_deviation_of_boxes(kind):
    field = FIELDS[kind]
    mask = np.zeros(field.shape, bool)
    mask[3:9, 4:12] = True
    low, high = (np.stack([a.from_index(e) for a, e in zip(field.domain.axes, ends)])
                 for ends in ((2.5, 3.5), (8.5, 11.5)))  # fmt: skip
    box = field.integral(low, high, quantity="std")
    assert np.allclose(field.integral(mask=mask, quantity="std"), box, rtol=0.06)
    mean = field.means(mask=mask, quantity="std", missing="fill")
    assert np.allclose(mean, box / np.prod(high - low), rtol=0.06)


def test_a_sum_over_a_mask_is_that_of_its_covariances():
    field, mask = DRAWN["plain"], np.zeros((9, 11), bool)
    mask[[2, 3, 3, 6], [4, 4, 5, 9]] = True
    near = (np.stack(np.meshgrid(*[np.arange(3)] * 2, indexing="ij"), -1).reshape(-1, 2) - 1) / 3
    x = (np.argwhere(mask)[:, None] + near).reshape(-1, 2)
    inner = field.model.posterior.inner
    a = inner.amplitudes(x)[:, 0] * float(field.model.scale[0]) / 9
    t, stretch = np.argwhere(np.ones((9, 11))), inner.prior.stretch
    exact = np.sqrt(a @ krige(t * stretch, x * stretch, inner.prior.power)[1] @ a)
    assert field.integral(mask=mask, quantity="std") == pytest.approx(exact, rel=0.02)


def test_slopes_on_uneven_axes_are_of_positions():
    t = np.arange(48.0)
    field = ef.fit(PICTURE, coords=[t + t**2 / 60, np.arange(56.0)])
    i = np.array([[10.3, 20.5], [40.6, 9.4]])
    found = field.std(np.stack([i[:, 0] + i[:, 0] ** 2 / 60, i[:, 1]], 1), quantity="gradient")
    own = FIELDS["smooth"].std(i, quantity="gradient")
    assert np.allclose(found[:, 0], own[:, 0] / (1 + i[:, 0] / 30), rtol=0.1)
    with pytest.raises(TypeError, match="Laplacians need axes of even steps"):
        field.std([[3.0, 3.0]], quantity="laplacian")


@pytest.mark.slow
def test_mean_of_white_noise_falls_as_one_by_root_n():
    field = ef.fit(np.random.default_rng(3).standard_normal((64, 64)))
    sides = np.array([4, 8, 16, 32])
    s = [float(field.means([8, 8 + n], [8, 8 + n], quantity="std")[0, 0]) for n in sides]
    slope = np.polyfit(np.log(sides**2), np.log(s), 1)[0]
    assert slope == pytest.approx(-0.5, abs=0.06)


def test_sum_of_values_has_the_deviation_of_its_weights():
    field = FIELDS["smooth"]
    x = inside(field, 1) + RNG.uniform(-1, 1, (6, 2))
    x = np.clip(x, 0, 40)
    w = RNG.standard_normal(6)
    sums = field.draw(4000, x, seed=0) @ w
    assert sums.std() == pytest.approx(np.sqrt(w @ field.covariance(x) @ w), rel=0.06)


def test_covariances_of_smooth_data_are_no_rounding():
    # A power of 7: covariances among far places have no digits, and must stay within bounds.
    y = np.sin(np.add.outer(np.arange(40.0) / 6, np.arange(30.0) / 5))
    field, x = ef.fit(y), RNG.uniform(0, 29, (8, 2))
    C, s = field.covariance(x), field.std(x)
    assert np.allclose(np.sqrt(np.diagonal(C)), s)
    assert (np.abs(C) <= 1.0001 * s * s[:, None]).all()


def test_covariances_over_wide_boxes_are_no_rounding():
    # An inverse left eigenvalues of -1e7 here, beside a largest of 1e3, and means of 0 and 1e4.
    t = RNG.uniform(0, 20, (300, 2))
    x = np.stack(np.meshgrid(*[np.linspace(2, 18, 14)] * 2, indexing="ij"), -1).reshape(-1, 2)
    C = Prior(7.0, np.ones(2)).joint(x, t)
    g = np.linalg.eigvalsh((C + C.T) / 2)
    assert g[0] > -1e-6 * g[-1]
    mean = np.full(len(x), 1 / len(x))
    assert 0 < mean @ C @ mean < np.diagonal(C).mean()


def test_coding_adds_its_error():
    field = FIELDS["smooth"].keep(max_error=0.05 * float(np.ptp(PICTURE)))
    at = np.array([[10.0, 10.0], [20.0, 30.0]])
    assert (field.std(at) > 0).all()
    assert (field.std(at) <= 0.05 * float(np.ptp(PICTURE))).all()
    assert (field.std(at + 0.5) > FIELDS["smooth"].std(at + 0.5)).all()


@pytest.mark.slow
def test_xarray_has_a_second_variable():
    xarray = pytest.importorskip("xarray")
    about = {"units": "K", "standard_name": "air_temperature"}
    array = xarray.DataArray(PICTURE, dims=("y", "x"), name="t2m", attrs=about)
    found = ef.fit(array).to_xarray({"y": [3.5, 4.0]}, std=True)
    assert list(found.data_vars) == ["t2m", "t2m_std"]
    told = found["t2m_std"].attrs
    assert told["standard_name"] == "air_temperature standard_error"
    assert told["units"] == "K"
    assert found["t2m"].attrs["ancillary_variables"] == "t2m_std"
    grid = ef.regrid(ef.fit(array), grid=(4, 4), mean=True, quantity="std")
    assert grid.shape == (4, 4)
    assert (grid.values > 0).all()


def test_plot_draws_a_band():
    pyplot = pytest.importorskip("matplotlib.pyplot")
    pytest.importorskip("xarray")
    _figure, ax = pyplot.subplots()
    FIELDS["line"].plot(std=True, ax=ax)
    assert len(ax.collections) == 1
    with pytest.raises(ValueError, match="band around a line"):
        FIELDS["smooth"].plot(std=True)
    pyplot.close("all")


ASKS = {
    "std": lambda f, x: f.std(x),
    "gradient": lambda f, x: f.std(x, quantity="gradient"),
    "laplacian": lambda f, x: f.std(x, quantity="laplacian"),
    "covariance": lambda f, x: f.covariance(x),
    "draw": lambda f, x: f.draw(2, x, seed=1),
    "drawn field": lambda f, x: f.draw(1, seed=1)[0](x),
    "grid": lambda f, x: f.grid([2.3, 4.0], [4.2], quantity="std"),
    "resize": lambda f, x: f.resize((9, 8), quantity="std"),
    "means": lambda f, x: f.means([2, 6], [3, 8], quantity="std"),
    "integral": lambda f, x: f.integral([2, 3], [6, 8], quantity="std"),
    "mask": lambda f, x: f.means(mask=np.ones(f.shape, bool), quantity="std"),
}
TENSOR_FITS = {
    "smooth": lambda y: ef.fit(y),
    "oriented": lambda y: ef.fit(y, ef.oriented()),
    "noise": lambda y: ef.fit(y, ef.smooth(denoise=0.3)),
    "dense": lambda y: ef.fit(y, ef.paper(width=40, cell=16, ridge=0.3)),
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fit", "ask"),
    [
        *(("smooth", ask) for ask in ASKS),
        *((fit, ask) for fit in TENSOR_FITS if fit != "smooth" for ask in ("gradient", "draw")),
        *(("oriented", "grid"), ("noise", "means"), ("dense", "integral"), ("dense", "covariance")),
    ],
)
def test_results_live_where_the_field_lives(fit, ask):
    torch = pytest.importorskip("torch")
    y, x = rough((24, 20), 2.0, seed=8), np.array([[3.3, 4.4], [10.1, 17.7]])
    expected = np.asarray(ASKS[ask](TENSOR_FITS[fit](y), x))
    found = ASKS[ask](TENSOR_FITS[fit](torch.as_tensor(y)), torch.as_tensor(x))
    assert isinstance(found, torch.Tensor)
    assert found.shape == expected.shape
    close = {"rtol": 1e-4, "atol": 1e-6 * np.abs(expected).max()}
    assert np.allclose(found.numpy(), expected, **close)


@pytest.mark.parametrize("level", [True, 0.5])
def test_noise_left_differs_from_place_to_place(level):
    # Flat on one side, rough on the other. Where it is flat the mean of all counts for a part.
    rng = np.random.default_rng(4)
    clean = np.where(np.arange(96) < 48, 0.0, 3 * rough((96, 96), 1.0, seed=9))
    field = ef.fit(clean + 0.5 * rng.standard_normal(clean.shape), ef.smooth(denoise=level))
    s = field.grid(*map(np.arange, clean.shape), quantity="std")
    error = np.abs(field.samples() - clean)
    for part in (np.s_[:, 4:40], np.s_[:, 56:92]):
        assert 0.75 < np.sqrt(np.mean(s[part] ** 2) / np.mean(error[part] ** 2)) < 2.6
        assert np.mean(error[part] < 1.645 * s[part]) > 0.8
    assert s[:, 4:40].mean() < 0.6 * s[:, 56:92].mean()


@pytest.mark.thorough
def test_noise_left_of_parts_and_channels():
    y = np.stack([rough((40, 36), 2.0, seed=k) for k in range(2)], axis=-1)
    field = ef.fit(y, ef.smooth(denoise=[0.2, 0.4]), channel_axis=-1)
    x = np.array([[20.3, 12.1], [25.5, 30.2]])
    assert np.allclose(field.crop([10, 5], [30, 32]).std(x), field.std(x))
    assert np.allclose(field[1].std(x), field.std(x)[:, 1])


@pytest.mark.slow
def test_fields_drawn_from_dense_layers_spread_as_their_std():
    field = ef.fit(rough((30, 26), 2.0, seed=8), ef.paper(width=40, cell=16, ridge=0.3))
    x = np.random.default_rng(1).uniform(2, 22, (100, 2))
    values = np.array([f(x) for f in field.draw(300, seed=1)])
    assert np.median(values.std(axis=0) / field.std(x)) == pytest.approx(1, abs=0.06)
    # Drawn fields are smooth between three places a sample, where the layer bends more.
    assert np.median(np.abs((values.mean(axis=0) - field(x)) / field.std(x))) < 0.2


def test_dense_layers_are_bayesian_regression():
    # One region of few neurons: the posterior of its weights, and what they leave over.
    y = rough((12, 11), 2.0, seed=3)
    for settings in (ef.paper(width=40), ef.paper(width=60, ridge=0.3)):
        field = ef.fit(y, settings)
        network, ridge = field.model.blended.groups[0].model.network, settings.ridge
        t = np.stack(np.meshgrid(*(np.linspace(-1, 1, n) for n in y.shape), indexing="ij"), -1)
        H, x = network(t.reshape(-1, 2)), np.array([[3.0, 4.0], [7.3, 5.0]])
        A = np.linalg.inv(H.T @ H + ridge * np.eye(H.shape[1]))
        left = np.sum((y - field.samples()) ** 2) / (H.shape[0] - np.trace(H @ A @ H.T))
        near = np.zeros((2, y.size))
        near[0, 3 * 11 + 4], near[1, [7 * 11 + 5, 8 * 11 + 5]] = 1, np.sqrt([0.7, 0.3])
        h = network(2 * x / (np.array(y.shape) - 1) - 1)
        parts = np.hstack([near - h @ A @ H.T, ridge**0.5 * h @ A])
        assert np.allclose(field.std(x), np.sqrt(left * np.sum(parts**2, axis=1)), rtol=1e-5)


@pytest.mark.thorough
@pytest.mark.parametrize(
    "settings", [ef.paper(cell=16, width=96), ef.paper(cell=8, width=64, ridge=3.0)]
)
def test_intervals_of_dense_layers_hold(settings):
    y = rough((128, 128), 2.0, seed=6)
    field, at = ef.fit(y[::2, ::2], settings), np.arange(125) / 2
    error, s = field.grid(at, at) - y[:125, :125], field.grid(at, at, quantity="std")
    assert 0.8 < np.mean(np.abs(error) < 1.645 * s) < 0.95


def test_what_has_no_deviation_says_why():
    dense = ef.fit(PICTURE, ef.paper(cell=8, width=64))
    with pytest.raises(TypeError, match=r"random layer.*Fit with smooth"):
        dense.std([1.5, 1.5])
    with pytest.raises(TypeError, match=r"left over"):
        FIELDS["dense"].crop([4, 4], [20, 20]).std([5, 5])
    clear = ef.fit(np.ones((8, 8, 4)), channel_axis=-1)
    assert clear.std([1.5, 1.5]).shape == (4,)
    field = FIELDS["smooth"]
    with pytest.raises(ValueError, match=r"must be one of.*hessian"):
        field.std([1.0, 1.0], quantity="hessian")
    with pytest.raises(ValueError, match="at least 1; got 0"):
        field.draw(0, [[1.0, 1.0]])
    with pytest.raises(ValueError, match="4096 points at most"):
        field.draw(1, np.zeros((5000, 2)))
    with pytest.raises(ValueError, match="small sets of places"):
        ef.fit(np.zeros((80, 80))).covariance([[0.0, 0.0], [79.0, 79.0]])
    with pytest.raises(ValueError, match=r"shape \(n, d\)"):
        field.covariance([1.0, 1.0])
    with pytest.raises(ValueError, match="`std` is of values"):
        field.interp(quantity="gradient", std=True)


@pytest.mark.parametrize("shape", [(1,), (2,), (3, 1), (2, 3), (5, 5, 5), (3, 3, 3, 3)])
def test_few_samples(shape):
    y = np.random.default_rng(0).standard_normal(shape)
    field = ef.fit(y)
    at = (np.asarray(shape) - 1) / 2
    assert np.isfinite(field.std(at))
    assert np.isfinite(field.std(at, quantity="gradient")).all()
    assert field.std(np.zeros(len(shape))) == pytest.approx(0, abs=1e-6)


@pytest.mark.thorough
def test_report_tells_calibration_whatever_was_asked_before():
    for field in (ef.fit(PICTURE), ef.fit(GAPS), ef.fit(PICTURE, ef.oriented())):
        shares = field.report()["left-out samples inside 50, 90, 99 %"]
        assert shares[1] == pytest.approx(0.9, abs=0.01)
        field.std([3.5, 3.5])
        assert field.report()["left-out samples inside 50, 90, 99 %"] == shares


def test_constants_are_sure():
    assert (ef.fit(np.full((20, 20), 7.0)).std([[3.5, 4.5]]) == 0).all()
    assert Calibration.of(np.zeros(10)) == Calibration()


def test_large_arrays_are_read_in_parts(monkeypatch):
    from elmfield.field.uncertainty import lattice, priors

    y = rough((90, 80), 1.2, seed=4)
    whole, x = ef.fit(y), np.random.default_rng(0).uniform(0, 79, (30, 2))
    expected = whole.std(x)
    monkeypatch.setattr(lattice, "KEPT_RESIDUALS", 100)
    assert np.allclose(ef.fit(y).std(x), expected)
    monkeypatch.setattr(priors, "PROBE_SAMPLES", 2000)
    assert np.allclose(ef.fit(y).std(x), expected, rtol=0.5)
