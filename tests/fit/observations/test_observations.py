"""Fits to observations: rows of every kind, their adjoints, what is kept, and what is refused."""

from itertools import pairwise

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from scipy.sparse.linalg import LinearOperator

import elmfield as ef
from elmfield import observe as ob
from elmfield.domain import make_domain
from elmfield.fit.observations.one_region import model_of, rows_of
from elmfield.fit.observations.rows import sample_maps

UNIT = ((0, 0), (1, 1))
ZEROS = np.zeros(80)
RNG = np.random.default_rng(0)
POINTS, OTHERS = RNG.random((80, 2)), RNG.random((60, 2))
LOW = 0.7 * RNG.random((40, 2))
HIGH = LOW + 0.05 + 0.2 * RNG.random((40, 2))


def wave(p):
    return np.sin(5 * p[:, 0] + 2 * p[:, 1]) + p[:, 1]


def slope(p):
    return 5 * np.cos(5 * p[:, 0] + 2 * p[:, 1])


def fit(*observations, **options):
    return ef.fit_observations(list(observations), **options)


def rms(x):
    return float(np.sqrt(np.mean(np.asarray(x) ** 2)))


KERNEL = np.outer([1.0, 2, 1], [1.0, 3, 1])
KINDS = {
    "values": lambda y, s: ob.values(s * POINTS, y),
    "derivatives": lambda y, s: ob.derivatives(s * POINTS, y, order=(1, 0)),
    "second derivatives": lambda y, s: ob.derivatives(s * POINTS, y, order=(0, 2)),
    "means": lambda y, s: ob.means(s * LOW, s * HIGH, y),
    "lines": lambda y, s: ob.lines(s * POINTS[:40], s * POINTS[40:], y),
    "gaussian": lambda y, s: ob.blurred(s * POINTS, y, psf=ob.gaussian(0.03)),
    "kernel": lambda y, s: ob.blurred(s * POINTS, y, psf=KERNEL, step=0.02),
    "varying": lambda y, s: ob.blurred(
        s * POINTS, y, psf=lambda x: (np.zeros((len(x), 1, 2)), x[:, :1])
    ),
    "equation": lambda y, s: ob.equation(s * POINTS, {(2, 0): 1, (0, 1): POINTS[:, 0]}, y),
}
ROWS = {"means": 40, "lines": 40}


def by_hand(kind, f):
    """What a field itself says about the rows of a kind, by its own queries."""
    s, w = np.polynomial.legendre.leggauss(60)
    if kind == "values":
        return f(POINTS)
    if kind == "derivatives":
        return f.gradient(POINTS)[:, 0]
    if kind == "second derivatives":
        return f.hessian(POINTS)[:, 1, 1]
    if kind == "means":
        return np.array([f.integral(a, b) / np.prod(b - a) for a, b in zip(LOW, HIGH)])
    if kind == "lines":
        a, b = POINTS[:40], POINTS[40:]
        at = a[:, None] + (b - a)[:, None] * (1 + s[:, None]) / 2
        return f(at) @ (w / 2) * np.linalg.norm(b - a, axis=1)
    if kind == "varying":
        return f(POINTS) * POINTS[:, 0]
    if kind == "equation":
        return f.hessian(POINTS)[:, 0, 0] + POINTS[:, 0] * f.gradient(POINTS)[:, 1]
    o = 0.02 * (np.indices((3, 3)).reshape(2, -1).T - 1) if kind == "kernel" else None
    weights = KERNEL.ravel()
    if kind == "gaussian":
        line = 0.015 * np.arange(-9, 10)
        o = np.stack(np.meshgrid(line, line, indexing="ij"), -1).reshape(-1, 2)
        weights = np.exp(-(o**2).sum(1) / 2 / 0.03**2)
        weights /= weights.sum()
    return f(POINTS[:, None] + o, outside="nearest") @ weights


@pytest.fixture(scope="module")
def interior():
    """Rows whose kernels stay inside."""
    return np.all((POINTS > 0.14) & (POINTS < 0.86), axis=1)


@pytest.fixture(scope="module")
def exact():
    return ef.fit_observations([ob.values(POINTS, wave(POINTS), noise=0)], bounds=UNIT)


