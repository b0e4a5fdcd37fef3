"""DICOM: a slice in a file, a series of slices in a folder; places in world space kept.

A series becomes one volume, its slices in the order in which they lie, and goes back to a folder of
new files under new identifiers: what is derived must not pass for the original. The affine is that
of DICOM's own world space (LPS: x runs to the left, y to the back).
"""

import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from elmfield._array.typing import Array, Floats
from elmfield.field.adapters.affine import affine_of, spacing_of
from elmfield.field.coordinates.labels import Attrs, AxisLabels, ChannelLabels, Labels
from elmfield.io.files import NoSuchArrayError, UnreadableError, need, reading, suffix_of
from elmfield.io.gridded import Gridded, step_of

Slice = Any
"""A Dataset of pydicom: a picture and what is said about it."""

PLACE = ("ImageOrientationPatient", "ImagePositionPatient")
"""Elements that say where a slice lies."""

FRAME_GROUPS = ("SharedFunctionalGroupsSequence", "PerFrameFunctionalGroupsSequence")
"""Elements in which enhanced files have what is said of all frames, and of each."""

SLICE_MAX_OFFSET = 0.01
"""By which part of their distance slices may lie off their place in an even series."""


def read(path: Path, variable: str | None = None, *, lazily: bool = False) -> Gridded:
    """A slice or the frames of a file; a folder's series."""
    return _read_series(path, variable) if path.is_dir() else _read_file(path)


def write(samples: Gridded, path: Path, *, colours: str | None = None) -> None:
    """Write a file, or a folder (its name ends in .dicom) with a file for every slice."""
    about, is_placed = samples.labels.header, samples.labels.affine is not None
    data, n = _derive_header(about, path), len(samples.dims)
    is_series = suffix_of(path) == ".dicom"
    if is_series and (n != 3 or not is_placed):
        raise ValueError(
            f"{path.name}: a DICOM series is a volume with a place in world space; got axes "
            f"{', '.join(samples.dims)}. Write a .dcm, .nii or .npy file instead."
        )
    values = _to_stored(samples, data, about)
    if is_series:
        _write_series(values, data, _steps(samples, path), path)
        return
    if about.get("series") and n != 2:
        raise ValueError(f"{path.name}: a volume goes to a folder; end its name in .dicom.")
    if is_placed:
        _set_position(data, _steps(samples, path), 0)
    elif "PixelSpacing" in data:
        both = zip(data.PixelSpacing, map(samples.line, samples.dims[-2:]))
        data.PixelSpacing = _to_text(abs(step_of(c)) if len(c) > 1 else old for old, c in both)
    _save(data, values, path)


def holds_series(folder: Path) -> bool:
    """Whether a folder has DICOM files in it."""
    return any(_is_dicom(p) for p in sorted(folder.iterdir())[:64])


def _is_dicom(path: Path) -> bool:
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(132)[128:] == b"DICM"


# --- one file -------------------------------------------------------------------------------------


def _read_file(path: Path) -> Gridded:
    pydicom = need("pydicom", "io", "reading DICOM files")
    with reading(path, "a DICOM picture"):
        data = pydicom.dcmread(path)
        values = _pixels(data)
    colour = int(data.get("SamplesPerPixel", 1)) > 1
    names = ("frame", "row", "column")[-(values.ndim - colour) :]
    affine = None
    if len(names) == 2 and _is_placed(data):  # its axes first, then that across it
        affine = _affine(data, np.array([data.ImagePositionPatient], float))[:, [1, 2, 0, 3]]
    about: Any = {"n_placed": 2, "channels": ChannelLabels(name="colour")}
    spacing = [float(s) for s in data.get("PixelSpacing", ())]
    return _make_samples(values, names, spacing, data, affine, about)


