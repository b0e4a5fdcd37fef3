"""Missing samples on a grid, filled by the smoothest function through the present ones.

Near samples, each box is filled by the function of least energy through what it has, with a price
that depends on the length of the frequency vector (no axis is preferred). Samples too far from any
other are first taken from a coarser version of the array, itself filled the same way. A plane
through all that is present is taken off before, and put back: planes are exact.
"""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from elmfield._array.backend import device, move, namespace, scatter_add, to_numpy
from elmfield._array.memory import room
from elmfield._array.typing import Array, Floats
from elmfield.local.energies import price
from elmfield.local.layers import Cosines
from elmfield.partition import Partition, blend, gather, sample_index
from elmfield.samples import Samples

REACH = 4
"""Samples farther than this from every present one are taken from the coarser level."""

SOLVED = 350
"""Present samples in a box, about; a dense system of that size is solved for each."""

STEEP = 1e-2
"""Weight against slopes in a box, as a part of what all its samples say about them."""

TOLD = 1e-3
"""Variance of the positions of present samples, in that of all, below which they tell no slope."""

JITTER = 1e-9
"""Added to the kernel's diagonal of 1: 90 dB below the signal, and Cholesky never fails."""


def filled(samples: Samples, order: float, periodic: Sequence[bool]) -> Samples:
    """The samples with what is missing filled in."""
    if samples.present is None:
        return samples
    y = fill_missing(samples.values, samples.present, order, periodic)
    return replace(samples, brought=y)


def fill_missing(y: Array, present: Array, order: float, periodic: Sequence[bool]) -> Array:
    """`y`, shape (..., C), with every sample that is not `present` filled in.

    What is filled is the rest that a plane through all present samples leaves: a plane itself comes
    back exactly, however much of it is missing.
    """
    xp = namespace(y)
    if bool(xp.all(present)):
        return y
    plane = xp.astype(_plane(y, present, periodic), y.dtype)
    filled = _fill_levels(xp.where(present, y - plane, xp.zeros_like(y)), present, order, periodic)
    return xp.where(present, y, filled + plane)


def _plane(y: Array, present: Array, periodic: Sequence[bool]) -> Array:
    """The plane nearest to the present samples of each channel, at all samples; float64.

    Level along an axis that repeats, and along directions in which present samples are too close to
    each other to tell.
    """
    xp = namespace(y)
    m = xp.astype(present, xp.float64)
    columns = []
    for k, n in enumerate(y.shape[:-1]):
        if n > 1 and not periodic[k]:
            t = np.linspace(-(3**0.5), 3**0.5, n)  # about unit variance, were all present
            shape = tuple(n if j == k else 1 for j in range(y.ndim))
            columns.append(xp.reshape(move(t, y, xp.float64), shape))
    axes, C = tuple(range(y.ndim - 1)), y.shape[-1]
    count = to_numpy(xp.sum(m, axis=axes))

    def mean(a: Array) -> Floats:
        """Over the present samples of each channel, (C,)."""
        return np.asarray(to_numpy(xp.sum(m * a, axis=axes)) / count)

    level = mean(xp.astype(y, xp.float64))
    centre = np.stack([mean(t) for t in columns], axis=1) if columns else np.zeros((C, 0))
    spread, moment = np.zeros((C, len(columns), len(columns))), np.zeros_like(centre)
    for i, t in enumerate(columns):
        moment[:, i] = mean(xp.astype(y, xp.float64) * t) - centre[:, i] * level
        for j, s in enumerate(columns[: i + 1]):
            spread[:, i, j] = spread[:, j, i] = mean(t * s) - centre[:, i] * centre[:, j]
    slopes = np.zeros_like(moment)
    for k in range(C):
        # Two rows of a hundred tell a slope, but not one to trust a hundred rows away.
        values, vectors = np.linalg.eigh(spread[k])
        sure = vectors[:, values > TOLD]
        slopes[k] = sure @ (sure.T @ moment[k] / values[values > TOLD])
    plane = xp.zeros_like(m) + move(level - np.sum(slopes * centre, axis=1), y, xp.float64)
    for t, slope in zip(columns, slopes.T):
        plane = plane + t * move(np.ascontiguousarray(slope), y, xp.float64)
    return plane


