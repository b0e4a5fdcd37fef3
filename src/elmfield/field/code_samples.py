"""Error targets met by coding samples: what is asked of the codec, and how that is done in memory.

Enter a function of samples and what is asked of it; leaves the function of coded ones, which keep
the promise as they come out again. Its blend is that of a field without a target: no line shows
where cells meet.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Generic

import numpy as np

from elmfield._array.backend import to_numpy
from elmfield._array.channel_stats import ChannelStats, spacing_at
from elmfield._array.checks import USUAL_EFFORT
from elmfield._array.typing import Array, Floats
from elmfield.field.accuracy import energy_in_boxes, errors
from elmfield.field.blend.blended import Blended
from elmfield.field.coefficients.sample_boxes import SampleBoxes, missing_in
from elmfield.field.coefficients.tiles import CodedTiles, Tiling, code_tiles, packed
from elmfield.field.step_search import Attempt, CodedTile, StepSearch, T, Tiles
from elmfield.measure.metrics import Errors
from elmfield.samples import EXACT_WHOLE, WHOLE, Samples
from elmfield.settings import Target


def typical_error(errors: tuple[float, float]) -> float:
    """Root of a mean squared error; the largest one where float64 has no squares.

    With few digits: errors that are summed in another order give the same.
    """
    mean, largest = errors
    return float(f"{math.sqrt(mean) if 0 < mean < math.inf else largest:.6g}")


@dataclass(frozen=True, kw_only=True)
class Scope:
    """The samples that are coded: how many, of which dtype and range.

    Parameters
    ----------
    count : int
        Numbers at which errors count, real and imaginary parts apart.
    kind : str
        Their dtype in a file.
    data_range : float
        Peak to peak, in the caller's units.
    is_complex : bool
        Whether an error is the modulus of two parts.
    dtype : str
        In which the function computes.
    top : float
        The largest magnitude of a sample.
    input_dtype : str
        What the caller's samples were.
    """

    count: int
    kind: str
    data_range: float
    top: float
    is_complex: bool
    dtype: str
    input_dtype: str

    @property
    def is_whole(self) -> bool:
        """Whether a file keeps whole numbers."""
        return np.dtype(self.kind).kind in "iu"

    @property
    def least_step(self) -> float:
        """Below this nothing is gained over coding without loss."""
        return 1.0 if self.is_whole else float(np.finfo(self.kind).eps) * self.data_range / 4


@dataclass(frozen=True, eq=False, kw_only=True)
class RateControl(ABC, Generic[T]):
    """Codes samples, in memory or on a disk, until what comes out meets a target.

    Parameters
    ----------
    effort : int
        Of coding.
    """

    effort: int = USUAL_EFFORT

    @property
    @abstractmethod
    def scope(self) -> Scope:
        """What is coded."""

    @property
    @abstractmethod
    def tiling(self) -> Tiling:
        """In which tiles."""

    @property
    def is_exact(self) -> bool:
        """Whether the function passes through its samples, so that their errors are its own."""
        return True

    @abstractmethod
    def values(self, number: int) -> Array:
        """The samples of a tile, channels last, in the dtype of a file."""

    @abstractmethod
    def code_tiles(self, numbers: Sequence[int], **asked: float) -> Tiles[T]:
        """Some tiles, coded at a `step` or within a `max_error`; without loss if nothing is."""

    def errors(self, tiles: Tiles[T], is_lossy: bool) -> tuple[float, float]:
        """Mean squared and largest error at the samples, of the coder's own reconstruction."""
        squares, largest, counts = zip(*(tiles[i].errors for i in sorted(tiles)))
        # Errors are moduli of so many parts: at most this much larger.
        parts = 1 + self.scope.is_complex
        return parts * sum(squares) / max(1, sum(counts)), math.sqrt(parts) * max(largest)

    def code(self, **asked: float) -> Attempt[T]:
        """All samples, coded as asked; without loss if nothing is."""
        tiles, is_lossy = self.code_tiles(range(self.tiling.n_tiles), **asked), bool(asked)
        return Attempt(tiles, is_lossy, self.errors(tiles, is_lossy))

    def meet(self, target: Target) -> Attempt[T]:
        """The attempt that meets a target.

        Raises
        ------
        ValueError
            If the target cannot be met; the message says what can.
        """
        if self.scope.input_dtype in WHOLE:
            check_whole(self.scope.top, target)
        if target.kind == "max_error":
            return self._within(target.value)
        check_range(self.scope.data_range, target)
        if target.kind == "psnr":
            return self._at_psnr(target.value)
        return self._in_bytes(target)

    def _at_psnr(self, psnr: float) -> Attempt[T]:
        """As few bytes as a PSNR needs."""
        scope = self.scope
        # Beyond what float64 can say, only all digits will do.
        allowed = scope.data_range**2 * 10 ** (-min(psnr, 600.0) / 10)
        if psnr > 300:
            return self._without_loss("psnr", psnr, 0, allowed)
        each = allowed / (1 + scope.is_complex)  # of a part of a number
        steps = StepSearch(self, "error", each, math.sqrt(12 * each))
        return steps.find() or self._without_loss("psnr", psnr, 0, allowed)

    def _within(self, largest: float) -> Attempt[T]:
        """As few bytes as a largest error needs."""
        scope = self.scope
        allowed = largest / math.sqrt(2) if scope.is_complex else largest
        # Evaluating the function rounds too: by about that much less is asked of the samples. Whole
        # numbers are rounded again.
        spacing = float(spacing_at(np.asarray(scope.top, scope.dtype)))
        rounding = 0 if scope.is_whole else min(2 * spacing, 0.1 * allowed)
        made = self.code(max_error=allowed - rounding)
        if made.errors[1] <= largest:
            return made
        return self._without_loss("max_error", largest, 1, largest)

    def _in_bytes(self, target: Target) -> Attempt[T]:
        """As little error as a number of bytes allows."""
        scope, n = self.scope, self.tiling.n_values
        room = target.value * n / 8 if target.kind == "bits" else float(target.value)
        steps = StepSearch(self, "bits", 8 * room / n, scope.data_range / 16)
        is_fine = scope.is_whole and steps.step <= 8
        # That may be enough for all there is.
        if room > n * np.dtype(scope.kind).itemsize / 4 or is_fine:
            exact = self.code()
            if exact.n_bytes <= room:
                return exact
        found = steps.find()
        if found is None:
            least = self.code(step=4 * scope.data_range).n_bytes
            raise ValueError(
                f"`{target.kind}` cannot be kept: coded as coarsely as can be, these samples take "
                f"{least} bytes, {8 * least / n:.3g} bits each; got {target.value:g}. Ask for more."
            )
        return found

    def _without_loss(self, kind: str, value: float, of: int, allowed: float) -> Attempt[T]:
        """Code without loss; raise where a function misses its samples by more than is allowed."""
        made = self.code()
        if made.errors[of] > allowed:
            raise ValueError(
                f"`{kind}` cannot be kept: with all digits the function is off by "
                f"{made.errors[1]:.2g} at most at the samples; got {value:g}. Ask for less."
            )
        return made