class TestEveryKindOfRows:
    @pytest.mark.slow
    @pytest.mark.parametrize("kind", KINDS)
    def test_of_one_region_are_what_its_field_says(self, kind, exact, interior):
        # The rows of a function and the queries of its field are two codes for one number.
        field = exact
        n = ROWS.get(kind, 80)
        rows = rows_of(field.domain, model_of(field.domain, 1))
        c = field.model.blended.groups[0].coefficients.values[0]
        found = (rows.matrix(KINDS[kind](np.zeros(n), 1), 1) @ c)[:, 0]
        own = interior if kind in ("gaussian", "kernel") else slice(None)
        expected = by_hand(kind, field)
        assert np.abs(found - expected)[own].max() < 1e-8 * np.abs(expected).max()

    @pytest.mark.parametrize("kind", KINDS)
    def test_of_samples_are_what_their_field_says(self, kind, interior):
        x = np.random.default_rng(1).standard_normal((30, 24))
        coords = [(np.arange(n) + 0.5) / n for n in x.shape]
        settings = ef.smooth(order=2.0, cell=6, overlap=1.0, context=1)
        field = ef.fit(x, settings, coords=coords)
        (own_map,) = sample_maps(
            [KINDS[kind](np.zeros(ROWS.get(kind, 80)), 1)], field.domain, settings
        )
        found, expected = own_map.matmat(x.reshape(-1, 1))[:, 0], by_hand(kind, field)
        own = interior if kind in ("gaussian", "kernel") else slice(None)
        # A line crosses kinks of third derivatives that its nodes do not know.
        limit = 1e-2 if kind == "lines" else 1e-8
        assert np.abs(found - expected)[own].max() < limit * np.abs(expected).max()

    @pytest.mark.parametrize("kind", [*KINDS, "grid", "matrix", "operator"])
    def test_of_samples_have_their_adjoint(self, kind):
        domain = make_domain((30, 24), dims=None, coords=None, periodic=(1,))
        scale = np.array([30, 24])
        A = np.random.default_rng(2).standard_normal((50, 720))
        special = {
            "grid": lambda: ob.blurred(
                np.stack(np.meshgrid(np.arange(10.0), np.arange(12.0), indexing="ij"), -1).reshape(
                    -1, 2
                ),
                np.zeros(120),
                psf=ob.gaussian(1.0),
            ),
            "matrix": lambda: ob.operator(csr_matrix(A), np.zeros(50)),
            "operator": lambda: ob.operator(
                LinearOperator(A.shape, matvec=lambda v: A @ v, rmatvec=lambda v: A.T @ v),
                np.zeros(50),
            ),
        }
        zeros = np.zeros(ROWS.get(kind, 80))
        made = special[kind]() if kind in special else KINDS[kind](zeros, scale - 2)
        (own,) = sample_maps([made], domain, ef.smooth(order=2.0, cell=6, overlap=1.0))
        rng = np.random.default_rng(3)
        u, v = rng.standard_normal((len(made), 2)), rng.standard_normal((720, 2))
        a, b = np.sum(own.matmat(v) * u), np.sum(own.rmatmat(u) * v)
        assert abs(a - b) <= 1e-12 * np.linalg.norm(own.matmat(v)) * np.linalg.norm(u)


