"""Pictures with transparency: no fringes of a colour that nobody sees."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import elmfield as ef
from elmfield.cli import main
from elmfield.field.coordinates.labels import ChannelLabels
from scans import plain_grid

ROW = ("row", "column")
COLOURS = ChannelLabels(name="colour", labels=["red", "green", "blue", "alpha"])


def disc(n=48, hidden=(0, 0, 0), colour=(230, 120, 40)):
    """A disc of one colour on what is transparent, and has another colour that nobody sees."""
    y, x = np.mgrid[0:n, 0:n] - (n - 1) / 2
    alpha = np.clip(n / 3 - np.hypot(y, x) + 0.5, 0, 1)
    picture = np.empty((n, n, 4), np.uint8)
    picture[..., :3] = np.where(alpha[..., None] > 0, colour, hidden)
    picture[..., 3] = np.round(255 * alpha)
    return picture


def of(values, labels=COLOURS):
    return plain_grid(values, ROW, 2, align="areas", channels=labels)


@pytest.mark.parametrize("hidden", [(0, 0, 0), (255, 255, 255), (0, 255, 0)])
def test_half_transparent_pixels_have_pillows_colour(tmp_path, hidden):
    """Twice the size: within 2 levels of Pillow's mean colour where alpha is in between."""
    Image = pytest.importorskip("PIL.Image")
    values = disc(hidden=hidden)
    Image.fromarray(values).save(tmp_path / "x.png")
    ef.write(ef.fit(tmp_path / "x.png"), tmp_path / "y.png", scale=2)
    ours = np.asarray(Image.open(tmp_path / "y.png")).astype(float)
    theirs = Image.open(tmp_path / "x.png").resize((96, 96), Image.Resampling.BICUBIC)
    theirs = np.asarray(theirs).astype(float)
    half = (ours[..., 3] > 32) & (ours[..., 3] < 224)
    assert half.sum() > 100
    also = (theirs[..., 3] > 32) & (theirs[..., 3] < 224)
    assert_allclose(ours[half][:, :3].mean(0), theirs[also][:, :3].mean(0), atol=2)
    assert_allclose(ours[half][:, :3], [[230, 120, 40]] * half.sum(), atol=2)


def test_samples_come_back_and_hidden_colours_do_not_matter():
    fields = [ef.fit(of(disc(hidden=h))) for h in [(0, 0, 0), (9, 200, 77)]]
    values = disc()
    seen = values[..., 3] > 0
    for field in fields:
        assert_array_equal(field.samples(dtype="uint8")[seen], values[seen])
        assert_array_equal(field.samples(dtype="uint8")[..., 3], values[..., 3])
    assert_array_equal(fields[0].resize(scale=3), fields[1].resize(scale=3))


def test_derivatives_on_a_grid_are_those_of_colours():
    field = ef.fit(of(disc(24)))
    at = [np.arange(3.0, 20, 0.7), np.arange(4.0, 18, 1.3)]
    points = np.stack(np.meshgrid(*at, indexing="ij"), axis=-1)
    wanted, found = field.gradient(points), field.grid(*at, quantity="gradient")
    seen = field(points)[..., 3] > 32
    assert_allclose(found[seen], wanted[seen], atol=1e-2)  # of 255, in float32, divided by 1/8
    for quantity in ("hessian", "laplacian"):
        with pytest.raises(ValueError, match="second derivatives are not known for colours"):
            field.grid(*at, quantity=quantity)


def test_means_are_weighed_by_what_is_seen():
    field = ef.fit(of(disc()))
    small = field.resize((12, 12))  # means over 4 × 4
    seen = small[..., 3] > 8
    assert_allclose(small[seen][:, :3], [[230, 120, 40]] * seen.sum(), atol=0.5)


def test_gradients_are_those_of_the_colours():
    y, x = np.mgrid[0:32, 0:32] / 31
    values = np.stack([0.2 + 0.5 * x, 0.3 + 0.4 * y, 0 * x + 0.6, 0.3 + 0.6 * x * y], axis=-1)
    field = ef.fit(of(values), ef.smooth(order=4))
    at, h = np.array([[11.3, 17.2], [20.1, 8.7]]), 1e-4
    slopes = field.gradient(at)
    for k in range(2):
        step = np.eye(2)[k] * h
        assert_allclose(slopes[..., k], (field(at + step) - field(at - step)) / (2 * h), atol=1e-6)
    with pytest.raises(ValueError, match=r"second derivatives .*model\.premultiplied"):
        field.hessian(at)
    assert ef.Field(field.model.premultiplied).laplacian(at).shape == (2, 4)
    plain = ef.Field(field.model.premultiplied)
    assert_allclose(plain(at)[:, 0], (field(at)[:, 0] * field(at)[:, 3]), atol=1e-9)


def test_a_model_file_keeps_it(tmp_path):
    field = ef.fit(of(disc()))
    ef.save(field, tmp_path / "x.elm")
    back = ef.load(tmp_path / "x.elm")
    assert_allclose(back.resize(scale=2), field.resize(scale=2), atol=1e-3)


def test_opaque_pictures_are_left_alone_and_so_are_targets():
    values = disc()
    values[..., 3] = 255
    assert ef.fit(of(values)).labels.alpha is None
    assert ef.fit(of(disc()), ef.smooth(per_region=40)).labels.alpha is None


def test_the_command_fits_colours_in_parts_too(tmp_path):
    picture = pytest.importorskip("PIL.Image").fromarray(disc(hidden=(0, 255, 0)))
    picture.save(tmp_path / "x.png")
    for how in ([], ["--memory", "1M"]):
        with pytest.raises(SystemExit):
            main(["fit", str(tmp_path / "x.png"), "-o", str(tmp_path / "y.elm"), "-q", *how])
        field = ef.load(tmp_path / "y.elm")
        assert field.labels.alpha is not None
        assert_array_equal(field.resize(scale=3), ef.fit(tmp_path / "x.png").resize(scale=3))


def test_alpha_of_all_zeros_is_refused():
    values = disc()
    values[..., 3] = 0
    with pytest.raises(ValueError, match="alpha is 0 everywhere: every pixel is transparent"):
        ef.fit(of(values))


@pytest.mark.parametrize("shape", [(32, 40, 3), (16, 16, 4)])
def test_an_array_that_looks_like_colours_is_asked_about(shape):
    values = np.random.default_rng(0).random(shape)
    with pytest.warns(ef.ChannelWarning, match=r"Say channel_axis=-1 if it holds colours"):
        ef.fit(values)
    ef.fit(values, channel_axis=-1)  # no word
    ef.fit(values, dims=("depth", "row", "column"))
