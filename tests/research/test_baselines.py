import dataclasses
import itertools
import math
import re
import subprocess
import sys

import numpy as np
import pytest
from scipy import stats
from skimage import data, transform

import elmfield as ef
from elmfield.research import baselines
from support import ROOT, close, inside, on_grid, wave

torch = pytest.importorskip("torch", reason="the baselines need torch")
torch.set_num_threads(1)

from elmfield.research.baselines import networks  # noqa: E402
from elmfield.research.baselines.training import Training  # noqa: E402

SMALL = {
    "siren": baselines.siren(hidden=24, layers=2),
    "ffn": baselines.ffn(hidden=24, layers=2, n_frequencies=16, scale=3),
    "gaussnet": baselines.gaussnet(hidden=24, layers=2),
    "wire": baselines.wire(hidden=24, layers=2, scale=10),
    "hashgrid": baselines.hashgrid(hidden=16, levels=4, coarsest=2, finest=9, table=40),
}
every_method = pytest.mark.parametrize("method", SMALL.values(), ids=SMALL)


@pytest.fixture(scope="module")
def camera():
    return transform.resize(data.camera(), (32, 32), anti_aliasing=True)


@pytest.fixture
def small(rng):
    return 5 + 3 * on_grid(wave, (9, 12))


def layers_of(network):
    return [(W.detach().double().numpy(), b.detach().double().numpy()) for W, b in network.layers]


def drawn(method, shape, channels=1, seed=3):
    return method.network(shape, channels, np.random.default_rng(seed))


def values_of(network, x):
    with torch.no_grad():
        return network(network.prepare(torch.as_tensor(x, dtype=torch.float32))).numpy()


# --- what defines each method -----------------------------------------------------------------


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


def test_siren_is_the_printed_equation(rng):
    network = drawn(baselines.siren(hidden=20, layers=3, first_omega=7, omega=11), (5, 6, 7), 2)
    x = rng.uniform(-1, 1, (50, 3))
    *hidden, (V, c) = layers_of(network)
    h = x
    for omega, (W, b) in zip((7, 11, 11), hidden):
        h = np.sin(omega * (h @ W + b))
    close(values_of(network, x), h @ V + c, 1e-5)


def test_fourier_features_have_their_kernel(rng):
    # cos(u - v) averaged over B is exp(-2π² scale² |x - y|²); F columns leave 1/sqrt(2F) of noise.
    F, scale = 100_000, 1.7
    network = drawn(baselines.ffn(hidden=1, layers=1, n_frequencies=F, scale=scale), (4, 4))
    x, y = rng.uniform(0, 1, (2, 20, 2))
    y = x + 0.2 * (y - x)
    a, b = (network.prepare(torch.as_tensor(t, dtype=torch.float32)).double() for t in (x, y))
    kernel = np.exp(-2 * np.pi**2 * scale**2 * np.sum((x - y) ** 2, axis=1))
    assert kernel.min() < 0.5 < kernel.max()
    close((a * b).sum(dim=1) / F, kernel, 4 / np.sqrt(2 * F))


def test_ffn_is_the_printed_equation(rng):
    network = drawn(baselines.ffn(hidden=20, layers=3, n_frequencies=8, scale=2), (5, 6), 2)
    x = rng.uniform(0, 1, (50, 2))
    phase = 2 * np.pi * x @ network.constants[0].double().numpy()
    *hidden, (V, c) = layers_of(network)
    h = np.concatenate([np.cos(phase), np.sin(phase)], axis=1)
    for W, b in hidden:
        h = np.maximum(h @ W + b, 0)
    close(values_of(network, x), h @ V + c, 1e-5)


def test_gaussnet_is_the_printed_equation(rng):
    a = 0.3
    network = drawn(baselines.gaussnet(hidden=20, layers=3, scale=a), (5, 6), 2)
    x = rng.uniform(-1, 1, (50, 2))
    *hidden, (V, c) = layers_of(network)
    h = x
    for W, b in hidden:
        h = np.exp(-((h @ W + b) ** 2) / (2 * a**2))
    close(values_of(network, x), h @ V + c, 1e-5)


