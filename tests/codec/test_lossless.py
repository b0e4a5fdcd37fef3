"""Arrays without loss: back bit for bit, small, told when damaged, readable from the page."""

import io
import json
import platform
import subprocess
import sys
import textwrap

import numpy as np
import pytest
import skimage.data
from hypothesis import given
from hypothesis import strategies as st

from elmfield._array import running
from elmfield.codec import pack, pack_decoded, unpack, unpack_many
from elmfield.errors import StoreError, StoreVersionError
from oracles import lossless as oracle

DTYPES = ["bool", "uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64"]
DTYPES += ["float16", "float32", "float64"]
SHAPES = [(1,), (9,), (2100,), (1, 1), (1, 90), (90, 1), (5, 9), (70, 33), (3, 4, 5), (20, 70, 6)]
SHAPES += [(2, 3, 4, 5), (5, 9, 3, 35), ()]


def same(a, b):
    """Equal in dtype, shape and every bit."""
    assert a.dtype == b.dtype
    assert a.shape == b.shape
    assert np.ascontiguousarray(a).tobytes() == np.ascontiguousarray(b).tobytes()


def smooth(rng, shape, dtype):
    """A random walk along the last axis, as any dtype."""
    walk = np.cumsum(rng.normal(scale=3.0, size=shape or (1,)), axis=-1).reshape(shape)
    if dtype == "bool":
        return np.asarray(walk > 0)
    return np.asarray(np.clip(np.abs(walk), 0, 100)).astype(dtype)


def noise(rng, shape, dtype):
    """Any bits at all."""
    if dtype == "bool":
        return np.asarray(rng.random(shape) < 0.5)
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    return np.frombuffer(rng.bytes(size), dtype).reshape(shape)


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_dtype_comes_back_bit_for_bit(dtype, rng):
    for shape in [(1,), (5, 9), (30, 66), (3, 4, 5)]:
        for make in (smooth, noise):
            values = make(rng, shape, dtype)
            same(unpack(pack(values)), values)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_every_shape_comes_back_bit_for_bit(shape, rng):
    for dtype in ("uint8", "float32"):
        for make in (smooth, noise):
            values = make(rng, shape, dtype)
            same(unpack(pack(values)), values)


@pytest.mark.parametrize("channels", [1, 2, 3, 4, 5, 9])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_channels_may_be_any_axis(channels, axis, rng):
    for shape in [(23, 30), (70,), (6, 7, 20)][: 2 + (channels < 6)]:
        walk = np.cumsum(rng.integers(-3, 4, (*shape, channels)), axis=0)
        values = np.moveaxis(walk, -1, axis).astype(np.int16)
        same(unpack(pack(values, channel_axis=axis)), values)


@given(
    shape=st.lists(st.integers(1, 12), min_size=1, max_size=4),
    kind=st.sampled_from(["u1", "i2", "u8", "f4", "f8"]),
    seed=st.integers(0, 2**32 - 1),
    few=st.integers(1, 6),
)
def test_few_values_anywhere_come_back(shape, kind, seed, few):
    rng = np.random.default_rng(seed)
    some = np.frombuffer(rng.bytes(8 * few), kind)
    values = some[rng.integers(0, few, shape)]
    same(unpack(pack(values)), values)


def test_channels_of_far_larger_numbers_come_back():
    # Weights that lead from one channel to the other were too large for a decoder to be exact.
    f, l = np.deg2rad(np.arange(-80, 81, 4.0))[:, None], np.deg2rad(np.arange(0, 360, 5.0))
    one = 280 + 20 * np.cos(f) * np.cos(2 * l) + 5 * np.sin(3 * f)
    both = np.stack([one, 100 * one + 5], axis=-1)
    assert np.array_equal(unpack(pack(both, channel_axis=-1)), both)


def test_what_floats_can_be_comes_back(rng):
    odd = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 5e-324, -1e-310, 1e308, np.pi], np.float64)
    payload = np.array([0x7FF8000000000001, 0xFFF8000000000002, 0x7FF0000000000003], np.uint64)
    odd = np.concatenate([odd, payload.view(np.float64)])
    same(unpack(pack(odd)), odd)
    for dtype in ("f2", "f4", "f8"):
        with np.errstate(all="ignore"):
            values = odd[rng.integers(0, len(odd), (40, 50))].astype(dtype)
        same(unpack(pack(values)), values)


