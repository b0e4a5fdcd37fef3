"""Tiles as bytes: back as they were, or to 16 bits."""

import gzip

import numpy as np
import pytest

from elmfield.show.view_tiles import pack_floats, pack_short
from oracles.tile_bytes import unpacked


def numbers(rng, channels=2):
    values = rng.standard_normal((13, 17, channels)).astype(np.float32)
    values[3, 4] = np.nan
    return values


def test_floats_come_back_bit_for_bit(rng):
    values = numbers(rng)
    assert np.array_equal(unpacked(pack_floats(values)), values, equal_nan=True)
    assert pack_floats(values, draft=True)[6] == 1
    mask = values[..., 0] > 0
    assert np.array_equal(unpacked(pack_floats(mask))[..., 0] == 1, mask)


@pytest.mark.parametrize("kind", ["noise", "ramp", "constant", "missing"])
def test_sixteen_bits_are_of_the_tile_s_own_range(rng, kind):
    values = numbers(rng)
    if kind == "ramp":
        values = np.linspace(280, 300, 256 * 256, dtype=np.float32).reshape(256, 256, 1)
    elif kind == "constant":
        values = np.full((5, 6, 1), 3.5, np.float32)
    elif kind == "missing":
        values = np.full((5, 6, 1), np.nan, np.float32)
    back = unpacked(pack_short(values))
    assert np.array_equal(np.isnan(back), np.isnan(values))
    if kind != "missing":
        step = (np.nanmax(values) - np.nanmin(values)) / 65534
        # Half a step, and the rounding of numbers of this size to float32.
        assert np.nanmax(np.abs(back - values)) <= 0.51 * step + 1e-7 * np.nanmax(np.abs(values))


def test_what_is_smooth_is_small():
    y, x = np.mgrid[0:256, 0:256] / 64
    smooth = (np.sin(x) * np.cos(y))[..., None].astype(np.float32)
    made = pack_short(smooth)
    assert made[7] == 2  # nearly straight from pixel to pixel: differences of differences
    assert len(gzip.compress(made)) < 256 * 256 * 2 / 2
    assert np.abs(unpacked(made) - smooth).max() < 2 / 65534