class TestOneRegion:
    @pytest.mark.slow
    def test_slopes_tell_more_than_values_alone(self):
        x = POINTS[:60]
        values = ob.values(x, wave(x), noise=1e-3)
        slopes = ob.derivatives(x, slope(x), order=(1, 0), noise=1e-3)
        q = 0.05 + 0.9 * np.random.default_rng(5).random((300, 2))
        alone = ef.fit_observations([values], bounds=UNIT, spacing=0.07)
        both = ef.fit_observations([values, slopes], bounds=UNIT, spacing=0.07)
        assert rms(both(q) - wave(q)) < 0.8 * rms(alone(q) - wave(q)) < 0.01

    @pytest.mark.slow
    def test_uneven_means_are_kept(self):
        edges = np.cumsum([0, 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31.0])
        m = np.random.default_rng(0).standard_normal(12) + 280
        field = ef.fit_observations([ob.means(edges[:-1], edges[1:], m)], spacing=1)
        kept = [field.integral([a], [b]) / (b - a) for a, b in pairwise(edges)]
        np.testing.assert_allclose(kept, m, rtol=0, atol=1e-10)

    @pytest.mark.slow
    @pytest.mark.parametrize(("what", "n"), [("smooth", 40), ("rough", 150)])
    def test_means_over_random_boxes_are_kept(self, n, what):
        # 150 rough ones need more detail than the basis in which the prior is searched first.
        rng = np.random.default_rng(n)
        low = 0.8 * rng.random((n, 2))
        high = low + 0.02 + 0.15 * rng.random((n, 2))
        m = wave((low + high) / 2) if what == "smooth" else rng.standard_normal(n)
        field = ef.fit_observations([ob.means(low, high, m)], bounds=UNIT, spacing=0.03)
        kept = [field.integral(a, b) / np.prod(b - a) for a, b in zip(low, high)]
        np.testing.assert_allclose(kept, m, rtol=0, atol=1e-10)

    def test_an_equation_and_its_boundary_are_solved(self):
        line = (1 - np.cos(np.pi * np.arange(24) / 23)) / 2
        p = np.stack(np.meshgrid(line, line, indexing="ij"), -1).reshape(-1, 2)
        edge = ((p < 1e-9) | (p > 1 - 1e-9)).any(1)
        u = lambda p: np.exp(p[:, 0]) * np.sin(3 * p[:, 1])  # noqa: E731
        field = ef.fit_observations(
            [
                ob.equation(p[~edge], {(2, 0): 1, (0, 2): 1, (0, 0): -10}, -18 * u(p[~edge])),
                ob.values(p[edge], u(p[edge]), noise=0),
            ],
            bounds=UNIT,
            shape=(18, 18),
        )
        assert np.abs(field(OTHERS) - u(OTHERS)).max() < 1e-9

    @pytest.mark.slow
    def test_a_law_is_no_data(self):
        # Two hundred zeros that nobody measured must not make the function small.
        rng = np.random.default_rng(0)
        u = lambda p: np.sin(6 * (p[:, 0] - 0.7 * p[:, 1]))  # noqa: E731
        x = rng.random((40, 2))
        seen = ob.values(x, u(x) + 0.05 * rng.standard_normal(40), noise=0.05)
        law = ob.equation(rng.random((200, 2)), {(0, 1): 1, (1, 0): 0.7})
        alone = ef.fit_observations([seen], bounds=UNIT, shape=(15, 15))
        both = ef.fit_observations([seen, law], bounds=UNIT, shape=(15, 15))
        q = rng.random((400, 2))
        assert rms(both(q) - u(q)) < 0.5 * rms(alone(q) - u(q))

    @pytest.mark.slow
    def test_a_flow_without_divergence(self):
        rng = np.random.default_rng(0)
        x, law = rng.random((60, 2)), rng.random((80, 2))

        def flow(p):
            u, v = 3 * p[:, 0], 4 * p[:, 1]
            return np.stack([4 * np.sin(u) * np.cos(v), -3 * np.cos(u) * np.sin(v)], -1)

        seen = ob.values(x, flow(x) + 0.1 * rng.standard_normal((60, 2)), noise=0.1)
        field = ef.fit_observations([seen, ob.divergence(law)], bounds=UNIT, shape=(12, 12))
        for one in (field, *field.draw(1, seed=3)):  # a drawn one goes through samples of a grid
            G = one.gradient(law)
            least = 1e-8 if one is field else 1e-3
            assert np.abs(G[:, 0, 0] + G[:, 1, 1]).max() < least * np.abs(G).max()
        assert rms(field(OTHERS) - flow(OTHERS)) < 0.15

    @pytest.mark.slow
    def test_unknown_noise_is_found_and_intervals_hold(self):
        rng = np.random.default_rng(3)
        x, q = rng.random((250, 2)), rng.random((500, 2))
        y = wave(x) + 0.2 * rng.standard_normal(250)
        known, unknown = (
            ef.fit_observations([ob.values(x, y, noise=s)], bounds=UNIT, shape=(15, 15))
            for s in (0.2, None)
        )
        assert rms(unknown(q) - wave(q)) < 1.2 * rms(known(q) - wave(q)) < 0.1
        for field in (known, unknown):
            held = np.mean(np.abs(field(q) - wave(q)) < 1.645 * field.std(q))
            assert held > 0.75  # one draw: errors of neighbours go together

    @pytest.mark.slow
    def test_the_posterior_agrees_with_itself(self):
        field = ef.fit_observations([ob.values(POINTS, wave(POINTS), noise=0.1)], bounds=UNIT)
        posterior = field.model.observed
        x = field.domain.to_index(OTHERS[:5], "raise")[0]
        np.testing.assert_allclose(np.diag(posterior.joint(x)), posterior.variance(x)[:, 0])
        lines = [np.array([3.0, 9.0]), np.array([4.0])]
        expected = posterior.variance(np.array([[3.0, 4], [9, 4]]))[:, 0]
        np.testing.assert_allclose(posterior.on_grid(lines)[:, 0, 0], expected)
        half = posterior.amplitude * np.linalg.inv(posterior.solution.R)
        c = posterior.space.coefficients(posterior.solution.factors, half)  # whose products add up
        rows = posterior.rows.matrix(ob.values(OTHERS[:5], np.zeros(5)), 1) @ c
        np.testing.assert_allclose(rows @ rows.T, posterior.joint(x), rtol=1e-6)

    @pytest.mark.thorough
    def test_a_draw_is_one_function_however_many_points_ask(self):
        y = np.stack([wave(POINTS), -wave(POINTS)], 1)
        field = fit(ob.values(POINTS, y, noise=0.2), bounds=UNIT, shape=(70, 70))
        drawn = field.draw(40, OTHERS, seed=1)
        np.testing.assert_allclose(field.draw(2, OTHERS[:9], seed=1)[1], drawn[1, :9], atol=1e-9)
        np.testing.assert_allclose(field.draw(2, seed=1)[1](OTHERS), drawn[1], atol=1e-4)
        np.testing.assert_allclose(drawn.std(0), field.std(OTHERS), rtol=0.5)

    @pytest.mark.thorough
    def test_a_law_with_sources_leaves_the_noise_of_values_its_say(self):
        rng = np.random.default_rng(1)
        x, law = rng.random((15, 2)), rng.random((300, 2))
        y = np.sin(5 * x[:, 0]) + x[:, 1]
        field = fit(
            ob.values(x, y + 0.05 * rng.standard_normal(15)),
            ob.equation(law, {(2, 0): 1, (0, 2): 1}, -25 * np.sin(5 * law[:, 0])),
            bounds=UNIT, shape=(15, 15),
        )  # fmt: skip
        off = field(OTHERS) - np.sin(5 * OTHERS[:, 0]) - OTHERS[:, 1]
        assert rms(off) < 0.1
        assert 0.3 < rms(off / field.std(OTHERS)) < 3

    def test_a_periodic_axis_closes(self):
        x = np.linspace(0, 6.28, 30)
        field = ef.fit_observations(
            [ob.values(x, np.sin(x), noise=0.01)],
            bounds=((0,), (2 * np.pi,)), shape=(40,), periodic=(0,),
        )  # fmt: skip
        np.testing.assert_allclose(field([[0.0]]), field([[2 * np.pi]]), atol=1e-9)
        assert abs(field.gradient([[0.0]])[0, 0] - 1) < 0.05

    def test_it_is_an_ordinary_field(self, tmp_path):
        field = ef.fit_observations(
            [ob.values(POINTS, np.stack([wave(POINTS), -wave(POINTS)], 1), noise=0.01)],
            bounds=UNIT, spacing=0.1, dims=("y", "x"),
        )  # fmt: skip
        assert field.domain.dims == ("y", "x")
        assert field.resize((15, 15)).shape == (15, 15, 2)
        ef.save(field, tmp_path / "a.elm")
        np.testing.assert_allclose(ef.load(tmp_path / "a.elm")(OTHERS), field(OTHERS), atol=1e-12)
        np.testing.assert_allclose(field.tabulate(1e-8)(OTHERS), field(OTHERS), atol=1e-6)

    def test_torch_in_torch_out(self):
        torch = pytest.importorskip("torch")
        y = torch.tensor(wave(POINTS))
        field = fit(ob.values(torch.tensor(POINTS), y, noise=0.01), bounds=UNIT, shape=(12, 12))
        assert isinstance(field(torch.tensor(OTHERS)), torch.Tensor)
        values = ob.values(POINTS, wave(POINTS) + 1, noise=0.1)
        assert isinstance(fit(values, background=field)(OTHERS), np.ndarray)


