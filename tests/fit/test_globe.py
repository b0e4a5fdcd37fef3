"""Fields on the sphere: known flows, single poles, areas, sections, units."""

import numpy as np
import pytest

import elmfield as ef
from oracles.earth import metpy_gradient

xr = pytest.importorskip("xarray")

NODES = np.arange(90, -90.5, -1.0), np.arange(0, 360, 1.0)
AREAS = np.arange(-89.5, 90), np.arange(0.5, 360)


def scalar(x, y, z):
    """A polynomial on the unit sphere, its gradient in space and its Laplacian on the sphere."""
    f = x * y * z + x**3 - 0.5 * y * z**2 + 0.3 * x
    g = np.stack([y * z + 3 * x**2 + 0.3, x * z - 0.5 * z**2, x * y - y * z], axis=-1)
    # Δ_S f = Δf - 2 r·∇f - r·H r, on the unit sphere.
    lap = 6 * x - y
    r = np.stack([x, y, z], axis=-1)
    along = np.sum(r * g, axis=-1)
    bend = 6 * x * y * z + 6 * x**3 - 3 * y * z**2
    return f, g, lap - 2 * along - bend


def other(x, y, z):
    """Another one."""
    f = y**3 + x * z + 0.7 * z**2 * y
    g = np.stack([z, 3 * y**2 + 0.7 * z**2, x + 1.4 * z * y], axis=-1)
    r = np.stack([x, y, z], axis=-1)
    lap = 6 * y + 1.4 * y
    bend = 6 * y**3 + 2 * x * z + 4.2 * z**2 * y
    return f, g, lap - 2 * np.sum(r * g, axis=-1) - bend


def at(lat, lon):
    """Points on the unit sphere, and the unit vectors east and north there."""
    f, l = np.deg2rad(lat), np.deg2rad(lon)
    f, l = np.broadcast_arrays(f, l)
    p = np.cos(f) * np.cos(l), np.cos(f) * np.sin(l), np.sin(f)
    east = np.stack([-np.sin(l), np.cos(l), 0 * l], axis=-1)
    north = np.stack([-np.sin(f) * np.cos(l), -np.sin(f) * np.sin(l), np.cos(f)], axis=-1)
    return p, east, north


def flow(lat, lon):
    """u, v of the flow with a stream function and a potential; its vorticity and divergence."""
    p, east, north = at(lat, lon)
    _, a, vorticity = scalar(*p)
    _, b, divergence = other(*p)
    dot = lambda g, e: np.sum(g * e, axis=-1)  # noqa: E731
    u = -dot(a, north) + dot(b, east)
    v = dot(a, east) + dot(b, north)
    return u, v, vorticity, divergence


def winds(lat, lon):
    u, v, _, _ = flow(lat[:, None], lon)
    dims = ("latitude", "longitude")
    about = {"units": "m s-1"}
    return xr.Dataset(
        {"u": (dims, u, about), "v": (dims, v, about)},
        coords={"latitude": lat, "longitude": lon},
    )


def temperature(lat, lon):
    f, _, _ = scalar(*at(lat[:, None], lon)[0])
    return xr.DataArray(
        f,
        dims=("latitude", "longitude"),
        coords={"latitude": lat, "longitude": lon},
        name="t",
        attrs={"units": "K", "standard_name": "air_temperature"},
    )


@pytest.fixture(scope="module", params=[NODES, AREAS], ids=["poles sampled", "poles between"])
def grid(request):
    return request.param


@pytest.fixture(scope="module")
def wind(grid):
    return ef.sphere(ef.fit(winds(*grid)), radius=1.0)


@pytest.fixture(scope="module")
def warm(grid):
    return ef.sphere(ef.fit(temperature(*grid)), radius=1.0)


def points(rng, low, high, n=2000):
    lat = rng.uniform(low, high, n) * rng.choice([-1, 1], n)
    return np.stack([lat, rng.uniform(-180, 360, n)], axis=-1)


@pytest.mark.slow
@pytest.mark.parametrize(("low", "high", "limit"), [(0, 80, 2e-3), (80, 90, 1e-2)])
def test_vorticity_and_divergence_of_a_known_flow(wind, low, high, limit, rng):
    x = points(rng, low, high)
    _, _, vorticity, divergence = flow(*x.T)
    for got, truth in ((wind.vorticity(x), vorticity), (wind.divergence(x), divergence)):
        assert np.linalg.norm(got - truth) < limit * np.linalg.norm(truth)


@pytest.mark.slow
def test_gradient_and_laplacian_of_a_known_function(warm, rng):
    for low, high, limit in ((0, 80, 1e-3), (80, 90, 1e-2)):
        x = points(rng, low, high)
        p, east, north = at(*x.T)
        _, g, lap = scalar(*p)
        truth = np.stack([np.sum(g * north, axis=-1), np.sum(g * east, axis=-1)], axis=-1)
        got = warm.gradient(x)
        assert got.shape == (len(x), 2)
        assert np.linalg.norm(got - truth) < limit * np.linalg.norm(truth)
        assert np.linalg.norm(warm.laplacian(x) - lap) < 5 * limit * np.linalg.norm(lap)


