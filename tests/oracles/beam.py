"""Slow, obvious versions of the Barron norm and of Algorithm 1: loops, sets, the full transform."""

import cmath
import itertools
import math

import numpy as np


def dft(y):
    """F(k) = Σ_x y(x) exp(-2πi Σ_a k_a x_a / n_a), term by term, as a dictionary by k."""
    shape = y.shape
    found = {}
    for k in itertools.product(*(range(n) for n in shape)):
        total = 0j
        for x in itertools.product(*(range(n) for n in shape)):
            phase = sum(a * b / n for a, b, n in zip(k, x, shape))
            total += y[x] * cmath.exp(-2j * math.pi * phase)
        found[k] = total
    return found


def barron_norm(y, normalisation="forward"):
    """Σ_k |k|_1 |F(k)| of one box, k counted from -n/2 to n/2."""
    divide = {"forward": y.size, "ortho": math.sqrt(y.size), "backward": 1}[normalisation]
    total = 0.0
    for k, F in dft(y).items():
        waves = sum(min(a, n - a) for a, n in zip(k, y.shape))
        total += waves * abs(F)
    return total / divide


def shortest_run(positions, n, periodic):
    """Start and length of the shortest run of positions that holds all of the given ones."""
    positions = sorted(positions)
    if not periodic:
        return positions[0], positions[-1] - positions[0] + 1
    best = None
    for start in range(n):
        length = max((p - start) % n for p in positions) + 1
        if start in positions and (best is None or length < best[1]):
            best = start, length
    return best


def region_energy(values, missing, inside, periodic, normalisation="forward", outside="zero"):
    """β of the samples `inside`, (n_1, ..., n_d), of values (C, n_1, ..., n_d)."""
    counts = inside & ~missing.all(axis=0)
    if not counts.any():
        return 0.0
    spans = [
        shortest_run(set(axis.tolist()), n, p)
        for axis, n, p in zip(np.nonzero(counts), counts.shape, periodic)
    ]
    index = np.ix_(*((a + np.arange(length)) % n for (a, length), n in zip(spans, counts.shape)))
    total = 0.0
    for y, gone in zip(values, missing):
        own = (inside & ~gone)[index]
        fill = y[index][own].mean() if outside == "mean" and own.any() else 0.0
        box = np.where(own, y[index], fill)
        F = np.abs(np.fft.fftn(box, norm=normalisation))
        for k in np.ndindex(box.shape):
            total += sum(min(a, n - a) for a, n in zip(k, box.shape)) * F[k]
    return total


def rounded(beta, values):
    """A number of 36 significant bits, or 0 where rounding is all there is."""
    if beta <= 1e-10 * np.abs(values).max():
        return 0.0
    mantissa, exponent = math.frexp(beta)
    return math.ldexp(round(mantissa * 2**36), exponent - 36)


def algorithm_1(values, missing, edges, tau, *, periodic=None, stop=1, boxes=False, **energy):
    """The paper's Algorithm 1: merges in order, and the regions left, as sets of cells."""
    d = len(edges)
    periodic = periodic or (False,) * d
    n_cells = tuple(len(e) - 1 for e in edges)
    grid = list(np.ndindex(n_cells))
    kept = {}

    def beta(region):
        if region not in kept:
            inside = np.zeros(values.shape[1:], bool)
            for cell in region:
                inside[tuple(slice(e[j], e[j + 1]) for e, j in zip(edges, cell))] = True
            kept[region] = rounded(
                region_energy(values, missing, inside, periodic, **energy), values
            )
        return kept[region]

    def touch(a, b):
        for cell in a:
            for k, step in itertools.product(range(d), (-1, 1)):
                other = list(cell)
                other[k] += step
                if periodic[k]:
                    other[k] %= n_cells[k]
                if tuple(other) in b:
                    return True
        return False

    def is_box(region):
        return math.prod(len({cell[k] for cell in region}) for k in range(d)) == len(region)

    def first(region):
        return min(grid.index(cell) for cell in region)

    regions = {frozenset([cell]) for cell in grid}
    merges = []
    merged = True
    while merged and len(regions) > stop:
        merged = False
        for i in sorted(regions, key=lambda r: (beta(r), first(r))):
            if i not in regions or not beta(i) < tau or len(regions) <= stop:
                continue
            unions = [
                (beta(i | j), first(j), j)
                for j in regions
                if j != i and touch(i, j) and (is_box(i | j) or not boxes)
            ]
            if unions and min(unions, key=lambda u: u[:2])[0] <= tau:
                j = min(unions, key=lambda u: u[:2])[2]
                regions -= {i, j}
                regions.add(i | j)
                merges.append((i, j))
                merged = True
    return merges, regions, beta


def connected(own, periodic):
    """Whether cells marked True hang together by faces."""
    cells = {tuple(map(int, c)) for c in np.argwhere(own)}
    seen, todo = set(), [min(cells)]
    while todo:
        cell = todo.pop()
        if cell in seen:
            continue
        seen.add(cell)
        todo += [n for n in faces(cell, own.shape, periodic) if n in cells]
    return seen == cells


def faces(cell, shape, periodic):
    """The cells next to one, some of them perhaps off the grid."""
    for k in range(len(shape)):
        for step in (-1, 1):
            other = list(cell)
            other[k] += step
            if k in periodic:
                other[k] %= shape[k]
            yield tuple(other)


def touching(labels, periodic):
    """Pairs of regions that share a face."""
    pairs = set()
    for cell in np.ndindex(labels.shape):
        for other in faces(cell, labels.shape, periodic):
            if all(0 <= o < n for o, n in zip(other, labels.shape)):
                pairs.add(tuple(sorted((int(labels[cell]), int(labels[other])))))
    return {(i, j) for i, j in pairs if i != j}