def test_gaps_cost_what_their_outline_costs(rng):
    y, x = np.mgrid[:100, :120]
    values = (280 + 9 * np.sin(x / 30) + y / 50 + rng.normal(0, 0.01, x.shape)).astype(np.float32)
    whole = len(pack(values))
    values[20:50, 30:90] = np.nan
    same(unpack(pack(values)), values)
    assert len(pack(values)) < 0.95 * whole
    values[:] = np.nan
    same(unpack(pack(values)), values)
    assert len(pack(values)) < 60


@pytest.mark.parametrize("step", [0.01, 2.0**-7, 1 / 3, 6.4823527336120605, 0.0013060571582256268])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_values_once_packed_are_found_on_their_lattice(step, dtype, rng):
    k = np.cumsum(rng.integers(-9, 10, (80, 90)), axis=1)
    values = (272.5 + step * k).astype(dtype)
    same(unpack(pack(values)), values)
    plain = len(pack((k - k.min()).astype(np.uint16)))
    # Places off the lattice by rounding cost a bit for each place, not for each sample.
    assert len(pack(values)) < plain + 60 + (k.max() - k.min()) // 2


def test_values_off_a_lattice_come_back_too(rng):
    values = (0.25 * np.cumsum(rng.integers(-9, 10, (60, 70)), axis=1)).astype(np.float32)
    values[::7, ::5] = np.nextafter(values[::7, ::5], np.float32(1e9))
    same(unpack(pack(values)), values)


@pytest.mark.parametrize("tiny", [3.9e5, 1e60])
def test_values_near_0_between_huge_ones_come_back(tiny):
    """On the lattice of the others, but very many floats away from it."""
    values = 4.99671341e81 * np.round(np.random.default_rng(0).standard_normal((20, 15))) + tiny
    same(unpack(pack(values)), values)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_values_at_the_ends_of_a_dtype_come_back(dtype):
    most = np.finfo(dtype).max
    same(unpack(pack(v := np.asarray([[0, 1, most], [-most, -1, 0.5]], dtype))), v)
    same(unpack(pack(v := np.asarray([most, -most, 0.99 * most, 0.98 * most], dtype))), v)


def test_numbers_with_a_common_step_are_as_small_as_without(rng):
    values = np.cumsum(rng.integers(-5, 6, (64, 64)), axis=1).astype(np.int32)
    assert len(pack(values * 1000 + 7)) < len(pack(values)) + 8


def test_tiles_hold_little_besides_their_samples(rng):
    assert len(pack(np.full((1000, 1000), 7, np.uint16))) <= 1 + 1_000_000 // 1024
    assert len(pack(np.arange(10, dtype=np.uint8))) < 20
    mask = np.zeros((150, 150), np.bool_)
    mask[30:100, 50:120] = True
    assert len(pack(mask)) < 200
    incompressible = noise(rng, (30, 40), "uint8")
    assert len(pack(incompressible)) <= incompressible.nbytes + 16


@pytest.mark.thorough
def test_several_tiles_at_once_are_the_tiles_alone(rng, way):
    arrays = [smooth(rng, s, d) for s in [(40, 50), (9,)] for d in ("uint8", "float32", "int16")]
    arrays += [noise(rng, (40, 50), "uint8"), np.zeros((40, 50), np.uint8), np.zeros((0, 3))]
    arrays += [np.cumsum(rng.normal(size=(40, 50)), axis=0) for _ in range(3)]
    arrays += [np.cumsum(rng.integers(-9, 9, (40, 50)) * 10**k, axis=1) for k in (0, 5, 7, 3)]
    alone = [pack(a) for a in arrays]
    for values, back in zip(arrays, unpack_many(alone), strict=True):
        same(back, values)
    assert [data for data, _ in pack_decoded(arrays)] == alone


def test_the_same_array_gives_the_same_bytes(rng):
    values = smooth(rng, (70, 80), "uint8")
    assert pack(values) == pack(np.asfortranarray(values))
    big = values.astype(">i4")
    same(unpack(pack(big)), values.astype("i4"))


@pytest.mark.parametrize("shape", [(0,), (3, 0), (0, 2**20, 5)])
def test_empty_arrays_come_back(shape):
    same(unpack(pack(np.zeros(shape, np.float32))), np.zeros(shape, np.float32))


def test_what_cannot_be_packed_is_refused(rng):
    with pytest.raises(ValueError, match="dtype complex128"):
        pack(np.zeros(3, complex))
    with pytest.raises(ValueError, match="one to four axes"):
        pack(np.zeros((1,) * 5))
    with pytest.raises(ValueError, match="channel_axis"):
        pack(np.zeros((3, 4)), channel_axis=2)


