"""Points as xarray has them: shapes, dims and coords of its own `interp`, and better values."""

import re

import numpy as np
import pytest

import elmfield as ef

xr = pytest.importorskip("xarray")
pytest.importorskip("elmfield.io.xarray")  # gives DataArrays their accessor


def function(lat, lon, t):
    f, l = np.deg2rad(lat), np.deg2rad(lon)
    return 280 + 20 * np.cos(f) * np.cos(2 * l) + 5 * np.sin(3 * f) + 0.3 * t


@pytest.fixture(scope="module")
def world():
    lat, lon, t = np.arange(-80, 81, 4.0), np.arange(0, 360, 5.0), np.arange(5.0)
    values = function(lat[None, :, None], lon[None, None, :], t[:, None, None])
    dates = np.datetime64("2020-01-01", "ns") + (t * 86400e9).astype("timedelta64[ns]")
    return xr.DataArray(
        values,
        dims=("time", "latitude", "longitude"),
        coords={
            "time": dates,
            "latitude": ("latitude", lat, {"units": "degrees_north"}),
            "longitude": ("longitude", lon, {"units": "degrees_east"}),
            "height": 2.0,
            "zone": ("latitude", np.abs(lat)),
        },
        name="t2m",
        attrs={"units": "K", "long_name": "temperature"},
    )


@pytest.fixture(scope="module")
def field(world):
    return ef.fit(world)


STATIONS = {
    "latitude": xr.DataArray([48.2, -33.9, 64.1, 1.3, -55.0], dims="station"),
    "longitude": xr.DataArray([16.4, 151.2, 338.1, 103.8, 293.0], dims="station"),
}
NAMED = {
    name: c.assign_coords(station=list("abcde"), elevation=("station", np.arange(5.0)))
    for name, c in STATIONS.items()
}
CURVED = {
    "latitude": xr.DataArray(np.linspace(-50, 60, 12).reshape(3, 4), dims=("row", "column")),
    "longitude": xr.DataArray(np.linspace(10, 200, 12).reshape(3, 4), dims=("row", "column")),
}
LINE = xr.DataArray(np.linspace(-60, 60, 7), dims="latitude")

PATTERNS = {
    "nothing": {},
    "a number": {"latitude": 10.5},
    "two numbers": {"latitude": 10.5, "longitude": 33.0},
    "all numbers": {"time": "2020-01-02T06", "latitude": 10.5, "longitude": 33.0},
    "an array": {"latitude": np.array([1.5, 2.5, 7.0])},
    "two arrays": {"latitude": [1.5, 2.5, 7.0], "longitude": [11.0, 12.0]},
    "an array and a number": {"latitude": [1.5, 2.5, 7.0], "longitude": 12.5},
    "stations": STATIONS,
    "stations with names": NAMED,
    "a curvilinear grid": CURVED,
    "another dim for one axis": {"latitude": STATIONS["latitude"]},
    "dates": {"time": np.array(["2020-01-01T12", "2020-01-03"], "datetime64[ns]")},
    "dates of stations": {
        **STATIONS,
        "time": xr.DataArray(
            np.datetime64("2020-01-01T06", "ns") + np.arange(5) * np.timedelta64(12, "h"),
            dims="station",
        ),
    },
    "two independent dims": {
        "latitude": STATIONS["latitude"],
        "longitude": xr.DataArray([10.0, 20.0], dims="meridian"),
    },
    "a variable": {"latitude": ("station", [1.0, 2.0])},
    "its own dim": {"latitude": LINE},
    "a number that is a DataArray": {"latitude": xr.DataArray(3.0)},
}


