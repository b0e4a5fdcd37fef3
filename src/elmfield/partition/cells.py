"""Cells: the regular mesh, rings that are cut, planes of them; boxes of samples around regions."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from elmfield._array.backend import move, move_all, namespace, take
from elmfield._array.checks import is_whole, per_axis, wrong
from elmfield._array.typing import Array, Bools, Integers

if TYPE_CHECKING:
    from elmfield.partition.partition import Partition


def even_cells(
    shape: Sequence[int],
    cell: float | Sequence[float],
    overlap: float | Sequence[float],
    wraps: Sequence[bool],
) -> tuple[tuple[Integers, ...], tuple[float, ...]]:
    """Edges of the cells on each axis, and the overlap that is left on each.

    Cells have at most `cell` samples, and sizes that differ by at most one; see
    :meth:`Partition.regular`.
    """
    d = len(shape)
    cells, overlaps = per_axis("cell", cell, d), per_axis("overlap", overlap, d)
    edges, widths = [], []
    for k, (n, c, o) in enumerate(zip(shape, cells, overlaps)):
        if not is_whole(c) or c < 1:
            raise wrong("cell", f"be a whole number of samples, at least 1, on axis {k}", c)
        if not 0 <= o <= c / 2:
            raise wrong_overlap(o, c, k)
        count = -(-n // int(c))
        if wraps[k] and o > 0 and n > 1:
            # A box must not run over itself: at least two cells, and room for the overlap.
            count = max(count, 2)
            while count < n and -(-n // count) + 2 * np.ceil(o) > n:
                count += 1
        edge = np.round(np.arange(count + 1) * (n / count)).astype(np.int64)
        o = min(float(o), (n // count) / 2)
        if wraps[k] and count > 1:
            o = min(o, (n - -(-n // count)) / 2)
        edges.append(edge)
        widths.append(float(o) if count > 1 else 0.0)
    return tuple(edges), tuple(widths)


def wrong_overlap(overlap: float, cell: float, k: int) -> Exception:
    """An error about an overlap that the smallest cell of axis k has no room for."""
    must = f"lie between 0 and half a cell, of {cell!r} on axis {k}"
    return wrong("overlap", must, overlap, hint="Use a smaller overlap or larger cells.")


Line = tuple[Integers, Integers, int, float]
"""How cells and boxes lie on one axis: edges, (N + 1,), and first samples of boxes, (N,), negative
or beyond the end only where the axis wraps; samples of every box; overlap."""


def line(n: int, cell: int, overlap: float, context: int, *, periodic: bool = False) -> Line:
    """Cells of `cell` samples (odd), some larger or smaller, and boxes of one size.

    Boxes at the ends lie inside the array: nothing is made up beyond it, so that straight lines go
    on straight. Arrays that one box can hold are one cell, unless the axis wraps. What cells of
    one size leave over goes to the outermost two; around a periodic axis to pairs of cells.
    """
    wraps = periodic and n > 1
    reach = math.ceil(overlap - 0.5)
    box = min(n, cell + 2 * (reach + context))
    one = np.array([0, n]), np.zeros(1, np.int64), n, 0.0
    if n == box and not wraps:
        return one
    if n == box:  # a few cells, whose boxes are turned
        ends = n // 2 if n % 2 == 0 else round(n / 3)
        sizes = np.array([ends, n - 2 * ends, ends] if n % 2 else [ends, ends])
    else:
        # An even number of samples has a border in its middle, an odd number a cell.
        count = n // cell
        count -= (n - count) % 2
        rest = (n - cell * count) // 2  # half of what is left over, for so many pairs of cells
        pairs = count // 2 if wraps else 1
        room = box - (2 if wraps else 1) * reach
        if count == 1 or cell + math.ceil(rest / pairs) > room:  # smaller cells, not larger ones
            count, rest = count + 2, rest - cell
            pairs = count // 2 if wraps else 1
        if not wraps and cell + rest < 2 * overlap:  # too small to blend
            return one
        sizes = np.full(count, cell)
        for j in range(abs(rest)):
            sizes[[j % pairs, -1 - j % pairs]] += 1 if rest > 0 else -1
    half = len(sizes) // 2
    edges = np.concatenate([[0], np.cumsum(sizes)])
    starts = edges[:-1] - (box - sizes) // 2
    starts[len(sizes) - half :] = n - box - starts[:half][::-1]
    if not wraps:  # boxes at the ends are moved inwards
        return edges, np.clip(starts, 0, n - box), box, overlap
    # A cell must have room for its blends, and no window may meet itself.
    return edges, starts, box, min(overlap, float(sizes.min()) / 2, (n - int(sizes.max())) / 2)


# --- other cells of a partition ------------------------------------------------------------------


Window = Callable[[Array, int], Array]
"""A function of t, from 0 to 1, and of the order of a derivative."""


def quintic(t: Array, order: int) -> Array:
    """``t³ (10 - 15 t + 6 t²)``, from 0 to 1 as t is, or its derivative of an order up to 3."""
    if order == 0:
        return t * t * t * (10 - t * (15 - 6 * t))
    s = t * (1 - t)
    if order == 1:
        return 30 * s**2
    return 60 * s * (1 - 2 * t) if order == 2 else 60 * (1 - 6 * s)


def check_window(window: object) -> None:
    """Raise unless it is a function that rises from 0 to 1, or None."""
    ends: Array = window(np.asarray([0.0, 1.0]), 0) if callable(window) else None
    if window is not None and not (np.shape(ends) == (2,) and np.allclose(ends, [0, 1])):
        must = "be a function of t and a derivative's order that rises from 0 at 0 to 1 at 1"
        raise wrong("window", must, window)


def check_labels(part: "Partition") -> None:
    """Raise unless every cell has a label, and labels number the regions without gaps."""
    counts = tuple(len(e) - 1 for e in part.edges)
    if part.labels.shape != counts:
        raise wrong("labels", f"have one entry per cell, shape {counts}", part.labels.shape)
    if part.is_regular:
        return
    flat = part.labels.reshape(-1)
    top = int(flat.max()) if flat.size and flat.min() >= 0 else flat.size
    # By counting, not by sorting: a partition may have a million cells.
    if top >= flat.size or not np.bincount(flat).all():
        hint = "numpy.unique(..., return_inverse=True) renumbers them."
        raise wrong(
            "labels", "number the regions 0 to N - 1 without gaps", np.unique(flat), hint=hint
        )


def without_rings(part: "Partition") -> "Partition":
    """The partition with every ring cut into two regions; as it is where there is none.

    A ring goes all around a periodic axis. A region's model knows one coordinate along an axis;
    where it meets its own other end, it jumps. Two halves meet at borders, where windows blend them
    like any two neighbours.
    """
    around = np.flatnonzero(part.periodic)
    if not any(part.overlap) or (part.is_regular and all(part.n_cells[k] > 1 for k in around)):
        return part
    for k in around:
        part = _cut(part, int(k))
    return part


def rings_of(part: "Partition") -> tuple[bool, ...]:
    """Whether one cell goes all around each axis."""
    return tuple(wraps and count == 1 for wraps, count in zip(part.periodic, part.n_cells))


def _cut(part: "Partition", k: int) -> "Partition":
    """The partition without regions that take all cells of axis k."""
    count = part.n_cells[k]
    rings = np.flatnonzero(_taken(part, k).all(axis=1))
    if not len(rings):
        return part
    edges, labels = part.edges[k], part.labels
    if count == 1:  # one cell all around: two of half its size
        edges = np.asarray([edges[0], (edges[0] + edges[-1]) // 2, edges[-1]])
        labels, count = np.repeat(labels, 2, axis=k), 2
    position = np.indices(labels.shape)[k]
    upper = np.isin(labels, rings) & (position >= count // 2)
    first, inverse = np.unique(
        np.where(upper, labels + part.n_regions, labels), return_index=True, return_inverse=True
    )[1:]
    # Numbers without gaps, in the order of first cells.
    labels = np.unique(first[inverse], return_inverse=True)[1].reshape(labels.shape)
    widths = list(part.overlap)
    widths[k] = min(widths[k], float(np.diff(edges).min()) / 2)
    every = (*part.edges[:k], edges, *part.edges[k + 1 :])
    return part.changed(edges=every, labels=labels, overlap=tuple(widths))


def _taken(part: "Partition", k: int) -> Bools:
    """Whether regions have a cell at each position of axis k, (N, cells)."""
    taken = np.zeros((part.n_regions, part.n_cells[k]), bool)
    taken[part.labels, np.indices(part.n_cells)[k]] = True
    return taken


def plane_of(part: "Partition", at: Mapping[int, int] | None = None) -> "Partition":
    """The regions that a plane cuts, as a two-dimensional partition.

    `at` says at which sample of which axis the plane lies, for all axes but two; by default in the
    middle of the shortest ones.
    """
    fixed = fixed_axes(part.shape, at)
    left, labels = [k for k in range(len(part.shape)) if k not in fixed], part.labels
    for k in sorted(fixed, reverse=True):
        labels = labels.take(part.cell_of[k][fixed[k]], axis=k)
    kept = {
        name: tuple(getattr(part, name)[k] for k in left)
        for name in ("shape", "edges", "overlap", "periodic")
    }
    labels = np.unique(labels, return_inverse=True)[1].reshape(labels.shape)
    return part.changed(**kept, labels=labels, spacings=tuple(map(part.spacing, left)))


def fixed_axes(shape: tuple[int, ...], at: Mapping[int, int] | None = None) -> dict[int, int]:
    """The axes across a plane, and the sample of each at which it lies."""
    d = len(shape)
    if d < 2:
        raise ValueError(f"regions are drawn over two axes; the array has {d}.")
    if at is None:
        shortest = sorted(range(d), key=lambda k: (shape[k], k))[: d - 2]
        return {k: shape[k] // 2 for k in sorted(shortest)}
    good = all(
        is_whole(k) and is_whole(i) and 0 <= k < d and 0 <= i < shape[k] for k, i in at.items()
    )
    if len(at) != d - 2 or not good:
        such = f"such as {{0: {shape[0] // 2}}}"
        raise wrong("at", f"say a sample for each of {d - 2} axes of shape {shape}, {such}", at)
    return {int(k): int(i) for k, i in at.items()}


# --- the samples that regions are fitted to -------------------------------------------------------

Shape = tuple[tuple[int, ...], Bools | None, Integers]
"""Box shape, which of the box's samples are a region's own (None: all), and the regions."""


def boxes_of(part: "Partition") -> tuple[Integers, Integers]:
    """First sample and number of samples of each region's box, both of shape (N, d)."""
    N, d = part.n_regions, len(part.shape)
    starts, sizes = np.empty((N, d), np.int64), np.empty((N, d), np.int64)
    cells = np.indices(part.n_cells).reshape(d, -1)
    flat = part.labels.ravel()
    for k, n in enumerate(part.shape):
        first = np.full(N, n)
        last = np.zeros(N, np.int64)
        np.minimum.at(first, flat, part.edges[k][cells[k]])
        np.maximum.at(last, flat, part.edges[k][cells[k] + 1])
        if part.periodic[k] and not part.is_regular:
            _over_the_seam(part, k, first, last)
        starts[:, k], sizes[:, k] = _reaching(part, k, first, last)
    return starts, sizes


