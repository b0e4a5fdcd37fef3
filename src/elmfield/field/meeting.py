"""Targets met by coding: a common step, or a largest error, found by trying.

What codes samples and measures what comes out enters, in memory or on a disk; the attempt that
keeps the promise with the fewest bytes leaves.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeVar

import numpy as np

from elmfield._array.ends import spacing_at
from elmfield.field.steps import TRIES, guessed, nearest
from elmfield.field.target import Target
from elmfield.samples import EXACT_WHOLE

SURE = 2.0**24
"""Whole numbers below this come back from the function as they were coded, once rounded: what
evaluating it adds is below 1e-8 of the largest, and the codec keeps its bound."""


@dataclass(frozen=True, kw_only=True)
class Scope:
    """What is coded: so many numbers of a dtype, peak to peak of some range.

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
    """

    size: int
    kind: str
    data_range: float
    top: float
    is_complex: bool
    dtype: str

    @property
    def n_bytes(self) -> int:
        """Bytes of all numbers before they are coded."""
        return self.size * np.dtype(self.kind).itemsize

    @property
    def spacing(self) -> float:
        """Between the largest sample and the next number, as the function computes."""
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


A_co = TypeVar("A_co", bound=Trial, covariant=True)
A = TypeVar("A", bound=Trial)


class Codes(Protocol[A_co]):
    """What codes samples."""

    @property
    def scope(self) -> Scope:
        """What is coded."""

    def code(self, **asked: float) -> A_co:
        """All samples, coded at a `step` or within a `max_error`; without loss if nothing is."""

    def trial(self, step: float) -> tuple[float, float]:
        """Mean squared error, and bits per sample, at a step, about."""

    def off(self, step: float) -> tuple[float, float]:
        """How many times that they truly are."""


def met(coder: Codes[A], target: Target) -> A:
    """The attempt that meets a target.

    Raises
    ------
    ValueError
        If the target cannot be met; the message says what can.
    """
    if target.kind == "max_error":
        return _within(coder, target.value)
    check_range(coder.scope.data_range, target)
    if target.kind == "psnr":
        return _at_psnr(coder, target.value)
    return _in_bytes(coder, target)


def _at_psnr(coder: Codes[A], psnr: float) -> A:
    """As few bytes as a PSNR needs."""
    scope = coder.scope
    # Beyond what float64 can say, only all digits will do.
    allowed = scope.data_range**2 * 10 ** (-min(psnr, 600.0) / 10)
    if psnr > 300:
        return _without_loss(coder, "psnr", psnr, lambda e: e[0] <= allowed)
    parts = 2 if scope.is_complex else 1  # errors are moduli, of two parts

    def guess(step: float) -> float:
        return parts * coder.trial(step)[0] / allowed

    def at(step: float) -> tuple[A, float]:
        found = coder.code(step=step)
        return found, found.errors[0] / allowed

    start, power = guessed(
        guess, math.sqrt(12 * allowed / parts), 2.0, lambda step: coder.off(step)[0]
    )
    found = nearest(at, start, power, scope.least_step)
    return found or _without_loss(coder, "psnr", psnr, lambda e: e[0] <= allowed)


def _within(coder: Codes[A], largest: float) -> A:
    """As few bytes as a largest error needs."""
    allowed = largest / math.sqrt(2) if coder.scope.is_complex else largest
    # Evaluating the function rounds too: by about that much less is asked of the samples. Whole
    # numbers are rounded again.
    whole = np.dtype(coder.scope.kind).kind in "iu"
    bound = allowed - (0 if whole else min(2 * coder.scope.spacing, 0.1 * allowed))
    for _ in range(TRIES):
        if bound <= 0:
            break
        made = coder.code(max_error=bound)
        if whole and coder.scope.top < SURE:
            return made
        found = made.errors[1]
        if found <= largest:
            return made
        bound -= 1.25 * (found - largest) + 1e-3 * (allowed - bound)
    return _without_loss(coder, "max_error", largest, lambda e: e[1] <= largest)


def _in_bytes(coder: Codes[A], target: Target) -> A:
    """As little error as a number of bytes allows."""
    n = coder.scope.size
    room = target.value * n / 8 if target.kind == "bits" else float(target.value)

    def guess(step: float) -> float:
        return coder.trial(step)[1] * float(n) / 8 / room

    def at(step: float) -> tuple[A, float]:
        found = coder.code(step=step)
        return found, found.n_bytes / room

    start, power = guessed(
        guess, coder.scope.data_range / 16, -1.0, lambda step: coder.off(step)[1]
    )
    is_fine = np.dtype(coder.scope.kind).kind in "iu" and start <= 8
    if room > coder.scope.n_bytes / 4 or is_fine:  # that may be enough for all there is
        exact = coder.code()
        if exact.n_bytes <= room:
            return exact
    found = nearest(at, start, power, coder.scope.least_step)
    if found is None:
        least = coder.code(step=4 * coder.scope.data_range).n_bytes
        raise ValueError(
            f"`{target.kind}` cannot be kept: coded as coarsely as can be, these samples take "
            f"{least} bytes, {8 * least / n:.3g} bits each; got {target.value:g}. Ask for more."
        )
    return found


def _without_loss(
    coder: Codes[A], kind: str, value: float, keeps: Callable[[tuple[float, float]], bool]
) -> A:
    """All there is, where even its rounding keeps a promise; else an error."""
    made = coder.code()
    mean, largest = made.errors
    if keeps((mean, largest)):
        return made
    dtype = coder.scope.dtype
    advice = "" if dtype == "float64" else ", or fit float64 samples"
    if kind == "max_error":
        raise ValueError(
            f"`max_error` cannot be kept: with all digits the largest error at the samples is "
            f"{largest:.2g} in {dtype}; got {value:g}. Ask for more than that{advice}."
        )
    limit = 10 * math.log10(coder.scope.data_range**2 / mean)
    raise ValueError(
        f"`psnr` cannot be reached: with all digits this field has {limit:.1f} dB at the samples "
        f"in {dtype}; got {value:g}. Ask for less{advice}."
    )


def check_whole(top: float, target: Target) -> None:
    """Raise where whole numbers up to `top` may lose more than is asked for, becoming floating."""
    lost = top >= EXACT_WHOLE and target.kind in ("psnr", "max_error")
    if lost and not (target.kind == "max_error" and target.value >= np.spacing(top)):
        raise ValueError(
            f"`{target.kind}` cannot be kept: whole numbers up to {top:.3g} are computed with as "
            f"float64, which rounds them by {np.spacing(top) / 2:g}; got {target.value:g}. Take an "
            "offset off them first, or ask for more."
        )


SMALLEST, LARGEST = 1e-152, 1e153
"""Ranges of samples whose squares float64 holds."""


def check_range(data_range: float, target: Target) -> None:
    """Raise where squares of errors have no place among the numbers."""
    fits = SMALLEST <= data_range <= LARGEST
    if fits and target.kind == "psnr":
        fits = data_range**2 * 10 ** (-min(target.value, 600.0) / 10) > 1e-306
    if not fits:
        raise ValueError(
            f"`{target.kind}` cannot be kept: it compares squares of errors, and for samples that "
            f"range over {data_range:.3g} float64 has no such numbers; got {target.value:g}. "
            "Multiply the samples by a power of ten to bring them near 1, or ask for less."
        )
