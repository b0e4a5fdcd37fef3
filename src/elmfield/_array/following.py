"""Functions that are differentiated by what is known of them, not by how they are made."""

from collections.abc import Callable
from functools import lru_cache
from typing import Any

from elmfield._array.typing import Array

Order = tuple[int, ...]
Partials = Callable[[Array, list[Order]], list[Array]]
"""Mixed derivatives (n, C) of a function at points (n, d), for each of some orders."""

HIGHEST = 2
"""Order of the derivatives that functions know of themselves."""


def followed(known: Partials, plain: Partials | None, x: Array, orders: list[Order]) -> list[Array]:
    """``known(x, orders)``, for x that torch follows: its derivatives are `known` ones too.

    Derivatives above the second are those of `plain`, which torch follows step by step; None where
    all are known.
    """
    if plain is not None and max(map(sum, orders)) > HIGHEST:
        return plain(x, orders)
    return list(_function().apply(x, known, plain, orders))


@lru_cache(maxsize=1)
def _function() -> Any:
    import torch

    class Known(torch.autograd.Function):
        """A function with known derivatives, which are such functions again."""

        @staticmethod
        def forward(ctx: Any, x: Array, known: Any, plain: Any, orders: Any) -> Any:
            wanted = _wanted(orders, x.shape[1])
            both = plain is None or max(map(sum, wanted)) <= HIGHEST
            # The next derivatives cost little more beside these, and as much as these alone.
            found = known(x.detach(), [*orders, *wanted] if both else orders)
            ctx.save_for_backward(x, *found[len(orders) :])
            ctx.how = known, plain, orders
            return tuple(found[: len(orders)])

        @staticmethod
        def backward(ctx: Any, *given: Any) -> Any:
            x, *kept = ctx.saved_tensors
            known, plain, orders = ctx.how
            d = x.shape[1]
            wanted = _wanted(orders, d)
            if torch.is_grad_enabled():
                found = dict(zip(wanted, followed(known, plain, x, wanted)))
            elif kept:
                found = dict(zip(wanted, kept))
            else:
                with torch.enable_grad():
                    found = dict(zip(wanted, plain(x, wanted)))
            columns = [
                sum((g * found[_raised(a, k)]).sum(dim=1) for g, a in zip(given, orders))
                for k in range(d)
            ]
            return torch.stack(columns, dim=1).to(x.dtype), None, None, None

    return Known


def _wanted(orders: list[Order], d: int) -> list[Order]:
    """The orders that differ from given ones by one derivative more, all of them."""
    return sorted({_raised(a, k) for a in orders for k in range(d)})


def _raised(a: Order, k: int) -> Order:
    """One derivative more along axis k."""
    return tuple(i + (l == k) for l, i in enumerate(a))


Linear = Callable[[Any], Any]
"""A linear function of NumPy arrays."""


def linear(apply: Linear, adjoint: Linear, x: Array, known: Any = None) -> Array:
    """``apply(x)`` of a tensor that torch follows, worked out by NumPy; `known` where it is known.

    `adjoint` takes derivatives by what leaves back to derivatives by what enters.
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
        def backward(ctx: Any, *given: Any) -> Any:
            apply, adjoint = ctx.how
            return linear(adjoint, apply, given[0]), None, None, None

    return LinearMap


def worked_out_again(function: Callable[..., Any], *x: Array) -> Any:
    """``function(*x)`` of tensors: worked out again for derivatives, nothing of it is kept."""
    from torch.utils.checkpoint import checkpoint

    return checkpoint(function, *x, use_reentrant=False, preserve_rng_state=False)
