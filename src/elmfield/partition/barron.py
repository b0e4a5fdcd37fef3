"""β: the spectral Barron norm of regions, from the discrete Fourier transforms of their boxes.

It says how hard a region is to fit with few neurons. BEAM balances it; "energy" means this number
wherever partitions are spoken of, not joules, nor sums of squared coefficients.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import KW_ONLY, dataclass, field
from functools import cached_property, lru_cache, reduce
from itertools import pairwise
from operator import or_

import numpy as np
from numpy.typing import NDArray
from scipy.fft import rfftn

from elmfield._array.backend import to_numpy
from elmfield._array.checks import axis_of, choice, wrong
from elmfield._array.running import n_processors
from elmfield._array.typing import Array, Bools, Floats, Integers
from elmfield.partition.partition import Partition
from elmfield.samples import prepare, unmasked

NORMALISATIONS = {"forward": 1.0, "ortho": 0.5, "backward": 0.0}
"""Powers of a box's samples that sums over its transform are divided by."""

Sizes = tuple[int, ...]
"""Numbers of samples, one per axis."""

BATCH_SAMPLES = 1 << 16
"""Samples transformed together (512 KiB): more would leave the caches, or need new memory."""

THREADED_SAMPLES = 1 << 19
"""Samples from which a transform is worth several threads."""


def barron_norm(
    values: Array,
    *,
    mask: Array | None = None,
    partition: Partition | None = None,
    channel_axis: int | None = None,
    normalisation: str = "forward",
    outside: str = "zero",
) -> Array:
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
    if partition is not None and getattr(partition, "shape", None) != shape:
        raise wrong("partition", f"be a Partition made for this array, shape {shape}", partition)
    part = partition or Partition.regular(shape, shape)
    beta = Barron(y, present, part, normalisation=normalisation, outside=outside)
    found = beta(unite(beta.cells(), part.labels))
    return float(found[0]) if partition is None else found


def samples_of(
    values: Array, mask: Array | None, channel_axis: int | None
) -> tuple[Floats, Bools | None]:
    """Samples (C, n_1, ..., n_d) in float64, 0 where missing, and where they are present.

    Complex samples become twice as many channels.
    """
    y, marked = unmasked(values, mask, channel_axis, None)
    shape = tuple(y.shape)
    d = len(shape)
    if channel_axis is not None:
        axis_of("channel_axis", channel_axis, shape)
    if d < (1 if channel_axis is None else 2) or not math.prod(shape):
        raise ValueError(f"an array needs at least one axis and one sample; got shape {shape}.")
    y, present, _, _ = prepare(y, shape, channel_axis, marked)
    y = np.ascontiguousarray(np.moveaxis(to_numpy(y), -1, 0), np.float64)
    return y, None if present is None else np.moveaxis(to_numpy(present), -1, 0)


@dataclass(eq=False, slots=True)
class Region:
    """A set of cells, as BEAM sees it.

    Parameters
    ----------
    key : int
        Tells sets of cells apart: the exclusive or of 128 random bits per cell. Disjoint sets a and
        b have the union ``a.key ^ b.key``, so energies can be looked up before a union is formed.
    cells : tuple of int
        Cell numbers, in array order of the grid of cells.
    first : int
        The least of them.
    count : int
        Samples that count.
    bits : tuple of int
        On each axis, bit j is set where the region has a sample that counts at position j.
    grid : tuple of int
        The same for the grid of cells.
    peak : float
        Greatest absolute value of a sample.
    steps : tuple of float
        On each axis, the greatest difference between two neighbours in one cell, added over the
        channels.
    """

    key: int
    cells: tuple[int, ...] = field(repr=False)
    first: int
    count: int
    bits: tuple[int, ...] = field(repr=False)
    grid: tuple[int, ...] = field(repr=False)
    peak: float
    steps: tuple[float, ...]


def union(a: Region, b: Region) -> Region:
    """The union of disjoint regions."""
    bits, grid = tuple(map(or_, a.bits, b.bits)), tuple(map(or_, a.grid, b.grid))
    first, count, peak = min(a.first, b.first), a.count + b.count, max(a.peak, b.peak)
    steps = tuple(map(max, a.steps, b.steps))
    return Region(a.key ^ b.key, a.cells + b.cells, first, count, bits, grid, peak, steps)


def unite(cells: Sequence[Region], labels: Integers) -> list[Region]:
    """The regions of cells, in array order, with these labels."""
    found: dict[int, Region] = {}
    for i, cell in zip(labels.reshape(-1).tolist(), cells):
        found[i] = union(found[i], cell) if i in found else cell
    return [found[i] for i in range(len(found))]