def _reaching(
    part: "Partition", k: int, first: Integers, last: Integers
) -> tuple[Integers, Integers]:
    """First sample and number of samples of boxes on axis k, around regions that begin and end."""
    n, margin = part.shape[k], part.margins[k]
    if part.equal_boxes:
        # Around a periodic axis a box must not meet itself.
        room = (n - int((last - first).max())) // 2 - margin if part.periodic[k] else n
        margin += max(0, min(part.context, room))
        if part.mirrored and part.n_cells[k] == 1:  # thin axes would pay dearly
            margin = min(margin, 1)
    first, last = first - margin, last + margin
    beyond = min(margin, n - 1) if part.mirrored and not part.periodic[k] else 0
    if part.equal_boxes:
        size = min(n + 2 * beyond, int((last - first).max()))
        last = np.maximum(last, first + size)
    if part.periodic[k]:
        last = np.minimum(last, first + n)
    elif part.equal_boxes:
        first = np.minimum(np.maximum(first, -beyond), n + beyond - size)
        last = first + size
    else:
        first, last = np.maximum(first, 0), np.minimum(last, n)
    return first, last - first


def _over_the_seam(part: "Partition", k: int, first: Integers, last: Integers) -> None:
    """Let regions at both ends of a periodic axis begin after their widest gap instead."""
    taken, edges = _taken(part, k), part.edges[k]
    for i in np.flatnonzero(taken[:, 0] & taken[:, -1] & ~taken.all(axis=1)):
        cells = np.flatnonzero(taken[i])
        widest = int(np.argmax(edges[cells[1:]] - edges[cells[:-1] + 1]))
        first[i] = edges[cells[widest + 1]] - part.shape[k]
        last[i] = edges[cells[widest] + 1]