@pytest.mark.parametrize("name", PATTERNS)
def test_as_xarray_interpolates(world, field, name):
    coords = PATTERNS[name]
    if name == "a variable":
        theirs = world.interp({"latitude": xr.DataArray([1.0, 2.0], dims="station")})
    else:
        theirs = world.interp(dict(coords), method="linear")
    ours = field.interp(coords)
    assert ours.dims == theirs.dims
    assert ours.shape == theirs.shape
    assert ours.name == theirs.name
    assert ours.attrs == theirs.attrs
    assert set(ours.coords) == set(theirs.coords)
    for c in theirs.coords:
        assert ours[c].dims == theirs[c].dims
        if theirs[c].dtype.kind in "f":
            np.testing.assert_allclose(ours[c], theirs[c], atol=1e-12)
        else:
            assert np.array_equal(ours[c], theirs[c]), c
    # Values of a smooth function: nearer than linear interpolation.
    lat, lon, t = ours["latitude"], ours["longitude"], ours["time"]
    days = (t - np.datetime64("2020-01-01", "ns")) / np.timedelta64(1, "D")
    truth = function(lat, lon, days).transpose(*ours.dims) if coords else world
    assert float(abs(ours - truth).max()) <= float(abs(theirs - truth).max()) + 1e-9
    assert float(abs(ours - truth).max()) < 0.02


@pytest.mark.slow
def test_held_out_samples_lie_between_linear_and_cubic_or_better(data):
    with xr.open_dataset(data / "era5" / "era5_t2m_20230101T12_winter.nc") as ds:
        whole = ds["t2m"].squeeze(drop=True).astype(float).load()
    half = whole.isel(latitude=slice(None, None, 2), longitude=slice(None, None, 2))
    # Off the samples of both axes, and inside the half's longitudes, where xarray can go.
    inner = whole.isel(latitude=slice(101, 621, 2), longitude=slice(101, 1301, 2))
    at = {"latitude": inner.latitude.values, "longitude": inner.longitude.values}
    field = ef.fit(half)
    errors = {"ours": field.interp(at) - inner}
    for method in ("linear", "cubic"):
        errors[method] = half.interp(at, method=method) - inner
    rms = {k: float(np.sqrt((e**2).mean())) for k, e in errors.items()}
    assert rms["ours"] <= 1.002 * min(rms["linear"], rms["cubic"])


def test_to_xarray_follows_the_same_rules(field):
    assert field.to_xarray(STATIONS).dims == ("time", "station")
    assert field.to_xarray().identical(field.interp())
    assert field.to_xarray({"latitude": [1.0, 2.0]}, outside="nan").sizes["latitude"] == 2


@pytest.mark.parametrize(
    ("quantity", "more"),
    [
        ("gradient", {"direction": 3}),
        ("hessian", {"direction": 3, "direction_2": 3}),
        ("laplacian", {}),
    ],
)
def test_derivatives_are_labelled(field, quantity, more):
    got = field.interp(STATIONS, time="2020-01-02", quantity=quantity)
    assert dict(got.sizes) == {"station": 5, **more}
    seconds = 86400.0
    points = np.stack([np.full(5, seconds), *(c.values for c in STATIONS.values())], axis=-1)
    np.testing.assert_allclose(got, getattr(field, quantity)(points), rtol=1e-12)
    assert got.attrs["long_name"] == f"{quantity} of t2m"
    assert "units" not in got.attrs  # seconds and degrees
    told = got.attrs.get("direction_units", [])
    assert len(told) == np.prod(list(more.values())) * bool(more)
    if quantity == "gradient":
        assert told == ["K s-1", "K degrees_north-1", "K degrees_east-1"]
    if more:
        assert list(got.direction.values) == ["time", "latitude", "longitude"]


