"""Curvilinear grids: places are found, values and slopes are those of the function."""

import numpy as np
import pytest

import elmfield as ef
from elmfield.domain.sphere import unit_vectors
from elmfield.fit.mesh import fold_of
from support import close

RADIUS = 6.371e6


def rotated(n=60, m=70, step=0.5, pole=39.25):
    """Latitudes and longitudes of a grid whose pole is moved, as regional models have it."""
    la, lo = np.radians((np.arange(n) - n / 2) * step), np.radians((np.arange(m) - m / 2) * step)
    la, lo = np.meshgrid(la, lo, indexing="ij")
    x, y, z = np.cos(la) * np.cos(lo), np.cos(la) * np.sin(lo), np.sin(la)
    a = np.radians(90 - pole)
    x, z = np.cos(a) * x - np.sin(a) * z, np.sin(a) * x + np.cos(a) * z
    return np.degrees(np.arcsin(z)), np.degrees(np.arctan2(y, x)) + 178  # over the date line


def wave(lat, lon):
    return np.sin(np.radians(6 * lat)) * np.cos(np.radians(5 * lon))


def slopes(lat, lon):
    """Per metre, northward and eastward."""
    f, l = np.radians(lat), np.radians(lon)
    north = 6 * np.cos(6 * f) * np.cos(5 * l)
    east = -5 * np.sin(6 * f) * np.sin(5 * l) / np.cos(f)
    return np.stack([north, east], axis=-1) / RADIUS


@pytest.fixture(scope="module")
def mesh():
    lat, lon = rotated()
    return ef.curvilinear(ef.fit(wave(lat, lon)), lat, lon)


@pytest.mark.parametrize("n", [200, 25_000])
def test_places_are_found(mesh, n):
    i = np.random.default_rng(0).uniform(-0.5, [59.5, 69.5], (n, 2))
    p = mesh.mesh.places(i)
    lat = np.degrees(np.arcsin(p[:, 2] / np.linalg.norm(p, axis=1)))
    at = np.column_stack([lat, np.degrees(np.arctan2(p[:, 1], p[:, 0]))])
    found, on_mesh = mesh.locate(at)
    assert on_mesh.all()
    close(found, i, 1e-9)
    inner = (i > 1).all(axis=1) & (i < [58, 68]).all(axis=1)
    close(mesh(at)[inner], wave(*at[inner].T), 1e-4)
    top = np.abs(slopes(*at.T)).max()
    close(mesh.gradient(at[inner]) / top, slopes(*at[inner].T) / top, 1e-3)


def test_samples_are_where_they_were(mesh):
    lat, lon = rotated()
    at = np.stack([lat, lon], axis=-1)
    close(mesh(at), wave(lat, lon), 1e-9)
    assert mesh(at + np.array([0.0, 360.0])).shape == lat.shape


def test_places_off_the_mesh_are_nan(mesh):
    assert np.isnan(mesh([[-80.0, 0.0], [np.nan, 3.0], [89.9, 10.0]])).all()
    assert np.isnan(mesh.gradient([[-80.0, 0.0]])).all()


def test_a_sheared_map_of_a_plane_is_exact():
    j, i = np.indices((20, 25)).astype(float)
    y, x = 3 * j + 0.7 * i, 2 * i - 0.4 * j + 0.01 * i * j
    values = np.stack([y + 2 * x, x], axis=-1)
    mesh = ef.curvilinear(ef.fit(values, channel_axis=-1), y, x, is_map=True)
    at = np.column_stack([y[3:17, 3:20].ravel() + 0.4, x[3:17, 3:20].ravel() + 0.3])
    close(mesh(at), np.column_stack([at[:, 0] + 2 * at[:, 1], at[:, 1]]), 1e-4)
    close(mesh.gradient(at), np.broadcast_to([[1, 2], [0, 1]], (len(at), 2, 2)), 1e-3)


def test_other_axes_come_first():
    lat, lon = rotated(30, 30)
    values = np.arange(5)[:, None, None] + wave(lat, lon)
    mesh = ef.curvilinear(ef.fit(values), lat, lon)
    at = np.array([[2.5, lat[10, 12], lon[10, 12]]])
    close(mesh(at), 2.5 + wave(lat[10, 12], lon[10, 12]), 1e-4)


def test_an_axis_may_go_round():
    j, i = np.indices((12, 36)).astype(float)
    lat, lon = 40 + 2 * j + np.sin(np.radians(10 * i)), 10 * i + j
    mesh = ef.curvilinear(ef.fit(lat, periodic=1), lat, lon)
    at = np.column_stack([np.full(50, 52.0), np.linspace(-300, 400, 50)])
    close(mesh(at), 52.0, 1e-3)


def test_samples_without_a_place_are_no_start():
    lat, lon = rotated(40, 40)
    lat[10:13, 20], lon[10:13, 20] = np.nan, np.nan
    full = rotated(40, 40)
    mesh = ef.curvilinear(ef.fit(wave(*full)), lat, lon)
    at = np.stack(full, axis=-1)[5:30:7, 5:30:7]
    close(mesh(at), wave(at[..., 0], at[..., 1]), 1e-6)


