"""Which modes to keep: the fewest coefficients for an error, or the least error for a number.

Modes are orthonormal on the samples, so a dropped coefficient c costs c² and nothing has to be
reconstructed to know it. With a price λ² per coefficient, a region keeps those with c² > λ² among
its first n ranks, n chosen to gain most after paying a bit per rank (1/32 of a coefficient) for the
bitmap that says which. One λ for all regions spreads any total where it buys most.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np

from elmfield._array.backend import device, move, namespace, to_numpy
from elmfield._array.running import runs
from elmfield._array.typing import Array, Floats
from elmfield.field.accuracy import errors, samples_to_keep
from elmfield.field.blend.blended import Blended
from elmfield.field.code_samples import check_range, code_to_target
from elmfield.field.coefficients.stored import Ragged
from elmfield.field.coordinates.output_positions import all_gaps
from elmfield.field.model import Model
from elmfield.field.uncertainty.posterior import Evidence
from elmfield.local.model import Basis
from elmfield.partition import gather, sample_index
from elmfield.samples import Samples
from elmfield.settings import Target

INDEX_BIT_COST = 1 / 32
"""A bit of index, in coefficients of 32 bits."""


MIN_PRICE_RATIO = 1e-60
"""Part of the largest energy below which no price is looked for: far below its rounding."""


def choose(e: Array, price: float | Array) -> Array:
    """Kept modes of energies e, (G, C, r) by rank, at a price λ² for all or one each, (G, 1, 1)."""
    xp = namespace(e)
    worth = e > price
    gain = xp.where(worth, e - price, xp.zeros_like(e)) - price * INDEX_BIT_COST
    gain = xp.cumulative_sum(gain, axis=2)
    n = xp.argmax(gain, axis=2, keepdims=True)
    some = xp.max(gain, axis=2, keepdims=True) > 0
    return worth & (xp.arange(e.shape[2], device=device(e)) <= n) & some


@dataclass(frozen=True, eq=False)
class Ledger:
    """Energies of all coefficients of a Blended, by rank, in the samples' own units squared.

    Parameters
    ----------
    blended : Blended
        The function, with all its modes.
    scale : array, shape (C,)
        Unit of each channel.
    """

    blended: Blended
    scale: Floats

    @cached_property
    def energies(self) -> tuple[Array, ...]:
        """Squares of the coefficients of each group, (G, C, r), by rank."""
        energies = []
        for g in self.blended.groups:
            c = g.coefficients.take(np.arange(len(g.regions)))
            xp = namespace(c)
            # In float64 whatever the data: running sums decide which modes are worth their price.
            c = xp.astype(c, xp.float64) * move(self.scale, c, xp.float64)
            c = xp.permute_dims(c, (0, 2, 1))
            energies.append(xp.take(c * c, move(self.blended.basis_of(g).ranking, c), axis=2))
        return tuple(energies)

    def choose(self, price: float) -> list[Array]:
        """Kept modes, (G, C, r) by rank, at a price λ² per coefficient."""
        return [choose(e, price) for e in self.energies]

    def largest(self, r: int) -> list[Array]:
        """The r strongest modes of each region and channel."""
        kept = []
        for e in self.energies:
            xp = namespace(e)
            place = xp.argsort(xp.argsort(-e, axis=2, stable=True), axis=2)
            kept.append(place < r)
        return kept

    def cost(self, kept: list[Array]) -> float:
        """Coefficients kept, plus the index that says which, in coefficients."""
        total = 0.0
        for k in map(to_numpy, kept):
            lengths = np.max(k * np.arange(1, k.shape[2] + 1), axis=2)
            total += int(k.sum()) + INDEX_BIT_COST * (int(lengths.sum()) + 16 * lengths.size)
        return total

    def dropped(self, kept: list[Array]) -> Floats:
        """Energy left out in each region, (N,)."""
        left = np.zeros(self.blended.partition.n_regions)
        for group, e, k in zip(self.blended.groups, self.energies, kept):
            xp = namespace(e)
            left[group.regions] = to_numpy(xp.sum(xp.where(k, xp.zeros_like(e), e), axis=(1, 2)))
        return left

    def apply(self, kept: list[Array]) -> Blended:
        """The function with only the kept modes."""
        groups = []
        for g, k in zip(self.blended.groups, kept):
            c = g.coefficients.take(np.arange(len(g.regions)))
            few = Ragged.keep(c, k, self.blended.basis_of(g).ranking)
            groups.append(replace(g, coefficients=few))
        return replace(self.blended, groups=tuple(groups))


def meet(
    blended: Blended, samples: Samples, target: Target, counted: Array | None = None
) -> tuple[Blended, Floats, float | None]:
    """The function with as little as the target allows, and the energy dropped, (N,).

    Coded samples where these settle it and an error or a size is asked for, and the root mean
    square of what coding lost; else as few modes, and None. Errors are those at the samples that
    are present, or those `counted`, (..., C or 1).

    Raises
    ------
    ValueError
        If the target cannot be met; the message names the nearest that can.
    """
    if target.is_coded and blended.source_samples is not None:
        return code_to_target(blended, samples, target, counted)
    if target.kind in ("bits", "bytes"):
        raise ValueError(
            f"`{target.kind}` can be asked of fields that their samples settle, as those of "
            "smooth() on regular cells; this one keeps coefficients. Ask for a number of "
            "`coefficients`."
        )
    # A constant has hardly a range, but its unit may have no square either.
    check_range(max(samples.data_range, float(np.max(to_numpy(samples.units)))), target)
    if counted is not None:
        present = namespace(counted).broadcast_to(counted, samples.raw.shape)
        samples = replace(samples, present=present)
    ledger = Ledger(blended, samples.units)
    if target.kind == "per_region":
        kept = ledger.largest(int(target.value))
    elif target.kind == "coefficients":
        kept = _modes_in_budget(ledger, target.value)
    elif target.kind == "psnr":
        kept = _modes_for_psnr(ledger, samples, target.value)
    else:
        kept = _modes_within(ledger, samples, target.value)
    return ledger.apply(kept), ledger.dropped(kept), None


def keep_less(model: Model, target: Target | None) -> Model:
    """A model that meets a target against its own values at the samples; see `Field.keep`."""
    if target is None:
        raise ValueError(
            "say what is wanted: exactly one of psnr, max_error, bits, bytes, coefficients, "
            "per_region."
        )
    is_coded = target.is_coded and model.blended.source_samples is not None
    measured = is_coded or target.kind in ("psnr", "max_error")
    samples, counted = samples_to_keep(model, is_coded, measured)
    starts, sizes = model.blended.boxes
    part = replace(model.partition, starts=starts, sizes=sizes)
    whole = replace(model.blended, partition=part)
    kept, dropped, lost = meet(whole, samples, target, counted)
    left = None if model.residual is None else model.residual + dropped
    lost = model.mean_error(dropped) if lost is None else lost
    evidence = replace(model.evidence or Evidence(), coding=math.hypot(model.coding_error, lost))
    blended = replace(model.blended, groups=kept.groups)
    gaps = model.gaps if is_coded else all_gaps(model)  # coefficients know of none
    return replace(model, blended=blended, residual=left, gaps=gaps, evidence=evidence)


def _bisect_price(
    ledger: Ledger, passed: Callable[[list[Array]], bool]
) -> tuple[list[Array], list[Array]]:
    """Kept modes just below and just above the price at which `passed` becomes true."""
    low, high = 0.0, 2 * max(float(namespace(e).max(e)) for e in ledger.energies)
    below, above, least = ledger.choose(low), ledger.choose(high), MIN_PRICE_RATIO * high
    while high > least and (low == 0 or high / low > 1 + 1e-5):
        # Not the root of their product: that of small or large numbers is 0 or infinite.
        price = math.sqrt(low) * math.sqrt(high) if low > 0 else high / 1000
        kept = ledger.choose(price)
        if passed(kept):
            above, high = kept, price
        else:
            below, low = kept, price
    return below, above


def _modes_in_budget(ledger: Ledger, budget: float) -> list[Array]:
    """Modes for a number of coefficients, index included."""
    least = sum(e.shape[0] * e.shape[1] for e in ledger.energies)
    if budget < least:
        raise ValueError(
            f"`coefficients` must allow at least one per region and channel, {least}; got "
            f"{budget:g}. Ask for more, or use larger cells."
        )
    everything = ledger.choose(0.0)
    if ledger.cost(everything) <= budget:
        return everything
    return _bisect_price(ledger, lambda kept: ledger.cost(kept) <= budget)[1]


def _modes_for_psnr(ledger: Ledger, samples: Samples, psnr: float) -> list[Array]:
    """Modes for a PSNR: from the energies first, then corrected by what the samples say.

    Overlapping boxes count some samples twice, and blending averages errors; one or two corrections
    take both into account.
    """
    floor = errors(samples, ledger.blended)[0]
    limit = math.inf if floor == 0 else 10 * math.log10(samples.data_range**2 / floor)
    if psnr > limit - 0.1:
        raise ValueError(
            f"`psnr` cannot be reached: with all modes this field has {limit:.1f} dB at the "
            f"samples in {_kind(ledger)}; got {psnr:g}. Ask for less{_advice(ledger)}."
        )
    boxes = np.prod(ledger.blended.partition.boxes[1], axis=1).sum() * samples.n_channels
    allowed = samples.data_range**2 * 10 ** (-psnr / 10)
    ask, best = 1.0, ledger.choose(0.0)

    def loses(kept: list[Array]) -> bool:
        return bool(ledger.dropped(kept).sum() > ask * allowed * boxes)

    for _ in range(8 if allowed > 0 else 0):
        kept, _ = _bisect_price(ledger, loses)
        mse = errors(samples, ledger.apply(kept))[0]
        if mse <= allowed:
            best = kept
            if mse > 0.95 * allowed:  # within 0.2 dB
                break
        ask *= 0.98 * allowed / max(mse, 1e-6 * allowed)
    return best


def _kind(ledger: Ledger) -> str:
    return str(ledger.blended.dtype).removeprefix("torch.")


def _advice(ledger: Ledger) -> str:
    return "" if _kind(ledger) == "float64" else ", or fit float64 samples"


def _modes_within(ledger: Ledger, samples: Samples, largest: float) -> list[Array]:
    """Modes that keep every sample within an error: region by region, all at once.

    Windows are non-negative and sum to one: if each region keeps the bound at all samples of its
    box, the blend keeps it too.
    """
    reached = errors(samples, ledger.blended)[1]
    if largest <= reached:
        raise ValueError(
            f"`max_error` cannot be kept: with all modes the largest error is {reached:.2g} in "
            f"{_kind(ledger)}; got {largest:g}. Ask for more than that{_advice(ledger)}."
        )
    aim = largest
    for _ in range(4):
        kept = _box_modes_within(ledger, samples, aim)
        found = errors(samples, ledger.apply(kept))[1]
        if found <= largest:
            return kept
        aim -= 2 * (found - largest)  # rounding of the blended sum
        if aim <= 0:
            break
    return [namespace(e).ones_like(e) > 0 for e in ledger.energies]


def _box_modes_within(ledger: Ledger, samples: Samples, largest: float) -> list[Array]:
    kept, values = [], samples.values
    part = ledger.blended.partition
    for group, energies in zip(ledger.blended.groups, ledger.energies):
        xp = namespace(energies)
        box = tuple(int(n) for n in part.boxes[1][group.regions[0]])
        basis = ledger.blended.basis_of(group)
        masks = []
        for i, j in runs(len(group.regions), max(1, (1 << 22) // math.prod(energies.shape[1:]))):
            index = sample_index(part, group.regions[i:j], box, energies, basis.inside)
            counts = None if samples.present is None else gather(samples.present, index)
            c = group.coefficients.take(np.arange(i, j))
            gaps = partial(_largest_errors, basis, c, gather(values, index), counts, samples)
            masks.append(_batch_modes_within(energies[i:j, ...], gaps, largest))
        kept.append(xp.concat(masks, axis=0))
    return kept


def _largest_errors(
    basis: Basis, c: Array, Y: Array, counts: Array | None, samples: Samples, kept: Array
) -> Array:
    """Largest error at the samples of each box, (G,), with only the `kept` modes, (G, C, r)."""
    xp = namespace(c)
    kept = xp.take(kept, move(np.argsort(basis.ranking), c), axis=2)
    kept = xp.permute_dims(kept, (0, 2, 1))
    gap = xp.abs(basis.values(xp.where(kept, c, xp.zeros_like(c))) - Y)
    gap = gap * move(samples.units, c, c.dtype)
    if counts is not None:
        gap = xp.where(counts, gap, xp.zeros_like(gap))
    return xp.max(samples.moduli(gap), axis=(1, 2))


def _batch_modes_within(e: Array, worst: Callable[[Array], Array], largest: float) -> Array:
    """Bisection for the highest price of each region that keeps the bound."""
    xp = namespace(e)
    ones = xp.ones((e.shape[0], 1, 1), dtype=e.dtype, device=device(e))
    top = min(4 * largest, 1e150) ** 2
    low, high, best = 0 * ones, top * ones, xp.ones_like(e) > 0
    for step in range(16):
        middle = xp.sqrt(low) * xp.sqrt(high)
        price = xp.where(low > 0, middle, high / (4.0 if step else 1.0))
        kept = choose(e, price)
        fits = xp.reshape(worst(kept) <= largest, (-1, 1, 1))
        best = xp.where(fits, kept, best)
        low, high = xp.where(fits, price, low), xp.where(fits, high, price)
    return best
