"""Scans: NIfTI, FreeSurfer's MGH and ITK's MetaImage and NRRD, and images of their libraries.

Axes count millimetres (or seconds) along the array's own axes; where that lies in the room is in
the affine, which follows the grid if it changes.
"""

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np

from elmfield._array.checks import choice
from elmfield._array.typing import Array, Floats
from elmfield.field.adapters.affine import affine_of
from elmfield.field.coordinates.labels import AxisLabels, Labels
from elmfield.io.files import need, reading
from elmfield.io.gridded import MAX_CLASSES, Gridded, step_of

VECTOR = 1007
"""NIfTI's intent code of components on the fifth axis."""

LABEL = 1002
"""That of labels, which samples that look like some are given too."""

LABELS_MIN_ALIKE = 0.8
"""Which part of the samples of labels, at least, are like the next one along each axis."""

STORED_AS = {
    "float64": "float32", "float16": "float32", "int64": "int32", "uint64": "int32",
    "bool": "uint8",
}  # fmt: skip
"""What numbers are written as, of which NIfTI has none, or few readers."""

ITK_STORES_AS = {"float16": "float32", "bool": "uint8"}
"""What numbers are written as, of which SimpleITK has none."""

LPS_TO_RAS = np.diag([-1.0, -1.0, 1.0, 1.0])
"""From DICOM's world space (LPS) to NIfTI's (RAS), and back."""


MGH = (".mgz", ".mgh")
"""Files of FreeSurfer."""

ITK = (".mha", ".mhd", ".nrrd", ".nhdr")
"""Files that SimpleITK reads and writes."""


def read(path: Path, variable: str | None = None, *, lazily: bool = False) -> Gridded:
    """A volume, or a series of them in time; components of vectors are channels."""
    if path.suffix.lower() in ITK:
        load = need("SimpleITK", "itk", "reading MetaImage and NRRD files").ReadImage
    else:
        load = need("nibabel", "io", "reading NIfTI files").load
    with reading(path, "a scan"):
        return cast(Gridded, from_image(load(str(path))))


def from_image(image: Any) -> Any:
    """An image of nibabel or SimpleITK as gridded samples in their place; anything else as it is.

    Who has such an image has loaded its library; none is loaded to find out.
    """
    library = type(image).__module__.partition(".")[0]
    if library == "nibabel" and hasattr(image, "dataobj"):
        own = need("nibabel", "io", "images of nibabel").Nifti1Image.from_image(image)
        return _from_nifti(own, np.asanyarray(image.dataobj))
    if library == "SimpleITK" and hasattr(image, "GetDirection"):
        return _from_simpleitk(image, sys.modules[library].GetArrayFromImage(image))
    return image


def _from_simpleitk(image: Any, values: Array) -> Gridded:
    """An image of SimpleITK, whose array has its axes in the opposite order.

    The room is DICOM's (LPS). A series of volumes has its time last, as NIfTI has it.
    """
    spacing = np.asarray(image.GetSpacing(), float)[::-1]
    d = len(spacing)
    if d not in (2, 3, 4):
        raise ValueError(f"an image has two to four axes; got one of SimpleITK with {d}.")
    names = ("slice", "row", "column", "t")[d == 2 : max(d, 3)]
    if d == 4:
        values, spacing = np.moveaxis(values, 0, 3), np.roll(spacing, -1)
    axes = {name: AxisLabels(attrs={"units": "mm"}) for name in names[:3]}
    header = {"intent_code": LABEL} if _looks_like_labels(values) else {}
    labels = Labels(align="areas", axes=axes, header=header)
    first_of = image.GetOrigin()[::-1] if d == 2 else (0.0,) * d  # of volumes, the affine has it
    if d > 2:
        direction = np.asarray(image.GetDirection(), float).reshape(d, d)[:3, 2::-1]
        affine = np.eye(4)
        affine[:3, :3], affine[:3, 3] = direction * spacing[:3], image.GetOrigin()[:3]
        labels = replace(labels, affine=affine.tolist(), space="LPS")
    every = zip(names, values.shape, spacing, first_of)
    at = {name: np.arange(n) * s + first for name, n, s, first in every}
    k = d if values.ndim > d else None
    return Gridded(values=values, dims=names, coords=at, channel_axis=k, labels=labels)


