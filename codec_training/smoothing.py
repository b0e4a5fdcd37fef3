"""Weights of neighbours that bring decoded samples nearer to the true ones, by least squares.

    python codec_training/smoothing.py           for one, two and three axes (two minutes)
    python codec_training/smoothing.py 2         for two axes
    python codec_training/smoothing.py half=1    those of the other half, for the benchmark

The samples are coded with the tables there are, so ``codec.py`` goes first.
"""

import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from codec_training.data import sources
from codec_training.tables import kept, known, using, words
from elmfield.codec.lossy import smoothing, writing
from elmfield.codec.lossy.packing import _sizes
from elmfield.codec.lossy.parts import UNIT

TARGETS = (28, 32, 36, 40, 44, 48)
FURTHER = 1.6
"""Beside borders samples move so much further than least squares says, where it is smooth.

That costs next to no error, and lines that nothing covers are seen first.
"""
SMOOTH = 3
"""Levels of roughness that are smooth."""


def features(y, sizes):
    """What weights are given to, (weights, samples), in the order of a row of weights."""
    n = y[0].size
    out = np.zeros((len(smoothing.LIMITS), smoothing.REACH * smoothing.PLACES + 1, n), np.float32)
    z, where = smoothing.surrounded(y)[0], smoothing.places(sizes)
    middle = smoothing.off(z, (0,) * z.ndim)
    for offset, axis, tap in smoothing.neighbours(z.ndim):
        difference = smoothing.off(z, offset) - middle
        for limited, t in zip(out, smoothing.LIMITS):
            value = np.clip(difference, -t, t).ravel()
            if axis is None:
                limited[-1] += value
            else:
                column = smoothing.columns(tap)[where[axis].ravel()]
                limited[column, np.arange(n)] += value
    return out.reshape(-1, n)


def moments(x):
    """For each level of roughness, products of features of samples in steps, and with errors."""
    _, y, sizes = writing.written(x, writing.Effort(_sizes(x)))
    level = smoothing.levels(smoothing.roughness(y), smoothing.EDGES).ravel()
    F, error = features(y, sizes), (x * UNIT - y).ravel().astype(np.float32)
    for a in range(smoothing.LEVELS):
        some = F[:, level == a]
        yield some @ some.T, some @ error[level == a]


def trained(arrays, targets=TARGETS):
    """Weights (levels, weights); every array and quality counts by its samples."""
    n = smoothing.N_WEIGHTS
    G, b = np.zeros((smoothing.LEVELS, n, n)), np.zeros((smoothing.LEVELS, n))
    for values, peak in arrays:
        for target in targets:
            step = peak * 10 ** (-target / 20) * 3.4
            x = (values.astype(np.float64) - values.mean())[None] / step
            for a, (more, along) in enumerate(moments(x)):
                G[a] += more
                b[a] += along
    trace = np.trace(G, axis1=1, axis2=2)[:, None, None]
    found = np.linalg.solve(G + np.eye(n) * (1e-3 * trace / n + 1e-6), b[..., None])[..., 0]
    beside = found.reshape(smoothing.LEVELS, len(smoothing.LIMITS), -1)[:SMOOTH]
    for r in range(smoothing.REACH):
        first = r * smoothing.PLACES
        beside[..., first : first + 2 * smoothing.NEAR] *= FURTHER
    return np.rint(found * (1 << smoothing.WEIGHT_BITS)).astype(np.int16)


def main(axes, half):
    made = known(half)
    with using(half):
        made |= {f"smoothing{d}": trained(sources(d, half)) for d in axes}
    kept(made if half == 0 else {name: made[name] for name in made if name[-1] == "2"}, half)


if __name__ == "__main__":
    main(*words(sys.argv[1:]))
