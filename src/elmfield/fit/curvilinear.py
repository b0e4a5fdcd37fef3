"""Fields of curvilinear grids: places on the Earth, or on a map, in place of numbers of samples.

The coordinates of the samples are a field too, fitted as the values are. A place is found by a
start at the nearest sample and Newton's steps in the numbers of samples.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from elmfield._array.backend import to_numpy
from elmfield._array.checks import numbers
from elmfield._array.typing import Array, Bools, Floats
from elmfield.domain.sphere import EARTH, unit_vectors
from elmfield.field import Field
from elmfield.field.blend.points import Function
from elmfield.fit.encoder import encoder
from elmfield.fit.polygon_means import polygon_means, spline_encoder

MOST_STEPS = 12
"""Newton's steps: four are taken in smooth meshes, and the rest where cells are bent."""

TABLE_STEPS, TABLE_TOLERANCE = 2, 1e-6
"""Steps by a table of the places, and what it keeps of them."""

CLOSE_CELLS, FOUND_CELLS = 1e-10, 1e-6
"""Steps, in cells, below which no other is taken, and a place counts as found."""

TABLE_MIN_POINTS = 20_000
"""Places from which a table of the coordinates is made first."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Curvilinear:
    """A field whose samples lie at places of two coordinates each.

    Parameters
    ----------
    source : Field
        On numbers of samples along its last two axes.
    places : Field
        Where these are: unit vectors on the sphere, or x and y; channels last.
    tree : cKDTree
        The samples' places.
    radius : float or None
        Of the sphere, in metres; None on a map.
    """

    source: Field
    places: Field = field(repr=False)
    tree: Any = field(repr=False)
    radius: float | None = EARTH

    def __call__(self, points: Array, **options: Any) -> Array:
        """Values at points (..., d), latitude and longitude (or y and x) last; NaN off the mesh."""
        index, _ = self._indexed(points)
        return self.source(index, outside="nan", **options)

    def locate(self, places: Array) -> tuple[Floats, Bools]:
        """Numbers of samples (..., 2) at places (..., 2), and which lie on the mesh."""
        given = numbers("places", places)
        at, shape = self._vectors(given.reshape(-1, 2)), self.places.shape
        good = np.asarray(np.isfinite(at).all(axis=1))
        near = self.tree.query(np.where(good[:, None], at, 0), eps=1.0)[1]
        i = np.stack(np.unravel_index(self._numbers[near], shape), axis=-1).astype(np.float64)
        wraps, off = np.asarray(self.places.domain.periodic), np.full(len(i), np.inf)
        todo, model = np.flatnonzero(good), self.places.model
        quick: Function = model.function_for(0)
        if len(todo) > TABLE_MIN_POINTS:
            quick = self.places.tabulate(TABLE_TOLERANCE).polynomials
        scale = np.asarray(model.scale)
        for k in range(MOST_STEPS):
            if not len(todo):
                break
            # A table knows the way; the later steps go by the places themselves.
            P, Jy, Jx = quick.partials(i[todo], [(0, 0), (1, 0), (0, 1)])  # (n, C) each
            P = model.finish(P, True) if k < TABLE_STEPS else self.places(i[todo])
            lacks, Jy, Jx = at[todo] - P, Jy * scale, Jx * scale
            a, b, c, y, x = (np.einsum("nk,nk->n", *both) for both in (
                (Jy, Jy), (Jy, Jx), (Jx, Jx), (Jy, lacks), (Jx, lacks)))  # fmt: skip
            step = np.stack([c * y - b * x, a * x - b * y], -1) / (a * c - b * b + 1e-300)[:, None]
            moved = i[todo] + np.clip(step, -2, 2)
            turned = (moved + 0.5) % shape - 0.5
            i[todo] = np.where(wraps, turned, np.clip(moved, -0.5, np.asarray(shape) - 0.5))
            off[todo] = np.abs(step).max(axis=1)
            todo = todo[off[todo] > CLOSE_CELLS] if k >= TABLE_STEPS else todo
        found = good & (off < FOUND_CELLS)
        return i.reshape(given.shape), found.reshape(given.shape[:-1])

    def gradient(self, points: Array) -> Floats:
        """Slopes northward and eastward, per metre, (..., 2) or (..., C, 2); NaN off the mesh.

        On a map along y and x.
        """
        index, places = self._indexed(points)
        slopes = np.asarray(to_numpy(self.source.gradient(index, outside="nan")))[..., -2:]
        J = self.places.gradient(index[..., -2:], outside="nearest") * (self.radius or 1.0)
        if self.radius is not None:
            f, l = np.deg2rad(places[..., 0]), np.deg2rad(places[..., 1])
            zero = np.zeros_like(f)
            north = [-np.sin(f) * np.cos(l), -np.sin(f) * np.sin(l), np.cos(f)]
            ways = np.stack([np.stack(north, -1), np.stack([-np.sin(l), np.cos(l), zero], -1)], -2)
            J = ways @ J  # (..., 2, 2): metres north and east per sample
        if self.source.model.channel_axis is not None:
            J = J[..., None, :, :]
        return np.asarray((slopes[..., None, :] @ np.linalg.inv(J))[..., 0, :])

    def means(self, polygons: Array, **options: Any) -> tuple[Array, Floats]:
        """Means over polygons (..., v, 2) by area, as :class:`PolygonMeans` has them.

        NaN where one does not lie on the mesh as a whole.
        """
        corners, on_mesh = self.locate(polygons)
        dims = [np.arange(n, dtype=np.float64) for n in self.places.shape]
        J = self.places.grid(*dims, quantity="gradient")
        size = np.sqrt(np.abs(np.linalg.det(np.einsum("...kj,...kl->...jl", J, J))))
        wide = size if self.source.model.channel_axis is None else size[..., None]
        values = np.asarray(self.source.samples(missing="fill"), np.float64)
        both = []
        for y in (values * wide, np.broadcast_to(wide, values.shape)):
            make = encoder(
                y.shape, self.source.settings, channel_axis=self.source.model.channel_axis
            )
            both.append(polygon_means(make(y))(np.nan_to_num(corners), **options))
        whole = np.asarray(on_mesh.all(axis=-1))
        means = both[0][0] / both[1][0]
        more = (...,) + (None,) * (means.ndim - whole.ndim)
        return np.where(whole[more], means, np.nan), np.where(whole, both[0][1], 0.0)

    # --- places --------------------------------------------------------------------------------

    def _vectors(self, places: Floats) -> Floats:
        """Places as the field of them has them."""
        return places if self.radius is None else unit_vectors(places[:, 0], places[:, 1])

    @property
    def _numbers(self) -> Array:
        """Which of all samples the tree holds."""
        return np.flatnonzero(np.isfinite(self.places.samples(missing="nan")).all(axis=-1))

    def _indexed(self, points: Array) -> tuple[Floats, Floats]:
        """Points with numbers of samples for places, NaN off the mesh; and these places."""
        given = np.array(numbers("points", points), np.float64)
        d = len(self.source.shape)
        if given.ndim == 0 or given.shape[-1] != d:
            raise ValueError(f"`points` must have {d} coordinates each; got shape {given.shape}.")
        places = given[..., -2:].copy()
        index, on_mesh = self.locate(places)
        given[..., -2:] = np.where(on_mesh[..., None], index, np.nan)
        return given, places


def curvilinear(
    of: Field, latitude: Array, longitude: Array, *, is_map: bool = False, radius: float = EARTH
) -> Curvilinear:
    """A field whose last two axes number the rows and columns of a curvilinear grid.

    Parameters
    ----------
    of : Field
        The field on numbers of samples; an axis that goes round is periodic in it.
    latitude, longitude : arrays, shape of its last two axes
        Where its samples are, in degrees; NaN where that is not known.
    is_map : bool
        Whether these are y and x of a map instead.
    radius : float
        Of the sphere, in metres.

    Examples
    --------
    >>> import numpy as np, elmfield as ef
    >>> j, i = np.indices((30, 40))
    >>> latitude, longitude = 40 + 0.2 * j + 0.05 * i, 10 + 0.3 * i - 0.1 * j
    >>> mesh = ef.curvilinear(ef.fit(latitude + longitude), latitude, longitude)
    >>> bool(abs(mesh([43.0, 14.0]) - 57) < 1e-6)
    True
    """
    from scipy.spatial import cKDTree  # 0.1 s, for these alone

    both = [numbers(n, v) for n, v in (("latitude", latitude), ("longitude", longitude))]
    axes = of.domain.axes[-2:]
    if any(b.shape != of.shape[-2:] for b in both) or any(a.coords is not None for a in axes):
        raise ValueError(
            "`latitude` and `longitude` must have the shape of the field's last two axes, "
            f"{of.shape[-2:]}, which number samples; got {both[0].shape} and {both[1].shape}."
        )
    y = np.stack(both, axis=-1) if is_map else unit_vectors(*both)
    made = spline_encoder(y.shape, axes, order=4.0)(y, missing="nan")
    flat = y.reshape(-1, y.shape[-1])
    tree = cKDTree(flat[np.isfinite(flat).all(axis=1)])
    return Curvilinear(source=of, places=made, tree=tree, radius=None if is_map else radius)
