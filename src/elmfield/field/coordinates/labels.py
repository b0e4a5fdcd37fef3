"""What is known about samples besides their numbers: names, units, reference systems, gaps.

:class:`Labels` go from the input with the field to whatever is made of it: DataArrays, files, model
files, pages. `missing` and `alpha` change what a field answers.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from elmfield._array.backend import namespace
from elmfield._array.typing import Array
from elmfield.domain.sphere import horizontal

Attrs = Mapping[str, Any]
"""Attributes as files and DataArrays have them: numbers, texts, lists and mappings of them."""


@dataclass(frozen=True, kw_only=True)
class AxisLabels:
    """What is known about one axis.

    Parameters
    ----------
    attrs : mapping
        Its attributes, such as ``units``.
    dtype : str or None
        What its coordinates were, if not float64.
    epoch : datetime64, str or None
        Of dates: the first. Coordinates count seconds from it. A text where there is a `calendar`.
    calendar : str or None
        Of cftime's dates: which calendar.
    duration : bool
        Whether coordinates are durations; they count seconds.
    ticks : sequence of int
        The samples' coordinates as whole numbers of `dtype`, where float64 cannot tell them
        exactly; else empty.
    """

    attrs: Attrs = field(default_factory=dict)
    dtype: str | None = None
    epoch: np.datetime64 | str | None = None
    calendar: str | None = None
    duration: bool = False
    ticks: Sequence[int] = ()

    @property
    def is_time(self) -> bool:
        """Whether it has dates or durations, which count seconds."""
        return self.epoch is not None or self.duration

    @property
    def units(self) -> str | None:
        """Unit of its coordinates as numbers; None if that is not known."""
        own = self.attrs.get("units")
        return "s" if self.is_time else None if own is None else str(own)


@dataclass(frozen=True, kw_only=True)
class ChannelLabels:
    """What is known about the axis of channels.

    Parameters
    ----------
    name : str
        What it is called.
    labels : sequence
        What the channels are called, or their coordinates; empty if that is not known.
    attrs : mapping
        Its attributes.
    """

    name: str = "channel"
    labels: Sequence[Any] = ()
    attrs: Attrs = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class VariableLabels:
    """What is known about a variable of a Dataset, which is one of the channels.

    `range` is the spread of its samples, greatest less least.
    """

    attrs: Attrs = field(default_factory=dict)
    range: float | None = None


@dataclass(frozen=True, kw_only=True)
class CoordinateLabels:
    """A coordinate that is no axis: its dims, its values, its attributes."""

    dims: Sequence[str] = ()
    values: Array
    attrs: Attrs = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Alpha:
    """Which `channel` holds the transparency of a picture, and its number for opaque, `full`."""

    channel: int
    full: float


@dataclass(frozen=True, kw_only=True)
class FileGrid:
    """First sample and step along each axis, in samples of the file the values came from."""

    start: Sequence[float]
    step: Sequence[float]


@dataclass(frozen=True, kw_only=True)
class Labels:
    """What is known about samples, or about the field through them; all of it optional.

    Parameters
    ----------
    name, title : str or None
        What the values are called; what a page that shows them is called.
    attrs : mapping
        Attributes of the values, such as ``units`` and ``long_name``; the caller's own too.
    axes : mapping of str to AxisLabels
        By name of the axis.
    channels : ChannelLabels
        Of the axis of channels.
    variables : mapping of str to VariableLabels
        Of a Dataset, whose variables are the channels, in this order.
    coords : mapping of str to CoordinateLabels
        Coordinates that are no axis, by name.
    missing : {"fill", "nan"}
        What a field answers where samples were missing, unless a caller says otherwise: what was
        filled in, or NaN.
    fill_value : float or None
        What a file had in place of missing samples.
    dtype : str or None
        What a file had, where samples were read as another one.
    encoding : mapping
        How a file of a DataArray held its numbers.
    alpha : Alpha or None
        If not None, the field holds each colour times alpha, and divides its values by alpha again.
    align : {"areas", "nodes"} or None
        Whether a sample stands for the area around it (pictures), or for the node it sits on.
    samples : {"points", "means"}
        Whether samples were values at points, or means over their cells.
    classes : sequence of int
        If any, the field holds a channel for each, and answers with that of the largest value.
    crs : str or None
        Reference system of the axes y and x, as text that PROJ knows.
    transform : sequence of six float, or None
        Of a map: from columns and rows to x and y.
    affine : four rows of four float, or None
        Of a scan: from sample numbers on its first axes to places in world space, in millimetres.
    space : {"RAS", "LPS"}
        Which way its axes run: NIfTI's (right, front, up), or DICOM's (left, back, up).
    n_placed : int
        How many axes the affine is for: fewer than three where one was picked out.
    grid : FileGrid or None
        Which samples of the file these are, where they are not all of them; `affine` and
        `transform` are the file's.
    rate : int, str or None
        Of sound and video: samples or frames per second; a quotient as text.
    suits : mapping
        Parameters of ``smooth(...)`` that a fit without settings takes.
    header : mapping
        What a format needs to write the file again.
    file_attrs : mapping
        Attributes of the whole file or Dataset.
    source : mapping
        Where samples came from: file, shape, range, SHA-256.
    limits : two float, or None
        Least and greatest sample, where that is known without reading them.

    Examples
    --------
    >>> import numpy as np, elmfield as ef
    >>> labels = ef.Labels(name="t2m", attrs={"units": "K"})
    >>> field = ef.fit(ef.Gridded(values=np.eye(8), dims=("y", "x"), labels=labels))
    >>> field.labels.name, field.labels.units
    ('t2m', 'K')
    """

    name: str | None = None
    title: str | None = None
    attrs: Attrs = field(default_factory=dict)
    axes: Mapping[str, AxisLabels] = field(default_factory=dict)
    channels: ChannelLabels = field(default_factory=ChannelLabels)
    variables: Mapping[str, VariableLabels] = field(default_factory=dict)
    coords: Mapping[str, CoordinateLabels] = field(default_factory=dict)
    missing: str = "fill"
    fill_value: float | None = None
    dtype: str | None = None
    encoding: Attrs = field(default_factory=dict)
    alpha: Alpha | None = None
    align: str | None = None
    samples: str = "points"
    classes: Sequence[int] = ()
    crs: str | None = None
    transform: Sequence[float] | None = None
    affine: Sequence[Sequence[float]] | None = None
    space: str = "RAS"
    n_placed: int = 3
    grid: FileGrid | None = None
    rate: int | str | None = None
    suits: Attrs = field(default_factory=dict)
    header: Attrs = field(default_factory=dict)
    file_attrs: Attrs = field(default_factory=dict)
    source: Attrs = field(default_factory=dict)
    limits: Sequence[float] | None = None

    def axis(self, name: str) -> AxisLabels:
        """What is known about an axis, which may be nothing."""
        return self.axes.get(name, AxisLabels())

    @property
    def units(self) -> str | None:
        """Unit of the values."""
        own = self.attrs.get("units")
        return None if own is None else str(own)

    @property
    def is_placed(self) -> bool:
        """Whether samples are a volume that knows its place in world space."""
        return self.affine is not None and self.n_placed == 3

    def horizontal(self, dims: Sequence[str]) -> tuple[int, int] | None:
        """Numbers of the axes that are latitude and longitude; None if there are no such two."""
        return horizontal(dims, {name: about.attrs for name, about in self.axes.items()})

    def coords_off(self, dims: Sequence[str]) -> dict[str, CoordinateLabels]:
        """Coordinates that do not lie along any of some dims."""
        return {k: c for k, c in self.coords.items() if not set(c.dims) & set(dims)}

    def of_field(self, made: "Labels") -> "Labels":
        """These, of samples, with what a fit has noted in the labels of the field it `made`."""
        return replace(self, missing=made.missing, samples=made.samples)


# --- derivatives ----------------------------------------------------------------------------------

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

    return replace(
        labels,
        attrs=attrs(labels.attrs, labels.name or "field"),
        variables={
            name: replace(v, attrs=attrs(v.attrs, name)) for name, v in labels.variables.items()
        },
    )


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


# --- transparency ---------------------------------------------------------------------------------

# A transparent pixel has a colour that nobody sees; blended with its neighbours it makes fringes.
# So the field of a picture with transparency holds each colour times alpha, and its values are
# divided by alpha again.

VISIBLE_MIN_ALPHA = 1 / 512
"""Below this part of full alpha (half a level of 8 bits) there is no colour to be told."""


def unpremultiply(alpha: Alpha | None, values: Array) -> Array:
    """Colours of values (n, C) that are times alpha; what is transparent is black."""
    if alpha is None:
        return values
    xp, k, full = namespace(values), alpha.channel, alpha.full
    a = values[:, k : k + 1]
    seen = a > VISIBLE_MIN_ALPHA * full
    colour = xp.where(seen, full * values / xp.where(seen, a, xp.ones_like(a)), 0 * values)
    colour = xp.clip(colour, 0.0, full)
    return xp.concat([colour[:, :k], a, colour[:, k + 1 :]], axis=1)


def unpremultiply_gradient(alpha: Alpha, values: Array, slopes: Array) -> Array:
    """Gradients (..., C, d) of colours, from values (..., C) and slopes that are times alpha.

    ``∇c = (∇p - c ∇a) / a`` for a colour c, alpha a between 0 and 1, and p = c a.
    """
    xp, k, full = namespace(values), alpha.channel, alpha.full
    a, da = values[..., k, None, None] / full, slopes[..., k : k + 1, :] / full
    seen = a > VISIBLE_MIN_ALPHA
    a = xp.where(seen, a, xp.ones_like(a))
    found = xp.where(seen, (slopes - values[..., None] / a * da) / a, 0 * slopes)
    return xp.concat([found[..., :k, :], da * full, found[..., k + 1 :, :]], axis=-2)


def refuse_alpha(quantity: str) -> None:
    """Refuse second derivatives of colours with transparency."""
    if "gradient" not in quantity:
        raise ValueError(
            "second derivatives are not known for colours with transparency. Ask "
            "elmfield.Field(field.model.premultiplied), whose colours are times alpha."
        )