def gridded(n):
    """The samples of a grid of n x n over the unit square."""
    return np.stack(np.meshgrid(*[(np.arange(n) + 0.5) / n] * 2, indexing="ij"), -1).reshape(-1, 2)


class TestSeveralInstruments:
    """Values, means and an operator of one wave, of 30 x 30 samples."""

    @pytest.fixture(scope="class")
    @classmethod
    def rows(cls):
        rng = np.random.default_rng(0)
        x, low = rng.random((300, 2)), 0.8 * rng.random((40, 2))
        high = low + 0.1 * (0.5 + rng.random((40, 2)))
        A = csr_matrix(rng.random((200, 900)) * (rng.random((200, 900)) < 0.02))
        s, w = np.polynomial.legendre.leggauss(6)
        at = np.stack(np.meshgrid(s, s, indexing="ij"), -1).reshape(-1, 2)
        f = wave((low[:, None] + (high - low)[:, None] * (1 + at) / 2).reshape(-1, 2))
        return {
            "values": ob.values(x, wave(x) + 0.1 * rng.standard_normal(300), noise=0.1),
            "precise": ob.values(x[:40], wave(x[:40]), noise=1e-4),
            "slopes": ob.derivatives(
                x, slope(x) + 0.1 * rng.standard_normal(300), order=(1, 0), noise=0.1
            ),
            "means": ob.means(low, high, f.reshape(40, -1) @ np.outer(w, w).ravel() / 4),
            "operator": ob.operator(
                A, A @ wave(gridded(30)) + 0.1 * rng.standard_normal(200), noise=0.1
            ),
        }

    @pytest.mark.slow
    @pytest.mark.parametrize("other", ["means", "precise"])
    def test_rows_of_little_noise_leave_the_others_their_say(self, rows, other):
        field = fit(rows["values"], rows[other], rows["operator"], bounds=UNIT, shape=(30, 30))
        assert rms(field(OTHERS) - wave(OTHERS)) < 0.05
        assert field.std(OTHERS).mean() < 0.05
        assert field.report()["rows are off by, rms"][1] < (1e-12 if other == "means" else 4e-3)

    @pytest.mark.slow
    def test_slopes_and_operators_go_together(self, rows):
        field = fit(
            *(rows[k] for k in ("values", "slopes", "operator")), bounds=UNIT, shape=(30, 30)
        )
        assert field.partition.n_regions == 1
        assert rms(field(OTHERS) - wave(OTHERS)) < 0.02
        report = field.report()
        np.testing.assert_allclose(report["noise of rows, rms"], 0.1)
        np.testing.assert_allclose(report["rows are off by, rms"], 0.1, rtol=0.15)
        assert 10 < report["rank of the rows beside the prior"] < 400
        assert report["condition of the solve"] > 1

    @pytest.mark.thorough
    def test_a_background_is_seen_by_operators(self, rows):
        wrong = np.exp(-20 * ((gridded(30) - 0.3) ** 2).sum(1))
        guess = (wave(gridded(30)) + wrong).reshape(30, 30)
        background = ef.fit(guess, ef.smooth(order=2.0), coords=[(np.arange(30) + 0.5) / 30] * 2)
        field = fit(rows["operator"], background=background)
        assert rms(field(OTHERS) - wave(OTHERS)) < 0.3 * rms(background(OTHERS) - wave(OTHERS))

    @pytest.mark.thorough
    @pytest.mark.parametrize("settings", [None, ef.oriented()])
    def test_positive_samples_meet_the_rows_that_are_kept(self, settings):
        x = np.maximum(np.sin(np.arange(60) / 5), 0)
        A = csr_matrix(np.repeat(np.eye(20), 3, axis=1))
        seen = ob.operator(np.eye(60), x + 0.1 * np.sin(np.arange(60)), noise=0.1)
        kept = np.flatnonzero(A @ x > 0)
        field = fit(
            seen, ob.operator(A[kept], (A @ x)[kept], noise=0), settings=settings,
            shape=(60,), positive=True,
        )  # fmt: skip
        assert field.samples().min() >= -1e-12
        np.testing.assert_allclose(A[kept] @ field.samples(), (A @ x)[kept], atol=1e-6)


