"""Loops over points, compiled: sums of products of modes, rows of polynomials.

Opened by those who asked whether compiling pays (:mod:`elmfield._array.compiled`).
"""

from typing import Any

import numpy as np

from elmfield._array.compiled import compiled
from elmfield._array.typing import Floats, Integers

# --- sums of products of modes --------------------------------------------------------------------

COUNT, SPEAK, TERMS, WIDTH, TABLE, CELLS = range(6)
"""Rows of the sizes of axes, see :func:`products`."""


@compiled
def _mixed(
    weights: Floats, own: int, n: int, table: Floats, at: int, width: int, out: Floats, to: int
) -> None:
    """``out = Σ_i weights[i] table[i]``, of n rows of a width: six rows at a time."""
    if width == 1:
        one, two, i = 0.0, 0.0, 0
        for i in range(0, n - 1, 2):
            one += weights[np.uint64(own + i)] * table[np.uint64(at + i)]
            two += weights[np.uint64(own + i + 1)] * table[np.uint64(at + i + 1)]
        if n % 2:
            one += weights[np.uint64(own + n - 1)] * table[np.uint64(at + n - 1)]
        out[np.uint64(to)] = one + two
        return
    for r in range(width):
        out[np.uint64(to + r)] = 0
    whole = n - n % 6
    for i in range(own, own + whole, 6):
        a, b, c = weights[i], weights[i + 1], weights[i + 2]
        d, e, f = weights[i + 3], weights[i + 4], weights[i + 5]
        for r in range(width):
            out[np.uint64(to + r)] += (
                a * table[np.uint64(at + r)]
                + b * table[np.uint64(at + width + r)]
                + c * table[np.uint64(at + 2 * width + r)]
                + d * table[np.uint64(at + 3 * width + r)]
                + e * table[np.uint64(at + 4 * width + r)]
                + f * table[np.uint64(at + 5 * width + r)]
            )
        at += 6 * width
    for i in range(own + whole, own + n):
        a = weights[i]
        for r in range(width):
            out[np.uint64(to + r)] += a * table[np.uint64(at + r)]
        at += width


@compiled
def _powers(s: float, slope: float, order: int, n: int, out: Floats) -> None:
    """Powers of s below n, differentiated `order` times by what s is `slope` times as fast as."""
    out[0] = 1
    for t in range(1, n):
        out[t] = out[t - 1] * s
    for _ in range(order):
        for t in range(n - 1, 0, -1):
            out[t] = slope * t * out[t - 1]
        out[0] = 0


@compiled
def spoken(
    x: Floats, ends: Floats, sizes: Integers, speakers: Integers, marks: Any, nearest: Integers
) -> None:
    """Mark the cells that speak at x (n, d); the lower ones of each point are `nearest`, (n,)."""
    d = x.shape[1]
    for n in range(x.shape[0]):
        for corner in range(1 << d):
            cell, speaks = 0, True
            for k in range(d):
                u = int((x[n, k] - ends[0, k]) * ends[1, k])
                who, up = sizes[SPEAK, k] + min(max(u, 0), sizes[COUNT, k] - 1), corner >> k & 1
                speaks = speaks and speakers[who, 2 + up] >= 0
                cell = cell * sizes[CELLS, k] + speakers[who, up]
            if speaks:
                marks[cell] = True
            if corner == 0:
                nearest[n] = cell


