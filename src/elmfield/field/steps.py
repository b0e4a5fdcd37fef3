"""The step of a quantiser that comes nearest to what is asked: an error, or a number of bytes."""

import math
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

TRIES = 8
"""Times that all is coded at most, to come near a target."""

NEAR = 0.97
"""Part of an allowed squared error, or of a number of bytes, that is near enough."""


def guessed(
    ratio: Callable[[float], float],
    start: float,
    power: float,
    off: Callable[[float], float] | None = None,
) -> tuple[float, float]:
    """A step at which a ratio that grows about as ``step**power`` is near 1, by cheap trials.

    Parameters
    ----------
    ratio : callable
        The ratio at a step, about.
    start, power : float
        The first step, and the power as far as it is known.
    off : callable, optional
        How many times what `ratio` says the true one is at a step, about.

    Returns
    -------
    step, power : float
        After two trials the power is known better.
    """
    aim = math.log((1 + NEAR) / 2)  # the middle of what is near enough
    step, slope, seen = start, power, list[tuple[float, float]]()
    for _ in range(5):
        found = ratio(step)
        if not 0 < found < math.inf:
            break
        x, y = math.log(step), math.log(found)
        if seen and x != seen[-1][0]:
            grown = (y - seen[-1][1]) / (x - seen[-1][0]) / power
            slope = power * min(max(grown, 1 / 4), 2)
        seen.append((x, y))
        if abs(y - aim) < 0.01:
            break
        step *= math.exp(min(max((aim - y) / slope, -2.8), 2.8))
    truly = 1.0 if off is None else off(step)
    if 0 < truly < math.inf:
        step *= math.exp(min(max(-math.log(truly) / slope, -0.5), 0.5))
    return step, slope


def nearest(
    at: Callable[[float], tuple[T, float]], step: float, power: float, least: float
) -> T | None:
    """What is found at the step whose ratio is nearest to 1 from below; None if none is below.

    The ratio grows about as ``step**power``. Steps below `least` are not tried.
    """
    best: T | None = None
    reached = -1.0
    seen: list[tuple[float, float]] = []
    for _ in range(TRIES):
        step = max(_rounded(step), least)
        if any(math.log(step) == x for x, _ in seen):
            break
        found, ratio = at(step)
        if reached < ratio <= 1:
            best, reached = found, ratio
        if NEAR <= ratio <= 1 or ratio == 0:
            break
        seen.append((math.log(step), math.log(ratio)))
        step = math.exp(_next(seen, power))
    return best


def _rounded(step: float) -> float:
    """A step with few digits: errors that are summed in another order lead to the same one."""
    return float(2 ** (round(math.log2(step) * 512) / 512))


def _next(seen: list[tuple[float, float]], power: float) -> float:
    """The logarithm of the step to try next: along a line through the last two, if it climbs."""
    # Few samples make steps of their own: the more tries missed, the farther below is aimed.
    aim = math.log((1 + NEAR) / 2) - 0.02 * max(0, len(seen) - 2) ** 2
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