@pytest.mark.parametrize("quantity", ["gradient", "gradient_magnitude", "hessian", "laplacian"])
def test_derivatives_on_a_labelled_grid_are_those_at_points(quantity):
    """Grids are taken axis by axis, also lazily: the same labels and numbers."""
    values = np.random.default_rng(0).random((14, 3, 12))
    about = {"y": ("y", 2.0 * np.arange(14), {"units": "m"}), "x": ("x", np.arange(12.0))}
    array = xr.DataArray(values, dims=("y", "band", "x"), coords=about, attrs={"units": "K"})
    field = ef.fit(array, channel_axis="band")
    at = {"y": [3.0, 5.5], "x": [1.25, 4.0, 9.0]}
    found = field.interp(at, quantity=quantity)
    y, x = xr.broadcast(*(xr.DataArray(c, dims=n) for n, c in at.items()))
    wanted = field.interp(y=y, x=x, quantity=quantity).transpose(*found.dims)
    xr.testing.assert_allclose(found, wanted.assign_coords(found.coords), rtol=1e-9)
    assert found.dims[:3] == ("y", "band", "x")
    pytest.importorskip("dask")
    lazy = field.to_xarray(at, quantity=quantity, chunks={})
    assert lazy.attrs == found.attrs
    xr.testing.assert_allclose(lazy.compute(), found, rtol=1e-9)
    part = field.resize(quantity=quantity, chunks={})[2:5, 1, ::2]
    whole = np.asarray(
        field.grid(
            *(field.domain.axes[k].from_index(np.arange(n)) for k, n in enumerate(field.shape)),
            quantity=quantity,
        )
    )
    np.testing.assert_allclose(part.compute(), whole[2:5, 1, ::2], rtol=1e-9, atol=1e-12)


def test_units_of_derivatives_where_axes_agree():
    x = xr.DataArray(
        np.random.default_rng(0).random((20, 22)),
        dims=("y", "x"),
        coords={d: (d, np.arange(n) * 10.0, {"units": "m"}) for d, n in (("y", 20), ("x", 22))},
        attrs={"units": "K", "standard_name": "air_temperature"},
    )
    field = ef.fit(x)
    assert field.interp(y=5.0, quantity="gradient").attrs["units"] == "K m-1"
    assert field.interp(y=5.0, quantity="laplacian").attrs["units"] == "K m-2"
    assert "standard_name" not in field.interp(y=5.0, quantity="gradient").attrs
    wind = ef.fit(x.assign_attrs(units="m/s"))
    assert wind.interp(y=5.0, quantity="gradient").attrs["units"] == "s-1"
    half = ef.fit(x.drop_vars("x"))  # whose second axis counts samples
    assert "units" not in half.interp(y=5.0, quantity="gradient").attrs
    in_time = x[:, 0].rename(y="time").assign_coords(time=x.y.values.astype("M8[s]"))
    assert ef.fit(in_time).interp(quantity="gradient").attrs["units"] == "K s-1"


@pytest.mark.parametrize(
    ("change", "wanted"),
    [
        (lambda t: t[[1, 0, 2, 3, 4]], "got 2020-01-02 and then 2020-01-01, numbers 0 and 1. Sort"),
        (lambda t: t[[0, 1, 1, 3, 4]], "got 2020-01-02 and then 2020-01-02, numbers 1 and 2"),
        (lambda t: np.where(t == t[3], np.datetime64("NaT"), t), "number 3 is NaT. Drop such"),
    ],
)
def test_wrong_dates_are_shown_as_dates(world, change, wanted):
    wrong = world.assign_coords(time=change(world.time.values))
    with pytest.raises(ValueError, match=re.escape(wanted)) as caught:
        ef.fit(wrong)
    assert "periodic" not in str(caught.value)
    assert "e+" not in str(caught.value)