@compiled
def products(
    x: Floats,
    points: Integers,
    ends: Floats,
    sizes: Integers,
    speakers: Integers,
    tables: Floats,
    seats: Integers,
    factors: Floats,
    orders: Integers,
    out: Floats,
) -> None:
    """Sums over the corners that speak at some of x (n, d), into (A, n, C): as in `Direct`.

    Parameters
    ----------
    points : integer array
        Which, in any order.
    ends : array, shape (2, d)
        Where the intervals of an axis begin, and how many there are per sample.
    sizes : integer array, shape (6, d)
        Of each axis: intervals, where these begin in `speakers`, terms of polynomials, functions,
        where these begin in `tables`, and cells.
    speakers : integer array, shape (J, 4)
        Of each interval of an axis: lower and upper cell, and which polynomials they have; -1 where
        the upper one does not speak.
    tables : array
        Polynomials (terms, functions), one after the other.
    seats : integer array
        Rows of `factors` by cell.
    factors : array, shape (G, q_1 ... q_d C)
        Coefficients.
    orders : integer array, shape (A, d)
        Derivatives.
    """
    d, C, A, size = x.shape[1], out.shape[2], orders.shape[0], factors.shape[1]
    flat, top, most = factors.reshape(-1), np.max(orders) + 1, np.max(sizes[WIDTH])
    powers = np.empty(np.max(sizes[TERMS]))
    row = np.empty(most)
    rows = np.empty(d * 2 * top * most, factors.dtype)  # by axis, side and order
    first, one, other = (
        np.empty(size, flat.dtype),
        np.empty(size, flat.dtype),
        np.empty(size, flat.dtype),
    )
    cell, sides, side = np.empty((d, 2), np.int64), np.empty(d, np.int64), np.empty(d, np.int64)
    for n in points:
        corners = 1
        for k in range(d):
            u = (x[n, k] - ends[0, k]) * ends[1, k]
            j = min(max(int(u), 0), sizes[COUNT, k] - 1)
            who, T, q = sizes[SPEAK, k] + j, sizes[TERMS, k], sizes[WIDTH, k]
            sides[k] = 1 if speakers[who, 3] < 0 else 2
            corners *= sides[k]
            for i in range(top):
                _powers(2 * (u - j) - 1, 2 * ends[1, k], i, T, powers)
                for up in range(sides[k]):
                    begin, cell[k, up] = ((k * 2 + up) * top + i) * most, speakers[who, up]
                    at = sizes[TABLE, k] + speakers[who, 2 + up] * T * q
                    _mixed(powers, 0, T, tables, at, q, row, 0)
                    for r in range(q):
                        rows[np.uint64(begin + r)] = row[r]
        for a in range(A):
            for c in range(C):
                out[a, n, c] = 0
        for corner in range(corners):
            left, seat, last = corner, 0, -1
            for k in range(d):
                side[k] = left % sides[k]
                left //= sides[k]
                seat = seat * sizes[CELLS, k] + cell[k, side[k]]
            for a in range(A):
                width = size // sizes[WIDTH, 0]
                if orders[a, 0] != last:
                    last = orders[a, 0]
                    begin = (side[0] * top + last) * most
                    _mixed(rows, begin, sizes[WIDTH, 0], flat, seats[seat] * size, width, first, 0)
                found = first
                for k in range(1, d):
                    width //= sizes[WIDTH, k]
                    begin = ((k * 2 + side[k]) * top + orders[a, k]) * most
                    _mixed(rows, begin, sizes[WIDTH, k], found, 0, width, one, 0)
                    found, one, other = one, other, one
                for c in range(C):
                    out[a, n, c] += found[c]


# --- rows of polynomials --------------------------------------------------------------------------


