"""Volumes with a place in the scanner."""

import sys
import types

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import elmfield as ef
from elmfield import read, write
from elmfield.field.adapters.affine import spacing_of
from elmfield.io.export.rendering import Rendering
from elmfield.io.gridded import Gridded
from scans import AFFINES, places, scan, truth

RNG = np.random.default_rng(0)


def test_volumes_keep_their_affine_at_another_resolution(tmp_path):
    pytest.importorskip("nibabel")
    affine = [[-2.0, 0.1, 0, 90], [0, 2.5, 0.2, -120], [0.1, 0, 3, -70], [0, 0, 0, 1]]
    about = ef.Labels(affine=affine, align="areas")
    zooms = np.linalg.norm(np.asarray(affine)[:3, :3], axis=0)
    at = {name: np.arange(n) * z for name, n, z in zip("ijk", (16, 18, 14), zooms)}
    values = RNG.random((16, 18, 14))
    samples = Gridded(values=values, dims=("i", "j", "k"), coords=at, labels=about)
    field = ef.fit(samples)
    write(Rendering(field=field).on(ef.OutputGrid(scale=2)), tmp_path / "x.nii.gz")
    new = np.asarray(read(tmp_path / "x.nii.gz").labels.affine)
    assert_allclose(new[:, :3], np.asarray(affine)[:, :3] / 2, atol=1e-6)
    # The outer corner of the first voxel is where it was.
    assert_allclose(
        new @ [-0.5, -0.5, -0.5, 1], affine @ np.asarray([-0.5, -0.5, -0.5, 1]), atol=1e-5
    )


@pytest.mark.parametrize("way", ["sform", "qform only"])
@pytest.mark.parametrize("kind", range(9))
def test_nine_affines_through_files(tmp_path, kind, way):
    """Read, reslice, write: nibabel finds the affine and the axes' directions, and the values."""
    nibabel = pytest.importorskip("nibabel")
    affine = AFFINES[kind]
    values = truth(places(affine, (20, 18, 16))).astype(np.float32)
    image = nibabel.Nifti1Image(values, affine)
    if way == "qform only":
        image.set_qform(affine, code=1)
        image.set_sform(None, code=0)
    nibabel.save(image, tmp_path / "x.nii.gz")
    field = ef.fit(tmp_path / "x.nii.gz")
    assert_allclose(field.world.affine, affine, atol=1e-4)
    assert field.world.orientation == "".join(nibabel.aff2axcodes(affine))
    ef.write(field, tmp_path / "same.nii.gz")
    ef.write(field, tmp_path / "even.nii.gz", spacing=1.5)
    same, even = (nibabel.load(tmp_path / f"{name}.nii.gz") for name in ("same", "even"))
    assert_allclose(same.affine, affine, atol=1e-4)
    assert int(same.header["sform_code"]) == (0 if way == "qform only" else 2)
    assert_allclose(np.asarray(same.dataobj), values, atol=1e-5)
    assert_allclose(even.header.get_zooms(), 1.5, rtol=1e-5)
    assert nibabel.aff2axcodes(even.affine) == nibabel.aff2axcodes(affine)
    inner = (slice(4, -4),) * 3
    wanted = truth(places(even.affine, even.shape))[inner]
    assert_allclose(np.asarray(even.dataobj)[inner], wanted, atol=5e-3)  # of the default


def test_like_another_scan(tmp_path):
    nibabel = pytest.importorskip("nibabel")
    here, there = AFFINES[1], AFFINES[-1].copy()
    there[:3, 3] = here[:3, :3] @ [9, 8, 7] + here[:3, 3] - there[:3, :3] @ [3, 3, 3]
    for name, affine, shape in (("a", here, (20, 18, 16)), ("b", there, (7, 8, 6))):
        nibabel.save(
            nibabel.Nifti1Image(truth(places(affine, shape)).astype(np.float32), affine),
            tmp_path / f"{name}.nii",
        )
    field = ef.fit(tmp_path / "a.nii", ef.smooth(order=6))
    ef.write(field, tmp_path / "c.nii", like=tmp_path / "b.nii", antialias=False)
    image = nibabel.load(tmp_path / "c.nii")
    assert_allclose(image.affine, there, atol=1e-5)
    found, wanted = np.asarray(image.dataobj), truth(places(there, (7, 8, 6)))
    assert np.isfinite(found).mean() > 0.8
    assert_allclose(found, np.where(np.isnan(found), np.nan, wanted), atol=2e-3)


