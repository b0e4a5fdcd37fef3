"""What is known of every data set, and that it is so."""

import hashlib

import numpy as np
import pytest

from paper.research import datasets
from paper.research.datasets import catalogue, prepare
from support import ROOT

STATUS = {"paper's own", "by name", "same product", "regenerated", "stand-in", "extra"}
DOCS = ROOT / "paper" / "data.md"


@pytest.mark.parametrize("name", datasets.names())
def test_every_data_set_says_what_it_is(name):
    about = datasets.about(name)
    assert about.name == name
    assert about.title
    assert about.terms
    assert about.source
    assert about.status in STATUS
    assert bool(about.paper) == (about.status != "extra")
    for file in (*about.files, *about.otherwise):
        assert len(file.sha256) == 64
        assert file.url is None or file.url.startswith("http")
    assert about.channel_axis in (None, -1)
    assert about.channels == (1 if about.channel_axis is None else about.shape[-1])


@pytest.mark.slow
@pytest.mark.parametrize("name", datasets.names())
def test_every_data_set_loads_as_it_is_described(data, name):
    about, array = datasets.about(name), datasets.load(name)
    assert array.shape == about.shape
    own = {"navier-stokes": np.float32, "kspace": np.complex64}
    assert array.dtype == own.get(name, np.float64)
    assert np.isfinite(array).all()
    assert np.ptp(array) > 0
    assert datasets.present(name)


@pytest.mark.slow
def test_the_files_of_the_folder_are_those_of_the_catalogue(data):
    for name in datasets.names():
        about = datasets.about(name)
        for file in (*about.files, *about.otherwise):
            digest = hashlib.sha256((data / file.path).read_bytes()).hexdigest()
            assert digest == file.sha256, file.path


def test_scores_are_averaged_over_21_photographs_of_one_size():
    photographs = datasets.photographs()
    assert len(photographs) == 21
    assert "kodim20-512" in photographs
    assert "kodim20" not in photographs
    assert {datasets.about(name).shape for name in photographs} == {(512, 512)}


def test_values_that_one_can_check_by_hand(data):
    rgb = datasets.load("kodim05", prepare="whole")
    assert rgb.shape == (512, 768, 3)
    red, green, blue = rgb[100, 300]
    expected = 0.299 * red + 0.587 * green + 0.114 * blue
    assert datasets.load("kodim05")[100, 300 - 128] == pytest.approx(expected, abs=1e-12)
    assert datasets.load("kodim04").shape == (512, 512)  # upright: 768 rows
    grey = prepare.grey(datasets.load("kodim20", prepare="whole"))
    assert datasets.load("kodim20")[3, 5] == pytest.approx(grey[6:8, 138:140].mean(), abs=1e-12)
    large = datasets.load("kodim20-512")
    np.testing.assert_array_equal(datasets.halved(large), datasets.load("kodim20"))
    assert datasets.load("cameraman").mean() == pytest.approx(118.72, abs=0.01)
    for season in ("winter", "spring", "summer", "autumn"):  # kelvin, the North Pole first
        field = datasets.load(f"era5-{season}")
        assert 200 < field.min() < field.max() < 330
        assert np.ptp(field[0]) < 0.5 < np.ptp(field[field.shape[0] // 2])  # a pole is a point


def test_bands_of_a_sentinel_scene_are_in_the_order_of_their_numbers(data):
    """Water is bluer than it is infrared, that desert red; coarse bands come in blocks."""
    scene = datasets.load("sentinel2")
    sea, desert = scene[300, 20], scene[500, 500]
    assert sea[1] > 1.5 * sea[7]
    assert desert[7] > desert[3] > 1.5 * desert[2] > 1.1 * desert[1]
    for band, size in zip(range(12), (6, 1, 1, 1, 2, 2, 2, 1, 2, 6, 2, 2)):
        blocks = scene[..., band].reshape(600 // size, size, 600 // size, size)
        assert np.ptp(blocks, axis=(1, 3)).max() == 0, band
        if size < 6:
            assert np.ptp(scene[:6, :6, band]) > 0, band


@pytest.mark.slow
def test_the_same_values_in_other_files_are_the_same(data):
    for name in datasets.names():
        about = datasets.about(name)
        if about.otherwise:
            paths = [data / file.path for file in about.otherwise]
            np.testing.assert_array_equal(about.read(paths, ""), datasets.load(name))


def test_the_page_lists_every_data_set_with_status_and_shape():
    lines = DOCS.read_text(encoding="utf-8").splitlines()
    for name in datasets.names():
        about = datasets.about(name)
        if name.startswith("kodim") and about.status == "extra" and len(name) == 7:
            continue  # one line for all of them, below
        (line,) = (line for line in lines if line.startswith(f"| `{name}` |"))
        assert f"| {about.status} |" in line, name
        assert " × ".join(map(str, about.shape)) in line, name
    (rest,) = (line for line in lines if line.startswith("| `kodim02` ... |"))
    assert "| extra |" in rest


def test_an_unknown_name_suggests_near_ones():
    with pytest.raises(ValueError, match=r"no data set 'kodim5'\. Did you mean .*kodim05"):
        datasets.load("kodim5")
    with pytest.raises(ValueError, match=r"See `datasets\.names\(\)`"):
        datasets.about("%%%")


@pytest.mark.parametrize("name", [None, 3])
def test_a_name_that_is_no_text(name):
    with pytest.raises(ValueError, match="There is no data set"):
        datasets.load(name)


# --- the file it is read from ---------------------------------------------------------------------

ENTRY = """
[toys.shared]
status = "extra"
terms = "none"
read = "plain"
[toys.one]
title = "a toy"
shape = [3, 4]
source = "a shop"
[[toys.one.files]]
path = "toys/one.npy"
sha256 = "00"
"""


def test_an_entry_has_what_its_section_shares_and_what_it_says_itself():
    (one,) = catalogue.read_catalogue(ENTRY).values()
    assert (one.name, one.title, one.terms, one.shape) == ("one", "a toy", "none", (3, 4))
    assert one.files == (datasets.File("toys/one.npy", "00"),)
    own = catalogue.read_catalogue(ENTRY.replace('title = "a toy"', 'title = ""\nterms = "CC0"'))
    assert own["one"].terms == "CC0"


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ('status = "extra"', 'status = "odd"', "'one' is wrong: `status` must be one of .*'odd'"),
        ('read = "plain"', 'read = "magic"', "'one' is wrong: 'magic'"),
        ('source = "a shop"', 'shop = "a"', "'one' is wrong: .*unexpected keyword argument 'shop'"),
        ("[toys.shared]", "[more.one]\n[toys.shared]", "'one' is wrong: 'status'"),
        ('sha256 = "00"\n', 'sha256 = "00"\n' + ENTRY.replace("toys.", "more."), "two .* 'one'"),
    ],
)
def test_an_entry_that_is_wrong_is_named(before, after, message):
    with pytest.raises(ValueError, match=message):
        catalogue.read_catalogue(ENTRY.replace(before, after))
