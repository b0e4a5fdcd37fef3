"""Numbers of any dtype come back from a file, or are refused: none is another one afterwards."""

import numpy as np
import pytest

from elmfield import read, write

NEEDS = {
    ".tif": "tifffile", ".nc": "netCDF4", ".zarr": "zarr", ".nii": "nibabel", ".mgz": "nibabel",
    ".mha": "SimpleITK", ".nrrd": "SimpleITK", ".mat": "scipy", ".wav": "soundfile",
    ".flac": "soundfile",
}  # fmt: skip
DTYPES = ("bool", "uint8", "int32", "int64", "uint64", "float16", "float64", "complex128")
ONE_AXIS = (".wav", ".flac")
WIDE = "whole numbers of a scan are at most those of int32"
REFUSED = {
    (".nc", "complex128"): "NetCDF has no complex numbers",
    (".mgz", "complex128"): "MGH has no complex numbers",
    **{(s, dtype): WIDE for s in (".nii", ".mgz") for dtype in ("int64", "uint64")},
    **{(s, dtype): "dtype must be one of" for s in ONE_AXIS for dtype in DTYPES[:2] + DTYPES[3:6]},
    **{(s, "complex128"): "dtype must be one of" for s in ONE_AXIS},
}


def numbers(dtype, shape, rng):
    """Numbers from all over a dtype's range; of sound and floats from -1 to 1."""
    kind = np.dtype(dtype)
    if kind.kind in "iu":
        ends = np.iinfo(kind)
        return rng.integers(ends.min, ends.max, shape, dtype=kind, endpoint=True)
    made = rng.uniform(-1, 1, shape)
    if kind.kind == "b":
        return made > 0
    return (made + 1j * made[::-1] if kind.kind == "c" else made).astype(kind)


@pytest.mark.parametrize("suffix", NEEDS)
def test_numbers_of_every_dtype_come_back_or_are_refused(suffix, tmp_path, rng):
    pytest.importorskip(NEEDS[suffix])
    shape, path = (60,) if suffix in ONE_AXIS else (6, 7, 8), tmp_path / f"x{suffix}"
    for dtype in DTYPES:
        values = numbers(dtype, shape, rng)
        if (suffix, dtype) in REFUSED:
            with pytest.raises(ValueError, match=REFUSED[suffix, dtype]):
                write(values, path)
            continue
        write(values, path)
        back = np.asarray(read(path).values)
        if suffix == ".mha" and values.dtype.kind == "c":  # whose parts are two channels there
            back = back @ [1, 1j]
        most = np.abs(values.astype(complex)).max()
        if suffix == ".flac" and values.dtype.kind == "f":  # which it has as whole numbers
            back = back / 2.0**15
        lost = 2.0**-14 if suffix == ".flac" else 1e-6
        assert np.abs(back - values.astype(complex)).max() <= lost * most, dtype


@pytest.mark.parametrize(
    ("suffix", "few"),
    [(".tif", "two axes or more"), (".mha", "two to four"), (".nrrd", "two to four")],
)
def test_arrays_of_any_number_of_axes_come_back_or_are_refused(suffix, few, tmp_path, rng):
    pytest.importorskip(NEEDS[suffix])
    path = tmp_path / f"x{suffix}"
    for shape in ((5, 1), (2, 3, 4), (2, 1, 4, 5), (2, 3, 4, 5)):
        values = rng.integers(0, 255, shape, dtype=np.uint8)
        write(values, path)
        assert np.array_equal(read(path).values, values)
    with pytest.raises(ValueError, match=few):
        write(np.arange(7), path)
