"""Means over polygons of values at the faces of an unstructured mesh, by the areas of their parts.

A mesh says nothing of how values change within a face. Each counts by the area that its face shares
with a polygon: sums over polygons that fill the mesh are those over its faces, whatever the field
between them.
"""

from dataclasses import dataclass

import numpy as np

from elmfield._array.checks import numbers, share
from elmfield._array.running import runs
from elmfield._array.typing import Array, Floats
from elmfield.domain.sphere import polygon_areas, unit_vectors
from elmfield.field import Field
from elmfield.field.point_values import Missing
from elmfield.fit.polygon_means import covered_means

BATCH_POLYGONS = 1 << 10
"""Polygons whose parts are looked at together."""

METHOD = "area: mean (comment: of faces, each by the area of its part)"
"""What means say about themselves, in CF's words."""


@dataclass(frozen=True, eq=False, repr=False)
class FaceField(Field):
    """A field through values in the middles of faces; its means are by the areas of faces.

    Sides are parts of great circles, or straight lines on a map; faces must be convex.

    Parameters
    ----------
    corners : array, shape (f, v, 2)
        Of the faces; of those with fewer, the last is repeated.
    at_faces : array, shape (f,)
        Their values; NaN where one is missing.
    is_map : bool
        Whether corners are y and x.
    """

    corners: Floats
    at_faces: Floats
    is_map: bool

    def means(  # type: ignore[override]
        self, polygons: Array, *, missing: Missing = None, min_coverage: float = 0.5
    ) -> tuple[Array, Floats]:
        """Means over polygons (..., v, 2), and what part of each the faces cover."""
        share("min_coverage", min_coverage)
        given = numbers("polygons", polygons)
        targets = self._vectors(given.reshape(-1, *given.shape[-2:]))
        known = np.isfinite(self.at_faces)
        faces, values = self._vectors(self.corners[known]), self.at_faces[known]
        sums = np.zeros((2, len(targets)))
        for i, j in runs(len(targets), BATCH_POLYGONS):
            owner, face = _neighbours(targets[i:j], faces)
            parts = _clipped(targets[i:j][owner], faces[face])
            if not self.is_map:
                parts /= np.linalg.norm(parts, axis=-1, keepdims=True)
            shared = polygon_areas(parts, is_map=self.is_map)
            for k, weights in enumerate((shared, shared * values[face])):
                sums[k, i:j] = np.bincount(owner, weights, minlength=j - i)
        area = polygon_areas(targets, is_map=self.is_map)
        found, covered = covered_means(sums[1], sums[0], area, min_coverage)
        return found.reshape(given.shape[:-2]), covered.reshape(given.shape[:-2])

    def _vectors(self, corners: Floats) -> Floats:
        """Corners as vectors (..., 3): on the unit sphere, or on a plane at height 1."""
        a, b = corners[..., 0], corners[..., 1]
        return np.stack([a, b, np.ones_like(a)], -1) if self.is_map else unit_vectors(a, b)


def _neighbours(targets: Floats, faces: Floats) -> tuple[Array, Array]:
    """Numbers of polygons and of faces that may share a part, pair by pair."""
    from scipy.spatial import cKDTree  # 0.1 s, for these alone

    middles = [c.mean(axis=1) for c in (targets, faces)]
    reach = [
        np.linalg.norm(c - m[:, None], axis=-1).max(axis=1, initial=0)
        for c, m in zip((targets, faces), middles)
    ]
    near = cKDTree(middles[1]).query_ball_point(middles[0], reach[0] + reach[1].max(initial=0))
    counts = [len(n) for n in near]
    found = np.concatenate([np.asarray(n, np.int64) for n in near])
    return np.repeat(np.arange(len(near)), counts), found


def _clipped(parts: Floats, faces: Floats) -> Floats:
    """What polygons (p, m, 3) share with convex faces (p, v, 3), the last corner repeated.

    Side by side, as Sutherland and Hodgman (1974) do it.
    """
    planes = np.cross(faces, np.roll(faces, -1, axis=1))
    planes *= np.sign(np.einsum("pvk,pk->p", planes, faces.mean(axis=1)))[:, None, None]
    for k in range(planes.shape[1]):
        off = np.einsum("pmk,pk->pm", parts, planes[:, k])
        after, beyond = np.roll(parts, -1, axis=1), np.roll(off, -1, axis=1)
        inside = off >= 0
        crosses = inside != (beyond >= 0)
        t = np.where(crosses, off, 0.0) / np.where(crosses, off - beyond, 1.0)
        both = np.stack([parts, parts + t[..., None] * (after - parts)], axis=2)
        keep = np.stack([inside, crosses], axis=2).reshape(len(parts), -1)
        n = keep.sum(axis=1)
        order = np.argsort(~keep, axis=1, kind="stable")[:, : max(3, n.max(initial=0))]
        rows = np.minimum(np.arange(order.shape[1]), np.maximum(n - 1, 0)[:, None])
        order = np.take_along_axis(order, rows, axis=1)
        parts = np.take_along_axis(both.reshape(len(parts), -1, 3), order[..., None], axis=1)
        parts[n == 0] = faces[n == 0, :1]  # one point, without area
    return parts
