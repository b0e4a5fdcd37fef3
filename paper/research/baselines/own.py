"""Methods of the caller's own: any torch module, trained and asked like the published ones.

Torch is imported when a network is made, not before.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from paper.research.baselines.methods import Method, positives


@dataclass(frozen=True, kw_only=True)
class Own:
    """Settings of a network of the caller's own; see :func:`own`."""

    make: Callable[..., Any]
    rate: float = 1e-4
    betas: tuple[float, float] = (0.9, 0.999)
    epsilon: float = 1e-8
    interval: tuple[float, float] = (-1.0, 1.0)

    def __post_init__(self) -> None:
        positives(rate=self.rate, epsilon=self.epsilon)
        low, high = self.interval
        if not low < high:
            raise ValueError(
                f"`interval` must be two ends, the lower first; got {self.interval!r}."
            )

    def network(self, shape: Sequence[int], channels: int, rng: np.random.Generator) -> Any:
        """The caller's module, its first weights drawn by torch from a seed of `rng`."""
        import torch

        from paper.research.baselines.modules import Module

        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(int(rng.integers(2**63)))
            return Module(self.make(len(shape), channels), len(shape), channels)


def own(
    make: Callable[..., Any],
    *,
    rate: float = 1e-4,
    betas: tuple[float, float] = (0.9, 0.999),
    epsilon: float = 1e-8,
    interval: tuple[float, float] = (-1.0, 1.0),
) -> Own:
    """A method of your own, for :func:`fit`, :func:`search` and `elmfield.heldout_score`.

    Parameters
    ----------
    make : callable
        ``make(d, C)`` gives a new `torch.nn.Module` from points, (n, d), to values, (n, C); its
        class, if that is how it is called. A module that exists already is trained as it is, once.
    rate, betas, epsilon : optional
        Of Adam.
    interval : pair of float
        What every axis of the array is mapped to; values are between -1 and 1.

    Examples
    --------
    >>> from paper.research import baselines
    >>> method = baselines.own(lambda d, C: torch.nn.Linear(d, C), rate=1e-3)
    """
    if not callable(make):
        raise TypeError(
            "`make` must be a function of the numbers of axes and channels that gives a torch "
            f"module; got a {type(make).__name__}."
        )
    return Own(make=_maker(make), rate=rate, betas=betas, epsilon=epsilon, interval=interval)


def _maker(make: Any) -> Callable[..., Any]:
    """A function of (d, C); of a module that exists already, one that gives it."""
    return (lambda d, C: make) if _is_module(make) else make


def _is_module(value: Any) -> bool:
    """Whether something is a module of torch, and not the class of one."""
    import sys

    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.nn.Module)


def method_of(given: Any) -> Method:
    """A method as callers give it: one of the settings, a module, or what makes one."""
    if isinstance(given, Method) and not isinstance(given, type) and not _is_module(given):
        return given
    if callable(given) and (_is_module(given) or not _is_published(given)):
        return own(given)
    raise ValueError(
        "`method` must be a torch module, a function that makes one, or one of this module's, such "
        f"as baselines.siren(); got {given!r}."
    )


def _is_published(given: Any) -> bool:
    """Whether somebody forgot to call `siren` and the like, or gave their settings' class."""
    from paper.research.baselines import methods, published

    named = [getattr(published, n) for n in ("siren", "ffn", "gaussnet", "wire", "hashgrid")]
    return given in named or (isinstance(given, type) and given.__module__ == methods.__name__)
