"""``da.elm`` as xarray's own methods: interp, interp_like, Dask, Datasets, months."""

import numpy as np
import pytest

from support import close

xr = pytest.importorskip("xarray")
import elmfield as ef  # noqa: E402
import elmfield.io.xarray  # noqa: E402  (registers the accessor)


def weather():
    """Time, latitude and longitude: a plane in all of them."""
    time = np.datetime64("2020-01-01") + np.arange(60) * np.timedelta64(1, "D")
    lat, lon = np.linspace(50, 40, 9), np.linspace(0, 15, 12)
    values = np.arange(60.0)[:, None, None] + lat[:, None] + 2 * lon
    coords = {"time": time, "latitude": lat, "longitude": lon}
    return xr.DataArray(values, dims=tuple(coords), coords=coords, name="t", attrs={"units": "K"})


@pytest.mark.parametrize("method", [None, "linear", "cubic", "quintic"])
def test_interp_is_xarrays(method):
    da = weather()
    at = {"latitude": [41.3, 47.0], "longitude": xr.DataArray([1.0, 2.5, 9.0], dims="place")}
    own = da.interp(at, method="linear", kwargs={"fill_value": np.nan})
    got = da.elm.interp(at, method, assume_sorted=True, kwargs={"fill_value": np.nan})
    assert got.dims == own.dims
    assert set(got.coords) == set(own.coords)
    assert got.attrs == own.attrs
    close(got.values, own.values, 1e-10)


def test_bounds_are_those_of_samples():
    da = weather()
    at = {"latitude": [50.3, 45.0, 39.9, 30.0]}
    assert np.isnan(da.elm.interp(at).values).any(axis=(0, 2)).tolist() == [False] * 3 + [True]
    own = np.isnan(da.interp(at).values)
    assert np.array_equal(np.isnan(da.elm.interp(at, bounds="nan").values), own)
    assert not np.isnan(da.elm.interp(at, outside="nearest").values).any()
    with pytest.raises(ValueError, match="`fill_value` must be NaN; got 'extrapolate'"):
        da.elm.interp(at, kwargs={"fill_value": "extrapolate"})
    with pytest.raises(ValueError, match="bent is not a valid"):
        da.elm.interp(at, method="bent")


@pytest.mark.parametrize("method", ["linear", "nearest", "cubic"])
def test_methods_that_are_no_orders_are_xarrays_own(method):
    da = weather() + np.random.default_rng(0).normal(size=(60, 9, 12))
    at = {"latitude": [41.3, 47.0, 50.3], "longitude": xr.DataArray([1.0, 2.5, 9.0], dims="place")}
    own = da.interp(at, method=method)
    xr.testing.assert_allclose(ef.fit(da).interp(at, method=method), own, atol=1e-10)
    if method not in ("linear", "cubic"):
        xr.testing.assert_identical(da.elm.interp(at, method=method), own)


def test_a_field_takes_what_xarrays_interp_takes():
    da = weather()
    field, at = ef.fit(da), {"latitude": [50.3, 45.0, 39.9], "time": "2020-01-05T12"}
    got = field.interp(at, assume_sorted=True, bounds="nan")
    assert np.isnan(got).any("longitude").values.tolist() == [True, False, True]
    assert (got == field.interp(at, outside="nan")).any("longitude").values.tolist() == [0, 1, 0]
    with pytest.raises(ef.OutsideDomainError):
        field.interp(latitude=[60.0])
    assert np.isnan(field.interp(latitude=[60.0], kwargs={"fill_value": np.nan})).all()
    with pytest.raises(ValueError, match="`fill_value` must be NaN; got 0"):
        field.interp(latitude=[60.0], kwargs={"fill_value": 0})
    with pytest.raises(ValueError, match="`method` is for values"):
        field.interp(latitude=[45.0], method="linear", quantity="gradient")
    other = xr.DataArray(np.zeros((2, 3)), dims=("latitude", "q"), coords={"latitude": [44.0, 41]})
    xr.testing.assert_identical(field.interp(other), field.interp(latitude=other.latitude))


def test_interp_like():
    da = weather()
    other = xr.DataArray(
        np.zeros((4, 5)), dims=("latitude", "x"), coords={"latitude": [42.0, 43, 44, 45]}
    )
    close(da.elm.interp_like(other).values, da.interp_like(other).values, 1e-10)


