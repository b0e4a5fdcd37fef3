"""First weights, sizes and settings: those of each method's own paper or code."""

import dataclasses
import math

import numpy as np
import pytest
from scipy import stats

from paper.research import baselines

torch = pytest.importorskip("torch", reason="the baselines need torch")

from research.baselines.small import SMALL, drawn, layers_of  # noqa: E402


@pytest.mark.slow
def test_siren_keeps_its_statistics_layer_by_layer(rng):
    # Theorem 1.8 of SIREN's supplement: what a sine is taken of is normal, what comes out of it is
    # arcsine distributed. Var z' = 2 E sin²(z) + omega² / (3 n): its weights, and torch's biases.
    n, omega = 1024, 30
    network = drawn(baselines.siren(hidden=n, layers=5), (64, 64))
    x = torch.as_tensor(rng.uniform(-1, 1, (2048, 2)), dtype=torch.float32)
    with torch.no_grad():
        *z, out = [t.double().numpy() for t in network.preactivations(x)]
    # omega (w·x + b), w within ±1/2, b within ±1/sqrt(2), x within ±1
    expected = omega**2 * (2 * (1 / 12) * (1 / 3) + 1 / 6)
    for k, layer in enumerate(z):
        assert np.var(layer) == pytest.approx(expected, rel=0.1), k
        if k:
            some = rng.permutation(layer.ravel())[:4000]
            assert stats.kstest(some / some.std(), "norm").statistic < 0.04
            assert stats.kstest(np.sin(some), "arcsine", args=(-1, 2)).statistic < 0.06
        expected = 1 - math.exp(-2 * expected) + omega**2 / (3 * n)
    assert np.std(out) < 0.1  # 1 / omega, and less


def fills(values, bound):
    """Whether numbers are uniform within ±bound, as far as so many can tell."""
    n = values.size
    scaled = np.ravel(values) / bound
    assert np.abs(scaled).max() <= 1 + 1e-6  # rounded to float32
    # The gap to the bound is 1/n on average, exponentially distributed; the mean of squares of n
    # is 1/3, with a standard deviation of sqrt(4 / 45n). Both at odds of 1e-6 or less.
    assert np.abs(scaled).max() >= 1 - 15 / n
    assert np.mean(scaled**2) == pytest.approx(1 / 3, abs=5 * np.sqrt(4 / (45 * n)))
    assert np.mean(scaled) == pytest.approx(0, abs=5 / np.sqrt(3 * n))


def scatters(values, spread):
    """Whether numbers are normal with this standard deviation, as far as so many can tell."""
    n = values.size
    assert np.mean(values**2) == pytest.approx(spread**2, rel=5 * np.sqrt(2 / n))
    assert np.mean(values) == pytest.approx(0, abs=5 * spread / np.sqrt(n))
    assert np.abs(values).max() > 2 * spread  # odds of none: 0.954^n; uniform ones end at 1.73
    assert stats.kstest(np.ravel(values) / spread, "norm").pvalue > 1e-6


def layers_to_draw(method, d=3, channels=400):
    """Layers of a fresh network, each with the number that enter it; enough to tell a bound."""
    layers = layers_of(drawn(method, (8,) * d, channels))
    assert len(layers) == method.layers + 1
    return [(W.shape[-2], W, b) for W, b in layers]


def test_first_weights_of_siren():
    """Section 3.2 and `modules.py`: ±1/d, then ±sqrt(6/n)/omega; biases torch's, ±1/sqrt(n)."""
    method = baselines.siren(hidden=200, layers=3, first_omega=20, omega=40)
    for k, (n, W, b) in enumerate(layers_to_draw(method)):
        fills(W, 1 / n if k == 0 else np.sqrt(6 / n) / 40)
        fills(b, 1 / np.sqrt(n))


