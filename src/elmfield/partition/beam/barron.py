"""β: the spectral Barron norm of regions, from the discrete Fourier transforms of their boxes.

Enter samples and what belongs to a region; leave one number that says how hard the region is to fit
with few neurons. How regions come about is not known here.

BEAM balances this number, and "energy" means it wherever partitions are spoken of; it has nothing
to do with joules, nor with sums of squared coefficients.
"""

import math
from collections.abc import Sequence
from functools import cached_property
from itertools import chain, pairwise
from operator import itemgetter, or_
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from elmfield._array import compiled
from elmfield._array.backend import to_numpy
from elmfield._array.checks import choice, is_integer
from elmfield._array.typing import Array, Floats, Integers
from elmfield.partition.beam.bound import Bound
from elmfield.partition.beam.fourier import (
    BATCH,
    CORES,
    NORMALISATIONS,
    floors,
    rfftn,
    rounded,
    scales,
    weights,
)
from elmfield.partition.beam.fused import Fused
from elmfield.partition.beam.regions import Region, span, union
from elmfield.samples import prepare, unmasked

if TYPE_CHECKING:  # a partition is made with what is here
    from concurrent.futures import ThreadPoolExecutor

    from elmfield.partition.partition import Partition

OUTSIDES = ("zero", "mean")


@overload
def barron_norm(
    values: Array,
    *,
    mask: Array | None = ...,
    partition: None = ...,
    channel_axis: int | None = ...,
    normalisation: str = ...,
    outside: str = ...,
) -> float: ...


@overload
def barron_norm(
    values: Array,
    *,
    mask: Array | None = ...,
    partition: "Partition",
    channel_axis: int | None = ...,
    normalisation: str = ...,
    outside: str = ...,
) -> Floats: ...


def barron_norm(
    values: Array,
    *,
    mask: Array | None = None,
    partition: "Partition | None" = None,
    channel_axis: int | None = None,
    normalisation: str = "forward",
    outside: str = "zero",
) -> float | Floats:
    """The spectral Barron norm of an array, or of each region of a partition of it.

    ``β = Σ_k |k|_1 |F(k)|`` over the discrete Fourier transform F of the smallest box around the
    samples that count, with 0 in place of the others; k counts waves in the box, from -n/2 to n/2
    on an axis of n samples. Channels are added up.

    Parameters
    ----------
    values : array
        Samples on a grid, in any number of dimensions; NaN marks a sample that does not count.
    mask : array of bool, optional
        True where a sample does not count, as in `fit` and `numpy.ma`; of the shape of `values`, or
        of its spatial axes.
    partition : Partition, optional
        Give the norm of each of its regions.
    channel_axis : int, optional
        Which axis holds channels rather than space; None if there is none.
    normalisation : {"forward", "ortho", "backward"}
        Of the transform, as in `scipy.fft`: divided by the box's samples n, by √n, or by nothing.
        The paper does not say; the default gives the best partitions (docs/beam.md).
    outside : {"zero", "mean"}
        What stands where samples do not count: 0, as in the paper, or the mean of those that do.
        With the mean, the shape's own edge spectrum is taken off: a constant has no energy on any
        shape, as it has none on a box.

    Returns
    -------
    float, or array of shape (N,) with `partition`

    Notes
    -----
    Rounded to 36 bits, and to 0 below the transform's rounding error: what is equal on paper
    compares equal here, so that BEAM decides ties by position.

    Examples
    --------
    >>> import numpy as np, elmfield as ef
    >>> wave = np.cos(2 * np.pi * 3 * np.arange(16) / 16)  # |F(3)| = |F(-3)| = 1/2
    >>> round(ef.barron_norm(wave), 9)
    3.0
    """
    y, present = samples_of(values, mask, channel_axis)
    shape = y.shape[1:]
    if partition is not None and partition.shape != shape:
        raise ValueError(
            f"`partition` must be made for this array, shape {shape}; got one for "
            f"{partition.shape}."
        )
    one = tuple(np.asarray([0, n]) for n in shape)
    beta = Barron(
        y,
        present,
        one if partition is None else partition.edges,
        (False,) * len(shape) if partition is None else partition.periodic,
        normalisation=normalisation,
        outside=outside,
    )
    if partition is None:
        return float(beta(beta.cells())[0])
    regions: dict[int, Region] = {}
    for i, cell in zip(partition.labels.reshape(-1).tolist(), beta.cells()):
        regions[i] = union(regions[i], cell) if i in regions else cell
    return beta([regions[i] for i in range(partition.n_regions)])