def shapes_of(part: "Partition") -> list[Shape]:
    """Triples (box shape, inside, regions): the regions that have the same own samples."""
    found: dict[tuple[tuple[int, ...], bytes | None], tuple[Bools | None, list[int]]] = {}
    (starts, sizes), flat = part.boxes, part.labels.reshape(-1)
    cells, ends = np.argsort(flat, kind="stable"), np.cumsum(np.bincount(flat))
    for i, own in enumerate(np.split(cells, ends[:-1])):
        box = tuple(map(int, sizes[i]))
        inside = np.zeros(box, bool)
        for at in zip(*np.unravel_index(own, part.n_cells)):
            reached = (_reach(part, k, j, starts[i, k], box[k]) for k, j in enumerate(at))
            inside[np.ix_(*reached)] = True
        some = None if inside.all() else inside
        found.setdefault((box, some if some is None else some.tobytes()), (some, []))[1].append(i)
    return [(box, own, np.asarray(regions)) for (box, _), (own, regions) in found.items()]


def _reach(part: "Partition", k: int, cell: int, start: int, size: int) -> Integers:
    """Positions, in a box that begins at sample `start`, of the samples a cell's window has."""
    margin, n = part.margins[k], part.shape[k]
    at = np.arange(part.edges[k][cell] - margin, part.edges[k][cell + 1] + margin) - start
    if part.periodic[k]:
        at = np.unique(at % n)
    return at[(at >= 0) & (at < size)]


