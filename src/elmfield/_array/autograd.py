"""Gradients of torch through functions whose derivatives or adjoints are known in closed form."""

from collections.abc import Callable
from functools import lru_cache
from typing import Any

from elmfield._array.backend import requires_grad
from elmfield._array.typing import Array

Order = tuple[int, ...]
"""How often a function is differentiated along each axis."""

Partials = Callable[[Array, list[Order]], list[Array]]
"""Mixed derivatives (n, C) of a function at points (n, d), for each of some orders."""

MAX_KNOWN_ORDER = 2
"""Order up to which derivatives are known in closed form."""


def differentiable(
    known: Partials, plain: Partials | None, x: Array, orders: list[Order]
) -> list[Array]:
    """Return ``known(x, orders)``; where torch tracks x, its gradient is made by `known` too.

    That of second derivatives goes step by step through `plain`; None where all are known.
    """
    if not requires_grad(x):
        return known(x, orders)
    return list(_function().apply(x, known, plain, orders))


@lru_cache(maxsize=1)
def _function() -> Any:
    import torch

    class Known(torch.autograd.Function):
        """A function with known derivatives, which are such functions again."""

        @staticmethod
        def forward(ctx: Any, x: Array, known: Any, plain: Any, orders: Any) -> Any:
            # Computed with these, the next derivatives cost little; alone, as much again.
            found = known(x.detach(), [*orders, *_wanted(orders, x.shape[1], plain)])
            ctx.save_for_backward(x, *found[len(orders) :])
            ctx.how = known, plain, orders
            return tuple(found[: len(orders)])

        @staticmethod
        def backward(ctx: Any, *given: Array) -> Any:
            x, *kept = ctx.saved_tensors
            known, plain, orders = ctx.how
            d, again = x.shape[1], torch.is_grad_enabled()
            wanted = _wanted(orders, d, plain)
            if not wanted:
                with torch.enable_grad():
                    x = x if again else x.detach().requires_grad_()
                    values = plain(x, orders)
                return *torch.autograd.grad(values, x, given, create_graph=again), None, None, None
            found = dict(zip(wanted, differentiable(known, plain, x, wanted) if again else kept))
            columns = [
                sum((g * found[_raised(a, k)]).sum(dim=1) for g, a in zip(given, orders))
                for k in range(d)
            ]
            return torch.stack(columns, dim=1).to(x.dtype), None, None, None

    return Known


def _wanted(orders: list[Order], d: int, plain: object) -> list[Order]:
    """Return the orders with one derivative more than these; none beyond what is known."""
    if plain is not None and max(map(sum, orders)) >= MAX_KNOWN_ORDER:
        return []
    return sorted({_raised(a, k) for a in orders for k in range(d)})


def _raised(a: Order, k: int) -> Order:
    """One derivative more along axis k."""
    return tuple(i + (l == k) for l, i in enumerate(a))


Linear = Callable[[Array], Array]
"""A linear function of NumPy arrays."""


def apply_linear(apply: Linear, adjoint: Linear, x: Array, known: Array = None) -> Array:
    """Return ``apply(x)``, computed by NumPy, of a tensor that torch tracks.

    `adjoint` maps gradients by the result to gradients by x. `known` is the result, where it has
    been computed already.
    """
    made: Array = _linear_function().apply(x, apply, adjoint, known)
    return made


@lru_cache(maxsize=1)
def _linear_function() -> Any:
    import torch

    class LinearMap(torch.autograd.Function):
        """A linear function with a known adjoint, which is such a function again."""

        @staticmethod
        def forward(ctx: Any, x: Array, apply: Any, adjoint: Any, known: Any) -> Any:
            ctx.how = apply, adjoint
            found = apply(x.detach().cpu().numpy()) if known is None else known
            return torch.as_tensor(found, dtype=x.dtype, device=x.device)

        @staticmethod
        def backward(ctx: Any, *given: Array) -> Any:
            apply, adjoint = ctx.how
            return apply_linear(adjoint, apply, given[0]), None, None, None

    return LinearMap


def recompute(function: Callable[..., Array], *x: Array) -> Array:
    """Return ``function(*x)``; intermediates are computed again for gradients instead of stored."""
    if not any(map(requires_grad, x)):
        return function(*x)
    from torch.utils.checkpoint import checkpoint

    return checkpoint(function, *x, use_reentrant=False, preserve_rng_state=False)


def gradient_error(step: str) -> TypeError:
    """Return the error for samples that require gradients in a step without any."""
    return TypeError(
        f"samples that require gradients cannot be followed through {step}. Detach them, "
        "values.detach(), or do without."
    )
