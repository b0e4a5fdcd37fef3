"""Arrays with loss: as close as asked, small, told when damaged, readable from the page."""

import json
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.ndimage import gaussian_filter

from elmfield._array import running
from elmfield.codec import join_parts, pack, pack_decoded, rate_curve, unpack, unpack_many
from elmfield.codec.ans import StreamReader, StreamWriter, Tables
from elmfield.codec.container import Head
from elmfield.codec.lossy import deblock, transform
from elmfield.codec.lossy.bounded import BoundedTile, pack_corrected
from elmfield.codec.lossy.lossy_tile import Tile
from elmfield.codec.lossy.packing import PreparedTile, check_array, code_tile
from elmfield.errors import StoreError, StoreVersionError
from oracles import interpolated as interpolated_oracle
from oracles import lossless as lossless_oracle
from oracles import lossy as oracle
from support import block_means

GOLDEN = Path(__file__).parent / "golden"
SHAPES = [(1,), (9,), (700,), (1, 1), (1, 90), (90, 1), (5, 9), (70, 33), (3, 4, 5), (20, 30, 6)]
SHAPES += [(2, 3, 4, 5), (9, 5, 6, 7)]


def waves(shape, dtype="float32"):
    """Something smooth with a corner in it, between 0 and 200."""
    x = sum(np.ix_(*(np.sin(np.arange(n) / (5 + k)) for k, n in enumerate(shape))))
    x = np.abs(np.asarray(x)) + (np.asarray(x) > 0.5)
    return (100 * x / max(1.0, float(x.max()) / 2)).astype(dtype)


def with_loss(data):
    """Whether a tile was not packed without loss."""
    return data[2] == 1


def in_boxes(values, step, channel_axis=None):
    """A tile in boxes, also where a lattice would take fewer bytes."""
    return code_tile(PreparedTile.of(values, check_array(values, channel_axis)), step).bytes()


def error(a, b):
    return float(np.max(np.abs(a.astype(np.longdouble) - b.astype(np.longdouble))))


# --- what comes back ------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_every_shape_comes_back_within_its_bound(shape):
    for dtype in ("float32", "uint8", "float64"):
        values = waves(shape, dtype)
        found = unpack(pack(values, max_error=2.0))
        assert found.shape == shape
        assert found.dtype == values.dtype
        assert error(found, values) <= 2.0


@pytest.mark.parametrize("bound", [1.0, 49.0, 300.0, 1e30, 1e300])
@pytest.mark.parametrize("dtype", ["u1", "i2", "i8"])
def test_bounds_may_be_wider_than_whole_numbers_are(dtype, bound):
    values = waves((20, 24), dtype)
    found = unpack(pack(values, max_error=bound))
    assert error(found, values) <= min(bound, np.ptp(values.astype(float)))


@pytest.mark.parametrize("dtype", ["u1", "i2", "u2", "i4", "u4", "i8", "f2", "f4", "f8"])
def test_every_dtype_comes_back_about_a_step_off(dtype):
    values = waves((60, 70), dtype)
    found = unpack(pack(values, step=4.0))
    assert found.dtype == values.dtype
    rms = np.sqrt(np.mean((found.astype(float) - values.astype(float)) ** 2))
    assert 0 < rms < 4 / 12**0.5 * 1.2


def test_a_finer_step_costs_more_and_errs_less():
    values = waves((96, 128))
    tiles = [pack(values, step=s) for s in (16.0, 4.0, 1.0, 0.25)]
    sizes = [len(tile) for tile in tiles]
    errors = [np.mean((unpack(tile) - values) ** 2) for tile in tiles]
    assert sizes == sorted(sizes)
    assert errors == sorted(errors, reverse=True)


@pytest.mark.thorough
def test_a_rate_curve_is_close_to_what_happens():
    rng = np.random.default_rng(0)
    tiles = [scale * (waves((420, 400)) + rng.normal(size=(420, 400))) for scale in (1, 1.5, 2, 3)]
    for step in (1.0, 3.0):
        curve = rate_curve(tiles)
        coded = [in_boxes(values, step) for values in tiles]
        error = np.mean([np.mean((unpack(data) - v) ** 2) for data, v in zip(coded, tiles)])
        bits = 8 * sum(map(len, coded)) / sum(v.size for v in tiles)
        assert abs(curve.error(step) / error - 1) < 0.4
        assert abs(curve.bits(step) / bits - 1) < 0.4
        curve.calibrate(step)
        assert abs(curve.error(step) / error - 1) < 0.05
        assert abs(curve.bits(step) / bits - 1) < 0.1
        assert curve.error(0.9 * step) < curve.error(step) < curve.error(1.1 * step)
        assert curve.bits(0.9 * step) > curve.bits(step) > curve.bits(1.1 * step)


