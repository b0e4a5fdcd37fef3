"""Conservative regridding: what xESMF's own tests ask of it, and sums against the source's."""

import numpy as np
import pytest
import xarray as xr
from scipy.spatial import ConvexHull, Delaunay

import elmfield as ef
from elmfield.domain.sphere import polygon_areas, unit_vectors
from oracles.earth import conservative
from support import close


def corners_of(edges):
    """Corners (ny, nx, 4) of the cells between nodes (ny + 1, nx + 1)."""
    return np.stack([edges[:-1, :-1], edges[:-1, 1:], edges[1:, 1:], edges[1:, :-1]], axis=-1)


def globe(d_lon, d_lat):
    """Borders, latitudes and longitudes of even cells around the Earth."""
    edges = np.arange(-90, 90 + d_lat / 2, d_lat), np.arange(-180, 180 + d_lon / 2, d_lon)
    return edges, *((e[:-1] + e[1:]) / 2 for e in edges)


def wave(lat, lon):
    """Some function of the place, between 1 and 3."""
    return 2 + np.cos(np.radians(lat)) ** 2 * np.cos(2 * np.radians(lon))


def even(d_lon, d_lat, values=None):
    _, lat, lon = globe(d_lon, d_lat)
    values = wave(lat[:, None], lon) if values is None else values
    return xr.DataArray(values, dims=("lat", "lon"), coords={"lat": lat, "lon": lon})


def bent(d_lon, d_lat):
    """The same cells as a mesh of two dims, with the corners of its cells, moved inside."""
    (y, x), *_ = globe(d_lon, d_lat)
    Y, X = (np.array(c, float) for c in np.meshgrid(y, x, indexing="ij"))
    Y[1:-1, 1:-1] += 0.2 * d_lat * np.sin(np.radians(3 * X[1:-1, 1:-1]))
    lat, lon = corners_of(Y), corners_of(X)
    centre = {"lat": lat.mean(axis=-1), "lon": lon.mean(axis=-1)}
    return Y, X, {n: (("y", "x"), c, {"bounds": f"{n}_bnds"}) for n, c in centre.items()}


def area(cells):
    """Of polygons (..., v, 2) with straight sides in latitude and longitude, on a unit sphere."""
    t, w = np.polynomial.legendre.leggauss(24)
    ends = np.concatenate([cells, cells[..., :1, :]], axis=-2)
    a, b = ends[..., :-1, None, :], ends[..., 1:, None, :]
    p = np.radians(a + (b - a) * (t[:, None] + 1) / 2)
    return (p[..., 1] * np.cos(p[..., 0]) * w / 2 * np.radians((b - a)[..., 0])).sum(axis=(-2, -1))


def total(da):
    """The mean of samples over even cells, by area."""
    n = da.sizes["lat"]
    size = np.diff(np.sin(np.radians(np.linspace(-90, 90, n + 1))))
    return float((da.values.mean(axis=1) * size).sum() / size.sum())


@pytest.mark.parametrize("samples", ["points", "means"])
def test_a_wave_on_the_globe(samples):
    found = ef.regrid(ef.fit(even(20, 12), samples=samples), even(15, 9), mean=True)
    assert np.abs(found / even(15, 9) - 1).max() < 0.05


def test_sums_are_those_of_the_source():
    rng = np.random.default_rng(0)
    source = even(10, 6) + rng.normal(size=(30, 36))
    field = ef.fit(source, samples="means")
    for target in (
        even(15, 9),
        even(5, 3),
        even(10, 6),
        even(15, 9).isel(lat=slice(None, None, -1)),
    ):
        found = ef.regrid(field, target, mean=True)
        assert total(found) == pytest.approx(total(source), rel=1e-13)
        assert np.array_equal(found.lat, target.lat)
    close(ef.regrid(field, source, mean=True), source, 1e-11)
    Y, X, coords = bent(20, 12)
    cells = np.stack([corners_of(Y), corners_of(X)], axis=-1)
    dims = ("y", "x", "v")
    like = xr.Dataset(
        {f"{n}_bnds": (dims, cells[..., k]) for k, n in enumerate(("lat", "lon"))}, coords
    )
    found, size = ef.regrid(field, like, mean=True).values, area(cells)
    assert (found * size).sum() / size.sum() == pytest.approx(total(source), rel=1e-12)


