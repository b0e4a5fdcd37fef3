"""The presets: choices as objects, each knowing how to cut the domain and which modes to use."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from numbers import Real
from typing import Any, Protocol

import numpy as np

from elmfield._array.checks import per_axis
from elmfield._array.typing import Array
from elmfield.field import Target, is_number
from elmfield.local.bases import Modes, plain_modes, product_modes, smooth_dense_modes
from elmfield.local.layers import Dense
from elmfield.local.order import suited_order
from elmfield.local.shaped import shaped_modes
from elmfield.partition import Partition

USUAL_ORDER = 1.1
"""The energy order that suited 21 photographs best (docs/defaults.md)."""


class Settings(Protocol):
    """What `fit` asks of a preset."""

    @property
    def centred(self) -> bool:
        """Whether each channel's mean is taken off before fitting."""

    def partition(self, shape: Sequence[int], periodic: Sequence[bool]) -> Partition:
        """The regular partition of an array of this shape."""

    def modes(self, box: tuple[int, ...], like: Array) -> Modes:
        """The modes of a box of samples, ready for arrays like `like`."""


@dataclass(frozen=True)
class Paper:
    """Settings of the paper; see :func:`paper`."""

    cell: float | tuple[float, ...] = 32
    overlap: float | tuple[float, ...] = 0.0
    network: Dense = field(default_factory=Dense)
    centred = False  # least squares on the samples as they are

    def partition(self, shape: Sequence[int], periodic: Sequence[bool]) -> Partition:
        """Cells as the paper cuts them: a region's samples are those its window touches."""
        return Partition.regular(shape, self.cell, self.overlap, periodic=np.flatnonzero(periodic))

    def modes(self, box: tuple[int, ...], like: Array) -> Modes:
        """Plain least squares in orthonormal coordinates."""
        return plain_modes(self.network, box, like)

    def shaped(self, box: tuple[int, ...], inside: Any, like: Array) -> Modes:
        """The same for a merged region: on its own samples, not on its whole box."""
        return shaped_modes(self.network, box, inside, like)


@dataclass(frozen=True)
class Smooth:
    """Settings of the default; see :func:`smooth`."""

    order: float | tuple[float, ...] | str = USUAL_ORDER
    cell: float | tuple[float, ...] | None = None
    overlap: float | tuple[float, ...] | None = None
    network: Dense | None = None
    target: Target | None = None
    denoise: float | bool = False
    context: int | None = None
    centred = True

    def __post_init__(self) -> None:
        self._check_denoise()
        if self.context is not None and (
            not is_number(self.context) or self.context < 0 or int(self.context) != self.context
        ):
            raise ValueError(
                f"`context` must be a whole number of samples, 0 or more; got {self.context!r}."
            )
        if self.order == "auto":
            return
        for s in np.atleast_1d(np.asarray(self.order, dtype=object)):
            if isinstance(s, bool) or not isinstance(s, Real) or not 0 < float(s) <= 16:
                raise ValueError(
                    "`order` must be 'auto' or a number above 0, at most 16 (1 joins samples by "
                    f"straight lines, 2 like cubic splines, 3 like quintic ones); got {s!r}."
                )
        if self.network is not None and np.ndim(self.order) > 0:
            raise ValueError("`order` must be one number with a dense `network`; got one per axis.")

    def _check_denoise(self) -> None:
        d = self.denoise
        if not isinstance(d, bool) and not (is_number(d) and d > 0):
            raise ValueError(
                "`denoise` must be True, False or the noise's standard deviation, above 0; got "
                f"{d!r}."
            )
        if d and self.target is not None:
            raise ValueError(
                f"`denoise` and `{self.target.kind}` cannot be asked for together: one wants the "
                "samples changed, the other wants them kept. Fit the denoised samples() again."
            )
        if d and self.network is not None:
            raise ValueError("`denoise` needs the product layer; drop `network`.")

    def settled(self, y: Array) -> "Smooth":
        """These settings with every choice that depends on the samples made."""
        if self.order != "auto":
            return self
        orders = suited_order(y, USUAL_ORDER)
        one = self.network is not None
        return replace(self, order=float(np.mean(orders)) if one else orders)

    def partition(self, shape: Sequence[int], periodic: Sequence[bool]) -> Partition:
        """Cells whose boxes are all of one size: one factorisation for the whole array."""
        usual, blend, beyond = self._usual_cells(sum(n > 1 for n in shape))
        cell = per_axis("cell", usual if self.cell is None else self.cell, len(shape))
        # The default overlap must not be the reason for an error about small cells.
        overlap = [min(blend, c / 2) for c in cell] if self.overlap is None else self.overlap
        context = beyond if self.context is None else self.context
        return Partition.regular(
            shape,
            cell,
            overlap,
            periodic=np.flatnonzero(periodic),
            equal_boxes=True,
            context=context,
            mirrored=context > 0 and self._mirrors,
        )

    @property
    def _mirrors(self) -> bool:
        """Whether boxes may reach beyond the array: there a model of low order falls to the mean.

        A mirrored slope would hold back one of high order. Errors at samples count once with a
        target, and so does noise.
        """
        if self.order == "auto" or self.network is not None or self.target is not None:
            return False
        return not self.denoise and bool(np.max(np.asarray(self.order, dtype=float)) < 2)

    def _usual_cells(self, d: int) -> tuple[int, float, int]:
        """Cell, overlap and context in `d` dimensions, chosen by measurement (docs/defaults.md)."""
        d = max(d, 1)
        if self.network is not None:
            return 8, 4.0, 0
        if self.denoise:  # every sample is judged in 2^d boxes
            return (32, 16.0, 0) if d == 1 else (8, 4.0, 0) if d == 2 else (4, 2.0, 0)
        if self.target is not None:
            # Half a sample of overlap blends between samples: no sample is stored twice.
            return (32, 0.5, 0) if d == 1 else (16, 0.5, 0) if d <= 3 else (8, 0.5, 0)
        return {1: (64, 2.0, 2), 2: (32, 2.0, 2), 3: (24, 2.0, 1)}.get(d, (8, 1.0, 0))

    def modes(self, box: tuple[int, ...], like: Array) -> Modes:
        """Modes ordered from smooth to rough."""
        assert not isinstance(self.order, str)
        if self.network is not None:
            assert not isinstance(self.order, tuple)
            return smooth_dense_modes(self.network, box, float(self.order), like)
        return product_modes(box, tuple(map(float, per_axis("order", self.order, len(box)))))