@pytest.mark.parametrize(
    ("ask", "wanted"),
    [
        (
            lambda f: f.means({"time": ["2020-01-01", "2020-01-07"]}),
            "covers 2019-12-31T12:00:00 to 2020-01-05T12:00:00; got 2020-01-01 to 2020-01-07",
        ),
        (
            lambda f: f.means({"time": ["2020-01-03", "2020-01-02"]}),
            "must ascend (or descend where the axis does); got 2020-01-03 and then 2020-01-02",
        ),
        (
            lambda f: f.resize(scale=2, window={"time": ("2019-01-01", "2020-01-02")}),
            "2019-12-31T12:00:00 to 2020-01-05T12:00:00; got 2019-01-01 to 2020-01-02.",
        ),
        (
            lambda f: f.model.coordinates.positions(
                window={"time": ("2020-01-02T02", "2020-01-02T03")}, align="nodes"
            ),
            "2020-01-02T02:00:00 to 2020-01-02T03:00:00, has no node in it",
        ),
        (
            lambda f: f.crop(["2020-01-04", 0, 0], ["2020-01-02", 9, 9]),
            "covers [2019-12-31T12:00:00, 2020-01-05T12:00:00], got 2020-01-04 to 2020-01-02.",
        ),
    ],
)
def test_dates_outside_are_shown_as_dates(field, ask, wanted):
    with pytest.raises(ValueError, match=re.escape(wanted)):
        ask(field)


def test_counted_axes_and_channels():
    values = np.random.default_rng(0).random((20, 3, 22))
    field = ef.fit(values, channel_axis=1, dims=("y", "x"))
    assert field.interp(y=3.5).dims == ("channel", "x")
    got = field.interp(y=xr.DataArray([1.0, 2.5], dims="p"), x=xr.DataArray([4.0, 5.0], dims="p"))
    assert got.dims == ("p", "channel")
    np.testing.assert_allclose(got, field([[1.0, 4.0], [2.5, 5.0]]), atol=1e-12)
    assert "x" not in field.interp(y=3.5).coords  # it only counts


def test_trajectories_share_the_time_axis(world, field):
    way = {
        "latitude": xr.DataArray([0.0, 10, 20, 30, 40], dims="time"),
        "longitude": xr.DataArray([100.0, 110, 120, 130, 140], dims="time"),
    }
    got = field.interp(way)
    assert got.dims == ("time",)
    points = [(86400.0 * k, 10.0 * k, 100.0 + 10 * k) for k in range(5)]
    np.testing.assert_allclose(got, field(points), atol=1e-9)


@pytest.mark.parametrize(
    ("coords", "error", "message"),
    [
        ({"lat": 3.0}, ValueError, r"names \['lat'\], but the axes are"),
        ({"latitude": np.zeros((2, 2))}, ValueError, "Give a DataArray, whose dims say"),
        (
            {
                "latitude": xr.DataArray([1.0, 2.0], dims="p"),
                "longitude": xr.DataArray([1.0, 2.0, 3.0], dims="p"),
            },
            ValueError,
            "share dim 'p' must be as many; got 2 on axis 'latitude' and 3 on axis 'longitude'",
        ),
        ({"latitude": ["north"]}, (TypeError, ValueError), "on axis 'latitude'"),
        ({"latitude": 85.0}, ef.OutsideDomainError, "axis 'latitude' covers"),
    ],
)
def test_wrong_positions(field, coords, error, message):
    with pytest.raises(error, match=message):
        field.interp(coords)


def test_an_unknown_quantity(field):
    with pytest.raises(ValueError, match="`quantity` must be one of"):
        field.interp(quantity="curl")


# --- several variables ----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def pair(world):
    one = world.isel(time=0, drop=True)
    two = (one * 100 + 5).rename("msl").assign_attrs(units="Pa")
    two = two.where(two.latitude > -60)
    return xr.Dataset({"t2m": one, "msl": two}, attrs={"title": "two of them"})


def test_a_dataset_in_a_dataset_out(pair, tmp_path):
    field = ef.fit(pair)
    assert field.model.n_channels == 2
    back = field.to_xarray()
    xr.testing.assert_allclose(back, pair, rtol=1e-9)
    assert back["msl"].attrs["units"] == "Pa"
    assert back.attrs == pair.attrs
    assert list(field.interp(STATIONS).data_vars) == ["t2m", "msl"]
    assert field.interp(STATIONS)["t2m"].dims == ("station",)
    ef.save(field, tmp_path / "both.elm")
    with xr.open_dataset(tmp_path / "both.elm", engine="elmfield") as ds:
        xr.testing.assert_allclose(ds.load(), pair, rtol=1e-9)
        assert np.isnan(ds["msl"]).sum() == np.isnan(pair["msl"]).sum()
    with xr.open_dataset(tmp_path / "both.elm", engine="elmfield", chunks={}) as ds:
        # Through Dask, which pickles what it reads from.
        np.testing.assert_allclose(ds["t2m"].isel(latitude=slice(3, 9)), pair["t2m"][3:9])