def test_corners_of_cells_in_three_ways():
    source, (Y, X, coords) = even(10, 6), bent(20, 12)
    cells = np.stack([corners_of(Y), corners_of(X)], axis=-1)
    named = {f"{n}_bnds": (("y", "x", "v"), cells[..., k]) for k, n in enumerate(("lat", "lon"))}
    nodes = {"lat_b": (("y_b", "x_b"), Y), "lon_b": (("y_b", "x_b"), X)}
    by_attribute = ef.regrid(source, xr.Dataset(named, coords), mean=True)
    by_nodes = ef.regrid(source, xr.Dataset(coords={**coords, **nodes}), mean=True)
    polygons, _ = ef.polygon_means(ef.fit(source))(cells)
    close(by_attribute, polygons, 1e-14)
    close(by_nodes, polygons, 1e-14)
    turned = {n: (("v", "y", "x"), np.moveaxis(v, -1, 0)) for n, (_, v) in named.items()}
    close(ef.regrid(source, xr.Dataset(turned, coords), mean=True), polygons, 1e-14)
    midway = ef.regrid(source, xr.Dataset(coords=coords), mean=True)
    assert np.nanmax(np.abs(midway - by_nodes)) > 1e-3  # cells end elsewhere


def test_bounds_of_one_dim_that_reach_beyond_the_source():
    source = even(10, 6).sel(lat=slice(-30, 30), lon=slice(-60, 60))
    lat = np.arange(-45.0, 46, 15)
    bounds = ("lat", "bnds"), np.stack([lat - 7.5, lat + 7.5], axis=-1)
    like = xr.Dataset({"lat_bnds": bounds}, {"lat": ("lat", lat, {"bounds": "lat_bnds"})})
    found = ef.regrid(source, like, mean=True)
    assert np.array_equal(np.isnan(found).all("lon"), np.abs(lat) > 31)
    field = ef.fit(source)
    edges = np.array([-30, -22.5, -7.5, 7.5, 22.5, 30])
    inner = ef.sphere(field).means({"lat": edges})
    close(found.isel(lat=slice(1, -1)), inner, 1e-12)


def test_other_dims_are_carried_along():
    source = even(20, 12)
    scale = xr.DataArray(np.arange(1.0, 8), dims="time", coords={"time": np.arange(7.0)})
    found = ef.regrid((scale * source).transpose("time", "lat", "lon"), even(15, 9), mean=True)
    one = ef.regrid(source, even(15, 9), mean=True)
    close(found, scale.values[:, None, None] * one.values, 1e-10)


def test_second_order_is_nearer_than_first_order():
    coarse, fine = even(15, 9), even(5, 3)
    edges = [globe(*d)[0] for d in ((15, 9), (5, 3))]
    first = conservative(coarse.values, *edges[0], *edges[1])
    found = ef.regrid(ef.fit(coarse, samples="means"), fine)
    rms = [np.sqrt(np.mean((np.asarray(v) - fine.values) ** 2)) for v in (found, first)]
    assert rms[0] < rms[1] / 3


@pytest.mark.parametrize(("least", "gone"), [(0.01, 0), (0.5, 1), (1.0, 2)])
def test_cells_that_are_covered_in_part(least, gone):
    source = even(10, 6)
    source[10:12, 10:12] = np.nan  # three quarters of a cell of the target
    source[10, 10], source[12, 12] = 2.0, np.nan  # and a quarter of the next one
    found = ef.regrid(source, even(20, 12), mean=True, min_coverage=least)
    assert int(found.isnull().sum()) == gone


def test_a_constant_is_one_over_zones_that_meet_at_a_pole():
    ones = ef.polygon_means(ef.fit(even(20, 12, np.ones((15, 18)))))
    zones = [[[-90, 0], [0, 10], [0, 0]], [[90, 0], [0, 10], [0, 0]]]
    means, covered = ones(zones)
    close(means, [1, 1], 1e-6)
    close(covered, [1, 1], 1e-6)


