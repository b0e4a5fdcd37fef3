"""The settings of the paper, and the default."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from elmfield._array.checks import choice, entries, is_number, is_whole, per_axis, shown, whole
from elmfield._array.typing import Array
from elmfield.local import bases
from elmfield.local.bases import DenseWeights, plain_modes
from elmfield.local.layers import Activation, Cosines, Dense, MakeLayer
from elmfield.local.model import Basis
from elmfield.local.order import probe_grids, spectral_orders, suited_orders
from elmfield.partition import Partition
from elmfield.samples import Grid, View
from elmfield.settings.protocol import Noise, Target, parse_noise

PAPER_CELL = 32
"""Samples of a cell in most of the paper's experiments."""

PAPER_OVERLAP = 0.5
"""Half a sample: windows blend between the last sample of a cell and the first of the next."""


USUAL_ORDER = 1.1
"""The energy order that suited 21 photographs best (docs/defaults.md): for what is too short to
have a spectrum."""

FILL_ORDER = 1.55
"""Order along a line that filled photographs best (benchmarks/targets.py): thin plates, in 2-D."""

WIDE_ORDER = 5.0
"""From this order on boxes overlap more: errors of smooth functions halve."""

RING_SAMPLES = 128
"""Periodic axes of such an order, up to so long, are not cut: their waves are whole numbers."""


@dataclass(frozen=True)
class Paper:
    """Settings of the paper; see :func:`paper`.

    Examples
    --------
    >>> import elmfield as ef
    >>> ef.paper(width=512).network.width
    512
    """

    cell: float | tuple[float, ...] | None = None
    overlap: float | tuple[float, ...] | None = None
    network: Dense = field(default_factory=Dense)
    layers: str = "shared"
    solver: str = "qr"
    ridge: float = 0.0
    dtype: str = "float64"
    widths: tuple[int, ...] | None = None

    centred = False  # least squares on the samples as they are
    target = None
    denoise = clip = False
    samples = "points"
    fill_order = FILL_ORDER
    is_resolved = True
    is_linear = True
    own_samples = True

    def __post_init__(self) -> None:
        choice("layers", self.layers, ("shared", "own"))
        choice("solver", self.solver, bases.SOLVERS)
        choice("dtype", self.dtype, ("float64", "float32"))
        if not is_number(self.ridge) or not 0 <= self.ridge < np.inf:
            raise ValueError(f"`ridge` must be a number, 0 or more; got {self.ridge!r}.")

    def resolve(self, view: View) -> "Paper":
        """Nothing here depends on the samples."""
        return self

    def probe_grids(self, shape: Sequence[int]) -> tuple[Grid, ...]:
        """None: nothing depends on the samples."""
        return ()

    def partition(self, shape: Sequence[int], periodic: Sequence[bool]) -> Partition:
        """Cells as the paper cuts them: a region's samples are those its window touches."""
        cell = PAPER_CELL if self.cell is None else self.cell
        overlap = PAPER_OVERLAP if self.overlap is None else self.overlap
        part = Partition.regular(shape, cell, overlap, periodic=np.flatnonzero(periodic))
        return self._with_widths(part)

    def adopt(self, partition: Partition) -> Partition:
        """The partition, with a blend of half a sample if it has none and 0 was not asked for."""
        _refuse_with_partition(cell=self.cell, overlap=self.overlap or None)
        if self.overlap is None and partition.n_regions > 1 and not any(partition.overlap):
            wide = tuple(PAPER_OVERLAP if n > 1 else 0.0 for n in partition.n_cells)
            partition = partition.changed(overlap=wide)
        return self._with_widths(partition)

    def _with_widths(self, partition: Partition) -> Partition:
        """The partition, if it has as many regions as there are widths."""
        n = partition.n_regions
        if self.widths is not None and len(self.widths) != n:
            got = len(self.widths)
            raise ValueError(
                f"`width` must be one number, or one for each of {n} regions; got {got}."
            )
        return partition

    @property
    def weights_model(self) -> DenseWeights | None:
        """The model that keeps output weights as they are solved for; None for the usual one."""
        if self == replace(self, layers="shared", solver="qr", ridge=0.0, dtype="float64",
                           widths=None):  # fmt: skip
            return None
        return DenseWeights(
            network=self.network, box=(), is_own=self.layers == "own", solver=self.solver,
            ridge=float(self.ridge), dtype=self.dtype, widths=self.widths,
        )  # fmt: skip

    def model(
        self, box: tuple[int, ...], inside: Array | None, like: Array
    ) -> Basis | DenseWeights:
        """Plain least squares, in orthonormal coordinates where all regions share their layer.

        A merged region's is on its own samples.
        """
        if (weights := self.weights_model) is not None:
            whole_box = inside is None or bool(inside.all())
            return replace(weights, box=box, inside=None if whole_box else inside)
        if inside is None:
            return plain_modes(self.network, box, like)
        return bases.shaped_modes(self.network, box, None if inside.all() else inside, like)