def test_the_gabor_activation_has_its_envelope_and_phase(rng):
    omega, s, x = 20.0, 3.0, np.linspace(-0.4, 0.4, 81)
    z = torch.as_tensor(np.stack([x, 0 * x], axis=1))
    re, im = networks.gabor(z, omega, s).T.numpy()
    psi = re + 1j * im
    close(np.abs(psi), np.exp(-((s * x) ** 2)), 1e-14)
    turn = np.exp(1j * omega * x)
    close((psi / np.abs(psi)).real, turn.real, 1e-13)
    close((psi / np.abs(psi)).imag, turn.imag, 1e-13)


def test_wire_is_the_printed_equation_in_complex_numbers(rng):
    first, omega, s = 5.0, 7.0, 4.0
    method = baselines.wire(hidden=20, layers=3, first_omega=first, omega=omega, scale=s)
    network = drawn(method, (5, 6), 2)
    assert network.parameters[0].shape == (2, 14)  # 20 / sqrt 2
    x = rng.uniform(-1, 1, (50, 2))

    def psi(z, w):
        return np.exp(1j * w * z - np.abs(s * z) ** 2)

    (W, b), *rest, (V, c) = layers_of(network)
    h = psi(x @ W + b, first)
    for W, b in rest:
        h = psi(h @ (W[0] + 1j * W[1]) + (b[0] + 1j * b[1]), omega)
    close(values_of(network, x), (h @ (V[0] + 1j * V[1])).real + c, 1e-5)


@pytest.mark.parametrize(
    "function", [lambda z: networks.gabor(z, 3.0, 1.5), networks.bump], ids=["gabor", "bump"]
)
def test_gradients_by_hand_are_gradients(function, rng):
    z = torch.as_tensor(rng.uniform(-0.7, 0.7, (5, 6))).requires_grad_()
    assert torch.autograd.gradcheck(function, (z,))


def test_the_gradient_of_the_exact_layer(rng):
    x, W, b = (torch.as_tensor(rng.standard_normal(s)) for s in ((7, 3), (3, 4), (4,)))
    W.requires_grad_(), b.requires_grad_()
    assert torch.autograd.gradcheck(lambda W, b: networks.exactly(x, W, b), (W, b))


def dictionary_of_vertices(x, resolutions, table, entries):
    """Features by the published formula, vertex by vertex, in a dictionary per level."""
    primes = (1, 2654435761, 805459861, 3674653429)
    d, out, start = x.shape[1], [], 0
    for N in resolutions:
        vertices = {}
        for place, vertex in enumerate(itertools.product(range(N + 1), repeat=d)):
            if (N + 1) ** d <= table:
                vertices[vertex] = entries[start + place]
            else:
                code = 0
                for i, prime in zip(vertex, primes):
                    code ^= (i * prime) % 2**32
                vertices[vertex] = entries[start + code % table]
        start += min((N + 1) ** d, table)
        level = []
        for point in x:
            total = np.zeros(entries.shape[1])
            for vertex, feature in vertices.items():
                hat = [max(0.0, 1 - abs(p * N - v)) for p, v in zip(point, vertex)]
                total += math.prod(hat) * feature
            level.append(total)
        out.append(level)
    return np.concatenate(out, axis=1)


@pytest.mark.parametrize("d", [1, 2, 3, 4])
def test_the_hash_grid_equals_a_dictionary(d, rng):
    finest, table = {1: (40, 30), 2: (11, 50), 3: (6, 60), 4: (3, 40)}[d]
    method = baselines.hashgrid(levels=3, features=2, table=table, coarsest=2, finest=finest)
    network = drawn(method, (9,) * d)
    N = method.resolutions((9,) * d)
    assert N[0] == 2
    assert N[-1] == finest
    dense = [(n + 1) ** d <= table for n in N]
    assert any(dense) == (d < 4)
    assert not all(dense)
    network.parameters[0] = torch.as_tensor(
        rng.standard_normal(network.parameters[0].shape), dtype=torch.float32
    )
    x = np.concatenate([rng.uniform(0, 1, (20, d)), np.zeros((1, d)), np.ones((1, d))])
    x = x.astype(np.float32)
    encoded = network.encode(network.prepare(torch.as_tensor(x)))
    entries = network.parameters[0].double().numpy()
    expected = dictionary_of_vertices(x.astype(float), N, table, entries)
    # Hats are rounded at 2^-24 of N; neighbouring entries differ by a few.
    close(encoded, expected, 1e-5 * finest)