def triangles(seed=0, n=400):
    """A mesh of UGRID between 30 and 60 degrees north, without values."""
    rng = np.random.default_rng(seed)
    lat, lon = rng.uniform(30, 60, n), rng.uniform(-10, 30, n)
    faces = Delaunay(np.column_stack([lat, lon])).simplices
    told = {
        "cf_role": "mesh_topology", "topology_dimension": 2,
        "node_coordinates": "node_lon node_lat", "face_node_connectivity": "face_nodes",
    }  # fmt: skip
    at = {
        "node_lat": ("node", lat, {"units": "degrees_north"}),
        "node_lon": ("node", lon, {"units": "degrees_east"}),
    }
    table = np.column_stack([faces + 1, np.full(len(faces), -999)])
    own = (("face", "corner"), table, {"start_index": 1, "_FillValue": -999})
    return xr.Dataset({"mesh": ((), 0, told), "face_nodes": own}, at), np.stack([lat, lon], -1)[
        faces
    ]


@pytest.mark.thorough
def test_faces_of_ugrid_as_targets():
    mesh, cells = triangles()
    source = even(2, 1)
    found = ef.regrid(source, mesh, mean=True)
    assert found.dims == ("face",)
    assert set(found.coords) == {"lat", "lon"}
    close(found, ef.polygon_means(ef.fit(source))(cells)[0], 1e-8)
    centres = ef.regrid(source, mesh)
    close(centres, wave(*cells.mean(axis=1).T), 1e-5)


@pytest.mark.thorough
def test_values_on_ugrid_as_sources():
    mesh, cells = triangles()
    at = np.random.default_rng(1).uniform([35, -5], [55, 25], (200, 2))
    middles = cells.mean(axis=1)
    on_faces = mesh.assign(t=("face", wave(*middles.T), {"units": "K"}))
    field = ef.fit(on_faces)
    close(field(at), wave(*at.T), 1e-5)
    assert field.domain.dims == ("latitude", "longitude")
    assert field.labels.units == "K"
    nodes = mesh.node_lat.values, mesh.node_lon.values
    close(ef.fit(mesh.assign(t=("node", wave(*nodes))))(at), wave(*at.T), 1e-4)
    two = on_faces.assign(u=2 * on_faces.t)
    close(ef.fit(two, variable="u")(at), 2 * wave(*at.T), 1e-5)


@pytest.mark.thorough
def test_means_of_faces_are_by_the_areas_of_their_parts():
    rng = np.random.default_rng(3)
    lon, lat = rng.uniform(-180, 180, 300), np.degrees(np.arcsin(rng.uniform(-1, 1, 300)))
    faces = ConvexHull(unit_vectors(lat, lon)).simplices  # over the poles and the seam too
    cells, values = np.stack([lat, lon], -1)[faces], rng.normal(size=len(faces))
    mesh, _ = triangles()
    at = {n: ("node", c, mesh[n].attrs) for n, c in (("node_lat", lat), ("node_lon", lon))}
    parts = {"mesh": mesh.mesh, "face_nodes": (("face", "corner"), faces)}
    field = ef.fit(xr.Dataset({**parts, "t": ("face", values, {"units": "K"})}, at))
    y, x = np.meshgrid(np.linspace(-90, 90, 19), np.linspace(0, 360, 37), indexing="ij")
    corners = np.stack([y, x], axis=-1)
    boxes = np.stack([corners[:-1, :-1], corners[:-1, 1:], corners[1:, 1:], corners[1:, :-1]], 2)
    means, covered = field.means(boxes)
    close(covered, 1, 1e-12)
    whole = values @ polygon_areas(cells)
    close((means * polygon_areas(boxes)).sum(), whole, 1e-12)
    close(field.means(cells)[0], values, 1e-12)
    found = ef.regrid(field, grid=(18, 36), mean=True)
    assert found.attrs["cell_methods"].startswith("area: mean (comment: of faces")
    size = np.diff(np.sin(np.radians(np.linspace(-90, 90, 19))))[:, None] * np.radians(10)
    close((found.values * size).sum(), whole, 0.02)  # parallels are no great circles
    with pytest.raises(ValueError, match="'std' of means is for boxes"):
        ef.regrid(field, grid=(3, 3), mean=True, quantity="std")