def _make_samples(
    values: Array, names: tuple[str, ...], spacing: Sequence[float], data: Slice,
    affine: Floats | None, about: Attrs, **header: bool,
) -> Gridded:  # fmt: skip
    """Samples at distances in millimetres along the last axes, and what the header of `data` is."""
    first = len(names) - len(spacing)
    every = zip(names[first:], values.shape[first:], spacing)
    at = {name: np.arange(n) * s for name, n, s in every}
    slope, shift = _rescale(data)
    labels = Labels(
        align="areas",
        affine=None if affine is None else affine.tolist(),
        space="LPS",
        axes={name: AxisLabels(attrs={"units": "mm"}) for name in at},
        header={"dicom": _header(data), "slope": slope, "shift": shift, **header},
        **about,
    )
    k = len(names) if values.ndim > len(names) else None
    return Gridded(values=values, dims=names, coords=at, channel_axis=k, labels=labels)


def _is_placed(data: Slice) -> bool:
    """Whether a slice says where it lies; headers may have the elements, and nothing in them."""
    along, place = ([float(v) for v in data.get(name) or ()] for name in PLACE)
    known = (len(along), len(place)) == (6, 3)
    return known and bool(np.linalg.norm(np.cross(along[:3], along[3:])) > 0.5)


def _rescale(data: Slice) -> tuple[float, float]:
    """Slope and intercept of the values; enhanced files have them for all frames, or for each."""
    groups = [g for name in FRAME_GROUPS for g in data.get(name, ())]
    every = [data, *(d for g in groups for d in g.get("PixelValueTransformationSequence", ()))]
    found = {
        (float(d.RescaleSlope), float(d.get("RescaleIntercept", 0)))
        for d in every
        if "RescaleSlope" in d
    }
    if len(found) > 1:
        raise UnreadableError("its frames have different scales, and cannot be one array.")
    return next(iter(found), (1.0, 0.0))


def _pixels(data: Slice) -> Array:
    """The values of a file as they are meant; whole numbers where nothing scales them."""
    slope, shift = _rescale(data)
    values: Array = data.pixel_array
    return values if (slope, shift) == (1.0, 0.0) else values * slope + shift


def _header(data: Slice) -> Attrs:
    """Metadata of a file: public elements, without large ones."""
    return {
        tag: element
        for tag, element in data.to_json_dict().items()
        if int(tag[:4], 16) % 2 == 0
        and not tag.startswith("7FE0")
        and element["vr"] not in ("OB", "OW", "OF", "OD", "OL", "UN")
    }


# --- a series -------------------------------------------------------------------------------------


def _read_series(folder: Path, variable: str | None) -> Gridded:
    pydicom = need("pydicom", "io", "reading DICOM files")
    with reading(folder, "a DICOM series"):
        files = [p for p in sorted(folder.iterdir()) if _is_dicom(p)]
        slices = _choose_series(folder, [pydicom.dcmread(p) for p in files], variable)
        slices, places = _sort_slices(folder, slices)
        _check_alike(folder, slices)
        values = np.stack([_pixels(d) for d in slices])
    affine = _affine(slices[0], places)
    names = ("slice", "row", "column")
    return _make_samples(values, names, spacing_of(affine), slices[0], affine, {}, series=True)


def _choose_series(folder: Path, found: list[Slice], variable: str | None) -> list[Slice]:
    """The slices of one series: the only one, or that of an identifier or description."""
    by: dict[str, list[Slice]] = {}
    for data in found:
        if "PixelData" in data:
            by.setdefault(str(data.get("SeriesInstanceUID", "")), []).append(data)
    if not by:
        raise UnreadableError(f"{folder.name} holds no DICOM pictures.")
    told = {uid: str(s[0].get("SeriesDescription", "")) for uid, s in by.items()}
    if variable is None and len(by) == 1:
        return next(iter(by.values()))
    chosen = [uid for uid in by if variable in (uid, told[uid])]
    if len(chosen) == 1:
        return by[chosen[0]]
    listed = ", ".join(f"{told[uid] or uid} ({len(s)} slices, {uid})" for uid, s in by.items())
    raise NoSuchArrayError(
        f"{folder.name} holds {len(by)} series: {listed}; "
        + ("say which one" if variable is None else f"none, or several, is {variable!r}; say one")
        + " by its description or identifier: variable=..., or --variable on the command line."
    )