def test_the_far_border_of_a_dense_grid():
    # It belongs to the last cell: there is no vertex beyond it, in this level or the next.
    method = baselines.hashgrid(levels=2, coarsest=2, finest=5)
    network = drawn(method, (4, 4))
    entries, weights = network.prepare(torch.ones((1, 2)))
    assert int(entries.max()) == 3**2 + 6**2 - 1
    assert entries[weights == 1].tolist() == [3**2 - 1, 3**2 + 6**2 - 1]


def test_samples_lie_in_the_middle_of_equal_parts(small):
    for method, low in ((SMALL["siren"], -1), (SMALL["ffn"], 0), (SMALL["hashgrid"], 0)):
        x = Training(small, method)._coordinates().numpy().reshape(9, 12, 2)
        for k, n in enumerate(small.shape):
            half = (1 - low) / (2 * n)
            assert x[..., k].min() == pytest.approx(low + half, abs=1e-6)
            assert x[..., k].max() == pytest.approx(1 - half, abs=1e-6)
        assert np.all(np.diff(x[..., 0], axis=0) > 0)  # coordinate k runs along axis k


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


# --- training ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "steps", "least"),
    [
        (baselines.siren(hidden=64, layers=3, rate=1e-3), 150, 30),
        (baselines.ffn(hidden=64, layers=2, rate=3e-3, n_frequencies=64, scale=5), 150, 30),
        (baselines.gaussnet(hidden=64, layers=3, rate=3e-3), 150, 30),
        (baselines.wire(hidden=64, layers=2), 150, 30),
        (baselines.hashgrid(), 150, 50),
    ],
    ids=list(SMALL),
)
def test_each_learns_a_small_picture(camera, method, steps, least):
    model = baselines.fit(camera, method, steps=steps)
    assert ef.paper_psnr(camera, model.samples()) >= least
    assert model.log[0].paper_psnr < 15


@every_method
@pytest.mark.parametrize("batch", [None, 40])
def test_a_row_of_the_log_is_the_network_after_so_many_steps(small, method, batch):
    long = baselines.fit(small, method, steps=5, every=2, batch=batch, rate=3e-3)
    assert [row.step for row in long.log] == [0, 2, 4, 5]
    for row in long.log[1:]:
        short = baselines.fit(small, method, steps=row.step, batch=batch, rate=3e-3)
        # float32 errors, summed in another order
        assert row.paper_psnr == pytest.approx(short.log[-1].paper_psnr, abs=1e-4)
        assert row.paper_psnr == pytest.approx(ef.paper_psnr(small, short.samples()), abs=1e-4)
    assert long.log[0].paper_psnr < long.log[-1].paper_psnr
    seconds = [row.seconds for row in long.log]
    assert seconds == sorted(seconds)
    assert seconds[0] >= 0
    assert seconds[-1] > 0


@every_method
@pytest.mark.parametrize("batch", [None, 40])
def test_one_seed_one_result(small, method, batch):
    a, b, c = (
        baselines.fit(small, method, steps=4, every=1, batch=batch, seed=s) for s in (1, 1, 2)
    )
    assert [r.paper_psnr for r in a.log] == [r.paper_psnr for r in b.log]
    assert all(torch.equal(p, q) for p, q in zip(a.network.parameters, b.network.parameters))
    assert a.log[-1].paper_psnr != c.log[-1].paper_psnr
    assert np.array_equal(a.samples(), b.samples())


@pytest.mark.parametrize("seed", [4, np.int64(4)])
def test_first_weights_are_those_of_the_seed(small, seed):
    training = Training(small, SMALL["siren"], seed=seed)
    again = SMALL["siren"].network(small.shape, 1, np.random.default_rng(4))
    assert all(torch.equal(p, q) for p, q in zip(training.network.parameters, again.parameters))


def test_the_clock_stops_training(small):
    model = baselines.fit(small, SMALL["siren"], steps=10**6, seconds=0.3, every=10**6)
    assert 0 < model.log[-1].step < 10**6
    assert 0.3 <= model.log[-1].seconds < 3
    assert model.log[-1].paper_psnr == pytest.approx(
        ef.paper_psnr(small, model.samples()), abs=1e-4
    )


@pytest.mark.parametrize("batch", [None, 40])
def test_the_target_stops_training(small, batch):
    options = {"rate": 3e-3, "batch": batch, "every": 5}
    model = baselines.fit(small, SMALL["siren"], steps=1000, target=30, **options)
    *before, last = model.log
    assert last.paper_psnr >= 30 > before[-1].paper_psnr
    assert last.step % 5 == 0
    assert last.step < 1000
    # No step was taken beyond the row that met it.
    assert ef.paper_psnr(small, model.samples()) == pytest.approx(last.paper_psnr, abs=1e-4)


