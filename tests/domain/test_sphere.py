"""The sphere: which axes lie on it, and great circles."""

import numpy as np
import pytest

from elmfield.domain.sphere import (
    cosine,
    great_circle,
    horizontal,
    is_latitude,
    is_longitude,
    polygon_areas,
    unit_vectors,
)


@pytest.mark.parametrize("name", ["lat", "Latitude", "lats", "nav_lat"])
def test_latitudes_by_name(name):
    assert is_latitude(name, {})
    assert not is_longitude(name, {})


def test_axes_by_what_they_say():
    assert is_latitude("y", {"units": "degrees_north"})
    assert is_latitude("y", {"standard_name": "latitude"})
    assert is_longitude("x", {"units": "degreeE"})
    assert not is_latitude("y", {"units": "m"})
    about = {"j": {"units": "degrees_north"}}
    assert horizontal(["time", "lon", "j"], about) == (2, 1)
    assert horizontal(["time", "lon"], about) is None
    assert horizontal(["lat", "latitude", "lon"], {}) is None  # which of the two?


def test_a_great_circle_has_the_shortest_way():
    points, along = great_circle((48.2, 16.4), (35.7, 139.7), 50, radius=1.0)
    v = unit_vectors(points[:, 0], points[:, 1])
    steps = np.arccos(np.clip(np.sum(v[1:] * v[:-1], axis=1), -1, 1))
    np.testing.assert_allclose(steps, steps[0], rtol=1e-6)
    a, b = v[0], v[-1]
    np.testing.assert_allclose(along[-1], np.arccos(a @ b), rtol=1e-12)
    np.testing.assert_allclose(v @ np.cross(a, b), 0, atol=1e-12)
    np.testing.assert_allclose(points[-1], (35.7, 139.7), atol=1e-9)


def test_longitudes_run_on():
    points, _ = great_circle((0, 350), (10, 20), 40)
    assert points[0, 1] == 350
    assert np.all(np.diff(points[:, 1]) > 0)
    np.testing.assert_allclose(points[-1, 1], 380)
    over, _ = great_circle((80, 0), (80, 180), 5)
    np.testing.assert_allclose(over[2, 0], 90)


def test_no_way_and_every_way():
    points, along = great_circle((10, 20), (10, 20), 3)
    np.testing.assert_allclose(points, [[10, 20]] * 3)
    np.testing.assert_allclose(along, 0)
    with pytest.raises(ValueError, match="must not be opposite points of the sphere"):
        great_circle((0, 0), (0, 180), 3)


def test_nothing_counts_beyond_a_pole():
    np.testing.assert_allclose(cosine(np.array([0, 60, 90, 95.0])), [1, 0.5, 0, 0], atol=1e-15)


def test_areas_of_polygons():
    octant = [[0.0, 0.0], [0.0, 90.0], [90.0, 0.0], [90.0, 0.0]]
    assert abs(polygon_areas(np.array(octant)) / (np.pi / 2) - 1) < 1e-14
    y, x = np.meshgrid(np.linspace(-90, 90, 19), np.linspace(0, 360, 37), indexing="ij")
    p = np.stack([y, x], axis=-1)
    cells = np.stack([p[:-1, :-1], p[:-1, 1:], p[1:, 1:], p[1:, :-1]], axis=2)
    assert abs(polygon_areas(cells).sum() / (4 * np.pi) - 1) < 1e-12
    square = np.array([[1.0, 1.0], [1.0, 4.0], [3.0, 4.0], [3.0, 1.0]])
    assert polygon_areas(square, is_map=True) == 6.0
    assert polygon_areas(square[::-1], is_map=True) == 6.0
