"""Missing samples stay missing, by every way out, unless they are asked to be filled."""

import numpy as np
import pytest

import elmfield as ef
from elmfield import read, write
from support import close


@pytest.fixture(scope="module")
def land():
    """A mask of about 46 % in a few large pieces, like continents."""
    from scipy.ndimage import gaussian_filter

    rng = np.random.default_rng(4)
    rough = gaussian_filter(rng.standard_normal((60, 90)), 6, mode=("nearest", "wrap"))
    return rough > np.quantile(rough, 0.54)


@pytest.fixture(scope="module")
def sea(land):
    xr = pytest.importorskip("xarray")
    lat, lon = 88.5 - 3.0 * np.arange(60), 4.0 * np.arange(90)
    f, l = np.deg2rad(lat)[:, None], np.deg2rad(lon)
    values = 290 + 15 * np.cos(f) ** 2 + 3 * np.sin(3 * f) * np.cos(2 * l)
    return xr.DataArray(
        np.where(land, np.nan, values).astype(np.float32),
        dims=("latitude", "longitude"),
        coords={"latitude": lat, "longitude": lon},
        name="sst",
        attrs={"units": "K"},
    )


@pytest.mark.thorough
def test_a_bare_array_is_filled_unless_one_asks(land, rng):
    values = np.where(land, np.nan, rng.standard_normal(land.shape))
    field = ef.fit(values)
    assert np.array_equal(field.model.missing, land)
    assert np.isfinite(field.samples()).all()
    got = field.samples(missing="nan")
    assert np.array_equal(np.isnan(got), land)
    close(got[~land], values[~land], 1e-9)
    assert np.isnan(ef.fit(values, missing="nan").samples()).sum() == land.sum()


def test_the_nearest_sample_decides(land, rng):
    field = ef.fit(np.where(land, np.nan, rng.standard_normal(land.shape)), missing="nan")
    points = rng.random((500, 2)) * land.shape - 0.5
    near = np.clip(np.round(points).astype(int), 0, np.asarray(land.shape) - 1)
    gone = land[tuple(near.T)]
    for found in (field(points), field.laplacian(points), field.gradient(points)[:, 0]):
        assert np.array_equal(np.isnan(found), gone)
    assert np.isfinite(field(points, missing="fill")).all()
    assert np.isnan(field.hessian(points)[gone]).all()
    x, y = np.linspace(-0.4, 58, 31), np.linspace(3, 80.2, 47)
    on_grid = land[np.ix_(np.round(x).astype(int).clip(0), np.round(y).astype(int))]
    for quantity in ("value", "gradient", "gradient_magnitude", "hessian", "laplacian"):
        found = np.isnan(field.grid(x, y, quantity=quantity)).reshape(*on_grid.shape, -1)
        assert np.array_equal(found.all(axis=-1), on_grid)
        assert np.array_equal(found.any(axis=-1), on_grid)
    assert np.isfinite(field.grid(x, y, missing="fill")).all()


def test_gaps_go_round_with_their_axis(rng):
    values = rng.standard_normal(24)
    values[0] = np.nan
    field = ef.fit(values, periodic=0, missing="nan")
    assert np.isnan(field([[23.7], [24.3], [-24.2], [0.4]])).all()
    assert np.isfinite(field([[23.4], [0.6]])).all()


@pytest.mark.slow
def test_land_in_land_out_by_every_way(sea, land, tmp_path):
    xr = pytest.importorskip("xarray")
    field = ef.fit(sea)
    assert np.array_equal(np.isnan(field.samples()), land)
    assert np.array_equal(np.isnan(field.to_xarray()), land)
    assert np.isnan(field([0.0, 0.0])) == land[29, 0] or np.isnan(field([0.0, 0.0])) == land[30, 0]
    ef.save(field, tmp_path / "sst.elm")
    again = ef.load(tmp_path / "sst.elm")
    assert np.array_equal(again.model.missing, land)
    with xr.open_dataset(tmp_path / "sst.elm", engine="elmfield") as ds:
        assert np.array_equal(np.isnan(ds["sst"]), land)
        assert np.isnan(ds["sst"][10:20, 5:9]).sum() == land[10:20, 5:9].sum()
        one = ds["sst"].isel(latitude=xr.DataArray([3, 8], dims="p"), longitude=[2])
        assert np.array_equal(np.isnan(one.values[:, 0]), land[[3, 8], 2])
    with xr.open_dataset(tmp_path / "sst.elm", engine="elmfield", missing="fill") as ds:
        assert np.isfinite(ds["sst"]).all()
    pytest.importorskip("netCDF4")
    rasterio = pytest.importorskip("rasterio")
    write(again, tmp_path / "sst.nc")
    with xr.open_dataset(tmp_path / "sst.nc") as ds:
        assert np.array_equal(np.isnan(ds["sst"]), land)
    write(again, tmp_path / "sst.tif")
    with rasterio.open(tmp_path / "sst.tif") as file:
        band = file.read(1, masked=True)
        assert np.array_equal(np.ma.getmaskarray(band), land)
        assert file.dtypes == ("float32",)
    write(again, tmp_path / "sst.png")
    picture = read(tmp_path / "sst.png").values
    assert np.array_equal(picture[..., -1] == 0, land)  # transparent