def test_first_weights_of_ffn():
    """`stax.Dense` of JAX: glorot_normal, of variance 2 / (n + m); biases normal of spread 0.01."""
    method = baselines.ffn(hidden=400, layers=3, n_frequencies=500, scale=7)
    for n, W, b in layers_to_draw(method):
        scatters(W, np.sqrt(2 / (n + W.shape[1])))
        scatters(b, 0.01)
    (B,) = drawn(method, (8, 8)).constants
    assert B.shape == (2, 500)
    scatters(B.double().numpy(), 7)


def test_first_weights_of_gaussnet():
    """`run_nerf_helpers.py`: torch's linear layers as they are, ±1/sqrt(n) for both."""
    for n, W, b in layers_to_draw(baselines.gaussnet(hidden=200, layers=3)):
        fills(W, 1 / np.sqrt(n))
        fills(b, 1 / np.sqrt(n))


def test_first_weights_of_wire():
    """`modules/wire.py`: torch's linear layers, complex after the first: both parts ±1/sqrt(n)."""
    layers = layers_to_draw(baselines.wire(hidden=280, layers=3))
    assert [n for n, _, _ in layers] == [3, 197, 197, 197]  # 280 / sqrt 2
    for k, (n, W, b) in enumerate(layers):
        assert W.ndim == (2 if k == 0 else 3)
        for part in (W,) if k == 0 else W:
            fills(part, 1 / np.sqrt(n))
        for part in (b,) if b.ndim == 1 else b:
            fills(part, 1 / np.sqrt(n))


def test_first_weights_of_the_hash_grid():
    """Section 4: entries ±1e-4, Glorot's uniform weights ±sqrt(6 / (n + m)); no biases yet."""
    method = baselines.hashgrid(table=2**12, finest=64)
    fills(drawn(method, (8, 8)).parameters[0].detach().double().numpy(), 1e-4)
    for n, W, b in layers_to_draw(method):
        fills(W, np.sqrt(6 / (n + W.shape[1])))
        assert not b.any()


@pytest.mark.parametrize(
    ("method", "published"),
    [
        (
            baselines.siren(),
            {"hidden": 256, "layers": 4, "first_omega": 30, "omega": 30, "rate": 1e-4},
        ),
        (
            baselines.ffn(),
            {"hidden": 256, "layers": 3, "n_frequencies": 256, "scale": 10, "rate": 1e-4},
        ),
        (baselines.gaussnet(), {"hidden": 256, "layers": 4, "scale": 0.09, "rate": 1e-4}),
        (
            baselines.wire(),
            {"hidden": 256, "layers": 3, "first_omega": 20, "omega": 20, "scale": 30, "rate": 5e-3},
        ),
        (
            baselines.hashgrid(),
            {"hidden": 64, "layers": 2, "levels": 16, "features": 2, "table": 2**19}
            | {"coarsest": 16, "finest": None, "rate": 1e-2},
        ),
    ],
    ids=list(SMALL),
)
def test_defaults_are_the_published_ones(method, published):
    """Sitzmann et al. 2020, `train_img.py` and section 3.2; Tancik et al. 2020, `Demo.ipynb`;
    Ramasinghe and Lucey 2022, `run_nerf_helpers.py`; Saragadam et al. 2023,
    `wire_image_denoise.py`; Müller et al. 2022, table 1 and `configs/image/base.json`.
    """
    assert dataclasses.asdict(method) == published


def test_resolutions_grow_evenly_from_coarsest_to_finest():
    N = baselines.hashgrid(levels=16, coarsest=16, finest=512).resolutions((512, 512))
    assert N[0] == 16
    assert N[-1] == 512
    assert len(N) == 16
    assert sorted(N) == N
    assert baselines.hashgrid().resolutions((300, 700))[-1] == 700


