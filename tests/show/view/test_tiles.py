"""Numbers of tiles: the field at pixel centres, means far out, splines and errors beside it."""

import numpy as np
import pytest
from scipy.ndimage import map_coordinates

import elmfield as ef
from elmfield.field.coefficients.tiles import CodedTiles
from elmfield.io.model import sample_files
from elmfield.show import view_tiles as module
from elmfield.show.layers import Look, means_on_plane, middles
from elmfield.show.scene import Scene
from elmfield.show.view_tiles import Overview, Tiles, halved
from support import close


def centres(scene, level, row, column, size=256):
    """Index coordinates of the pixels of a tile, on both axes of the plane."""
    n = scene.plane.pixels(level)
    spans = [(t * size, min((t + 1) * size, m)) for t, m in zip((row, column), n)]
    return list(map(middles, scene.plane.edges(level, spans)))


@pytest.mark.parametrize("level", [-6, -3, -1, 0])
@pytest.mark.parametrize("quantity", ["value", "gradient", "laplacian"])
def test_a_tile_is_the_field_at_its_pixels(plain, level, quantity):
    n = plain.scene.plane.pixels(level)
    row, column = (n[0] - 1) // 256, (n[1] - 1) // 512
    found = plain.tile(level, row, column, quantity=quantity)
    at = centres(plain.scene, level, row, column)
    name = {"gradient": "gradient_magnitude"}.get(quantity, quantity)
    expected = plain.field.grid(*at, quantity=name)
    assert found.shape == (*expected.shape, 1)
    close(found[..., 0], expected, 1e-6 * np.abs(expected).max())


def test_far_out_a_pixel_is_the_mean_of_its_samples(plain, waves):
    found = plain.scene
    assert found.plane.coarsest == 1
    tiles = Tiles(found)
    mean = waves.reshape(150, 2, 210, 2).mean(axis=(1, 3))
    close(tiles.whole(Look(), 1, 0, 0)[..., 0], mean, 1e-6)


