"""render and query: a model on a grid, and at points."""

import csv
import io
import json

import numpy as np
import pytest

import elmfield as ef


@pytest.mark.slow
def test_query(run, folder):
    field = ef.load(folder / "photo.elm")
    rows = list(csv.DictReader(io.StringIO(
        run("query", "photo.elm", "--points", "points.csv", "--at", "7,8").stdout
    )))  # fmt: skip
    got = np.asarray([[float(r[c]) for c in ("red", "green", "blue")] for r in rows])
    np.testing.assert_allclose(got, field([[7.0, 8.0], [1.0, 2.0], [3.5, 4.25]]), rtol=1e-6)
    (folder / "bom.csv").write_text("row,column\n1,2\n", encoding="utf-8-sig")
    marked = run("query", "photo.elm", "--points", "bom.csv").stdout
    assert marked.splitlines()[1].split(",")[2:] == [f"{v:.17g}" for v in field([1.0, 2.0])]
    piped = run("query", "photo.elm", "--points", "-", text="column,row\n2,1\n").stdout
    assert piped.splitlines()[1].split(",")[2:] == [f"{v:.17g}" for v in field([1.0, 2.0])]
    run("fit", "sst.nc", "-o", "sst.elm", "-q")
    at = "time=2023-01-01T12:00,latitude=10,longitude=-7.5"
    (found,) = json.loads(run("query", "sst.elm", "--at", at, "--json").stdout)
    cold = json.loads(run("query", "sst.elm", "--at", at.replace("-7.5", "352.5"), "--json").stdout)
    assert found["value"] == pytest.approx(cold[0]["value"], abs=1e-6)  # the same meridian
    assert found["value"] == pytest.approx(15.5 + 10 * np.cos(np.deg2rad(10)) * np.cos(
        np.deg2rad(15)), abs=0.2)  # fmt: skip
    assert found["at"]["time"] == "2023-01-01T12:00"
    (sure,) = csv.DictReader(io.StringIO(run("query", "sst.elm", "--at", at, "--std").stdout))
    assert float(sure["value_std"]) > 0
    outside = run("query", "photo.elm", "--at", "-50,0", code=1).stderr
    assert "inside the domain" in outside
    assert "nan" in run("query", "photo.elm", "--at", "-50,0", "--outside", "nan").stdout


@pytest.mark.slow
def test_samples_are_fitted_first(run, folder):
    told = run("render", "photo.png", "-o", "large.png", "--scale", "2").stderr
    assert "photo.png: samples, fitted first with --preset oriented" in told
    assert "preset" not in run("render", "photo.png", "-o", "x.png", "--scale", "2", "-q").stderr
    field = ef.fit(folder / "photo.png", ef.oriented())
    large = np.asarray(ef.read(folder / "large.png"))
    assert np.array_equal(large, field.resize(scale=2, dtype=np.uint8))
    near = json.loads(
        run("query", "photo.png", "--preset", "smooth", "--at", "3,4.5", "--json").stdout
    )
    assert near[0]["red"] == pytest.approx(ef.fit(folder / "photo.png")([3.0, 4.5])[0])
    run("render", "photo.png", "-o", "p.png", "--samples", "points", "--denoise", "4", "-q")
    run("render", "sst.nc", "--slice", "time=0", "-o", "fine.nc", "--scale", "2", "-q")
    assert ef.read(folder / "fine.nc").shape == (69, 144)  # nodes stay nodes


@pytest.mark.slow
def test_windows(run, folder):
    xr = pytest.importorskip("xarray")
    run("fit", "sst.nc", "-o", "sst.elm", "--slice", "time=1", "-q")
    window = ("--window", "latitude=-20:40", "--window", "longitude=-30:30")
    run("render", "sst.elm", "-o", "part.nc", *window, "--scale", 2, "-q")
    with xr.open_dataset(folder / "part.nc") as ds, xr.open_dataset(folder / "sst.nc") as old:
        np.testing.assert_allclose(ds.latitude, np.arange(40, -21, -2.5))
        np.testing.assert_allclose(ds.longitude, np.arange(-30, 31, 2.5))
        assert ds.time.values == old.time.values[1]
        assert ds.sst.attrs["units"] == "degC"
        near = old.sst.isel(time=1).sel(latitude=0, longitude=[330, 0, 30])
        np.testing.assert_allclose(ds.sst.sel(latitude=0, longitude=[-30, 0, 30]), near, atol=1e-4)
    run("fit", "sst.nc", "-o", "both.elm", "-q")
    assert "2023-01-01 to 2023-01-02" in run("info", "both.elm").stdout
    days = "time=2023-01-01T06:00/2023-01-01T18:00"
    run("render", "both.elm", "-o", "day.nc", "--window", days, "--scale", "4,1,1", "-q")
    with xr.open_dataset(folder / "day.nc") as ds:
        hours = np.datetime64("2023-01-01T06", "ns") + np.arange(3) * np.timedelta64(6, "h")
        np.testing.assert_array_equal(ds.time, hours)
    run("render", "sst.elm", "-o", "slope.nc", "--quantity", "gradient_magnitude", "-q")
    with xr.open_dataset(folder / "slope.nc") as ds:
        assert "units" not in ds.sst.attrs
        assert float(ds.sst.max()) < 1
    wrong = run("render", "sst.elm", "-o", "x.nc", "--window", "latitude=0:200", code=1).stderr
    assert "reaches beyond the domain" in wrong


