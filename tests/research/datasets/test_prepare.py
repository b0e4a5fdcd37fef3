"""From files to arrays: crops, averages, bands, and what is refused."""

import numpy as np
import pytest

from paper.research import datasets
from paper.research.datasets import prepare


def test_resizing_is_area_averaging(rng):
    picture = rng.random((6, 9, 3))
    fine = picture.repeat(4, axis=0).repeat(2, axis=1)  # 24 by 18: whole blocks of both
    expected = fine.reshape(8, 3, 6, 3, 3).mean(axis=(1, 3))
    np.testing.assert_allclose(datasets.resized(picture, (8, 6)), expected, rtol=0, atol=1e-14)


def test_resized_and_cropped_pictures_have_one_shape_and_show_different_views(data):
    for name, size in (("kodim05", 512), ("kodim20", 256)):
        crop, whole = datasets.load(name), datasets.load(name, prepare="resize")
        assert crop.shape == whole.shape == (size, size)
        assert np.abs(crop - whole).max() > 10
        full = prepare.grey(datasets.load(name, prepare="whole"))
        assert whole.mean() == pytest.approx(full.mean(), abs=1e-9)


@pytest.mark.parametrize(
    ("work", "message"),
    [
        (
            lambda p: datasets.grey(p),
            r"\(rows, columns, 3\), or 4 with opacity; got shape \(100, 7",
        ),
        (lambda p: datasets.grey(p[:, :3]), r"got shape \(100, 3\)"),
        (lambda p: datasets.grey(p[..., None]), r"got shape \(100, 701, 1\)"),
        (lambda p: datasets.centre(p), "to the picture's shorter side, 100; got 512"),
        (lambda p: datasets.centre(p, 0), "`size` must be a whole number from 1 .* got 0"),
        (lambda p: datasets.centre(p, 9.5), "`size` must be a whole number from 1 .* got 9.5"),
        (lambda p: datasets.centre(p[0]), r"`picture` must have shape \(rows, columns\), or"),
        (lambda p: datasets.halved(p), r"even numbers of rows and columns; got shape \(100, 701\)"),
        (lambda p: datasets.resized(p, (8,)), r"two whole numbers of at least 1; got \(8,\)"),
        (lambda p: datasets.resized(p, (8, 0)), r"two whole numbers of at least 1; got \(8, 0\)"),
    ],
)
def test_wrong_pictures_and_sizes_are_named(work, message):
    with pytest.raises(ValueError, match=message):
        work(np.zeros((100, 701)))


def test_the_middle_may_be_the_whole_and_opacity_is_dropped(rng):
    picture = rng.random((6, 9, 4))
    np.testing.assert_array_equal(datasets.centre(picture, 6), picture[:, 1:7])
    np.testing.assert_array_equal(datasets.grey(picture), datasets.grey(picture[..., :3]))


def test_a_wrong_preparation_is_refused():
    with pytest.raises(ValueError, match="one of crop, resize, whole for 'kodim05'; got 'zoom'"):
        datasets.load("kodim05", prepare="zoom")
    with pytest.raises(ValueError, match="'mri' is ready as it is; got prepare='crop'"):
        datasets.load("mri", prepare="crop")