# --- taking them out of an array ------------------------------------------------------------------


def sample_index(
    partition: "Partition",
    regions: Integers,
    box: tuple[int, ...],
    like: Array,
    inside: Bools | None = None,
) -> Array:
    """Where the samples of the regions' boxes lie in the flattened array, (G, S).

    With `inside`, an array of bool of the box's shape, only those samples of the box.
    """
    starts = partition.boxes[0][regions]
    index = np.zeros((len(regions), 1), np.int64)
    for k, (n, b) in enumerate(zip(partition.shape, box)):
        along = partition.within(k, starts[:, k, None] + np.arange(b))  # (G, b)
        index = (index[:, :, None] * n + along[:, None, :]).reshape(len(regions), -1)
    if inside is not None:
        index = index[:, np.flatnonzero(inside)]
    return move(index, like)


def gather(values: Array, index: Array) -> Array:
    """Samples (G, S, C) of `values`, (..., C), at flat positions `index`, (G, S)."""
    xp = namespace(values)
    flat = xp.reshape(values, (-1, values.shape[-1]))
    return xp.reshape(take(flat, xp.reshape(index, (-1,))), (*index.shape, -1))


def gather_boxes(
    values: Array,
    partition: "Partition",
    regions: Integers,
    box: tuple[int, ...],
    inside: Bools | None = None,
) -> Array:
    """Samples (G, S, C) of the regions' boxes.

    Where the regions fill a block of cells of a regular mesh, axis by axis: nothing but short lists
    of indices travels to a device, and cells that tile the array are only reshaped. In memory each
    channel is then in one piece.
    """
    xp, d = namespace(values), len(box)
    cells = None if inside is not None else _block(partition, regions)
    if cells is None:
        return gather(values, sample_index(partition, regions, box, values, inside))
    X = xp.permute_dims(values, (d, *range(d)))
    lines = (line[own, None] for line, own in zip(partition.lines, cells))
    along = [partition.within(k, at + np.arange(b)) for k, (at, b) in enumerate(zip(lines, box))]
    for k, (n, at, index) in enumerate(zip(partition.shape, along, move_all(along, X))):
        axis = 1 + 2 * k
        if not np.array_equal(at.reshape(-1), np.arange(n)):
            X = take(X, xp.reshape(index, (-1,)), axis=axis)
        X = xp.reshape(X, (*X.shape[:axis], *at.shape, *X.shape[axis + 1 :]))
    X = xp.permute_dims(X, (0, *range(1, 2 * d, 2), *range(2, 2 * d + 1, 2)))
    X = xp.reshape(X, (X.shape[0], len(regions), -1))
    return xp.permute_dims(X, (1, 2, 0))


def whole_rows(partition: "Partition", step: int) -> int:
    """So many regions at a time, or nearly: whole rows of cells, which are taken by axes."""
    row = math.prod(partition.n_cells[1:])
    return max(step // row * row, row) if step * 4 > row else step


def _block(partition: "Partition", regions: Integers) -> list[Integers] | None:
    """The cells of each axis whose product the regions are, or None if they are no block."""
    counts, G = partition.n_cells, len(regions)
    if not partition.is_regular or not G or np.any(np.diff(regions) <= 0):
        return None
    cells = [np.unique(c) for c in np.unravel_index(regions, counts)]
    return cells if math.prod(map(len, cells)) == G else None