class TestGrid:
    @pytest.mark.thorough
    def test_an_operator_on_samples(self):
        rng = np.random.default_rng(0)
        x = np.add.outer(np.sin(np.arange(24) / 4), np.cos(np.arange(20) / 3))
        A = rng.standard_normal((400, 480)) * (rng.random((400, 480)) < 0.05)
        y = A @ x.ravel() + 0.05 * rng.standard_normal(400)
        for matrix in (A, csr_matrix(A)):
            field = ef.fit_observations([ob.operator(matrix, y, noise=0.05)], shape=x.shape)
            assert rms(field.samples() - x) < 0.05
        held = np.abs(field.samples() - x) < 1.645 * field.resize(x.shape, quantity="std")
        assert 0.7 < np.mean(held) < 0.99
        at = np.array([[3.0, 4.0], [20.2, 11.7]])
        drawn = field.draw(400, at)  # deviations in the unit of the values, whatever the fit's is
        np.testing.assert_allclose(drawn.std(axis=0), field.std(at), rtol=0.2)

    def test_the_mean_of_deviations_counts(self):
        x = np.sin(np.arange(400) / 9)
        y = x + 0.2 * np.random.default_rng(0).standard_normal(400)
        field = fit(ob.operator(csr_matrix(np.eye(400)), y, noise=0.2), shape=(400,))
        drawn = field.model.observed.parts(np.arange(400.0)[:, None], ())
        assert 0.007 < np.sqrt((drawn.mean(axis=0) ** 2).sum()) < 0.013  # 0.2 / 20

    @pytest.mark.slow
    def test_a_level_without_detail_is_found(self):
        y = 250 + 2 * np.random.default_rng(0).standard_normal(900)
        at = np.stack(np.indices((30, 30)), -1).reshape(-1, 2).astype(float)
        rows = ob.blurred(at, y, psf=ob.gaussian(1.0), noise=2.0)
        field = fit(rows, rows, rows, shape=(30, 30))  # enough of them for the grid
        assert abs(field.samples().mean() - y.mean()) < 0.05

    def test_deviations_are_larger_where_there_is_detail(self):
        rng = np.random.default_rng(0)
        x = np.where(np.arange(600) < 300, 0.0, np.cumsum(rng.standard_normal(600)))
        A = csr_matrix(np.repeat(np.eye(200), 3, axis=1) / 3)
        field = fit(ob.operator(A, A @ x + 0.1 * rng.standard_normal(200), noise=0.1), shape=(600,))
        std = field.resize((600,), quantity="std")
        assert std[330:570].mean() > 2 * std[30:270].mean()
        assert 0.8 < np.mean(np.abs(field.samples() - x)[300:] < 1.645 * std[300:]) < 0.99

    @pytest.mark.thorough
    def test_rows_that_are_kept(self):
        rng = np.random.default_rng(0)
        A = csr_matrix(rng.random((30, 400)))
        y = A @ np.sin(np.arange(400) / 40)
        field = ef.fit_observations([ob.operator(A, y, noise=0)], shape=(400,))
        np.testing.assert_allclose(A @ field.samples(), y, atol=1e-10 * np.abs(y).max())

    @pytest.mark.slow
    def test_a_picture_blurred_over_its_borders_keeps_them_apart(self):
        # Blurred as if it repeated; the left half is dark, the right one bright.
        x = np.where(np.arange(40) < 20, 20.0, 180.0) + np.zeros((40, 1))
        at = np.stack(np.indices((40, 40)), -1).reshape(-1, 2).astype(float)
        clean = ob.blurred(at, np.zeros(1600), psf=ob.gaussian(1.6, step=1.0), noise=1.0)
        domain = make_domain((40, 40), dims=None, coords=None, periodic=(0, 1))
        (A,) = sample_maps([clean], domain, ef.smooth(order=2.0, cell=6, overlap=1.0, context=1))
        y = A.matmat(x.reshape(-1, 1))[:, 0] + np.random.default_rng(0).standard_normal(1600)
        rows = [ob.blurred(at, y, psf=ob.gaussian(1.6, step=1.0), noise=1.0)]
        field = ef.fit_observations(rows, ef.oriented(), shape=(40, 40), periodic=(0, 1))
        assert rms(field.samples()[:, [0, -1]] - x[:, [0, -1]]) < 4.0

    @pytest.mark.thorough
    def test_positive_samples(self):
        rng = np.random.default_rng(0)
        x = np.maximum(np.add.outer(np.sin(np.arange(24) / 3), np.cos(np.arange(24) / 3)) - 0.8, 0)
        A = rng.standard_normal((250, 576))
        y = A @ x.ravel() + 0.1 * rng.standard_normal(250)
        free, above = (
            ef.fit_observations([ob.operator(A, y, noise=0.1)], shape=x.shape, positive=p)
            for p in (False, True)
        )
        assert free.samples().min() < 0 <= above.samples().min() + 1e-12
        assert rms(above.samples() - x) < rms(free.samples() - x)

    @pytest.mark.slow
    def test_oriented_regions_see_through_a_blur(self):
        i, j = np.indices((40, 40))
        x = 100.0 * (i + 0.5 * j > 30)
        at = np.stack([i, j], -1).reshape(-1, 2).astype(float)
        sharp = ob.blurred(at, np.zeros(1600), psf=ob.gaussian(1.2, step=1.0), noise=2.0)
        domain = make_domain((40, 40), dims=None, coords=None, periodic=())
        (A,) = sample_maps([sharp], domain, ef.smooth(order=2.0, cell=6, overlap=1.0, context=1))
        y = A.matmat(x.reshape(-1, 1))[:, 0] + 2 * np.random.default_rng(0).standard_normal(1600)
        rows = [ob.blurred(at, y, psf=ob.gaussian(1.2, step=1.0), noise=2.0)]
        plain = ef.fit_observations(rows, ef.smooth(order=2.0, cell=6, overlap=1.0), shape=(40, 40))
        own = ef.fit_observations(rows, ef.oriented(), shape=(40, 40))
        inner = (slice(4, -4),) * 2
        assert rms((own.samples() - x)[inner]) < rms((plain.samples() - x)[inner])

    @pytest.mark.slow
    def test_a_background_is_corrected_where_stations_are(self):
        rng = np.random.default_rng(0)
        i, j = np.indices((40, 50))
        truth = 10 * np.sin(i / 9) * np.cos(j / 7)
        guess = truth + 2 * np.exp(-((i - 12) ** 2 + (j - 12) ** 2) / 60)
        background = ef.fit(guess, ef.smooth(order=2.0))
        x = np.stack([rng.integers(0, 25, 80), rng.integers(0, 25, 80)], 1).astype(float)
        y = truth[tuple(x.astype(int).T)] + 0.1 * rng.standard_normal(80)
        field = ef.fit_observations([ob.values(x, y, noise=0.1)], background=background)
        assert field.shape == (40, 50)
        near = (slice(2, 23),) * 2
        assert rms((field.samples() - truth)[near]) < 0.3 * rms((guess - truth)[near])
        assert np.abs((field.samples() - guess)[35:, 45:]).max() < 0.5
        spread = field.resize(truth.shape, quantity="std")
        assert 0.01 < spread[near].mean() < 0.5 < spread[30:, 40:].mean() < 3

    @pytest.mark.slow
    def test_a_background_that_is_unsure_somewhere_is_corrected_there(self):
        # Many values at the left, few at the right: the second fit knows from the first.
        rng = np.random.default_rng(2)
        x = np.concatenate(
            [rng.random((200, 2)) * [1, 0.5], rng.random((6, 2)) * [1, 0.5] + [0, 0.5]]
        )
        first = fit(ob.values(x, wave(x), noise=0.1), bounds=UNIT, shape=(15, 15))
        new = rng.random((40, 2))
        rows = ob.values(new, wave(new) + 0.1 * rng.standard_normal(40), noise=0.1)
        both = fit(rows, background=first)
        plain = fit(
            rows, background=ef.fit(first.samples(), coords=[(np.arange(15) + 0.5) / 15] * 2)
        )
        q = rng.random((300, 2))
        left = q[:, 1] < 0.5
        change = [np.abs(f(q) - first(q)) for f in (both, plain)]
        ratio = [c[~left].mean() / c[left].mean() for c in change]
        assert ratio[0] > 2 * ratio[1]
        assert both.std(q)[~left].mean() > 1.5 * both.std(q)[left].mean()

    @pytest.mark.slow
    def test_detail_between_stations_counts_in_their_deviations(self):
        rng = np.random.default_rng(0)
        rough = rng.standard_normal((30, 30))
        at = rng.permutation(np.stack(np.indices((30, 30)), -1).reshape(-1, 2))
        background = ef.fit(np.zeros((30, 30)) + 0.001 * rough, ef.smooth(order=2.0))
        y = rough[tuple(at[:250].T)] + 0.1 * rng.standard_normal(250)
        field = fit(ob.values(at[:250].astype(float), y, noise=0.1), background=background)
        q, held = at[250:].astype(float), rough[tuple(at[250:].T)]
        assert 0.84 < np.mean(np.abs(field(q) - held) < 1.645 * field.std(q)) < 0.96

    @pytest.mark.thorough
    def test_deviations_are_not_kept_in_files_crops_and_channels(self, tmp_path):
        y = np.stack([wave(POINTS), -wave(POINTS)], 1)
        field = fit(ob.values(POINTS, y, noise=0.1), bounds=UNIT, shape=(12, 12))
        assert field.std(OTHERS).shape == (60, 2)
        ef.save(field, tmp_path / "a.elm")
        for one in (ef.load(tmp_path / "a.elm"), field.crop([0.2, 0.2], [0.8, 0.8]), field[0]):
            with pytest.raises(TypeError, match="fitted to observations"):
                one.std([0.5, 0.5])


