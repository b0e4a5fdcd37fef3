"""Means over polygons: exact for polynomials, and whatever the cells, their sum is kept."""

import numpy as np
import pytest
from numpy.polynomial.legendre import leggauss

import elmfield as ef
from elmfield.fit.polygon_means import PolygonMeans
from support import close


def quads(y, x):
    """Corners (n, m, 4, 2) of the cells between nodes (n + 1, m + 1)."""
    p = np.stack([y, x], axis=-1)
    return np.stack([p[:-1, :-1], p[:-1, 1:], p[1:, 1:], p[1:, :-1]], axis=2)


def areas(cells, weight=lambda y: np.ones_like(y)):
    """Areas of polygons by their borders, node by node."""
    t, w = leggauss(24)
    ends = np.concatenate([cells, cells[..., :1, :]], axis=-2)
    a, b = ends[..., :-1, None, :], ends[..., 1:, None, :]
    p = a + (b - a) * (t[:, None] + 1) / 2
    return np.abs((p[..., 1] * weight(p[..., 0]) * w / 2 * (b - a)[..., 0]).sum(axis=(-1, -2)))


def warped(rng, n, m, low, high, shift=0.35):
    """Nodes of a mesh that fills a box, moved inside it."""
    y, x = np.meshgrid(
        np.linspace(low[0], high[0], n), np.linspace(low[1], high[1], m), indexing="ij"
    )
    steps = (high[0] - low[0]) / (n - 1), (high[1] - low[1]) / (m - 1)
    y[1:-1] += rng.uniform(-shift, shift, (n - 2, m)) * steps[0]
    x[:, 1:-1] += rng.uniform(-shift, shift, (n, m - 2)) * steps[1]
    return y, x


def test_means_of_planes_are_values_at_centroids():
    rng = np.random.default_rng(0)
    coords = [np.cumsum(rng.uniform(0.3, 2, 20)), np.cumsum(rng.uniform(0.3, 2, 30))[::-1]]
    y, x = np.meshgrid(*coords, indexing="ij")
    means = ef.polygon_means(ef.fit(3 + 2 * y - x, coords=coords))
    corners = rng.uniform([2, 2], [12, 20], (7, 3, 2))
    found, covered = means(corners)
    close(covered, 1, 1e-10)
    close(found, 3 + 2 * corners[..., 0].mean(axis=1) - corners[..., 1].mean(axis=1), 1e-8)


@pytest.mark.parametrize("preset", [ef.smooth(), ef.oriented()])
def test_sums_are_kept_by_any_mesh(preset):
    rng = np.random.default_rng(1)
    field = ef.fit(rng.normal(size=(24, 31)), preset)
    cells = quads(*warped(rng, 9, 12, (-0.5, -0.5), (23.5, 30.5)))
    found, covered = ef.polygon_means(field)(cells)
    area = areas(cells)
    close(covered, 1, 1e-6)
    close(
        (found * area).sum() / area.sum(),
        field.integral([-0.5, -0.5], [23.5, 30.5]) / area.sum(),
        1e-12,
    )


def test_cells_of_the_samples_are_the_fields_own_means():
    rng = np.random.default_rng(2)
    field = ef.fit(rng.normal(size=(12, 15)))
    y, x = np.meshgrid(np.arange(13) - 0.5, np.arange(16) - 0.5, indexing="ij")
    found, _ = ef.polygon_means(field)(quads(y, x))
    close(found, field.means(np.arange(13) - 0.5, np.arange(16) - 0.5), 1e-11)


@pytest.mark.parametrize("turn", [1, -1])
def test_integrals_over_boxes_are_the_fields_own(turn):
    k, j, i = np.indices((4, 20, 24))
    steps = {name: s * np.arange(n) for name, n, s in zip("kji", k.shape, (2.5, 1.5, 1.0))}
    values = (k + 2) * np.cos(0.2 * j) + np.sin(0.15 * i * k)
    scan = ef.fit(ef.Gridded(values=values, dims=tuple("kji"), coords=steps))
    over, edges = ef.polygon_means(scan), np.array([3.0, 21.0])
    box = np.array([[3.0, 2.0], [3.0, 17.0], [21.0, 17.0], [21.0, 2.0]])[::turn]
    found = over.integral(box)
    assert found.shape == (4,)
    close(found / (18 * 15), scan.means(None, edges, np.array([2.0, 17.0])).reshape(4), 1e-5)
    close(found, over(box)[0] * 18 * 15, 1e-9)
    found = over.integral(box + np.array([0, 16.5]))  # samples cover half a sample beyond the last
    close(found / (18 * 5), scan.means(None, edges, np.array([18.5, 23.5])).reshape(4), 1e-5)