def check_whole(top: float, target: Target) -> None:
    """Raise if rounding of whole numbers up to `top` to float64 exceeds the target."""
    lost = top >= EXACT_WHOLE and target.kind in ("psnr", "max_error")
    if lost and not (target.kind == "max_error" and target.value >= np.spacing(top)):
        raise ValueError(
            f"`{target.kind}` cannot be kept: whole numbers up to {top:.3g} are computed with as "
            f"float64, which rounds them by {np.spacing(top) / 2:g}; got {target.value:g}. Take an "
            "offset off them first, or ask for more."
        )


MIN_RANGE, MAX_RANGE = 1e-152, 1e153
"""Ranges of samples whose squares float64 holds."""


def check_range(data_range: float, target: Target) -> None:
    """Raise if squares of errors underflow or overflow in float64."""
    fits = MIN_RANGE <= data_range <= MAX_RANGE
    if fits and target.kind == "psnr":
        fits = data_range**2 * 10 ** (-min(target.value, 600.0) / 10) > 1e-306
    if not fits:
        raise ValueError(
            f"`{target.kind}` cannot be kept: it compares squares of errors, and for samples that "
            f"range over {data_range:.3g} float64 has no such numbers; got {target.value:g}. "
            "Multiply the samples by a power of ten to bring them near 1, or ask for less."
        )


# --- in memory ------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False, kw_only=True)
class TileInMemory(CodedTile):
    """A coded tile, its bytes and what they are decoded to."""

    data: bytes = field(repr=False)
    decoded: Array = field(repr=False)


