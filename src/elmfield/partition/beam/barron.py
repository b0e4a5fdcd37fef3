"""β: the spectral Barron norm of regions, from the discrete Fourier transforms of their boxes.

Enter samples and what belongs to a region; leave one number that says how hard the region is to fit
with few neurons. How regions come about is not known here.
"""

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from operator import or_
from typing import Any, overload

import numpy as np

from elmfield._array.backend import is_array, to_numpy
from elmfield._array.typing import Array, Floats, Integers
from elmfield.partition.partition import Partition

NORMALISATIONS = ("forward", "ortho", "backward")
OUTSIDES = ("zero", "mean")
BATCH = 1 << 20
"""Samples transformed together (8 MiB): more would leave the caches."""

CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
"""Processors this process may use; SciPy would count all that the machine has."""


@overload
def barron_norm(
    values: Array,
    mask: Array | None = ...,
    *,
    partition: None = ...,
    channel_axis: int | None = ...,
    normalisation: str = ...,
    outside: str = ...,
) -> float: ...


@overload
def barron_norm(
    values: Array,
    mask: Array | None = ...,
    *,
    partition: Partition,
    channel_axis: int | None = ...,
    normalisation: str = ...,
    outside: str = ...,
) -> Floats: ...


def barron_norm(
    values: Array,
    mask: Array | None = None,
    *,
    partition: Partition | None = None,
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
        Give the energy of each of its regions.
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
    whole = partition is None
    if partition is None:
        partition = Partition.regular(y.shape[1:], y.shape[1:])
    elif partition.shape != y.shape[1:]:
        raise ValueError(
            f"`partition` must be made for this array, shape {y.shape[1:]}; got one for "
            f"{partition.shape}."
        )
    energy = Energy(y, present, partition, normalisation, outside)
    regions: dict[int, Region] = {}
    for i, cell in zip(partition.labels.reshape(-1).tolist(), energy.cells()):
        regions[i] = union(regions[i], cell) if i in regions else cell
    beta = energy([regions[i] for i in range(partition.n_regions)])
    return float(beta[0]) if whole else beta


@dataclass(frozen=True, eq=False, slots=True)
class Region:
    """A set of cells, as BEAM sees it.

    Parameters
    ----------
    key : int
        Tells sets of cells apart: the exclusive or of 128 random bits per cell. Disjoint sets a and
        b have the union ``a.key ^ b.key``, so energies can be looked up before a union is formed.
    cells : integer array
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
    """

    key: int
    cells: Integers = field(repr=False)
    first: int
    count: int
    bits: tuple[int, ...] = field(repr=False)
    grid: tuple[int, ...] = field(repr=False)
    peak: float


def union(a: Region, b: Region) -> Region:
    """The union of disjoint regions."""
    return Region(
        a.key ^ b.key,
        np.concatenate([a.cells, b.cells]),
        min(a.first, b.first),
        a.count + b.count,
        tuple(map(or_, a.bits, b.bits)),
        tuple(map(or_, a.grid, b.grid)),
        max(a.peak, b.peak),
    )


@dataclass(frozen=True, eq=False)
class Energy:
    """β of regions made of a partition's cells, many at a time.

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
    """

    y: Floats
    present: Any
    partition: Partition
    normalisation: str = "forward"
    outside: str = "zero"

    def __post_init__(self) -> None:
        for name, value, known in (
            ("normalisation", self.normalisation, NORMALISATIONS),
            ("outside", self.outside, OUTSIDES),
        ):
            if value not in known:
                raise ValueError(f"`{name}` must be one of {list(known)}; got {value!r}.")
        part = self.partition
        numbers = np.arange(part.labels.size, dtype=np.int32).reshape(part.n_cells)
        for k, edges in enumerate(part.edges):
            numbers = np.repeat(numbers, np.diff(edges), axis=k)
        set_ = object.__setattr__
        set_(self, "_cell", numbers)  # the cell of every sample
        set_(self, "_chosen", np.zeros(part.labels.size, bool))
        set_(self, "_rows", {})
        set_(self, "_amplitude", float(np.abs(self.y).max()))

    def cells(self) -> list[Region]:
        """The cells as regions, in array order."""
        part = self.partition
        rng = np.random.default_rng(0x5EED)
        keys = rng.integers(0, 1 << 63, size=(part.labels.size, 2)).tolist()
        some = None if self.present is None else self.present.any(axis=0)
        regions = []
        for i, at in enumerate(np.ndindex(part.n_cells)):
            low = [int(e[j]) for e, j in zip(part.edges, at)]
            high = [int(e[j + 1]) for e, j in zip(part.edges, at)]
            if some is None:
                count = math.prod(b - a for a, b in zip(low, high))
                bits = tuple((1 << b) - (1 << a) for a, b in zip(low, high))
            else:
                inside = some[tuple(slice(a, b) for a, b in zip(low, high))]
                count = int(inside.sum())
                bits = tuple(
                    sum(1 << a + int(j) for j in np.flatnonzero(_any_but(inside, k)))
                    for k, a in enumerate(low)
                )
            key = keys[i][0] << 64 | keys[i][1]
            grid = tuple(1 << j for j in at)
            peak = float(np.abs(self.y[:, *map(slice, low, high)]).max())
            regions.append(Region(key, np.asarray([i]), i, count, bits, grid, peak))
        return regions

    def box(self, region: Region) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """First sample and number of samples, on each axis, of the box around a region."""
        spans = self._spans(region.bits)
        return tuple(a for a, _ in spans), tuple(n for _, n in spans)

    def _spans(self, bits: tuple[int, ...]) -> list[tuple[int, int]]:
        part = self.partition
        return [span(b, n if wraps else 0) for b, n, wraps in zip(bits, part.shape, part.periodic)]

    def __call__(self, regions: Sequence[Region]) -> Floats:
        """β of each region, shape (n,): boxes of one size are transformed together."""
        beta = np.zeros(len(regions))
        by_size: dict[tuple[int, ...], list[tuple[int, tuple[int, ...]]]] = {}
        for i, region in enumerate(regions):
            if region.peak:  # else there is nothing to transform
                low, size = self.box(region)
                by_size.setdefault(size, []).append((i, low))
        for size, members in by_size.items():
            step = max(1, BATCH // (len(self.y) * math.prod(size)))
            for j in range(0, len(members), step):
                batch = members[j : j + step]
                boxes = [(regions[i], low) for i, low in batch]
                beta[[i for i, _ in batch]] = self._transform(boxes, size)
        return beta

    def at_least(self, a: Region, b: Region) -> float:
        """A lower bound of β of the union, without a transform of its box; 0 where none is known.

        Notes
        -----
        Write ‖f‖ for the mean of |F| over the box's frequencies. Then ``β = Σ_a n_a/2π ‖∂_a f‖``
        and ``‖∂_a f‖ ≥ ‖Δ_a f‖`` for the difference Δ_a of neighbours, as |sin x| ≤ |x|; and
        ``‖Δ_a f‖ ≥ ‖w Δ_a f‖`` for a window w whose transform is positive, as then ‖w‖ = w(0) = 1.
        A triangular window makes it a matter of one cell; Hölder's ``‖g‖ ≥ (Σg²)^(3/2) / (Σr²)^½``,
        r the autocorrelation of g, one that is the same for all boxes at least twice the cell. The
        rougher the cell and the larger the box, the higher the bound: what is dear to transform is
        mostly ruled out (a black sky with each of the cells along its border).
        """
        spans = self._spans(tuple(map(or_, a.bits, b.bits)))
        if any(n < 2 * m for (_, n), m in zip(spans, self._largest)):
            return 0.0
        S = math.prod(n for _, n in spans)
        scale = {"forward": 1.0, "ortho": math.sqrt(S), "backward": float(S)}[self.normalisation]
        bound = max(
            sum(n * v for (_, n), v in zip(spans, self._roughest(region))) for region in (a, b)
        )
        return 0.999 * scale * bound

    def _roughest(self, region: Region) -> list[float]:
        """The row of :attr:`_roughness` of a region's roughest cell."""
        kept: dict[int, list[float]] = self._rows  # type: ignore[attr-defined]
        if region.key not in kept:
            rows = self._roughness[region.cells]
            kept[region.key] = rows[rows.sum(axis=1).argmax()].tolist()
        return kept[region.key]

    @cached_property
    def _largest(self) -> tuple[int, ...]:
        """Samples of the largest cell on each axis."""
        return tuple(int(np.diff(e).max()) for e in self.partition.edges)

    @cached_property
    def _roughness(self) -> Floats:
        """``‖w Δ_a y‖ / 2π``, or less, for each cell and axis a; 0 where samples are missing."""
        part = self.partition
        d, C = len(part.shape), len(self.y)
        found = np.zeros((part.labels.size, d))
        at = np.stack(np.unravel_index(np.arange(part.labels.size), part.n_cells), axis=1)
        half = [int(np.diff(e).min()) // 2 for e in part.edges]
        if min(half) == 0:
            return found
        size = [2 * h - 1 for h in half]
        w = np.ones(())
        for h in half:
            w = np.multiply.outer(w, 1 - np.abs(np.arange(1 - h, h)) / h)
        padded, axes = [2 * n for n in size], tuple(range(2, 2 + d))
        step = max(1, BATCH // (C * math.prod(padded)))
        for i in range(0, len(found), step):
            Y = np.empty((len(at[i : i + step]), C, *(n + 1 for n in size)))
            for out, cell in zip(Y, at[i : i + step]):
                low = [int(e[j]) for e, j in zip(part.edges, cell)]
                box = tuple(slice(a, a + n + 1) for a, n in zip(low, size))
                out[...] = self.y[:, *box]
                if self.present is not None and not self.present[:, *box].all():
                    out[...] = 0
            for k in range(d):
                inner = tuple(slice(None if j == k else -1) for j in range(d))
                g = w * np.diff(Y, axis=2 + k)[..., *inner]
                power = np.abs(_rfftn(g, padded, axes=range(2, 2 + d), workers=CORES)) ** 2
                r2 = (power**2 * mirrored(padded[-1])).sum(axis=axes) / math.prod(padded)
                g2 = (g**2).sum(axis=axes)
                r2 = np.maximum(r2, np.finfo(float).tiny)
                found[i : i + step, k] = (g2**1.5 / np.sqrt(r2)).sum(axis=1) / (2 * np.pi)
        return found

    def _transform(
        self, boxes: list[tuple[Region, tuple[int, ...]]], size: tuple[int, ...]
    ) -> Floats:
        """β of regions whose boxes have the same size."""
        Y = np.empty((len(boxes), len(self.y), *size))
        S = math.prod(size)
        for out, (region, low) in zip(Y, boxes):
            box = self._slices(low, size)
            if region.count == S:
                out[...] = self.y[:, *box]
                if self.outside == "mean" and self.present is not None:
                    _centre(out, self.present[:, *box])
                continue
            self._chosen[region.cells] = True  # type: ignore[attr-defined]
            inside = self._chosen[self._cell[box]]  # type: ignore[attr-defined]
            self._chosen[region.cells] = False  # type: ignore[attr-defined]
            np.multiply(self.y[:, *box], inside, out=out)
            if self.outside == "mean":
                _centre(out, inside if self.present is None else inside & self.present[:, *box])
        axes = tuple(range(2, Y.ndim))
        F = _rfftn(Y, axes=axes, workers=CORES if Y.size > 1 << 16 else 1)
        W, floor = weights(size, self.normalisation)
        size_of = np.abs(F)
        size_of *= W
        # Row by row: a sum whose rounding does not depend on who else is in the batch.
        beta = size_of.reshape(len(boxes), -1).sum(axis=1)
        beta[beta <= floor * self._amplitude] = 0  # type: ignore[attr-defined]
        return rounded(beta)

    def _slices(self, low: tuple[int, ...], size: tuple[int, ...]) -> tuple[Any, ...]:
        """An index that takes a box out of an array, around the ends of periodic axes too."""
        if all(a + n <= m for a, n, m in zip(low, size, self.partition.shape)):
            return tuple(slice(a, a + n) for a, n in zip(low, size))
        wrapped = ((a + np.arange(n)) % m for a, n, m in zip(low, size, self.partition.shape))
        return np.ix_(*wrapped)


def _rfftn(values: Floats, *options: Any, **named: Any) -> Any:
    from scipy.fft import rfftn  # here: 0.1 s that who merges nothing need not wait

    return rfftn(values, *options, **named)


def _any_but(inside: Any, k: int) -> Any:
    """Where an axis has anything."""
    return inside.any(axis=tuple(j for j in range(inside.ndim) if j != k))


def _centre(Y: Floats, inside: Any) -> None:
    """Take each channel's mean over the samples inside off them, in place; others stay 0."""
    axes = tuple(range(1, Y.ndim))
    inside = np.broadcast_to(inside, Y.shape)
    mean = Y.sum(axis=axes, keepdims=True) / np.maximum(inside.sum(axis=axes, keepdims=True), 1)
    Y -= mean * inside


def rounded(beta: Floats) -> Floats:
    """Numbers of 36 significant bits."""
    mantissa, exponent = np.frexp(beta)
    return np.asarray(np.ldexp(np.round(mantissa * 2.0**36), exponent - 36))


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


@lru_cache(maxsize=256)
def weights(size: tuple[int, ...], normalisation: str) -> tuple[Floats, float]:
    """``|k|_1`` on the half of the spectrum that a real transform gives, and a rounding error."""
    W = np.zeros((1,) * len(size))
    for k, n in enumerate(size):
        waves = np.abs(np.fft.fftfreq(n, 1 / n)) if k < len(size) - 1 else np.arange(n // 2 + 1.0)
        W = W + waves.reshape([-1 if j == k else 1 for j in range(len(size))])
    S = math.prod(size)
    W = W * mirrored(size[-1]) / {"forward": S, "ortho": math.sqrt(S), "backward": 1}[normalisation]
    # A transform of S numbers of size 1 is off by about ε √S log S in every entry.
    floor = 4 * np.finfo(float).eps * math.sqrt(S) * math.log2(2 * S) * float(W.sum())
    return W, floor


def mirrored(n: int) -> Floats:
    """How often the entries of a real transform of length n occur in the whole: most of them twice.

    The other half is the mirror image.
    """
    twice = np.full(n // 2 + 1, 2.0)
    twice[0] = 1
    if n % 2 == 0:
        twice[-1] = 1
    return twice


def samples_of(values: Array, mask: Array | None, channel_axis: int | None) -> tuple[Floats, Any]:
    """Samples (C, n_1, ..., n_d) in float64, 0 where missing, and where they are present.

    Complex samples become twice as many channels.
    """
    if isinstance(values, np.ma.MaskedArray):
        own = np.ma.getmaskarray(values)
        mask, values = own if mask is None else own | np.asarray(mask), values.data
    y = np.asarray(to_numpy(values) if is_array(values) else values)
    if y.dtype.kind not in "biufc":
        raise TypeError(
            f"`values` must hold numbers; got dtype {y.dtype}. Convert it, for instance with "
            "values.astype(float)."
        )
    if channel_axis is not None and not -y.ndim <= channel_axis < y.ndim:
        raise ValueError(
            f"`channel_axis` must be an axis of the array, between {-y.ndim} and {y.ndim - 1} for "
            f"shape {y.shape}; got {channel_axis}."
        )
    full = y.shape
    y = y[None] if channel_axis is None else np.moveaxis(y, channel_axis, 0)
    if y.ndim < 2 or y.size == 0:
        raise ValueError(f"an array needs at least one axis and one sample; got shape {full}.")
    missing = np.isnan(y) if y.dtype.kind in "fc" else np.zeros(y.shape, bool)
    if np.isinf(y).any():
        raise ValueError(
            "`values` must be finite; got infinities. Replace them with NaN to mark the samples as "
            "missing."
        )
    if mask is not None:
        mask = np.asarray(to_numpy(mask) if is_array(mask) else mask)
        if mask.dtype != bool:
            raise TypeError(
                f"`mask` must be boolean, True where a sample does not count; got {mask.dtype}."
            )
        if mask.shape == full and channel_axis is not None:
            mask = np.moveaxis(mask, channel_axis, 0)
        elif mask.shape != y.shape[1:]:
            raise ValueError(
                f"`mask` must have the shape of the samples, {y.shape[1:]}"
                + (f", or {full}" if channel_axis is not None else "")
                + f"; got {mask.shape}."
            )
        missing = missing | mask
    if missing.all():
        raise ValueError("`values` must hold at least one sample; got all NaN or masked.")
    if y.dtype.kind == "c":
        y, missing = np.concatenate([y.real, y.imag]), np.concatenate([missing, missing])
    y = np.array(y, dtype=np.float64)
    if not missing.any():
        return y, None
    y[missing] = 0
    return y, ~missing
