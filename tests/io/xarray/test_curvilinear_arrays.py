"""DataArrays with coordinates of two dims: fields that go by these, as sources and as targets."""

import numpy as np
import pytest

pytest.importorskip("xarray")

import xarray as xr

import elmfield as ef
import elmfield.io.xarray
from support import close


def wave(lat, lon):
    return np.sin(np.radians(6 * lat)) * np.cos(np.radians(5 * lon))


def array(n=40, m=50, times=None):
    j, i = np.indices((n, m)).astype(float)
    lat, lon = 40 + 0.3 * j + 0.08 * i, 170 + 0.4 * i - 0.1 * j  # over the date line
    lon = (lon + 180) % 360 - 180
    values, dims = wave(lat, lon), ("eta", "xi")
    at = {"lat": (dims, lat, {"units": "degrees_north"}), "lon": (dims, lon)}
    if times is not None:
        values, dims = values + np.arange(times)[:, None, None], ("time", *dims)
        at["time"] = np.arange(times) * 2.0
    return xr.DataArray(values, dims=dims, coords=at, name="sst", attrs={"units": "K"})


AT = np.array([[48.0, 178.0], [47.0, -179.0], [49.0, 182.0]])


def test_a_field_answers_in_the_coordinates_of_the_mesh():
    da = array()
    field = ef.fit(da)
    close(field(AT), wave(*AT.T), 1e-4)
    assert np.isnan(field([0.0, 0.0]))
    step = 1e-4
    north = (wave(48 + step, 178) - wave(48 - step, 178)) / (2 * step * np.pi / 180 * 6.371e6)
    close(field.gradient(AT[0])[0] * 1e6, north * 1e6, 1e-3)
    assert (field.std(AT) < 0.1).all()
    with pytest.raises(ValueError, match="values and gradients"):
        field.laplacian(AT)


def test_interp_by_either_names():
    da = array(times=6)
    field = ef.fit(da)
    stations = {n: ("station", AT[:, k]) for k, n in enumerate(("lat", "lon"))}
    found = field.interp(stations, time=3.0)
    assert found.dims == ("station",)
    assert found.attrs == da.attrs
    assert float(found.time) == 3
    close(found.values, wave(*AT.T) + 1.5, 1e-4)
    line = field.interp(stations)
    assert line.dims == ("time", "station")
    assert np.array_equal(line.time, da.time)
    slope = field.interp(stations, time=3.0, quantity="gradient")
    assert slope.attrs["units"] == "K m-1"
    assert slope.direction.values.tolist() == ["lat", "lon"]
    close(field.interp(eta=3, xi=4, time=2.0).values, da[1, 3, 4].values, 1e-9)
    xr.testing.assert_allclose(field.to_xarray(), da)
    xr.testing.assert_allclose(da.elm.interp(stations, time=3.0), found)
    with pytest.raises(ValueError, match="need both lat and lon"):
        field.interp(lat=48.0)


def test_variables_of_a_dataset_share_the_mesh():
    da = array()
    both = ef.fit(xr.Dataset({"a": da, "b": da + 1}))
    close(both(AT), np.stack([wave(*AT.T), wave(*AT.T) + 1], axis=-1), 1e-4)
    close(both["b"](AT), wave(*AT.T) + 1, 1e-4)
    box = AT[0] + np.array([[-1, -1], [-1, 1], [1, 1], [1, -1.0]])
    means, _ = both.means([box])
    close(means[0, 1] - means[0, 0], 1, 1e-9)


def test_a_map_in_metres():
    j, i = np.indices((30, 30)).astype(float)
    y, x = 1000 * j + 200 * i, 900 * i - 100 * j
    da = xr.DataArray(
        y + 2 * x, dims=("r", "c"), coords={"y": (("r", "c"), y), "x": (("r", "c"), x)}
    )
    field = ef.fit(da)
    close(field([15000.0, 12000.0]), 39000, 1e-3)
    close(field.gradient([15000.0, 12000.0]), [1, 2], 1e-6)
    even = ef.regrid(field, {"y": np.linspace(14e3, 18e3, 5), "x": np.linspace(11e3, 13e3, 4)})
    assert even.dims == ("y", "x")
    close(even.values, (even.y + 2 * even.x).values, 1e-3)


def test_own_coordinates_of_the_dims_come_first():
    da = array().assign_coords(eta=np.arange(40.0), xi=np.arange(50.0))
    close(ef.fit(da)([3.0, 4.0]), da[3, 4].values, 1e-9)


@pytest.mark.thorough
def test_regrid_to_an_even_grid():
    like = {"latitude": np.arange(45, 50, 0.25), "longitude": np.arange(176, 184, 0.5)}
    da = array(times=3)
    found = ef.regrid(da, like)
    assert found.dims == ("time", "lat", "lon")
    assert found.shape == (3, 20, 16)
    assert found.name == "sst"
    assert found.attrs["units"] == "K"
    exact = wave(*np.meshgrid(like["latitude"], like["longitude"], indexing="ij"))
    on_mesh = np.isfinite(found.values[2])
    assert on_mesh.mean() > 0.9
    close(found.values[2][on_mesh], (exact + 2)[on_mesh], 1e-3)
    means = ef.regrid(da, like, mean=True)
    close(np.nanmax(np.abs(means - found)), 0, 2e-2)
    steps = ef.regrid(da, step=1.0)
    assert np.isfinite(steps).any()
    assert steps.shape[0] == 3
    assert abs(float(steps.lon[-1] - steps.lon[0])) < 40


