"""Part of a field on a grid: windows in the axes' units, round seams, in dates."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import elmfield as ef


@pytest.fixture(scope="module")
def world():
    lat, lon = 85 - 5.0 * np.arange(35), 5.0 * np.arange(72)
    values = np.cos(np.deg2rad(lat))[:, None] * np.cos(2 * np.deg2rad(lon))
    return ef.fit(
        values, coords=[lat, lon], dims=("latitude", "longitude"), periodic={"longitude": 360.0}
    )


@pytest.mark.parametrize(
    ("ends", "shown"),
    [
        ((350, 10), [350, 355, 0, 5, 10]),
        ((-10, 10), [350, 355, 0, 5, 10]),
        ((350, 370), [350, 355, 0, 5, 10]),
        ((710, 730), [350, 355, 0, 5, 10]),
        ((100, 110), [100, 105, 110]),
    ],
)
def test_a_window_may_cross_the_seam(world, ends, shown):
    part = world.resize(window={"longitude": ends}, scale=1, align="nodes")
    lat = world.domain.axes[0].coords
    assert_allclose(part, world.grid(lat, np.asarray(shown, float)), atol=1e-12)


def test_a_window_of_one_turn_may_begin_anywhere(world):
    part = world.resize(window={"longitude": (-180, 180)}, scale=1, align="nodes")
    assert_allclose(part, np.roll(world.samples(), 36, axis=1), atol=1e-12)


def test_areas_divide_the_window(world):
    part = world.resize(
        (3, 4), window={"latitude": (10, 40), "longitude": (20, 60)}, antialias=False
    )
    lat, lon = [35.0, 25.0, 15.0], [25.0, 35.0, 45.0, 55.0]
    assert_allclose(part, world.grid(lat, lon), atol=1e-12)


def test_nodes_run_on_beyond_the_seam(world):
    _, x = world.model.coordinates.positions(
        window={"longitude": (350, 10)}, scale=1, align="nodes"
    )
    assert_array_equal(x, [70, 71, 72, 73, 74])
    _, x = world.model.coordinates.positions(
        window={"longitude": (-10, 10)}, scale=1, align="nodes"
    )
    assert_array_equal(x, [-2, -1, 0, 1, 2])


@pytest.mark.parametrize(
    ("window", "message"),
    [
        ({"depth": (0, 1)}, r"`window` names \['depth'\], but the axes are \['latitude'"),
        ({"latitude": (0, 1, 2)}, "`window` must give two ends for each axis; got"),
        ({"latitude": (40, 10)}, "'latitude': the first end must lie below the second; got 40"),
        ({"latitude": (5, 5)}, "the first end must lie below the second"),
        ({"latitude": (0, np.nan)}, "the first end must lie below the second"),
        ({"latitude": (0, 200)}, "reaches beyond the domain, -87.5 to 87.5; got 0 to 200"),
        (
            {"longitude": (0, 800)},
            "'longitude': it must span at most one period, 360; got 0 to 800",
        ),
    ],
)
def test_windows_that_cannot_be(world, window, message):
    with pytest.raises(ValueError, match=message):
        world.resize(window=window)


def test_a_cropped_field_has_no_seam_to_cross(world):
    part = world.crop([-20.0, 300.0], [20.0, 350.0])
    assert_allclose(
        part.resize((4, 5)), world.resize((4, 5), window={"latitude": (-20, 20),
                                                          "longitude": (300, 350)}), atol=1e-12,
    )  # fmt: skip