@pytest.mark.parametrize("affine", [AFFINES[1], AFFINES[4], AFFINES[-1]])
def test_a_missing_background_stays_missing(tmp_path, affine):
    nibabel = pytest.importorskip("nibabel")
    values = truth(places(affine, (16, 14, 12))).astype(np.float32)
    values[:4] = np.nan
    nibabel.save(nibabel.Nifti1Image(values, affine), tmp_path / "x.nii")
    field = ef.fit(tmp_path / "x.nii")
    fine = affine @ np.diag([0.5, 0.5, 0.5, 1.0])
    fine[:3, 3] = affine[:3, :3] @ np.full(3, -0.25) + affine[:3, 3]
    nibabel.save(nibabel.Nifti1Image(np.zeros((32, 28, 24), np.float32), fine), tmp_path / "y.nii")
    ways = {
        "as it is": {},
        "scale": {"scale": 2},
        "spacing": {"spacing": [0.5 * s for s in spacing_of(affine)]},
        "like": {"like": tmp_path / "y.nii"},
        "affine": {"affine": fine, "shape": (32, 28, 24)},
    }
    for way, how in ways.items():
        ef.write(field, tmp_path / "z.nii", **how)
        found = np.asarray(nibabel.load(tmp_path / "z.nii").dataobj)
        assert np.isnan(found).mean() == 0.25, way
        assert np.isnan(found[: len(found) // 4]).all(), way
        ef.write(field, tmp_path / "z.nii", missing="fill", **how)
        assert np.isfinite(np.asarray(nibabel.load(tmp_path / "z.nii").dataobj)).all(), way
    assert np.isnan(field.world.reslice(fine, (32, 28, 24))).mean() == 0.25
    at = places(affine, (16, 14, 12))
    assert np.array_equal(np.isnan(field.world(at)), np.isnan(values))


@pytest.mark.parametrize("kind", ["Nifti1Image", "Nifti2Image", "MGHImage"])
def test_images_of_nibabel_bring_their_place(tmp_path, kind):
    nibabel = pytest.importorskip("nibabel")
    affine, shape = AFFINES[-1], (12, 10, 9)
    image = getattr(nibabel, kind)(truth(places(affine, shape)).astype(np.float32), affine)
    found = ef.fit(image)
    nibabel.save(nibabel.Nifti1Image.from_image(image), tmp_path / "x.nii")
    wanted = ef.fit(tmp_path / "x.nii")
    assert found.domain.dims == ("i", "j", "k")
    assert_allclose(found.world.affine, wanted.world.affine, atol=1e-5)
    assert_allclose(found.world.spacing, spacing_of(affine), rtol=1e-5)
    assert_allclose(found.samples(), wanted.samples())
    ef.write(image, tmp_path / "y.nii")
    assert_allclose(nibabel.load(tmp_path / "y.nii").affine, affine, atol=1e-4)
    ef.write(ef.fit(scan(AFFINES[1])), tmp_path / "z.nii", like=image)
    assert_allclose(nibabel.load(tmp_path / "z.nii").affine, affine, atol=1e-4)


class Image:
    """What an image of SimpleITK tells about itself; its array has the axes in opposite order."""

    __module__ = "SimpleITK.SimpleITK"

    def __init__(self, values, spacing, origin, direction):
        self.values, self.told = values, (tuple(spacing), tuple(origin), tuple(direction))

    def GetSpacing(self):
        return self.told[0]

    def GetOrigin(self):
        return self.told[1]

    def GetDirection(self):
        return self.told[2]


@pytest.fixture(params=["SimpleITK", "a stand-in"])
def itk(request, monkeypatch):
    """Makes images of SimpleITK from an array in its order, spacing, origin and direction."""
    if request.param == "a stand-in":
        library = types.SimpleNamespace(GetArrayFromImage=lambda image: image.values)
        monkeypatch.setitem(sys.modules, "SimpleITK", library)
        return Image
    sitk = pytest.importorskip("SimpleITK")

    def image(values, spacing, origin, direction):
        made = sitk.GetImageFromArray(values, isVector=values.ndim > len(spacing))
        made.SetSpacing(list(map(float, spacing)))
        made.SetOrigin(list(map(float, origin)))
        made.SetDirection(list(map(float, direction)))
        return made

    return image


def test_images_of_simpleitk_bring_their_place(itk):
    affine, shape = AFFINES[-2], (12, 10, 9)
    values = truth(places(affine, shape))
    lps = np.diag([-1.0, -1.0, 1.0]) @ affine[:3]
    zooms = spacing_of(affine)
    image = itk(values.transpose(2, 1, 0).copy(), zooms, lps[:, 3], (lps[:, :3] / zooms).ravel())
    field = ef.fit(image, ef.smooth(order=6))
    assert (field.shape, field.domain.dims) == ((9, 10, 12), ("slice", "row", "column"))
    assert_allclose(field.world.spacing, zooms[::-1], rtol=1e-9)
    assert field.world.space == "LPS"
    at = places(affine, shape)[3:9, 2:8, 4:6].reshape(-1, 3) + 0.3
    assert_allclose(field.world(at * [-1, -1, 1]), truth(at), atol=2e-3)  # of the default's kind
    flat = ef.fit(itk(RNG.random((7, 8)), (0.5, 2.0), (0, 0), np.eye(2).ravel()))
    assert_allclose(flat([2.0, 0.5]), flat.samples()[1, 1])
    with pytest.raises(ValueError, match="does not know where its samples lie in world space"):
        _ = ef.fit(RNG.random((4, 4, 4))).world.affine
    coloured = itk(RNG.random((6, 7, 3)), (1, 1), (0, 0), np.eye(2).ravel())
    assert ef.fit(coloured).model.n_channels == 3
    series = itk(RNG.random((5, 6, 7, 8)), (1, 2, 3, 0.5), (9, 8, 7, 0), np.eye(4).ravel())
    moving = ef.fit(series)
    assert (moving.shape, moving.domain.dims[3]) == ((6, 7, 8, 5), "t")
    assert_allclose(moving.world.affine[:3], [[0, 0, 1, 9], [0, 2, 0, 8], [3, 0, 0, 7]])
    assert moving.domain.axes[3].step == 0.5


def test_volumes_in_time(tmp_path):
    nibabel = pytest.importorskip("nibabel")
    values = RNG.random((9, 8, 7, 12)).astype(np.float32)
    image = nibabel.Nifti1Image(values, np.diag([2.0, 2, 3, 1]))
    image.header.set_xyzt_units("mm", "sec")
    image.header.set_zooms((2, 2, 3, 1.5))
    image.header["toffset"] = 4.0
    nibabel.save(image, tmp_path / "x.nii.gz")
    samples = read(tmp_path / "x.nii.gz")
    assert samples.dims == ("i", "j", "k", "t")
    assert_allclose(samples.coords["t"], 4 + 1.5 * np.arange(12))
    ef.write(ef.fit(samples), tmp_path / "y.nii.gz", spacing=2.0)
    back = nibabel.load(tmp_path / "y.nii.gz")
    assert back.shape[3] == 12
    assert_allclose(back.header.get_zooms(), (2, 2, 2, 1.5), rtol=1e-6)
    assert float(back.header["toffset"]) == 4
    assert back.header.get_xyzt_units() == ("mm", "sec")


@pytest.mark.parametrize("n_times", [1, 4])
def test_components_of_vectors_are_channels(n_times, tmp_path):
    """NIfTI has them on the fifth axis, after time."""
    nibabel = pytest.importorskip("nibabel")
    values = RNG.random((10, 11, 12, n_times, 3)).astype(np.float32)
    image = nibabel.Nifti1Image(values, np.diag([2.0, 2, 3, 1]))
    image.header["intent_code"] = 1006
    nibabel.save(image, tmp_path / "x.nii.gz")
    samples = read(tmp_path / "x.nii.gz")
    assert samples.dims == ("i", "j", "k", "t")[: 3 if n_times == 1 else 4]
    field = ef.fit(samples)
    assert field.model.n_channels == 3
    assert field.model.channel_axis == len(samples.dims)
    assert_array_equal(field.samples(), values[:, :, :, 0] if n_times == 1 else values)
    ef.write(field, tmp_path / "y.nii.gz")
    back = nibabel.load(tmp_path / "y.nii.gz")
    assert back.shape == values.shape
    assert_array_equal(np.asarray(back.dataobj), values)
    assert int(back.header["intent_code"]) == 1006
    assert_allclose(back.affine, image.affine)


def test_channels_of_other_files_are_components(tmp_path):
    nibabel = pytest.importorskip("nibabel")
    values = RNG.random((6, 7, 2)).astype(np.float32)
    ef.write(values, tmp_path / "x.nii", channel_axis=-1)
    back = nibabel.load(tmp_path / "x.nii")
    assert back.shape == (6, 7, 1, 1, 2)
    assert back.header.get_intent()[0] == "vector"
    assert read(tmp_path / "x.nii").channel_axis == 3


def test_scans_and_other_questions_do_not_mix(tmp_path):
    field = ef.fit(scan(AFFINES[0]))
    with pytest.raises(ValueError, match="say `spacing` or `scale`, not both"):
        ef.write(field, tmp_path / "x.nii", spacing=1, scale=2)
    with pytest.raises(ValueError, match="`spacing` is for values; got quantity='gradient'"):
        ef.write(field, tmp_path / "x.nii", spacing=1, quantity="gradient")
    with pytest.raises(ValueError, match="an `affine` needs the `shape` of the new grid"):
        ef.write(field, tmp_path / "x.nii", affine=np.eye(4))
    with pytest.raises(ValueError, match="does not know where its samples lie in world space"):
        ef.write(ef.fit(RNG.random((6, 6, 6))), tmp_path / "x.nii", spacing=1)


ROOMS = {
    "plane": ((7, 8), (0.5, 2.0), (3.0, -4.0), np.eye(2)),
    "volume": ((4, 5, 6), (0.5, 2.0, 3.0), (3.0, -4.0, 9.0), None),
    "vectors": ((4, 5, 6, 3), (1.0, 2.0, 3.0), (0.0, 1.0, 2.0), None),
    "series": ((3, 4, 5, 6), (1.0, 2.0, 3.0, 0.5), (0.0, 1.0, 2.0, 0.0), np.eye(4)),
}


@pytest.mark.parametrize("suffix", [".mha", ".mhd", ".nrrd"])
@pytest.mark.parametrize("kind", ROOMS)
def test_files_of_itk_keep_their_place(tmp_path, kind, suffix):
    sitk = pytest.importorskip("SimpleITK")
    shape, spacing, origin, direction = ROOMS[kind]
    if direction is None:  # oblique
        direction = np.linalg.qr(np.random.default_rng(3).standard_normal((3, 3)))[0]
    image = sitk.GetImageFromArray(RNG.random(shape), isVector=len(shape) > len(spacing))
    image.SetSpacing(spacing)
    image.SetOrigin(origin)
    image.SetDirection(direction.ravel().tolist())
    sitk.WriteImage(image, str(tmp_path / f"a{suffix}"))
    ef.write(ef.read(tmp_path / f"a{suffix}"), tmp_path / f"b{suffix}")
    back = sitk.ReadImage(str(tmp_path / f"b{suffix}"))
    np.testing.assert_array_equal(sitk.GetArrayFromImage(back), sitk.GetArrayFromImage(image))
    for ask in ("GetSpacing", "GetOrigin", "GetDirection"):
        assert_allclose(getattr(back, ask)(), getattr(image, ask)(), atol=1e-6)


def test_a_scan_goes_from_nifti_to_itk_and_back(tmp_path):
    nibabel, sitk = pytest.importorskip("nibabel"), pytest.importorskip("SimpleITK")
    affine = AFFINES[-2]
    values = RNG.random((5, 6, 7)).astype("f4")
    nibabel.save(nibabel.Nifti1Image(values, affine), tmp_path / "a.nii.gz")
    ef.write(ef.read(tmp_path / "a.nii.gz"), tmp_path / "b.mha")
    theirs = sitk.ReadImage(str(tmp_path / "a.nii.gz"))
    ours = sitk.ReadImage(str(tmp_path / "b.mha"))
    index = [2, 3, 4]  # i, j, k of NIfTI are ITK's; ours run in the opposite order
    lies, should = ours.TransformIndexToPhysicalPoint, theirs.TransformIndexToPhysicalPoint
    assert_allclose(lies(index[::-1]), should(index), atol=1e-4)
    assert ours[index[::-1]] == theirs[index]
    ef.write(ef.read(tmp_path / "b.mha"), tmp_path / "c.mgz")
    mgh = nibabel.load(tmp_path / "c.mgz")
    assert_allclose(
        mgh.affine @ [4, 3, 2, 1] if mgh.shape == (7, 6, 5) else mgh.affine @ [2, 3, 4, 1],
        affine @ [2, 3, 4, 1], atol=1e-3,
    )  # fmt: skip
    assert ef.read(tmp_path / "c.mgz").labels.space == "RAS"


def segmentation():
    """Three classes of whole numbers on 2 x 1 x 1.5 mm, and their affine."""
    z, y, x = np.indices((14, 24, 20))
    values = np.zeros(z.shape, np.int16)
    values[(2 * (z - 6)) ** 2 + (y - 10) ** 2 + (1.5 * (x - 8)) ** 2 < 60] = 4
    values[(2 * (z - 8)) ** 2 + (y - 17) ** 2 + (1.5 * (x - 13)) ** 2 < 30] = 9
    affine = np.diag([2, 1, 1.5, 1.0])
    affine[:3, 3] = [-10, 5, 3]
    return values, affine


def test_masks_are_recognised_and_stay_masks(tmp_path):
    nibabel = pytest.importorskip("nibabel")
    values, affine = segmentation()
    nibabel.save(nibabel.Nifti1Image(values, affine), tmp_path / "mask.nii.gz")
    field = ef.fit(tmp_path / "mask.nii.gz")
    assert list(field.labels.classes) == [0, 4, 9]
    assert_array_equal(field.samples(), values)
    for name, where in (("even", {"spacing": 1}), ("fine", {"scale": 2}), ("same", {})):
        ef.write(field, tmp_path / f"{name}.nii", **where)
        image = nibabel.load(tmp_path / f"{name}.nii")
        found = np.asarray(image.dataobj)
        assert found.dtype == np.int16
        assert set(np.unique(found)) == {0, 4, 9}
        assert int(image.header["intent_code"]) == 1002
        size = np.prod(image.header.get_zooms())
        for c in (4, 9):
            assert_allclose((found == c).sum() * size, (values == c).sum() * 3, rtol=0.05)
    assert not ef.fit(tmp_path / "mask.nii.gz", labels=False).labels.classes
    noise = RNG.integers(0, 9, values.shape).astype(np.int16)
    for other in (noise, values.astype(np.float32)):
        nibabel.save(nibabel.Nifti1Image(other, affine), tmp_path / "other.nii")
        assert not ef.fit(tmp_path / "other.nii").labels.classes