@pytest.mark.thorough
def test_regrid_to_curved_and_projected_cells():
    da = array()
    other = array(12, 14)
    other = other.assign_coords(lat=other.lat * 1.0 + 2, lon=other.lon + 3)
    found = ef.regrid(da, other)
    exact = wave(other.lat, other.lon).values
    on_mesh = np.isfinite(found.values)
    assert on_mesh.mean() > 0.5
    close(found.values[on_mesh], exact[on_mesh], 1e-3)
    assert np.array_equal(ef.regrid(da, ef.fit(other)), found, equal_nan=True)
    pytest.importorskip("pyproj")
    flat = ef.regrid(da, crs="EPSG:3832", step=100_000.0, mean=True)
    assert flat.dims == ("y", "x")
    assert 0.2 < np.isfinite(flat).mean() <= 1


@pytest.mark.thorough
@pytest.mark.parametrize(("repeated", "closed"), [(0, True), (2, False)])
def test_a_mesh_that_goes_round_is_periodic(repeated, closed):
    j, i = np.indices((12, 36 + repeated)).astype(float)
    lat, lon = 40 + 2 * j + np.sin(np.radians(10 * i)), 10 * i + j
    at = {"nav_lat": (("y", "x"), lat), "nav_lon": (("y", "x"), lon)}
    field = ef.fit(xr.DataArray(lat, dims=("y", "x"), coords=at))
    assert field.domain.periodic == (False, closed)
    line = np.column_stack([np.full(50, 52.0), np.linspace(-300, 400, 50)])
    close(field(line), 52.0, 1e-3)
    even = ef.regrid(field, step=(2.0, 10.0), mean=True)
    assert even.sizes["nav_lon"] == 36


@pytest.mark.parametrize("form", ["vertices", "edges"])
def test_corners_of_cells_come_along(form):
    y, x = np.meshgrid(np.linspace(30, 50, 13), np.linspace(5, 30, 17), indexing="ij")
    y, x = y + 0.1 * x, x - 0.05 * y
    lat, lon = (np.stack([c[:-1, :-1], c[:-1, 1:], c[1:, 1:], c[1:, :-1]], -1) for c in (y, x))
    coords = {"lat": (("j", "i"), lat.mean(-1), {"units": "degrees_north"}),
              "lon": (("j", "i"), lon.mean(-1), {"units": "degrees_east"})}  # fmt: skip
    told = {"cell_methods": "area: mean", "units": "K"}
    ds = xr.Dataset({"t": (("j", "i"), np.cos(np.radians(lat.mean(-1))), told)}, coords)
    if form == "vertices":
        more = {"lat_vertices": (("j", "i", "v"), lat), "lon_vertices": (("j", "i", "v"), lon)}
    else:
        more = {"lat_b": (("jb", "ib"), y), "lon_b": (("jb", "ib"), x)}
    field = ef.fit(ds.assign(more))["t"]
    assert field.labels.samples == "means"
    assert np.array_equal(field.corners, np.stack([lat, lon], axis=-1))
    assert ef.fit(ds.t).corners is None
    means, _ = field.means(field.corners[3:9, 3:12])
    assert np.abs(means - ds.t.values[3:9, 3:12]).max() < 1e-3
    with pytest.raises(ValueError, match="must be the corners of its cells"):
        ef.fit(ds.assign(lat_vertices=("j", np.zeros(12)), lon_vertices=("j", np.zeros(12))))


@pytest.mark.parametrize("names", [("lat_rho", "lon_rho"), ("XLAT", "XLONG"), ("TLAT", "TLONG"),
                                   ("gphit", "glamt"), ("nav_lat", "nav_lon")])  # fmt: skip
def test_models_names_are_known(names):
    da = array().rename(dict(zip(("lat", "lon"), names)))
    for name in names:
        da[name].attrs = {}
    close(ef.fit(da).interp(dict(zip(names, AT[0]))), wave(*AT[0]), 1e-4)


@pytest.mark.thorough
@pytest.mark.parametrize(
    "ask",
    [
        lambda da: da.elm.interp(lat=xr.DataArray(AT[:, 0], dims="n"),
                                 lon=xr.DataArray(AT[:, 1], dims="n")),
        lambda da: da.elm.interp(lat=[47.0, 48.0], lon=[178.0], quantity="gradient"),
        lambda da: da.elm.regrid(step=1.0),
        lambda da: da.isel(time=0).elm.regrid(step=1.0),
    ],
)  # fmt: skip
def test_dask_arrays_are_lazy(ask):
    pytest.importorskip("dask")
    da, seen = array(times=3), []
    chunked = da.chunk({"time": 1})
    blocks = chunked.data.map_blocks(lambda b: seen.append(b) or b, meta=chunked.data._meta)
    found = ask(chunked.copy(data=blocks))
    assert not seen
    assert found.chunks is not None
    xr.testing.assert_allclose(found, ask(da))
    assert found.attrs == ask(da).attrs


