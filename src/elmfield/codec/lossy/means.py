"""What the plane of box means says of the boxes: the lowest modes, and what to expect of others.

The first mode of all boxes is a smaller array. It is coded first, by boxes again, so a decoder has
it, as whole multiples of ``step / 2^FRACTION``, before the other modes.
"""

import numpy as np
from numpy.typing import NDArray

from elmfield.codec.lossy.boxes import FRACTION, Floats, Modes

Whole = NDArray[np.int64]
WEIGHT_BITS = 7


def _surrounded(plane: Whole) -> Whole:
    """A plane (C, G...) with one more entry at all ends, repeated."""
    for k in range(1, plane.ndim):
        ends = (slice(None),) * k
        first, last = plane[(*ends, slice(0, 1))], plane[(*ends, slice(-1, None))]
        plane = np.concatenate([first, plane, last], axis=k)
    return plane


def _off(around: Whole, offset: tuple[int, ...]) -> Whole:
    """The view of a surrounded plane that is off by -1, 0 or 1 along each axis."""
    return around[
        (slice(None), *(slice(1 + o, n - 1 + o) for o, n in zip(offset, around.shape[1:])))
    ]


def expected(plane: Whole) -> NDArray[np.int32]:
    """Mean difference from neighbours in steps, (boxes,): stands for the first mode."""
    d = plane.ndim - 1
    steps = (plane + (1 << FRACTION >> 1)) >> FRACTION
    total = np.zeros(plane.shape, np.int64)
    for k in range(d):
        across = np.abs(np.diff(steps, axis=1 + k))
        low = (slice(None),) * (1 + k)
        total[(*low, slice(1, None))] += across
        total[(*low, slice(None, -1))] += across
    return np.minimum(total // (2 * d), 1 << 20).astype(np.int32).ravel()


def differences(plane: Whole, m: Modes) -> list[tuple[int, Whole]]:
    """Rows that can be predicted, and the differences they follow, shape (boxes,).

    Modes ``e_k`` follow first differences, ``2 e_k`` second ones, ``e_k + e_l`` mixed ones.
    """
    d, found, around = m.d, [], _surrounded(plane)
    wanted = m.index[m.starts[1] : m.starts[min(3, len(m.starts) - 1)]]
    for row, mode in enumerate(wanted.tolist(), 1):
        axes = [k for k in range(d) if mode[k]]

        def at(*offsets: int, axes: list[int] = axes) -> Whole:
            by_axis = dict(zip(axes, offsets))
            return _off(around, tuple(by_axis.get(k, 0) for k in range(d)))

        if len(axes) == 2:
            diff = at(1, 1) + at(-1, -1) - at(1, -1) - at(-1, 1)
        elif mode[axes[0]] == 1:
            diff = at(-1) - at(1)
        else:
            diff = at(1) + at(-1) - 2 * plane
        found.append((row, diff.ravel()))
    return found


def fitted(found: list[tuple[int, Whole]], X: Floats) -> NDArray[np.int8]:
    """Weights of the differences in 128ths; `X` are modes in steps, rows sorted, (M, boxes)."""
    weights = []
    for row, diff in found:
        x = diff / (1 << FRACTION)
        power = float(x @ x)
        w = float(x @ X[row]) / power if power > 0 else 0.0
        weights.append(int(np.clip(round(w * (1 << WEIGHT_BITS)), -127, 127)))
    return np.array(weights, np.int8)


def predicted(found: list[tuple[int, Whole]], weights: NDArray[np.int8]) -> list[tuple[int, Whole]]:
    """Rows and what is predicted of them, in units of ``step / 2^FRACTION``."""
    return [(row, diff * int(w) >> WEIGHT_BITS) for (row, diff), w in zip(found, weights)]