def globe(**options):
    lat, lon = np.arange(87, -90, -6.0), np.arange(0, 360, 6.0)
    f = np.sin(np.radians(lat))[:, None] ** 2 + np.cos(np.radians(lat))[:, None] * np.cos(
        np.radians(lon)
    )
    return ef.fit(
        f, dims=("latitude", "longitude"), coords=[lat, lon], periodic="longitude", **options
    )


def cosine(latitude):
    return np.cos(np.radians(latitude))


def test_the_sphere_is_kept_by_a_warped_mesh_over_the_seam():
    rng = np.random.default_rng(3)
    y, x = warped(rng, 11, 25, (-90, -200), (90, 160))
    x[:, -1] = x[:, 0] + 360  # the seam is bent, too
    x[1:-1, 0] += 2
    x[1:-1, -1] += 2
    y[:, -1] = y[:, 0]
    field, cells = globe(), quads(y, x)
    found, covered = ef.polygon_means(field)(cells)
    area = areas(cells, cosine)
    close(covered, 1, 1e-6)
    close((found * area).sum() / area.sum(), float(ef.sphere(field).mean()), 1e-12)


def test_a_polygon_may_hold_a_pole():
    field = globe()
    ring = np.array([[60.0, k] for k in range(0, 360, 15)])
    found, covered = ef.polygon_means(field)(np.stack([ring, ring[::-1], ring * [-1, 1]]))
    edges = np.array([60.0, 90.0]), np.array([0.0, 360.0])
    up = (field.means(*edges), field.means(-edges[0][::-1], edges[1]))
    t, w = leggauss(40)
    lat = 75 + 15 * t
    own = field.grid(lat, np.arange(0, 360, 1.0)).mean(axis=1)
    close(covered, 1, 1e-6)
    close(found, (own * cosine(lat) * w).sum() / (cosine(lat) * w).sum(), 1e-5)
    assert np.isfinite(up).all()


def test_what_lies_outside_does_not_count():
    y, x = np.indices((10, 10))
    means = ef.polygon_means(ef.fit(y + 0.0 * x))
    box = [[2.0, -5.5], [2.0, 4.5], [4.0, 4.5], [4.0, -5.5]]  # half of it beside the samples
    found, covered = means([box], min_coverage=0.4)
    close(covered, 0.5, 1e-12)
    close(found, 3.0, 1e-11)
    assert np.isnan(means([box], min_coverage=0.6)[0]).all()


def test_gaps_are_left_out():
    values = np.indices((12, 14))[1].astype(float)
    values[:, 7:] = np.nan
    field = ef.fit(values, missing="nan")
    box = [[[1.5, 4.5], [1.5, 8.5], [6.5, 8.5], [6.5, 4.5]]]
    found, covered = ef.polygon_means(field)(box)
    close(covered, 0.5, 1e-12)
    close(found, 5.5, 1e-10)


def test_other_axes_and_channels_come_along():
    rng = np.random.default_rng(4)
    values = rng.normal(size=(3, 10, 12, 2))
    field = ef.fit(values, ef.smooth(order=2), channel_axis=-1)
    box = np.array([[[1.0, 1.0], [1.0, 7.0], [8.0, 7.0], [8.0, 1.0]]])
    found, _ = ef.polygon_means(field)(box)
    assert found.shape == (1, 3, 2)
    own = field.means(np.arange(4) - 0.5, np.array([1.0, 8.0]), np.array([1.0, 7.0]))
    assert own.shape[0] == 3
    for k in range(3):
        one = ef.fit(values[k], ef.smooth(order=2), channel_axis=-1)
        close(found[0, k], ef.polygon_means(one)(box)[0][0], 1e-12)


@pytest.mark.parametrize("wrong", [[[0.0, 1.0], [2.0, 3.0]], [[[0.0]]], "polygon"])
def test_polygons_are_checked(wrong):
    with pytest.raises((TypeError, ValueError), match="`polygons`"):
        ef.polygon_means(ef.fit(np.eye(8)))(wrong)
    with pytest.raises(ValueError, match="real fields of two axes"):
        ef.polygon_means(ef.fit(np.arange(8.0)))


