"""A field seen through a map: turned, bent, projected, and averaged where the map shrinks.

A transform says for every sample of the result where it lies among the samples of the field. Both
sides count samples, whatever the units of the axes.
"""

import math
from collections.abc import Callable, Sequence

import numpy as np

from elmfield._array import backend
from elmfield._array.backend import is_array, move, namespace, requires_grad, to_numpy
from elmfield._array.checks import choice, numbers, sizes_of, wrong
from elmfield._array.running import capacity, runs, with_less_memory
from elmfield._array.typing import Array, DType, Floats, Integers
from elmfield.errors import OutsideDomainError
from elmfield.field.coordinates.output_positions import class_dtype, shows_gaps, winners, with_gaps
from elmfield.field.grid_values import MEAN_MIN_COVER, gridded
from elmfield.field.model import Model
from elmfield.field.point_values import at_index

Transform = Array | Callable[[Array], Array]
"""A matrix, displacements, an object of skimage.transform or a function of points."""

Place = Callable[[Floats], Array]
"""Where samples of a result, numbers (n, d), lie among those of the model, in its library."""

SHRINKING_MIN_STEP = 1 + 1e-3
"""From how many samples to a step on a map is averaged over."""

PLACES_PER_SAMPLE = 1.5
"""Places looked at for every sample that is averaged over, along an axis."""

MEAN_PLACES = np.asarray([-(0.5**1.5), 0.0, 0.5**1.5])
"""Three places whose mean is that of every cubic between -1/2 and 1/2."""

MAX_PLACES = 64
"""Places looked at along an axis of one sample of the result, at most."""

LINE_TOLERANCE = 2.0**-21
"""How far, as a part of itself, a place may be moved to lie on a line along an axis.

Files keep affines in float32: each of the four terms of a place is rounded by up to 2⁻²⁴, in two
affines. That moves a voxel of a 256³ scan by less than 1e-4 of its size."""