def test_one_of_several_variables(pair, tmp_path):
    field = ef.fit(pair)
    one = field["t2m"]
    xr.testing.assert_allclose(one.to_xarray(), pair["t2m"], rtol=1e-9)
    assert one.model.missing is None
    assert one.to_xarray().attrs == pair["t2m"].attrs
    assert one.model.data_range == pytest.approx(float(np.ptp(pair["t2m"].values)))
    with pytest.raises(KeyError, match=r"its variables are \['t2m', 'msl'\]"):
        field["sst"]
    with pytest.raises(KeyError, match="it has no variables"):
        one["t2m"]


def test_a_dataset_is_fitted_as_each_of_its_variables(pair):
    together = ef.fit(pair, ef.smooth(order=2))
    alone = ef.fit(pair["t2m"], ef.smooth(order=2))
    points = np.random.default_rng(0).uniform((-70, 0), (70, 350), (50, 2))
    np.testing.assert_allclose(together(points)[:, 0], alone(points), rtol=1e-9)


def test_a_dataset_goes_to_a_file_as_one(pair, tmp_path):
    pytest.importorskip("netCDF4")
    ef.write(ef.fit(pair), tmp_path / "both.nc", scale=2)
    with xr.open_dataset(tmp_path / "both.nc") as ds:
        assert set(ds.data_vars) == {"t2m", "msl"}
        assert ds["msl"].attrs["units"] == "Pa"
        assert ds.attrs["title"] == "two of them"


def test_accessors(world, pair):
    one = world.isel(time=0, drop=True)
    assert one.elm.interp(latitude=3.0).dims == ("longitude",)
    assert one.elm.interp(STATIONS, quantity="laplacian").dims == ("station",)
    coarse = one.elm.regrid(step=10.0)
    assert coarse.longitude.size == 36
    means = one.elm.means(latitude=[-60, 0, 60], longitude=[0, 180, 360])
    assert means.dims == ("latitude", "longitude")
    np.testing.assert_allclose(means.latitude, [-30, 30])
    assert set(pair.elm.interp(latitude=3.0).data_vars) == {"t2m", "msl"}
    assert pair.elm.means(latitude=[-60, 0, 60])["t2m"].shape == (2, 72)
    assert pair.elm.regrid({"latitude": [0.0, 1.0]}, mean=True)["t2m"].shape == (2, 72)
    with pytest.raises(ValueError, match="`edges` must name some of the axes"):
        one.elm.means(lat=[0, 1])


# --- quick looks ----------------------------------------------------------------------------------


@pytest.mark.slow
def test_plots_have_axes_and_units(world, field):
    plt = pytest.importorskip("matplotlib.pyplot")
    plt.switch_backend("agg")
    flat = ef.fit(world.isel(time=0, drop=True))
    drawn = flat.plot(ax=plt.figure().gca())
    assert drawn.axes.get_xlabel() == "longitude [degrees_east]"
    assert drawn.colorbar.ax.get_ylabel() == "temperature [K]"
    (line,) = flat.plot({"latitude": 10.0})
    assert line.axes.get_xlabel() == "longitude [degrees_east]"
    assert field.plot({"time": "2020-01-02"}) is not None
    with pytest.raises(ValueError, match="a plot has one or two axes; got"):
        field.plot()
    with pytest.raises(ValueError, match="a plot shows one variable; say which"):
        ef.fit(xr.Dataset({"a": world[0], "b": world[0]})).plot()
    plt.close("all")
