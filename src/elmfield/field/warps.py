"""A field seen through a map: turned, bent, projected, and averaged where the map shrinks.

A transform enters as callers have it, and says for every sample of the result where it lies among
the samples of the field; values leave. Both sides count samples; units are not asked.
"""

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from elmfield._array.backend import as_dtype, is_array, namespace, to_numpy
from elmfield._array.checks import choice, is_whole
from elmfield._array.memory import capacity, runs
from elmfield._array.typing import Array, Floats
from elmfield.field.gridded import gridded

if TYPE_CHECKING:
    from elmfield.field.on_grids import OnGrids

Place = Callable[[Floats], Floats]
"""Index coordinates (n, d) of a result among those of the field."""

SHRINKS = 1 + 1e-3
"""From how many samples to a step on a map is averaged over."""

DENSE = 1.5
"""Places looked at for every sample that is averaged over, along an axis."""

MOST = 64
"""Places looked at along an axis of one sample of the result, at most."""


def warped(
    field: "OnGrids",
    transform: Any,
    shape: Sequence[int] | None,
    *,
    antialias: bool,
    outside: str,
    fill: float | None,
    dtype: Any,
) -> Array:
    """See :meth:`Field.warp`."""
    choice("outside", outside, ("raise", "nearest", "nan"))
    d = len(field.shape)
    place, own = place_of(transform, d)
    sizes = _sizes(shape, own, field.shape)
    lines = along_axes(transform, d, sizes)
    if lines is not None and _is_inside(field, lines):
        boxes = field.boxes(lines) if antialias else ()
        return gridded(field, lines, dtype, boxes=boxes)
    total, C = math.prod(sizes), max(1, field.n_channels)
    step = max(1, capacity(field.offset) // (8 * d + 8 * C))
    parts, beyond = [], []
    for i, j in runs(total, step):
        x = np.stack(np.unravel_index(np.arange(i, j), sizes), axis=-1).astype(np.float64)
        values, gone = _block(field, place, x, antialias, outside)
        parts.append(values)
        beyond.append(gone)
    xp = namespace(field.offset)
    flat = parts[0] if len(parts) == 1 else xp.concat(parts, axis=0)
    flat = _typed(flat, np.concatenate(beyond) if beyond else np.zeros(0, bool), fill, dtype)
    return field.channels_back(xp.reshape(flat, (*sizes, -1)))


def _block(
    field: "OnGrids", place: Place, x: Floats, antialias: bool, outside: str
) -> tuple[Array, Any]:
    """Values (n, C) at samples x (n, d) of the result, and which of them lie outside the field."""
    at = place(x)
    gone = ~np.isfinite(at).all(axis=-1)
    low, high = np.asarray(field.domain.low), np.asarray(field.domain.high)
    for k, axis in enumerate(field.domain.axes):
        if axis.period is None:
            gone |= ~((at[:, k] >= low[k] - 1e-9) & (at[:, k] <= high[k] + 1e-9))
    if outside == "nearest":
        gone = ~np.isfinite(at).all(axis=-1)
    asked = "raise" if outside == "raise" else "nearest"
    counts = _counts(place, x) if antialias else np.ones(x.shape, np.int64)
    xp = namespace(field.offset)
    kinds, which = np.unique(counts, axis=0, return_inverse=True)
    which = which.reshape(-1)
    if len(kinds) == 1 and (kinds == 1).all():
        return _values(field, at, asked), gone
    parts, order = [], []
    for g, kind in enumerate(kinds):
        rows = np.flatnonzero(which == g)
        inside = np.stack(
            np.meshgrid(*((np.arange(m) + 0.5) / m - 0.5 for m in kind), indexing="ij"), axis=-1
        ).reshape(-1, x.shape[1])
        each = max(1, 200_000 // len(inside))
        for i in range(0, len(rows), each):
            some = rows[i : i + each]
            points = (x[some, None, :] + inside).reshape(-1, x.shape[1])
            values = _values(field, place(points), asked if len(inside) == 1 else "nearest")
            parts.append(xp.mean(xp.reshape(values, (len(some), len(inside), -1)), axis=1))
            order.append(some)
    back = np.argsort(np.concatenate(order), kind="stable")
    return xp.concat(parts, axis=0)[back, ...], gone


def _counts(place: Place, x: Floats) -> Any:
    """Places to average over along each axis of the result, (n, d); 1 where nothing shrinks."""
    counts = np.ones(x.shape, np.int64)
    for k in range(x.shape[1]):
        half = np.zeros(x.shape[1])
        half[k] = 0.5
        with np.errstate(invalid="ignore"):
            length = np.linalg.norm(place(x + half) - place(x - half), axis=-1)
        length = np.where(np.isfinite(length), length, 1.0)
        wide = np.minimum(np.ceil(DENSE * length), MOST)
        counts[:, k] = np.where(length > SHRINKS, wide, 1)
    return counts


def _values(field: "OnGrids", at: Floats, outside: str) -> Array:
    """Values (n, C) at index coordinates (n, d)."""
    at = np.where(np.isfinite(at), at, 0.0)
    points = np.stack([a.from_index(at[:, k]) for k, a in enumerate(field.domain.axes)], axis=-1)
    values = field(points, outside=outside)
    return values[:, None] if field.channel_axis is None else values


def _typed(flat: Array, gone: Any, fill: float | None, dtype: Any) -> Array:
    """Values (n, C) in a dtype, with `fill` or NaN where they lie outside."""
    xp = namespace(flat)
    kind = "" if dtype is None else getattr(dtype, "__name__", str(dtype)).rsplit(".", 1)[-1]
    whole = bool(kind) and np.dtype(kind).kind in "biu"
    if gone.any() and whole and fill is None:
        raise ValueError(
            f"{int(gone.sum())} samples lie outside the field and cannot be NaN in dtype {dtype}. "
            "Say what they should be (fill=0), pass outside='nearest', or ask for floats."
        )
    if gone.any():
        mark = xp.asarray(gone[:, None])
        flat = xp.where(mark, xp.full_like(flat, xp.nan if fill is None else fill), flat)
    return as_dtype(flat, dtype)


# --- transforms -----------------------------------------------------------------------------------


def place_of(transform: Any, d: int) -> tuple[Place, tuple[int, ...] | None]:
    """A transform as a function of points (n, d), and the shape it brings, if it does."""
    if type(transform).__module__.split(".")[0] == "skimage":
        return _of_skimage(transform, d), None
    if is_array(transform) or isinstance(transform, (list, tuple)):
        matrix = np.asarray(to_numpy(transform) if is_array(transform) else transform, np.float64)
        if not np.isfinite(matrix).all():
            raise ValueError("`transform` must hold finite numbers; got NaN or infinities.")
        if matrix.shape in ((d, d + 1), (d + 1, d + 1)):
            return _projective(matrix_of(matrix, d)), None
        if matrix.ndim == d + 1 and matrix.shape[-1] == d:
            return _displaced(matrix), matrix.shape[:-1]
        raise ValueError(
            f"`transform` must be a matrix of shape {(d, d + 1)} or {(d + 1, d + 1)}, or "
            f"displacements of shape (..., {d}), one for every sample of the result; got shape "
            f"{matrix.shape}."
        )
    if callable(transform):
        return _called(transform, d), None
    raise TypeError(
        "`transform` must be a matrix, an array of displacements, a skimage.transform object or a "
        f"function of points; got a {type(transform).__name__}."
    )


def matrix_of(matrix: Floats, d: int) -> Floats:
    """An affine or projective matrix, (d + 1, d + 1); refused if it has no inverse."""
    if matrix.shape == (d, d + 1):
        matrix = np.vstack([matrix, np.eye(d + 1)[-1]])
    s = np.linalg.svd(matrix / max(np.abs(matrix).max(), 1e-300), compute_uv=False)
    inner = np.linalg.svd(matrix[:d, :d], compute_uv=False) if not matrix[d, :d].any() else s
    if s[-1] < 1e-12 * s[0] or inner[-1] < 1e-12 * max(inner[0], 1e-300):
        raise ValueError(
            f"`transform` must be invertible; got a singular matrix, {matrix.tolist()}, which maps "
            "the whole result onto a line or a point."
        )
    return matrix


def _projective(matrix: Floats) -> Place:
    d = len(matrix) - 1
    if not matrix[d, :d].any():
        linear, shift = matrix[:d, :d] / matrix[d, d], matrix[:d, d] / matrix[d, d]
        return lambda x: x @ linear.T + shift

    def place(x: Floats) -> Floats:
        y = x @ matrix[:, :d].T + matrix[:, d]
        # What lies beyond the horizon lies nowhere.
        w = np.where(y[:, d:] > 1e-12, y[:, d:], np.nan) if matrix[d, d] > 0 else y[:, d:]
        return np.asarray(y[:, :d] / w)

    return place


def _of_skimage(transform: Any, d: int) -> Place:
    """An object of skimage.transform, which counts columns before rows, as its `warp` takes it."""
    params = np.asarray(transform.params) if hasattr(transform, "params") else None
    if params is not None and params.shape == (d + 1, d + 1):
        matrix_of(params, d)  # only to refuse what is singular
    return _called(lambda x: np.asarray(transform(x[:, ::-1]))[:, ::-1], d)


def _called(function: Callable[[Any], Any], d: int) -> Place:
    def place(x: Floats) -> Floats:
        found = function(x)
        at = np.asarray(to_numpy(found) if is_array(found) else found, np.float64)
        if at.shape != x.shape:
            raise ValueError(
                f"`transform` must give a place, {d} numbers, for each of {len(x)} points; got "
                f"shape {at.shape}."
            )
        return at

    return place


def _displaced(by: Floats) -> Place:
    """Displacements of the samples of the result, between them along straight lines."""
    from scipy.ndimage import map_coordinates

    d = by.shape[-1]

    def place(x: Floats) -> Floats:
        moved = [map_coordinates(by[..., k], x.T, order=1, mode="nearest") for k in range(d)]
        return np.asarray(x + np.stack(moved, axis=-1))

    return place


def along_axes(transform: Any, d: int, sizes: Sequence[int]) -> list[Floats] | None:
    """Index coordinates on each axis, of a matrix that only stretches and shifts; else None."""
    if not (is_array(transform) or isinstance(transform, (list, tuple))):
        return None
    matrix = np.asarray(to_numpy(transform) if is_array(transform) else transform, np.float64)
    if matrix.shape not in ((d, d + 1), (d + 1, d + 1)):
        return None
    matrix = matrix_of(matrix, d)
    linear, last = matrix[:d, :d], matrix[d]
    scales = np.diag(linear)
    if (
        (linear != np.diag(scales)).any()
        or last[:d].any()
        or last[d] != 1
        or not (scales > 0).all()
    ):
        return None
    return [s * np.arange(n) + b for s, b, n in zip(scales, matrix[:d, d], sizes)]


def _is_inside(field: "OnGrids", lines: Sequence[Floats]) -> bool:
    """Whether all places lie inside the domain."""
    ends = zip(lines, field.domain.low, field.domain.high)
    return all(c[0] >= low - 1e-9 and c[-1] <= high + 1e-9 for c, low, high in ends)


def _sizes(
    shape: Sequence[int] | None, own: tuple[int, ...] | None, usual: tuple[int, ...]
) -> tuple[int, ...]:
    """Samples of the result on each axis."""
    if shape is None:
        return usual if own is None else own
    sizes: Any = (shape,) if np.ndim(shape) == 0 else tuple(shape)
    if len(sizes) != len(usual) or not all(is_whole(n) and 1 <= n < 1 << 53 for n in sizes):
        raise ValueError(
            f"`shape` must be {len(usual)} whole numbers of at least 1, one per axis; got "
            f"{shape!r}."
        )
    if own is not None and tuple(sizes) != own:
        raise ValueError(
            f"displacements are for a result of shape {own}; got shape={tuple(sizes)}. Leave "
            "`shape` out."
        )
    return tuple(int(n) for n in sizes)