def test_variables_without_the_dims_pass_through():
    da = weather()
    ds = xr.Dataset({"t": da, "height": da[0].drop_vars("time"), "name": ("time", ["a"] * 60)},
                    attrs={"title": "weather"})  # fmt: skip
    at = {"latitude": [41.0, 42.5]}
    own, got = ds.interp(at), ds.elm.interp(at)
    assert set(got.data_vars) == set(own.data_vars)
    assert got.attrs == ds.attrs
    for name in ("t", "height"):
        assert got[name].dims == own[name].dims
        close(got[name].values, own[name].values, 1e-10)
    assert (ds.elm.interp(time=da.time[3]).height == ds.height).all()
    with pytest.raises(ValueError, match=r"`coords` names \['depth'\]"):
        ds.elm.interp(depth=[1.0])


def test_dask_in_dask_out():
    dask = pytest.importorskip("dask")
    da = weather().chunk(time=20, latitude=4)
    calls = []
    with dask.config.set(scheduler=lambda *a, **k: calls.append(1)):
        lazy = da.elm.interp(latitude=[41.0, 44.5], longitude=[3.0])
    assert not calls  # nothing was computed
    assert lazy.chunks is not None
    close(lazy.compute().values, da.interp(latitude=[41.0, 44.5], longitude=[3.0]).values, 1e-10)


@pytest.mark.thorough
def test_regrid_and_means_of_dask_are_lazy():
    dask = pytest.importorskip("dask")
    da = weather()
    da.encoding["_FillValue"] = -99.0
    lazy, calls = da.chunk(time=20, latitude=4), []

    def counting(dsk, keys, **options):
        calls.append(1)
        return dask.get(dsk, keys)

    ways = [lambda a: a.elm.regrid(step=2.5), lambda a: ef.regrid(a, step=2.5, mean=True),
            lambda a: a.elm.means(latitude=[40, 45, 50.0]),
            lambda a: a.elm.interp(time=["2020-01-03T12", "2020-02-01"])]  # fmt: skip
    for make in ways:
        with dask.config.set(
            scheduler=lambda dsk, keys, **k: calls.append(1) or dask.get(dsk, keys)
        ):
            found = make(lazy)
        assert len(calls) <= 1  # one sample along the other dims, for the coordinates
        calls.clear()
        assert found.chunks is not None
        assert found.encoding == {"_FillValue": -99.0}
        xr.testing.assert_allclose(found.compute(), make(da))
        assert found.attrs == da.attrs


def test_datasets_of_several_grids():
    da = weather()
    ds = xr.Dataset({"t": da, "height": da[0].drop_vars("time"), "co2": ("time", np.ones(60)),
                     "name": ("time", ["a"] * 60)}, attrs={"title": "weather"})  # fmt: skip
    for found in (ds.elm.regrid(step=2.0), ef.regrid(ds, step=2.0)):
        assert found.attrs == ds.attrs
        assert found.co2.identical(ds.co2)
        assert found.name.identical(ds.name)
        close(found.height.values, ef.regrid(ds.height, step=2.0).values, 1e-12)
        close(found.t.values, ef.regrid(da, step=2.0).values, 1e-12)
    means = ds.elm.means(latitude=[40, 45, 50.0])
    assert means.t.shape == (60, 2, 12)
    assert means.height.shape == (2, 12)
    assert means.co2.identical(ds.co2)


def test_a_month_that_has_begun_has_a_mean_from_half_of_it_on():
    da = weather()  # ends with February
    part = da.isel(time=slice(0, 40))
    assert np.isnan(part.elm.means(time="MS")[1]).all()  # eight days and a half
    got = part.elm.means(time="MS", min_coverage=0.25)
    close(got[1, 0, 0].values - 50, (31 + 39.5) / 2, 1e-9)
    days = da.isel(time=slice(31, 36))
    assert np.isnan(days.elm.means(time="MS")).all()
    assert da.resample(time="MS").map(lambda m: m.elm.means(time="MS")).sizes["time"] == 2


def test_months_of_other_calendars():
    pytest.importorskip("cftime")
    time = xr.date_range("2001-01-01", periods=59, freq="D", calendar="noleap", use_cftime=True)
    da = xr.DataArray(np.arange(59.0), dims="time", coords={"time": time})
    close(da.elm.means(time="MS").values, [15.5, 44.75], 1e-9)


def test_months_are_periods():
    da = weather()
    got = da.elm.means(time="MS")
    assert got.sizes["time"] == 2
    # Noon to noon of the last days: half a day at either end is not there.
    close(got[:, 0, 0].values - 50, [(30.5 - 0) / 2 + 0.25, (30.5 + 1 + 59.5) / 2 - 0.25], 0.51)
    by_hand = np.array(["2020-01-01", "2020-02-01", "2020-03-01"], "datetime64[ns]")
    close(da.elm.means(time=by_hand).values, got.values, 1e-12)


