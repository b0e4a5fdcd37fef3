"""Each network against its printed equation, slow and plain."""

import itertools
import math

import numpy as np
import pytest

from paper.research import baselines
from paper.research.baselines import Schedule
from support import close

torch = pytest.importorskip("torch", reason="the baselines need torch")

from paper.research.baselines import activations  # noqa: E402
from paper.research.baselines.training import Training  # noqa: E402
from research.baselines.small import SMALL, drawn, layers_of, values_of  # noqa: E402


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
    re, im = activations.gabor(z, omega, s).T.numpy()
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
    "function", [lambda z: activations.gabor(z, 3.0, 1.5), activations.bump], ids=["gabor", "bump"]
)
def test_gradients_by_hand_are_gradients(function, rng):
    z = torch.as_tensor(rng.uniform(-0.7, 0.7, (5, 6))).requires_grad_()
    assert torch.autograd.gradcheck(function, (z,))


def test_the_gradient_of_the_exact_layer(rng):
    x, W, b = (torch.as_tensor(rng.standard_normal(s)) for s in ((7, 3), (3, 4), (4,)))
    W.requires_grad_(), b.requires_grad_()
    assert torch.autograd.gradcheck(lambda W, b: activations.exactly(x, W, b), (W, b))


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
        x = Training(small, method, Schedule())._coordinates().numpy().reshape(9, 12, 2)
        for k, n in enumerate(small.shape):
            half = (1 - low) / (2 * n)
            assert x[..., k].min() == pytest.approx(low + half, abs=1e-6)
            assert x[..., k].max() == pytest.approx(1 - half, abs=1e-6)
        assert np.all(np.diff(x[..., 0], axis=0) > 0)  # coordinate k runs along axis k