@pytest.mark.parametrize(
    ("method", "channels", "count"),
    [
        # vsitzmann/siren, train_img.py: Linear(2, 256), three of (256, 256), (256, 1), with biases
        (baselines.siren(), 1, 3 * 256 + 3 * 257 * 256 + 257),
        # tancik/fourier-feature-networks, Demo.ipynb: (512, 256), two of (256, 256), (256, 3)
        (baselines.ffn(), 3, 513 * 256 + 2 * 257 * 256 + 257 * 3),
        # vishwa91/wire, wire_image_denoise.py: 181 wide; (2, 181) real, two complex, (181, 3)
        # complex, less the three imaginary biases that never reach the output
        (baselines.wire(), 3, 3 * 181 + 2 * 2 * 182 * 181 + 2 * 182 * 3 - 3),
        # the same two networks in the ELM-INR paper's own count of hidden layers
        (baselines.siren(hidden=1024, layers=5), 1, 3 * 1024 + 4 * 1025 * 1024 + 1025),
        (baselines.gaussnet(hidden=256, layers=3), 1, 3 * 256 + 2 * 257 * 256 + 257),
    ],
)
def test_parameter_counts(method, channels, count):
    assert drawn(method, (8, 8), channels).n_parameters == count


def test_siren_and_wire_have_published_sizes():
    assert drawn(baselines.siren(), (8, 8)).n_parameters == 198_401
    real, wire = (
        drawn(m(hidden=256, layers=3), (8, 8), 3).n_parameters
        for m in (baselines.siren, baselines.wire)
    )
    assert (real, wire) == (133_123, 133_400)  # as many, which is why WIRE is narrower


def test_the_hash_grid_stores_no_more_than_its_table():
    network = drawn(baselines.hashgrid(table=2**10, coarsest=16, finest=512), (512, 512))
    entries = sum(
        min((n + 1) ** 2, 2**10) for n in baselines.hashgrid(finest=512).resolutions((512, 512))
    )
    assert network.parameters[0].shape == (entries, 2)
    assert network.n_parameters == 2 * entries + 33 * 64 + 65 * 64 + 65


@pytest.mark.parametrize("name", ["siren", "ffn", "gaussnet", "wire"])
def test_the_papers_grid(name):
    grid = baselines.paper_grid(name)
    assert len(set(grid)) == 18
    assert {m.hidden for m in grid} == {256, 512, 1024}
    assert {m.layers for m in grid} == {3, 4, 5}
    assert {m.rate for m in grid} == {5e-5, 1e-4}
    own = getattr(baselines, name)(hidden=256, layers=3, rate=5e-5)
    assert own in grid


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: baselines.siren(hidden=0), "`hidden` must be a whole number of at least 1; got 0"),
        (lambda: baselines.ffn(layers=-1), "`layers` must be a whole number of at least 1; got -1"),
        (lambda: baselines.ffn(n_frequencies=2.5), "`n_frequencies` must be a whole number"),
        (lambda: baselines.gaussnet(scale=0), "`scale` must be a positive number; got 0"),
        (lambda: baselines.wire(omega="a"), "`omega` must be a positive number; got 'a'"),
        (lambda: baselines.wire(hidden=1), "`hidden` must be at least 2"),
        (lambda: baselines.hashgrid(finest=8), "of at least `coarsest`, 16; got 8"),
        (lambda: baselines.hashgrid(finest=17.5), "`finest` must be None or a whole .* got 17.5"),
        (lambda: baselines.paper_grid("hashgrid"), "`name` must be one of siren, ffn, gaussnet"),
        (lambda: baselines.search(np.ones((3, 3)), []), "`methods` must hold at least one"),
        (
            lambda: baselines.search(np.ones((3, 3)), [SMALL["ffn"]], rungs=((5, 1), (5, 1))),
            "`rungs` must have rising steps",
        ),
        (
            lambda: baselines.search(np.ones((3, 3)), [SMALL["ffn"]], rungs=(5, 1)),
            r"`rungs` must be pairs \(steps, keep\); got \(5, 1\)",
        ),
    ],
)
def test_bad_settings_are_named(make, message):
    with pytest.raises(ValueError, match=message):
        make()
