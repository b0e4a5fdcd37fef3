"""NIfTI: volumes with a place in the scanner, and series of them in time.

Axes count millimetres (or seconds) along the array's own axes; where that lies in the room is in
the affine, which follows the grid if it changes.
"""

from pathlib import Path

import numpy as np

from elmfield.field.world import affine_of
from elmfield.io.errors import reading
from elmfield.io.formats.registry import need
from elmfield.io.gridded import Gridded


def read(path: Path, variable: str | None = None) -> Gridded:
    """A volume, or a series of them in time."""
    nibabel = need("nibabel", "io", "reading NIfTI files")
    with reading(path, "NIfTI"):
        image = nibabel.load(path)
        values = np.asanyarray(image.dataobj)
    header = image.header
    zooms = [float(z) or 1.0 for z in header.get_zooms()]
    names = ("i", "j", "k", "t", "u", "v", "w")[: values.ndim]
    try:
        space, time = header.get_xyzt_units()
    except KeyError:  # a number that stands for no unit
        space = time = "unknown"
    units = [space] * 3 + [time] + ["unknown"] * 3
    at = {name: np.arange(n) * z for name, n, z in zip(names, values.shape, zooms)}
    if "t" in at:
        at["t"] = at["t"] + float(header["toffset"])
    axes = {
        name: {"attrs": {} if unit == "unknown" else {"units": unit}}
        for name, unit in zip(names, units)
    }
    kept = {
        "qform_code": int(header["qform_code"]),
        "sform_code": int(header["sform_code"]),
        "descrip": bytes(header["descrip"].tobytes()).rstrip(b"\0").decode("latin-1"),
        "units": [space, time],
    }
    attributes = {
        "align": "areas",
        "affine": np.asarray(image.affine, float).tolist(),
        "space": "RAS",
        "axes": axes,
        "header": kept,
    }
    return Gridded(
        values=np.ascontiguousarray(values), dims=names, coords=at, attributes=attributes
    )


def opened(path: Path, variable: str | None = None) -> Gridded:
    """The same: such files are read at once."""
    return read(path, variable)


def write(samples: Gridded, path: Path, *, colours: str | None = None) -> None:
    """Write NIfTI; the affine follows the grid, and the axes run as they did."""
    nibabel = need("nibabel", "io", "writing NIfTI files")
    values = np.asarray(samples.values)
    if samples.channel_axis is not None:
        values = np.moveaxis(values, samples.channel_axis, -1)
    if values.dtype == np.float64:
        values = values.astype(np.float32)
    if values.dtype.name in ("int64", "uint64", "bool", "float16"):
        values = values.astype({"b": np.uint8, "f": np.float32}.get(values.dtype.kind, np.int32))
    while values.ndim < 3:
        values = values[..., None]
    about, kept = samples.attributes, samples.attributes.get("header", {})
    if "affine" in about:
        affine = affine_of(about, len(samples.dims))
        if about.get("space") == "LPS":
            affine = np.diag([-1.0, -1.0, 1.0, 1.0]) @ affine
    else:
        affine = np.eye(4)
        for k, name in enumerate(samples.dims[:3]):  # from another format: along the axes
            c = samples.coords.get(name)
            if c is not None and len(c) > 1:
                affine[k, k], affine[k, 3] = (c[-1] - c[0]) / (len(c) - 1), c[0]
    image = nibabel.Nifti1Image(values, affine)
    header = image.header
    zooms = list(header.get_zooms())
    for k in range(3, len(samples.dims)):
        c = samples.coords.get(samples.dims[k])
        if c is not None and len(c) > 1:
            zooms[k] = abs(float(c[-1] - c[0])) / (len(c) - 1)
        if c is not None and samples.dims[k] == "t":
            header["toffset"] = float(c[0])
    header.set_zooms(zooms)
    if kept.get("units"):
        header.set_xyzt_units(*kept["units"])
    if "descrip" in kept:
        header["descrip"] = kept["descrip"].encode("latin-1", "replace")[:79]
    if "qform_code" in kept:
        image.set_sform(affine, code=kept["sform_code"])
        image.set_qform(affine, code=kept["qform_code"], strip_shears=True)
    nibabel.save(image, path)
