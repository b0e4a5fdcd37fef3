"""What attributes of DataArrays say: gaps, reference systems, means; CF's words and rioxarray's."""

import os
import re
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from elmfield._array.typing import Array, Floats
from elmfield.domain.sphere import horizontal, unit_vectors
from elmfield.errors import need
from elmfield.field.coordinates.labels import Attrs, AxisLabels

if TYPE_CHECKING:
    import xarray

    XArray = xarray.DataArray | xarray.Dataset

FILLS = ("_FillValue", "missing_value")
"""Attributes that say which number stands for a missing sample."""

ENCODED = (*FILLS, "dtype", "scale_factor", "add_offset")
"""What of an encoding holds for other values of the same kind: not chunks, nor the file's name."""

BOUNDS = ("{}_bnds", "{}_bounds", "{}_vertices", "bounds_{}", "vertices_{}", "{}_b")
"""What borders of cells are called, beside their coordinate, where no attribute names them."""

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
    arrays = [da, *getattr(da, "data_vars", {}).values()]
    named = [a.attrs.get("grid_mapping") or a.encoding.get("grid_mapping") for a in arrays]
    every = getattr(da, "variables", da.coords)
    for name in (*(str(n).split(":")[0] for n in named if n), "spatial_ref", "crs"):
        told: Mapping[str, object] = every[name].attrs if name in every else {}
        for key in ("crs_wkt", "spatial_ref"):
            if told.get(key):
                return str(told[key])
        if "grid_mapping_name" in told and find_spec("pyproj") is not None:
            pyproj: Any = load_pyproj("a grid mapping")
            with suppress(pyproj.exceptions.CRSError):  # of a PROJ that ecCodes has broken, too
                return str(pyproj.CRS.from_cf(dict(told)).to_wkt())
    return None


def load_pyproj(purpose: str) -> ModuleType:
    """PROJ's library for Python.

    After ecCodes, which xarray loads when it looks for who can open a file, it would be linked to
    parts of that: it would find no database, and end the process in a crash. So it is told to look
    at its own first.
    """
    if "gribapi" not in sys.modules or not hasattr(os, "RTLD_DEEPBIND"):
        return need("pyproj", "geo", purpose)
    usual = sys.getdlopenflags()
    sys.setdlopenflags(usual | os.RTLD_DEEPBIND)
    try:
        return need("pyproj", "geo", purpose)
    finally:
        sys.setdlopenflags(usual)


def map_axes(names: Sequence[str], attrs: Mapping[str, Attrs]) -> tuple[str, str] | None:
    """Which names are y and x of a map: latitude and longitude, or what attributes say; or None."""
    told = {n: attrs.get(n, {}) for n in names}
    if (pair := horizontal(list(told), told)) is not None:
        return names[pair[0]], names[pair[1]]
    found = []
    for letter, standard in HORIZONTAL.items():
        by = [n for n, a in told.items() if a.get("standard_name") in standard]
        by += [n for n, a in told.items() if a.get("axis") == letter]
        found += [*by, *(n for n in names if n.lower() == letter.lower())][:1]
    return (found[0], found[1]) if len(found) == 2 else None


def bounds_of(ds: "XArray") -> tuple[dict[str, Array], set[str]]:
    """Borders of cells by coordinate, those that a Dataset has, and names of all of them.

    CF's attribute ``bounds`` names them, or they are called after their coordinate.
    """
    found, every = dict[str, Array](), set(map(str, getattr(ds, "variables", ds.coords)))
    for name, c in ds.coords.items():
        told = c.attrs.get("bounds") or c.encoding.get("bounds")
        names = [str(told), *(form.format(name) for form in BOUNDS)]
        called = next((n for n in names if n in every and n != name), None)
        if called is not None:
            found[str(name)] = ds[called].transpose(*c.dims, ..., missing_dims="ignore")
    named = {str(b.name) for b in found.values()}
    return {n: np.asarray(b.values) for n, b in found.items() if n not in named}, named