def test_evaluation_is_not_on_the_clock(small, monkeypatch):
    import time

    whole = Training._whole

    def slow(self):
        time.sleep(0.2)
        return whole(self)

    monkeypatch.setattr(Training, "_whole", slow)
    model = baselines.fit(small, SMALL["ffn"], steps=4, every=1, batch=10)
    assert len(model.log) == 5
    assert model.log[-1].seconds < 0.2


@pytest.mark.parametrize(
    ("schedule", "half", "end"), [(None, 1, 1), ("cosine", 0.5, 0), ("exponential", 0.1**0.5, 0.1)]
)
def test_schedules(small, schedule, half, end):
    training = Training(small, SMALL["siren"], steps=10, rate=2e-3, schedule=schedule)
    assert [training._rate(k) for k in (0, 5, 10)] == pytest.approx([2e-3, half * 2e-3, end * 2e-3])
    training.advance(6)
    assert training.optimiser.param_groups[0]["lr"] == training._rate(5)


def test_each_method_has_its_own_adam(small):
    grid = Training(small, SMALL["hashgrid"]).optimiser.param_groups[0]
    sine = Training(small, SMALL["siren"]).optimiser.param_groups[0]
    assert (grid["lr"], grid["betas"], grid["eps"]) == (1e-2, (0.9, 0.99), 1e-15)
    assert (sine["lr"], sine["betas"], sine["eps"]) == (1e-4, (0.9, 0.999), 1e-8)
    assert sine["weight_decay"] == 0
    assert Training(small, SMALL["siren"], rate=3e-4).optimiser.param_groups[0]["lr"] == 3e-4


def test_only_the_first_layer_keeps_full_precision(small, monkeypatch):
    seen, product = [], torch.addmm

    def spy(*args):
        seen.append(torch.get_float32_matmul_precision())
        return product(*args)

    monkeypatch.setattr(torch, "addmm", spy)
    baselines.fit(small, SMALL["siren"], steps=1, precision="high")
    assert seen == ["highest", "high", "high"] * 2
    assert torch.get_float32_matmul_precision() == "highest"


def test_progress_is_told(small):
    told = []
    baselines.fit(small, SMALL["siren"], steps=5, every=2, progress=lambda *a: told.append(a))
    assert told == [("train", k, 5) for k in (0, 2, 4, 5)]


# --- the paper's search -----------------------------------------------------------------------


@pytest.mark.parametrize("name", ["siren", "ffn", "gaussnet", "wire"])
def test_the_papers_grid(name):
    grid = baselines.paper_grid(name)
    assert len(set(grid)) == 18
    assert {m.hidden for m in grid} == {256, 512, 1024}
    assert {m.layers for m in grid} == {3, 4, 5}
    assert {m.rate for m in grid} == {5e-5, 1e-4}
    own = getattr(baselines, name)(hidden=256, layers=3, rate=5e-5)
    assert own in grid


@pytest.mark.parametrize("batch", [None, 40])
def test_halving_goes_on_where_it_stood(small, batch):
    rates = (1e-5, 1e-2, 1e-3, 1e-4)
    methods = [baselines.siren(hidden=16, layers=2, rate=r) for r in rates]
    ranked = baselines.search(small, methods, rungs=((4, 2), (9, 1)), every=3, batch=batch)
    assert [m.log[-1].step for m in ranked] == [9, 9, 4, 4]
    assert {m.method.rate for m in ranked} == set(rates)
    early = [baselines.fit(small, m, steps=4, batch=batch).log[-1].paper_psnr for m in methods]
    assert {m.method.rate for m in ranked[:2]} == {rates[k] for k in np.argsort(early)[-2:]}
    scores = [m.log[-1].paper_psnr for m in ranked]
    assert scores[0] > scores[1]
    assert scores[2] > scores[3]
    straight = {r: baselines.fit(small, m, steps=9, batch=batch) for r, m in zip(rates, methods)}
    best = ranked[0]
    assert best.log[-1].paper_psnr == straight[best.method.rate].log[-1].paper_psnr
    assert [r.step for r in best.log] == [0, 3, 4, 6, 9]
    assert best.log[-1].seconds >= best.log[2].seconds


