"""Our codec in other people's Zarr arrays."""

import json
import subprocess
import sys
import textwrap
import tomllib

import numpy as np
import pytest
from hypothesis import given

import elmfield as ef
from robust.conftest import PROFILE
from support import ROOT, SEEDS

zarr = pytest.importorskip("zarr")
from elmfield.io.zarr import Codec, NumcodecsCodec  # noqa: E402
from robust import zarr_arrays  # noqa: E402


def rough(shape, seed=0):
    y = np.random.default_rng(seed).standard_normal(shape)
    for k in range(y.ndim):
        y = y.cumsum(axis=k)
    return y


def written(values, codec, store=None, **options):
    return zarr.create_array(
        {} if store is None else store, data=values, serializer=codec, compressors=None, **options
    )


@pytest.mark.parametrize(
    ("dtype", "shape"),
    [
        *((t, (30, 40)) for t in ("uint8", "int8", "uint16", "int16", "uint32", "int32")),
        *((t, n) for t in ("float32", "float64") for n in ((1000,), (30, 40), (6, 3, 8, 5))),
        *(("int16", n) for n in ((1000,), (9, 21, 12), (6, 3, 8, 5))),
    ],
    ids=str,
)
def test_without_loss_arrays_come_back_bit_for_bit(dtype, shape):
    values = (50 * rough(shape)).astype(dtype)
    array = written(values, Codec(), chunks=tuple(max(1, n // 2 + 1) for n in shape))
    assert np.array_equal(array[...], values)
    assert array.dtype == values.dtype


@pytest.mark.thorough
@PROFILE
@given(seed=SEEDS)
def test_any_array_comes_back_as_zarrs_own_serializer_gives_it(seed):
    assert zarr_arrays.attempt(seed) in ("the same", "refused")


@pytest.mark.parametrize("dtype", [">f4", ">i2", ">u8", ">c16"])
def test_big_endian_arrays_come_back(dtype):
    values = (50 * rough((20, 30))).astype("int8").astype(dtype)
    array = written(values, Codec(), chunks=(7, 30))
    assert np.array_equal(array[...], values)
    assert array.dtype == values.dtype


@pytest.mark.parametrize("dtype", ["?", "u1", ">i4", "f2", "f8", "c8"])
def test_arrays_without_axes_come_back(dtype):
    array = written(np.asarray(1, dtype), Codec(max_error=0.5))
    assert array[...] == 1
    assert array.shape == ()


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize("channel_axis", [None, 0])
def test_complex_numbers_are_coded_as_two_planes(dtype, channel_axis):
    values = (rough((3, 40, 50)) + 1j * rough((3, 40, 50), 1)).astype(dtype)
    values[0, 3, 4], values[1, 5, 6], values[2, 7, 8] = complex("nan"), complex("infj"), -0.0
    options = {"chunks": (3, 40, 29), "fill_value": 0}
    exact = written(values, Codec(channel_axis=channel_axis), **options)
    assert np.asarray(exact[:]).tobytes() == values.tobytes()
    values = np.nan_to_num(values, posinf=0)
    near = written(values, Codec(max_error=0.3, channel_axis=channel_axis), **options)
    off = np.abs(near[:] - values)
    assert 0.2 < off.max() <= 0.3
    assert near.nbytes_stored() < 0.4 * exact.nbytes_stored()
    psnr = written(values, Codec(psnr=50, channel_axis=channel_axis), chunks=values.shape)
    assert 50 <= ef.psnr(values, psnr[:]) < 51


@pytest.mark.parametrize("dtype", ["float32", "float64", "int16"])
def test_an_error_is_never_exceeded(dtype):
    values = (280 + 30 * rough((90, 60))).astype(dtype)
    array = written(values, Codec(max_error=2.5), chunks=(50, 60))
    assert np.abs(array[:].astype(float) - values).max() <= 2.5
    exact = written(values, Codec(), chunks=(50, 60))
    assert array.nbytes_stored() < 0.95 * exact.nbytes_stored()


@pytest.mark.parametrize("dtype", ["float32", "uint8"])
def test_a_psnr_is_reached_in_every_chunk(dtype):
    values = rough((128, 48))
    values = (255 * (values - values.min()) / np.ptp(values)).astype(dtype)
    array = written(values, Codec(psnr=35), chunks=(64, 48))
    for i in (0, 64):
        part = np.s_[i : i + 64]
        truth = values[part].astype(float)
        assert 35 <= ef.psnr(truth, array[part].astype(float)) < 37


@pytest.mark.thorough
def test_gaps_come_back_as_gaps():
    values = np.where(rough((60, 50), 3) > 0, rough((60, 50)), np.nan).astype("float32")
    for codec in (Codec(), Codec(max_error=0.1), Codec(psnr=40)):
        array = written(values, codec, chunks=(33, 50), fill_value=np.nan)
        back = array[:]
        assert np.array_equal(np.isnan(back), np.isnan(values))
        assert np.nanmax(np.abs(back - values)) <= (0.1 if codec.max_error else 10)


def test_inside_shards(tmp_path):
    values = rough((40, 50)).astype("float32")
    array = written(
        values, Codec(max_error=0.01), tmp_path / "a.zarr", chunks=(20, 25), shards=(40, 25)
    )
    again = zarr.open_array(tmp_path / "a.zarr", mode="r")
    assert np.abs(again[13:27, 20:49] - values[13:27, 20:49]).max() <= 0.01
    assert np.array_equal(again[:], array[:])


def test_channels_are_told_apart():
    values = np.stack([rough((60, 50)), 3 * rough((60, 50)), 40 + rough((60, 50), 2)])
    for axis in (0, -3):
        array = written(values, Codec(max_error=0.5, channel_axis=axis), chunks=(3, 60, 29))
        assert np.abs(array[:] - values).max() <= 0.5


def test_xarray_writes_and_reads_it(tmp_path):
    xr = pytest.importorskip("xarray")
    t2m = xr.DataArray(
        (280 + rough((45, 90))).astype("float32"),
        dims=("latitude", "longitude"),
        coords={"latitude": 90 - 4.0 * np.arange(45), "longitude": 4.0 * np.arange(90)},
        attrs={"units": "K"},
    )
    t2m[3:9, 7:20] = np.nan
    encoding = {"t2m": {"serializer": Codec(max_error=0.01), "compressors": None}}
    t2m.to_dataset(name="t2m").to_zarr(tmp_path / "a.zarr", encoding=encoding, zarr_format=3,
                                       consolidated=False)  # fmt: skip
    back = xr.open_zarr(tmp_path / "a.zarr", consolidated=False).t2m
    assert np.array_equal(np.isnan(back), np.isnan(t2m))
    assert float(np.abs(back - t2m).max()) <= 0.01
    assert back.attrs["units"] == "K"
    about = json.loads((tmp_path / "a.zarr" / "t2m" / "zarr.json").read_text())
    assert about["codecs"][0] == {"name": "elmfield", "configuration": {"max_error": 0.01}}


def test_a_models_samples_are_an_array_of_zarr(tmp_path):
    values = (255 * np.random.default_rng(0).random((70, 61, 3))).astype("uint8")
    ef.save(ef.fit(values, channel_axis=-1), tmp_path / "x.elm.zarr")
    assert np.array_equal(zarr.open_group(tmp_path / "x.elm.zarr", mode="r")["samples"][:], values)


@pytest.mark.thorough
def test_tiles_smaller_than_their_chunk_are_filled_up(tmp_path, monkeypatch):
    monkeypatch.setattr("elmfield.field.coefficients.tiles.TILE_BYTES", 1 << 13)
    values = rough((70, 61))
    values[5:20, 30:] = np.nan
    ef.save(ef.fit(values), tmp_path / "x.elm.zarr")
    group = zarr.open_group(tmp_path / "x.elm.zarr", mode="r")
    have = ~np.isnan(values)
    assert np.prod(group["samples"].cdata_shape) > 3
    assert np.array_equal(group["samples"][:][have], values[have])
    assert np.array_equal(group["missing"][:] != 0, ~have)


def test_zarr_finds_it_by_its_entry_point():
    points = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]
    for group, codec in {"zarr.codecs": Codec, "numcodecs.codecs": NumcodecsCodec}.items():
        assert points[group] == {"elmfield": f"{codec.__module__}:{codec.__name__}"}


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("channel_axis", [None, 0])
def test_zarr_2_takes_it_as_a_compressor(tmp_path, order, channel_axis):
    values = rough((3, 40, 50)).astype("float32")
    codec = NumcodecsCodec(max_error=0.01, channel_axis=channel_axis)
    options = {"zarr_format": 2, "chunks": (3, 20, 25), "order": order, "compressors": codec}
    array = zarr.create_array(tmp_path / "a.zarr", data=values, **options)
    about = json.loads((tmp_path / "a.zarr" / ".zarray").read_text())
    assert about["compressor"] == codec.get_config()
    again = zarr.open_array(tmp_path / "a.zarr", mode="r")[:]
    assert 0 < np.abs(again - values).max() <= 0.01
    assert array.nbytes_stored() < 0.5 * values.nbytes


def test_dates_and_plain_buffers_are_never_lossy():
    codec = NumcodecsCodec(max_error=1e6)
    dates = np.arange("2020-01", "2020-09", dtype="M8[D]")
    assert np.array_equal(codec.decode(codec.encode(dates)).view(dates.dtype), dates)
    raw = np.random.default_rng(0).bytes(999)
    assert codec.decode(codec.encode(raw)).tobytes() == raw


@pytest.mark.parametrize(
    "head",
    [b"", b"{}", b"[1]", b'["<f4", 3, [9]]', b'["<f4", "a", [9]]', b'["<x4", null, [9]]',
     b'["<f8", null, [8]]', b'["<f8", null, [99999999999]]', b'["<f8", null, [-3, -3]]',
     b'["<f8", null, 9]', b'["<f8", null, ["9"]]', b'["<f8", 0, [9, -1]]'],
)  # fmt: skip
def test_a_damaged_head_is_a_store_error(head):
    data = NumcodecsCodec().encode(np.arange(9.0)).partition(b"\n")[2]
    with pytest.raises(ef.StoreError, match="coded chunk"):
        NumcodecsCodec().decode(head + b"\n" + data)


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"max_error": 0}, "`max_error` must be a positive number; got 0"),
        ({"psnr": float("nan")}, "`psnr` must be a positive number"),
        ({"psnr": 30, "max_error": 1}, "only one of max_error, psnr can be asked for"),
    ],
)
def test_what_cannot_be_asked(asked, message):
    with pytest.raises(ValueError, match=message):
        Codec(**asked)


