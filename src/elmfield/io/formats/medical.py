"""Volumes and slices with a place in the scanner: NIfTI and DICOM.

Axes count millimetres (or seconds) along the array's own axes; where that lies in the room is in
the affine, or in a DICOM header's position and orientation, which follow the grid if it changes.
"""

from pathlib import Path

import numpy as np

from elmfield.io.errors import reading
from elmfield.io.formats.registry import need, suffix_of
from elmfield.io.gridded import Gridded, grid_of


def read(path: Path, variable: str | None = None) -> Gridded:
    """A volume, a slice, or a series of them."""
    return _read_dicom(path) if suffix_of(path) == ".dcm" else _read_nifti(path)


def write(samples: Gridded, path: Path, *, colours: str | None = None) -> None:
    """Write NIfTI or DICOM."""
    if suffix_of(path) == ".dcm":
        _write_dicom(samples, path)
    else:
        _write_nifti(samples, path)


def _read_nifti(path: Path) -> Gridded:
    nibabel = need("nibabel", "io", "reading NIfTI files")
    with reading(path, "NIfTI"):
        image = nibabel.load(path)
        values = np.asanyarray(image.dataobj)
    header = image.header
    zooms = [float(z) or 1.0 for z in header.get_zooms()]
    names = ("i", "j", "k", "t", "u", "v", "w")[: values.ndim]
    space, time = header.get_xyzt_units()
    units = [space] * 3 + [time] + ["unknown"] * 3
    at = {name: np.arange(n) * z for name, n, z in zip(names, values.shape, zooms)}
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
        "axes": axes,
        "header": kept,
    }
    return Gridded(
        values=np.ascontiguousarray(values), dims=names, coords=at, attributes=attributes
    )


def _write_nifti(samples: Gridded, path: Path) -> None:
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
    start, step = grid_of(samples)
    affine = np.asarray(about.get("affine", np.eye(4)), float)
    if "affine" not in about:
        for k, name in enumerate(samples.dims[:3]):  # from another format: along the axes
            c = samples.coords.get(name)
            if c is not None and len(c) > 1:
                affine[k, k], affine[k, 3] = (c[-1] - c[0]) / (len(c) - 1), c[0]
    else:
        move = np.eye(4)
        for k in range(min(3, len(start))):
            move[k, k], move[k, 3] = step[k], start[k]
        affine = affine @ move
    image = nibabel.Nifti1Image(values, affine)
    header = image.header
    zooms = list(header.get_zooms())
    for k in range(3, len(samples.dims)):
        c = samples.coords.get(samples.dims[k])
        if c is not None and len(c) > 1:
            zooms[k] = abs(float(c[-1] - c[0])) / (len(c) - 1)
    header.set_zooms(zooms)
    if kept.get("units"):
        header.set_xyzt_units(*kept["units"])
    if "descrip" in kept:
        header["descrip"] = kept["descrip"].encode("latin-1", "replace")[:79]
    if "qform_code" in kept:
        image.set_sform(affine, code=kept["sform_code"])
        image.set_qform(affine, code=kept["qform_code"], strip_shears=True)
    nibabel.save(image, path)


def _read_dicom(path: Path) -> Gridded:
    pydicom = need("pydicom", "io", "reading DICOM files")
    with reading(path, "a DICOM picture"):
        data = pydicom.dcmread(path)
        values = data.pixel_array
    colour = int(data.get("SamplesPerPixel", 1)) > 1
    slope = float(data.get("RescaleSlope", 1))
    shift = float(data.get("RescaleIntercept", 0))
    if (slope, shift) != (1.0, 0.0):
        values = values * slope + shift
    names = ("frame", "row", "column")[-(values.ndim - colour) :]
    spacing = [float(s) for s in data.get("PixelSpacing", [1.0, 1.0])]
    known = "PixelSpacing" in data
    sizes = values.shape[len(names) - 2 :]
    at = {name: np.arange(n) * s for name, n, s in zip(names[-2:], sizes, spacing)}
    header = {
        tag: element
        for tag, element in data.to_json_dict().items()
        if int(tag[:4], 16) % 2 == 0
        and not tag.startswith("7FE0")
        and element["vr"] not in ("OB", "OW", "OF", "OD", "OL", "UN")
    }
    attributes = {
        "align": "areas",
        "axes": {n: {"attrs": {"units": "mm"}} for n in ("row", "column")} if known else {},
        "channels": {"name": "colour"},
        "header": {"dicom": header, "slope": slope, "shift": shift},
    }
    return Gridded(
        values=values,
        dims=names,
        coords=at if known else {},
        channel_axis=values.ndim - 1 if colour else None,
        attributes=attributes,
    )


def _write_dicom(samples: Gridded, path: Path) -> None:
    pydicom = need("pydicom", "io", "writing DICOM files")
    uid = need("pydicom.uid", "io", "writing DICOM files")
    about = samples.attributes.get("header", {})
    if "dicom" not in about:
        raise ValueError(
            f"{path.name}: a DICOM file can be written only from a model of a DICOM file, which "
            "keeps the patient's header. Write a .nii, .tif or .npy file instead."
        )
    data = pydicom.Dataset.from_json(about["dicom"])
    values = np.asarray(samples.values)
    if values.dtype.kind == "f":
        values = np.round((values - about["shift"]) / about["slope"])
    signed = int(data.get("PixelRepresentation", 0))
    bits = 8 if int(data.get("BitsAllocated", 16)) == 8 else 16
    kind = np.dtype(f"{'i' if signed else 'u'}{bits // 8}")
    info = np.iinfo(kind)
    values = np.clip(values, info.min, info.max).astype(kind)
    start, step = grid_of(samples)
    (r, c), (dr, dc) = start[-2:], step[-2:]
    if "PixelSpacing" in data:
        old = [float(s) for s in data.PixelSpacing]
        if "ImagePositionPatient" in data and "ImageOrientationPatient" in data:
            along = np.asarray([float(v) for v in data.ImageOrientationPatient])
            place = np.asarray([float(v) for v in data.ImagePositionPatient])
            place = place + along[:3] * c * old[1] + along[3:] * r * old[0]
            data.ImagePositionPatient = [f"{v:.10g}" for v in place]
        data.PixelSpacing = [f"{old[0] * dr:.10g}", f"{old[1] * dc:.10g}"]
    n = len(samples.dims)
    shape = [k for j, k in enumerate(values.shape) if j != samples.channel_axis]
    data.Rows, data.Columns = shape[n - 2 : n]
    if n == 3:
        data.NumberOfFrames = shape[0]
    data.BitsAllocated = bits
    data.BitsStored = min(int(data.get("BitsStored", bits)), bits)
    if int(values.max(initial=0)) >= 1 << data.BitsStored or signed:
        data.BitsStored = bits
    data.HighBit = data.BitsStored - 1
    # A new picture, and it says so: it must not pass for the original.
    data.ImageType = ["DERIVED", "SECONDARY", *list(data.get("ImageType", []))[2:]]
    data.SOPInstanceUID = uid.generate_uid()
    data.file_meta = pydicom.dataset.FileMetaDataset()
    data.file_meta.TransferSyntaxUID = uid.ExplicitVRLittleEndian
    data.file_meta.MediaStorageSOPClassUID = data.SOPClassUID
    data.file_meta.MediaStorageSOPInstanceUID = data.SOPInstanceUID
    data.PixelData = np.ascontiguousarray(values).tobytes()
    data["PixelData"].VR = "OW" if bits == 16 else "OB"
    data.save_as(path, enforce_file_format=True)