@pytest.mark.parametrize("asked", [{"step": 4.0}, {"max_error": 1.5}])
def test_more_effort_takes_fewer_bytes_for_less_error(asked, rng):
    values = 200 * gaussian_filter(rng.normal(size=(150, 200)), 4).astype("f4")
    values[:, 120:] += rng.normal(scale=5, size=(150, 80)) if "step" in asked else 0
    cost = []
    for effort in (1, 5, 9):
        data = pack(values, effort=effort, **asked)
        off = unpack(data).astype(float) - values
        assert "step" in asked or np.abs(off).max() <= asked["max_error"]
        cost.append(8 * len(data) * 0.1155 * asked.get("step", 0) ** 2 + np.sum(off**2))
        cost[-1] = cost[-1] if "step" in asked else len(data)
    assert cost[0] > cost[1]
    assert cost[0] > cost[2]
    for wrong in (0, 10, 2.5, "9"):
        with pytest.raises(ValueError, match="`effort` must be a whole number from 1 to 9; got"):
            pack(values, effort=wrong, **asked)


@pytest.mark.parametrize("shape", [(12, 70, 60), (5, 90), (3, 40, 41, 6)])
def test_boxes_are_not_much_longer_than_the_shortest_axis(shape):
    """Twelve times in boxes of 32 were filled up to 32: three times as many samples to code."""
    values = waves(shape).astype("f4")
    assert max(2 * min(shape), 8) > Tile.read(in_boxes(values, 2.0)).B


@pytest.mark.parametrize("axis", [0, 1, 2, -1])
def test_channels_stand_on_any_axis(axis):
    grey = waves((60, 70), "float64")
    channels = [grey + 3, 0.5 * grey, grey - waves((60, 70), "float64").T[:1, :60].T * 0.1]
    values = np.stack(channels, axis=axis)
    together = pack(values, step=2.0, channel_axis=axis)
    apart = sum(len(pack(x, step=2.0)) for x in channels)
    assert unpack(together).shape == values.shape
    assert error(unpack(together), values) < 12
    assert len(together) < 0.8 * apart  # they say much the same


def test_channels_that_say_much_the_same_are_turned_at_large_steps_too():
    x = waves((96, 96), "float64")
    values = np.stack([x, 0.9 * x, x + x.T / 50], axis=-1)
    assert Tile.read(pack(values, step=100.0, channel_axis=2)).matrix is not None


def test_gaps_come_back_as_gaps():
    values = waves((60, 70, 2), "float32")
    values[10:30, 20:40] = np.nan
    values[::7, ::5, 1] = np.nan
    for asked in ({"step": 2.0}, {"max_error": 1.0}):
        found = unpack(pack(values, channel_axis=2, **asked))
        np.testing.assert_array_equal(np.isnan(found), np.isnan(values))
        known = ~np.isnan(values)
        assert error(found[known], values[known]) <= (1.0 if "max_error" in asked else 20)
    assert np.isnan(unpack(pack(np.full((9, 9), np.nan), step=1.0))).all()