@dataclass(frozen=True)
class Smooth:
    """Settings of the default; see :func:`smooth`.

    Examples
    --------
    >>> import elmfield as ef
    >>> ef.smooth(psnr=40).target
    Target(kind='psnr', value=40, effort=5)
    """

    order: float | tuple[float, ...] | str = "auto"
    cell: float | tuple[float, ...] | None = None
    overlap: float | tuple[float, ...] | None = None
    network: Dense | None = None
    target: Target | None = None
    denoise: Noise = False
    context: int | None = None
    layer: MakeLayer | None = None
    mirrored: bool = False
    samples: str = "points"
    free: tuple[int, ...] | None = None  # polynomials without a price; found with the order

    centred = True
    own_samples = clip = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "denoise", parse_noise(self.denoise))
        if self.denoise is not False and self.target is not None:
            raise ValueError(
                f"`denoise` and `{self.target.kind}` cannot be asked for together: one wants the "
                "samples changed, the other wants them kept. Fit the denoised samples() again."
            )
        if self.context is not None:
            whole("context", self.context, 0)
        if self.network is not None and self.layer is not None:
            raise ValueError("`network` and `layer` cannot be asked for together. Drop one.")
        if not all(part is None or callable(part) for part in (self.network, self.layer)):
            raise TypeError(
                "`network` must be a Dense, and `layer` a function that makes a layer; got "
                f"{shown(self.network)} and {shown(self.layer)}."
            )
        choice("mirrored", self.mirrored, (True, False))
        if isinstance(self.order, str) and self.order == "auto":
            return
        for s in entries(self.order) or (self.order,):
            check_order(s)
        if self.network is not None and np.ndim(self.order) > 0:
            raise ValueError("`order` must be one number with a dense `network`; got one per axis.")

    @property
    def is_resolved(self) -> bool:
        """Whether the order is a number."""
        return self.order != "auto"

    @property
    def is_linear(self) -> bool:
        """Whether nothing is left out, neither coefficients nor noise."""
        return self.target is None and self.denoise is False

    @property
    def fill_order(self) -> float | None:
        """None unless an order was given: then as smooth as that, and at least as thin plates."""
        return None if isinstance(self.order, str) else max(FILL_ORDER, float(np.mean(self.order)))

    def probe_grids(self, shape: Sequence[int]) -> tuple[Grid, ...]:
        """Lines from which the spectrum is computed, unless an order was given."""
        return () if self.is_resolved else probe_grids(shape)

    def resolve(self, view: View) -> "Smooth":
        """These settings with an order that suits the samples, unless it was given."""
        if self.is_resolved:
            return self
        if self.network is not None:
            return replace(self, order=float(np.mean(spectral_orders(view, USUAL_ORDER))))
        means = self.samples == "means"
        # Where samples will be off, what is free follows them.
        if self.target is not None or means:
            orders = spectral_orders(view, USUAL_ORDER, means)
            return replace(self, order=orders, free=(2,) * len(orders))
        orders, free = suited_orders(view, USUAL_ORDER)
        return replace(self, order=orders, free=free)

    def partition(self, shape: Sequence[int], periodic: Sequence[bool]) -> Partition:
        """Cells whose boxes are all of one size: one factorisation for the whole array."""
        usual, blend, beyond = self._usual_cells(shape, self._drops_modes)
        cell = list(per_axis("cell", usual if self.cell is None else self.cell, len(shape)))
        # The default overlap must not be the reason for an error about small cells.
        own = [min(blend, c / 2) for c in cell] if self.overlap is None else self.overlap
        overlap = list(per_axis("overlap", own, len(shape)))
        own_cells = self.cell is not None or self.overlap is not None
        if not (own_cells or self.network or self.layer or self._drops_modes):
            orders = per_axis("order", self._known_order, len(shape))
            for k, (n, wraps, s) in enumerate(zip(shape, periodic, orders)):
                if wraps and s >= WIDE_ORDER and 1 < n <= RING_SAMPLES:  # one cell all around it
                    cell[k], overlap[k] = n, 0.0
        context = beyond if self.context is None else self.context
        if self.samples == "means":  # boxes hold all cells that their window touches
            context = max(context, 1)
        return Partition.regular(
            shape, cell, overlap, periodic=np.flatnonzero(periodic), equal_boxes=True,
            context=context, mirrored=self.mirrored,
        )  # fmt: skip

    @property
    def _drops_modes(self) -> bool:
        """Whether a target is met by leaving modes out, on cells of these settings' own."""
        return self.target is not None and not self.target.is_coded

    def _usual_cells(self, shape: Sequence[int], drops_modes: bool) -> tuple[int, float, int]:
        """Cell, overlap and context of arrays of this shape (docs/defaults.md)."""
        d = max(1, sum(n > 1 for n in shape))
        if self.network is not None:
            return 8, 4.0, 0
        if drops_modes:
            # Half a sample of overlap blends between samples: no sample is stored twice.
            return (32 if d == 1 else 16 if d <= 3 else 8), 0.5, 0
        if np.mean(self._known_order) >= WIDE_ORDER and d <= 3:
            return {1: (32, 4.0, 4), 2: (32, 3.0, 3), 3: (24, 3.0, 2)}[d]
        return {1: (64, 2.0, 2), 2: (32, 2.0, 2), 3: (24, 2.0, 1)}.get(d, (8, 1.0, 0))

    @property
    def _known_order(self) -> float | tuple[float, ...]:
        """The order, or the usual one before it was chosen."""
        return USUAL_ORDER if isinstance(self.order, str) else self.order

    def adopt(self, partition: Partition) -> Partition:
        """The partition, with a blend between its regions if it has none: else the field jumps."""
        _refuse_with_partition(cell=self.cell, overlap=self.overlap, context=self.context)
        if partition.n_regions == 1 or any(partition.overlap):
            return partition
        drops_modes = self.target is not None and not partition.is_regular
        blend = self._usual_cells(partition.shape, drops_modes or self._drops_modes)[1]
        sides = [np.diff(edges) for edges in partition.edges]
        overlap = (min(blend, float(n.min()) / 2) if len(n) > 1 else 0.0 for n in sides)
        return partition.changed(overlap=tuple(overlap))

    def model(self, box: tuple[int, ...], inside: Array | None, like: Array) -> Basis:
        """Modes ordered from smooth to rough, on the whole box."""
        if self.network is not None:
            order = float(np.mean(self._known_order))
            return bases.smooth_dense_modes(self.network, box, order, like)
        means = self.samples == "means"
        orders = tuple(map(float, per_axis("order", self._known_order, len(box))))
        return bases.product_modes(box, orders, self.layer or Cosines.lattice, self.free, means)


