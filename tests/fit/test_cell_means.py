"""Samples that are means: the field gives them back, and is better between them."""

import numpy as np
import pytest

import elmfield as ef
from elmfield.field.coordinates.labels import ChannelLabels
from support import close


def cells(field):
    return [a.from_index(np.arange(a.size + 1) - 0.5) for a in field.domain.axes]


@pytest.mark.parametrize(
    ("shape", "options"),
    [
        ((40,), {}),
        ((29, 31), {}),
        ((24, 30), {"periodic": (1,)}),
        ((24, 30), {"coords": [90 - 2.0 * np.arange(24), None]}),
        ((9, 10, 11), {}),
        ((22, 21, 2), {"channel_axis": -1}),
    ],
)
def test_means_come_back(shape, options, rng):
    values = rng.standard_normal(shape) + 5
    field = ef.fit(values, samples="means", **options)
    close(field.means(*cells(field)), values, 1e-10)
    # The same samples as points give means that are not these.
    assert np.abs(ef.fit(values, **options).means(*cells(field)) - values).max() > 0.1


def test_a_ring_that_is_one_box_is_of_means_too(rng, tmp_path):
    """Its box is the whole circle: other modes than those of boxes that begin and end."""
    angles = np.radians(5.0 * np.arange(72))
    values = 15 + np.cos(rng.uniform(0, 1, 20))[:, None] * np.cos(2 * angles)
    field = ef.fit(values, ef.smooth(order=5.0), samples="means", periodic=(1,))
    assert field.model.blended.groups[0].model.box[1] == 72
    close(field.means(*cells(field)), values, 1e-10)
    ef.save(field, tmp_path / "ring.elm")
    assert np.array_equal(ef.load(tmp_path / "ring.elm").means(*cells(field)),
                          field.means(*cells(field)))  # fmt: skip


@pytest.mark.parametrize("settings", [ef.smooth(order=1.3), ef.smooth(order=3), ef.oriented()])
def test_whatever_is_believed(settings, rng):
    values = rng.standard_normal((26, 28))
    field = ef.fit(values, settings, samples="means")
    close(field.means(*cells(field)), values, 1e-10)


def test_a_function_is_nearer_by_its_means_if_means_are_what_is_known():
    edges = np.arange(65) - 0.5
    F = -np.cos(0.5 * edges) / 0.5
    values = np.diff(F)  # means of sin(x / 2) over cells of one
    x = np.arange(8, 56, 0.1)
    by_means, by_points = (
        np.abs(ef.fit(values, samples=s)(x[:, None]) - np.sin(0.5 * x)).max()
        for s in ("means", "points")
    )
    assert by_means < by_points / 20


def test_gaps_are_left_out(rng):
    values = rng.standard_normal((24, 26))
    values[4:9, 7:15] = np.nan
    field = ef.fit(values, samples="means", missing="nan")
    got = field.means(*cells(field))
    assert np.array_equal(np.isnan(got), np.isnan(values))
    close(got[~np.isnan(values)], values[~np.isnan(values)], 1e-10)


def test_single_precision_and_complex_numbers(rng):
    values = rng.standard_normal((20, 22))
    field = ef.fit(values.astype(np.float32), samples="means")
    assert field.dtype == np.float32
    close(field.means(*cells(field)), values, 1e-4)
    both = values + 1j * rng.standard_normal((20, 22))
    close(ef.fit(both, samples="means").means(*cells(field)), both, 1e-10)


@pytest.mark.thorough
def test_targets_noise_and_streams_hold_means(rng, tmp_path):
    values = np.cumsum(rng.standard_normal((40, 44)), axis=0)
    noisy = ef.fit(values, ef.oriented(denoise=0.5), samples="means")
    close(noisy.means(*cells(noisy)), noisy.samples(), 1e-9)
    coded = ef.fit(values, ef.smooth(max_error=0.1), samples="means")
    assert np.abs(coded.means(*cells(coded)) - values).max() <= 0.1 + 1e-9
    assert ef.max_error(values, coded.samples()) <= 0.1
    for settings in (None, ef.oriented()):
        field = ef.fit(values, settings, samples="means")
        to_disk = ef.fit(values, settings, samples="means", out=tmp_path / "a.elm")
        assert to_disk.labels.samples == "means"
        close(to_disk.resize(scale=2), field.resize(scale=2), 1e-12)


def test_what_has_no_means_is_refused(rng):
    values = rng.standard_normal((20, 22))
    with pytest.raises(ValueError, match="`samples` must be one of"):
        ef.fit(values, samples="areas")
    for settings in (ef.paper(cell=8, width=10), ef.smooth(network=ef.Dense(64))):
        with pytest.raises(ValueError, match="got a network, whose means have no closed form"):
            ef.fit(values, settings, samples="means")
    with pytest.raises(ValueError, match="on their own cells; got merged regions"):
        ef.fit(values, samples="means", partition=ef.beam(values, cell=4, regions=5))