ORACLE = {
    "rows": lambda r: smooth(r, (67, 9), "uint8"),
    "line": lambda r: smooth(r, (1030,), "int16"),
    "noise": lambda r: noise(r, (9, 40), "uint64"),
    "volume": lambda r: smooth(r, (17, 6, 18), "uint8"),
    "four axes": lambda r: smooth(r, (5, 3, 9, 12), "int32"),
    "float": lambda r: np.cumsum(r.normal(size=(20, 80)), axis=1),
    "gaps": lambda r: np.where(r.random((40, 40)) < 0.2, np.nan, smooth(r, (40, 40), "float32")),
    "lattice": lambda r: (0.1 * np.cumsum(r.integers(-9, 9, (30, 60)), axis=0)).astype("f4"),
    "few": lambda r: r.integers(0, 3, (5, 7)).astype(bool),
    "wide": lambda r: (np.cumsum(r.normal(size=(50, 40)), axis=0) * 1e12).astype(np.int64),
    "extremes": lambda r: (r.integers(0, 2, (40, 50)) * (2**31 - 1)).astype(np.uint32) // 7 * 3,
}


@pytest.mark.parametrize("name", ORACLE)
def test_a_decoder_written_from_the_page_reads_every_kind(name, rng):
    values = ORACLE[name](rng)
    same(oracle.unpack(pack(values)), values)


def by(way, monkeypatch):
    """From here on compiled loops are used, or not."""
    monkeypatch.setattr(running, "pays", lambda work: way == "compiled")


BOTH = {**{name: (make, None) for name, make in ORACLE.items()}}
BOTH |= {
    f"{shape} channels {axis}": (lambda r, s=shape: smooth(r, s, "int16"), axis)
    for shape, axis in [((66, 40, 3), -1), ((2, 70, 35), 0), ((9, 6, 12, 5), -1), ((2100, 9), 1)]
}
BOTH["whole numbers far apart"] = (lambda r: noise(r, (70, 33), "int32"), None)
BOTH["enough to learn"] = (lambda r: smooth(r, (130, 90), "float32"), None)


@pytest.mark.skipif(not running.installed(), reason="numba is not installed")
@pytest.mark.parametrize("name", BOTH)
def test_compiled_loops_write_and_read_the_same_bytes(name, rng, monkeypatch):
    make, axis = BOTH[name]
    values = make(rng)
    by("compiled", monkeypatch)
    data = pack(values, channel_axis=axis)
    same(unpack(data), values)
    by("numpy", monkeypatch)
    assert pack(values, channel_axis=axis) == data
    same(unpack(data), values)


SIZES = {
    "photograph": (lambda: skimage.data.camera()[100:356, 100:356], 31_488),
    "colours": (lambda: skimage.data.astronaut()[:128, 180:340], 28_968),
    "texture": (lambda: skimage.data.brick()[:200, :200], 13_708),
    "mask": (lambda: skimage.data.horse()[:, ::2], 452),
    "lattice": (lambda: (0.01 * np.rint(3e3 + 300 * waves())).astype("f4"), 10_824),
    "float32": (lambda: (280 + 9 * waves()).astype("f4"), 26_169),
    "float64": (lambda: waves()[:60], 48_183),
    "heights": (lambda: np.rint(1e3 * waves() + 40 * waves(7)).astype("i2"), 13_428),
    "volume": (lambda: np.rint(90 + 40 * waves(2, (12, 30, 40))).astype("u1"), 11_001),
}
"""Pictures, fields and their bytes when this was written."""


def waves(seed=1, shape=(100, 120)):
    """A rough surface: waves of every length, the longer the higher."""
    rng = np.random.default_rng(seed)
    axes = np.meshgrid(*(np.fft.fftfreq(n) for n in shape), indexing="ij")
    k = np.sqrt(sum(axis**2 for axis in axes))
    white = np.fft.fftn(rng.normal(size=shape))
    out = np.fft.ifftn(white / (0.01 + k) ** 2).real
    return out / out.std()


@pytest.mark.parametrize("name", SIZES)
def test_tiles_are_as_small_as_they_were(name):
    make, n = SIZES[name]
    values = make()
    data = pack(values, channel_axis=-1 if name == "colours" else None)
    assert len(data) == pytest.approx(n, rel=0.01)


@pytest.mark.parametrize("shape", [(40, 14, 3), (9, 10, 2), (5, 6, 12, 5), (70, 4)])
def test_a_decoder_written_from_the_page_reads_channels(shape, rng):
    values = np.cumsum(rng.integers(-2, 3, shape), axis=0).astype(np.int16)
    same(oracle.unpack(pack(values, channel_axis=-1)), values)