@compiled
def lattice_keys(x: Floats, ends: Floats, counts: Integers, wide: int, key: Any) -> None:
    """Numbers of the cells of points (n, d), where `wide` of the last axis count as one."""
    d = x.shape[1]
    parts = -(-counts[d - 1] // wide)
    for n in range(x.shape[0]):
        at, j = 0, 0
        for k in range(d):
            j = min(max(int((x[n, k] - ends[0, k]) * ends[1, k]), 0), counts[k] - 1)
            if k < d - 1:
                at = at * counts[k] + j
        key[n] = at * parts + j // wide


@compiled
def swept(
    x: Floats,
    spans: Integers,
    ends: Floats,
    counts: Integers,
    powers: Integers,
    chunks: Integers,
    places: Integers,
    made: Floats,
    orders: Integers,
    out: Floats,
) -> None:
    """Derivatives at points x (n, d) of some rows of cells, into (A, n, C).

    Those of a row begin and end at `spans`, (B, 2). What stands where in `made` is told in
    `sweeps.Rows`: terms of the last axis are powers, those of the others Chebyshev's polynomials.
    """
    d, C, P = x.shape[1], out.shape[2], powers.shape[0]
    top, K, T = np.max(orders) + 1, max(int(np.max(powers)), 1) + 1, np.max(chunks[:, 2])
    V, U = np.zeros((d - 1, top, K, 4)), np.zeros((top, T, 4))
    w, s, j = np.ones((P, 4)), np.zeros((d, 4)), np.zeros(4, np.int64)
    V[:, 0, 0] = 1
    if top > 1:
        V[:, 1, 1] = 1
    U[0, 0] = 1
    for row in range(len(spans)):
        for n in range(spans[row, 0], spans[row, 1], 4):
            sides = 1
            for k in range(d):
                for l in range(4):
                    u = (x[min(n + l, spans[row, 1] - 1), k] - ends[0, k]) * ends[1, k]
                    j[l] = min(max(int(u), 0), counts[k] - 1)
                    s[k, l] = 2 * (u - j[l]) - 1
            for l in range(4):
                if places[j[l], 1, 0, 1] > 0:
                    sides = 2
            for k in range(d - 1):
                for l in range(4):
                    V[k, 0, 1, l] = s[k, l]
                for i in range(top):
                    for t in range(2, K):
                        for l in range(4):
                            V[k, i, t, l] = 2 * s[k, l] * V[k, i, t - 1, l] - V[k, i, t - 2, l]
                        if i > 0:
                            for l in range(4):
                                V[k, i, t, l] += 2 * i * V[k, i - 1, t - 1, l]
            for t in range(1, T):
                for l in range(4):
                    U[0, t, l] = U[0, t - 1, l] * s[d - 1, l]
            for i in range(1, top):
                for t in range(1, T):
                    for l in range(4):
                        U[i, t, l] = t * U[i - 1, t - 1, l]
            for a in range(orders.shape[0]):
                stretch, of_last = 1.0, orders[a, d - 1]
                for k in range(d):
                    for _ in range(orders[a, k]):
                        stretch *= 2 * ends[1, k]
                for p in range(P):
                    for l in range(4):
                        w[p, l] = V[0, orders[a, 0], powers[p, 0], l] * stretch
                    for k in range(1, d - 1):
                        for l in range(4):
                            w[p, l] *= V[k, orders[a, k], powers[p, k], l]
                for c in range(C):
                    sum0, sum1, sum2, sum3 = 0.0, 0.0, 0.0, 0.0
                    for side in range(sides):
                        for h in range(chunks.shape[0]):
                            first, end, t = chunks[h, 0], chunks[h, 1], chunks[h, 2]
                            before = (row * C + c) * (end - first)
                            step0, step1 = places[j[0], side, h, 1], places[j[1], side, h, 1]
                            step2, step3 = places[j[2], side, h, 1], places[j[3], side, h, 1]
                            at0 = places[j[0], side, h, 0] + before * step0
                            at1 = places[j[1], side, h, 0] + before * step1
                            at2 = places[j[2], side, h, 0] + before * step2
                            at3 = places[j[3], side, h, 0] + before * step3
                            for p in range(first, end):
                                v0, v1, v2, v3 = 0.0, 0.0, 0.0, 0.0
                                for r in range(t):
                                    v0 += made[np.uint64(at0 + r)] * U[of_last, r, 0]
                                    v1 += made[np.uint64(at1 + r)] * U[of_last, r, 1]
                                    v2 += made[np.uint64(at2 + r)] * U[of_last, r, 2]
                                    v3 += made[np.uint64(at3 + r)] * U[of_last, r, 3]
                                sum0 += v0 * w[p, 0]
                                sum1 += v1 * w[p, 1]
                                sum2 += v2 * w[p, 2]
                                sum3 += v3 * w[p, 3]
                                at0 += step0
                                at1 += step1
                                at2 += step2
                                at3 += step3
                    found = (sum0, sum1, sum2, sum3)
                    for l in range(min(4, spans[row, 1] - n)):
                        out[a, n + l, c] = found[l]