def samples_of(values: Array, mask: Array | None, channel_axis: int | None) -> tuple[Floats, Any]:
    """Samples (C, n_1, ..., n_d) in float64, 0 where missing, and where they are present.

    Complex samples become twice as many channels.
    """
    y, marked = unmasked(values, mask, channel_axis, None)
    shape = tuple(y.shape)
    d = len(shape)
    if channel_axis is not None and not (is_integer(channel_axis) and -d <= channel_axis < d):
        raise ValueError(
            f"`channel_axis` must be an axis of the array, between {-d} and {d - 1} for shape "
            f"{shape}; got {channel_axis!r}."
        )
    if d < (1 if channel_axis is None else 2) or not math.prod(shape):
        raise ValueError(f"an array needs at least one axis and one sample; got shape {shape}.")
    y, present, _ = prepare(y, shape, channel_axis, marked)
    y = np.ascontiguousarray(np.moveaxis(to_numpy(y), -1, 0), np.float64)
    return y, None if present is None else np.moveaxis(to_numpy(present), -1, 0)


class Barron:
    """β of regions made of cells, many at a time.

    Parameters
    ----------
    y : array, shape (C, n_1, ..., n_d)
        Samples, 0 where missing.
    present : array of bool, same shape, or None
        Where samples count; None if all do.
    edges : tuple of integer arrays
        Where cells begin and end on each axis, as in `Partition`.
    periodic : tuple of bool
        Whether each axis wraps around.
    normalisation, outside : str
        See :func:`barron_norm`.
    """

    def __init__(
        self,
        y: Floats,
        present: Any,
        edges: tuple[Integers, ...],
        periodic: tuple[bool, ...],
        *,
        normalisation: str = "forward",
        outside: str = "zero",
    ) -> None:
        self.y, self.present, self.edges, self.periodic = y, present, edges, periodic
        self.normalisation = choice("normalisation", normalisation, NORMALISATIONS)
        self.outside = choice("outside", outside, OUTSIDES)
        self.n_cells = tuple(len(e) - 1 for e in edges)
        self._at = np.unravel_index(np.arange(math.prod(self.n_cells)), self.n_cells)
        self._amplitude = float(np.abs(y).max())
        self._bound = Bound(y, present, edges)

    def cells(self) -> list[Region]:
        """The cells as regions, in array order."""
        rng = np.random.default_rng(0x5EED)
        keys = rng.integers(0, 1 << 63, size=(math.prod(self.n_cells), 2)).tolist()
        some = None if self.present is None else self.present.any(axis=0)
        peaks = self._peaks()
        sides = [[(int(a), int(b)) for a, b in pairwise(e)] for e in self.edges]
        runs = [[(1 << b) - (1 << a) for a, b in side] for side in sides]
        regions = []
        for i, (at, peak) in enumerate(zip(np.ndindex(self.n_cells), peaks.reshape(-1).tolist())):
            spans = [side[j] for side, j in zip(sides, at)]
            if some is None:
                count = math.prod([b - a for a, b in spans])
                bits = tuple([run[j] for run, j in zip(runs, at)])
            else:
                inside = some[tuple(slice(a, b) for a, b in spans)]
                count = int(inside.sum())
                bits = tuple(
                    sum(1 << a + int(j) for j in np.flatnonzero(_any_but(inside, k)))
                    for k, (a, _) in enumerate(spans)
                )
            key = keys[i][0] << 64 | keys[i][1]
            grid = tuple([1 << j for j in at])
            regions.append(Region(key, (i,), i, count, bits, grid, peak))
        return regions

    def _peaks(self) -> Floats:
        """The greatest absolute value in each cell."""
        if self._tiles is not None:
            inside = tuple(range(1, self._tiles.ndim))
            high, low = self._tiles.max(axis=inside), self._tiles.min(axis=inside)
            return np.asarray(np.maximum(high, -low).reshape(self.n_cells))
        peaks = np.abs(self.y).max(axis=0)
        for k, e in enumerate(self.edges):
            peaks = np.maximum.reduceat(peaks, e[:-1], axis=k)
        return np.asarray(peaks)

    def box(self, region: Region) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """First sample and number of samples, on each axis, of the box around a region."""
        spans = self._spans(region.bits)
        return tuple(a for a, _ in spans), tuple(n for _, n in spans)

    def _spans(self, bits: tuple[int, ...]) -> list[tuple[int, int]]:
        sides = zip(bits, self.y.shape[1:], self.periodic)
        return [span(b, n if wraps else 0) for b, n, wraps in sides]

    def __call__(self, regions: Sequence[Region]) -> Floats:
        """β of each region, shape (n,): boxes of one size are transformed together."""
        beta = np.zeros(len(regions))
        left = [i for i, region in enumerate(regions) if region.peak]  # others are black
        if self.fusible and compiled.pays(sum(regions[i].count for i in left)):
            left = self._fuse(regions, left, beta)
        by_size: dict[tuple[int, ...], list[int]] = {}
        lows: dict[int, tuple[int, ...]] = {}
        for i in left:
            lows[i], size = self.box(regions[i])
            by_size.setdefault(size, []).append(i)
        batches = []
        for size, members in by_size.items():
            work = len(self.y) * math.prod(size)
            step = max(1, BATCH // work)
            for j in range(0, len(members), step):
                batch = members[j : j + step]
                batches.append((work * len(batch), size, batch))

        def transform(share: list[tuple[int, tuple[int, ...], list[int]]]) -> None:
            for _, size, batch in share:
                boxes = [(regions[i], lows[i]) for i in batch]
                beta[batch] = self._transform(boxes, size, 1 if len(shares) > 1 else CORES)

        shares = _shares(batches)
        if len(shares) > 1:
            list(self._pool.map(transform, shares))
        elif shares:
            transform(shares[0])
        return rounded(beta)

    @property
    def fusible(self) -> bool:
        """Whether compiled loops know these cells: two axes, all of one size, nothing missing."""
        return len(self.edges) == 2 and self._tiles is not None

    @cached_property
    def fused(self) -> Fused:
        """The compiled loops."""
        assert self._tiles is not None
        return Fused(self._tiles, self.n_cells, self.outside == "mean", CORES)

    def of_cells(self, cells: Integers, begins: Integers, low: Integers, size: Integers) -> Floats:
        """β of regions by compiled loops, from their cells and boxes of cells; see `Fused`."""
        beta = self.fused(cells, begins, low, size)
        samples = size * [e[1] for e in self.edges]
        beta /= scales(samples, self.normalisation)
        beta[beta <= floors(samples, self.normalisation) * self._amplitude] = 0
        return rounded(beta)

    def _fuse(self, regions: Sequence[Region], which: list[int], beta: Floats) -> list[int]:
        """β of some regions by compiled loops, where these know them; the others."""
        periods = [n if wraps else 0 for n, wraps in zip(self.n_cells, self.periodic)]
        boxes = [list(map(span, regions[i].grid, periods)) for i in which]
        table = np.asarray(boxes, np.int64).reshape(-1, 2, 2)
        fits = self.fused.fits(table[..., 1])
        mine = [i for i, fit in zip(which, fits.tolist()) if fit]
        if mine:
            begins = np.cumsum([0, *(len(regions[i].cells) for i in mine)])
            inside = chain.from_iterable(regions[i].cells for i in mine)
            cells = np.fromiter(inside, np.int64, int(begins[-1]))
            beta[mine] = self.of_cells(cells, begins, table[fits, :, 0], table[fits, :, 1])
        return [i for i, fit in zip(which, fits.tolist()) if not fit]

    @cached_property
    def _pool(self) -> "ThreadPoolExecutor":
        from concurrent.futures import ThreadPoolExecutor

        return ThreadPoolExecutor(CORES)

    def at_least(self, a: Region, b: Region) -> float:
        """A lower bound of β of the union, without a transform of its box; 0 if none is known."""
        size = [n for _, n in self._spans(tuple(map(or_, a.bits, b.bits)))]
        S = math.prod(size)
        return (
            0.999
            * S
            / float(scales(np.asarray(size), self.normalisation))
            * self._bound(a, b, size)
        )

    def _transform(
        self, boxes: list[tuple[Region, tuple[int, ...]]], size: tuple[int, ...], workers: int
    ) -> Floats:
        """β of regions whose boxes have the same size, not yet rounded."""
        Y = self._boxes(boxes, size)
        F = rfftn(Y, axes=tuple(range(2, Y.ndim)), workers=workers if Y.size > 1 << 19 else 1)
        W, floor = weights(size, self.normalisation)
        size_of = np.abs(F)
        size_of *= W
        # Row by row: a sum whose rounding does not depend on who else is in the batch.
        beta = size_of.reshape(len(boxes), -1).sum(axis=1)
        beta[beta <= floor * self._amplitude] = 0
        return np.asarray(beta)

    def _boxes(self, boxes: list[tuple[Region, tuple[int, ...]]], size: tuple[int, ...]) -> Floats:
        """Samples of regions in their boxes, and what stands outside, shape (n, C, *size)."""
        if self.outside == "zero" and self._tiles is not None:
            return self._tiled(boxes, size)
        Y = np.empty((len(boxes), len(self.y), *size))
        S = math.prod(size)
        chosen = np.zeros(math.prod(self.n_cells), bool)
        for out, (region, low) in zip(Y, boxes):
            box = self._slices(low, size)
            if region.count == S:
                out[...] = self.y[:, *box]
                if self.outside == "mean" and self.present is not None:
                    _centre(out, self.present[:, *box])
                continue
            own = list(region.cells)
            chosen[own] = True
            inside = chosen[self._cell_of[box]]
            chosen[own] = False
            np.multiply(self.y[:, *box], inside, out=out)
            if self.outside == "mean":
                _centre(out, inside if self.present is None else inside & self.present[:, *box])
        return Y

    def _tiled(self, boxes: list[tuple[Region, tuple[int, ...]]], size: tuple[int, ...]) -> Floats:
        """The same, a cell at a time; 0 outside."""
        tiles, d = self._tiles, len(size)
        assert tiles is not None
        widths = tiles.shape[2:]
        counts = [len(region.cells) for region, _ in boxes]
        cells = np.fromiter(chain.from_iterable(r.cells for r, _ in boxes), int, sum(counts))
        which = np.repeat(np.arange(len(boxes)), counts)
        low = np.asarray([low for _, low in boxes])
        at = [
            (self._at[k][cells] - (low[:, k] // widths[k])[which]) % self.n_cells[k]
            for k in range(d)
        ]
        split = [n for sides in zip((s // w for s, w in zip(size, widths)), widths) for n in sides]
        make = (
            np.empty if len(cells) * math.prod(widths) == len(boxes) * math.prod(size) else np.zeros
        )
        Y = make((len(boxes), len(self.y), *split))
        by_cell = Y.transpose(0, *range(2, 2 + 2 * d, 2), 1, *range(3, 3 + 2 * d, 2))
        by_cell[which, *at] = tiles[cells]
        return Y.reshape(len(boxes), len(self.y), *size)

    @cached_property
    def _tiles(self) -> Floats | None:
        """Samples of each cell, shape (cells, C, *cell); None if cells differ or samples miss."""
        sides = [np.diff(e) for e in self.edges]
        if self.present is not None or any(np.ptp(s) for s in sides):
            return None
        d = len(sides)
        split = [n for s in sides for n in (len(s), int(s[0]))]
        tiles = self.y.reshape(len(self.y), *split)
        tiles = tiles.transpose(*range(1, 1 + 2 * d, 2), 0, *range(2, 2 + 2 * d, 2))
        return tiles.reshape(-1, len(self.y), *(int(s[0]) for s in sides))

    @cached_property
    def _cell_of(self) -> Any:
        """The cell of every sample."""
        numbers = np.arange(math.prod(self.n_cells), dtype=np.int32).reshape(self.n_cells)
        for k, e in enumerate(self.edges):
            numbers = np.repeat(numbers, np.diff(e), axis=k)
        return numbers

    def _slices(self, low: tuple[int, ...], size: tuple[int, ...]) -> tuple[Any, ...]:
        """An index that takes a box out of an array, around the ends of periodic axes too."""
        sides = list(zip(low, size, self.y.shape[1:]))
        if all(a + n <= m for a, n, m in sides):
            return tuple(slice(a, a + n) for a, n, _ in sides)
        return np.ix_(*((a + np.arange(n)) % m for a, n, m in sides))


def _shares(batches: list[tuple[int, Any, Any]]) -> list[list[tuple[int, Any, Any]]]:
    """Batches of work, the first number of each, shared out evenly among the processors.

    One share where there is little to do, or where one batch is most of it: a transform of a large
    box has threads of its own.
    """
    total, most = sum(b[0] for b in batches), max((b[0] for b in batches), default=0)
    if CORES == 1 or total < 1 << 15 or most > total / CORES:
        return [batches] if batches else []
    shares: list[list[tuple[int, Any, Any]]] = [[] for _ in range(CORES)]
    loads = [0] * CORES
    for batch in sorted(batches, key=itemgetter(0), reverse=True):
        least = loads.index(min(loads))
        shares[least].append(batch)
        loads[least] += batch[0]
    return shares


def _any_but(inside: Any, k: int) -> Any:
    """Where an axis has anything."""
    return inside.any(axis=tuple(j for j in range(inside.ndim) if j != k))


def _centre(Y: Floats, inside: Any) -> None:
    """Take each channel's mean over the samples inside off them, in place; others stay 0."""
    axes = tuple(range(1, Y.ndim))
    inside = np.broadcast_to(inside, Y.shape)
    mean = Y.sum(axis=axes, keepdims=True) / np.maximum(inside.sum(axis=axes, keepdims=True), 1)
    Y -= mean * inside
