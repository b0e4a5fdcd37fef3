"""From one grid to another in one call: arrays, files and fields in, labelled arrays out."""

from collections.abc import Mapping, Sequence
from typing import Any

from elmfield.field import Field
from elmfield.field.labels import unstacked
from elmfield.io.dataarrays import to_dataarray
from elmfield.io.door import fit
from elmfield.io.rendered import on_target, rendered
from elmfield.io.targets import Target


def regrid(
    values: Any,
    like: Any = None,
    *,
    step: float | Sequence[float] | None = None,
    grid: Sequence[int] | None = None,
    crs: str | None = None,
    mean: bool = False,
    quantity: str = "value",
    align: str | None = None,
    missing: str | None = None,
) -> Any:
    """A field on another grid, as an xarray.DataArray, or a Dataset if it was fitted to one.

    Parameters
    ----------
    values : Field, or what :func:`elmfield.fit` takes
        What to put on the grid.
    like : file, DataArray, Dataset, Gridded, Field or mapping, optional
        Something on that grid: its coordinates are taken, by name, or as latitude and longitude, or
        through its reference system; or
    step : float or two
        places so far apart, in the axes' unit (or that of `crs`); or
    grid : two whole numbers
        so many equal cells of latitude and longitude, or of all axes where there are none.
    crs : str, optional
        Another reference system, for instance "EPSG:3035" (extra: geo); with `step` or `grid`, or
        about as many places as samples.
    mean : bool
        Means over the cells of the grid, by area on the sphere: conservative regridding. Cells
        reach halfway to the next place, or as far as the bounds that `like` has.
    quantity : {"value", "gradient", "laplacian"}
        "gradient" is its magnitude.
    align : {"areas", "nodes"}, optional
        Whether a `step` counts from the first sample (nodes) or from the domain's border (areas).
    missing : {"nan", "fill"}, optional
        As for points; a mean is NaN where more than half of it was missing.

    Notes
    -----
    Beyond the field's domain values are NaN. The area-weighted mean of all cells of a domain is
    that of the field, to rounding.

    Examples
    --------
    >>> import numpy as np, elmfield as ef
    >>> latitude, longitude = np.arange(85, -86, -10.0), np.arange(0, 360, 10.0)
    >>> warm = ef.fit(280 + np.zeros((18, 36)), dims=("latitude", "longitude"),
    ...               coords=[latitude, longitude], periodic="longitude")
    >>> ef.regrid(warm, grid=(9, 18), mean=True).shape
    (9, 18)
    """
    field = values if isinstance(values, Field) else fit(values)
    if like is None and step is None and grid is None and crs is None:
        raise ValueError("say which grid: one of `like`, `step`, `grid` and `crs`.")
    out = rendered(
        field, like=like, step=step, grid=grid, crs=crs, mean=mean,
        quantity=quantity, align=align, missing=missing,
    )  # fmt: skip
    return unstacked(to_dataarray(out), out.attributes, quantity)


def means_between(field: Field, edges: Mapping[str, Any], missing: str | None = None) -> Any:
    """Means of a field over the boxes between edges, by dim, as a DataArray or Dataset.

    They are labelled with the middle of each box. Latitudes count by area.
    """
    names = field.domain.dims
    unknown = sorted(set(map(str, edges)) - set(names))
    if unknown or not edges:
        raise ValueError(f"`edges` must name some of the axes {list(names)}; got {list(edges)}.")
    numbers = {n: field.coordinates(n, e) for n, e in edges.items()}
    middles = {n: (e[:-1] + e[1:]) / 2 for n, e in numbers.items()}
    out = on_target(field, Target(axes=middles, edges=numbers), mean=True, missing=missing)
    return unstacked(to_dataarray(out), out.attributes)