@pytest.mark.slow
@pytest.mark.parametrize("settings", [ef.smooth(), ef.oriented(), ef.smooth(overlap=1.3)])
@pytest.mark.parametrize("scale", [2, 3])
def test_an_enlarged_picture_averages_back(settings, scale, rng):
    values = rng.integers(0, 256, (26, 28, 3)).astype(np.uint8)
    field = ef.fit(values, settings, samples="means", channel_axis=-1)
    blocks = field.resize(scale=scale).reshape(26, scale, 28, scale, 3)
    close(blocks.mean(axis=(1, 3)), values, 255e-9)
    x = np.linspace(-0.5, 25.5, 26 * scale, endpoint=False) + 0.5 / scale
    y = np.linspace(-0.5, 27.5, 28 * scale, endpoint=False) + 0.5 / scale
    close(field.grid(x, y), field.resize(scale=scale), 1e-9)
    moved = np.array([[1 / scale, 0, 0.5 / scale - 0.5], [0, 1 / scale, 0.5 / scale - 0.5]])
    close(field.warp(moved, (26 * scale, 28 * scale)), field.resize(scale=scale), 1e-9)
    lazy = field.resize(scale=scale, chunks=(13, 14, 3))
    close(lazy.compute(), field.resize(scale=scale), 1e-9)
    # Points are there for whoever asks.
    at = field.grid(x, y, antialias=False)
    close(at, field(np.stack(np.meshgrid(x, y, indexing="ij"), axis=-1)), 1e-9)
    close(at, field.resize(scale=scale, antialias=False), 1e-9)
    assert np.abs(at - field.resize(scale=scale)).max() > 1


def test_pictures_from_files_are_means(rng, tmp_path):
    values = rng.integers(0, 256, (24, 26, 3)).astype(np.uint8)
    ef.write(values, tmp_path / "a.png", channel_axis=-1)
    field = ef.fit(tmp_path / "a.png")
    assert field.labels.samples == "means"
    assert np.array_equal(field.samples(), values)
    ef.save(field, tmp_path / "a.elm")
    again = ef.load(tmp_path / "a.elm")
    assert again.labels.samples == "means"
    close(again.resize(scale=2), field.resize(scale=2), 1e-12)
    ef.write(again, tmp_path / "b.png")
    assert np.array_equal(np.asarray(ef.read(tmp_path / "b.png")), values)
    for other in ({"samples": "points"}, {"settings": ef.paper(cell=12)}):
        assert ef.fit(tmp_path / "a.png", **other).labels.samples == "points"


def test_colours_times_alpha(rng):
    values = rng.integers(100, 120, (20, 22, 4)).astype(np.uint8)
    labels = ef.Labels(channels=ChannelLabels(labels=["red", "green", "blue", "alpha"]))
    given = ef.Gridded(values=values, dims=("y", "x"), channel_axis=2, labels=labels)
    field = ef.fit(given, samples="means")
    big = field.resize(scale=2)
    blocks = (big[..., :3] * big[..., 3:]).reshape(20, 2, 22, 2, 3).mean(axis=(1, 3))
    close(blocks / big[..., 3:].reshape(20, 2, 22, 2, 1).mean(axis=(1, 3)), values[..., :3], 1e-3)


def test_torch_follows_points_of_means(rng):
    torch = pytest.importorskip("torch")
    values = rng.standard_normal((20, 22))
    for settings in (ef.smooth(order=1.2), ef.oriented(order=1.2)):
        field = ef.fit(torch.as_tensor(values), settings, samples="means")
        x = torch.as_tensor(rng.random((200, 2)) * 18, dtype=torch.float64).requires_grad_()
        field(x).sum().backward()
        on_host = ef.fit(values, settings, samples="means")
        close(x.grad, on_host.gradient(x.detach().numpy()), 1e-8)


@pytest.mark.slow
def test_turning_round_loses_less_with_means(rng):
    """Six turns of 60 degrees, each a warp of the last one's result."""
    y, x = np.mgrid[:64, :64] - 31.5
    picture = 128 + 60 * np.sin(0.35 * x + 0.2 * y) + 40 * np.tanh((x - 0.4 * y) / 2)
    c, s = np.cos(np.pi / 3), np.sin(np.pi / 3)
    turn = np.array([[c, -s, 31.5 - 31.5 * (c - s)], [s, c, 31.5 - 31.5 * (s + c)]])
    left = {}
    for kind in ("points", "means"):
        turned = picture
        for _ in range(6):
            field = ef.fit(turned, ef.oriented(), samples=kind)
            turned = field.warp(turn, outside="nearest")
        left[kind] = np.sqrt(np.mean((turned - picture)[20:44, 20:44] ** 2))
    assert left["means"] < left["points"]