def test_squares_of_ugrid_on_a_plane_are_first_order_conservative():
    y, x = (c.reshape(-1).astype(float) for c in np.indices((7, 9)))
    corner = (np.arange(6)[:, None] * 9 + np.arange(8)).reshape(-1, 1)
    told = {
        "cf_role": "mesh_topology", "node_coordinates": "nx ny", "face_node_connectivity": "f",
    }  # fmt: skip
    at = {"nx": ("node", x, {"axis": "X"}), "ny": ("node", y, {"axis": "Y"})}
    values = np.random.default_rng(4).normal(size=48)
    values[10] = np.nan  # in row 1, column 2: a part of the box
    mesh = {"mesh": ((), 0, told), "f": (("face", "k"), corner + np.array([0, 1, 10, 9]))}
    field = ef.fit(xr.Dataset({**mesh, "t": ("face", values)}, at))
    box = np.array([[0.25, 2.5], [0.25, 4.75], [1.5, 4.75], [1.5, 2.5]])
    rows, columns = np.array([0.75, 0.5]), np.array([0.5, 1, 0.75])
    weights = np.multiply.outer(rows, columns)
    own = values.reshape(6, 8)[:2, 2:5]
    mean, covered = field.means([box, box[::-1], box + 50])
    close(mean[:2], np.nansum(weights * own) / weights[np.isfinite(own)].sum(), 1e-12)
    part = weights[np.isfinite(own)].sum() / weights.sum()
    close(covered, [part, part, 0], 1e-12)
    assert np.isnan(mean[2])


@pytest.mark.thorough
def test_a_mesh_around_the_earth_is_periodic():
    rng = np.random.default_rng(2)
    lon, lat = rng.uniform(-180, 180, 900), np.degrees(np.arcsin(rng.uniform(-1, 1, 900)))
    mesh, _ = triangles()
    faces = ("face_nodes", (("face", "corner"), np.array([[0, 1, 2]])))
    at = {n: ("node", c, mesh[n].attrs) for n, c in (("node_lat", lat), ("node_lon", lon))}
    whole = xr.Dataset({"mesh": mesh.mesh, **dict([faces]), "t": ("node", wave(lat, lon))}, at)
    field = ef.fit(whole)
    assert field.domain.periodic == (False, True)
    close(field([[10.0, 0.0]]), field([[10.0, 360.0]]), 1e-12)


def two_variables(mesh):
    return mesh.assign(t=("face", np.ones(mesh.sizes["face"])), u=("node", mesh.node_lat.values))


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda m: m, r"`variable` must name one of \[\]"),
        (two_variables, r"must name one of \['t', 'u'\]"),
        (lambda m: m.assign(face_nodes=m.face_nodes * 0 + 7000), "three nodes or more of 400"),
        (lambda m: m.drop_vars("face_nodes"), "needs nodes at y and x, and their faces"),
    ],
)
def test_meshes_that_are_none_are_refused(change, told):
    with pytest.raises(ValueError, match=told):
        ef.fit(change(triangles()[0]))


def test_bounds_of_another_shape_are_refused():
    bad = xr.Dataset({"lat_bnds": (("lat", "v"), np.zeros((15, 3)))}, even(20, 12).coords)
    with pytest.raises(ValueError, match=r"`bounds` of axis 'lat' must be borders of cells"):
        ef.regrid(even(20, 12), bad, mean=True)
    _, _, coords = bent(20, 12)
    bad = xr.Dataset({"lat_bnds": (("y", "v"), np.zeros((15, 4)))}, coords)
    with pytest.raises(ValueError, match=r"bounds of 'lat', \(15, 18\), must be the corners"):
        ef.regrid(even(20, 12), bad, mean=True)
