"""β of many boxes in a compiled loop: filled from cells, transformed, summed up within the caches.

See :mod:`elmfield._array.compiled`; `fused` is who calls it.
"""

import math

from elmfield._array.compiled import compiled
from elmfield._array.typing import Floats, Integers


@compiled
def energies(
    tiles: Floats,
    cells: Integers,
    begins: Integers,
    ends: Integers,
    low: Integers,
    size: Integers,
    mesh: Integers,
    means: Floats,
    scale: float,
    roots: Floats,
    where: Integers,
    work: Floats,
    beta: Floats,
) -> None:
    """``Σ_k |k|_1 |F(k)|`` of regions in two dimensions, times `scale`: `Barron._transform`.

    Boxes of one size are transformed together, where they follow each other. What is found for one
    does not depend on the others.

    Parameters
    ----------
    tiles : array, shape (cells, C, rows of a cell, columns of a cell)
        Samples of each cell.
    cells, begins, ends : arrays of int64
        Cells, and where those of each region begin and end.
    low, size : arrays of int64, shape (n, 2)
        First cell and number of cells of each box, on both axes.
    mesh : array of int64, shape (2,)
        Cells of the mesh on both axes.
    means : array, shape (n, C)
        What is taken off samples; 0 stands outside.
    scale : float
        A power of 2 that keeps squares finite.
    roots, where : arrays
        Cosines and sines of the turns of each length, shape (2, ...), and where a length begins.
    work : array, shape (4, ...)
        Room for one box at least.
    beta : array, shape (n,)
        What is found.
    """
    C, high, wide = tiles.shape[1:]
    first = 0
    while first < len(beta):
        n, m = size[first, 0] * high, size[first, 1] * wide
        P, h = (m + 1) // 2, n // 2 + 1
        most = first + max(1, work.shape[1] // (C * max(n * P, m * h)))
        last = first + 1
        while last < min(most, len(beta)) and (size[last] == size[first]).all():
            last += 1
        B = (last - first) * C
        xr, xi, yr, yi = work[0], work[1], work[2], work[3]
        s = B * P
        xr[: n * s] = 0
        xi[: n * s] = 0
        for b in range(first, last):
            for e in range(begins[b], ends[b]):
                i = (cells[e] // mesh[1] - low[b, 0]) % mesh[0] * high
                j = (cells[e] % mesh[1] - low[b, 1]) % mesh[1] * wide
                for c in range(C):
                    at = i * s + ((b - first) * C + c) * P
                    _fill(tiles[cells[e], c], means[b, c], scale, xr, xi, at, j, P, s)
        o = where[n]
        if _transform(xr, xi, yr, yi, n, s, roots[0, o : o + n], roots[1, o : o + n]):
            xr, xi, yr, yi = yr, yi, xr, xi
        _part(xr, xi, yr, yi, n, m, B)
        o = where[m]
        if _transform(yr, yi, xr, xi, m, B * h, roots[0, o : o + m], roots[1, o : o + m]):
            xr, xi, yr, yi = yr, yi, xr, xi
        sums = xr[: B * h]
        _sum(yr, yi, sums, n, m, B)
        for b in range(first, last):
            total = 0.0
            for k in range(C * h):
                total += sums[(b - first) * C * h + k]
            beta[b] = total
        first = last


@compiled
def _fill(
    tile: Floats, mean: float, scale: float, xr: Floats, xi: Floats, at: int, j: int, P: int, s: int
) -> None:
    """A cell into its box: columns below P are real parts, the others imaginary parts."""
    high, wide = tile.shape
    real = min(max(P - j, 0), wide)
    for i in range(high):
        row = tile[i]
        out = xr[at + i * s + j :]
        for k in range(real):
            out[k] = (row[k] - mean) * scale
        row = row[real:]
        out = xi[at + i * s + j + real - P :]
        for k in range(wide - real):
            out[k] = (row[k] - mean) * scale


@compiled
def _part(zr: Floats, zi: Floats, xr: Floats, xi: Floats, n: int, m: int, B: int) -> None:
    """Twice the transforms of columns from those of two as one; the axes change places."""
    P, h = (m + 1) // 2, n // 2 + 1
    s, w = B * P, B * h
    for b in range(B):
        for k in range(h):
            o, q, u = k * s + b * P, (n - k) % n * s + b * P, b * h + k
            ar, ai, br, bi = zr[o : o + P], zi[o : o + P], zr[q : q + P], zi[q : q + P]
            outr, outi = xr[u:], xi[u:]
            for t in range(P):
                outr[t * w] = ar[t] + br[t]
                outi[t * w] = ai[t] - bi[t]
            outr, outi = xr[u + P * w :], xi[u + P * w :]
            for t in range(m - P):
                outr[t * w] = ai[t] + bi[t]
                outi[t * w] = br[t] - ar[t]


@compiled
def _sum(xr: Floats, xi: Floats, sums: Floats, n: int, m: int, B: int) -> None:
    """``|k|_1 |F(k)|`` summed over the second axis; x holds twice F, for half of the first axis."""
    h = n // 2 + 1
    w = B * h
    for k in range(w):
        sums[k] = 0.0
    for i in range(m):
        waves = float(min(i, m - i))
        for b in range(B):
            o = i * w + b * h
            zr, zi, to = xr[o : o + h], xi[o : o + h], sums[b * h : b * h + h]
            for k in range(h):
                to[k] += math.sqrt(zr[k] * zr[k] + zi[k] * zi[k]) * (waves + k)
    for b in range(B):  # most entries stand for their mirror image, too
        sums[b * h] *= 0.5
        if n % 2 == 0:
            sums[b * h + h - 1] *= 0.5


@compiled
def _transform(
    xr: Floats, xi: Floats, yr: Floats, yi: Floats, n: int, s: int, cos: Floats, sin: Floats
) -> bool:
    """Fourier transforms of s sequences beside each other, shape (n, s), by Stockham's algorithm.

    Whether they end up in y rather than in x; both are written to.
    """
    left, swapped = n, False
    while left > 1:
        r = 4
        if left % 4:
            r = 2
            while left % r:
                r += 1
        step = n // left
        left //= r
        for p in range(left):
            a, k, o, j = s * p, s * left, s * r * p, step * p
            if r == 4:
                _four(xr[a:], xi[a:], yr[o:], yi[o:], k, s, cos, sin, j)
            elif r == 2:
                _two(xr[a:], xi[a:], yr[o:], yi[o:], k, s, cos[j], sin[j])
            elif r == 3:
                _three(xr[a:], xi[a:], yr[o:], yi[o:], k, s, cos, sin, j)
            else:
                _prime(xr[a:], xi[a:], yr[o:], yi[o:], k, s, cos, sin, j, r)
        xr, xi, yr, yi = yr, yi, xr, xi
        s *= r
        swapped = not swapped
    return swapped


@compiled
def _four(
    xr: Floats, xi: Floats, yr: Floats, yi: Floats, k: int, s: int, cos: Floats, sin: Floats, j: int
) -> None:
    """Transforms of length 4, entries k apart, turned by 0, j, 2j, 3j."""
    c1, d1, c2, d2, c3, d3 = cos[j], sin[j], cos[2 * j], sin[2 * j], cos[3 * j], sin[3 * j]
    x1r, x1i, x2r, x2i, x3r, x3i = (
        xr[k:],
        xi[k:],
        xr[2 * k :],
        xi[2 * k :],
        xr[3 * k :],
        xi[3 * k :],
    )
    y1r, y1i, y2r, y2i, y3r, y3i = (
        yr[s:],
        yi[s:],
        yr[2 * s :],
        yi[2 * s :],
        yr[3 * s :],
        yi[3 * s :],
    )
    for q in range(s):
        tr, ti, ur, ui = xr[q] + x2r[q], xi[q] + x2i[q], xr[q] - x2r[q], xi[q] - x2i[q]
        vr, vi, wr, wi = x1r[q] + x3r[q], x1i[q] + x3i[q], x1i[q] - x3i[q], x3r[q] - x1r[q]
        yr[q], yi[q] = tr + vr, ti + vi
        er, ei = ur + wr, ui + wi
        y1r[q], y1i[q] = er * c1 - ei * d1, er * d1 + ei * c1
        er, ei = tr - vr, ti - vi
        y2r[q], y2i[q] = er * c2 - ei * d2, er * d2 + ei * c2
        er, ei = ur - wr, ui - wi
        y3r[q], y3i[q] = er * c3 - ei * d3, er * d3 + ei * c3


@compiled
def _two(
    xr: Floats, xi: Floats, yr: Floats, yi: Floats, k: int, s: int, cos: float, sin: float
) -> None:
    """Transforms of length 2, entries k apart, the second turned."""
    x1r, x1i, y1r, y1i = xr[k:], xi[k:], yr[s:], yi[s:]
    for q in range(s):
        er, ei = xr[q] - x1r[q], xi[q] - x1i[q]
        yr[q], yi[q] = xr[q] + x1r[q], xi[q] + x1i[q]
        y1r[q], y1i[q] = er * cos - ei * sin, er * sin + ei * cos


@compiled
def _three(
    xr: Floats, xi: Floats, yr: Floats, yi: Floats, k: int, s: int, cos: Floats, sin: Floats, j: int
) -> None:
    """Transforms of length 3, entries k apart, turned by 0, j, 2j."""
    c1, d1, c2, d2, sixth = cos[j], sin[j], cos[2 * j], sin[2 * j], sin[len(sin) // 3]
    x1r, x1i, x2r, x2i = xr[k:], xi[k:], xr[2 * k :], xi[2 * k :]
    y1r, y1i, y2r, y2i = yr[s:], yi[s:], yr[2 * s :], yi[2 * s :]
    for q in range(s):
        tr, ti = x1r[q] + x2r[q], x1i[q] + x2i[q]
        ur, ui = xr[q] - 0.5 * tr, xi[q] - 0.5 * ti
        vr, vi = sixth * (x2i[q] - x1i[q]), sixth * (x1r[q] - x2r[q])
        yr[q], yi[q] = xr[q] + tr, xi[q] + ti
        er, ei = ur + vr, ui + vi
        y1r[q], y1i[q] = er * c1 - ei * d1, er * d1 + ei * c1
        er, ei = ur - vr, ui - vi
        y2r[q], y2i[q] = er * c2 - ei * d2, er * d2 + ei * c2


@compiled
def _prime(
    xr: Floats, xi: Floats, yr: Floats, yi: Floats, k: int, s: int, cos: Floats, sin: Floats,
    j: int, r: int,
) -> None:  # fmt: skip
    """Transforms of any length r, entries k apart, turned by 0, j, ..., (r - 1)j."""
    n = len(cos)
    for t in range(r):
        outr, outi = yr[t * s :], yi[t * s :]
        for u in range(r):
            at = (t * u * (n // r) + t * j) % n
            c, d = cos[at], sin[at]
            ar, ai = xr[u * k :], xi[u * k :]
            if u == 0:
                for q in range(s):
                    outr[q], outi[q] = ar[q] * c - ai[q] * d, ar[q] * d + ai[q] * c
            else:
                for q in range(s):
                    outr[q] += ar[q] * c - ai[q] * d
                    outi[q] += ar[q] * d + ai[q] * c
