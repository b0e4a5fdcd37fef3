"""Standard deviations beside values: variables of a Dataset, a band around a line."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from elmfield._array.typing import Array
from elmfield.field.adapters.labelled_arrays import interpolate

if TYPE_CHECKING:
    import xarray

    from elmfield.field.model import Model

BAND_DEVIATIONS = 2.0
"""Half the width of a band around a line, in standard deviations."""


def interpolate_both(
    model: "Model", coords: Mapping[str, Array], quantity: str, *how: Any
) -> "xarray.Dataset":
    """Values and their standard deviations as variables of one Dataset, named as CF has it."""
    import xarray

    if quantity != "value":
        raise ValueError(f"`std` is of values; got quantity={quantity!r}.")
    pair = [interpolate(model, coords, q, *how) for q in ("value", "std")]
    whole, sure = (
        a.to_dataset(name=str(a.name or "value")) if isinstance(a, xarray.DataArray) else a
        for a in pair
    )
    for name in list(whole.data_vars):
        whole[name].attrs["ancillary_variables"] = f"{name}_std"
        whole[f"{name}_std"] = sure[name]
    return whole


def draw_band(drawn: Any, both: "xarray.Dataset") -> Any:
    """A line that was drawn, with a band of standard deviations around it."""
    mean, deviation = (np.asarray(a.squeeze().values) for a in both.data_vars.values())
    if mean.ndim != 1:
        raise ValueError(
            f"`std` draws a band around a line; got axes {list(both.dims)}. Choose a slice, or "
            "plot(quantity='std')."
        )
    x, off = drawn[0].get_xdata(), BAND_DEVIATIONS * deviation
    drawn[0].axes.fill_between(x, mean - off, mean + off, alpha=0.25, linewidth=0)
    return drawn
