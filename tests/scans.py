"""Scans of a known function of the room, on grids that lie any way."""

import numpy as np

from elmfield.field.adapters.affine import spacing_of
from elmfield.field.coordinates.labels import Labels
from elmfield.io.gridded import Gridded


def turned(angles, zooms, shift, flips=(1, 1, 1)):
    """An affine: flips and zooms, then turns about x, y and z, then a shift."""
    a, b, c = np.deg2rad(angles)
    X = [[1, 0, 0], [0, np.cos(a), -np.sin(a)], [0, np.sin(a), np.cos(a)]]
    Y = [[np.cos(b), 0, np.sin(b)], [0, 1, 0], [-np.sin(b), 0, np.cos(b)]]
    Z = [[np.cos(c), -np.sin(c), 0], [np.sin(c), np.cos(c), 0], [0, 0, 1]]
    A = np.eye(4)
    A[:3, :3] = np.array(Z) @ Y @ X @ np.diag(np.array(zooms) * flips)
    A[:3, 3] = shift
    return A


def truth(p):
    """A known function of the room, in millimetres."""
    x, y, z = np.moveaxis(np.asarray(p), -1, 0)
    return np.sin(0.11 * x + 0.05 * y) + np.cos(0.09 * y - 0.07 * z) + 0.02 * x


def places(affine, shape):
    index = np.stack(np.meshgrid(*map(np.arange, shape), indexing="ij"), axis=-1)
    return index @ affine[:3, :3].T + affine[:3, 3]


def scan(affine, shape=(26, 24, 22), values=None):
    at = {n: np.arange(k) * s for n, k, s in zip("ijk", shape, spacing_of(affine))}
    values = truth(places(affine, shape)) if values is None else values
    labels = Labels(affine=affine.tolist(), space="RAS", align="areas")
    return Gridded(values=values, dims=("i", "j", "k"), coords=at, labels=labels)


FLIPS = [(1, 1, -1), (1, -1, 1), (-1, 1, 1), (-1, -1, 1), (-1, -1, -1)]
AFFINES = [
    np.diag([2.0, 2.0, 2.0, 1.0]),
    turned((0, 0, 0), (2, 2.5, 3), (-20, -30, -25)),
    *(turned((0, 0, 0), (2, 2, 2.5), (5, 9, -7), flips) for flips in FLIPS),
    turned((20, -15, 35), (1.8, 2.2, 2.4), (-12, 30, 4)),
    turned((20, -15, 35), (1.8, 2.2, 2.4), (-12, 30, 4), (-1, 1, 1)),  # a left-handed one
]
"""Nine of them: flips, negative determinants, oblique ones."""


def plain_grid(values, dims, channel_axis=None, **labels):
    """Gridded samples without coordinates."""
    return Gridded(
        values=values, dims=tuple(dims), channel_axis=channel_axis, labels=Labels(**labels)
    )