@pytest.mark.thorough
@pytest.mark.parametrize("pole", [90.0, -90.0])
def test_poles_are_single_points(wind, warm, pole):
    x = np.stack([np.full(9, pole), np.linspace(0, 360, 9)], axis=-1)
    p, east, north = at(*x.T)
    f, g, lap = scalar(*p)
    _, _, vorticity, divergence = flow(*x.T)
    for got, truth in (
        (warm(x), f),
        (warm.laplacian(x), lap),
        (wind.vorticity(x), vorticity),
        (wind.divergence(x), divergence),
    ):
        assert np.ptp(got) < 1e-9  # from all longitudes
        np.testing.assert_allclose(got, truth, atol=5e-3)
    # One vector, told in the directions of each meridian.
    slopes = np.stack([np.sum(g * north, axis=-1), np.sum(g * east, axis=-1)], axis=-1)
    np.testing.assert_allclose(warm.gradient(x), slopes, atol=1e-4)
    vectors = warm.gradient(x)[:, :1] * north + warm.gradient(x)[:, 1:] * east
    np.testing.assert_allclose(vectors, vectors[:1].repeat(9, axis=0), atol=1e-9)


@pytest.mark.parametrize("pole", [90.0, -90.0])
def test_a_wind_at_a_pole_is_one_vector(wind, pole):
    x = np.stack([np.full(9, pole), np.linspace(0, 360, 9)], axis=-1)
    u, v, _, _ = flow(*x.T)
    got = wind(x)
    np.testing.assert_allclose(got, np.stack([u, v], axis=-1), atol=1e-4)
    _, east, north = at(*x.T)
    vectors = got[:, :1] * east + got[:, 1:] * north
    np.testing.assert_allclose(vectors, vectors[:1].repeat(9, axis=0), atol=1e-12)
    near = x - [[np.sign(pole) * 0.3, 0]]
    u, v, _, _ = flow(*near.T)
    np.testing.assert_allclose(wind(near), np.stack([u, v], axis=-1), atol=1e-4)


def test_nothing_jumps_on_the_way_to_a_pole(warm, wind):
    lat = np.linspace(70, 90, 4001)
    x = np.stack([lat, np.full_like(lat, 33.3)], axis=-1)
    p, _, _ = at(*x.T)
    f, _, _ = scalar(*p)
    _, _, vorticity, _ = flow(*x.T)
    assert np.abs(warm(x) - f).max() < 1e-5
    assert np.abs(wind.vorticity(x) - vorticity).max() < 0.02
    assert np.abs(np.diff(wind.vorticity(x))).max() < 0.02
    assert np.isfinite(warm.laplacian(x)).all()


def test_a_degree_is_worth_less_in_the_north():
    field = ef.fit(temperature(*NODES))
    x = np.array([[60.0, 40.0]])
    slope = field.gradient(x)[0]
    north, east = ef.sphere(field).gradient(x)[0]
    degree = 6.371e6 * np.pi / 180
    np.testing.assert_allclose(north, slope[0] / degree, rtol=1e-12)
    np.testing.assert_allclose(east, slope[1] / degree * 2, rtol=1e-12)


def test_areas(grid):
    lat, lon = grid
    ones = ef.sphere(ef.fit(temperature(lat, lon) * 0 + 3.0))
    np.testing.assert_allclose(ones.mean(), 3, rtol=1e-12)
    np.testing.assert_allclose(ones.integral(), 3 * 4 * np.pi * 6.371e6**2, rtol=1e-12)
    # Means of sin² φ over the sphere and over the tropics: (sin³ b - sin³ a) / 3 (sin b - sin a).
    sine2 = xr.zeros_like(temperature(lat, lon)) + np.sin(np.deg2rad(lat))[:, None] ** 2
    sphere = ef.sphere(ef.fit(sine2))
    np.testing.assert_allclose(sphere.mean(), 1 / 3, rtol=1e-6)
    b = np.sin(np.deg2rad(30))
    np.testing.assert_allclose(sphere.means([-30, 30], [0, 90]), [[b**2 / 3]], rtol=1e-6)
    np.testing.assert_allclose(sphere.means({"latitude": [-30, 30]})[0], b**2 / 3, rtol=1e-6)


def test_gaps_count_nothing():
    lat, lon = AREAS
    ones = temperature(lat, lon) * 0 + 1
    half = ef.sphere(ef.fit(ones.where(ones.latitude > 0)))
    np.testing.assert_allclose(half.mean(), 1, rtol=1e-9)
    np.testing.assert_allclose(half.integral(), 2 * np.pi * 6.371e6**2, rtol=1e-9)
    _, part = half.means([-90, -10, 90], [0, 360], covered=True)
    s = np.sin(np.deg2rad(10))
    np.testing.assert_allclose(part[:, 0], [0, 1 / (1 + s)], atol=1e-9)
    assert np.isnan(half([-45.0, 10.0]))
    assert np.isnan(half.gradient([[-89.9, 10.0]])).all()
    assert np.isfinite(half.gradient([[89.9, 10.0]])).all()


