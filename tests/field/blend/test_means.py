"""Means over boxes: exact, conserving, round periodic axes, past gaps; fewer samples."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import elmfield as ef
from oracles.earth import area_mean, conservative
from support import ROUND, SEEDS, close


def edges_in(rng, low, high, n):
    """n + 1 uneven edges from low to high, no two very close."""
    steps = 0.3 + rng.random(n)
    return low + (high - low) * np.concatenate([[0], np.cumsum(steps) / steps.sum()])


@pytest.mark.thorough
@settings(max_examples=6)
@given(seed=SEEDS, channels=st.booleans())
def test_means_are_integrals_over_volumes(seed, channels):
    rng = np.random.default_rng(seed)
    shape = (23, 31, 2) if channels else (23, 31)
    field = ef.fit(rng.standard_normal(shape), channel_axis=-1 if channels else None)
    a, b = edges_in(rng, -0.5, 22.5, 4), edges_in(rng, 1.2, 28.7, 5)
    means = field.means(a, b)
    assert means.shape == (4, 5, *shape[2:])
    for i in range(4):
        for j in range(5):
            whole = field.integral((a[i], b[j]), (a[i + 1], b[j + 1]))
            close(means[i, j], whole / ((a[i + 1] - a[i]) * (b[j + 1] - b[j])), 1e-12)


def on_waves(shape):
    i, j = np.indices(shape)
    return np.sin(0.4 * i + 0.2) * np.cos(0.3 * j)


@pytest.mark.parametrize(("coords", "period"), ROUND)
def test_means_go_round(coords, period, rng):
    field = ef.fit(rng.standard_normal(36), coords=[coords], periodic={0: period})
    low = coords.min() - 17
    edges = np.concatenate([edges_in(rng, low, low + period, 7)])
    whole = field.integral([low], [low + period])
    close(np.sum(field.means(edges) * np.diff(edges)), whole, 1e-10 * period)
    turned = field.means(edges + period)
    close(turned, field.means(edges), 1e-10)


def test_means_on_falling_axes_follow_their_edges(rng):
    lat = 90 - 2.0 * np.arange(91)
    field = ef.fit(rng.standard_normal((91, 40)), coords=[lat, None], dims=("latitude", "x"))
    up = np.array([-60, -20, 5, 80.0])
    found = field.means(up, [0, 10, 30])
    close(field.means(up[::-1], [0, 10, 30])[::-1], found, 1e-14)
    close(field.means({"latitude": up})[:, 7], field.means(up, None)[:, 7], 0)
    assert field.means({"latitude": up}).shape == (3, 40)


@pytest.mark.parametrize(
    ("edges", "message"),
    [
        (([0, 5, 3], [0, 5]), "edges on axis 'axis0' must ascend"),
        (([5, 3, 1], [0, 5]), "edges on axis 'axis0' must ascend"),
        (([0, 5, 5], [0, 5]), "edges on axis 'axis0' must ascend"),
        (([0, 25], [0, 5]), r"edges on axis 'axis0' leave the domain, which covers -0.5 to 19.5"),
        (([0, 5], [-3, 5]), "edges on axis 'axis1' leave the domain"),
        (([0, 5],), "`means` takes one array of edges per axis, 2; got 1"),
        (([0], [0, 5]), r"edges on axis 'axis0' must be at least two, .*; got shape \(1,\)"),
        (([0, np.nan], [0, 5]), "edges on axis 'axis0' must be finite; got nan"),
        (({"z": [0, 5]},), r"names \['z'\], but the axes are"),
    ],
)
def test_wrong_edges(edges, message):
    with pytest.raises(ValueError, match=message):
        ef.fit(np.eye(20)).means(*edges)


def test_edges_span_one_period():
    field = ef.fit(np.arange(36.0), periodic=0)
    with pytest.raises(ValueError, match="must span at most one period, 36"):
        field.means([0, 20, 37])


def test_what_is_missing_does_not_count(rng):
    values = rng.standard_normal((20, 24))
    values[5:9, 3:12] = np.nan
    field = ef.fit(values)
    edges = [-0.5, 4.5, 8.5, 19.5], [-0.5, 2.5, 11.5, 13.5, 23.5]
    means, covered = field.means(*edges, covered=True, missing="nan")
    assert np.isnan(means[1, 1])
    expected = np.ones((3, 4))
    expected[1, 1] = 0
    close(covered, expected, 1e-12)
    # A box with a hole in it: the rest of it, in parts that have none.
    whole, part = field.means([-0.5, 19.5], [-0.5, 23.5], covered=True, missing="nan")
    area = np.diff(edges[0])[:, None] * np.diff(edges[1])
    close(part[0, 0], 1 - 36 / 480, 1e-12)
    close(whole[0, 0], np.nansum(means * area) / (480 - 36), 1e-12)
    filled = field.means(*edges)  # a bare array: what was filled in counts
    assert np.isfinite(filled).all()
    close(filled[0], means[0], 1e-12)


def test_channels_may_miss_different_samples(rng):
    values = rng.standard_normal((16, 18, 2))
    values[2:6, 4:9, 0] = np.nan
    field = ef.fit(values, channel_axis=-1)
    _, covered = field.means([-0.5, 15.5], [-0.5, 17.5], covered=True, missing="nan")
    close(covered[0, 0], [1 - 20 / 288, 1], 1e-12)


# --- fewer samples --------------------------------------------------------------------------------


def test_fewer_samples_are_means():
    rng = np.random.default_rng(0)
    noise = rng.standard_normal((128, 128))
    field = ef.fit(noise)
    small = field.resize((16, 16))
    edges = np.linspace(-0.5, 127.5, 17)
    close(small, field.means(edges, edges), 1e-12)
    # Not point samples, which keep their height: the mean of 64 has an eighth of it.
    assert abs(small.std() * 8 - 1) < 0.1
    assert field.resize((16, 16), antialias=False).std() > 0.5
    close(small.mean(), field.integral((-0.5, -0.5), (127.5, 127.5)) / 128**2, 1e-12)


@pytest.mark.slow
def test_noise_and_a_zone_plate_shrink_as_area_means():
    rng = np.random.default_rng(0)
    noise = rng.standard_normal((512, 512))
    areas = noise.reshape(64, 8, 64, 8).mean(axis=(1, 3))
    small = ef.fit(noise).resize((64, 64))
    # A field is smoother between its samples than a row of blocks.
    assert abs(small.std() / areas.std() - 1) < 0.05
    i, j = np.indices((512, 512)) - 255.5
    plate = np.cos(np.pi / 512 * (i**2 + j**2))
    small = ef.fit(plate).resize((64, 64))
    assert small.std() < 0.5
    areas = plate.reshape(64, 8, 64, 8).mean(axis=(1, 3))
    assert np.abs(small - areas)[24:40, 24:40].max() < 0.02  # where samples resolve it


def test_one_axis_can_shrink_alone(rng):
    field = ef.fit(rng.standard_normal((40, 30)))
    got = field.resize((10, 30))
    edges = np.linspace(-0.5, 39.5, 11)
    close(got, field.means(edges, None), 1e-12)
    close(field.resize((10, 60)), ten_by_sixty(field), 1e-8)  # windows have knots inside


def ten_by_sixty(field):
    """Ten rows of means at sixty places, by hand."""
    edges = np.linspace(-0.5, 39.5, 11)
    at = (np.arange(60) + 0.5) / 2 - 0.5
    x, w = np.polynomial.legendre.leggauss(40)
    rows = []
    for a in edges[:-1]:
        places = a + 2 + 2 * x
        rows.append(w @ field.grid(places, at) / 2)
    return np.asarray(rows)


def test_derivatives_of_fewer_samples_are_at_points(rng):
    field = ef.fit(rng.standard_normal((20, 22)))
    got = field.resize((5, 6), quantity="laplacian")
    close(got, field.resize((5, 6), quantity="laplacian", antialias=False), 0)


def test_a_mean_is_shown_where_most_of_it_is_there(rng):
    values = rng.standard_normal((16, 16))
    values[:4, :3] = np.nan  # 3/4 of the first box, 1/2 of none
    values[8:12, 8:10] = np.nan  # half of another
    field = ef.fit(values, missing="nan")
    small = field.resize((4, 4))
    assert np.isnan(small[0, 0])
    assert np.isnan(small).sum() == 1


# --- the sphere -----------------------------------------------------------------------------------


@pytest.mark.slow
def test_regridding_conserves(data):
    xr = pytest.importorskip("xarray")
    with xr.open_dataset(data / "era5" / "era5_t2m_20230101T12_winter.nc") as ds:
        t2m = ds["t2m"].squeeze(drop=True).astype(float).load()
    field = ef.fit(t2m)
    whole = ef.sphere(field).mean()
    rng = np.random.default_rng(3)
    grids = [
        (np.arange(-90, 90.5, 1.0), np.arange(-0.125, 360.5, 1.0)),
        (np.arange(-90, 91, 2.5), np.arange(-0.125, 360.5, 2.5)),
        (edges_in(rng, -90, 90, 37), edges_in(rng, -0.125, 359.875, 53)),
    ]
    old_lat = np.clip(np.arange(-90.125, 90.2, 0.25), -90, 90)
    old_lon = np.arange(-0.125, 360, 0.25)
    for lat, lon in grids:
        means = ef.sphere(field).means(lat, lon)
        close(area_mean(means, lat, lon) / whole, 1, 1e-12)
        # Weights of first order take every sample for its cell; a field bends within cells.
        theirs = conservative(t2m.values[::-1], old_lat, old_lon, lat, lon)
        assert np.sqrt(np.mean((means - theirs) ** 2)) < 0.05
        assert np.abs(means - theirs).max() < 1.5