def test_an_encoder_knows_the_mesh():
    da = array()
    encode = ef.encoder(da)
    close(encode(da + 1)(AT), wave(*AT.T) + 1, 1e-4)
    with pytest.raises(ValueError, match="on the grid"):
        encode(da.assign_coords(lat=da.lat + 1))


def test_what_like_calls_its_dims():
    da, like = array(), array(12, 14)
    assert ef.regrid(xr.DataArray(
        np.zeros((90, 180)), {"lat": np.arange(-89.0, 90, 2), "lon": np.arange(0, 360, 2.0)},
        ["lat", "lon"]), like).dims == ("eta", "xi")  # fmt: skip
    cells = {"lat": ("cell", like.lat.values.ravel()), "lon": ("cell", like.lon.values.ravel())}
    found = ef.regrid(da, xr.Dataset(coords=cells))
    close(found, ef.regrid(da, like).values.ravel(), 1e-12)
    assert found.dims == ("cell",)
    with pytest.raises(ValueError, match="need their corners"):
        ef.regrid(da, xr.Dataset(coords=cells), mean=True)


@pytest.mark.thorough
@pytest.mark.parametrize("flat", [True, False])
def test_maps_go_to_degrees(flat):
    pytest.importorskip("pyproj")
    lat, lon = np.arange(40, 60.0), np.arange(0, 20.0)
    values = wave(lat[:, None], lon)
    degrees = xr.DataArray(values, {"lat": lat, "lon": lon}, ["lat", "lon"])
    back = ef.regrid(ef.regrid(degrees, crs="EPSG:3035", step=50_000), degrees)
    if not flat:
        y, x = (xr.DataArray(c, dims=("eta", "xi")) for c in np.meshgrid(lat, lon, indexing="ij"))
        of = ef.regrid(degrees, crs="EPSG:3035", step=50_000)
        back = ef.regrid(of, xr.Dataset(coords={"lat": y, "lon": x}))
    assert back.dims == (("lat", "lon") if flat else ("eta", "xi"))
    assert set(back.coords) == {"lat", "lon"} | ({"spatial_ref"} if flat else set())
    inner = (slice(3, -3), slice(3, -3))
    close(back.values[inner], values[inner], 1e-3)


@pytest.mark.thorough
def test_cells_over_the_seam_of_a_map_are_not_torn():
    pytest.importorskip("pyproj")
    lat, lon = np.arange(-89.0, 90, 2), np.arange(0, 360, 2.0)
    values = np.cos(np.radians(2 * lon)) * np.cos(np.radians(lat[:, None]))
    da = xr.DataArray(values, {"lat": lat, "lon": lon}, ["lat", "lon"])
    there = ef.regrid(da, crs="EPSG:6933", step=3e5, mean=True)
    back = ef.regrid(there, da, mean=True).sel(lat=slice(-50, 50))
    assert np.isnan(back.sel(lon=180)).all()
    close(back.fillna(da), da.sel(lat=slice(-50, 50)), 0.02)


@pytest.mark.parametrize("kind", ["swath", "fold", "corners", "map"])
@pytest.mark.parametrize("end", [".elm", ".elm.zarr"])
def test_a_model_file_keeps_the_mesh(kind, end, tmp_path):
    da, where = array(), AT
    if kind == "fold":  # to a pole, where rows go on half a turn further
        j, i = np.indices((30, 40)).astype(float)
        lat, lon = 60.5 + j, (9.0 * i + 180) % 360 - 180
        coords = {"lat": (("eta", "xi"), lat), "lon": (("eta", "xi"), lon)}
        da, where = (
            da[:30, :40].drop_vars(["lat", "lon"]).assign_coords(coords),
            AT + np.array([25, 0]),
        )
    if kind == "map":
        da = da.rename(lat="y", lon="x").drop_attrs()
        da, where = da.assign_coords(x=da.x % 360), np.array([[48.0, 178.0]])
    given = da
    if kind == "corners":
        cells = {n: (("eta", "xi", "v"), np.stack([da[n]] * 4, -1) + o) for n, o in
                 (("lat", [-0.1, -0.1, 0.1, 0.1]), ("lon", [-0.2, 0.2, 0.2, -0.2]))}  # fmt: skip
        given = da.to_dataset().assign({f"{n}_bnds": b for n, b in cells.items()})
    field = ef.fit(given)
    ef.save(field, tmp_path / f"a{end}")
    again = ef.load(tmp_path / f"a{end}")
    close(again(where), field(where), 0)
    assert (again.mesh.fold is None) == (kind != "fold")
    assert (again.corners is None) == (kind != "corners")
    opened = xr.open_dataset(tmp_path / f"a{end}", engine="elmfield")["sst"]
    assert set(opened.coords) == set(again.to_xarray().coords) == set(da.coords)
    close(ef.fit(opened)(where), np.squeeze(field(where)), 1e-12)