@with_less_memory
def warped(
    model: Model,
    transform: Transform,
    shape: Sequence[int] | None,
    *,
    antialias: bool,
    outside: str,
    fill: float | None,
    dtype: DType,
    missing: str | None,
) -> Array:
    """See :meth:`Field.warp`."""
    choice("outside", outside, ("raise", "nearest", "nan"))
    choice("antialias", antialias, (True, False))
    place, own, matrix = place_of(transform, model.offset, len(model.shape))
    sizes = own or model.shape
    if shape is not None:
        sizes = sizes_of("shape", shape, len(model.shape))
        if own is not None and sizes != own:
            raise wrong(
                "shape", f"be {own}, that of the displacements", sizes, hint="Leave it out."
            )
    gaps, classes, back = shows_gaps(model, missing), model.labels.classes, model.channels_back
    dtype, model = class_dtype(model, gaps) if dtype is None else dtype, model.shares
    found = None if matrix is None else _along_axes(model, matrix, sizes, antialias, outside, gaps)
    if found is None:
        step = max(1, capacity(model.offset) // (8 * len(sizes) + 8 * max(1, model.n_channels)))
        parts = []
        for i, j in runs(math.prod(sizes), step):
            x = np.stack(np.unravel_index(np.arange(i, j), sizes), axis=-1).astype(np.float64)
            parts.append(_block(model, place, x, antialias, outside, missing))
        flat = namespace(model.offset).concat([values for values, _ in parts], axis=0)
        found = flat, np.concatenate([gone for _, gone in parts])
    flat, gone = winners(classes, found[0]), found[1][:, None]
    if fill is not None:
        flat = namespace(flat).where(move(gone, flat), namespace(flat).full_like(flat, fill), flat)
    values = backend.as_dtype(flat, dtype)
    if fill is None:
        told, way = f"{int(gone.sum())} samples outside the field", "fill=0, or outside='nearest'"
        values = with_gaps(values, gone, what=told, way=way)
    if gaps:
        lost = np.isnan(to_numpy(flat)) & ~gone
        values = with_gaps(values, lost, model.labels.fill_value)
    return back(namespace(values).reshape(values, (*sizes, -1)))


def _block(
    model: Model, place: Place, x: Floats, antialias: bool, outside: str, missing: str | None
) -> tuple[Array, Array]:
    """Values (n, C) at samples x (n, d) of the result, and which of them lie outside the field."""
    at, gone = _settled(model, place(x), outside)
    if outside == "raise" and gone.any():
        first = int(np.flatnonzero(gone)[0])
        there = to_numpy(place(x[first : first + 1]))[0].tolist()
        raise OutsideDomainError(
            f"samples of the result must lie inside the field; {int(gone.sum())} lie outside, the "
            f"first, {x[first].astype(int).tolist()}, at sample {there} of the field. Pass "
            "outside='nearest' or outside='nan' to allow them."
        )
    counts = _counts(place, x) if antialias else np.ones(x.shape, np.int64)
    if antialias and model.labels.samples == "means":
        counts = np.maximum(counts, len(MEAN_PLACES))
    xp = namespace(model.offset)
    kinds, which = np.unique(counts, axis=0, return_inverse=True)
    which = which.reshape(-1)
    if (kinds == 1).all():
        return _means(model, at, 1, missing), gone
    parts, order = [], []
    for g, kind in enumerate(kinds):
        rows = np.flatnonzero(which == g)
        every = np.meshgrid(*map(_places, kind.tolist()), indexing="ij")
        inside = np.stack(every, axis=-1).reshape(-1, x.shape[1])
        for i, j in runs(len(rows), max(1, 200_000 // len(inside))):
            some = rows[i:j]
            points = (x[some, None, :] + inside).reshape(-1, x.shape[1])
            at, _ = _settled(model, place(points), "nearest")
            parts.append(_means(model, at, len(inside), missing))
            order.append(some)
    back = np.argsort(np.concatenate(order), kind="stable")
    return xp.concat(parts, axis=0)[move(back, model.offset), ...], gone


def _places(count: int) -> Floats:
    """Places, between -1/2 and 1/2, over which a sample of the result is averaged."""
    return MEAN_PLACES if count == len(MEAN_PLACES) else (np.arange(count) + 0.5) / count - 0.5


def _settled(model: Model, at: Array, outside: str) -> tuple[Array, Array]:
    """Index coordinates (n, d) inside the domain, and which of the places lie outside it."""
    columns = [model.domain.settle(k, at[:, k], outside) for k in range(at.shape[1])]
    gone = np.zeros(at.shape[0], bool)
    for _, beyond in columns:
        gone |= False if beyond is None else to_numpy(beyond)
    return namespace(at).stack([i for i, _ in columns], axis=-1), gone


def _means(model: Model, at: Array, each: int, missing: str | None) -> Array:
    """Means (n, C) over `each` of the places at index coordinates (n each, d), one by one.

    What lies nearest to a missing sample does not count, and a mean is NaN where that is more than
    half of it.
    """
    values, gone = at_index(model, "value", at), model.hidden(at, missing)
    xp = namespace(values)
    values = xp.reshape(values, (-1, each, values.shape[-1]))
    if gone is None:
        return xp.mean(values, axis=1) if each > 1 else values[:, 0, :]
    gone = xp.broadcast_to(xp.reshape(gone, (values.shape[0], each, -1)), values.shape)
    there = xp.mean(xp.astype(~gone, model.offset.dtype), axis=1)
    total = xp.mean(xp.where(gone, xp.zeros_like(values), values), axis=1)
    is_known = there >= MEAN_MIN_COVER
    return xp.where(is_known, total / xp.where(is_known, there, 1.0), xp.nan)


def _counts(place: Place, x: Floats) -> Integers:
    """Places to average over along each axis of the result, (n, d); 1 where nothing shrinks."""
    counts = np.ones(x.shape, np.int64)
    for k in range(x.shape[1]):
        half = np.zeros(x.shape[1])
        half[k] = 0.5
        with np.errstate(invalid="ignore"):
            across = to_numpy(place(x + half)) - to_numpy(place(x - half))
            length = np.linalg.norm(across, axis=-1)
        length = np.where(np.isfinite(length), length, 1.0)
        wide = np.minimum(np.ceil(PLACES_PER_SAMPLE * length), MAX_PLACES)
        counts[:, k] = np.where(length > SHRINKING_MIN_STEP, wide, 1)
    return counts


# --- transforms -----------------------------------------------------------------------------------


def place_of(
    transform: Transform, like: Array, d: int
) -> tuple[Place, tuple[int, ...] | None, Floats | None]:
    """A transform as a function of sample numbers; the shape it brings, if it does; its matrix.

    Places come in the library and on the device of `like`; what torch follows in a transform it
    follows in them.
    """
    if type(transform).__module__.split(".")[0] == "skimage":
        params = np.asarray(getattr(transform, "params", None))
        if params.shape == (d + 1, d + 1):
            matrix_of(params, d)  # only to refuse what is singular
        # Its objects count columns before rows.
        own = _called(lambda x: transform(to_numpy(x)[:, ::-1])[:, ::-1], like, d)
        return own, None, None
    if is_array(transform) or isinstance(transform, (list, tuple)):
        given = _brought(transform, like)
        if not np.isfinite(to_numpy(given)).all():
            raise ValueError("`transform` must hold finite numbers; got NaN or infinities.")
        if tuple(given.shape) in ((d, d + 1), (d + 1, d + 1)):
            matrix = matrix_of(transform, d)
            return _projective(given), None, None if requires_grad(transform) else matrix
        if given.ndim == d + 1 and given.shape[-1] == d:
            return _displaced(given), tuple(given.shape[:-1]), None
        must = f"be a matrix of shape {(d, d + 1)} or {(d + 1, d + 1)}, or displacements of shape "
        must += f"(..., {d}), one for every sample of the result"
        raise wrong("transform", must, tuple(given.shape))
    if callable(transform):
        return _called(transform, like, d), None, None
    must = (
        "be a matrix, an array of displacements, a skimage.transform object or a function of points"
    )
    raise wrong("transform", must, transform, TypeError)


def _brought(given: Array, like: Array) -> Array:
    """What a transform has or gives, in float64, in the library and on the device of `like`."""
    if requires_grad(given) and not backend.is_torch(like):
        raise TypeError(
            "a transform that requires gradients needs a field of torch, which follows them; got "
            f"one of {type(like).__name__}. Fit a tensor, or use model.to('cpu')."
        )
    array = numbers("transform", given) if backend.is_numpy(given) or not is_array(given) else given
    return move(array, like, namespace(like).float64)


def matrix_of(given: Array, d: int) -> Floats:
    """An affine or projective matrix on the host, (d + 1, d + 1); refused if it has no inverse."""
    matrix: Floats = np.asarray(to_numpy(given), np.float64)
    if matrix.shape == (d, d + 1):
        matrix = np.vstack([matrix, np.eye(d + 1)[-1]])
    s = np.linalg.svd(matrix / max(np.abs(matrix).max(), 1e-300), compute_uv=False)
    inner = np.linalg.svd(matrix[:d, :d], compute_uv=False) if not matrix[d, :d].any() else s
    if s[-1] < 1e-12 * s[0] or inner[-1] < 1e-12 * max(inner[0], 1e-300):
        told = "A singular one maps the whole result onto a line or a point."
        raise wrong("transform", "be invertible", matrix.tolist(), hint=told)
    return matrix


def _projective(matrix: Array) -> Place:
    xp, d = namespace(matrix), matrix.shape[1] - 1
    linear, shift = matrix[:d, :d], matrix[:d, d]
    if matrix.shape[0] == d:
        return lambda x: move(x, matrix) @ linear.T + shift

    def place(x: Floats) -> Array:
        points = move(x, matrix)
        w = points @ matrix[d, :d] + matrix[d, d]
        # What lies beyond the horizon lies nowhere. Torch would follow a quotient by NaN.
        seen = (w > 1e-12 if matrix[d, d] > 0 else w != 0)[:, None]
        w = xp.where(seen, w[:, None], xp.ones_like(w[:, None]))
        return xp.where(seen, (points @ linear.T + shift) / w, xp.nan)

    return place


def _called(function: Callable[[Array], Array], like: Array, d: int) -> Place:
    def place(x: Floats) -> Array:
        at = _brought(function(move(x, like)), like)
        if tuple(at.shape) != x.shape:
            must = f"give a place, {d} numbers, for each of {len(x)} points"
            raise wrong("transform", must, tuple(at.shape))
        return at

    return place


def _displaced(by: Array) -> Place:
    """Displacements of the samples of the result, between them along straight lines."""
    xp, sizes, d = namespace(by), by.shape[:-1], by.shape[-1]
    flat = xp.reshape(by, (-1, d))

    def place(x: Floats) -> Array:
        at = np.clip(x, 0, np.asarray(sizes) - 1.0)
        low = np.floor(at).astype(np.int64)
        high = np.minimum(low + 1, np.asarray(sizes) - 1)
        total = move(x, by)
        for corner in np.ndindex(*(2,) * d):
            weight = np.prod(np.where(corner, at - low, low + 1 - at), axis=-1)
            if weight.any():  # at samples, one corner is all
                rows = np.ravel_multi_index(tuple(np.where(corner, high, low).T), sizes)
                total = total + move(weight[:, None], by) * xp.take(flat, move(rows, by), axis=0)
        return total

    return place


# --- along the axes -------------------------------------------------------------------------------


def _along_axes(
    model: Model, matrix: Floats, sizes: Sequence[int], antialias: bool, outside: str, gaps: bool
) -> tuple[Array, Array] | None:
    """What :func:`_block` gives for all samples, of a matrix whose axes are the field's; else None.

    In any order and sense, stretched and shifted: then axis by axis, as `resize` does it, and means
    are exact.
    """
    d, domain = len(sizes), model.domain
    if matrix[d, :d].any():
        return None
    linear, shift = matrix[:d, :d] / matrix[d, d], matrix[:d, d] / matrix[d, d]
    last = np.maximum(np.asarray(sizes) - 1.0, 1.0)
    driver = np.argmax(np.abs(linear) * last, axis=1)  # which axis of the result runs along mine
    others = np.where(np.arange(d) == driver[:, None], 0.0, linear)
    slack = LINE_TOLERANCE * (np.abs(linear) @ last)
    if len(set(driver)) < d or (np.abs(others) @ last > slack).any():
        return None
    x, boxes, kept, beyond = [], [], [], []
    for k, axis in enumerate(domain.axes):
        step, n = linear[k, driver[k]], sizes[driver[k]]
        line, low, high = shift[k] + step * np.arange(n), domain.low[k], domain.high[k]
        inside = (line >= low - slack[k]) & (line <= high + slack[k])
        if not inside.all() and (outside != "nan" or axis.period is not None):
            return None  # point by point: borders repeat, turns go round
        own = np.flatnonzero(inside) if inside.any() else np.zeros(1, int)
        edges = shift[k] + step * (np.append(own, own[-1] + 1) - 0.5)
        means = model.labels.samples == "means" or abs(step) > SHRINKING_MIN_STEP
        averages = antialias and inside.any() and means
        x.append(np.clip(line[own], low, high))
        boxes.append((edges if axis.period else np.clip(edges, low, high)) if averages else None)
        kept.append(np.clip(np.arange(n) - own[0], 0, len(own) - 1))
        beyond.append(~inside)
    values = gridded(model, x, None, gaps=gaps, boxes=boxes)
    xp = namespace(values)
    channels = values[..., None]
    if model.channel_axis is not None:
        channels = xp.moveaxis(values, model.channel_axis, -1)
    gone: Array = np.zeros((), bool)
    for k, rows in enumerate(kept):
        if beyond[k].any():
            channels = xp.take(channels, move(rows, values), axis=k)
        gone = gone[..., None] | beyond[k]
    order = np.argsort(driver)
    channels = xp.permute_dims(channels, (*map(int, order), d))
    return xp.reshape(channels, (-1, channels.shape[-1])), gone.transpose(order).reshape(-1)