def test_a_search_without_rungs_trains_all(small):
    methods = [baselines.siren(hidden=8, layers=1, rate=r) for r in (1e-6, 1e-2)]
    ranked = baselines.search(small, methods, steps=20)
    assert [m.method.rate for m in ranked] == [1e-2, 1e-6]
    assert [m.log[-1].step for m in ranked] == [20, 20]


# --- called like a Field ----------------------------------------------------------------------


@every_method
@pytest.mark.parametrize("shape", [(30,), (9, 12), (5, 6, 7), (3, 4, 3, 4)], ids=len)
def test_any_number_of_axes(method, shape, rng):
    array = 5 + on_grid(wave, shape)
    model = baselines.fit(array, method, steps=2)
    assert model.shape == shape
    assert model.samples().shape == shape
    x = inside(rng, shape, 10)
    assert model(x).shape == (10,)
    close(model(np.stack(np.indices(shape), axis=-1)), model.samples(), 2e-5)


@every_method
def test_resize_is_calling_at_the_places_of_field(small, method):
    model, field = baselines.fit(small, method, steps=3, rate=3e-3), ef.fit(small)
    for shape in [(4, 5), (20, 30), (9, 12)]:
        x = [(np.arange(m) + 0.5) * n / m - 0.5 for n, m in zip(small.shape, shape)]
        points = np.stack(np.meshgrid(*x, indexing="ij"), axis=-1)
        close(model.resize(shape), model(points), 2e-5)
        close(field.resize(shape), field(points), 1e-9)  # the same places
    close(model.resize(small.shape), model.samples(), 2e-5)


def test_channels_stay_where_they_were(rng):
    array = rng.random((3, 8, 9)) * np.array([1, 10, 100])[:, None, None]
    first = baselines.fit(array, SMALL["siren"], channel_axis=0, steps=3, every=1)
    last = baselines.fit(np.moveaxis(array, 0, -1), SMALL["siren"], channel_axis=-1, steps=3)
    assert first.samples().shape == (3, 8, 9)
    assert first.resize((4, 5)).shape == (3, 4, 5)
    assert np.array_equal(np.moveaxis(first.samples(), 0, -1), last.samples())
    assert first(rng.random((2, 4, 2))).shape == (2, 4, 3)
    expected = ef.paper_psnr(array, first.samples(), channel_axis=0)
    assert first.log[-1].paper_psnr == pytest.approx(expected, abs=1e-4)


def test_channels_are_scaled_one_by_one(rng):
    # Each to [-1, 1]: a channel's unit must not decide how much it counts.
    array = rng.random((8, 9, 2))
    a = baselines.fit(array, SMALL["siren"], channel_axis=-1, steps=5, rate=1e-3)
    b = baselines.fit(array * [1, 1000], SMALL["siren"], channel_axis=-1, steps=5, rate=1e-3)
    close(b.samples(), a.samples() * [1, 1000], 1e-2)


def test_values_are_given_back_in_their_own_units(small):
    near = baselines.fit(small, SMALL["siren"], steps=30, rate=3e-3)
    far = baselines.fit(1e4 * small - 3e4, SMALL["siren"], steps=30, rate=3e-3)
    close(far.samples(), 1e4 * near.samples() - 3e4, 0.3)
    flat = baselines.fit(np.full((6, 7), 3.0), SMALL["siren"], steps=1)
    close(flat.samples(), np.full((6, 7), 3.0), 0.5)


def test_results_live_where_the_array_lives(small):
    numbers = baselines.fit(small, SMALL["siren"], steps=1)
    tensor = baselines.fit(torch.as_tensor(small), SMALL["siren"], steps=1)
    points = np.array([[1.0, 2.0]])
    assert isinstance(numbers.samples(), np.ndarray)
    assert isinstance(numbers(points), np.ndarray)
    for out in (tensor.samples(), tensor(points), tensor(torch.as_tensor(points))):
        assert isinstance(out, torch.Tensor)
        assert not out.requires_grad
    assert np.array_equal(numbers.samples(), tensor.samples().numpy())
    assert numbers(torch.as_tensor(points)) == numbers(points)


def test_points_outside(small):
    model = baselines.fit(small, SMALL["siren"], steps=1)
    points = [[-0.5, 11.5], [20.0, 3.0]]
    with pytest.raises(ef.OutsideDomainError, match=r"axis0.*covers \[-0.5, 8.5\]"):
        model(points)
    assert np.isnan(model(points, outside="nan")).tolist() == [False, True]
    close(model(points, outside="nearest")[1], model([8.5, 3.0]), 1e-6)


