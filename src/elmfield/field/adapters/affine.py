"""World: a scan in world coordinates, millimetres, not along its own axes.

The affine of samples maps their numbers on three axes to places in world space; ``labels`` keep
it. Other axes (time) stay as they are.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from elmfield._array.backend import is_array, move, namespace
from elmfield._array.checks import numbers, sizes_of, wrong
from elmfield._array.typing import Array, DType, Floats

if TYPE_CHECKING:
    from collections.abc import Sequence

    from elmfield.field.coordinates.labels import Labels
    from elmfield.field.field import Field

AXES = {"RAS": ("LR", "PA", "IS"), "LPS": ("RL", "AP", "IS")}
"""What lies at the low and the high end of x, y and z: NIfTI's world space, and DICOM's."""


def affine_of(labels: "Labels") -> Floats:
    """The 4 × 4 map from sample numbers on the first three axes to places in world space."""
    if labels.affine is None:
        raise ValueError(
            "this field does not know where its samples lie in world space; world coordinates come "
            "with NIfTI and DICOM files. Use the field itself, in the units of its axes."
        )
    return np.asarray(labels.affine, np.float64)


def checked_affine(affine: Array, name: str = "affine") -> Floats:
    """An affine as a 4 × 4 matrix; refused if it has no inverse."""
    A = numbers(name, affine)
    if A.shape == (3, 4):
        A = np.vstack([A, [0, 0, 0, 1]])
    if A.shape != (4, 4) or not np.isfinite(A).all() or (A[3] != [0, 0, 0, 1]).any():
        must = "be a matrix of shape (4, 4) whose last row is 0 0 0 1"
        raise wrong(name, must, np.asarray(affine).tolist())
    s = np.linalg.svd(A[:3, :3], compute_uv=False)
    if s[-1] <= 1e-9 * s[0]:
        raise wrong(name, "be invertible, so that voxels have a volume", A[:3, :3].tolist())
    return A


def spacing_of(affine: Floats) -> tuple[float, float, float]:
    """Millimetres from voxel to voxel along each of three axes."""
    x, y, z = np.linalg.norm(np.asarray(affine)[:3, :3], axis=0)
    return float(x), float(y), float(z)


def codes_of(affine: Floats, space: str = "RAS") -> str:
    """Which way each axis runs, as three letters: "RAS", "LPI" and the like."""
    R = np.asarray(affine)[:3, :3] / np.linalg.norm(np.asarray(affine)[:3, :3], axis=0)
    left, codes = [0, 1, 2], [""] * 3
    for k in np.argsort(-np.abs(R).max(axis=0), kind="stable"):  # the clearest axis first
        j = max(left, key=lambda row: abs(R[row, k]))
        left.remove(j)
        codes[k] = AXES[space][j][int(R[j, k] > 0)]
    return "".join(codes)


@dataclass(frozen=True, eq=False)
class World:
    """A field in world coordinates; made by :attr:`Field.world`.

    Parameters
    ----------
    field : Field
        The field, with an affine among its labels.
    """

    field: "Field"

    def __repr__(self) -> str:
        told = " × ".join(f"{s:g}" for s in self.spacing)
        return f"World({self.orientation}, {told} mm, of {self.field!r})"

    @cached_property
    def affine(self) -> Floats:
        """The map, 4 × 4, from sample numbers on the first three axes to millimetres."""
        labels, dims = self.field.labels, self.field.domain.dims
        if labels.n_placed < 3 or len(dims) < 3:
            told = f"world coordinates need three axes in space; got {', '.join(dims)}"
            raise ValueError(f"{told}. Fit the whole volume, and reslice a plane of it.")
        return checked_affine(affine_of(labels), "the file's affine")

    @property
    def space(self) -> str:
        """World space: "RAS" (NIfTI: x runs to the right) or "LPS" (DICOM: to the left)."""
        return self.field.labels.space

    @property
    def spacing(self) -> tuple[float, float, float]:
        """Millimetres from sample to sample along the first three axes."""
        return spacing_of(self.affine)

    @property
    def orientation(self) -> str:
        """Which way the first three axes run, as "RAS" or "LPI"."""
        return codes_of(self.affine, self.space)

    def to_own(self, points: Array) -> Array:
        """Points in world coordinates as those the field itself takes."""
        x = points if is_array(points) else numbers("points", points)
        to_index = np.linalg.inv(self.affine)
        d = len(self.field.shape)
        if x.ndim == 0 or x.shape[-1] != d:
            names = ", ".join(("x", "y", "z in millimetres", *self.field.domain.dims[3:]))
            raise wrong("points", f"have shape (..., {d}): {names}", tuple(x.shape))
        xp = namespace(x)
        x = xp.astype(x, xp.float64)
        inverse = move(to_index, x, x.dtype)
        index = x[..., :3] @ inverse[:3, :3].T + inverse[:3, 3]
        axes = self.field.domain.axes[:3]
        own = [a.origin + a.step * index[..., k] for k, a in enumerate(axes)]
        return xp.stack([*own, *(x[..., k] for k in range(3, d))], axis=-1)

    def __call__(self, points: Array, *, outside: str = "raise") -> Array:
        """Values at `points`, (..., d): x, y, z in millimetres, then what other axes count."""
        return self.field(self.to_own(points), outside=outside)

    def gradient(self, points: Array, *, outside: str = "raise") -> Array:
        """First derivatives along x, y, z (per millimetre) and the other axes, (..., d)."""
        g = self.field.gradient(self.to_own(points), outside=outside)
        xp = namespace(g)
        steps = [float(a.step) for a in self.field.domain.axes[:3]]
        chain = np.diag(steps) @ np.linalg.inv(self.affine)[:3, :3]  # own units per millimetre
        along = g[..., :3] @ move(chain, g, g.dtype)
        return xp.concat([along, g[..., 3:]], axis=-1)

    def reslice(
        self,
        affine: Array,
        shape: "Sequence[int]",
        *,
        antialias: bool = True,
        outside: str = "nan",
        fill: float | None = None,
        dtype: DType = None,
        missing: str | None = None,
    ) -> Array:
        """The field on another grid in world space, also an oblique one.

        Parameters
        ----------
        affine : array, shape (4, 4)
            From sample numbers of the result to millimetres.
        shape : sequence of int
            Samples of the result on three axes; (n, m, 1) is a plane. Other axes keep theirs.
        antialias, outside, fill, dtype, missing : optional
            As for :meth:`Field.warp`.
        """
        d, own = len(self.field.shape), self.field.shape
        shape = sizes_of("shape", shape, 3)
        matrix, placed = np.eye(d + 1), np.ix_([0, 1, 2, d], [0, 1, 2, d])
        matrix[placed] = np.linalg.inv(self.affine) @ checked_affine(affine)
        return self.field.warp(
            matrix, (*shape, *own[3:]),
            antialias=antialias, outside=outside, fill=fill, dtype=dtype, missing=missing,
        )  # fmt: skip

    def isotropic(self, spacing: "float | Sequence[float]") -> tuple[Floats, tuple[int, ...]]:
        """Affine and shape of the same space with voxels so many millimetres apart.

        The axes run as before, and the voxels fill the field of view as nearly as they can, its
        middle in the middle.
        """
        given = np.asarray(spacing, np.float64).reshape(-1)
        if given.size not in (1, 3) or not (np.isfinite(given).all() and (given > 0).all()):
            raise wrong("spacing", "be millimetres above 0, one number or three", spacing)
        step = np.broadcast_to(given, (3,)) / np.asarray(self.spacing)
        own = np.asarray(self.field.shape[:3])
        sizes = np.maximum(1, np.round(own / step)).astype(int)
        change = np.eye(4)
        change[:3, :3] = np.diag(step)
        change[:3, 3] = ((own - 1) - (sizes - 1) * step) / 2
        return self.affine @ change, tuple(map(int, sizes))
