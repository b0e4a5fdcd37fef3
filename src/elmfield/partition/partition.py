"""Partition: a grid of atomic cells with an integer label on each; boxes and footprints."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from numbers import Real
from typing import Any

import numpy as np

from elmfield._array import checks
from elmfield._array.checks import array, per_axis, shown, sizes_of, wrong
from elmfield._array.typing import Array, Floats, Integers
from elmfield.domain import Periodic, Spacing, wraps_of
from elmfield.partition import cells

TABULATED_MAX_SAMPLES = 1 << 20
"""Samples of an axis up to which the cell of each is listed."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Partition:
    """Atomic cells and the region each belongs to.

    Made by :meth:`regular`, :meth:`beam`, or :meth:`of` from labels of the caller's.

    Parameters
    ----------
    shape : tuple of int
        Samples on each axis.
    edges : tuple of integer arrays
        On axis k, cell i holds the samples ``edges[k][i]`` to ``edges[k][i+1] - 1``.
    labels : integer array, one entry per cell
        The region of each cell, numbered 0 to N - 1 without gaps.
    overlap : tuple of float
        Half-width of the blend across a cell border, in samples.
    periodic : tuple of bool
        Whether the axis wraps around.
    equal_boxes : bool
        Let every region take in samples beyond its window until all boxes are of one size, so that
        one factorisation serves the whole array.
    context : int
        With equal boxes, samples on each side that a region is fitted to beyond its window. Near
        the edge of its box a model knows its neighbours on one side only.
    mirrored : bool
        With equal boxes, let those at the ends of an axis reach as far beyond it as others reach
        beyond their cells. The samples there are the outermost ones, mirrored at the border.
    starts, sizes : integer arrays, shape (N, d), optional
        First sample and number of samples of each region's box, where they do not follow from the
        cells: a crop has fewer cells than its regions were fitted to.
    spacings : tuple of Spacing or None
        Where samples of uneven axes lie: windows there are functions of the position.
    threshold, energies : float and array, shape (N,), optional
        τ and β of every region, where BEAM merged them; `made` says with which options.
    window : callable, optional
        How a window rises across a border, in place of the quintic: ``window(t, order)`` is its
        value, from 0 to 1 as t is, or a derivative, in the library of t.

    Examples
    --------
    >>> import elmfield as ef
    >>> partition = ef.Partition.regular((64, 96), 32)
    >>> partition.n_regions, partition.n_cells
    (6, (2, 3))
    """

    shape: tuple[int, ...]
    edges: tuple[Integers, ...]
    labels: Integers
    overlap: tuple[float, ...]
    periodic: tuple[bool, ...]
    equal_boxes: bool = False
    context: int = 0
    mirrored: bool = False
    starts: Integers | None = None
    sizes: Integers | None = None
    spacings: tuple[Spacing | None, ...] = ()
    threshold: float | None = None
    energies: Floats | None = None
    made: str = ""
    window: cells.Window | None = None

    @classmethod
    def regular(
        cls, shape: Sequence[int], cell: float | Sequence[float],
        overlap: float | Sequence[float] = 0, *, periodic: Periodic = (),
        equal_boxes: bool = False, context: int = 0, mirrored: bool = False,
        window: cells.Window | None = None,
    ) -> "Partition":  # fmt: skip
        """A Partition into equal cells, as nearly as the shape allows, each its own region.

        Parameters
        ----------
        shape : sequence of int
            Samples on each axis.
        cell : int or sequence of int
            The most samples a cell may have on each axis. Where it does not divide the shape, the
            cells share the shortfall: their sizes differ by at most one sample.
        overlap : float or sequence of float
            Half-width of the blend between neighbours, in samples; at most half a cell. Where cells
            came out smaller than asked, the overlap shrinks with them.
        periodic : int, sequence of int, or mapping
            Numbers of the axes that wrap around, as in `fit`; axes have no names here.
        equal_boxes, context, mirrored, window : optional
            See `Partition`.

        Examples
        --------
        >>> import elmfield as ef
        >>> mesh = ef.Partition.regular((100, 60), cell=16, overlap=2)
        >>> mesh.n_cells
        (7, 4)
        """
        shape = sizes_of("shape", shape)
        wraps = wraps_of(periodic, len(shape))
        edges, widths = cells.even_cells(shape, cell, overlap, wraps)
        counts = [len(e) - 1 for e in edges]
        return cls(
            shape=shape,
            edges=edges,
            labels=np.arange(int(np.prod(counts))).reshape(counts),
            overlap=widths,
            periodic=wraps,
            equal_boxes=equal_boxes,
            context=context,
            mirrored=mirrored,
            window=window,
        )

    @classmethod
    def symmetric(
        cls,
        shape: Sequence[int],
        cell: int,
        overlap: float,
        *,
        context: int = 0,
        periodic: Periodic = (),
    ) -> "Partition":
        """A Partition into cells of `cell` samples (odd) whose boxes are all of one size.

        Cells lie alike from both ends of every axis; what is left over goes to the outermost, so
        that a mirrored array has the mirrored partition. Boxes reach `context` samples beyond the
        windows, and never beyond the array.
        """
        wraps = wraps_of(periodic, len(shape))
        shape = tuple(map(int, shape))
        lines = (cells.line(n, cell, overlap, context, periodic=w) for n, w in zip(shape, wraps))
        edges, first, sizes, overlaps = zip(*lines)
        starts = np.stack(np.meshgrid(*first, indexing="ij"), axis=-1)
        return cls(
            shape=shape,
            edges=edges,
            labels=np.arange(starts[..., 0].size).reshape(starts.shape[:-1]),
            overlap=overlaps,
            periodic=wraps,
            starts=starts.reshape(-1, len(shape)),
            sizes=np.broadcast_to(sizes, (starts[..., 0].size, len(shape))),
        )

    @classmethod
    def beam(
        cls,
        values: Array,
        *,
        cell: int | Sequence[int],
        threshold: float | None = None,
        regions: int | None = None,
        mask: Array | None = None,
        channel_axis: int | None = None,
        periodic: Periodic = (),
        overlap: float | Sequence[float] = 0,
        normalisation: str = "forward",
        outside: str = "zero",
        shapes: str = "any",
        energy: Callable[[Floats], Array] | None = None,
        window: cells.Window | None = None,
    ) -> "Partition":
        """A Partition whose regions are about equally hard to fit: large where little happens.

        Starts from a regular mesh. Pass after pass, from the least energy to the greatest, each
        region below the threshold τ merges with the neighbour with which its energy stays least, if
        that is at most τ; until nothing merges. Energies are those of :func:`barron_norm`.

        Parameters
        ----------
        values : array
            Samples on a grid, in any number of dimensions; NaN marks a missing one.
        cell : int or sequence of int
            Samples per cell of the mesh to start from; cells are never cut.
        threshold : float
            τ: no region of more than one cell has a greater energy.
        regions : int
            Give exactly so many regions instead: τ is searched for. Where no τ gives that number,
            the last pass of the next greater τ stops at it.
        mask : array of bool, optional
            True where a sample is missing.
        channel_axis : int, optional
            Which axis holds channels; their energies are added.
        periodic : int, sequence of int, or mapping
            Numbers of the axes that wrap around, as in `fit`: regions may go across their ends.
            Axes have no names here.
        overlap : float or sequence of float
            Half-width of the blend across cell borders, in samples.
        normalisation, outside : str
            Of the energy; see :func:`barron_norm`.
        shapes : {"any", "boxes"}
            Whether regions may have any shape, as in the paper, or only boxes (where no two make
            a box, several at a time are merged until there are `regions`). Few different boxes
            occur, and regions of one shape share their factorisation: the fit costs as on a mesh.

        energy : callable, optional
            In place of β: of samples (n, C, ...) of regions in boxes of one size, 0 around them, a
            number of 0 or more for each of the n.
        window : callable, optional
            See `Partition`.

        Returns
        -------
        Partition
            Regions are numbered by their first cell, in array order.

        Notes
        -----
        Ties go to the region whose first cell comes first. Every pass, and every τ of the search,
        looks only at regions whose surroundings changed; no set of cells is transformed twice.

        Examples
        --------
        >>> import numpy as np, elmfield as ef
        >>> x = np.linspace(0, 1, 64)
        >>> picture = np.sin(8 * np.pi * x**3)[:, None] * np.sin(np.pi * x)
        >>> partition = ef.beam(picture, cell=8, regions=20)
        >>> partition.n_regions
        20
        """
        # Imported here: SciPy's transforms take 0.1 s to import.
        from elmfield.partition.barron import Barron, samples_of
        from elmfield.partition.beam import checked, merge_cells

        y, present = samples_of(values, mask, channel_axis)
        shape = y.shape[1:]
        wraps_of(periodic, len(shape))  # before a word about cells
        for k, (c, n) in enumerate(zip(per_axis("cell", cell, len(shape)), shape)):
            if c > n:
                must = f"not be larger than the array, {n} samples on axis {k}"
                raise wrong("cell", must, c, hint="Use smaller cells.")
        checks.choice("shapes", shapes, ("any", "boxes"))
        if (threshold is None) == (regions is None):
            told = "neither" if threshold is None else "both"
            raise ValueError(f"give either `threshold` or `regions`; got {told}.")
        mesh = cls.regular(shape, cell, overlap, periodic=periodic, window=window)
        if threshold is not None and not (isinstance(threshold, Real) and threshold == np.inf):
            checks.positive("threshold", threshold)
        if regions is not None and checks.whole("regions", regions) > mesh.n_regions:
            number = f"the number of cells, {mesh.n_regions} for shape {shape} and cell={cell!r}"
            hint = "Use smaller cells for more regions."
            raise wrong("regions", f"lie between 1 and {number}", regions, hint=hint)
        beta = Barron(
            y, present, mesh, normalisation=normalisation, outside=outside,
            energy=None if energy is None else checked(energy),
        )  # fmt: skip
        labels, tau, energies = merge_cells(beta, threshold, regions, boxes=shapes == "boxes")
        kind = normalisation if energy is None else "own energy"
        made = f"BEAM, {kind}, outside {outside}, shapes {shapes}"
        return replace(mesh, labels=labels, threshold=tau, energies=energies, made=made)

    @classmethod
    def of(
        cls,
        shape: Sequence[int],
        edges: Sequence[Sequence[int] | Integers],
        labels: object,
        overlap: float | Sequence[float] = 0,
        *,
        periodic: Periodic = (),
    ) -> "Partition":
        """A Partition of the caller's own cells and labels; lists will do.

        `overlap` is one number or one per axis, `periodic` numbers of axes, as in :meth:`regular`.
        """
        shape = sizes_of("shape", shape)
        d, listed = len(shape), checks.entries(edges)
        if listed is None:
            raise wrong("edges", "be sequences, one per axis", edges, TypeError)
        return cls(
            shape=shape,
            edges=tuple(array("edges", e) for e in listed),
            labels=array("labels", labels),
            overlap=tuple(map(float, per_axis("overlap", overlap, d))),
            periodic=wraps_of(periodic, d),
        )

    def spacing(self, k: int) -> Spacing | None:
        """Where the samples of axis k lie; None where they are evenly spaced."""
        return self.spacings[k] if self.spacings else None

    def changed(self, **parts: Any) -> "Partition":
        """The same with other edges, labels or overlap; boxes follow from them again."""
        old: dict[str, Any] = {"starts": None, "sizes": None}
        if "labels" in parts:  # other regions than those that were merged
            old |= {"threshold": None, "energies": None, "made": ""}
        return replace(self, **old | parts)

    def __repr__(self) -> str:
        size, counts = ("×".join(map(str, n)) for n in (self.shape, self.n_cells))
        tau = "" if self.threshold is None else f", τ={self.threshold:.4g}"
        return (
            f"Partition({size}, {self.n_regions} regions of {counts} cells, overlap={self.overlap}"
            f"{', ' * bool(self.made)}{self.made}{tau})"
        )

    def __post_init__(self) -> None:
        d = len(self.shape)
        for name in ("edges", "overlap", "periodic"):
            if len(listed := getattr(self, name)) != d:
                raise wrong(name, f"have one entry per axis, {d}", listed)
        lines = all(np.ndim(e) == 1 for e in self.edges)
        if not lines or not all(map(checks.is_integers, (*self.edges, self.labels))):
            raise TypeError(
                "`edges` and `labels` must be NumPy arrays of integers; got "
                f"{shown(self.edges)} and {shown(self.labels)}. Partition.of(...) takes lists."
            )
        for k, (n, edge, overlap) in enumerate(zip(self.shape, self.edges, self.overlap)):
            widths = edge[1:] - edge[:-1]
            least = int(widths.min(initial=n))
            if not (len(widths) and edge[0] >= 0 and edge[-1] <= n and least > 0):
                must = f"increase from 0 to the number of samples, {n} on axis {k}"
                raise wrong("edges", must, edge)
            if not 0 <= overlap <= least / 2:
                raise cells.wrong_overlap(overlap, least, k)
        cells.check_labels(self)
        cells.check_window(self.window)
        for name in ("starts", "sizes"):
            rows = getattr(self, name)
            if rows is not None and rows.shape != (self.n_regions, d):
                must = f"have one row per region, shape {(self.n_regions, d)}"
                raise wrong(name, must, rows.shape)

    @property
    def n_cells(self) -> tuple[int, ...]:
        """Number of cells on each axis."""
        return tuple(self.labels.shape)

    @cached_property
    def n_regions(self) -> int:
        """Number of regions N."""
        return self.labels.size if self.is_regular else int(self.labels.max()) + 1

    @cached_property
    def is_regular(self) -> bool:
        """Whether every cell is its own region, numbered in array order."""
        return bool(np.array_equal(self.labels.ravel(), np.arange(self.labels.size)))

    @property
    def margins(self) -> tuple[int, ...]:
        """Samples a window reaches into its neighbours, on each axis."""
        # Borders lie half-way between samples: a blend of half-width δ touches the samples at
        # 1/2, 3/2, ... < δ beyond them.
        return tuple(int(np.ceil(o - 0.5)) if o > 0.5 else 0 for o in self.overlap)

    @cached_property
    def boxes(self) -> tuple[Integers, Integers]:
        """First sample and number of samples of each region's box, both of shape (N, d).

        On a periodic axis, and where samples are mirrored, the first sample may be negative and the
        box may run over the end; `within` says which samples are meant.
        """
        if self.starts is not None and self.sizes is not None:
            return self.starts, self.sizes
        return cells.boxes_of(self)

    def within(self, k: int, at: Integers) -> Integers:
        """The samples that positions of boxes on axis k stand for, those beyond its ends too."""
        n = self.shape[k]
        if self.periodic[k]:
            return at % n
        return np.where(at < 0, -1 - at, np.where(at < n, at, 2 * n - 1 - at))

    @cached_property
    def footprints(self) -> list[tuple[tuple[int, ...], Integers]]:
        """Pairs (box shape, regions): what shares its local sample positions, and so its H."""
        sizes = self.boxes[1]
        # Looking at half a million of them takes 7 ms, sorting them 0.4 s.
        if sizes.strides[0] == 0 or (sizes == sizes[0]).all():
            return [(tuple(sizes[0].tolist()), np.arange(len(sizes)))]
        shapes, group = np.unique(sizes, axis=0, return_inverse=True)
        group = group.reshape(-1)
        return [(tuple(map(int, s)), np.flatnonzero(group == g)) for g, s in enumerate(shapes)]

    @cached_property
    def shapes(self) -> list[cells.Shape]:
        """Triples (box shape, inside, regions): the regions that have the same own samples.

        A region's own samples are those its window touches; `inside`, an array of bool of the box's
        shape, says which of the box's they are, or is None if all are.
        """
        return cells.shapes_of(self)

    def __iter__(self) -> Iterator[tuple[tuple[int, ...], Integers]]:
        return iter(self.footprints)

    @cached_property
    def lines(self) -> tuple[Integers, ...]:
        """On each axis of a regular partition, the first sample of the boxes of each cell."""
        starts = self.boxes[0].reshape(*self.n_cells, len(self.shape))
        along = (np.moveaxis(starts[..., k], k, 0) for k in range(len(self.shape)))
        return tuple(line.reshape(len(line), -1)[:, 0] for line in along)

    @cached_property
    def cell_of(self) -> tuple[Integers, ...]:
        """On each axis, the cell that holds each sample, and once more the last one."""
        return tuple(
            np.clip(np.searchsorted(e, np.arange(n + 1), side="right") - 1, 0, len(e) - 2)
            for n, e in zip(self.shape, self.edges)
        )

    def cells_at(self, k: int, samples: Integers) -> Integers:
        """The cells that hold some samples of axis k; a long axis is not tabulated for them."""
        if self.shape[k] <= TABULATED_MAX_SAMPLES:
            return self.cell_of[k].take(samples)
        found = np.searchsorted(self.edges[k], samples, side="right") - 1
        return np.clip(found, 0, self.n_cells[k] - 1)

    def borders(self, k: int) -> Floats:
        """Index coordinates of the cell borders on axis k, both ends included."""
        return np.subtract(self.edges[k], 0.5, dtype=np.float64)