def test_whole_numbers_are_rounded_and_clipped(camera):
    picture = np.round(camera * 255).astype(np.uint8)
    model = baselines.fit(picture, SMALL["hashgrid"], steps=3)
    again = model.resize((40, 20), dtype=np.uint8)
    assert again.dtype == np.uint8
    assert np.array_equal(again, np.clip(np.round(model.resize((40, 20))), 0, 255))


@every_method
def test_little_memory_gives_the_same_values(method, rng):
    array = 5 + on_grid(wave, (40, 41))
    model = baselines.fit(array, method, steps=1)
    points = inside(rng, array.shape, 1000)
    with ef.memory_limit(1 << 16):
        grid, scattered = model.samples(), model(points)
    close(grid, model.samples(), 1e-5)
    close(scattered, model(points), 1e-5)


def test_negative_data_have_no_paper_psnr(small):
    model = baselines.fit(-small, SMALL["siren"], steps=2)
    assert math.isnan(model.log[-1].paper_psnr)
    with pytest.raises(ValueError, match=r"`target`.*must be positive"):
        baselines.fit(-small, SMALL["siren"], steps=2, target=30)


# --- at the door ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"precision": "low"}, "`precision` must be 'highest' or 'high'; got 'low'"),
        ({"device": "nowhere"}, "`device` 'nowhere' cannot be used here"),
        ({"device": "cuda:99"}, "`device` 'cuda:99' cannot be used here"),
        ({"batch": 109}, "`batch` must not exceed the number of samples, 108; got 109"),
        ({"batch": 0}, "`batch` must be a whole number of at least 1; got 0"),
        ({"steps": 0}, "`steps` must be a whole number of at least 1; got 0"),
        ({"every": 1.5}, "`every` must be a whole number of at least 1; got 1.5"),
        ({"rate": -1.0}, "`rate` must be a finite number above 0; got -1.0"),
        ({"rate": float("nan")}, "`rate` must be a finite number above 0; got nan"),
        ({"seconds": 0}, "`seconds` must be a finite number above 0; got 0"),
        ({"schedule": "linear"}, "`schedule` must be None, 'cosine' or 'exponential'"),
        ({"channel_axis": 2}, "`channel_axis` must name an axis of the array, which has 2; got 2"),
        ({"channel_axis": -3}, "`channel_axis` must name an axis of the array.* got -3"),
        ({"channel_axis": 0.5}, "`channel_axis` must name an axis of the array.* got 0.5"),
        ({"channel_axis": True}, "`channel_axis` must name an axis of the array.* got True"),
        ({"device": "meta"}, "`device` must be a name such as .* got 'meta'"),
        ({"device": 1.5}, "`device` must be a name such as .* got 1.5"),
        ({"seed": -1}, r"`seed` must be a whole number from 0 to 2\*\*64 - 1; got -1"),
        ({"seed": 2**64}, "`seed` must be a whole number from 0 to"),
        ({"seed": None}, "`seed` must be a whole number from 0 to .* got None"),
    ],
)
def test_bad_options_are_named(small, options, message):
    with pytest.raises(ValueError, match=message):
        baselines.fit(small, SMALL["siren"], **options)


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.array([[1.0, np.nan], [np.inf, 2.0]]), "got 2 that are NaN or infinite. Fill them"),
        (np.ones((2, 2), complex), "`array` must hold real numbers; got dtype complex128"),
        (np.ones((0, 3)), "one sample; got shape"),
        (np.float64(3), "at least one axis besides channels"),
    ],
)
def test_bad_arrays_are_named(array, message):
    with pytest.raises(ValueError, match=message):
        baselines.fit(array, SMALL["siren"])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: baselines.siren(hidden=0), "`hidden` must be a whole number of at least 1; got 0"),
        (lambda: baselines.ffn(layers=-1), "`layers` must be a whole number of at least 1; got -1"),
        (lambda: baselines.ffn(n_frequencies=2.5), "`n_frequencies` must be a whole number"),
        (lambda: baselines.gaussnet(scale=0), "`scale` must be a finite number above 0; got 0"),
        (lambda: baselines.wire(omega="a"), "`omega` must be a finite number above 0; got 'a'"),
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


