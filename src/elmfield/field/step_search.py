"""The search for the steps at which coded samples have an error, or take bits, that are allowed."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

import numpy as np

from elmfield._array.typing import Array
from elmfield.codec import rate_curve
from elmfield.field.coefficients.tiles import without_channels

if TYPE_CHECKING:
    from elmfield.codec.lossy import RateCurve
    from elmfield.field.code_samples import RateControl

R = TypeVar("R")

MAX_TRIES = 8
"""How often all samples are coded, at most, to come near a target."""

GUESS_TILES = 64
"""Tiles that the first guess of a step is made from, at most."""

NEAR_RATIO, NEARER_RATIO = 0.95, 0.97
"""A result between this part of the allowed error, or bytes, and all of it is accepted; where
single tiles can be coded once more, one from the second on."""

AIM = math.log(0.985)
"""The logarithm of the ratio that is aimed at."""

MAX_READINGS = 12
"""Points of a curve that are read to find a step."""

MIN_TILES = 4
"""Tiles from which they are coded in parts."""

HALVES, PARTS = ((0, 2), (1, 2)), ((0, 4), (2, 4), (1, 2))
"""The first tile of each part, and how far apart its tiles are: of few tiles, and of more."""
MIN_TILES_FOR_PARTS = 16
"""From so many on the first part is a quarter, not half."""

MAX_SPREAD, MAX_PARTS = 0.15, 4
"""Logarithm of the ratio of steps from which an earlier part is coded once more, and of so many
parts no more are."""

MAX_CORRECTIONS, MAX_CHANGE = 3, 0.14
"""How often single tiles are coded once more, and by how much the logarithm of their step changes
at most, unless they are all tiles."""

BITS_POWER = -0.8
"""Bits grow by about this power of the step: over some percent that is nearer than the curve."""


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
    allowed: float,
    start: float,
) -> tuple["RateCurve", float, float]:
    """The curve of tiles' modes, a step at which their "error" or "bits" is near what is allowed.

    And by which power that grows. The curve is calibrated by coding some pieces.
    """
    curve, power = rate_curve(tiles, channel_axis, effort), 2.0 if of == "error" else -1.0
    step, _ = guess_step(lambda s: getattr(curve, of)(s) / allowed, start, power)
    curve.calibrate(step)
    return curve, *guess_step(lambda s: getattr(curve, of)(s) / allowed, step, power)


def rounded(step: float) -> float:
    """A step with few digits: errors that are summed in another order lead to the same."""
    return float(2 ** (round(math.log2(step) * 512) / 512))


def is_near(ratio: float, least: float = NEAR_RATIO) -> bool:
    """Whether a ratio is near enough to what is allowed, or nothing is lost."""
    return least <= ratio <= 1 or ratio == 0


def search_step(
    at: Callable[[float], tuple[R, float]], step: float, power: float, least: float
) -> R | None:
    """Return the result of the step whose ratio is nearest to 1 from below; None if none is.

    The ratio grows about as ``step**power``. Steps below `least` are not tried.
    """
    best: R | None = None
    reached = -1.0
    seen: list[tuple[float, float]] = []
    for _ in range(MAX_TRIES):
        step = max(rounded(step), least)
        if any(math.log(step) == x for x, _ in seen):
            break
        found, ratio = at(step)
        if reached < ratio <= 1:
            best, reached = found, ratio
        if is_near(ratio):
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


@dataclass(frozen=True, kw_only=True)
class CodedTile:
    """What is known of a tile that was coded.

    Parameters
    ----------
    n_bytes : int
        Its bytes.
    errors : triple of float
        Of what it is decoded to, at the numbers that count: the sum of squared errors, the largest
        error, and how many there are. Real and imaginary parts are two numbers.
    """

    n_bytes: int
    errors: tuple[float, float, int]


T = TypeVar("T", bound=CodedTile)
Tiles = dict[int, T]
"""Coded tiles by number."""


@dataclass(frozen=True, eq=False)
class Attempt(Generic[T]):
    """All samples, coded; their mean squared and largest error."""

    tiles: Tiles[T]
    is_lossy: bool
    errors: tuple[float, float]

    @property
    def n_bytes(self) -> int:
        """Bytes of all tiles."""
        return sum(tile.n_bytes for tile in self.tiles.values())


class StepSearch(Generic[T]):
    """The search for steps at which samples have an error, or take bits, that are allowed.

    Tiles are coded in parts. What comes out of one corrects the step of those that are left, so
    that most arrays are coded once; where all together miss what is allowed, the tiles that count
    most are coded once more. Steps of tiles then differ by some percent, which costs less than
    0.5 % of the bytes. Few tiles are all coded at each step that is tried.

    Parameters
    ----------
    control : RateControl
        What codes.
    of : {"error", "bits"}
        Mean squared error, or bits, of a number.
    allowed : float
        How much.
    start : float
        The step at which a curve is read first.
    """

    def __init__(self, control: "RateControl[T]", of: str, allowed: float, start: float) -> None:
        self.control, self.tiling, self.of = control, control.tiling, of
        n = self.tiling.n_tiles
        some = np.linspace(0, n - 1, min(n, GUESS_TILES)).round().astype(int).tolist()
        self._place = {number: place for place, number in enumerate(some)}
        tiles = [without_channels(control.values(i)) for i in some]
        values = [values for values, _ in tiles]
        self._curve, self.step, self.power = read_off(
            values, tiles[0][1], control.effort, of, allowed, start
        )
        self._grows = self.power if of == "error" else BITS_POWER
        self._count = control.scope.count if of == "error" else self.tiling.n_values
        self._room = allowed * self._count

    def find(self) -> Attempt[T] | None:
        """The attempt that comes nearest to what is allowed from below; None if none is."""
        if self.tiling.n_tiles >= MIN_TILES and self.control.is_exact:
            made = self._code_in_parts()
            if is_near(self._ratio(made)):
                return made

        def at(step: float) -> tuple[Attempt[T], float]:
            made = self.control.code(step=step)
            return made, self._ratio(made)

        return search_step(at, self.step, self.power, self.control.scope.least_step)

    def _ratio(self, made: Attempt[T]) -> float:
        """Of what came out and what is allowed."""
        if self.of == "bits":
            return 8 * made.n_bytes / self._room
        return made.errors[0] * self._count / (self._room * (1 + self.control.scope.is_complex))

    def _amount(self, tile: CodedTile) -> float:
        """Error or bits of a tile, with few digits: sums in another order give the same steps."""
        return float(f"{tile.errors[0] if self.of == 'error' else 8 * tile.n_bytes:.6g}")

    def _expected(self, numbers: Sequence[int], step: float) -> float:
        """Error or bits of some tiles as the curve says."""
        curve = self._curve.part([self._place[i] for i in numbers if i in self._place])
        share = sum(math.prod(self.tiling.shape(i)) for i in numbers) / self.tiling.n_values
        return float(getattr(curve, self.of)(step)) * share * self._count

    def _step_for(self, wanted: float, found: float, step: float) -> float:
        """The step for an amount where `step` has another; that one if it has none."""
        return step * (wanted / found) ** (1 / self._grows) if found > 0 else step

    def _code_in_parts(self) -> Attempt[T]:
        """All tiles, each part at the step that those before suggest; some of them once more."""
        tiles, steps, amounts = dict[int, T](), dict[int, float](), dict[int, float]()
        every, goal, step = range(self.tiling.n_tiles), math.exp(AIM) * self._room, self.step
        expected = seen = 0.0  # of all that was coded, by the curve and as it came out

        def code(numbers: Sequence[int], step: float) -> None:
            step = max(rounded(step), self.control.scope.least_step)
            made = self.control.code_tiles(numbers, step=step)
            tiles.update(made)
            steps.update(dict.fromkeys(made, step))
            amounts.update({i: self._amount(tile) for i, tile in made.items()})

        parts: list[Sequence[int]] = [
            every[first::apart]
            for first, apart in (PARTS if len(every) >= MIN_TILES_FOR_PARTS else HALVES)
        ]
        for part in parts:
            if expected > 0 and seen > 0:
                off = seen / expected
                one = self._step_for(goal, off * self._expected(every, step), step)
                far = [i for i in tiles if abs(math.log(steps[i] / one)) > MAX_SPREAD]
                if far and len(parts) <= MAX_PARTS:
                    parts.append(far)
                    for i in far:
                        del tiles[i], amounts[i]
                rest = off * self._expected([i for i in every if i not in tiles], one)
                wanted = max(goal - sum(amounts.values()), rest / 2)
                step = self._step_for(wanted, rest, one)
            code(part, step)
            expected += self._expected(part, steps[part[0]])
            seen += sum(amounts[i] for i in part)
        best = dict(tiles)
        for left in reversed(range(MAX_CORRECTIONS + 1)):
            total = sum(amounts.values())
            if is_near(total / self._room):
                best = dict(tiles)
            if is_near(total / self._room, NEARER_RATIO) or not left:
                break
            code(*self._correct(amounts, steps, total - goal))
        return Attempt(best, True, self.control.errors(best, True))

    def _correct(
        self, amounts: dict[int, float], steps: dict[int, float], excess: float
    ) -> tuple[list[int], float]:
        """Which tiles to code once more, the fewest that make up for an excess; and their step."""
        reach = abs(math.expm1(-math.copysign(MAX_CHANGE * self._grows, excess)))
        some, total, at_one = list[int](), 0.0, 0.0
        for i in sorted(amounts, key=lambda i: (-amounts[i], i)):
            some.append(i)
            total += amounts[i]
            at_one += amounts[i] * (steps[i] / self.step) ** -self._grows
            if reach * total >= abs(excess):
                break
        return some, self._step_for(total - excess, at_one, self.step)
