"""Error targets met by coding samples: the search for a step, whatever codes and measures."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

import numpy as np

from elmfield._array.channel_stats import spacing_at
from elmfield._array.typing import Array
from elmfield.codec import rate_curve
from elmfield.field.coefficients.tiles import Tiling, without_channels
from elmfield.samples import EXACT_WHOLE, WHOLE
from elmfield.settings import Target

T = TypeVar("T")

MAX_TRIES = 8
"""How often all samples are coded, at most, to come near a target."""

GUESS_TILES = 64
"""Tiles that the first guess of a step is made from, at most."""

NEAR_RATIO = 0.95
"""A result between this part of the allowed error, or bytes, and all of it is accepted."""

AIM = math.log(0.985)
"""The logarithm of the ratio that is aimed at."""

MAX_READINGS = 12
"""Points of a curve that are read to find a step."""


def guess_step(ratio: Callable[[float], float], start: float, power: float) -> tuple[float, float]:
    """A step at which a ratio that grows about as ``step**power`` is near 1.

    Parameters
    ----------
    ratio : callable
        The ratio at a step, about, read off a curve.
    start, power : float
        The first step, and the power as far as it is known.

    Returns
    -------
    step, power : float
        The power is that of the curve at this step.
    """
    step, slope, seen = start, power, list[tuple[float, float]]()
    for _ in range(MAX_READINGS):
        found = ratio(step)
        if not 0 < found < math.inf:
            break
        x, y = math.log(step), math.log(found)
        if seen and x != seen[-1][0]:
            grown = (y - seen[-1][1]) / (x - seen[-1][0]) / power
            slope = power * min(max(grown, 1 / 4), 2)
        seen.append((x, y))
        if abs(y - AIM) < 1e-3:
            break
        step *= math.exp(min(max((AIM - y) / slope, -2.8), 2.8))
    return step, slope


def read_off(
    tiles: Sequence[Array],
    channel_axis: int | None,
    effort: int,
    of: str,
    ratio: Callable[[float], float],
    start: float,
) -> tuple[float, float]:
    """A step at which a ratio of tiles' "error" or "bits" is near 1, and by which power it grows.

    Read off the curve of their modes, which is calibrated by coding some pieces.
    """
    curve, power = rate_curve(tiles, channel_axis, effort), 2.0 if of == "error" else -1.0
    step, _ = guess_step(lambda s: ratio(getattr(curve, of)(s)), start, power)
    curve.calibrate(step)
    return guess_step(lambda s: ratio(getattr(curve, of)(s)), step, power)


def search_step(
    at: Callable[[float], tuple[T, float]], step: float, power: float, least: float
) -> T | None:
    """Return the result of the step whose ratio is nearest to 1 from below; None if none is.

    The ratio grows about as ``step**power``. Steps below `least` are not tried.
    """
    best: T | None = None
    reached = -1.0
    seen: list[tuple[float, float]] = []
    for _ in range(MAX_TRIES):
        # With few digits: errors that are summed in another order lead to the same step.
        step = max(float(2 ** (round(math.log2(step) * 512) / 512)), least)
        if any(math.log(step) == x for x, _ in seen):
            break
        found, ratio = at(step)
        if reached < ratio <= 1:
            best, reached = found, ratio
        if NEAR_RATIO <= ratio <= 1 or ratio == 0:
            break
        seen.append((math.log(step), math.log(ratio)))
        step = math.exp(_next(seen, power))
    return best


def _next(seen: list[tuple[float, float]], power: float) -> float:
    """The logarithm of the step to try next: along a line through the last two, if it climbs."""
    # Few samples make steps of their own: the more tries missed, the farther below is aimed.
    aim = AIM - 0.02 * max(0, len(seen) - 2) ** 2
    (x, y), slope = seen[-1], power
    if len(seen) > 1:
        a, b = seen[-2]
        if x != a and (y - b) / (x - a) * power > 0:
            slope = (y - b) / (x - a)
    to = x + min(max((aim - y) / slope, -3), 3)
    below, above = (
        [p[0] for p in seen if (p[1] > 0) == is_over] for is_over in (power < 0, power > 0)
    )
    # Between a step that was too small and one that was too large, whatever the line says.
    if below and above and not max(below) < to < min(above):
        to = (max(below) + min(above)) / 2
    return to


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
    size : int
        Numbers in all, real and imaginary parts apart.
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

    size: int
    kind: str
    data_range: float
    top: float
    is_complex: bool
    dtype: str
    input_dtype: str

    @property
    def n_bytes(self) -> int:
        """Bytes of all numbers before they are coded."""
        return self.size * np.dtype(self.kind).itemsize

    @property
    def spacing(self) -> float:
        """Distance from the largest sample to the next number, in the dtype of the function."""
        return float(spacing_at(np.asarray(self.top, self.dtype)))

    @property
    def least_step(self) -> float:
        """Below this nothing is gained over coding without loss."""
        if np.dtype(self.kind).kind in "iu":
            return 1.0
        return float(np.finfo(self.kind).eps) * self.data_range / 4


class Trial(Protocol):
    """Samples that were coded in some way."""

    @property
    def n_bytes(self) -> int:
        """Bytes of what was coded."""

    @property
    def errors(self) -> tuple[float, float]:
        """Mean squared and largest error of what comes out, at the samples."""


A = TypeVar("A", bound=Trial)


class RateControl(ABC, Generic[A]):
    """Codes samples, in memory or on a disk, until what comes out meets a target."""

    effort: int

    @property
    @abstractmethod
    def scope(self) -> Scope:
        """What is coded."""

    @property
    @abstractmethod
    def tiling(self) -> Tiling:
        """In which tiles."""

    @abstractmethod
    def values(self, number: int) -> Array:
        """The samples of a tile, channels last, in the dtype of a file."""

    @abstractmethod
    def code(self, **asked: float) -> A:
        """All samples, coded at a `step` or within a `max_error`; without loss if nothing is."""

    def meet(self, target: Target) -> A:
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

    def _guess(self, of: str, ratio: Callable[[float], float], start: float) -> tuple[float, float]:
        """What :func:`read_off` finds in some tiles from all over the array."""
        n = self.tiling.n_tiles
        count = min(n, GUESS_TILES)
        numbers = np.linspace(0, n - 1, count).round().astype(int).tolist()
        tiles = [without_channels(self.values(i)) for i in numbers]
        given = [values for values, _ in tiles]
        return read_off(given, tiles[0][1], self.effort, of, ratio, start)

    def _at_psnr(self, psnr: float) -> A:
        """As few bytes as a PSNR needs."""
        scope = self.scope
        # Beyond what float64 can say, only all digits will do.
        allowed = scope.data_range**2 * 10 ** (-min(psnr, 600.0) / 10)
        if psnr > 300:
            return self._without_loss("psnr", psnr, 0, allowed)
        parts = 2 if scope.is_complex else 1  # errors are moduli, of two parts

        def at(step: float) -> tuple[A, float]:
            found = self.code(step=step)
            return found, found.errors[0] / allowed

        start = math.sqrt(12 * allowed / parts)
        start, power = self._guess("error", lambda e: parts * e / allowed, start)
        found = search_step(at, start, power, scope.least_step)
        return found or self._without_loss("psnr", psnr, 0, allowed)

    def _within(self, largest: float) -> A:
        """As few bytes as a largest error needs."""
        allowed = largest / math.sqrt(2) if self.scope.is_complex else largest
        # Evaluating the function rounds too: by about that much less is asked of the samples. Whole
        # numbers are rounded again.
        whole = np.dtype(self.scope.kind).kind in "iu"
        bound = allowed - (0 if whole else min(2 * self.scope.spacing, 0.1 * allowed))
        made = self.code(max_error=bound)
        if made.errors[1] <= largest:
            return made
        return self._without_loss("max_error", largest, 1, largest)

    def _in_bytes(self, target: Target) -> A:
        """As little error as a number of bytes allows."""
        n = self.scope.size
        room = target.value * n / 8 if target.kind == "bits" else float(target.value)

        def at(step: float) -> tuple[A, float]:
            found = self.code(step=step)
            return found, found.n_bytes / room

        start = self.scope.data_range / 16
        start, power = self._guess("bits", lambda b: b * float(n) / 8 / room, start)
        is_fine = np.dtype(self.scope.kind).kind in "iu" and start <= 8
        if room > self.scope.n_bytes / 4 or is_fine:  # that may be enough for all there is
            exact = self.code()
            if exact.n_bytes <= room:
                return exact
        found = search_step(at, start, power, self.scope.least_step)
        if found is None:
            least = self.code(step=4 * self.scope.data_range).n_bytes
            raise ValueError(
                f"`{target.kind}` cannot be kept: coded as coarsely as can be, these samples take "
                f"{least} bytes, {8 * least / n:.3g} bits each; got {target.value:g}. Ask for more."
            )
        return found

    def _without_loss(self, kind: str, value: float, of: int, allowed: float) -> A:
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