def test_bad_points_are_named(small):
    model = baselines.fit(small, SMALL["siren"], steps=1)
    with pytest.raises(ValueError, match=r"`points` must have shape \(..., 2\)"):
        model(np.zeros(3))
    for shape in [(3,), 3, None, "ab", (3, None), (3, 2.5), (3, 0), (3, float("inf"))]:
        with pytest.raises(ValueError, match=r"`shape` must be 2 whole numbers .* got .*"):
            model.resize(shape)
    with pytest.raises(ValueError, match="`outside` must be"):
        model(np.zeros(2), outside="zero")


def test_the_page_of_the_manual_runs():
    page = (ROOT / "docs" / "baselines.md").read_text()
    (block,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    names = {}
    exec(compile(block, "docs/baselines.md", "exec"), names)
    assert names["model"].log[-1].paper_psnr > 40


def python(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


def test_torch_is_imported_by_a_fit_only():
    code = (
        "import sys; from elmfield.research import baselines as b; b.paper_grid('wire'); b.siren()"
    )
    done = python(code + "; print('torch' in sys.modules)")
    assert (done.stdout.strip(), done.stderr) == ("False", "")


def test_without_torch_the_extra_is_named():
    code = "import sys; sys.modules['torch'] = None; import numpy\n"
    code += "from elmfield.research import baselines"
    done = python(code + "; baselines.fit(numpy.ones((3, 3)), baselines.siren())")
    assert done.returncode == 1
    assert "ImportError: `elmfield.research.baselines` needs PyTorch" in done.stderr
    assert "pip install 'elmfield[torch]'" in done.stderr


# --- on a GPU ---------------------------------------------------------------------------------


@pytest.mark.gpu
@every_method
def test_the_gpu_trains_the_same_network(small, method):
    here, there = (
        baselines.fit(small, method, steps=3, every=1, rate=1e-4, device=d) for d in ("cpu", "cuda")
    )
    for a, b in zip(here.log, there.log):
        assert a.paper_psnr == pytest.approx(b.paper_psnr, abs=0.02)
    assert isinstance(there.samples(), np.ndarray)
    close(there.samples(), here.samples(), 0.02)
    tensor = baselines.fit(torch.as_tensor(small).cuda(), method, steps=1)
    assert tensor.samples().device.type == "cuda"


@pytest.mark.gpu
def test_tf32_does_not_touch_the_first_layer(rng):
    x, W, b = rng.uniform(-1, 1, (500, 2)), rng.uniform(-1, 1, (2, 64)), np.zeros(64)
    with networks.matmul_precision("high"):
        z = networks.exactly(*(torch.as_tensor(t, dtype=torch.float32).cuda() for t in (x, W, b)))
    close(z.cpu(), x @ W, 1e-6)


@pytest.mark.gpu
@every_method
def test_compiled_activations_train_the_same_network(small, method):
    options = {"steps": 3, "every": 1, "rate": 1e-4, "device": "cuda"}
    plain, compiled = (baselines.fit(small, method, compiled=c, **options) for c in (False, True))
    for a, b in zip(plain.log, compiled.log):
        assert a.paper_psnr == pytest.approx(b.paper_psnr, abs=1e-3)


def test_compiled_activations_are_asked_for_only_where_wanted(small, monkeypatch):
    asked = []
    monkeypatch.setattr(networks, "_compiled", lambda work: asked.append(work.__name__) or work)
    baselines.fit(small, SMALL["wire"], steps=1)
    assert not asked
    baselines.fit(small, SMALL["wire"], steps=1, compiled=True)
    assert {"_gabor", "_gabor_slope"} <= set(asked)
    assert not networks.fused.on


def test_masked_samples_are_refused(small):
    hidden = np.ma.array(small, mask=np.eye(*small.shape, dtype=bool))
    with pytest.raises(ValueError, match="`array` must have no masked samples"):
        baselines.fit(hidden, SMALL["siren"], steps=1)
    shown = np.ma.array(small, mask=False)
    assert baselines.fit(shown, SMALL["siren"], steps=1).shape == small.shape


@pytest.mark.parametrize("method", ["siren", None, baselines.siren, 3])
def test_a_method_must_be_one(small, method):
    with pytest.raises(ValueError, match=r"such as baselines.siren\(\); got"):
        baselines.fit(small, method)


def test_a_training_that_diverges_says_so(small):
    with pytest.warns(RuntimeWarning, match=r"training diverged within 30 steps at rate=1e\+20"):
        baselines.fit(small, SMALL["ffn"], steps=30, rate=1e20)
