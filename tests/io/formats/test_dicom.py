"""DICOM series: one volume, its place, and back under new identifiers."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import elmfield as ef
from elmfield.cli import cli
from elmfield.io.files import UnreadableError

pydicom = pytest.importorskip("pydicom")

ORIENTATION = [0.96, 0.28, 0.0, -0.21, 0.72, 0.6614378277661477]
"""Of rows and columns: an oblique plane."""

STEP, ROWS, COLUMNS = 2.5, 0.8, 0.7


def make(folder, n=20, *, skip=(), shift=None, slope=2.0, uid="1.2.3.4", size=(24, 28), place=None):
    """A series as a scanner writes one, its files in no order; the volume it stands for."""
    folder.mkdir(exist_ok=True)
    along = np.asarray(ORIENTATION)
    normal = np.cross(along[:3], along[3:])
    k, i, j = np.mgrid[0:n, 0 : size[0], 0 : size[1]]
    values = np.round(500 + 400 * np.sin(0.2 * i + 0.1 * k) * np.cos(0.15 * j)).astype(np.uint16)
    for s in range(n):
        if s in skip:
            continue
        data = pydicom.Dataset()
        data.SOPClassUID = pydicom.uid.MRImageStorage
        data.SOPInstanceUID = pydicom.uid.generate_uid()
        data.SeriesInstanceUID, data.StudyInstanceUID = uid, "1.2.3"
        data.SeriesDescription, data.Modality = f"scan {uid[-1]}", "MR"
        data.PatientName, data.PatientID = "Doe^Jo", "7"
        data.ImageOrientationPatient = [f"{v:.12g}" for v in ORIENTATION]
        at = np.array([-30.0, 40.0, 12.0]) + normal * STEP * s
        if shift is not None and s >= n // 2:
            at = at + normal * shift
        if place is not None:
            at = np.asarray(place)
        data.ImagePositionPatient = [f"{v:.10g}" for v in at]
        data.PixelSpacing = [ROWS, COLUMNS]
        data.InstanceNumber = n - s
        data.Rows, data.Columns = size
        data.SamplesPerPixel, data.PhotometricInterpretation = 1, "MONOCHROME2"
        data.BitsAllocated, data.BitsStored, data.HighBit = 16, 12, 11
        data.PixelRepresentation = 0
        data.RescaleSlope, data.RescaleIntercept = slope, -1000.0 if slope != 1 else 0
        data.file_meta = pydicom.dataset.FileMetaDataset()
        data.file_meta.TransferSyntaxUID = pydicom.uid.ExplicitVRLittleEndian
        data.PixelData = values[s].tobytes()
        data.save_as(folder / f"{uid[-1]}{(s * 7) % n:03d}.dcm", enforce_file_format=True)
    return values * slope + (-1000.0 if slope != 1 else 0)


@pytest.fixture
def series(tmp_path):
    return tmp_path / "series", make(tmp_path / "series")


def test_a_series_is_one_volume(series):
    folder, values = series
    samples = ef.read(folder)
    assert samples.dims == ("slice", "row", "column")
    assert_allclose(samples.values, values)
    world = ef.fit(samples).world
    assert world.space == "LPS"
    assert_allclose(world.spacing, (STEP, ROWS, COLUMNS), rtol=1e-6)
    along = np.asarray(ORIENTATION)
    normal = np.cross(along[:3], along[3:])
    at = [-30, 40, 12] + normal * STEP * 7 + along[3:] * ROWS * 5 + along[:3] * COLUMNS * 9
    assert_allclose(world(at), values[7, 5, 9], atol=1e-3)


@pytest.mark.thorough
def test_there_and_back_by_pydicom_and_simpleitk(series, tmp_path):
    folder, values = series
    field = ef.fit(folder)
    ef.write(field, tmp_path / "same.dicom")
    back = ef.read(tmp_path / "same.dicom")
    assert_allclose(back.values, values, atol=1.0)  # half a step of the slope
    assert_allclose(back.labels.affine, ef.read(folder).labels.affine, atol=1e-5)

    ef.write(field, tmp_path / "even.dicom", spacing=1.0)
    files = sorted((tmp_path / "even.dicom").iterdir())
    new, shape = field.world.isotropic(1.0)
    assert len(files) == shape[0] == 50
    first, old = pydicom.dcmread(files[0]), pydicom.dcmread(sorted(folder.iterdir())[0])
    assert (first.Rows, first.Columns) == shape[1:]
    assert [float(v) for v in first.PixelSpacing] == [1, 1]
    assert_allclose([float(v) for v in first.ImagePositionPatient], new[:3, 3], atol=1e-6)
    assert_allclose([float(v) for v in first.ImageOrientationPatient], ORIENTATION, atol=1e-6)
    assert first.SeriesInstanceUID != old.SeriesInstanceUID
    assert first.StudyInstanceUID == old.StudyInstanceUID
    assert first.ImageType[0] == "DERIVED"
    assert len({pydicom.dcmread(f).SOPInstanceUID for f in files}) == 50
    assert len({pydicom.dcmread(f).SeriesInstanceUID for f in files}) == 1

    sitk = pytest.importorskip("SimpleITK")
    reader = sitk.ImageSeriesReader()
    reader.SetFileNames(reader.GetGDCMSeriesFileNames(str(tmp_path / "even.dicom")))
    image = reader.Execute()
    assert image.GetSize() == shape[::-1]
    assert_allclose(image.GetSpacing(), (1, 1, 1), atol=1e-5)
    assert_allclose(image.GetOrigin(), new[:3, 3], atol=1e-5)
    found = ef.read(tmp_path / "even.dicom")
    assert_allclose(sitk.GetArrayFromImage(image), found.values, atol=1e-6)
    inner = field.world.reslice(new, shape)
    assert_allclose(found.values, inner, atol=1.01)


def test_a_series_as_nifti_lies_in_the_same_place(series, tmp_path):
    nibabel = pytest.importorskip("nibabel")
    field = ef.fit(series[0])
    ef.write(field, tmp_path / "x.nii.gz")
    image = nibabel.load(tmp_path / "x.nii.gz")
    flip = np.diag([-1.0, -1, 1, 1])
    assert_allclose(image.affine, flip @ field.world.affine, atol=1e-4)
    assert "".join(nibabel.aff2axcodes(image.affine)) == field.world.orientation


@pytest.mark.thorough
def test_the_command_line_takes_a_folder(series, tmp_path):
    model, out = tmp_path / "x.elm", tmp_path / "y.dicom"
    cli.main(["fit", str(series[0]), "-o", str(model), "-q"], standalone_mode=False)
    render = ["render", str(model), "-o", str(out), "--spacing", "2mm", "-q"]
    cli.main(render, standalone_mode=False)
    assert_allclose(ef.fit(out).world.spacing, (2, 2, 2), rtol=1e-6)


def test_several_series_in_one_folder(tmp_path):
    make(tmp_path / "x", 5, uid="1.2.3.5")
    make(tmp_path / "x", 6, uid="1.2.3.6")
    with pytest.raises(ValueError, match=r"holds 2 series: scan 5 \(5 slices.*variable="):
        ef.read(tmp_path / "x")
    assert ef.read(tmp_path / "x", variable="scan 6").shape[0] == 6
    assert ef.read(tmp_path / "x", variable="1.2.3.5").shape[0] == 5
    with pytest.raises(ValueError, match="is 'scan 9'; say one"):
        ef.read(tmp_path / "x", variable="scan 9")


def test_whole_numbers_stay_whole(tmp_path):
    make(tmp_path / "x", 6, slope=1.0)
    samples = ef.read(tmp_path / "x")
    assert samples.values.dtype == np.uint16
    away = np.asarray(samples.labels.affine)
    away[:3, 3] -= 20 * away[:3, 1]
    field = ef.fit(samples)
    ef.write(field, tmp_path / "y.dicom", affine=away, shape=(4, 30, 28))
    found = ef.read(tmp_path / "y.dicom").values
    assert found[:, :19].max() == samples.values.min()  # outside the scan: its least value


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"skip": (7,)}, "a slice is missing: slices 7 and 8 are 5 mm apart, most are 2.5 mm"),
        ({"shift": 0.7}, "slices are not evenly spaced: slices 10 and 11 are 3.2 mm apart"),
        ({"place": (1.0, 2.0, 3.0)}, "slices lie at one place, .*folder of its own"),
    ],
)
def test_uneven_series_say_what_is_wrong(tmp_path, how, message):
    make(tmp_path / "x", **how)
    with pytest.raises(UnreadableError, match=message):
        ef.read(tmp_path / "x")


def test_slices_of_different_kinds(tmp_path):
    make(tmp_path / "x", 5)
    make(tmp_path / "y", 1, size=(20, 28))
    (tmp_path / "y" / "4000.dcm").rename(tmp_path / "x" / "9.dcm")
    data = pydicom.dcmread(tmp_path / "x" / "9.dcm")
    data.ImagePositionPatient = [
        f"{v:.10g}"
        for v in np.array([-30.0, 40, 12]) - 2.5 * np.cross(ORIENTATION[:3], ORIENTATION[3:])
    ]
    data.save_as(tmp_path / "x" / "9.dcm")
    with pytest.raises(UnreadableError, match=r"slices differ in Rows: "):
        ef.read(tmp_path / "x")
    data = pydicom.dcmread(tmp_path / "x" / "9.dcm")
    del data.ImagePositionPatient
    data.save_as(tmp_path / "x" / "9.dcm")
    with pytest.raises(UnreadableError, match="1 of 6 slices do not say where they lie"):
        ef.read(tmp_path / "x")


def test_what_cannot_be_a_series(tmp_path):
    with pytest.raises(ValueError, match="only from a model of a DICOM file"):
        ef.write(ef.fit(np.random.default_rng(0).random((8, 8, 8))), tmp_path / "x.dicom")
    make(tmp_path / "s", 6)
    field = ef.fit(tmp_path / "s")
    with pytest.raises(ValueError, match=r"goes to a folder; end its name in \.dicom"):
        ef.write(field, tmp_path / "x.dcm")
    sheared = np.array(field.world.affine)
    sheared[:3, 1] += sheared[:3, 2]
    with pytest.raises(ValueError, match="rows and columns are not perpendicular"):
        ef.write(field, tmp_path / "x.dicom", affine=sheared, shape=(3, 4, 4))
    assert not (tmp_path / "x.dicom").exists()


@pytest.mark.thorough
def test_even_voxels_with_their_mask_lie_where_simpleitk_has_them(series, tmp_path):
    """Slices in any order to one NIfTI of even voxels, and a mask on the same grid."""
    sitk, nibabel = pytest.importorskip("SimpleITK"), pytest.importorskip("nibabel")
    folder, values = series
    reader = sitk.ImageSeriesReader()
    reader.SetFileNames(reader.GetGDCMSeriesFileNames(str(folder)))
    original = reader.Execute()
    marked = np.where(values > 0, np.where(values > 400, 3, 1), 0).astype(np.uint8)
    mask = sitk.GetImageFromArray(marked)
    mask.CopyInformation(original)
    sitk.WriteImage(mask, str(tmp_path / "mask.nii.gz"))

    scan = ef.fit(folder)
    ef.write(scan, tmp_path / "even.nii.gz", spacing=1)
    ef.write(ef.fit(tmp_path / "mask.nii.gz"), tmp_path / "marked.nii.gz", like=scan)
    ef.write(ef.fit(tmp_path / "mask.nii.gz"), tmp_path / "fine.nii.gz",
             like=tmp_path / "even.nii.gz")  # fmt: skip

    even, same, fine = (
        sitk.ReadImage(str(tmp_path / f"{name}.nii.gz")) for name in ("even", "marked", "fine")
    )
    assert_allclose(even.GetSpacing(), (1, 1, 1), atol=1e-5)
    assert fine.GetSize() == even.GetSize()
    assert_allclose(fine.GetOrigin(), even.GetOrigin(), atol=1e-4)
    assert set(np.unique(sitk.GetArrayFromImage(fine))) == {0, 1, 3}
    assert "int" in fine.GetPixelIDTypeAsString()
    # At the same places as SimpleITK's own resampling of the slices, and of the mask.
    own = sitk.Resample(original, even, sitk.Transform(), sitk.sitkBSpline, np.nan)
    found, theirs = sitk.GetArrayFromImage(even), sitk.GetArrayFromImage(own)
    inner = (slice(5, -5),) * 3
    assert np.abs(found - theirs)[inner].max() < 0.02 * np.ptp(values)
    nearest = sitk.Resample(mask, even, sitk.Transform(), sitk.sitkNearestNeighbor, 0)
    differ = sitk.GetArrayFromImage(nearest) != sitk.GetArrayFromImage(fine)
    assert differ[inner].mean() < 0.05
    back = sitk.Resample(same, original, sitk.Transform(), sitk.sitkNearestNeighbor, 0)
    assert (sitk.GetArrayFromImage(back) == marked).mean() > 0.999
    assert scan.resize(spacing=1).shape == nibabel.load(tmp_path / "even.nii.gz").shape


def test_a_single_slice_keeps_its_place(series, tmp_path):
    sitk = pytest.importorskip("SimpleITK")
    folder, _ = series
    path = sorted(folder.iterdir())[3]
    old = pydicom.dcmread(path)
    place = np.array(old.ImagePositionPatient, float)
    along = np.array(old.ImageOrientationPatient, float)
    field = ef.fit(path)
    ef.write(field, tmp_path / "half.dcm", scale=0.5)
    made = pydicom.dcmread(tmp_path / "half.dcm")
    assert_allclose(np.array(made.PixelSpacing, float), (2 * ROWS, 2 * COLUMNS))
    moved = place + (along[3:] * ROWS + along[:3] * COLUMNS) / 2
    assert_allclose(np.array(made.ImagePositionPatient, float), moved, atol=1e-6)
    assert_allclose(np.array(made.ImageOrientationPatient, float), along, atol=1e-6)
    for name in ("x.mha", "x.nii"):  # where ITK has the file itself
        ef.write(field, tmp_path / name)
        found, own = sitk.ReadImage(str(tmp_path / name)), sitk.ReadImage(str(path))
        for at in ((0, 0, 0), (20, 11, 0)):
            here = at if name == "x.mha" else (at[1], at[0], 0)  # NIfTI's first axis is the first
            assert_allclose(
                found.TransformIndexToPhysicalPoint(here),
                own.TransformIndexToPhysicalPoint(at),
                atol=1e-4,
            )


@pytest.mark.parametrize(("name", "said"), [("Position", None), ("Orientation", [0] * 6)])
def test_a_slice_that_says_nothing_of_its_place(series, tmp_path, name, said):
    path = sorted(series[0].iterdir())[3]
    data = pydicom.dcmread(path)
    setattr(data, f"Image{name}Patient", said)
    data.save_as(path)
    field = ef.fit(path)
    assert field.labels.affine is None
    ef.write(field, tmp_path / "half.dcm", scale=0.5)
    spacing = pydicom.dcmread(tmp_path / "half.dcm").PixelSpacing
    assert_allclose(np.array(spacing, float), (2 * ROWS, 2 * COLUMNS))
    with pytest.raises(UnreadableError, match="1 of 20 slices do not say where they lie"):
        ef.read(series[0])


def test_colours_are_written_as_the_colours_they_were_read_as(tmp_path):
    """A file may hold brightness and hue; its pixels are red, green and blue once they are read."""
    make(tmp_path / "series", 1, slope=1.0)
    data = pydicom.dcmread(next((tmp_path / "series").iterdir()))
    y, x = np.mgrid[0:24, 0:28]
    hue = np.stack([60 + 5 * y, 128 + 2 * x, 100 + x + y], axis=-1).astype(np.uint8)
    data.set_pixel_data(hue, "YBR_FULL", 8)
    data.save_as(tmp_path / "x.dcm", enforce_file_format=True)
    colours = ef.read(tmp_path / "x.dcm")
    assert not np.array_equal(colours.values, hue)
    ef.write(colours, tmp_path / "y.dcm")
    assert np.array_equal(ef.read(tmp_path / "y.dcm").values, colours.values)
    assert np.array_equal(pydicom.dcmread(tmp_path / "y.dcm").pixel_array, colours.values)


@pytest.mark.parametrize(
    "slopes", [(3.0,), (3.0, 3.0), (3.0, 4.0)], ids=["shared", "each", "unlike"]
)
def test_frames_of_enhanced_files_are_scaled(tmp_path, slopes):
    """Slope and intercept lie in groups of elements there."""
    stored = make(tmp_path / "s", 1, slope=1)[0].astype(np.uint16)
    data = pydicom.dcmread(next((tmp_path / "s").iterdir()))
    del data.RescaleSlope, data.RescaleIntercept
    groups = []
    for slope in slopes:
        scale, group = pydicom.Dataset(), pydicom.Dataset()
        scale.RescaleSlope, scale.RescaleIntercept = slope, -1000.0
        group.PixelValueTransformationSequence = [scale]
        groups.append(group)
    name = "Shared" if len(slopes) == 1 else "PerFrame"
    setattr(data, f"{name}FunctionalGroupsSequence", groups)
    data.NumberOfFrames, data.PixelData = 2, stored.tobytes() * 2
    data.save_as(tmp_path / "two.dcm", enforce_file_format=True)
    if slopes == (3.0, 4.0):
        with pytest.raises(UnreadableError, match="frames have different scales"):
            ef.read(tmp_path / "two.dcm")
    else:
        assert_allclose(ef.read(tmp_path / "two.dcm").values, np.stack([3.0 * stored - 1000] * 2))