def paper(
    *,
    cell: int | Sequence[int] = 32,
    width: int = 1024,
    frequencies: int = 10,
    scale: float = 1.0,
    activation: str = "relu",
    overlap: float | Sequence[float] = 0,
    draw: str = "normal",
    seed: int = 0,
) -> Paper:
    """The paper's configuration: random Fourier features, one dense layer, least squares.

    Parameters
    ----------
    cell : int or sequence of int
        Samples per cell and axis.
    width : int
        Hidden neurons m per region.
    frequencies : int
        Fourier features F; 0 feeds raw local coordinates.
    scale : float
        Standard deviation of their frequencies.
    activation : {"relu", "sin", "cos", "tanh", "gaussian"}
        Of the hidden layer.
    overlap : float or sequence of float
        Half-width of the blend between cells, in samples; 0 as in the paper's experiments.
    draw : {"normal", "uniform"}
        Distribution of hidden weights and biases, which the paper leaves open.
    seed : int
        Of the hidden layer.
    """
    network = Dense(width, frequencies, scale, activation, draw, seed)
    return Paper(_frozen(cell), _frozen(overlap), network)


def smooth(
    *,
    order: float | Sequence[float] | str = USUAL_ORDER,
    cell: int | Sequence[int] | None = None,
    overlap: float | Sequence[float] | None = None,
    network: Dense | None = None,
    psnr: float | None = None,
    max_error: float | None = None,
    coefficients: int | None = None,
    keep: int | None = None,
    denoise: float | bool = False,
    context: int | None = None,
) -> Smooth:
    """The default configuration: right at the samples, and the least energy between them.

    Parameters
    ----------
    order : float, sequence of float, or "auto"
        How steeply the energy grows with frequency, for all axes or one by one; any number above 0.
        Photographs want about 1.1, weather about 1.5, smooth flows 3 to 4. "auto" reads it off the
        samples' spectrum, axis by axis; the fit is then no longer linear in the samples.
    cell, overlap : optional
        Samples per cell, and half-width of the blend between cells, for all axes or one by one.
    network : Dense, optional
        Use this dense random layer, with a bending energy by quadrature, instead of the product
        layer. Costs more; needs several times more neurons than a box has samples.
    psnr : float, optional
        Keep as few coefficients as this PSNR at the samples needs, in dB of their range.
    max_error : float, optional
        Keep as few as a largest error at the samples needs; never exceeded.
    coefficients : int, optional
        Keep this many in all, the index of which modes they are included, where they buy most.
    keep : int, optional
        Keep this many in every region and channel, the strongest. (At most one of these four.)
    denoise : bool or float
        Take noise out; True estimates its level, a number is its standard deviation.
    context : int, optional
        Samples on each side that a region is fitted to beyond its window.
    """
    return Smooth(
        order if isinstance(order, str) else _frozen(order),
        None if cell is None else _frozen(cell),
        None if overlap is None else _frozen(overlap),
        network,
        Target.one_of(psnr=psnr, max_error=max_error, coefficients=coefficients, keep=keep),
        denoise,
        context,
    )


def _frozen(value: float | Sequence[float]) -> "float | tuple[float, ...]":
    return value if np.ndim(value) == 0 else tuple(value)  # type: ignore
