"""The networks: coordinates in, values between -1 and 1 out.

A network holds `parameters`, a list of float32 tensors to be trained, and `constants`. What does
not depend on the parameters is done by ``prepare(x)``, once where the points stay the same; calling
the network with that gives the values, (n, C). `width` is how many numbers it holds per point.
This room and `activations` are the only ones that import torch as they are imported.
"""

from abc import ABC, abstractmethod
from itertools import pairwise, product
from typing import Any

import numpy as np
import torch

from elmfield._array.typing import Array
from paper.research.baselines.activations import bump, exactly, gabor, matmul_precision, sine

PRIMES = (1, 2654435761, 805459861, 3674653429, 2097192037, 1434869437, 2165219737)
"""One per axis, from tiny-cuda-nn; the first three are those of instant-ngp's paper, section 3."""


class Network(ABC):
    """What networks share: layers ``(W, b)``, in one list of parameters."""

    def __init__(self, parameters: list[Any], constants: list[Any], width: int) -> None:
        self.parameters = [_tensor(p) for p in parameters]
        self.constants = [_tensor(c) for c in constants]
        self.width = width

    def to(self, device: Any) -> "Network":
        """The same network, moved."""
        self.parameters = [p.detach().to(device).requires_grad_() for p in self.parameters]
        self.constants = [c.to(device) for c in self.constants]
        return self

    @property
    def n_parameters(self) -> int:
        """Real numbers that are trained."""
        return sum(p.numel() for p in self.parameters)

    def state(self) -> dict[str, Any]:
        """All that makes the function, by name, on the host."""
        kept = {"parameters": self.parameters, "constants": self.constants}
        return {
            f"{name}/{k}": t.detach().cpu().numpy()
            for name, tensors in kept.items()
            for k, t in enumerate(tensors)
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Take up what :meth:`state` gave."""
        for name, own in (("parameters", self.parameters), ("constants", self.constants)):
            given = [state.get(f"{name}/{k}") for k in range(len(own))]
            if any(g is None or g.shape != tuple(t.shape) for g, t in zip(given, own)):
                raise ValueError(
                    "the file was written for another network: its tensors do not fit."
                )
            fresh = [torch.as_tensor(g) for g in given]
            if name == "parameters":
                self.parameters = [t.requires_grad_() for t in fresh]
            else:
                self.constants = fresh

    @property
    def layers(self) -> list[tuple[Any, Any]]:
        """Pairs (W, b), the output layer last."""
        p = self.parameters
        return list(zip(p[0::2], p[1::2]))

    def prepare(self, x: Array) -> Any:
        """What can be said of the points (n, d) before the parameters are known."""
        return x

    @abstractmethod
    def __call__(self, prepared: Any) -> Array:
        """Values, shape (n, C)."""


class Sines(Network):
    """``h = sin(omega (h W + b))``, layer by layer; linear at the end."""

    def __init__(self, parameters: list[Any], first_omega: float, omega: float) -> None:
        super().__init__(parameters, [], 3 * parameters[0].shape[1])
        self.omegas = [first_omega] + [omega] * (len(parameters) // 2 - 2)

    @classmethod
    def drawn(
        cls, sizes: list[int], first_omega: float, omega: float, rng: np.random.Generator
    ) -> "Sines":
        """With first weights as in SIREN's code."""
        parameters: list[Any] = []
        for k, (n, m) in enumerate(pairwise(sizes)):
            bound = 1 / n if k == 0 else np.sqrt(6 / n) / omega
            parameters += [uniform(rng, bound, n, m), uniform(rng, 1 / np.sqrt(n), m)]
        return cls(parameters, first_omega, omega)

    def preactivations(self, x: Array) -> list[Array]:
        """What each sine is taken of, layer by layer, with the output last."""
        # omega goes into the small matrices: a pass over (n, hidden) is saved each time.
        (W, b), *rest, (V, c) = self.layers
        z = [exactly(x, self.omegas[0] * W, self.omegas[0] * b)]
        for omega, (W, b) in zip(self.omegas[1:], rest):
            z.append(torch.addmm(omega * b, sine(z[-1]), omega * W))
        return [*z, torch.addmm(c, sine(z[-1]), V)]

    def __call__(self, prepared: Any) -> Array:
        """Values, shape (n, C)."""
        return self.preactivations(prepared)[-1]


class Gaussians(Network):
    """``h = exp(-(h W + b)² / 2 a²)``, layer by layer; linear at the end."""

    def __init__(self, parameters: list[Any], scale: float) -> None:
        super().__init__(parameters, [], 3 * parameters[0].shape[1])
        self.inverse = 1 / (np.sqrt(2) * scale)

    @classmethod
    def drawn(cls, sizes: list[int], scale: float, rng: np.random.Generator) -> "Gaussians":
        """With first weights as in the authors' code."""
        return cls(_torch_layers(sizes, rng), scale)

    def __call__(self, prepared: Any) -> Array:
        """Values, shape (n, C)."""
        s = self.inverse
        (W, b), *rest, (V, c) = self.layers
        h = bump(exactly(prepared, s * W, s * b))
        for W, b in rest:
            h = bump(torch.addmm(s * b, h, s * W))
        return torch.addmm(c, h, V)


class Gabors(Network):
    """``h = ψ(h W + b)`` in complex numbers, kept as ``[real, imaginary]``; linear at the end.

    Complex weights are parameters (2, n, m), biases (2, m). A complex product is one real product
    with ``[[R, I], [-I, R]]``: as many multiplications, and the precision real products have.
    """

    def __init__(
        self, parameters: list[Any], first_omega: float, omega: float, scale: float
    ) -> None:
        super().__init__(parameters, [], 6 * parameters[0].shape[1])
        self.first_omega, self.omega, self.scale = first_omega, omega, scale

    @classmethod
    def drawn(
        cls,
        sizes: list[int],
        first_omega: float,
        omega: float,
        scale: float,
        rng: np.random.Generator,
    ) -> "Gabors":
        """With first weights as in WIRE's code: real in the first layer, complex after it."""
        parameters: list[Any] = []
        last = len(sizes) - 2
        for k, (n, m) in enumerate(pairwise(sizes)):
            bound, two = 1 / np.sqrt(n), () if k == 0 else (2,)
            parameters.append(uniform(rng, bound, *two, n, m))
            parameters.append(uniform(rng, bound, *(() if k == last else two), m))
        return cls(parameters, first_omega, omega, scale)

    def __call__(self, prepared: Any) -> Array:
        """Values, shape (n, C)."""
        (W, b), *rest, (V, c) = self.layers
        z = exactly(prepared, W, b)
        h = gabor(torch.cat([z, torch.zeros_like(z)], dim=1), self.first_omega, self.scale)
        for W, b in rest:
            re, im = W[0], W[1]
            block = torch.cat([torch.cat([re, im], dim=1), torch.cat([-im, re], dim=1)])
            h = gabor(torch.addmm(b.reshape(-1), h, block), self.omega, self.scale)
        return torch.addmm(c, h, torch.cat([V[0], -V[1]]))  # the real part of h V


class FourierFeatures(Network):
    """A rectified network of ``γ(x) = [cos 2π x B, sin 2π x B]``."""

    def __init__(self, parameters: list[Any], frequencies: Any) -> None:
        widest = max(2 * frequencies.shape[1], parameters[0].shape[1])
        super().__init__(parameters, [frequencies], 3 * widest)

    @classmethod
    def drawn(
        cls, d: int, sizes: list[int], scale: float, rng: np.random.Generator
    ) -> "FourierFeatures":
        """With B Gaussian, weights Glorot's normal, biases normal and small."""
        B = scale * rng.standard_normal((d, sizes[0] // 2))
        parameters: list[Any] = []
        for n, m in pairwise(sizes):
            W = np.sqrt(2 / (n + m)) * rng.standard_normal((n, m))
            parameters += [W, 0.01 * rng.standard_normal(m)]
        return cls(parameters, B)

    def prepare(self, x: Array) -> Any:
        """The features γ(x), shape (n, 2F), in full float32."""
        (B,) = self.constants
        with matmul_precision("highest"):
            phase = (2 * torch.pi) * (x @ B)
        return torch.cat([torch.cos(phase), torch.sin(phase)], dim=1)

    def __call__(self, prepared: Any) -> Array:
        """Values, shape (n, C)."""
        return _rectified(prepared, self.layers)


class HashedGrids(Network):
    """A rectified network of features interpolated on grids whose vertices are learned.

    The first parameter holds the entries of all levels, one below the other, shape (E, F).
    """

    def __init__(self, parameters: list[Any], resolutions: list[int], table: int, d: int) -> None:
        widest = max(len(resolutions) * 2**d * (2 + 2 * parameters[0].shape[1]), 64)
        super().__init__(parameters, [], widest)
        self.resolutions, self.table, self.d = resolutions, table, d

    @classmethod
    def drawn(
        cls,
        d: int,
        resolutions: list[int],
        table: int,
        features: int,
        sizes: list[int],
        rng: np.random.Generator,
    ) -> "HashedGrids":
        """With entries uniform within ±1e-4, weights Glorot's uniform, no biases yet."""
        n_entries = sum(min((N + 1) ** d, table) for N in resolutions)
        parameters: list[Any] = [uniform(rng, 1e-4, n_entries, features)]
        for n, m in pairwise(sizes):
            parameters += [uniform(rng, np.sqrt(6 / (n + m)), n, m), np.zeros(m)]
        return cls(parameters, resolutions, table, d)

    @property
    def layers(self) -> list[tuple[Any, Any]]:
        """Pairs (W, b) of the network after the encoding."""
        p = self.parameters[1:]
        return list(zip(p[0::2], p[1::2]))

    def prepare(self, x: Array) -> Any:
        """Entries and weights of the corners around each point, each (n, L, 2^d)."""
        entries: list[Any] = []
        weights: list[Any] = []
        start = 0
        for N in self.resolutions:
            at = x * N
            cell = at.floor().clamp_(0, N - 1)  # the far border belongs to the last cell
            t, cell = at - cell, cell.long()
            dense = (N + 1) ** self.d <= self.table
            for corner in product((0, 1), repeat=self.d):
                entry: Any = 0
                weight: Any = 1.0
                for k, up in enumerate(corner):
                    i = cell[:, k] + up
                    weight = weight * (t[:, k] if up else 1 - t[:, k])
                    entry = entry * (N + 1) + i if dense else entry ^ (i * PRIMES[k])
                entries.append(start + (entry if dense else (entry & 0xFFFFFFFF) % self.table))
                weights.append(weight)
            start += min((N + 1) ** self.d, self.table)
        shape = (len(x), len(self.resolutions), 2**self.d)
        return (
            torch.stack(entries, dim=1).reshape(shape),
            torch.stack(weights, dim=1).reshape(shape),
        )

    def encode(self, prepared: Any) -> Array:
        """Features of all levels side by side, shape (n, L F)."""
        entries, weights = prepared
        # index_select: its gradient is one pass of atomic sums; that of indexing sorts first.
        values = self.parameters[0].index_select(0, entries.reshape(-1))
        values = values.reshape(*entries.shape, -1)
        return (values * weights[..., None]).sum(dim=2).reshape(len(entries), -1)

    def __call__(self, prepared: Any) -> Array:
        """Values, shape (n, C)."""
        return _rectified(self.encode(prepared), self.layers)


# --- helpers ----------------------------------------------------------------------------------


def uniform(rng: np.random.Generator, bound: float, *shape: int) -> Any:
    """Uniform numbers within ±bound, in float64."""
    return rng.uniform(-bound, bound, shape)


def _torch_layers(sizes: list[int], rng: np.random.Generator) -> list[Any]:
    """Weights and biases uniform within ±1/sqrt(n), as torch draws those of a linear layer."""
    out: list[Any] = []
    for n, m in pairwise(sizes):
        out += [uniform(rng, 1 / np.sqrt(n), n, m), uniform(rng, 1 / np.sqrt(n), m)]
    return out


def _rectified(h: Array, layers: list[tuple[Any, Any]]) -> Array:
    *hidden, (V, c) = layers
    for W, b in hidden:
        h = torch.addmm(b, h, W).relu_()
    return torch.addmm(c, h, V)


def _tensor(x: Any) -> Any:
    return torch.as_tensor(x, dtype=torch.float32)