def damaged(data, rng, n):
    """Copies of bytes with something wrong."""
    for _ in range(n):
        hurt = bytearray(data)
        for _ in range(int(rng.integers(1, 4))):
            hurt[rng.integers(len(hurt))] ^= 1 << int(rng.integers(8))
        yield bytes(hurt)


HURT = {
    "picture": lambda r: smooth(r, (30, 20), "uint8"),
    "colours": lambda r: np.cumsum(r.integers(-2, 3, (30, 20, 3)), axis=0).astype(np.uint8),
    "gaps": lambda r: np.where(r.random((30, 30)) < 0.2, np.nan, smooth(r, (30, 30), "float32")),
    "lattice": lambda r: (0.1 * np.cumsum(r.integers(-9, 9, (40, 50)), axis=0)).astype("f4"),
    "float": lambda r: np.cumsum(r.normal(size=(20, 30)), axis=1),
    "mask": lambda r: smooth(r, (30, 40), "bool"),
}


@pytest.mark.parametrize("name", HURT)
def test_tiles_that_are_cut_off_raise(name, rng, way):
    values = HURT[name](rng)
    data = pack(values, channel_axis=-1 if name == "colours" else None)
    for n in [*range(min(len(data), 120)), *range(120, len(data), 37)]:
        with pytest.raises(StoreError):
            unpack(data[:n])


@pytest.mark.slow
@pytest.mark.parametrize("name", HURT)
def test_tiles_that_are_damaged_raise_or_give_an_array(name, rng, way):
    values = HURT[name](rng)
    told = 0
    for hurt in damaged(pack(values), rng, 40):
        try:
            back = unpack(hurt)
        except StoreError:
            told += 1
        else:
            assert back.size <= 1024 * len(hurt)
    assert told > 0


def test_a_tile_cannot_claim_more_than_its_bytes_justify():
    data = bytearray(pack(np.zeros((4, 4), np.uint8)))
    data[6:8] = b"\xff\xff\x7f\xff\xff\x7f"
    with pytest.raises(StoreError, match="claims shape"):
        unpack(bytes(data))


def test_other_bytes_and_later_versions_are_told(rng):
    data = pack(np.arange(9))
    with pytest.raises(StoreVersionError, match="newer elmfield"):
        unpack(data[:1] + b"\x02" + data[2:])
    with pytest.raises(StoreError, match="no tile"):
        unpack(b"\x89PNG" + data)
    with pytest.raises(StoreError, match="cut off"):
        unpack(b"")


def test_the_golden_tiles_still_open(request, way):
    """Made once and never again: what could be read must stay readable."""
    folder = request.path.parent / "golden"
    names = json.loads((folder / "expected.json").read_text())
    assert len(names) >= 6
    for name in names:
        values = np.load(folder / f"{name}.npy")
        same(unpack((folder / f"{name}.tile").read_bytes()), values)


@pytest.mark.slow
@pytest.mark.parametrize("number", [5, 20])
def test_photographs_are_smaller_than_png(data, number):
    from PIL import Image

    rgb = np.asarray(Image.open(data / "kodak" / f"kodim{number:02d}.png").convert("RGB"))
    grey = np.rint(rgb @ np.array([0.299, 0.587, 0.114])).astype(np.uint8)
    for picture, axis, part in ((grey, None, 0.95), (rgb, -1, 0.75)):
        png = io.BytesIO()
        Image.fromarray(picture).save(png, "PNG", optimize=True)
        packed = pack(picture, channel_axis=axis)
        same(unpack(packed), picture)
        assert len(packed) < part * len(png.getvalue())


@pytest.mark.thorough
def test_a_lattice_goes_through_zero_where_samples_do(rng):
    places = rng.integers(0, 250, (2, 40, 300)) * (rng.random((2, 40, 300)) < 0.5)
    for values in (places, places[:, ::-1], places[:, :, ::-1]):
        scaled = 6.4823527336120605 * values
        assert len(pack(scaled)) < 1.1 * len(pack(values.astype("uint8")))
        np.testing.assert_array_equal(unpack(pack(scaled)), scaled)


@pytest.mark.thorough
@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another C library keeps memory")
def test_memory_of_parts_is_used_again():
    """A fifth of the time went to fresh pages: 13 000 of them for this array."""
    code = """
        import resource, numpy as np
        from elmfield.codec import pack
        x = np.random.default_rng(0).integers(0, 9, (720, 1440)).cumsum(1).astype("f4")
        for _ in range(3):
            before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
            pack(x)
        print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
    """
    env = {"PYTHONPATH": ":".join(sys.path), "ELMFIELD_COMPILED": "0", "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, "-c", textwrap.dedent(code)]
    ran = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
    assert int(ran.stdout) < 1000
