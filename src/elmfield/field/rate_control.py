"""Error targets met by coding samples, whatever codes and measures: what is asked of the codec."""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic

import numpy as np

from elmfield._array.channel_stats import spacing_at
from elmfield._array.checks import USUAL_EFFORT
from elmfield._array.typing import Array
from elmfield.field.coefficients.tiles import Tiling
from elmfield.field.step_search import Attempt, StepSearch, T, Tiles
from elmfield.samples import EXACT_WHOLE, WHOLE
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
    def spacing(self) -> float:
        """Distance from the largest sample to the next number, in the dtype of the function."""
        return float(spacing_at(np.asarray(self.top, self.dtype)))

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
        allowed = largest / math.sqrt(2) if self.scope.is_complex else largest
        # Evaluating the function rounds too: by about that much less is asked of the samples. Whole
        # numbers are rounded again.
        rounding = 0 if self.scope.is_whole else min(2 * self.scope.spacing, 0.1 * allowed)
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