def test_means_are_by_area(mesh):
    lat, lon = rotated()
    c = np.array([lat[30, 35], lon[30, 35]])
    box = c + np.array([[-2, -3], [-2, 3], [2, 3], [2, -3.0]])
    found, covered = mesh.means([box, box - [100, 0]])
    y, x = np.meshgrid(c[0] + np.linspace(-2, 2, 401), c[1] + np.linspace(-3, 3, 401))
    w = np.cos(np.radians(y))
    close(found[0], (wave(y, x) * w).sum() / w.sum(), 5e-3)  # sides are straight on the mesh
    close(covered[0], 1, 1e-6)
    assert np.isnan(found[1])


def test_shapes_are_checked():
    field = ef.fit(np.eye(8))
    with pytest.raises(ValueError, match="must have the shape of the field's last two axes"):
        ef.curvilinear(field, np.eye(7), np.eye(7))
    with pytest.raises(ValueError, match="`latitude` must lie between -90 and 90 degrees; got 97"):
        ef.curvilinear(field, 90 + np.indices((8, 8))[0], np.indices((8, 8))[1])
    with pytest.raises(ValueError, match="`points` must have 2 coordinates each"):
        ef.curvilinear(field, *np.indices((8, 8)).astype(float))([1.0])


def tripolar(n=60, m=90):
    """A mesh around the Earth that ends in the north in a fold between two poles."""
    lon = (np.arange(m) + 0.5) * 360 / m
    low = np.stack(np.meshgrid(np.linspace(-70, 60, n), lon, indexing="ij"), axis=-1)
    s = (np.arange(1, 15) / 14.5)[:, None]  # ellipses in the stereographic plane
    t, r = np.radians(lon), np.tan(np.radians(15))
    x, y = r * (1 - 0.1 * s) * np.cos(t), r * (1 - s) * np.sin(t)
    cap = [90 - 2 * np.degrees(np.arctan(np.hypot(x, y))), np.degrees(np.arctan2(y, x))]
    return np.moveaxis(np.concatenate([low, np.stack(cap, axis=-1)]), -1, 0)


def test_a_mesh_with_two_poles_in_the_north_has_no_seams():
    lat, lon = tripolar()

    def truth(f, l):
        return np.sin(np.radians(2 * f)) + np.cos(np.radians(f)) * np.cos(np.radians(l - 20))

    mesh = ef.curvilinear(ef.fit(truth(lat, lon), periodic=1), lat, lon)
    v = np.random.default_rng(0).normal(size=(5000, 3))
    f = np.degrees(np.arctan2(v[:, 2], np.hypot(v[:, 0], v[:, 1])))
    at = np.column_stack([f, np.degrees(np.arctan2(v[:, 1], v[:, 0]))])[f > -69]
    found = mesh(at)
    assert np.isfinite(found).mean() > 0.999
    off = np.abs(found - truth(*at.T))
    assert np.nanmax(off) < 2e-2  # beside the fold
    assert np.nanmax(off[at[:, 0] < 55]) < 1e-3


def smooth_at_poles(f, l):
    x = np.cos(np.radians(f)) * np.cos(np.radians(l - 20))
    return np.sin(np.radians(f)) ** 2 + np.cos(3 * x)


