"""Activations and exact first layers, with slopes by hand; how precisely, and whether compiled.

By hand because torch's own keep more arrays, or take longer; the tests compare the slopes with
finite differences.
"""

from functools import cache
from typing import Any

import torch

from elmfield._array.typing import Array


class _Exactly(torch.autograd.Function):
    """``x W + b`` with full float32 products, also where others are allowed fewer digits.

    TF32 keeps ten bits: neighbours among 2048 samples could not be told apart. Training asks for no
    gradient of the points, :meth:`Fitted.gradient` does.
    """

    @staticmethod
    def forward(ctx: Any, x: Array, W: Array, b: Array) -> Array:
        ctx.save_for_backward(x, W)
        with matmul_precision("highest"):
            return torch.addmm(b, x, W)

    @staticmethod
    def backward(ctx: Any, g: Array) -> tuple[Array | None, Array, Array]:
        x, W = ctx.saved_tensors
        with matmul_precision("highest"):
            return g @ W.T if ctx.needs_input_grad[0] else None, x.T @ g, g.sum(0)


class _Sine(torch.autograd.Function):
    """``sin z``."""

    @staticmethod
    def forward(ctx: Any, z: Array) -> Array:
        ctx.save_for_backward(z)
        return torch.sin(z)

    @staticmethod
    def backward(ctx: Any, g: Array) -> Array:
        return in_one_pass(_sine_slope)(*ctx.saved_tensors, g)


def _sine_slope(z: Array, g: Array) -> Array:
    return torch.cos(z).mul_(g)


class _Bump(torch.autograd.Function):
    """``h = exp(-z²)``; one array kept beside the result, which the next layer keeps anyway."""

    @staticmethod
    def forward(ctx: Any, z: Array) -> Array:
        h = in_one_pass(_bump)(z)
        ctx.save_for_backward(z, h)
        return h

    @staticmethod
    def backward(ctx: Any, g: Array) -> Array:
        return in_one_pass(_bump_slope)(*ctx.saved_tensors, g)


def _bump(z: Array) -> Array:
    return torch.square(z).neg_().exp_()


def _bump_slope(z: Array, h: Array, g: Array) -> Array:
    return (g * h).mul_(z).mul_(-2)


class _Gabor(torch.autograd.Function):
    """``ψ(z) = exp(i ω z - s² |z|²)`` of ``z = a + i b``, as ``[Re, Im]`` of ``[a, b]``.

    ``ψ = exp(-ω b - s² (a² + b²)) (cos ω a + i sin ω a)``. By hand: torch's complex autograd takes
    four times as long (4096 points, 181 neurons, one core: 50 against 12 ms).
    """

    @staticmethod
    def forward(ctx: Any, z: Array, omega: float, scale: float) -> Array:
        psi = in_one_pass(_gabor)(z, omega, scale)
        ctx.save_for_backward(z, psi)
        ctx.omega, ctx.scale = omega, scale
        return psi

    @staticmethod
    def backward(ctx: Any, g: Array) -> tuple[Array, None, None]:
        z, psi = ctx.saved_tensors
        return in_one_pass(_gabor_slope)(z, psi, g, ctx.omega, ctx.scale), None, None


def _gabor(z: Array, omega: float, scale: float) -> Array:
    a, b = z.chunk(2, dim=1)
    size = torch.exp(-(scale**2) * (a * a + b * b) - omega * b)
    return torch.cat([size * torch.cos(omega * a), size * torch.sin(omega * a)], dim=1)


def _gabor_slope(z: Array, psi: Array, g: Array, omega: float, scale: float) -> Array:
    (a, b), (re, im), (g_re, g_im) = (t.chunk(2, dim=1) for t in (z, psi, g))
    along = g_re * re + g_im * im  # growth of the envelope
    across = g_im * re - g_re * im  # turn of the phase
    two = 2 * scale**2
    return torch.cat([omega * across - two * a * along, -(omega + two * b) * along], dim=1)


class fused:
    """Within this context, activations and their slopes are compiled to one pass over memory."""

    on = False

    def __init__(self, on: bool) -> None:
        self.wanted = on

    def __enter__(self) -> None:
        self.before, fused.on = fused.on, self.wanted

    def __exit__(self, *problem: object) -> None:
        fused.on = self.before


def in_one_pass(work: Any) -> Any:
    """`work`, compiled where that is asked for; it only does arithmetic element by element."""
    return _compiled(work) if fused.on else work


@cache
def _compiled(work: Any) -> Any:
    return torch.compile(work, dynamic=True)


class matmul_precision:
    """Within this context, torch's float32 matrix products have this precision."""

    def __init__(self, precision: str) -> None:
        self.precision = precision

    def __enter__(self) -> None:
        self.before = torch.get_float32_matmul_precision()
        if self.before != self.precision:
            torch.set_float32_matmul_precision(self.precision)

    def __exit__(self, *problem: object) -> None:
        if self.before != self.precision:
            torch.set_float32_matmul_precision(self.before)


def gabor(z: Array, omega: float, scale: float) -> Array:
    """Complex Gabor wavelets of complex numbers given as ``[real, imaginary]``, (n, 2m)."""
    return _Gabor.apply(z, float(omega), float(scale))  # type: ignore[no-untyped-call]


def sine(z: Array) -> Array:
    """``sin z``."""
    return _Sine.apply(z)  # type: ignore[no-untyped-call]


def bump(z: Array) -> Array:
    """``exp(-z²)``."""
    return _Bump.apply(z)  # type: ignore[no-untyped-call]


def exactly(x: Array, W: Array, b: Array) -> Array:
    """``x W + b`` in full float32."""
    return _Exactly.apply(x, W, b)  # type: ignore[no-untyped-call]
