"""Labels of derivatives, and units as texts: what a gradient of kelvin by metres is in."""

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from elmfield.field.coordinates.labels import Attrs, Labels

OF_THE_VALUES = ("units", "standard_name", "valid_range", "valid_min", "valid_max", "cell_methods")
"""Attributes that are wrong for a gradient or a Laplacian."""


def derivative_labels(
    labels: Labels,
    quantity: str,
    dims: Sequence[str],
    units: Callable[[str | None], str | None] | None = None,
    *,
    has_parts: bool = False,
) -> Labels:
    """`labels` of a derivative, which is neither a temperature nor in kelvin.

    `units` gives its unit from that of the values; without, it is per unit of the axes `dims`.
    Where these differ, and the result `has_parts`, ``direction_units`` has the unit of each part.
    """
    by_axis = [labels.axis(d).units for d in dims]
    per = [u for u in by_axis if u is not None]

    def attrs(own: Attrs, name: str) -> dict[str, Any]:
        kept = {k: v for k, v in own.items() if k not in OF_THE_VALUES and k[:5] != "GRIB_"}
        if quantity == "std":  # by CF's conventions
            kept |= {"units": own["units"]} if "units" in own else {}
            if "standard_name" in own:
                kept["standard_name"] = f"{own['standard_name']} standard_error"
            return {**kept, "long_name": f"standard deviation of {name}"}
        found: str | list[str] | None = None
        if units is not None:
            found = units(own.get("units"))
        elif len(per) == len(dims) and own.get("units"):
            found = derivative_units(str(own["units"]), quantity, per)
        if isinstance(found, str):
            kept["units"] = found
        elif found is not None and has_parts:
            kept["direction_units"] = found
        return {**kept, "long_name": f"{quantity.replace('_', ' ')} of {name}"}

    variables = {k: replace(v, attrs=attrs(v.attrs, k)) for k, v in labels.variables.items()}
    return replace(labels, attrs=attrs(labels.attrs, labels.name or "field"), variables=variables)


# --- units as texts, written as CF does ("m s-1") -------------------------------------------------

FACTOR = re.compile(r"([°%]?[^\W\d]+|[°%])\^?([+-]?\d+)?")
"""A symbol and its power: m, s-1, m^2, degrees_north, °C."""


def multiply_units(*factors: tuple[str, int]) -> str:
    """The product of units, each to a power: "m/s" and "m" to the power -1 make "s-1".

    What is none of plain symbols, powers, products and quotients stands as it is.
    """
    powers: dict[str, int] = {}
    for unit, power in factors:
        found = _powers(unit)
        if found is None:
            told = (u if p == 1 else f"({u}){p}" if _powers(u) is None else multiply_units((u, p))
                    for u, p in factors)  # fmt: skip
            return " ".join(told)
        for symbol, n in found:
            powers[symbol] = powers.get(symbol, 0) + n * power
    left = (s if n == 1 else f"{s}{n}" for s, n in powers.items() if n)
    return " ".join(left) or "1"


def units_per_metre(quantity: str, own: str | None) -> str | None:
    """The unit of a quantity: per metre, or per square metre; metres of a speed cancel."""
    if own is None or quantity == "value":
        return own
    return multiply_units((own, 1), ("m", -2 if quantity == "laplacian" else -1))


def _powers(unit: str) -> list[tuple[str, int]] | None:
    """Symbols of a unit and their powers; None if it is written in another way."""
    found, sign = [], 1
    for part in re.split(r"\s*(/)\s*|[\s.*·]+", unit.strip().replace("**", "^")):
        if not part or part == "1":
            continue
        if part == "/":
            sign = -1
            continue
        factor = FACTOR.fullmatch(part)
        if factor is None:
            return None
        found.append((factor[1], sign * int(factor[2] or 1)))
        sign = 1  # a slash is for the next symbol alone, as in udunits
    return found


def derivative_units(own: str, quantity: str, axes: Sequence[str]) -> str | list[str] | None:
    """The unit of a derivative by axes of these units; of each component where they differ.

    None where terms of different units are added up.
    """
    if quantity == "hessian":
        each = [multiply_units((own, 1), (a, -1), (b, -1)) for a in axes for b in axes]
    else:
        each = [multiply_units((own, 1), (a, -2 if quantity == "laplacian" else -1)) for a in axes]
    if len(set(each)) == 1:
        return each[0]
    return None if quantity in ("laplacian", "gradient_magnitude") else each