def test_means_of_means_are_means():
    rough = np.random.default_rng(3).standard_normal((1100, 1300)).astype(np.float32)
    scene = Scene(ef.fit(rough, ef.smooth(order=2)))
    tiles = Tiles(scene)
    found = tiles.whole(Look(), 3, 0, 0)[: 1100 // 8, : 1300 // 8, 0]
    mean = rough[:1096, :1296].reshape(137, 8, 162, 8).mean(axis=(1, 3))
    close(found, mean, 1e-5)
    # Not one sample in 64: that would be as rough as the samples, eight times rougher than this.
    assert found.std() < 0.2


def test_a_first_look_comes_at_once_and_means_follow(monkeypatch):
    rough = np.random.default_rng(3).standard_normal((600, 900)).astype(np.float32)
    tiles = Tiles(Scene(ef.fit(rough, ef.smooth(order=2))))
    monkeypatch.setattr(tiles, "_build", lambda overview: None)  # nobody works in the background
    look = Look(quantity="laplacian")
    first, draft = tiles.values(look, 2, 0, 0)
    assert draft
    assert np.array_equal(tiles.values(look, 2, 0, 0)[0], first)  # while there is no better
    assert tiles.tile(look, 2, 0, 0)[6] == 1  # the page is told, and asks again
    overview = tiles._overview(look)
    while not overview.done:
        overview.step()
    better, draft = tiles.values(look, 2, 0, 0)
    assert not draft
    assert better.std() < 0.75 * first.std()  # of sixteen samples, after four places
    assert tiles.tile(look, 2, 0, 0)[6] == 0


def test_the_first_look_at_samples_in_memory_is_their_means(monkeypatch):
    rough = np.random.default_rng(3).standard_normal((600, 900)).astype(np.float32)
    tiles = Tiles(Scene(ef.fit(rough, ef.smooth(order=2))))
    monkeypatch.setattr(tiles, "_build", lambda overview: None)
    coarse = tiles._overview(Look()).first[0]
    for level in (coarse, coarse + 1):
        first, draft = tiles.values(Look(), level, 0, 0)
        n, size = 512 >> level, 1 << level
        assert draft
        mean = rough[:512, :512].reshape(n, size, n, size).mean(axis=(1, 3))
        close(first[:n, :n, 0][:128, :128], mean[:128, :128], 1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("lossy", [True, False])
def test_a_coded_file_is_seen_before_it_is_read(tmp_path, lossy):
    # Without loss only a large file has means to show at once.
    y, x = np.mgrid[0:700, 0:900]
    values = (128 + 90 * np.sin(0.02 * x) * np.cos(0.03 * y)).astype(np.uint8)
    ef.save(ef.fit(values, ef.smooth(psnr=40) if lossy else None), tmp_path / "a.elm")
    tiles = Tiles(Scene(ef.load(tmp_path / "a.elm")))
    tiles._build = lambda overview: None  # nobody works in the background
    first, draft = tiles.values(Look(), 2, 0, 0)
    mean = ef.load(tmp_path / "a.elm").samples().reshape(175, 4, 225, 4).mean(axis=(1, 3))
    assert draft
    if lossy:  # the first bytes say how bright boxes of 64 samples are
        boxes = mean[:160, :208].reshape(10, 16, 13, 16).mean(axis=(1, 3))
        close(first[:160:16, :208:16, 0], boxes, 3)
        assert np.array_equal(
            first[:160, :208, 0], np.kron(first[:160:16, :208:16, 0], np.ones((16, 16)))
        )
    else:
        assert np.isinf(first).all()
        tiles._overview(Look()).step()
        some = tiles.values(Look(), 2, 0, 0)[0][..., 0]
        there = np.isfinite(some)
        assert 0 < there.mean() < 1
        close(some[there], mean[there], 1e-3)
    close(tiles.whole(Look(), 2, 0, 0)[..., 0], mean, 1e-3)


def test_a_large_file_without_loss_is_seen_at_once(tmp_path, monkeypatch, ocean):
    monkeypatch.setattr(sample_files, "MIN_SAMPLES", 1 << 10)
    monkeypatch.setattr(sample_files, "MIN_HALVINGS", 4)
    warm = ocean.isel(time=slice(0, 4))
    ef.save(ef.fit(warm), tmp_path / "sst.elm")
    own = CodedTiles.prefetch

    def only_the_overview(tiles, numbers):
        assert np.prod(tiles.tiling.high) < warm.size, "a tile of samples was decoded"
        own(tiles, numbers)

    monkeypatch.setattr(CodedTiles, "prefetch", only_the_overview)
    scene = Scene(ef.load(tmp_path / "sst.elm"))
    found = Overview(scene, Look(at=(2.0,)))
    level, values = found.first
    assert (level, values.shape) == (2, (8, 15, 1))
    # North is up; a mean is of four months, and of what was filled in where it is land.
    mean = warm.values[:, :4, -4:].mean()
    assert values[-1, -1, 0] == pytest.approx(mean, abs=1e-2)


def test_what_the_background_meets_is_told(plain, monkeypatch):
    tiles = Tiles(plain.scene)

    def gone(*_):
        raise OSError("the disk is gone")

    monkeypatch.setattr("elmfield.show.layers.means_on_plane", gone)
    look = Look(quantity="gradient")
    tiles.values(look, 1, 0, 0)
    tiles._builder.join(30)
    with pytest.raises(OSError, match="the disk is gone"):
        tiles.tile(look, 1, 0, 0)


def test_the_background_builds_what_was_asked_for(plain):
    plain.tile(1, 0, 0, quantity="gradient")
    builder = plain.served._tiles._builder
    builder.join(30)
    assert plain.get("/tile/1/0/0?quantity=gradient").body[6] == 0


def test_missing_is_missing_and_does_not_count_in_means(waves):
    holed = waves.copy()
    holed[40:80, 100:200] = np.nan
    scene = Scene(ef.fit(holed, ef.smooth(order=2)), holed[..., None])
    values = Tiles(scene).values(Look(), 0, 0, 0)[0][..., 0]
    assert np.array_equal(np.isnan(values), np.isnan(holed[:256, :256]))
    means = means_on_plane(scene, Look(), np.arange(-0.5, 300, 4), np.arange(-0.5, 420, 4))[..., 0]
    gone = np.isnan(holed).reshape(75, 4, 105, 4).mean(axis=(1, 3))
    assert np.array_equal(np.isnan(means), gone > 0.5)
    some = halved(np.asarray([[1.0, np.nan], [3.0, np.nan]], np.float32)[..., None])
    assert some.item() == 2.0


def test_a_model_knows_what_is_missing(ocean, tmp_path):
    ef.save(ef.fit(ocean), tmp_path / "sst.elm")
    scene = Scene(ef.load(tmp_path / "sst.elm"))
    gone = np.isnan(ocean.values[5, ::-1])
    for look in (Look(at=(5.0,)), Look(method="cubic", at=(5.0,)), Look("gradient", at=(5.0,))):
        values = Tiles(scene).values(look, 0, 0, 0)[0][..., 0]
        assert np.array_equal(np.isnan(values), gone), look


@pytest.mark.parametrize(("method", "order"), [("nearest", 0), ("linear", 1), ("cubic", 3)])
def test_a_spline_beside_the_field_is_scipy_s(plain, waves, method, order):
    level = -3
    found = plain.tile(level, 4, 5, method=method)[..., 0]
    at = np.stack(np.meshgrid(*centres(plain.scene, level, 4, 5), indexing="ij"))
    expected = map_coordinates(waves, at, order=order, mode="mirror")
    # 12 samples around a tile: what lies beyond weighs 0.27^12 = 1e-7.
    close(found, expected, 1e-6)


@pytest.mark.slow
def test_errors_are_against_the_samples(waves):
    settings = ef.smooth(psnr=30)
    field = ef.fit(waves, settings)
    scene = Scene(field, waves[..., None])
    found = Tiles(scene).values(Look(quantity="error"), -1, 0, 0)[0][..., 0]
    error = np.abs(field.samples() - waves)[:128, :128]
    close(found, np.repeat(np.repeat(error, 2, 0), 2, 1), 1e-6)
    assert error.max() > 1e-3
    assert "error" not in Scene(field).quantities


@pytest.mark.thorough
def test_regions_are_outlined_where_labels_change(waves):
    partition = ef.beam(waves, cell=20, regions=30)
    field = ef.fit(waves, ef.paper(width=60), partition=partition)
    lines = Tiles(Scene(field)).values(Look(quantity="regions"), 0, 0, 0)[0]
    label = partition.labels
    for k, edges in enumerate(partition.edges):
        label = np.repeat(label, np.diff(edges), axis=k)
    label = label[:256, :256]
    expected = np.zeros((256, 256), bool)
    expected[1:] |= label[1:] != label[:-1]
    expected[:, 1:] |= label[:, 1:] != label[:, :-1]
    assert np.array_equal(lines, expected)
    assert 0 < lines.mean() < 0.3


def test_channels_and_sliders_choose(colours, months, picture, ocean):
    found = colours.tile(0, 0, 0, channels="2,0")
    close(found, picture[..., [2, 0]].astype(float), 1e-3)
    found = months.tile(0, 0, 0, at="7")[..., 0]
    # North is up: the array runs the other way.
    assert np.array_equal(np.isnan(found), np.isnan(ocean.values[7, ::-1]))
    close(np.nan_to_num(found), np.nan_to_num(ocean.values[7, ::-1]), 1e-4)
    between = months.tile(0, 0, 0, at="7.5")[..., 0]
    assert not np.allclose(np.nan_to_num(between), np.nan_to_num(found), atol=0.05)


def test_parts_of_complex_numbers(opened, rng):
    values = rng.standard_normal((20, 30)) + 1j * rng.standard_normal((20, 30))
    client = opened(values)
    assert client.json("/facts.json")["parts"] == ["magnitude", "phase", "real", "imaginary"]
    for part, take in (("magnitude", np.abs), ("phase", np.angle), ("imaginary", np.imag)):
        close(client.tile(0, 0, 0, part=part)[..., 0], take(values), 1e-5)
    cubic = client.tile(0, 0, 0, part="real", method="cubic")[..., 0]
    close(cubic, values.real, 1e-5)


def test_tiles_are_kept_but_not_for_ever(plain, monkeypatch):
    tiles = Tiles(plain.scene)
    one = tiles.tile(Look(), -2, 0, 0)
    with monkeypatch.context() as patch:
        patch.setattr("elmfield.show.layers.on_plane", None)  # nothing is evaluated again
        assert tiles.tile(Look(), -2, 0, 0) == one
    monkeypatch.setattr(module, "KEPT_BYTES", 3 * len(one))
    for row in range(4):
        tiles.tile(Look(), -3, row, 0)
    assert 0 < sum(map(len, tiles._kept.values())) <= 3 * len(one)
    for k in range(10):
        tiles._overview(Look(at=(float(k),)))
    assert tiles._overview.cache_info().currsize == module.MAX_OVERVIEWS


def test_an_overview_has_a_limit(plain, monkeypatch):
    monkeypatch.setattr(module, "OVERVIEW_NUMBERS", 10_000)
    assert Overview(plain.scene, Look())._base.size <= 10_000


def test_what_is_tiny_against_the_range_is_0_in_it():
    values = np.sin(np.arange(900) / 9).reshape(30, 30)
    values -= values.min() + 8e-12  # a range from -8e-12 to 2
    (q,) = Tiles(Scene(ef.fit(values))).quantiles(Look())
    assert q[0] == 0
    assert q[100] == pytest.approx(values.max(), rel=1e-6)
    (small,) = Tiles(Scene(ef.fit(1e-9 * (1 + values)))).quantiles(Look())
    assert small[0] == pytest.approx(1e-9, rel=1e-3)


def test_quantiles_hold_for_all_places_of_the_sliders(months, ocean):
    q = np.asarray(months.json("/quantiles?at=0"))
    assert q.shape == (1, 101)
    assert np.array_equal(q, np.sort(q))
    assert np.array_equal(q, months.json("/quantiles?at=5"))
    assert q[0, 0] == pytest.approx(np.nanmin(ocean.values), abs=1)
    assert q[0, 100] == pytest.approx(np.nanmax(ocean.values), abs=1)
