"""Where pixels lie: north up, samples as their steps have it, levels that fit together."""

import numpy as np
import pytest

from elmfield.domain.box import make_domain
from elmfield.field.coordinates.labels import AxisLabels, Labels
from elmfield.show.scene import FINEST_LEVEL, TILE_PIXELS, Plane

NORTH = {"latitude": "degrees_north"}


def plane(shape, units=None, **options):
    axes = {name: AxisLabels(attrs={"units": unit}) for name, unit in (units or {}).items()}
    return Plane.of(make_domain(shape, **options), Labels(axes=axes))


@pytest.mark.parametrize("rising", [True, False])
def test_north_is_up(rising):
    latitude = np.linspace(-80, 80, 33)[:: 1 if rising else -1]
    found = plane((33, 40), NORTH, dims=("latitude", "longitude"), coords={"latitude": latitude})
    assert found.flipped == (rising, False)
    first = found.edges(0, [(0, 2), (0, 1)])[0]
    top = int(np.argmax(latitude))  # the northernmost sample is the first pixel
    assert (first[0] + first[1]) / 2 == pytest.approx(top)


def test_rows_of_a_picture_run_down():
    assert plane((20, 30), dims=("row", "column")).flipped == (False, False)


def test_the_last_two_axes_of_some_length_are_shown():
    assert plane((5, 20, 30)).axes == (1, 2)
    assert plane((20, 30, 1)).axes == (0, 1)


def test_samples_are_as_oblong_as_their_steps():
    mm = {"z": "mm", "x": "mm"}
    coords = {"z": 3.0 * np.arange(10), "x": 1.0 * np.arange(40)}
    found = plane((10, 40), mm, dims=("z", "x"), coords=coords)
    assert found.squares == (3.0, 1.0)
    assert found.size == (30.0, 40.0)
    other = {"z": "s", "x": "mm"}
    assert plane((10, 40), other, dims=("z", "x"), coords=coords).squares == (1.0, 1.0)


def test_a_level_has_half_the_pixels_of_the_next_and_the_coarsest_is_one_tile():
    found = plane((1000, 3001))
    for level in range(FINEST_LEVEL, found.coarsest):
        for n, half in zip(found.pixels(level), found.pixels(level + 1)):
            assert half == -(-n // 2)
    assert found.pixels(0) == (1000, 3001)
    assert max(found.pixels(found.coarsest)) <= TILE_PIXELS < max(found.pixels(found.coarsest - 1))


def test_pixels_of_level_0_are_samples():
    edges = plane((30, 40)).edges(0, [(0, 1), (5, 8)])[1]
    assert edges.tolist() == [4.5, 5.5, 6.5, 7.5]