@lru_cache(maxsize=4096)
def span(bits: int, period: int) -> tuple[int, int]:
    """First position and length of the shortest run that holds all set bits.

    On an axis that repeats after `period` positions the run may go around the end; of several
    shortest runs the one that starts first. `period` 0 stands for an axis that does not repeat.
    """
    if not bits:
        return 0, 0
    low = (bits & -bits).bit_length() - 1
    length = bits.bit_length() - low
    if not period or length < period / 2:
        return low, length
    positions = np.flatnonzero(np.frombuffer(f"{bits:0{period}b}".encode(), np.uint8)[::-1] == 49)
    gaps = np.diff(positions, append=positions[0] + period)  # after each set bit
    starts = np.roll(positions, -1)  # the run begins where its gap ends
    best = int(gaps.max())
    return int(starts[gaps == best].min()), period - best + 1


def spans(
    bits: Iterable[int], shape: Iterable[int], periodic: Iterable[bool]
) -> list[tuple[int, int]]:
    """First position and length, on each axis, of the box around positions."""
    return [span(b, n if wraps else 0) for b, n, wraps in zip(bits, shape, periodic)]


@dataclass(eq=False)
class Barron:
    """β of regions made of cells, many at a time.

    Parameters
    ----------
    y : array, shape (C, n_1, ..., n_d)
        Samples, 0 where missing.
    present : array of bool, same shape, or None
        Where samples count; None if all do.
    partition : Partition
        The cells; its labels play no part.
    normalisation, outside : str
        See :func:`barron_norm`.
    energy : callable, optional
        What stands for β: numbers (n,) of boxes (n, C, ...) of one size.
    """

    y: Floats
    present: Bools | None
    partition: Partition
    _: KW_ONLY
    normalisation: str = "forward"
    outside: str = "zero"
    energy: Callable[[Floats], Floats] | None = None

    def __post_init__(self) -> None:
        choice("normalisation", self.normalisation, tuple(NORMALISATIONS))
        choice("outside", self.outside, ("zero", "mean"))
        self.n_cells = self.partition.n_cells
        self.amplitude = float(np.abs(self.y).max())

    def cells(self) -> list[Region]:
        """The cells as regions, in array order."""
        rng = np.random.default_rng(0x5EED)
        keys = rng.integers(0, 1 << 63, size=(math.prod(self.n_cells), 2)).tolist()
        some = None if self.present is None else np.any(self.present, axis=0)
        peaks = self._greatest(np.abs(self.y).max(axis=0))
        steps = zip(*(self._greatest(self._steps(k)) for k in range(len(self.n_cells))))
        sides = [[slice(int(a), int(b)) for a, b in pairwise(e)] for e in self.partition.edges]
        runs = [[(1 << s.stop) - (1 << s.start) for s in side] for side in sides]  # shared
        regions = []
        for i, (at, peak, step) in enumerate(zip(np.ndindex(self.n_cells), peaks, steps)):
            box = tuple([side[j] for side, j in zip(sides, at)])
            if some is None:
                count = math.prod([s.stop - s.start for s in box])
                bits = tuple([run[j] for run, j in zip(runs, at)])
            else:
                where = np.nonzero(some[box])
                count = len(where[0])
                bits = tuple(
                    sum(1 << s.start + j for j in set(at_k.tolist())) for s, at_k in zip(box, where)
                )
            key, grid = keys[i][0] << 64 | keys[i][1], tuple([1 << j for j in at])
            regions.append(Region(key, (i,), i, count, bits, grid, peak, step))
        return regions

    def _greatest(self, sizes: Floats) -> list[float]:
        """The greatest of the samples' sizes, (n_1, ..., n_d), in each cell."""
        for k, e in enumerate(self.partition.edges):
            sizes = np.maximum.reduceat(sizes, e[:-1], axis=k)
        found: list[float] = sizes.reshape(-1).tolist()
        return found

    def _steps(self, k: int) -> Floats:
        """Differences to the next sample on axis k, added over channels; 0 where a cell ends."""
        steps = np.abs(np.diff(self.y, axis=1 + k, append=0))
        if self.present is not None:
            steps[np.diff(self.present, axis=1 + k, append=False)] = 0
        total = steps.sum(axis=0)
        np.moveaxis(total, k, 0)[self.partition.edges[k][1:] - 1] = 0
        return np.asarray(total)

    def box_of(self, bits: Iterable[int]) -> tuple[Sizes, Sizes]:
        """First sample and number of samples, on each axis, of the box around positions."""
        low, size = zip(*spans(bits, self.y.shape[1:], self.partition.periodic))
        return low, size

    def bound(self, a: Region, b: Region) -> float:
        """A number that β of the union is not below, found without a transform; 0 if none is known.

        Write ‖f‖ for the mean of |F| over the box's frequencies. Then ``β = Σ_a n_a/2π ‖∂_a f‖``,
        and ``‖∂_a f‖ ≥ ‖Δ_a f‖ ≥ max |Δ_a f|`` for the difference Δ_a of neighbours: |sin x| ≤ |x|,
        and a sum of waves is nowhere larger than they are together. The larger the box, the higher
        the bound: a black sky with each of the cells along its border need not be transformed.
        """
        whole = union(a, b)
        size = self.box_of(whole.bits)[1]
        waves = sum(n * step for n, step in zip(size, whole.steps)) / (2 * np.pi)
        total = scale(size, self.normalisation)
        return 0.0 if self.energy else 0.999 * math.prod(size) / total * waves

    def __call__(self, regions: Sequence[Region]) -> Floats:
        """β of each region, shape (n,): boxes of one size are transformed together."""
        beta = np.zeros(len(regions))
        by_size: dict[Sizes, list[tuple[int, Sizes]]] = {}
        for i, region in enumerate(regions):
            # What is 0 everywhere has no β.
            if region.peak or (self.energy and region.count):
                low, size = self.box_of(region.bits)
                by_size.setdefault(size, []).append((i, low))
        for size, members in by_size.items():
            step = max(1, BATCH_SAMPLES // (len(self.y) * math.prod(size)))
            for j in range(0, len(members), step):
                batch = members[j : j + step]
                boxes = [(regions[i], low) for i, low in batch]
                beta[[i for i, _ in batch]] = self._transform(boxes, size)
        return rounded(beta)

    def _transform(self, boxes: list[tuple[Region, Sizes]], size: Sizes) -> Floats:
        """β of regions whose boxes have the same size, not yet rounded."""
        Y = self._boxes(boxes, size)
        if self.energy:
            return self.energy(Y)
        workers = n_processors() if Y.size > THREADED_SAMPLES else 1
        F = rfftn(Y, axes=tuple(range(2, Y.ndim)), workers=workers)
        W, floor = weights(size, self.normalisation)
        # Row by row: a sum whose rounding does not depend on the rest of the batch.
        beta = (np.abs(F) * W).reshape(len(boxes), -1).sum(axis=1)
        beta[beta <= floor * self.amplitude] = 0
        return np.asarray(beta)

    def _boxes(self, boxes: list[tuple[Region, Sizes]], size: Sizes) -> Floats:
        """Samples of regions in their boxes, and what stands outside, shape (n, C, *size)."""
        Y = np.empty((len(boxes), len(self.y), *size))
        chosen = np.zeros(math.prod(self.n_cells), bool)
        for out, (region, low) in zip(Y, boxes):
            box = self._slices(low, size)
            if region.count == math.prod(size):
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

    @cached_property
    def _cell_of(self) -> NDArray[np.int32]:
        """The cell of every sample."""
        numbers = np.arange(math.prod(self.n_cells), dtype=np.int32).reshape(self.n_cells)
        for k, e in enumerate(self.partition.edges):
            numbers = np.repeat(numbers, np.diff(e), axis=k)
        return numbers

    def _slices(self, low: tuple[int, ...], size: tuple[int, ...]) -> tuple[slice | Integers, ...]:
        """An index that takes a box out of an array, around the ends of periodic axes too."""
        sides = list(zip(low, size, self.y.shape[1:]))
        if all(a + n <= m for a, n, m in sides):
            return tuple(slice(a, a + n) for a, n, _ in sides)
        return np.ix_(*((a + np.arange(n)) % m for a, n, m in sides))


def _centre(Y: Floats, inside: Bools) -> None:
    """Take each channel's mean over the samples inside off them, in place; others stay 0."""
    axes, inside = tuple(range(1, Y.ndim)), np.broadcast_to(inside, Y.shape)
    mean = Y.sum(axis=axes, keepdims=True) / np.maximum(inside.sum(axis=axes, keepdims=True), 1)
    Y -= mean * inside


@lru_cache(maxsize=256)
def weights(size: tuple[int, ...], normalisation: str) -> tuple[Floats, float]:
    """``|k|_1`` on the half of the spectrum that a real transform gives, and β's rounding error."""
    each = [np.abs(np.fft.fftfreq(n, 1 / n)) for n in size[:-1]]
    wave = np.arange(size[-1] // 2 + 1.0)
    # Most entries stand for two of the whole spectrum: the other half is the mirror image.
    times = np.where((wave == 0) | (2 * wave == size[-1]), 1.0, 2.0)
    W = reduce(np.add.outer, [*each, wave]) * times
    S, total = math.prod(size), scale(size, normalisation)
    waves = S * sum(n * n // 4 / n for n in size)  # |k|_1 of all frequencies
    # A transform of S numbers of size 1 is off by about ε √S log S in every entry.
    error = 4 * np.finfo(float).eps * math.sqrt(S) * math.log2(2 * S)
    return W / total, float(error * waves / total)


def scale(size: tuple[int, ...], normalisation: str) -> float:
    """What sums over the transform of a box are divided by."""
    return float(math.prod(size) ** NORMALISATIONS[normalisation])


def rounded(beta: Floats) -> Floats:
    """Numbers of 36 significant bits."""
    mantissa, exponent = np.frexp(beta)
    return np.asarray(np.ldexp(np.round(mantissa * 2.0**36), exponent - 36))