def test_what_cannot_be_coded():
    for more in ({}, {"chunks": (2, 2), "shards": (4, 4)}):
        with pytest.raises(TypeError, match=r"takes bools, .* got datetime64\[s\]. Store dates as"):
            zarr.create_array({}, shape=(4, 4), dtype="M8[s]", serializer=Codec(), **more)
    with pytest.raises(ValueError, match="`channel_axis` must be a whole number; got 'band'"):
        Codec(channel_axis="band")
    with pytest.raises(ValueError, match="`channel_axis` must be an axis of the array's 2; got 2"):
        written(np.ones((4, 4)), Codec(channel_axis=2))
    with pytest.raises(ValueError, match="perhaps written by a newer elmfield"):
        Codec.from_dict({"name": "elmfield", "configuration": {"magic": 3}})
    with pytest.raises(ValueError, match="perhaps written by a newer elmfield"):
        NumcodecsCodec.from_config({"magic": 3})
    with pytest.raises(ValueError, match="`channel_axis` must be an axis of the array's 1; got 1"):
        NumcodecsCodec(channel_axis=1).encode(np.ones(4))


def test_a_damaged_chunk_is_a_store_error(tmp_path):
    written(rough((50, 50)), Codec(), tmp_path / "a.zarr", chunks=(50, 50))
    chunk = tmp_path / "a.zarr" / "c" / "0" / "0"
    data = chunk.read_bytes()
    chunk.write_bytes(data[: len(data) // 2])
    with pytest.raises(ef.StoreError):
        zarr.open_array(tmp_path / "a.zarr", mode="r")[:]


def test_the_library_does_not_import_zarr():
    script = "import sys, elmfield, elmfield.io.model.save; print('zarr' in sys.modules)"
    ran = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, timeout=60
    )
    assert ran.stdout.strip() == "False", ran.stderr