@pytest.mark.thorough
def test_the_way_can_be_chosen_once(sea):
    field = ef.fit(sea, missing="fill")
    assert field.model.missing is not None
    assert np.isfinite(field.to_xarray()).all()
    with pytest.raises(ValueError, match="`missing` must be one of"):
        field.samples(missing="zero")
    with pytest.raises(ValueError, match="`missing` must be one of"):
        ef.fit(sea, missing="zero")


@pytest.mark.thorough
def test_whole_numbers_say_gaps_by_their_file_s_number(land, tmp_path):
    xr = pytest.importorskip("xarray")
    pytest.importorskip("netCDF4")
    values = np.where(land, -999, np.indices(land.shape).sum(axis=0)).astype(np.int16)
    ds = xr.Dataset({"h": (("y", "x"), values)})
    ds["h"].attrs["_FillValue"] = np.int16(-999)
    ds.to_netcdf(tmp_path / "h.nc")
    field = ef.fit(tmp_path / "h.nc")
    write(field, tmp_path / "again.nc")
    with xr.open_dataset(tmp_path / "again.nc", mask_and_scale=False) as back:
        assert back["h"].dtype == np.int16
        assert back["h"].attrs["_FillValue"] == -999
        assert np.array_equal(back["h"], values)
    write(field, tmp_path / "double.nc", scale=2)
    with xr.open_dataset(tmp_path / "double.nc") as back:
        assert abs(float(np.isnan(back["h"]).mean()) - land.mean()) < 0.02
    bare = ef.fit(np.where(land, np.nan, 1.0), missing="nan")
    with pytest.raises(ValueError, match="what is missing cannot be NaN in dtype uint8"):
        bare.samples(dtype="uint8")


@pytest.mark.thorough
def test_crops_channels_and_batches_keep_their_gaps(land, rng):
    values = rng.standard_normal((*land.shape, 2))
    values[land, 0] = np.nan
    field = ef.fit(values, channel_axis=-1, missing="nan")
    assert field.model.missing.shape == values.shape
    crop = field.crop((10, 20), (30, 50))
    assert np.array_equal(np.isnan(crop.samples()), np.isnan(values[10:31, 20:51]))
    encode = ef.encoder(land.shape)
    frames = np.moveaxis(values, -1, 0)
    first, second = encode.batch(frames)
    assert np.array_equal(first.model.missing, land)
    assert second.model.missing is None
    assert np.array_equal(np.isnan(first.samples(missing="nan")), land)


def test_gaps_of_complex_numbers(rng):
    values = rng.standard_normal((16, 17)) + 1j * rng.standard_normal((16, 17))
    values[3:6, 4:8] = np.nan
    field = ef.fit(values, missing="nan")
    assert field.model.missing.shape == (16, 17)
    assert np.array_equal(np.isnan(field.samples()), np.isnan(values))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("settings", "options"),
    [
        (ef.smooth(), {}),
        (ef.smooth(per_region=40), {}),
        (ef.smooth(psnr=40), {}),
        (ef.paper(cell=8, width=40), {}),
        (ef.oriented(), {}),
        (ef.smooth(), {"samples": "means"}),
    ],
)
def test_files_keep_gaps_whatever_else_they_hold(settings, options, land, rng, tmp_path):
    values = np.stack([rng.standard_normal(land.shape), np.indices(land.shape)[0]], axis=-1)
    values[land, 0] = np.nan
    values[3:9, 5:20, 1] = np.nan
    field = ef.fit(values, settings, channel_axis=-1, missing="nan", **options)
    assert np.array_equal(field.model.missing, np.isnan(values))
    ef.save(field, tmp_path / "a.elm")
    again = ef.load(tmp_path / "a.elm")
    assert np.array_equal(np.isnan(again.samples()), np.isnan(values))
    assert np.array_equal(again.model.missing, field.model.missing)
    ef.save(again.crop((10, 20), (30, 50)), tmp_path / "b.elm")
    part = ef.load(tmp_path / "b.elm")
    assert np.array_equal(np.isnan(part.samples()), np.isnan(values[10:31, 20:51]))
    points = np.array([[12.3, 40.2], [25.6, 33.3]])
    assert np.array_equal(np.isnan(part(points)), np.isnan(values[[12, 26], [40, 33]]))


def test_gaps_cost_a_bit_each(land, rng, tmp_path):
    values = np.where(land, np.nan, rng.standard_normal(land.shape))
    ef.save(ef.fit(values, missing="nan"), tmp_path / "a.elm")
    ef.save(ef.fit(rng.standard_normal(land.shape)), tmp_path / "b.elm")
    more = (tmp_path / "a.elm").stat().st_size - (tmp_path / "b.elm").stat().st_size
    assert more < land.size / 8 + 2000