class TestWhatIsRefused:
    @pytest.mark.parametrize(
        ("call", "message"),
        [
            (lambda: ob.values(POINTS, np.full(80, np.nan)), "must be finite; 80 of 80"),
            (lambda: ob.values(POINTS, np.zeros(7)), "80 rows need values"),
            (lambda: ob.values(np.zeros((0, 2)), []), "at least one row"),
            (lambda: ob.values(POINTS, ZEROS, noise=-1), "standard deviation"),
            (lambda: ob.values(POINTS, ZEROS, noise=np.arange(80)), "two observations"),
            (lambda: ob.derivatives(POINTS, ZEROS, order=(1,)), "2 whole numbers"),
            (lambda: ob.means(HIGH, LOW, np.zeros(40)), "below `high`"),
            (lambda: ob.lines(POINTS, POINTS[:3], 0), "differ from `start`"),
            (lambda: ob.lines(POINTS, POINTS, ZEROS), "differ from `start`"),
            (lambda: ob.blurred(POINTS, ZEROS, psf=np.zeros(3)), "2 axes"),
            (lambda: ob.gaussian(0), "above 0"),
            (lambda: ob.equation(POINTS, {(1, 0): np.ones(3)}), "one per point"),
            (lambda: fit(ob.values(POINTS + 1, ZEROS), bounds=UNIT), "outside the domain"),
            (lambda: fit(ob.operator(np.eye(3), np.zeros(3))), "say `shape`"),
            (lambda: fit(ob.operator(np.eye(3), np.zeros(3)), shape=(2, 2)), "of the 4 samples"),
            (lambda: fit(ob.operator(np.zeros((2, 4)), [1, 1]), shape=(2, 2)), "see some of"),
            (lambda: fit(ob.operator(np.eye(4) * np.nan, ZEROS[:4]), shape=(2, 2)), "be finite"),
            (lambda: fit(ob.values(POINTS, ZEROS), ob.values([1.0], [1.0])), "as many axes"),
            (
                lambda: fit(ob.values(POINTS, np.zeros((80, 3))), ob.divergence(POINTS)),
                "as many channels",
            ),
            (lambda: fit(ob.values(POINTS, ZEROS), bounds=((1, 1), (0, 0))), "lower ones first"),
            (lambda: fit(ob.values(POINTS, ZEROS), spacing=0.1, shape=(9, 9)), "shape, spacing"),
            (lambda: fit(ob.divergence(POINTS), bounds=UNIT, positive=True), "smooth region"),
        ],
    )
    def test_with_a_sentence(self, call, message):
        with pytest.raises(ValueError, match=message):
            call()

    def test_other_types(self):
        with pytest.raises(TypeError, match=r"elmfield\.observe"):
            ef.fit_observations([])
        with pytest.raises(TypeError, match="without a target"):
            ef.fit_observations([ob.values(POINTS, np.zeros(80))], ef.smooth(psnr=40))
        with pytest.raises(TypeError, match="mapping"):
            ob.equation(POINTS, [1, 2])
        with pytest.raises(TypeError, match="LinearOperator"):
            ob.operator(3, [1.0])

    def test_contradictions_are_told_with_numbers(self):
        x = np.repeat(POINTS[:10], 2, axis=0)
        y = np.tile([0.0, 1.0], 10)
        with pytest.warns(ef.RankWarning, match=r"missed by up to 0\.5"):
            ef.fit_observations([ob.values(x, y, noise=0)], bounds=UNIT, shape=(12, 12))

    @pytest.mark.thorough
    def test_what_no_row_determines_is_told(self):
        rows = ob.derivatives(POINTS, slope(POINTS), order=(1, 0), noise=0.01)
        with pytest.warns(ef.RankWarning, match="no row determines the level"):
            ef.fit_observations([rows], bounds=UNIT, shape=(12, 12))

    @pytest.mark.thorough
    def test_the_axis_is_named_and_channels_count(self):
        turn = {"bounds": UNIT, "shape": (12, 12), "periodic": (0,)}
        with pytest.warns(ef.RankWarning, match=r"determines the level of the function"):
            fit(ob.derivatives(POINTS, ZEROS + 1, order=(0, 1)), **turn)
        with pytest.warns(ef.RankWarning, match="the slope along axis 1"):
            fit(ob.divergence(POINTS), ob.values(POINTS[:1], [[1.0, 2]]), **turn)

    def test_samples_whose_level_no_row_determines(self):
        differences = np.diff(np.eye(20), axis=0)
        with pytest.warns(ef.RankWarning, match="no row determines the level"):
            fit(ob.operator(differences, np.ones(19), noise=0.1), shape=(20,))

    @pytest.mark.slow
    @pytest.mark.parametrize("positive", [False, True])
    def test_the_unit_of_values_does_not_matter(self, positive):
        y = 2 + np.sin(5 * POINTS[:, 0])
        small, usual, large = (
            fit(
                ob.values(POINTS, s * y, noise=s * 0.1),
                bounds=UNIT,
                shape=(8, 8),
                positive=positive,
            )
            for s in (2.0**-600, 1.0, 2.0**600)
        )
        found = small(OTHERS) * 2.0**600
        np.testing.assert_allclose(found, large(OTHERS) * 2.0**-600, rtol=1e-12)
        np.testing.assert_allclose(found, usual(OTHERS), atol=0.01)  # the search for a prior ends
        if not positive:
            spread = small.std(OTHERS) * 2.0**600
            np.testing.assert_allclose(spread, usual.std(OTHERS), rtol=0.05)