def check_order(order: object) -> None:
    """Raise unless it is an order along a line."""
    if not is_number(order) or not 0 < order <= 16:
        raise ValueError(
            "`order` must be 'auto' or a number above 0, at most 16 (1 joins samples by straight "
            f"lines, 2 like cubic splines, 3 like quintic ones); got {shown(order)}."
        )


def _refuse_with_partition(**given: object) -> None:
    """Raise if the caller said something that a partition settles."""
    said = [f"{name}={value!r}" for name, value in given.items() if value is not None]
    if said:
        raise ValueError(
            f"`partition` settles the cells and their overlap; got {', '.join(said)} in the "
            "settings as well. Drop one of the two."
        )


def paper(
    *,
    cell: int | Sequence[int] | None = None,
    width: int | Sequence[int] = 1024,
    frequencies: int = 10,
    scale: float = 1.0,
    activation: str | Activation = "relu",
    overlap: float | Sequence[float] | None = None,
    draw: str = "normal",
    seed: int = 0,
    layers: str = "shared",
    solver: str = "qr",
    ridge: float = 0.0,
    dtype: str = "float64",
) -> Paper:
    """The paper's configuration: random Fourier features, one dense layer, least squares.

    Its equations to the letter are ``paper(layers="own", solver="normal")``; the defaults have the
    same minimiser with one hidden layer for all regions, which is factored once.

    Parameters
    ----------
    cell : int or sequence of int
        Samples per cell and axis, 32 by default.
    width : int or sequence of int
        Hidden neurons m per region, for all or one by one: a region has the first m of its layer.
    frequencies : int
        Fourier features F; 0 feeds raw local coordinates.
    scale : float
        Standard deviation of their frequencies.
    activation : {"relu", "sin", "cos", "tanh", "gaussian"} or callable
        Of the hidden layer; see :class:`elmfield.Dense`.
    overlap : float or sequence of float
        Half-width of the blend between cells, in samples. By default 0.5, which is smooth and
        touches no sample of a neighbour; with 0 the function jumps at borders.
    draw : {"normal", "uniform"}
        Distribution of hidden weights and biases, which the paper leaves open.
    seed : int
        Of the hidden layer.
    layers : {"shared", "own"}
        Whether all regions share a hidden layer, or each draws its own, as in the paper's
        equation 1: the same mean over seeds, less spread, one factorisation a region.
    solver : {"qr", "lstsq", "normal"}
        QR; singular values, as ``lstsq`` has it; or the normal equations, as the paper prints them.
    ridge : float
        Penalty on the squared output weights, added to the squared error of a region.
    dtype : {"float64", "float32"}
        Precision of hidden layer, solution and evaluation.

    Examples
    --------
    >>> import numpy as np, elmfield as ef
    >>> field = ef.fit(np.eye(32), ef.paper(cell=16, width=256))
    >>> bool(ef.paper_psnr(np.eye(32), field.samples()) > 79.9)
    True
    """
    listed = entries(width)
    widths = None if listed is None else tuple(whole("width", n) for n in listed) or (0,)
    one: Any = width if widths is None else max(widths)
    m, F = (int(n) if is_whole(n) else n for n in (one, frequencies))
    network = Dense(m, F, scale, activation, draw, seed)
    return Paper(_frozen(cell), _frozen(overlap), network, layers, solver, ridge, dtype, widths)


