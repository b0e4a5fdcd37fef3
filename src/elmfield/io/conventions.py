"""What attributes of DataArrays say: gaps, reference systems, means; CF's words and rioxarray's."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from elmfield._array.typing import Array
from elmfield.domain.sphere import horizontal, unit_vectors
from elmfield.field.coordinates.labels import Attrs

if TYPE_CHECKING:
    import xarray

    XArray = xarray.DataArray | xarray.Dataset

FILLS = ("_FillValue", "missing_value")
"""Attributes that say which number stands for a missing sample."""

ENCODED = (*FILLS, "dtype", "scale_factor", "add_offset")
"""What of an encoding holds for other values of the same kind: not chunks, nor the file's name."""

HORIZONTAL = {
    "Y": ("projection_y_coordinate", "grid_latitude"),
    "X": ("projection_x_coordinate", "grid_longitude"),
}
"""Standard names of the two coordinates of a map that are no latitude and longitude."""


@dataclass(frozen=True)
class Gaps:
    """The number that stands for a missing sample; in the values, or only in a file of them.

    Parameters
    ----------
    fill : float or None
        The number, if there is one.
    is_stored : bool
        Whether values still hold it; else they are NaN there.
    """

    fill: float | None = None
    is_stored: bool = False

    def dtype(self, own: np.dtype[Any]) -> np.dtype[Any]:
        """The dtype of values with NaN for it."""
        if not self.is_stored or own.kind == "f":
            return own
        return np.dtype(np.float64 if own.itemsize > 2 else np.float32)

    def out_of(self, values: Array) -> Array:
        """Values, a NumPy or Dask array, with NaN in its place."""
        if not self.is_stored:
            return values
        found = values.astype(self.dtype(values.dtype))
        found[values == self.fill] = np.nan
        return found


def gaps_of(da: "xarray.DataArray") -> Gaps:
    """What stands for a missing sample of a DataArray, if anything does."""
    for told, is_stored in ((da.attrs, True), (da.encoding, False)):
        for name in FILLS if da.dtype.kind in "iuf" else ():
            fill = np.asarray(told.get(name, "")).reshape(-1)
            if fill.size == 1 and fill.dtype.kind in "iuf" and not np.isnan(fill[0]):
                return Gaps(fill[0].item(), is_stored)
    return Gaps()


def crs_of(da: "XArray") -> str | None:
    """The reference system of a DataArray or Dataset, as well-known text; None if it has none.

    That of the variable which ``grid_mapping`` names, or rioxarray's ``spatial_ref``.
    """
    arrays = list(da.data_vars.values()) if hasattr(da, "data_vars") else [da]
    named = [a.attrs.get("grid_mapping") or a.encoding.get("grid_mapping") for a in (da, *arrays)]
    for name in (*(str(n).split(":")[0] for n in named if n), "spatial_ref", "crs"):
        known = name in da.coords or (hasattr(da, "data_vars") and name in da)
        told: Mapping[str, object] = da[name].attrs if known else {}
        for key in ("crs_wkt", "spatial_ref"):
            if told.get(key):
                return str(told[key])
        if "grid_mapping_name" in told:
            from elmfield.io.export.map_targets import from_cf

            return from_cf(told)
    return None


def map_axes(names: Sequence[str], attrs: Mapping[str, Attrs]) -> tuple[str, str] | None:
    """Which names are y and x of a map: latitude and longitude, or what attributes say; or None."""
    told = {n: attrs.get(n, {}) for n in names}
    if (pair := horizontal(list(told), told)) is not None:
        return names[pair[0]], names[pair[1]]
    found = []
    for letter, standard in HORIZONTAL.items():
        by = [n for n, a in told.items() if a.get("standard_name") in standard]
        by = by or [n for n, a in told.items() if a.get("axis") == letter]
        by = by or [n for n in names if n.lower() == letter.lower()]
        found += by[:1]
    return (found[0], found[1]) if len(found) == 2 else None


def mesh_of(da: "xarray.DataArray", dims: Sequence[str]) -> tuple[dict[str, Array], bool]:
    """Two coordinates, y first, that lie along the last two of some dims; whether they go round.

    Latitude and longitude or y and x, where neither dim has coordinates of its own; else none.
    They go round if the last column is beside the first one, and ahead of it: none is repeated.
    """
    last = list(dims[-2:])
    at = {str(n): c.transpose(*last) for n, c in da.coords.items() if set(c.dims) == set(last)}
    told = {n: c.attrs for n, c in at.items() if c.ndim == 2 and c.dtype.kind in "iuf"}
    pair = map_axes(list(told), told)
    if pair is None or any(d in da.coords for d in last) or min(at[pair[0]].shape) < 4:
        return {}, False
    y, x = (np.asarray(at[n].values, np.float64) for n in pair)
    if not np.isfinite(y + x).any():
        return {}, False
    p = unit_vectors(y, x)
    steps = np.diff(p, axis=1, append=p[:, :1])
    first, last_one = (np.linalg.norm(steps[:, k], axis=-1) for k in (0, -1))
    ahead = ((steps[:, -1] * steps[:, 0]).sum(axis=-1) > 0) & (last_one <= 2 * first)
    return dict(zip(pair, (y, x))), horizontal(pair, told) is not None and bool(ahead.all())


def kind_of_samples(
    told: object, dims: Sequence[str], attrs: Mapping[str, Attrs], times: Sequence[str]
) -> str:
    """Whether CF's ``cell_methods`` say that samples are means over their cells, on every axis.

    "area" stands for the axes of a map; `times` are the axes of dates, "time".
    """
    means = set()
    for names, method in re.findall(r"((?:[\w-]+\s*:\s*)+)(\w+)", str(told or "")):
        if method == "mean":
            means |= {n.strip() for n in names.split(":") if n.strip()}
    plane = map_axes(dims, attrs)
    if "area" in means and plane is not None:
        means |= set(plane)
    if "time" in means:
        means |= set(times)
    standard = {n: str(attrs.get(n, {}).get("standard_name", n)) for n in dims}
    covered = all(n in means or standard[n] in means for n in dims)
    return "means" if dims and covered else "points"
