"""Missing samples on a grid, filled from fine to coarse.

Near present samples, boxes fill what they miss (`gaps`). Samples too far from any other are first
taken from a coarser version of the array, itself filled the same way. A plane through all that is
present is taken off before, and put back: planes are exact.
"""

from collections.abc import Sequence

import numpy as np

from elmfield._array.backend import device, move, namespace
from elmfield._array.typing import Array
from elmfield.fit.planes import plane_through
from elmfield.samples import Samples

REACH = 4
"""Samples farther than this from every present one are taken from the coarser level."""


def filled(samples: Samples, order: float | None, periodic: Sequence[bool]) -> Samples:
    """The samples with what is missing filled in."""
    if samples.present is None:
        return samples
    y = fill_missing(samples.values, samples.present, periodic, order)
    return samples.changed(y, ~samples.present)


def fill_missing(
    y: Array, present: Array, periodic: Sequence[bool], order: float | None = None
) -> Array:
    """`y`, shape (..., C), with every sample that is not `present` filled in.

    With an `order` along a line, by its isotropic energy, and so linear in what is there; without,
    boxes choose what they believe. What is filled is the rest that a plane through all present
    samples leaves: a plane itself comes back exactly, however much of it is missing.
    """
    from elmfield.fit.gaps import ROUNDS  # here: most arrays have no gaps

    xp = namespace(y)
    if bool(xp.all(present)):
        return y
    plane = xp.astype(plane_through(y, present, periodic), y.dtype)
    rest = xp.where(present, y - plane, xp.zeros_like(y))
    found = xp.astype(_fill_levels(rest, present, periodic, order, ROUNDS), y.dtype)
    return xp.where(present, y, found + plane)


def _fill_levels(
    y: Array, present: Array, periodic: Sequence[bool], order: float | None, rounds: int
) -> Array:
    """`y` filled box by box, from a coarser version of itself where no sample is near."""
    from elmfield.fit.gaps import fill_near

    xp = namespace(y)
    if bool(xp.all(present)):
        return y
    if y.shape[-1] > 1 and not bool(xp.all(present == present[..., :1])):
        each = [
            _fill_levels(y[..., k : k + 1], present[..., k : k + 1], periodic, order, rounds)
            for k in range(y.shape[-1])
        ]
        return xp.concat(each, axis=-1)
    here = present[..., 0]
    far = ~is_near(here, periodic)
    if bool(xp.any(far)):
        small, have = halved(y, here)
        have = xp.broadcast_to(have[..., None], small.shape)
        small = _fill_levels(small, have, periodic, order, 0)
        y = xp.where(far[..., None], _double(small, y.shape[:-1], periodic), y)
        here = here | far
    return fill_near(y, here, periodic, order=order, rounds=rounds)


def is_near(present: Array, periodic: Sequence[bool]) -> Array:
    """Whether a present sample lies within REACH, along each axis at a time."""
    xp = namespace(present)
    for k, n in enumerate(present.shape):
        reached = present
        for step in range(1, min(REACH, n - 1) + 1):
            for way in (-step, step):
                moved = xp.roll(present, way, axis=k)
                if not periodic[k]:
                    i = xp.arange(n, device=device(present))
                    valid = (i >= way) if way > 0 else (i < n + way)
                    moved = moved & xp.reshape(
                        valid, tuple(n if j == k else 1 for j in range(present.ndim))
                    )
                reached = reached | moved
        present = reached
    return present


def halved(y: Array, present: Array) -> tuple[Array, Array]:
    """Means of the present samples in blocks of two per axis, and which blocks have any."""
    xp = namespace(y)
    weight = xp.astype(present, y.dtype)[..., None]
    total = y * weight
    for k in range(present.ndim):
        pair = []
        for a in (total, weight):
            even = a[(slice(None),) * k + (slice(0, None, 2), ...)]
            odd = a[(slice(None),) * k + (slice(1, None, 2), ...)]
            if odd.shape[k] < even.shape[k]:
                end = (slice(None),) * k + (slice(0, 1), ...)
                odd = xp.concat([odd, xp.zeros_like(even[end])], axis=k)
            pair.append(even + odd)
        total, weight = pair
    have = weight[..., 0] > 0
    return total / xp.where(have[..., None], weight, xp.ones_like(weight)), have


def _double(small: Array, shape: Sequence[int], periodic: Sequence[bool]) -> Array:
    """Twice as many samples per axis, cut to `shape`: linear, and smooth when repeated."""
    xp = namespace(small)
    for k, n in enumerate(shape):
        m = small.shape[k]
        if n == 1:
            continue
        i = np.arange(n)
        near = i // 2
        other = near + np.where(i % 2, 1, -1)
        other = other % m if periodic[k] else np.clip(other, 0, m - 1)
        small = 0.75 * xp.take(small, move(near, small), axis=k) + 0.25 * xp.take(
            small, move(other, small), axis=k
        )
    return small