def _sort_slices(folder: Path, slices: Sequence[Slice]) -> tuple[list[Slice], Floats]:
    """Slices in the order in which they follow each other, and where they lie, (n, 3)."""
    if without := [d for d in slices if not _is_placed(d)]:
        raise UnreadableError(
            f"{folder.name}: {len(without)} of {len(slices)} slices do not say where they lie "
            f"({', '.join(PLACE)}). Read single files instead."
        )
    at = np.array([d.ImagePositionPatient for d in slices], float)
    along = np.array(slices[0].ImageOrientationPatient, float)
    depth = at @ np.cross(along[:3], along[3:])
    order = np.argsort(depth, kind="stable")
    at, depth, slices = at[order], depth[order], [slices[i] for i in order]
    if len(at) < 3:
        return slices, at
    gaps = np.diff(depth)
    usual = float(np.median(gaps))
    if (gaps < 1e-4).any():
        raise UnreadableError(
            f"{folder.name}: slices lie at one place, {depth[:-1][gaps < 1e-4][0]:g} mm. "
            "The folder may hold several times or echoes; put each in a folder of its own."
        )
    off = np.flatnonzero(np.abs(gaps - usual) > SLICE_MAX_OFFSET * max(usual, 1e-6))
    if len(off):
        gap = gaps[off[0]]
        is_gap = abs(gap / usual - round(gap / usual)) < 0.05 and gap > 1.5 * usual
        what = "a slice is missing" if is_gap else "slices are not evenly spaced"
        raise UnreadableError(
            f"{folder.name}: {what}: slices {off[0] + 1} and {off[0] + 2} are {gap:g} mm apart, "
            f"most are {usual:g} mm. Add what is missing, or read the even part alone."
        )
    line = at[0] + np.linspace(0, 1, len(at))[:, None] * (at[-1] - at[0])
    if (far := np.abs(at - line).max()) > 10 * SLICE_MAX_OFFSET * usual:
        raise UnreadableError(
            f"{folder.name}: slices do not lie on a straight line, but up to {far:.3g} mm off it. "
            "Read single files instead."
        )
    return slices, at


def _check_alike(folder: Path, slices: Sequence[Slice]) -> None:
    """Refuse slices of different sizes, spacings or directions."""
    for name in ("Rows", "Columns", "PixelSpacing", "ImageOrientationPatient", "SamplesPerPixel"):
        own, *others = (np.array(data.get(name, 1), float) for data in slices)
        for other in others:
            if own.shape != other.shape or np.abs(own - other).max() > 1e-4:
                both = f"{own.tolist()} and {other.tolist()}"
                raise UnreadableError(f"{folder.name}: slices differ in {name}: {both}.")
    if int(slices[0].get("SamplesPerPixel", 1)) > 1:
        raise UnreadableError(f"{folder.name}: slices are coloured; read single files instead.")


def _affine(first: Slice, places: Floats) -> Floats:
    """From slice, row and column to millimetres in DICOM's world space; `places` of all slices."""
    along = np.array(first.ImageOrientationPatient, float)
    rows, columns = (float(s) for s in first.get("PixelSpacing", [1.0, 1.0]))
    affine = np.eye(4)
    if len(places) > 1:
        affine[:3, 0] = (places[-1] - places[0]) / (len(places) - 1)
    else:
        thick = float(first.get("SpacingBetweenSlices", first.get("SliceThickness", 1)) or 1)
        affine[:3, 0] = np.cross(along[:3], along[3:]) * thick
    affine[:3, 1], affine[:3, 2], affine[:3, 3] = along[3:] * rows, along[:3] * columns, places[0]
    return affine


# --- back to files --------------------------------------------------------------------------------