def smooth(
    *,
    order: float | Sequence[float] | str = "auto",
    cell: int | Sequence[int] | None = None,
    overlap: float | Sequence[float] | None = None,
    network: Dense | None = None,
    psnr: float | None = None,
    max_error: float | None = None,
    bits: float | None = None,
    bytes: int | None = None,
    coefficients: int | None = None,
    per_region: int | None = None,
    effort: int | None = None,
    denoise: float | bool | str | Array = False,
    context: int | None = None,
    layer: MakeLayer | None = None,
    mirrored: bool = False,
) -> Smooth:
    """The default configuration: right at the samples, and the least energy between them.

    Parameters
    ----------
    order : float, sequence of float, or "auto"
        How steeply the energy grows with frequency, for all axes or one by one; any number above 0.
        Photographs want about 1.1, weather about 1.5, smooth flows 3 to 4. "auto" reads it off the
        samples' spectrum, axis by axis. With a number the fit is linear in the samples.
    cell, overlap : optional
        Samples per cell, and half-width of the blend between cells, for all axes or one by one.
    network : Dense, optional
        Use this dense random layer, with a bending energy by quadrature, instead of the product
        layer. Costs more; needs several times more neurons than a box has samples.
    psnr : float, optional
        Code the samples in as few bytes as this PSNR at the samples needs, in dB of their range.
    max_error : float, optional
        As few as a largest error at the samples needs; never exceeded.
    bits : float, optional
        As well as this many bits a sample allow.
    bytes : int, optional
        As well as this many bytes for all samples allow; a file takes 2 to 3 kB more.
    coefficients : int, optional
        Keep this many coefficients in all, the index of which modes they are included, where they
        buy most.
    per_region : int, optional
        Keep this many in every region and channel, the strongest. (At most one of these six.)
    effort : int, optional
        How hard to work on one of the first four: from 1, fast, to 9, small; 5 by default.
    denoise : bool, float, array or "poisson"
        Take noise out; True estimates its level, which the field's settings then have. A number is
        its standard deviation, an array that of each channel or sample; "poisson" is for counts.
    context : int, optional
        Samples on each side that a region is fitted to beyond its window.
    layer : callable, optional
        The hidden layer of an axis, from its number of samples; ``Cosines.lattice`` by default. See
        `elmfield.local.layers.AxisLayer`.
    mirrored : bool
        Whether regions at the ends of an axis are also fitted to its samples mirrored there. High
        orders need it: between the last samples they are left with little to go by.

    Examples
    --------
    >>> import numpy as np, elmfield as ef
    >>> picture = np.sin(np.arange(64)[:, None] / 5) * np.cos(np.arange(64) / 7)
    >>> field = ef.fit(picture, ef.smooth(max_error=0.01))
    >>> ef.max_error(picture, field.samples()) <= 0.01, field.n_bytes < picture.nbytes / 10
    (True, True)
    """
    target = Target.one_of(
        effort, psnr=psnr, max_error=max_error, bits=bits, bytes=bytes, coefficients=coefficients,
        per_region=per_region,
    )  # fmt: skip
    own = _frozen(order), _frozen(cell), _frozen(overlap)
    return Smooth(*own, network, target, denoise, context, layer, mirrored)


def _frozen(value: Any) -> Any:
    """A sequence as a tuple, which compares and keeps; numbers, texts and None as they are."""
    listed = entries(value)
    return value if listed is None else listed