def _fill_levels(y: Array, present: Array, order: float, periodic: Sequence[bool]) -> Array:
    """`y` filled box by box, from a coarser version of itself where no sample is near."""
    xp = namespace(y)
    if bool(xp.all(present)):
        return y
    if y.shape[-1] > 1 and not bool(xp.all(present == present[..., :1])):
        each = [
            _fill_levels(y[..., k : k + 1], present[..., k : k + 1], order, periodic)
            for k in range(y.shape[-1])
        ]
        return xp.concat(each, axis=-1)
    here = present[..., 0]
    far = ~_near(here, periodic)
    if bool(xp.any(far)):
        small, have = _halve(y, here)
        small = _fill_levels(small, xp.broadcast_to(have[..., None], small.shape), order, periodic)
        y = xp.where(far[..., None], _double(small, y.shape[:-1], periodic), y)
        here = here | far
    return _fill_boxes(y, here, order, periodic)


def _near(present: Array, periodic: Sequence[bool]) -> Array:
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


def _halve(y: Array, present: Array) -> tuple[Array, Array]:
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


def _fill_boxes(y: Array, present: Array, order: float, periodic: Sequence[bool]) -> Array:
    """`y` with what is missing predicted box by box and blended; all boxes share one kernel."""
    xp = namespace(y)
    shape, C = tuple(present.shape), y.shape[-1]
    d = sum(n > 1 for n in shape)
    # Boxes grow where little is left in them: about as many samples to solve with either way.
    kept = float(xp.mean(xp.astype(present, xp.float64)))
    side = int(min((SOLVED / max(kept, 0.2)) ** (1 / max(d, 1)) + 1e-9, 64))
    cell = max(1, math.ceil(0.6 * side))
    part = Partition.regular(
        shape,
        cell,
        min(cell / 2, (side - cell) / 2),
        periodic=np.flatnonzero(periodic),
        equal_boxes=True,
    )
    ((box, regions),) = part.footprints
    # On a line through it, a field of d axes is smoother by (d - 1) / 2 than it is as a whole.
    K = move(radial_kernel(box, order + (d - 1) / 2), y, xp.float64)
    S = K.shape[0]
    windows = _windows(part)
    gaps = to_numpy(
        xp.any(~gather(present[..., None], sample_index(part, regions, box, y)), axis=(1, 2))
    )
    regions = regions[gaps]
    flat_K = xp.reshape(K, (-1,))
    positions = np.indices(box).reshape(len(box), -1) - (np.asarray(box)[:, None] - 1) / 2
    columns = np.column_stack([np.ones(S), *positions])
    planes = move(columns, y, xp.float64)  # (S, 1 + d)
    # Slopes that few samples in a corner suggest are not trusted far away.
    steep = move(np.diag([1e-9, *(STEEP * (p @ p) + 1e-9 for p in positions)]), y, xp.float64)
    totals = [xp.zeros(math.prod(shape), dtype=xp.float64, device=device(y)) for _ in range(C)]
    step = max(1, room(y) // (4 * S * S))
    for i in range(0, len(regions), step):
        batch = regions[i : i + step]
        index = sample_index(part, batch, box, y)
        have = gather(present[..., None], index)[..., 0]  # (G, S)
        # Present samples first, as many as the fullest box has; only they enter the solve.
        P = max(1, int(xp.max(xp.sum(xp.astype(have, xp.int64), axis=1))))
        own = xp.argsort(xp.astype(~have, xp.int8), axis=1, stable=True)[:, :P]  # (G, P)
        m = xp.astype(xp.take_along_axis(have, own, axis=1), xp.float64)
        A = xp.take(flat_K, xp.reshape(own[:, :, None] * S + own[:, None, :], (-1,)))
        A = xp.reshape(A, (-1, P, P)) * m[:, :, None] * m[:, None, :]
        A = A + xp.eye(P, dtype=xp.float64, device=device(y)) * (1 - m + JITTER)[:, None, :]
        values = xp.astype(gather(y, xp.take_along_axis(index, own, axis=1)), xp.float64)
        # A plane first, so that slopes go on across gaps; the kernel for what is left.
        X = xp.reshape(xp.take(planes, xp.reshape(own, (-1,)), axis=0), (-1, P, planes.shape[1]))
        X = X * m[..., None]
        Xt = xp.matrix_transpose(X)
        b = xp.linalg.solve(Xt @ X + steep, Xt @ values)
        rest = (values - X @ b) * m[..., None]
        beta = xp.linalg.solve(A, rest) * m[..., None]
        across = xp.reshape(xp.take(K, xp.reshape(own, (-1,)), axis=0), (-1, P, S))
        Y = xp.matmul(xp.matrix_transpose(across), beta) + planes @ b  # (G, S, C)
        cells = np.unravel_index(batch, part.n_cells)
        phi = np.ones((len(batch), 1))
        for k, c in enumerate(cells):
            phi = (phi[:, :, None] * windows[k][c][:, None, :]).reshape(len(batch), -1)
        weighted = Y * move(phi, y)[..., None]
        flat = xp.reshape(index, (-1,))
        for k in range(C):
            totals[k] = totals[k] + scatter_add(
                math.prod(shape), flat, xp.reshape(weighted[..., k], (-1,))
            )
    found = xp.reshape(xp.stack(totals, axis=-1), y.shape)
    return xp.where(present[..., None], y, xp.astype(found, y.dtype))


def _windows(part: Partition) -> list[Floats]:
    """Each cell's weight at the samples of its box, per axis: (N_k, b_k)."""
    starts, sizes = part.boxes
    grid = np.arange(part.n_regions).reshape(part.n_cells)
    tables = []
    for k, n in enumerate(part.shape):
        line = np.moveaxis(grid, k, 0).reshape(part.n_cells[k], -1)[:, 0]
        at = starts[line, k][:, None] + np.arange(sizes[line[0], k])
        b = blend(part, k, (at % n).astype(float).reshape(-1))
        own = np.repeat(np.arange(part.n_cells[k]), at.shape[1])
        w = (b.lower == own) * (1 - b.ramp[0]) + (b.upper == own) * b.ramp[0]
        tables.append(w.reshape(at.shape))
    return tables


def radial_kernel(box: tuple[int, ...], order: float) -> Floats:
    """``K = H E⁻¹ Hᵀ`` on the samples of a box, shape (S, S), diagonal 1.

    H is the product layer of cosines and ``E = (ε + |ω|²)^s`` depends on the length of ω, so that K
    depends on differences of positions only: a table of those is summed axis by axis.
    """
    layers = [Cosines.lattice(n, lines=False) for n in box]
    table = 1 / price(squared_lengths([a.angular[: a.count + 1] for a in layers]), order)
    for k, (n, a) in enumerate(zip(box, layers)):
        waves = np.cos(np.outer(np.arange(n), a.angular[: a.count + 1]))
        waves[:, 1:] *= 2  # a cosine and a sine of each frequency
        table = np.moveaxis(np.tensordot(waves, table, axes=(1, k)), 0, k)
    positions = np.indices(box).reshape(len(box), -1)
    K = table[tuple(np.abs(p[:, None] - p[None, :]) for p in positions)]
    return np.asarray(K / K[0, 0])


def squared_lengths(frequencies: Sequence[Floats]) -> Floats:
    """|ω|² on the lattice spanned by one array of frequencies per axis."""
    total = np.zeros(())
    for omega in frequencies:
        total = np.add.outer(total, omega**2)
    return np.asarray(total)