def test_other_axes_stay(rng):
    lat, lon = np.arange(-87.5, 90, 5), np.arange(0, 360, 5.0)
    f = temperature(lat, lon)
    times = xr.DataArray([0.0, 1.0, 2.0, 3.0], dims="time", coords={"time": [0.0, 1, 2, 3]})
    sphere = ef.sphere(ef.fit((f * (1 + times)).transpose("time", "latitude", "longitude")))
    flat = ef.sphere(ef.fit(f))
    assert sphere.mean().shape == (4,)
    x = points(rng, 0, 90, 30)
    whole = np.concatenate([np.full((30, 1), 2.0), x], axis=1)
    np.testing.assert_allclose(sphere.gradient(whole), 3 * flat.gradient(x), rtol=0.02, atol=2e-8)
    np.testing.assert_allclose(sphere(whole), 3 * flat(x), rtol=0.01, atol=0.01)


def test_labelled_results_have_units(wind, warm):
    at_ = {"latitude": [10.0, 20.0], "longitude": [3.0, 4.0, 5.0]}
    got = warm.interp(at_, quantity="gradient")
    assert got.dims == ("latitude", "longitude", "direction")
    assert list(got.direction.values) == ["latitude", "longitude"]
    assert got.attrs["units"] == "K m-1"
    assert "standard_name" not in got.attrs
    assert warm.interp(at_, quantity="laplacian").attrs["units"] == "K m-2"
    assert warm.interp(at_).attrs["units"] == "K"
    turn = wind.interp(at_, quantity="vorticity")
    assert turn.attrs == {"units": "s-1", "long_name": "vorticity"}
    assert turn.dims == ("latitude", "longitude")
    assert turn.name == "vorticity"
    assert set(wind.interp(at_).data_vars) == {"u", "v"}
    assert wind.interp(at_, quantity="gradient")["u"].attrs["units"] == "s-1"
    grid = np.stack(np.meshgrid(*at_.values(), indexing="ij"), axis=-1)
    np.testing.assert_allclose(turn, wind.vorticity(grid), rtol=1e-12)


def test_sections_along_great_circles(warm):
    got = warm.section((48.2, 16.4), (35.7, 139.7), 21)
    assert got.dims == ("distance",)
    assert got.distance.attrs["units"] == "m"
    x = np.stack([got.latitude, got.longitude], axis=-1)
    np.testing.assert_allclose(got, warm(x), rtol=1e-12)
    over = warm.section((80, 0), (80, 180), 5, quantity="laplacian")
    assert np.isfinite(over).all()


@pytest.mark.thorough
def test_components_by_name(grid):
    ds = winds(*grid)
    three = ds.assign(t=temperature(*grid))[["t", "v", "u"]]
    sphere = ef.sphere(ef.fit(three), 1.0, components=("u", "v"))
    x = np.array([[40.0, 10.0], [89.7, 20.0], [90.0, 0.0]])
    truth = flow(*x.T)[2]
    np.testing.assert_allclose(sphere.vorticity(x), truth, atol=0.02)
    with pytest.raises(ValueError, match="vorticity is of a vector; say which channels"):
        ef.sphere(ef.fit(three)).vorticity(x)
    with pytest.raises(ValueError, match="`components` must be two of the field's 3 channels"):
        ef.sphere(ef.fit(three), components=("u", "w"))
    with pytest.raises(
        ValueError, match="`components` must be two of the field's 3 channels, eastward and"
    ):
        ef.sphere(ef.fit(three), components=("u",))


def test_what_is_no_sphere():
    with pytest.raises(ValueError, match="needs one axis of latitudes and one of longitudes; got"):
        ef.sphere(ef.fit(np.eye(20)))
    with pytest.raises(TypeError, match="`field` must be a Field; got array"):
        ef.sphere(np.eye(20))
    field = ef.fit(temperature(np.arange(0, 40.0), np.arange(0, 50.0)))
    with pytest.raises(ValueError, match="`radius` must be a positive number"):
        ef.sphere(field, radius=0)
    region = ef.sphere(field)  # a piece of it will do, and has no poles
    assert region.caps == ()
    assert np.isfinite(region.gradient([[39.4, 3.0]])).all()
    assert region.integral() < 0.1 * 4 * np.pi * region.radius**2 * 3


@pytest.mark.slow
def test_beside_metpy_s_formula(data):
    with xr.open_dataset(data / "era5" / "era5_t850_20230110T23.nc") as ds:
        t850 = ds["temperature"].squeeze(drop=True).astype(float).load()
    lat, lon = t850.latitude.values, t850.longitude.values
    north, east = metpy_gradient(t850.values, lat, lon, 6.371e6)
    sphere = ef.sphere(ef.fit(t850))
    rows = slice(41, 680, 7)  # within 80 degrees
    got = sphere.interp(latitude=lat[rows], quantity="gradient")
    for component, theirs in ((got[..., 0], north), (got[..., 1], east)):
        mine = component.values
        # Differences over two samples miss the finest waves: they agree but for those.
        r = np.corrcoef(mine.ravel(), theirs[rows].ravel())[0, 1]
        assert r > 0.97
        assert 0.9 < mine.std() / theirs[rows].std() < 1.3
