"""Axes and coordinates as people write them: "latitude: 35, 85 to -85 degrees_north"."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from elmfield._array.typing import Array
from elmfield.field.labels import coordinates_out


def in_words(value: float, about: Mapping[str, Any]) -> str:
    """A coordinate as people write it: a number, or a date.

    `about` is what is known of its axis: see :mod:`elmfield.field.labels`.
    """
    if about.get("epoch") is None:
        return f"{float(value):g}"
    text = str(coordinates_out(np.asarray([value]), about)[0])
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return text.removesuffix("T00:00:00").removesuffix(" 00:00:00")


def axis_in_words(
    name: str,
    size: int,
    coords: Array | None,
    about: Mapping[str, Any],
    *,
    even: bool = True,
    periodic: bool = False,
) -> str:
    """One axis: its name, its samples, where they begin and end, and in which unit."""
    text = f"{name}: {size}"
    if coords is not None and size:
        text += f", {in_words(coords[0], about)} to {in_words(coords[-1], about)}"
        unit = about.get("attrs", {}).get("units")
        text += f" {unit}" if unit and "epoch" not in about else ""
        text += "" if even else ", uneven"
    return text + (" (periodic)" if periodic else "")