@pytest.mark.parametrize("kind", ["fold", "pole", "neither"])
def test_rows_go_on_beyond_the_last_one(kind):
    xr = pytest.importorskip("xarray")
    lat, lon = tripolar()
    if kind != "fold":
        last = 90 if kind == "pole" else 70
        lat, lon = np.meshgrid(np.arange(-69, last, 2.0), np.arange(0, 360, 4.0), indexing="ij")
    dims = ("j", "i")
    at = {"lat": (dims, lat, {"units": "degrees_north"}), "lon": (dims, lon)}
    da = xr.DataArray(smooth_at_poles(lat, lon), dims=dims, coords=at)
    found = fold_of(lat, lon)
    assert (found is None) == (kind == "neither")
    if found is None:
        return
    m = lat.shape[1]
    assert found.columns[0] == (m - 1 if kind == "fold" else m // 2)
    field = ef.fit(da)
    assert np.array_equal(field.samples(), da)
    assert field.to_xarray().sizes == da.sizes
    # Half a cell beyond the last row, from one side of the fold to the other.
    a, b = unit_vectors(lat[-1], lon[-1]), unit_vectors(lat[-1], lon[-1])[found.columns]
    p = a + (b - a) * np.random.default_rng(0).uniform(0.1, 0.9, (m, 1))
    places = np.stack([np.degrees(np.arctan2(p[:, 2], np.hypot(p[:, 0], p[:, 1]))),
                       np.degrees(np.arctan2(p[:, 1], p[:, 0]))], axis=-1)  # fmt: skip
    places = places[np.linalg.norm(b - a, axis=-1) > 1e-3]
    off = np.abs(field(places) - smooth_at_poles(*places.T))
    plain = ef.curvilinear(ef.fit(da.values, periodic=1), lat, lon)
    before = np.abs(plain(places) - smooth_at_poles(*places.T))
    assert off.max() < (2e-4 if kind == "fold" else 1e-10)
    assert off.max() < before.max() / 5


def test_rows_of_a_swath_may_overlap():
    x = np.linspace(-1, 1, 60)
    k, scan = np.arange(80)[:, None] % 10, np.arange(80)[:, None] // 10
    lat = 40 + 0.1 * (10 * scan + (k - 4.5) * (1 + 0.6 * x**2) + 4.5) + 0.05 * x
    lon = 10 + 8 * x + 0 * lat
    values = wave(lat, lon)
    lat[33:36, 20:30], lon[33:36, 20:30] = np.nan, np.nan
    mesh = ef.curvilinear(ef.fit(values), lat, lon)
    at = np.random.default_rng(1).uniform([40.5, 3], [47, 17], (2000, 2))
    found = mesh(at)
    assert np.isfinite(found).mean() > 0.99
    assert np.nanpercentile(np.abs(found - wave(*at.T)), 99) < 1e-2 * np.ptp(values)


@pytest.mark.thorough
@pytest.mark.parametrize("kind", ["rotated", "overlapping", "periodic", "polar", "four samples"])
def test_many_places_are_found_where_few_are(kind):
    j, i = np.indices((40, 50))
    lat, lon = {
        "rotated": lambda: rotated(40, 50),
        "overlapping": lambda: (0.2 * (j - 2.4 * (j // 10)) + 0.02 * i, 0.2 * i - 0.03 * j),
        "periodic": lambda: (4.0 * j - 80 + 3 * np.sin(i * 2 * np.pi / 50), 7.2 * i - 200),
        "polar": lambda: (
            90 - np.hypot(j - 18, i - 27.4),
            np.degrees(np.arctan2(j - 18, i - 27.4)),
        ),
        "four samples": lambda: (j[:2, :2] + 0.1 * i[:2, :2], 1.2 * i[:2, :2]),
    }[kind]()
    field = ef.fit(lat, periodic=1 if kind == "periodic" else ())
    rng = np.random.default_rng(0)
    at = rng.uniform(
        [lat.min() - 1, lon.min() - 1], [min(lat.max() + 1, 90), lon.max() + 1], (22_000, 2)
    )
    few = slice(0, 700)
    alone, on_mesh = ef.curvilinear(field, lat, lon).locate(at[few])
    found, every = ef.curvilinear(field, lat, lon).locate(at)
    assert (every[few] == on_mesh).all()
    assert 0.2 < on_mesh.mean() < 1
    close(found[few][on_mesh], alone[on_mesh], 1e-8)


def test_the_next_array_finds_its_mesh():
    lat, lon = rotated()
    mesh = ef.curvilinear(ef.fit(wave(lat, lon)), lat, lon)
    other = ef.curvilinear(ef.fit(lat), lat, lon)
    assert other.mesh is mesh.mesh
    assert ef.curvilinear(ef.fit(lat, periodic=0), lat, lon).mesh is not mesh.mesh
    at = np.stack([lat, lon], axis=-1)
    assert np.shares_memory(mesh.locate(at)[0], other.locate(at)[0])


@pytest.mark.parametrize(
    "places",
    [
        lambda j, i: (0 * j + 40.0, 1.0 * i),
        lambda j, i: (2.0 * (i + j), 1.0 * (i + j)),
        lambda j, i: (np.full(j.shape, np.nan), np.full(j.shape, np.nan)),
    ],
)
@pytest.mark.parametrize("is_map", [True, False])
def test_places_that_span_no_area_are_refused(places, is_map):
    j, i = np.indices((10, 12))
    field = ef.fit(np.ones((10, 12)))
    with pytest.raises(ValueError, match="span an area; most cells of these have none"):
        ef.curvilinear(field, *places(j, i), is_map=is_map)
    latitude = np.where(j == 5, 4.0, j)  # a row twice is none of our business
    ef.curvilinear(field, latitude, 1.0 * i, is_map=is_map)


def test_means_count_cells_by_the_corners_they_have():
    j, i = np.indices((12, 14)).astype(float)
    values, half = np.random.default_rng(0).normal(size=(12, 14)), 0.2 + 0.05 * (j % 5)
    ends = [(-1, -1), (-1, 1), (1, 1), (1, -1)]  # a cell is a part of the way to its neighbours
    corners = np.stack([np.stack([j + a * half, i + b * half], -1) for a, b in ends], axis=2)
    field = ef.fit(values, samples="means")
    mesh = ef.curvilinear(field, j, i, is_map=True, corners=corners)
    box = [[3.5, 4.5], [3.5, 8.5], [6.5, 8.5], [6.5, 4.5]]
    area = (4 * half**2)[4:7, 5:9]
    wanted = (values[4:7, 5:9] * area).sum() / area.sum()
    close(mesh.means([box])[0], [wanted], 1e-9)
    assert abs(ef.curvilinear(field, j, i, is_map=True).means([box])[0][0] - wanted) > 1e-3
    with pytest.raises(ValueError, match="`corners` must have shape"):
        ef.curvilinear(field, j, i, is_map=True, corners=corners[:-1])
