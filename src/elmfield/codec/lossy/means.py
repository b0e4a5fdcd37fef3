"""What the plane of box means says of the boxes: the lowest modes, and how much to expect of the others.

The first mode of all boxes is a smaller array. It is coded first, by boxes again, so a decoder has it, as whole
multiples of ``step / 2^FRACTION``, before the other modes.
"""

import numpy as np
from numpy.typing import NDArray

from elmfield.codec.lossy.boxes import FRACTION, Floats, Modes

Whole = NDArray[np.int64]
WEIGHT_BITS = 7


def _shifted(plane: Whole, offset: tuple[int, ...]) -> Whole:
    """A plane (C, G...) moved by -1, 0 or 1 along each axis; ends are repeated."""
    out = plane
    for k, o in enumerate(offset):
        if o:
            n = plane.shape[1 + k]
            out = out.take(np.clip(np.arange(n) + o, 0, n - 1), axis=1 + k)
    return out


def expected(plane: Whole) -> NDArray[np.int32]:
    """Mean difference from neighbours in steps, shape (boxes,): stands for the first mode's magnitude."""
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
    d, found = m.d, []
    wanted = m.index[m.starts[1] : m.starts[min(3, len(m.starts) - 1)]]
    for row, mode in enumerate(wanted.tolist(), 1):
        axes = [k for k in range(d) if mode[k]]
        if len(axes) == 1:
            up = tuple(int(k == axes[0]) for k in range(d))
            down = tuple(-o for o in up)
            ahead, behind = _shifted(plane, up), _shifted(plane, down)
            diff = behind - ahead if mode[axes[0]] == 1 else ahead + behind - 2 * plane
        else:
            j, k = axes
            corner = {
                (a, b): _shifted(plane, tuple(a * (i == j) + b * (i == k) for i in range(d)))
                for a in (-1, 1)
                for b in (-1, 1)
            }
            diff = corner[1, 1] + corner[-1, -1] - corner[1, -1] - corner[-1, 1]
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