@dataclass(frozen=True, eq=False, kw_only=True)
class Coder(RateControl[TileInMemory]):
    """Samples in tiles, to be coded at any step, and the function that is made from them.

    Parameters
    ----------
    blended : Blended
        The function of the samples.
    samples : Samples
        What is coded, and what errors are measured against: those that the function needs.
    counted : array of bool, shape (..., C or 1), or None
        The samples at which errors count, on the host; None for all.
    """

    blended: Blended
    samples: Samples
    counted: Array | None = field(repr=False)

    @cached_property
    def own(self) -> Array:
        """The samples on the host, in the dtype that a file keeps."""
        own = np.asarray(to_numpy(self.samples.stored))
        return own.astype(self.samples.kind, copy=False)

    @cached_property
    def tiling(self) -> Tiling:
        """Which samples are in which tile."""
        low = (*self.blended.needed[0], 0)
        high = tuple(a + n for a, n in zip(low, self.own.shape))
        return Tiling.by_bytes(low, high, self.own.itemsize)

    @cached_property
    def scope(self) -> Scope:
        """The samples that are coded."""
        own, there = self.own, self.counted
        return Scope(
            count=own.size if there is None else int(np.broadcast_to(there, own.shape).sum()),
            kind=self.own.dtype.name,
            data_range=self.samples.data_range,
            is_complex=self.samples.is_complex,
            dtype=str(self.blended.dtype).removeprefix("torch."),
            top=ChannelStats.of(self.samples.raw, self.samples.present).largest,
            input_dtype=self.samples.dtype,
        )

    @property
    def is_exact(self) -> bool:
        """Whether the function passes through its samples."""
        return self.blended.exact is not None

    def values(self, number: int) -> Array:
        """The samples of a tile, channels last."""
        return self.tiling.cut(self.own, number)

    def code_tiles(self, numbers: Sequence[int], **asked: float) -> Tiles[TileInMemory]:
        """Some tiles, coded as asked; without loss if nothing is."""

        def finish(_number: int, data: bytes, decoded: Array, errors: Errors) -> TileInMemory:
            return TileInMemory(n_bytes=len(data), errors=errors, data=data, decoded=decoded)

        there = None if self.counted is None else partial(self.tiling.cut, self.counted)
        made = code_tiles(numbers, self.values, finish, there=there, effort=self.effort, **asked)
        return dict(zip(numbers, made))

    def errors(self, tiles: Tiles[TileInMemory], is_lossy: bool) -> tuple[float, float]:
        """Mean squared and largest error at the samples.

        A function that does not pass through its samples has to be evaluated.
        """
        if self.is_exact:
            return super().errors(tiles, is_lossy)
        made, first = self.made(tiles, is_lossy), self.blended.needed[0]
        return errors(self.samples, made, first, self.counted)

    def made(self, tiles: Tiles[TileInMemory], is_lossy: bool) -> Blended:
        """The function of the samples in tiles."""
        offset, scale = (np.asarray(to_numpy(u)) for u in (self.samples.offset, self.samples.scale))
        every = sorted(tiles)
        source = CodedTiles(tuple(tiles[i].data for i in every), self.tiling, self.own.dtype)
        source.know({i: tiles[i].decoded for i in every})
        boxes = SampleBoxes(
            source=source,
            offset=offset,
            scale=scale,
            like=offset[:0],
            kind=self.own.dtype.name,
            is_lossy=is_lossy,
            missing=self._missing,
        )
        return self.blended.with_samples(boxes)

    @cached_property
    def _missing(self) -> CodedTiles | None:
        """What was missing, in tiles."""
        gone = missing_in(self.samples.present)
        if gone is None:
            return None
        gone, tiling = gone.astype("u1"), self.tiling.with_channels(gone.shape[-1])
        tiles = (packed(tiling.cut(gone, i)) for i in range(tiling.n_tiles))
        return CodedTiles(tuple(tiles), tiling, "uint8")

    def lost(self, tiles: Tiles[TileInMemory]) -> Floats:
        """Sum of squares, (N,), by which the samples of each region's box have changed."""
        squares = np.zeros((*(n + 1 for n in self.own.shape[:-1]), 1))
        with np.errstate(over="ignore"):  # infinite where float64 has no squares
            for number, tile in tiles.items():
                gap = np.subtract(tile.decoded, self.values(number), dtype=np.float64)
                here = self.tiling.cut(squares, number)
                here += np.einsum("...c,...c->...", gap, gap)[..., None]
            return energy_in_boxes(self.blended, squares)


def code_to_target(
    blended: Blended, samples: Samples, target: Target, counted: Array | None = None
) -> tuple[Blended, Floats, float]:
    """The function of coded samples that meet a target, and what was lost.

    Parameters are those of `Coder`; those samples count that are present, unless others are
    `counted`. Lost are an energy in the box of each region, (N,), and the
    root mean square of errors at the samples.

    Raises
    ------
    ValueError
        If the target cannot be met; the message says what can.
    """
    if samples.integers is not None:  # beyond what can be coded with loss as whole numbers
        samples = replace(samples, integers=None, is_exact=False)
    there = samples.present if counted is None else counted
    there = None if there is None else np.asarray(to_numpy(there))
    coder = Coder(blended=blended, samples=samples, counted=there, effort=target.effort)
    met = coder.meet(target)
    made = coder.made(met.tiles, met.is_lossy)
    return made, coder.lost(met.tiles), typical_error(met.errors)