def _derive_header(about: Attrs, path: Path) -> Slice:
    """A header for what was made from a DICOM file: a new series, and it says so."""
    pydicom = need("pydicom", "io", "writing DICOM files")
    if "dicom" not in about:
        raise ValueError(
            f"{path.name}: a DICOM file can be written only from a model of a DICOM file, which "
            "keeps the patient's header. Write a .nii, .tif or .npy file instead."
        )
    data = pydicom.Dataset.from_json(about["dicom"])
    data.ImageType = ["DERIVED", "SECONDARY", *list(data.get("ImageType", []))[2:]]
    data.SeriesInstanceUID = pydicom.uid.generate_uid()
    return data


def _to_stored(samples: Gridded, data: Slice, about: Attrs) -> Array:
    """Values as whole numbers of the file's kind, its slope undone."""
    values = np.asarray(samples.values)
    if values.dtype.kind == "f":
        shift = about["shift"]
        values = np.round((np.nan_to_num(values, nan=shift) - shift) / about["slope"])
    signed = int(data.get("PixelRepresentation", 0))
    kind = np.dtype(f"{'i' if signed else 'u'}{1 if data.get('BitsAllocated') == 8 else 2}")
    values = np.clip(values, np.iinfo(kind).min, np.iinfo(kind).max).astype(kind)
    bits = 8 * kind.itemsize
    own = min(int(data.get("BitsStored", bits)), bits)
    data.BitsStored = bits if int(values.max(initial=0)) >= 1 << own or signed else own
    return values


def _save(data: Slice, pixels: Array, path: Path) -> None:
    """Write a header with its pixels under an identifier of its own."""
    colours = data.get("PhotometricInterpretation", "MONOCHROME2")
    if int(data.get("SamplesPerPixel", 1)) > 1:
        colours = "RGB"  # as pydicom gives them, whatever the file had
    data.set_pixel_data(np.ascontiguousarray(pixels), colours, data.BitsStored)
    data.file_meta.MediaStorageSOPClassUID = data.SOPClassUID
    data.save_as(path, enforce_file_format=True)


def _write_series(values: Array, data: Slice, frame: Floats, folder: Path) -> None:
    data.SpacingBetweenSlices = data.SliceThickness = f"{np.linalg.norm(frame[0]):.10g}"
    folder.mkdir()
    digits = max(4, len(str(len(values))))
    for i, pixels in enumerate(values):
        _set_position(data, frame, i)
        data.InstanceNumber = i + 1
        _save(data, pixels, folder / f"{i + 1:0{digits}d}.dcm")


def _steps(samples: Gridded, path: Path) -> Floats:
    """Steps to the next slice, row and column, and the place of the first pixel, (4, 3)."""
    affine = affine_of(samples.labels)
    order = (0, 1, 2, 3) if len(samples.dims) == 3 else (2, 0, 1, 3)  # of a plane the third is left
    _, down, right, _ = frame = affine[:3, order].T
    if abs(down @ right) > 1e-4 * np.linalg.norm(down) * np.linalg.norm(right):
        raise ValueError(f"{path.name}: rows and columns are not perpendicular; reslice it.")
    return frame


def _set_position(data: Slice, frame: Floats, i: int) -> None:
    """Say where slice i lies."""
    across, down, right, first = frame
    rows, columns = np.linalg.norm([down, right], axis=1)
    place = first + i * across
    normal = np.cross(right / columns, down / rows)
    data.ImagePositionPatient = _to_text(place)
    data.ImageOrientationPatient = _to_text([*(right / columns), *(down / rows)])
    data.PixelSpacing = _to_text([rows, columns])
    data.SliceLocation = f"{float(place @ normal):.10g}"


def _to_text(values: Iterable[float]) -> list[str]:
    """Numbers as DICOM writes them, in at most 16 characters."""
    return [f"{v:.10g}" if math.isfinite(v) else "0" for v in map(float, values)]