def rendered_axes(folder, told, *words):
    """Latitudes and longitudes of what is rendered."""
    xr = pytest.importorskip("xarray")
    if not (folder / "sst.elm").exists():
        told("fit", folder / "sst.nc", "-o", folder / "sst.elm", "--slice", "time=0")
    told("render", folder / "sst.elm", "-o", folder / "part.nc", *words)
    with xr.open_dataset(folder / "part.nc") as ds:
        return ds.sst.load(), ds.latitude.values, ds.longitude.values


def test_a_window_may_cross_the_seam(folder, told):
    xr = pytest.importorskip("xarray")
    part, _, lon = rendered_axes(folder, told, "--window", "longitude=350:10")
    np.testing.assert_allclose(lon, [350, 355, 360, 365, 370])
    with xr.open_dataset(folder / "sst.nc") as old:
        truth = old.sst.isel(time=0).sel(longitude=[350, 355, 0, 5, 10])
    np.testing.assert_allclose(part, truth, atol=1e-4)
    _, _, lon = rendered_axes(folder, told, "--window", "longitude=-180:180")
    np.testing.assert_allclose(lon, np.arange(-180, 180, 5))
    _, _, lon = rendered_axes(folder, told, "--window", "longitude=180:-180")
    np.testing.assert_allclose(lon, np.arange(180, 540, 5))


@pytest.mark.slow
def test_a_window_is_at_most_one_turn(run):
    run("fit", "sst.nc", "-o", "sst.elm", "--slice", "time=0", "-q")
    wrong = run("render", "sst.elm", "-o", "x.nc", "--window", "longitude=0:800", code=1).stderr
    assert "on axis 'longitude': it must span at most one period, 360; got 0 to 800" in wrong


def test_a_seam_on_an_uneven_axis(folder, told):
    lon = 360 * (np.arange(30) / 30) ** 1.2
    values = np.cos(np.deg2rad(lon)) * np.ones((12, 1))
    field = ef.fit(values, coords=[None, lon], dims=("y", "lon"), periodic={"lon": 360.0})
    ef.save(field, folder / "u.elm")
    words = ("--window", "lon=350:10", "--shape", "3,5", "--align", "nodes")
    told("render", folder / "u.elm", "-o", folder / "u.npz", *words)
    with np.load(folder / "u.npz") as made:
        np.testing.assert_allclose(made["lon"][[0, -1]], [350, 370], atol=1e-6)
        assert made["values"].min() > 0.97


def test_nodes_stay_in_their_window(folder, told):
    window = ("--window", "latitude=11:19", "--window", "longitude=16.3:18.9")
    _, lat, lon = rendered_axes(folder, told, *window, "--shape", "5,4")
    np.testing.assert_allclose(lat, np.linspace(19, 11, 5))
    np.testing.assert_allclose(lon, np.linspace(16.3, 18.9, 4))
    # An axis without a window is as it was: it ends at its samples, whatever the scale.
    _, lat, lon = rendered_axes(folder, told, "--window", "longitude=0:20", "--scale", 2)
    np.testing.assert_allclose(lat, np.linspace(85, -85, 69))
    np.testing.assert_allclose(lon, np.arange(0, 20.1, 2.5))
    _, lat, lon = rendered_axes(folder, told, "--window", "latitude=0:20", "--scale", 2)
    np.testing.assert_allclose(lon, np.arange(0, 360, 2.5))


@pytest.fixture
def sst(folder):
    ef.save(ef.fit(folder / "sst.nc"), folder / "sst.elm")
    return folder / "sst.elm"