@dataclass(frozen=True, eq=False)
class FaceMesh:
    """An unstructured mesh of UGRID: nodes, and faces between some of them each.

    Parameters
    ----------
    dims : mapping of str to str
        Dims of values at faces and at nodes, by "face" and "node".
    names : pair of str
        "latitude" and "longitude", or "y" and "x".
    nodes : array, shape (n, 2)
        Where nodes are.
    corners : array, shape (f, v, 2)
        Of faces; of those with fewer, the last is repeated.
    parts : set of str
        Variables that describe the mesh.
    """

    dims: Mapping[str, str]
    names: tuple[str, str]
    nodes: Floats
    corners: Floats
    parts: frozenset[str]

    @property
    def middles(self) -> Floats:
        """Of faces, (f, 2)."""
        turn = 360.0 if self.names[1] == "longitude" else None
        around = np.unwrap(self.corners, period=turn, axis=1) if turn else self.corners
        counts = np.ones((*around.shape[:2], 1))
        counts[:, 1:, 0] = np.diff(around, axis=1).any(axis=2)  # others are repeated
        return np.asarray((around * counts).sum(axis=1) / counts.sum(axis=1))


def face_mesh_of(ds: object) -> FaceMesh | None:
    """The mesh that a Dataset of UGRID describes; None without one."""
    told: Any = getattr(ds, "variables", {})
    meshes = [v.attrs for v in told.values() if v.attrs.get("cf_role") == "mesh_topology"]
    if not meshes or "face_node_connectivity" not in meshes[0]:
        return None
    mesh = meshes[0]
    names = str(mesh["node_coordinates"]).split()
    pair, table = map_axes(names, {n: told[n].attrs for n in names}), mesh["face_node_connectivity"]
    if pair is None or table not in told:
        raise ValueError(f"a mesh of UGRID needs nodes at y and x, and their faces; got {mesh}.")
    is_sphere = horizontal(pair, {n: told[n].attrs for n in pair}) is not None
    nodes = np.stack([np.asarray(told[n].values, np.float64) for n in pair], axis=-1)
    own = told[table]
    face = str(mesh.get("face_dimension", own.dims[0]))
    index = np.asarray(own.transpose(face, ...).values, np.float64)
    fill = own.attrs.get("_FillValue", own.encoding.get("_FillValue"))
    index = np.where((index == fill) | (index < 0), np.nan, index - own.attrs.get("start_index", 0))
    count = np.isfinite(index).sum(axis=1)
    if count.min(initial=3) < 3 or np.nanmax(index, initial=0) >= len(nodes):
        raise ValueError(f"faces of UGRID must have three nodes or more of {len(nodes)} each.")
    last = np.take_along_axis(index, count[:, None] - 1, axis=1)
    corners = nodes[np.where(np.isnan(index), last, index).astype(np.int64)]
    words = ("latitude", "longitude") if is_sphere else ("y", "x")
    parts = frozenset(" ".join(map(str, mesh.values())).split())
    dims = {"face": face, "node": str(told[pair[0]].dims[0])}
    return FaceMesh(dims, words, nodes, corners, parts)


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


def corners_of(name: str, shape: Sequence[int], given: Array) -> Floats:
    """Corners (ny, nx, v) of the cells of a coordinate of two dims, one of the two of each."""
    b = np.asarray(given, np.float64)
    if b.shape == tuple(n + 1 for n in shape):
        b = np.stack([b[:-1, :-1], b[:-1, 1:], b[1:, 1:], b[1:, :-1]], axis=-1)
    if b.ndim != 3 or b.shape[:2] != tuple(shape):
        told = f"bounds of {name!r}, {tuple(shape)}, must be the corners of its cells"
        raise ValueError(f"{told}; got {np.shape(given)}.")
    return b


def kind_of_samples(
    told: object, dims: Sequence[str], axes: Mapping[str, AxisLabels], plane: Sequence[str] = ()
) -> str:
    """Whether CF's ``cell_methods`` say that samples are means over their cells, on every axis.

    "area" stands for the axes of a map, `plane` where they have no names of such; "time" for those
    of dates.
    """
    attrs = {name: axis.attrs for name, axis in axes.items()}
    every = re.findall(r"((?:[\w-]+\s*:\s*)+)(\w+)", str(told or ""))
    means = {n for names, method in every if method == "mean" for n in re.findall(r"[\w-]+", names)}
    if "area" in means:
        means |= set(plane or map_axes(dims, attrs) or ())
    if "time" in means:
        means |= {name for name, axis in axes.items() if axis.is_time}
    covered = all(n in means or attrs.get(n, {}).get("standard_name") in means for n in dims)
    return "means" if dims and covered else "points"