@pytest.mark.thorough
def test_gaps_on_any_library(xp, land, rng):
    values = np.where(land, np.nan, rng.standard_normal(land.shape))
    field = ef.fit(xp.asarray(values), missing="nan")
    assert np.array_equal(np.isnan(np.asarray(field.samples())), land)
    points = xp.asarray(rng.random((40, 2)) * 50)
    expected = ef.fit(values, missing="nan")(np.asarray(points))
    np.testing.assert_allclose(np.asarray(field(points)), expected, atol=1e-9)
    means = np.asarray(field.means([-0.5, 20, 59.5], [-0.5, 30, 89.5]))
    close(means, ef.fit(values, missing="nan").means([-0.5, 20, 59.5], [-0.5, 30, 89.5]), 1e-9)


WAYS_OUT = {
    "call": lambda f, at, like: f(at),
    "samples": lambda f, at, like: f.samples(),
    "resize": lambda f, at, like: f.resize((20, 24)),
    "grid": lambda f, at, like: f.grid(np.arange(20), np.arange(24)),
    "matrix": lambda f, at, like: f.warp(np.eye(2, 3)),
    "larger matrix": lambda f, at, like: f.warp(np.eye(3)),
    "function": lambda f, at, like: f.warp(lambda x: x + 0),
    "displacements": lambda f, at, like: f.warp(np.zeros((20, 24, 2))),
    "skimage": lambda f, at, like: f.warp(like.AffineTransform()),
}
"""Ways to the values at the samples of a field of 20 by 24."""


@pytest.mark.parametrize("way", WAYS_OUT)
def test_what_is_missing_stays_missing_by_every_way(way, xp, rng):
    transform = pytest.importorskip("skimage.transform")
    mask = np.zeros((20, 24), bool)
    mask[:5], mask[12, 7:9] = True, True
    field = ef.fit(xp.asarray(rng.random((20, 24))), mask=xp.asarray(mask), missing="nan")
    at = xp.asarray(np.stack(np.indices((20, 24)), axis=-1).astype(float))
    found = np.asarray(WAYS_OUT[way](field, at, transform))
    assert np.array_equal(np.isnan(found), mask)
    close(found[~mask], np.asarray(field.samples())[~mask], 1e-9)


@pytest.mark.parametrize("turn", [0.0, 1e-3])  # along the axes, and not
def test_a_mean_of_a_map_is_missing_where_more_than_half_of_it_is(turn, rng):
    mask = np.zeros((48, 48), bool)
    mask[:16], mask[31, :24] = True, True  # whole boxes of 4 by 4, and a quarter of some
    field = ef.fit(rng.random((48, 48)), mask=mask, missing="nan")
    shrinks = [[4.0, -turn, 1.5], [turn, 4.0, 1.5]]
    found = field.warp(shrinks, (12, 12))
    wanted = np.zeros((12, 12), bool)
    wanted[:4] = True
    assert np.array_equal(np.isnan(found), wanted)
    assert np.isfinite(field.warp(shrinks, (12, 12), missing="fill")).all()


def test_whole_numbers_say_what_is_missing_through_a_map(rng):
    mask = np.zeros((12, 12), bool)
    mask[:4] = True
    field = ef.fit(rng.integers(0, 200, (12, 12)), mask=mask, missing="nan")
    for turn in (0.0, 0.1):
        M = [[1, -turn, 0.5], [turn, 1, 0]]
        with pytest.raises(ValueError, match="what is missing cannot be NaN in dtype uint8"):
            field.warp(M, dtype="uint8", fill=0)
        assert field.warp(M, dtype="uint8", fill=0, missing="fill").dtype == np.uint8


@pytest.mark.slow
def test_values_beside_a_coast_are_as_good_as_with_a_careful_fill(sea, land):
    from scipy.ndimage import binary_dilation

    lat, lon = sea.latitude.values, sea.longitude.values
    fine_lat, fine_lon = lat[:-1] - 1.5, lon[:-1] + 2.0
    f, l = np.deg2rad(fine_lat)[:, None], np.deg2rad(fine_lon)
    truth = 290 + 15 * np.cos(f) ** 2 + 3 * np.sin(3 * f) * np.cos(2 * l)
    corners = ~land[:-1, :-1] & ~land[1:, :-1] & ~land[:-1, 1:] & ~land[1:, 1:]
    coast = corners & binary_dilation(land, iterations=2)[:-1, :-1]
    errors = []
    for way in ("nan", "fill"):
        field = ef.fit(sea.astype(float), missing=way)
        off = field.grid(fine_lat, fine_lon, missing="fill") - truth
        errors.append(np.sqrt(np.mean(off[coast] ** 2)))
    assert errors[0] < 1.5 * errors[1] + 1e-3