def _looks_like_labels(values: Array) -> bool:
    """Whether samples are whole numbers, few of them, and most of them like their neighbours."""
    if values.dtype.kind not in "biu" or not 2 < values.ndim < 5:
        return False
    some = values[:: max(1, len(values) // 8)]  # most others are told by these
    if any(len(np.unique(v)) > MAX_CLASSES for v in (some, values)):
        return False
    long = [k for k in range(3) if values.shape[k] > 1]
    same = (np.mean(np.diff(values.astype(np.int64), axis=k) == 0) for k in long)
    return bool(min(same, default=0) > LABELS_MIN_ALIKE)


def _from_nifti(image: Any, values: Array) -> Gridded:
    """A NIfTI image's samples, with coordinates and what its header says."""
    header = image.header
    zooms = [float(z) or 1.0 for z in header.get_zooms()]
    d, channel_axis = values.ndim, None
    if d > 4:  # from the fifth axis on, the norm has what stands at one place and time
        d = channel_axis = 3 if values.shape[3] == 1 else 4
        values = values.reshape(*values.shape[:d], -1)
    names = ("i", "j", "k", "t")[:d]
    try:
        space, time = header.get_xyzt_units()
    except KeyError:  # a number that stands for no unit
        space = time = "unknown"
    at = {name: np.arange(n) * z for name, n, z in zip(names, values.shape, zooms)}
    if "t" in at:
        at["t"] = at["t"] + float(header["toffset"])
    units = {name: space if name in "ijk" else time for name in names}
    axes = {n: AxisLabels(attrs={} if u == "unknown" else {"units": u}) for n, u in units.items()}
    kept = {
        "qform_code": int(header["qform_code"]),
        "sform_code": int(header["sform_code"]),
        "descrip": bytes(header["descrip"].tobytes()).rstrip(b"\0").decode("latin-1"),
        "units": [space, time],
        "intent_code": LABEL if _looks_like_labels(values) else int(header["intent_code"]),
    }
    affine = np.asarray(image.affine, float).tolist()
    labels = Labels(align="areas", affine=affine, space="RAS", axes=axes, header=kept)
    values, k = np.ascontiguousarray(values), channel_axis
    return Gridded(values=values, dims=names, coords=at, channel_axis=k, labels=labels)


def write(samples: Gridded, path: Path, *, colours: str | None = None) -> None:
    """Write a scan; the affine follows the grid, and the axes run as they did."""
    if path.suffix.lower() in ITK:
        itk = need("SimpleITK", "itk", "writing MetaImage and NRRD files")
        itk.WriteImage(to_image(samples, "SimpleITK"), str(path))
    else:
        nibabel = need("nibabel", "io", "writing NIfTI files")
        if path.suffix.lower() in MGH and np.iscomplexobj(samples.values):
            raise ValueError(f"{path.name}: MGH has no complex numbers; write a .nii file instead.")
        nibabel.save(to_image(samples, "nibabel"), path)


def to_image(samples: Gridded, library: str) -> Any:
    """Samples as an image of nibabel or SimpleITK, in their place."""
    choice("library", library, ("nibabel", "SimpleITK"))
    return _to_nifti(samples) if library == "nibabel" else _to_simpleitk(samples)


def _to_simpleitk(samples: Gridded) -> Any:
    """An image of SimpleITK: axes in the opposite order, time first, the room DICOM's (LPS)."""
    itk = need("SimpleITK", "itk", "images of SimpleITK")
    values, d = np.asarray(samples.channels_last), len(samples.dims)
    if d not in (2, 3, 4):
        raise ValueError(f"an image of SimpleITK has two to four axes; got {d}.")
    values = values.astype(ITK_STORES_AS.get(values.dtype.name, values.dtype))
    affine = _affine_for_file(samples)
    if d == 2 and samples.labels.affine is not None:  # one slice: a plane lies anywhere in the room
        values, d, affine = values[None], 3, affine[:, [2, 0, 1, 3]]
    values = np.moveaxis(values, 3, 0) if d == 4 else values
    image = itk.GetImageFromArray(values, isVector=samples.channel_axis is not None)
    n = min(d, 3)
    if samples.labels.affine is None:  # x of the room runs along the last axis, as in pictures
        affine[:n] = affine[:n][::-1]
    elif samples.labels.space == "RAS":
        affine = LPS_TO_RAS @ affine
    steps = np.linalg.norm(affine[:n, :n], axis=0)
    direction = np.eye(d)
    direction[:n, :n] = (affine[:n, :n] / steps)[:, ::-1]
    lines = [samples.line(name) for name in samples.dims[3:]]
    apart = [step_of(c) if len(c) > 1 else 1.0 for c in lines]
    image.SetSpacing([*steps[::-1].tolist(), *apart])
    image.SetOrigin([*affine[:n, 3].tolist(), *(0.0 for _ in apart)])
    image.SetDirection(direction.ravel().tolist())
    return image


def _affine_for_file(samples: Gridded) -> Floats:
    """Where the samples lie in the room; of other formats, along their own axes."""
    if samples.labels.affine is not None:
        return affine_of(samples.labels)
    affine = np.eye(4)
    for k, name in enumerate(samples.dims[:3]):
        if len(c := samples.line(name)) > 1:
            affine[k, k], affine[k, 3] = step_of(c), c[0]
    return affine


def _to_nifti(samples: Gridded) -> Any:
    """An image of nibabel."""
    nibabel = need("nibabel", "io", "writing NIfTI files")
    values = samples.channels_last
    if samples.channel_axis is not None:  # on the fifth axis
        sizes = (*values.shape[:-1], *(1,) * (5 - values.ndim), values.shape[-1])
        values = values.reshape(sizes)
    stored = values.astype(STORED_AS.get(values.dtype.name, values.dtype))
    if values.dtype.kind in "iu" and not np.array_equal(stored, values):
        raise ValueError(
            f"whole numbers of a scan are at most those of {stored.dtype.name}; got some from "
            f"{values.min()} to {values.max()}. Write a .nrrd or .npy file instead."
        )
    values = stored.reshape(*stored.shape, *(1,) * (3 - stored.ndim))
    kept, affine = samples.labels.header, _affine_for_file(samples)
    if samples.labels.space == "LPS":
        affine = LPS_TO_RAS @ affine
    image = nibabel.Nifti1Image(values, affine)
    header = image.header
    zooms = list(header.get_zooms())
    for k, name in list(enumerate(samples.dims))[3:]:
        c = samples.line(name)
        if len(c) > 1:
            zooms[k] = abs(step_of(c))
        if len(c) and name == "t":
            header["toffset"] = float(c[0])
    header.set_zooms(zooms)
    if kept.get("units"):
        header.set_xyzt_units(*kept["units"])
    if samples.channel_axis is not None:
        header["intent_code"] = kept.get("intent_code") or VECTOR
    elif kept.get("intent_code") == LABEL:
        header["intent_code"] = LABEL
    if "descrip" in kept:
        header["descrip"] = kept["descrip"].encode("latin-1", "replace")[:79]
    if "qform_code" in kept:
        image.set_sform(affine, code=kept["sform_code"])
        image.set_qform(affine, code=kept["qform_code"], strip_shears=True)
    return image