def test_groups_of_dates():
    da = weather()
    got = da.groupby("time.month").map(lambda g: g.elm.interp(latitude=[44.0]).mean("time"))
    own = da.groupby("time.month").map(lambda g: g.interp(latitude=[44.0]).mean("time"))
    close(got.values, own.values, 1e-10)
    close(da.resample(time="MS").mean().elm.interp(latitude=[44.0]).values,
          da.resample(time="MS").mean().interp(latitude=[44.0]).values, 1e-10)  # fmt: skip


R = np.random.default_rng(0)
POINTS = xr.DataArray([1.5, 2.5, np.nan], dims="p", coords={"p": [3, 4, 5]})
BLOCKS = {
    "one point": {"t": 2.2, "y": 2.5, "x": 1.5},
    "a number": {"y": 2.5},
    "a grid": {"y": [1.5, 2.5], "x": [3.5]},
    "points": {"y": xr.DataArray([1.0, 2.5, 3], dims="p"), "x": POINTS},
    "a variable": {"y": ("q", [1.0, 2.0])},
    "following a dim": {"y": xr.DataArray(R.uniform(1, 5, (6, 4)), dims=("t", "q"))},
    "curved": {"t": xr.DataArray(R.uniform(1, 4, (3, 4)), dims=("r", "q"))},
}


@pytest.mark.parametrize("chunks", [{"t": (1, 3, 2)}, {"t": 2, "y": 4, "x": 3}])
@pytest.mark.parametrize("at", BLOCKS.values(), ids=BLOCKS)
def test_blocks_are_what_the_whole_is(at, chunks):
    pytest.importorskip("dask")
    coords = {
        "t": np.arange(6.0), "y": ("y", np.arange(9.0), {"units": "m"}),
        "h": ("y", np.arange(9.0) ** 2), "w": (("y", "x"), R.normal(size=(9, 10))),
    }  # fmt: skip
    da = xr.DataArray(R.normal(size=(6, 9, 10)), coords, ("t", "y", "x"), "a", {"units": "K"})
    whole, lazy = da.elm.interp(at, "cubic"), da.chunk(chunks).elm.interp(at, "cubic")
    assert lazy.chunks is not None
    xr.testing.assert_allclose(whole, lazy.compute())
    assert whole.dims == lazy.dims
    assert whole.attrs == lazy.attrs
    for name, c in whole.coords.items():
        assert lazy.coords[name].attrs == c.attrs


def test_untouched_variables_are_copies():
    ds = xr.Dataset({"a": ("x", np.arange(5.0)), "b": ("y", np.zeros(3))}, {"x": np.arange(5)})
    got = ds.elm.interp(x=[1.5])
    got.b[0] = 9
    assert ds.b[0] == 0


def test_samples_in_any_order_are_sorted_first():
    x, y = np.array([3.0, 1, 0, 2]), np.array([5.0, 9, 7])
    da = xr.DataArray(x[:, None] + 2 * y, dims=("x", "y"), coords={"x": x, "y": y})
    found = da.elm.interp(x=[0.5, 2.5])
    assert np.array_equal(found.y, y)
    close(found, np.array([0.5, 2.5])[:, None] + 2 * y, 1e-12)
    with pytest.raises(ValueError, match="strictly increasing"):
        da.elm.interp(x=[0.5], assume_sorted=True)


def test_texts_along_a_dim_are_those_of_the_nearest_as_xarray_has_them():
    ds = xr.Dataset(
        {"t": ("x", np.arange(6.0)), "name": ("x", list("abcdef"))}, {"x": np.arange(6.0)}
    )
    ours, theirs = ds.elm.interp(x=[1.2, 3.9]), ds.interp(x=[1.2, 3.9])
    assert set(ours) == set(theirs) == {"t", "name"}
    assert ours.name.values.tolist() == theirs.name.values.tolist() == ["b", "e"]
    assert set(ds.elm.means(x=[0.0, 2.0])) == {"t"}


@pytest.mark.parametrize("edges", [[2.0], [[1.0, 2.0], [3.0, 4.0]], []])
def test_edges_are_checked(edges):
    da = xr.DataArray(np.arange(6.0), dims="x", coords={"x": np.arange(6.0)})
    with pytest.raises(ValueError, match="edges on axis 'x' must be at least two"):
        da.elm.means(x=edges)
    with pytest.raises(TypeError, match="`edges` must be a mapping"):
        da.elm.means(5)
    with pytest.raises(TypeError, match="`coords` must be a mapping"):
        da.elm.interp(5)