def test_a_coarse_picture_is_made_of_means():
    values = waves((128, 192, 3), "float32")
    data = in_boxes(values, 0.5, 2)
    for k in (1, 2, 5, 6, 7):
        n = 2**k
        found = unpack(data, coarse=k)
        assert found.shape == (-(-128 // n), -(-192 // n), 3)
        cut = values[: 128 // n * n, : 192 // n * n]
        means = cut.reshape(128 // n, n, 192 // n, n, 3).mean(axis=(1, 3))
        # single samples are a few steps off at most, means over more of them less
        np.testing.assert_allclose(found[: 128 // n, : 192 // n], means, atol=2 * 0.5)


def test_a_coarse_picture_is_of_samples_alone():
    """The last box has three samples; what it is filled up with is none."""
    values = np.append(50 * np.sin(np.arange(192) / 9), [0, 60, 99]).astype("float32")
    data = in_boxes(values, 0.5)
    assert Tile.read(data).B == 32
    for k in (4, 5, 6, 7, 8):
        np.testing.assert_allclose(
            unpack(data, coarse=k), block_means(unpack(data).astype(float), k, 1), atol=1e-5
        )


def test_the_first_sections_are_enough_for_a_coarse_picture():
    values = waves((256, 256), "float32")
    data = in_boxes(values, 0.5)
    coarse = unpack(data, coarse=6)
    zeroed = data[: len(data) - len(data) // 3] + bytes(len(data) // 3)
    np.testing.assert_array_equal(unpack(zeroed, coarse=6), coarse)


def test_many_tiles_at_once():
    values = waves((40, 50))
    tiles = [pack(values), pack(values, step=1.0), pack(values[:9], max_error=0.1)]
    for found, tile in zip(unpack_many(tiles), tiles, strict=True):
        np.testing.assert_array_equal(found, unpack(tile))


# --- hard bounds ----------------------------------------------------------------------------------


def hostile(rng):
    """Arrays that are hard to promise anything about."""
    shape = (37, 50)
    base = waves(shape, "float64") / 100
    spikes = base + (rng.random(shape) < 0.01) * 100
    outlier = base.copy()
    outlier[20, 21] = 1e12
    return {
        "noise": rng.normal(size=shape),
        "spikes": spikes,
        "checkerboard": (np.indices(shape).sum(axis=0) % 2).astype(float),
        "offset": 1e8 + base,
        "denormals": base * 1e-310,
        "outlier": outlier,
        "constant": np.full(shape, 3.7),
        "scales": base * 10.0 ** rng.integers(-12, 12, shape),
    }


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "int64", "int16", "uint8"])
def test_no_error_is_larger_than_promised(dtype, rng):
    for name, values in hostile(rng).items():
        if np.dtype(dtype).kind == "f":
            with np.errstate(over="ignore"):
                values = values.astype(dtype)
            if not np.isfinite(values).all():
                continue
        else:
            info = np.iinfo(dtype)
            top = min(float(info.max), 2.0**53)
            values = np.clip(np.rint(50 * values), max(float(info.min), -top), top).astype(dtype)
        width = float(np.ptp(values.astype(float))) or 1.0
        for part in (1e-2, 1e-4, 1e-7):
            if (bound := part * width) > 0:
                found = unpack(pack(values, max_error=bound))
                assert error(found, values) <= bound, (name, part)


@pytest.mark.parametrize("asked", [{"step": 3.0}, {"step": 0.01}, {"max_error": 0.5}, {}])
@pytest.mark.parametrize("dtype", ["uint8", "int32", "float32", "float64"])
def test_the_coder_knows_what_is_decoded(asked, dtype, rng):
    rough = waves((70, 90)) + rng.normal(scale=3, size=(70, 90))
    gaps = np.where(rough > np.quantile(rough, 0.9), np.nan, rough)
    tiles = [waves((70, 90)), rough, np.zeros((9, 9)), np.stack([rough, 2 * rough, -rough], -1)]
    tiles += [gaps] if dtype.startswith("f") else []
    for values in tiles:
        axis = -1 if values.ndim == 3 else None
        ((data, found),) = pack_decoded([values.astype(dtype)], channel_axis=axis, **asked)
        assert found.dtype == dtype
        np.testing.assert_array_equal(found, unpack(data))


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_numbers_up_to_the_last_of_their_dtype(dtype, rng):
    top = np.finfo(dtype).max
    values = (rng.random((30, 40)) * float(top) / 2).astype(dtype)
    values[3, 4] = top
    bound = float(top) * 1e-2
    assert error(unpack(pack(values, max_error=bound)), values) <= bound


@pytest.mark.thorough
def test_a_bound_is_kept_by_a_lattice_or_by_corrections_whichever_is_smaller(rng):
    rough = waves((96, 128)) + rng.normal(scale=3, size=(96, 128)).astype("float32")
    rough[:, :20] = 0
    data = pack(rough, max_error=0.5)
    assert len(data) < 0.95 * len(pack_corrected(BoundedTile.of(rough, 0.5))[0])
    assert not unpack(data)[:, :20].any()  # 0 comes back as 0
    smooth = gaussian_filter(rng.normal(size=(192, 256)), 6).astype("float32")
    data = pack(smooth, max_error=3e-3)
    assert with_loss(data)
    many = pack_decoded([rough, smooth, np.zeros((5, 5)), rough[:9]], max_error=0.5)
    each = [pack(v, max_error=0.5) for v in (rough, smooth, np.zeros((5, 5)), rough[:9])]
    assert [data for data, _ in many] == each


@pytest.mark.thorough
@pytest.mark.parametrize("dtype", ["uint8", "int16", "float32"])
@pytest.mark.parametrize("channel_axis", [None, 2])
def test_rough_samples_go_to_a_lattice_with_the_errors_of_the_step(dtype, channel_axis, rng):
    values = (100 + 30 * rng.standard_normal((60, 70, 2))[..., : channel_axis or 1]).astype(dtype)
    values = values if channel_axis else values[..., 0]
    other = in_boxes(values, 3.1, channel_axis)
    data = pack(values, step=3.1, channel_axis=channel_axis)
    assert not with_loss(data)
    assert len(data) < len(other)
    back = unpack(data)
    assert back.dtype == values.dtype
    squares = [np.mean((v.astype(float) - values) ** 2) for v in (back, unpack(other))]
    assert 0.8 * squares[1] < squares[0] <= squares[1]
    assert (lossless_oracle.unpack(data) == back).all()


def test_large_boxes_are_used_at_fine_steps_where_their_numbers_fit():
    axes = np.ogrid[:64, :64, :64]
    values = sum(np.sin(2 * np.pi * (x + 3 * k) / 32) for k, x in enumerate(axes))
    # More effort joins boxes.
    assert (
        Tile.read(pack(values, step=2e-3, effort=7)).B == 32
    )  # waves as long as boxes: their means are 0


def test_whole_numbers_up_to_2_to_53(rng):
    values = rng.integers(-(2**53), 2**53, (30, 40))
    for bound in (1, 1000, 2**30, 2**45):
        assert np.abs(unpack(pack(values, max_error=bound)) - values).max() <= bound


@pytest.mark.slow
@given(
    seed=st.integers(0, 2**32 - 1),
    shape=st.lists(st.integers(1, 24), min_size=1, max_size=3),
    scale=st.floats(-6, 6),
    bound=st.floats(-5, 1),
)
@settings(max_examples=25, deadline=None)
def test_bounds_hold_for_any_floats(seed, shape, scale, bound):
    rng = np.random.default_rng(seed)
    values = np.float32(rng.standard_t(2, shape) * 10**scale)
    found = unpack(pack(values, max_error=10 ** (scale + bound)))
    assert error(found, values) <= 10 ** (scale + bound)


def test_where_no_loss_is_smaller_there_is_none():
    values = waves((64, 64), "uint8")
    assert not with_loss(pack(values, max_error=0.4))
    np.testing.assert_array_equal(unpack(pack(values, max_error=0)), values)
    assert len(pack(values, max_error=4)) < 0.6 * len(pack(values))


def test_what_cannot_be_asked():
    values = waves((8, 8))
    with pytest.raises(ValueError, match="not both"):
        pack(values, step=1.0, max_error=1.0)
    for bad in (0.0, -1.0, np.nan, np.inf):
        with pytest.raises(ValueError, match="positive"):
            pack(values, step=bad)
    with pytest.raises(ValueError, match="positive"):
        pack(values, max_error=-1.0)
    with pytest.raises(ValueError, match="integers or floats"):
        pack(values + 1j, step=1.0)
    with pytest.raises(ValueError, match="no coarse"):
        unpack(pack(values), coarse=1)


@pytest.mark.parametrize("asked", [{}, {"step": 1.0}, {"max_error": 1.0}])
def test_nan_of_any_bits_are_gaps(asked):
    """A signalling one, whose highest bit is not set, warns where it is computed with."""
    bits = [0x7F800001, 0x7FC00000, 0xFF800123] + 30 * [0x3F800000] + 30 * [0x40000000]
    values = np.array(bits, np.uint32).view(np.float32)
    back = unpack(pack(values, **asked))
    assert np.array_equal(np.isnan(back), np.isnan(values))
    assert np.abs(back[3:] - values[3:]).max() <= 1
    assert rate_curve([values]).error(1.0) >= 0


@pytest.mark.parametrize("asked", [{"step": 1.0}, {"max_error": 1.0}])
@pytest.mark.parametrize(
    "values",
    [
        [1.0, np.inf, np.nan],
        [np.nan, np.nan],
        [1, -(2**60)],
        np.array([1, 2**63 + 5], np.uint64),
        [True, False],
    ],
    ids=["infinite", "all NaN", "int64", "uint64", "bool"],
)
def test_what_takes_no_loss_comes_back_bit_for_bit(values, asked):
    values = np.asarray(values)
    back = unpack(pack(values, **asked))
    assert (back.dtype, back.tobytes()) == (values.dtype, values.tobytes())
    if "max_error" in asked:
        assert pack_decoded([values], **asked)[0][0] == pack(values, **asked)


# --- the same everywhere --------------------------------------------------------------------------


def small_tiles():
    """Tiles of many kinds, small enough for the slow decoder."""
    rng = np.random.default_rng(3)
    picture = waves((40, 44)) + rng.normal(scale=4, size=(40, 44)).astype("float32")
    gaps = picture.copy()
    gaps[3:9, 4:8] = np.nan
    colour = np.stack([picture, picture * 0.5, 200 - picture], axis=-1)
    return {
        "step": lambda: in_boxes(picture, 12.0),
        "fine": lambda: in_boxes(picture[:32], 0.02),
        "bound": lambda: pack_corrected(BoundedTile.of(picture[:24, :30], 3.0))[0],
        "gaps": lambda: in_boxes(gaps[:24, :30], 8.0),
        "colour": lambda: in_boxes(colour[:20, :24].astype("uint8"), 9.0, 2),
        "line": lambda: in_boxes(waves((600,)), 10.0),
        "volume": lambda: in_boxes(waves((9, 10, 11)), 3.0),
        "four axes": lambda: in_boxes(waves((5, 4, 3, 6)), 9.0),
    }


@pytest.fixture(scope="module")
def priors():
    with files("elmfield.codec.lossy").joinpath("priors.npz").open("rb") as file:
        found = dict(np.load(file))
    for name in ("classes1", "classes2", "classes3"):
        found[name] = np.cumsum(found[name], axis=-1) % 256
    return found


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["step", "fine", "bound", "gaps", "colour", "line", "volume", "four axes"]
)
def test_a_decoder_written_from_the_page_finds_the_same(name, priors):
    data = small_tiles()[name]()
    assert with_loss(data)
    assert (Tile.read(data).gains is not None) == (name in ("step", "colour", "line", "four axes"))
    np.testing.assert_array_equal(oracle.unpack(data, priors), unpack(data))


# --- interpolation --------------------------------------------------------------------------------


def is_interpolated(data):
    return data[2] == 2


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("shape", "bound"),
    [
        *(((30, 35), 0.5), ((30, 35), 1e-3), ((700,), 0.5), ((9, 10, 12), 1e-3)),
        *(((1, 40, 1, 23), 1e-3), ((5, 4, 6, 7), 0.5)),
    ],
    ids=str,
)
def test_an_interpolated_tile_is_that_of_the_page(shape, bound, rng):
    values = (waves(shape) + rng.normal(0, 0.3, shape) + 900).astype("float32")
    gaps = values.copy()
    gaps.flat[3:7] = np.nan
    for own in (values, gaps, values.astype("float64")):
        data = pack(own, max_error=bound, effort=1)
        assert is_interpolated(data)
        found = unpack(data)
        np.testing.assert_array_equal(interpolated_oracle.unpack(data), found)
        np.testing.assert_array_equal(np.isnan(found), np.isnan(own))
        assert np.nanmax(np.abs(found.astype(float) - own.astype(float))) <= bound


def test_interpolation_of_what_is_calm_takes_few_bytes():
    x = np.arange(512)
    calm = np.add.outer(np.sin(x / 99), np.cos(x / 77)).astype("float32")
    data = pack(calm, max_error=1e-3)
    assert is_interpolated(data)
    assert len(data) < 10_000  # 23 000 on a lattice
    assert error(unpack(data), calm) <= 1e-3


@pytest.mark.thorough
def test_what_is_smooth_in_time_is_interpolated_in_time_last(rng):
    y, x = np.mgrid[:40, :60]
    one, other = 10 * np.sin(x / 9) * np.cos(y / 7), 10 * np.cos(x / 8 + y / 9)
    part = np.linspace(0, 1, 12)[:, None, None]
    values = (one + part * (other - one) + rng.normal(0, 0.02, (12, 40, 60))).astype("float32")
    data = pack(values, max_error=0.1, effort=2)
    assert is_interpolated(data)
    assert len(data) < 0.5 * len(pack(values[rng.permutation(12)], max_error=0.1, effort=2))
    np.testing.assert_array_equal(interpolated_oracle.unpack(data), unpack(data))


@pytest.mark.thorough
@pytest.mark.parametrize("seed", range(8))
def test_interpolation_by_both_ways_is_the_same_also_of_damaged_tiles(seed, monkeypatch):
    if not running.installed():
        pytest.skip("numba is not installed")
    rng = np.random.default_rng(seed)
    d = 1 + seed % 4
    shape = tuple(rng.integers(2, {1: 3000, 2: 80, 3: 20, 4: 10}[d], d))
    values = rng.normal(size=shape).cumsum(axis=-1).cumsum(axis=0)
    values = (10.0 ** (seed - 4) * values).astype(["f4", "f8", "f2"][seed % 3])
    values[rng.random(shape) < 0.1 * (seed % 2)] = np.nan

    def by_both(work):
        found = []
        for pays in (False, True):
            monkeypatch.setattr(running, "pays", lambda work, pays=pays: pays)
            with np.errstate(all="ignore"):
                try:
                    found.append(work())
                except StoreError as error:
                    found.append(str(error))
        return found

    bound = float(np.nanstd(values.astype("f8"))) / 100
    one, other = by_both(lambda: pack(values, max_error=bound, effort=1 + seed % 2))
    assert one == other
    assert is_interpolated(one)
    for _ in range(20):
        hurt = bytearray(one)
        for _ in range(int(rng.integers(0, 3))):
            hurt[int(rng.integers(3, len(hurt)))] ^= 1 << int(rng.integers(8))
        found = by_both(lambda hurt=hurt: unpack(bytes(hurt)).tobytes())
        assert found[0] == found[1]


@pytest.mark.thorough
def test_parts_of_a_large_array_are_not_cut_again(monkeypatch):
    monkeypatch.setattr("elmfield.codec.PART_SAMPLES", 1 << 9)
    values = waves((400, 90)).astype("float32")  # 16 parts, each of more than two times that
    for asked in ({"max_error": 0.01}, {}):
        data = pack(values, **asked)
        assert data[2] == 3
        assert error(unpack(data), values) <= asked.get("max_error", 0)


def test_what_is_not_interpolated(rng):
    colours = waves((60, 70, 3))
    dry = np.maximum(waves((80, 90)), 0)
    rough = (waves((80, 90)) + rng.normal(0, 9, (80, 90))).astype("float32")
    for values, bound in [(colours, 0.1), (dry, 0.5), (rough, 0.01), (rough.astype("i2"), 2)]:
        axis = 2 if values.ndim == 3 else None
        data = pack(values, max_error=bound, channel_axis=axis)
        assert not is_interpolated(data)
    assert not unpack(pack(dry, max_error=0.5))[dry == 0].any()
    assert is_interpolated(pack(rough, max_error=0.01, effort=1))


def test_axes_are_taken_in_the_order_of_their_roughness(rng):
    rows = np.cumsum(rng.normal(size=(90, 1)), axis=0) + np.sin(np.arange(80) / 30)
    both = [pack(v.astype("float32"), max_error=0.01, effort=1) for v in (rows, rows.T)]
    assert all(map(is_interpolated, both))
    assert abs(len(both[0]) - len(both[1])) < 0.02 * len(both[0])


@pytest.mark.parametrize("shape", [(2, 40), (1, 3, 17), (2, 5, 6, 7), (1, 3, 1, 4, 5)], ids=str)
def test_smoothing_is_that_of_the_page(shape, priors, rng, way):
    y = rng.integers(-150, 150, shape).cumsum(axis=1)
    y[0].flat[3] = 1 << 30
    size = int(rng.choice([2, 4, 8]))
    gains = rng.integers(0, 256, (shape[0], deblock.LEVELS)).astype(np.uint8)
    weights = priors[f"smoothing{min(3, len(shape) - 1)}"]
    expected = oracle.smoothed(y, size, gains, weights)
    found = deblock.Moves.of(y, size, weights).apply(y, gains)
    np.testing.assert_array_equal(found, expected)


def test_smoothing_only_where_it_helps(rng):
    smooth = waves((200, 240))
    noise = rng.normal(scale=50, size=(64, 64)).astype("float32")
    assert Tile.read(pack(smooth, step=20.0)).gains is not None
    assert Tile.read(pack(noise, step=1.0)).gains is None


def test_golden_tiles_decode_to_golden_samples(way):
    tiles = json.loads((GOLDEN / "lossy.json").read_text())
    for name, entry in tiles.items():
        found = unpack(bytes.fromhex(entry["bytes"]))
        assert found.dtype == entry["dtype"], name
        assert found.tobytes().hex() == entry["samples"], name


def test_the_whole_basis_is_what_it_was():
    # sums of the integer cosines: every machine must find the same ones
    sums = [int(np.abs(transform.whole_cosines(B)).sum()) for B in (2, 4, 8, 16, 32, 64, 128)]
    assert sums == SUMS


SUMS = [741456, 2017336, 5540352, 15399776, 43148576, 121446464, 342647296]


# --- compiled loops -------------------------------------------------------------------------------


def rough_arrays(rng):
    """Arrays of one to four axes, channels, gaps and large numbers, and how to code them."""
    for shape, step in [((1,), 1.0), ((900,), 0.3), ((1, 70), 2.0), ((90, 130), 0.2)]:
        yield waves(shape) + rng.normal(size=shape).astype("float32"), {"step": step}
    for shape in [(17, 20, 30), (5, 6, 9, 8)]:
        yield (waves(shape) + 2 * rng.normal(size=shape)).astype("int16"), {"step": 2.0}
    gaps = waves((60, 70, 2)) + rng.normal(size=(60, 70, 2))
    gaps[10:30, 20:40] = np.nan
    yield gaps, {"step": 0.5, "channel_axis": 2}
    yield 1e4 * (np.indices((64, 64)).sum(axis=0) % 2.0), {"step": 0.01}
    yield waves((200, 140)) + (rng.random((200, 140)) < 0.01) * 1e4, {"max_error": 4.0}


@pytest.mark.thorough
def test_compiled_loops_write_and_read_the_same_bytes(rng, monkeypatch):
    if not running.installed():
        pytest.skip("numba is not installed")
    for values, asked in rough_arrays(rng):
        found = []
        for pays in (False, True):
            monkeypatch.setattr(running, "pays", lambda work, pays=pays: pays)
            found.append((data := pack(values, **asked), unpack(data)))
        assert found[0][0] == found[1][0], (values.shape, asked)
        np.testing.assert_array_equal(found[0][1], found[1][1])


# --- lanes ----------------------------------------------------------------------------------------


def test_samples_all_alike_lose_nothing_and_cost_nothing():
    values = np.full((200, 300), 280.3, "float32")
    for asked in ({"max_error": 0.5}, {"step": 3.0}):
        data = pack(values, **asked)
        assert len(data) < 150
        assert np.array_equal(unpack(data), values)


@pytest.mark.parametrize(
    "values", [np.linspace(0, 9, 3000).reshape(60, 50), np.sin(np.arange(4000.0) / 90)]
)
def test_a_few_lanes_are_coded_alike_one_by_one_and_side_by_side(values, monkeypatch):
    data = pack(values, max_error=0.1)
    one_by_one = unpack(data)
    monkeypatch.setattr("elmfield.codec.ans.SCALAR_LANES", 0)
    assert pack(values, max_error=0.1) == data
    assert np.array_equal(unpack(data), one_by_one)


@pytest.mark.parametrize("size", [0, 1, 50, 5000])
def test_lanes_give_back_symbols_and_raw_bits(size, rng, way):
    tables = Tables.of(np.array([[4000, 95, 1], [1, 1, 4094], [1000, 3000, 96]]))
    batches = []
    for n in (size, size // 3, size):
        classes = rng.integers(0, 3, n)
        batches.append((classes, rng.integers(0, 3, n).astype(np.uint8)))
    raw = rng.integers(0, 2, 5 * size).astype(np.uint8)
    writer = StreamWriter()
    for c, s in batches:
        writer.append(tables.entries[c, s], np.array([c.size]))
    writer.raw.append(raw)
    reader = StreamReader(writer.content())
    for classes, symbols in batches:
        np.testing.assert_array_equal(reader.decode(tables, classes), symbols)
    reader.finish()
    np.testing.assert_array_equal(reader.raw(len(raw)), raw)


# --- damage ---------------------------------------------------------------------------------------


def survives(data, shape, dtype):
    """Read damaged bytes: the right shape, or StoreError, nothing else."""
    try:
        with np.errstate(all="ignore"):
            found = unpack(data)
    except StoreError:
        return
    assert found.ndim == len(shape)
    assert found.size <= 4096 * len(data)


@pytest.mark.slow
def test_damaged_tiles_are_told_or_read(rng, way):
    picture = waves((60, 70)) + rng.normal(scale=3, size=(60, 70)).astype("float32")
    picture[5:9, 5:9] = np.nan
    data, _ = pack_corrected(BoundedTile.of(picture, 2.0))
    for n in [*range(0, 60, 3), *rng.integers(60, len(data), 20).tolist()]:
        survives(data[:n], picture.shape, picture.dtype)
    for _ in range(100):  # files of 300 are in tests/io/model/test_damage.py
        flipped = bytearray(data)
        at = int(rng.integers(0, 120 if rng.random() < 0.5 else len(data)))
        flipped[at] ^= 1 << int(rng.integers(0, 8))
        survives(bytes(flipped), picture.shape, picture.dtype)


def test_every_cut_inside_the_sections_is_told(way):
    data = pack(waves((60, 70)), step=1.0)
    for n in range(0, len(data) - 1, 7):
        with pytest.raises(StoreError):
            unpack(data[:n])


def test_a_byte_stands_for_4096_samples_at_most():
    values = np.add.outer(np.arange(512.0), np.arange(1024.0))
    data = pack(values, step=1e4)
    assert len(data) == values.size // 4096
    unpack(data)
    with pytest.raises(StoreError, match="claims shape"):
        unpack(data[:-1])


def test_a_newer_version_is_told():
    data = bytearray(pack(waves((9, 9)), step=1.0))
    data[1] = 9
    with pytest.raises(StoreVersionError, match="newer"):
        unpack(bytes(data))


def test_a_lie_about_the_shape_is_told():
    data = bytearray(pack(waves((50, 60)), step=1.0))
    assert data[6:8] == bytes([50, 60])
    data[6:8] = b"\xff\xff\xff\x7f\xff\xff\x7f"
    with pytest.raises(StoreError, match="claims shape"):
        unpack(bytes(data))


# --- large arrays ---------------------------------------------------------------------------------


@pytest.mark.parametrize("axis", [None, 2])
@pytest.mark.parametrize("asked", [{}, {"max_error": 0.2}], ids=str)
def test_large_arrays_are_cut_into_parts(asked, axis, rng, monkeypatch):
    monkeypatch.setattr("elmfield.codec.PART_SAMPLES", 1 << 11)
    values = waves((130, 50, 2)) + rng.normal(0, 0.2, (130, 50, 2)).astype("float32")
    values = values if axis else values[..., 0]
    ((data, decoded),) = pack_decoded([values], channel_axis=axis, **asked)
    assert data[2] == 3
    np.testing.assert_array_equal(unpack(data), decoded)
    assert error(decoded, values) <= asked.get("max_error", 0)
    small = pack(values[:20], channel_axis=axis, **asked)
    both = unpack_many([small, data, small])
    np.testing.assert_array_equal(both[0], both[2])
    np.testing.assert_array_equal(both[1], decoded)
    for at in range(len(data) - 40, len(data), 7):
        with pytest.raises(StoreError):
            unpack(data[:at])
    for wrong in (data[:12] + bytes([9]) + data[13:], data + b"x", data[:2] + b"\x07" + data[3:]):
        with pytest.raises(StoreError):
            unpack(wrong)
    with pytest.raises(ValueError, match="coarse"):
        unpack(data, coarse=1)


def test_parts_of_four_axes_and_channels(monkeypatch):
    monkeypatch.setattr("elmfield.codec.PART_SAMPLES", 1 << 9)
    values = waves((3, 4, 40, 5, 2))
    data = pack(values, channel_axis=4)
    assert data[2] == 3
    np.testing.assert_array_equal(unpack(data), values)


def test_parts_fit_together():
    values = waves((300, 40))
    parts = [pack(values[:200]), pack(values[200:])]
    whole = join_parts(Head.of(values, None), 0, parts)
    np.testing.assert_array_equal(unpack(whole), values)
    other = pack(values[200:].astype("float64")), pack(values[200:, :9]), pack(values[200:, 0])
    for last in (*other, whole, pack(values[201:])):
        with pytest.raises(StoreError):
            unpack(join_parts(Head.of(values, None), 0, [parts[0], last]))
    with pytest.raises(StoreError):
        unpack(join_parts(Head.of(values, None), 0, []))
