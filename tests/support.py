"""What several tests share: arrays to and from libraries, label grids, pictures, splines."""

import functools
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
from hypothesis import strategies as st
from scipy.ndimage import map_coordinates

import elmfield as ef
from elmfield.field.coordinates.output_positions import shows_gaps
from elmfield.field.coordinates.parse import own_samples
from elmfield.field.grid_values import gridded
from elmfield.partition import blend

EPS = np.finfo(np.float64).eps

ROOT = Path(__file__).resolve().parents[1]
"""The repository."""

SEEDS = st.integers(0, 2**32 - 1)

SMOOTH_DENSE = {"activation": "cos", "frequencies": 4, "scale": 0.5}
"""Of a dense layer of slow cosines, which has two derivatives everywhere."""

ROUND = [
    (np.arange(36) * 10.0, 360.0),
    (np.arange(36) * 10.0, 365.0),
    (np.arange(36)[::-1] * 10.0, 365.0),
    (np.cumsum(5 + 5 * np.sin(np.arange(36)) ** 2), 360.0),
    (np.cumsum(5 + 5 * np.sin(np.arange(36)) ** 2)[::-1], 360.0),
]
"""Coordinates of a periodic axis and its period: even, with a longer last step, falling, uneven."""


class Lazy(Mapping):
    """What functions of no arguments make, by name: each made when it is first asked for."""

    def __init__(self, functions):
        self._functions = {name: functools.cache(make) for name, make in functions.items()}

    def __getitem__(self, name):
        return self._functions[name]()

    def __iter__(self):
        return iter(self._functions)

    def __len__(self):
        return len(self._functions)


def host(x):
    """An array of any library as NumPy."""
    return np.asarray(x)


def close(actual, expected, atol):
    """Equal to within `atol`; no relative part, so the tolerance is what it says."""
    np.testing.assert_allclose(host(actual), host(expected), rtol=0, atol=atol)


def on_samples(field, missing=None):
    """The function at its samples, or its means; `samples()` gives back those that are kept."""
    places = [i.astype(float) for i in own_samples(field.domain)]
    return gridded(field.model, places, None, "samples", gaps=shows_gaps(field.model, missing))


def inside(rng, shape, n):
    """n random points in the box of an array of this shape, half-sample borders included."""
    return rng.random((n, len(shape))) * np.asarray(shape) - 0.5


def block_means(values, k, axes):
    """Means of blocks of 2^k samples on the first axes, one after the other."""
    side = 1 << min(k, 40)
    for axis in range(axes):
        cuts = range(side, values.shape[axis], side)
        parts = np.split(values, cuts, axis)
        values = np.concatenate([p.mean(axis, keepdims=True) for p in parts], axis)
    return values


def wave(points):
    """A smooth function of any number of coordinates, and its scale is 1."""
    x = np.asarray(points)
    slow = np.array([0.21, 0.17, 0.13, 0.11])[: x.shape[-1]]
    return np.sin(x @ slow + 0.3) * np.cos(0.15 * x[..., 0])


def hills(x):
    """sin(0.2 x + 0.3) cos(0.15 y), its gradient and its Hessian."""
    a, b = 0.2 * x[..., 0] + 0.3, 0.15 * x[..., 1]
    f = np.sin(a) * np.cos(b)
    gradient = np.stack([0.2 * np.cos(a) * np.cos(b), -0.15 * np.sin(a) * np.sin(b)], axis=-1)
    mixed = -0.03 * np.cos(a) * np.sin(b)
    rows = [np.stack(r, axis=-1) for r in ((-0.04 * f, mixed), (mixed, -0.0225 * f))]
    return f, gradient, np.stack(rows, axis=-2)


def pixels(shape, n):
    """Centres of n[k] equal parts of each axis, as a grid of points."""
    axes = [(np.arange(m) + 0.5) * s / m - 0.5 for s, m in zip(shape, n)]
    return np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1)


def on_grid(function, shape):
    return function(np.stack(np.indices(shape).astype(float), axis=-1))


L_SHAPE = np.array([[0, 0, 1], [0, 1, 1], [2, 2, 2]])
"""Two interlocking L-shaped regions above a bar."""


def partition(shape, labels, overlap, periodic=None, **options):
    """Cells as even as the shape allows, merged by labels."""
    edges = tuple(
        np.round(np.linspace(0, n, c + 1)).astype(int) for n, c in zip(shape, labels.shape)
    )
    wraps = () if periodic is None else np.flatnonzero(periodic)
    return replace(ef.Partition.of(shape, edges, labels, overlap, periodic=wraps), **options)


def on_given_cells(settings):
    """The settings without what a partition settles: cells, overlap and context."""
    settled = {"cell", "overlap", "context"} & {f.name for f in fields(settings)}
    return replace(settings, **dict.fromkeys(settled))


@st.composite
def label_grids(draw, d=2):
    """Any labels on a small grid of cells, numbered without gaps; regions need not be connected."""
    cells = draw(st.tuples(*[st.integers(1, 4)] * d))
    flat = draw(
        st.lists(st.integers(0, 4), min_size=int(np.prod(cells)), max_size=int(np.prod(cells)))
    )
    return np.unique(np.reshape(flat, cells), return_inverse=True)[1].reshape(cells)


def spline_heldout(values, border, order=3):
    """Held-out PSNR of scipy's spline through every second sample; the rival to beat."""
    every = (slice(None, None, 2),) * values.ndim
    at = np.meshgrid(*(np.arange(n) / 2 for n in values.shape), indexing="ij")
    predicted = map_coordinates(values[every].astype(float), at, order=order, mode="mirror")
    scored = np.zeros(values.shape, bool)
    scored[tuple(slice(border, n - border) for n in values.shape)] = True
    scored[every] = False
    return ef.psnr(values[scored], predicted[scored], data_range=float(np.ptp(values)))


def region_windows(part, points):
    """φ, shape (n, N), assembled from the blends of the axes."""
    phi = np.zeros((len(points), part.n_regions))
    blends = [blend(part, k, points[:, k]) for k in range(points.shape[1])]
    for corner in np.ndindex(*(2,) * len(blends)):
        weight, cell = np.ones(len(points)), []
        for b, up in zip(blends, corner):
            weight = weight * (b.ramp[0] if up else 1 - b.ramp[0])
            cell.append(b.upper if up else b.lower)
        np.add.at(phi, (np.arange(len(points)), part.labels[tuple(cell)]), weight)
    return phi


partitions = st.builds(
    lambda labels, sizes, overlap, periodic: partition(
        [s * c for s, c in zip(sizes, labels.shape)], labels, overlap, periodic
    ),
    label_grids(),
    st.tuples(st.integers(4, 7), st.integers(4, 7)),
    st.sampled_from([0.5, 1.0, 1.7, 2.0]),
    st.tuples(st.booleans(), st.booleans()),
)
"""Cells of even size under any labels, blended and perhaps around."""


def coefficients_of(group):
    """All coefficients of a group of regions, (G, r, C), whatever keeps them."""
    c = group.coefficients
    return c.take(np.arange(c.shape[0]))


@functools.cache
def is_importable(package):
    """Whether a process of its own can import a package: some do not go with others."""
    ran = subprocess.run([sys.executable, "-c", f"import {package}"], capture_output=True)
    return ran.returncode == 0