@pytest.mark.thorough
def test_target_grids(folder, told, sst):
    xr = pytest.importorskip("xarray")
    facts = told("render", sst, "-o", folder / "a.nc", "--grid", "17x36", "--mean")
    assert facts["shape"] == [2, 17, 36]
    with xr.open_dataset(folder / "a.nc") as ds:
        expected = ef.regrid(ef.load(sst), grid=(17, 36), mean=True)
        np.testing.assert_allclose(ds["sst"], expected, rtol=1e-6)
    assert told("render", sst, "-o", folder / "b.nc", "--step", "2.5")["shape"] == [2, 69, 144]
    like = told("render", sst, "-o", folder / "c.nc", "--like", folder / "a.nc")
    assert like["shape"] == [2, 17, 36]
    assert told("render", sst, "-o", folder / "d.nc", "--scale", "1,0.5,0.5")["shape"] == [
        2,
        18,
        36,
    ]
    with xr.open_dataset(folder / "d.nc") as ds:
        points = ef.load(sst).grid(*(ds[d].values for d in ds["sst"].dims))
        assert np.abs(ds["sst"].values - points).max() > 0.01  # means, by default
    told("render", sst, "-o", folder / "e.nc", "--scale", "1,0.5,0.5", "--no-antialias")
    with xr.open_dataset(folder / "e.nc") as ds:
        np.testing.assert_allclose(ds["sst"].values, points, atol=1e-3)


@pytest.mark.slow
def test_another_projection(run, folder, sst):
    pytest.importorskip("rasterio")
    xr = pytest.importorskip("xarray")
    field = ef.load(sst)
    europe = field.crop([0.0, 30, 0], [86400.0, 70, 45])
    ef.save(europe, folder / "europe.elm")
    run("render", "europe.elm", "-o", "map.nc", "--crs", "EPSG:3035", "--step", "100000")
    run("render", "europe.elm", "-o", "same.nc", "--crs", "EPSG:3035", "--step", "1e5", "--mean")
    with xr.open_dataset(folder / "map.nc") as points, xr.open_dataset(folder / "same.nc") as means:
        assert points["sst"].shape == means["sst"].shape
        off = np.abs(points["sst"].values - means["sst"].values)
    assert np.isfinite(off).mean() > 0.6
    assert np.nanmax(off) < 0.1  # cells over the border too: means of what is covered


def test_points_keep_their_other_columns(run, folder, sst):
    rows = ["station,lat,lon,time,height", "Vienna,48.2,16.4,2023-01-01,171"]
    rows.append("Quito,-0.2,281.5,2023-01-02,2850")
    (folder / "stations.csv").write_text("\n".join(rows))
    lines = run("query", sst, "--points", "stations.csv").stdout.splitlines()
    assert lines[0] == "station,height,time,latitude,longitude,value"
    assert lines[1].startswith("Vienna,171,2023-01-01,48.2,16.4,")
    field = ef.load(sst)
    value = float(lines[2].split(",")[-1])
    expected = field.interp(time="2023-01-02", latitude=-0.2, longitude=281.5)
    np.testing.assert_allclose(value, expected, rtol=1e-6)
    found = json.loads(run("query", sst, "--points", "stations.csv", "--json").stdout)
    assert found[0]["station"] == "Vienna"
    (folder / "bad.csv").write_text("name,breadth,length\na,1,2\n")
    wrong = run("query", sst, "--points", "bad.csv", code=1).stderr
    assert "has no column 'time'; its columns are ['name', 'breadth', 'length']" in wrong


def test_what_is_missing(run, folder, told):
    xr = pytest.importorskip("xarray")
    with xr.open_dataset(folder / "sst.nc") as ds:
        sst = ds["sst"].isel(time=0, drop=True).load()
    sst.where(sst.longitude > 100).to_netcdf(folder / "sea.nc")
    told("fit", folder / "sea.nc", "-o", folder / "sea.elm")
    land = "latitude=10,longitude=40"
    assert run("query", "sea.elm", "--at", land).stdout.splitlines()[1].endswith(",nan")
    found = json.loads(run("query", "sea.elm", "--at", land, "--json").stdout)
    assert found[0]["value"] is None
    filled = run("query", "sea.elm", "--at", land, "--missing", "fill").stdout
    assert np.isfinite(float(filled.splitlines()[1].split(",")[-1]))
    told("render", folder / "sea.elm", "-o", folder / "out.nc")
    with xr.open_dataset(folder / "out.nc") as ds:
        assert np.array_equal(np.isnan(ds["sst"]), np.isnan(sst.where(sst.longitude > 100)))
    told("render", folder / "sea.elm", "-o", folder / "full.nc", "--missing", "fill")
    with xr.open_dataset(folder / "full.nc") as ds:
        assert np.isfinite(ds["sst"]).all()


def test_samples_that_are_means(folder, told):
    told(
        "fit", folder / "sst.nc", "-o", folder / "m.elm", "--slice", "time=0", "--samples", "means"
    )
    field = ef.load(folder / "m.elm")
    lat, lon = 87.5 - 5.0 * np.arange(36), -2.5 + 5.0 * np.arange(73)
    values = ef.read(folder / "sst.nc").values[0]
    np.testing.assert_allclose(field.means(lat, lon), values, atol=1e-3)