def test_a_curvilinear_target_has_values_and_means():
    xr = pytest.importorskip("xarray")
    lat, lon = np.linspace(30, 60, 31), np.linspace(0, 40, 41)
    da = xr.DataArray(lat[:, None] + 2 * lon, dims=("lat", "lon"), coords={"lat": lat, "lon": lon})
    j, i = np.meshgrid(np.linspace(0, 1, 7), np.linspace(0, 1, 9), indexing="ij")
    like = xr.Dataset(
        coords={"lat": (("y", "x"), 40 + 8 * j + 2 * i), "lon": (("y", "x"), 12 + 9 * i - j)}
    )
    for mean in (False, True):
        out = ef.regrid(da, like, mean=mean)
        assert out.dims == ("y", "x")
        close(out.values, like.lat.values + 2 * like.lon.values, 0.2 if mean else 1e-9)
        close(out.lat.values, like.lat.values, 0)


def test_slanted_polygons_over_the_border_have_the_mean_of_what_is_covered():
    y, x = np.indices((20, 20)).astype(float)
    means = ef.polygon_means(ef.fit(x + 2 * y))
    # Triangles whose right corners lie beyond the domain, which ends at 19.5.
    given = np.array([[[5.0, 19.0], [6.0, 19.0], [5.0, 20.0]], [[5.0, 18.5], [7.0, 18.5], [6, 21]]])
    found, covered = means(given, min_coverage=0.1)
    close(covered, [0.75, 1 - (1.5 / 2.5) ** 2], 1e-9)
    # Of a triangle less the part beyond, which is a triangle: means are values at centroids.
    whole = given.mean(axis=1) @ [2.0, 1.0]
    beyond = np.array([[5 + 1 / 6, 19.5 + 1 / 6], [6.0, 20.0]]) @ [2.0, 1.0]
    close(found, (whole - (1 - covered) * beyond) / covered, 1e-8)


def places_looked_at(monkeypatch):
    """How many places on borders the weights of each batch are made of."""
    made, rows = [], PolygonMeans._rows

    def counted(self, at, *more):
        made.append(len(at))
        return rows(self, at, *more)

    monkeypatch.setattr(PolygonMeans, "_rows", counted)
    return made


@pytest.mark.parametrize("least", [-0.1, 1.5, np.nan, "half"])
def test_coverage_is_a_part_of_a_cell(least):
    field = ef.fit(np.add.outer(np.arange(8.0), np.arange(9.0)))
    boxes = [[[1.0, 1.0], [1.0, 4.0], [4.0, 4.0], [4.0, 1.0]]]
    assert ef.polygon_means(field)(boxes, min_coverage=0)[1] == pytest.approx(1)
    with pytest.raises(ValueError, match=r"min_coverage.*from 0 to 1"):
        ef.polygon_means(field)(boxes, min_coverage=least)
    with pytest.raises(ValueError, match=r"min_coverage.*from 0 to 1"):
        ef.regrid(field, grid=(4, 4), mean=True, min_coverage=least)


def test_weights_are_kept_for_the_next_field_on_the_grid(monkeypatch):
    rng, made = np.random.default_rng(5), places_looked_at(monkeypatch)
    cells = quads(*warped(rng, 6, 7, (1.0, 1.0), (17.0, 12.0)))
    values = rng.normal(size=(2, 19, 14))
    first = ef.polygon_means(ef.fit(values[0]))(cells)[0]
    places = sum(made)
    assert places
    second = ef.polygon_means(ef.fit(values[1]))(cells)[0]
    both = ef.polygon_means(ef.fit(values, channel_axis=0))(cells)[0]
    assert sum(made) == places
    close(both, np.stack([first, second], axis=-1), 1e-12)
    ef.polygon_means(ef.fit(values[1], coords=[np.arange(19.0), np.arange(14.0) + 0.1]))(cells)
    assert sum(made) > places  # another grid


def test_a_long_border_does_not_cut_others_into_more_pieces(monkeypatch):
    made, field = places_looked_at(monkeypatch), ef.fit(np.eye(40))
    small = (
        np.array([[2.1, 2.0], [2.3, 2.9], [2.9, 3.0], [2.6, 2.2]]) + np.arange(30)[:, None, None]
    )
    ef.polygon_means(field)(small)
    own = sum(made)
    ef.polygon_means(field)(np.concatenate([small, [[[0, 0], [0, 39], [39, 39], [39, 0.5]]]]))
    assert sum(made) < 2 * own + 4 * 40 * 6


def test_borders_of_very_uneven_samples_are_splines_that_do_not_overshoot():
    rng = np.random.default_rng(6)
    y, x = (np.cumsum(np.exp(rng.uniform(0, np.log(1000), n))) for n in (40, 41))
    over = ef.polygon_means(ef.fit(rng.normal(size=(40, 41)), coords=[y, x], missing="nan"))
    assert max(m.k for m in over.splines) < 5
