"""The contract of sources of samples, over every kind of container; and how samples are read."""

import numpy as np
import pytest

import elmfield as ef
from elmfield.samples import read, source_of
from support import close, host, on_samples

VALUES = np.random.default_rng(4).standard_normal((14, 11))


def in_zarr(tmp_path):
    zarr = pytest.importorskip("zarr")
    made = zarr.create_array(tmp_path / "a.zarr", shape=VALUES.shape, chunks=(5, 4), dtype="f8")
    made[...] = VALUES
    return made


def in_hdf5(tmp_path):
    h5py = pytest.importorskip("h5py")
    return h5py.File(tmp_path / "a.h5", "w").create_dataset("a", data=VALUES)


def in_a_file(tmp_path):
    np.save(tmp_path / "a.npy", VALUES)
    return np.load(tmp_path / "a.npy", mmap_mode="r")


SOURCES = {
    "numpy": lambda _: VALUES,
    "list": lambda _: VALUES.tolist(),
    "memory map": in_a_file,
    "torch": lambda _: pytest.importorskip("torch").asarray(VALUES),
    "zarr": in_zarr,
    "hdf5": in_hdf5,
}


@pytest.fixture(params=SOURCES)
def given(request, tmp_path):
    return SOURCES[request.param](tmp_path)


class TestEverySource:
    def test_knows_its_shape_and_dtype(self, given):
        source = source_of(given)
        assert source.shape == (14, 11)
        assert str(source.dtype).endswith("float64")

    def test_is_read_whole_and_in_slabs(self, given):
        source = source_of(given)
        assert np.array_equal(host(source.read()), VALUES)
        slab = (slice(3, 9), slice(10, None))
        assert np.array_equal(host(source.read(slab)), VALUES[slab])

    def test_is_fitted(self, given):
        close(on_samples(ef.fit(given)), VALUES, 1e-12)


def test_samples_are_about_zero_and_of_order_one_and_come_back():
    values = 273.15 + 40 * np.random.default_rng(0).standard_normal((20, 30, 2))
    samples = read(values, shape=values.shape, channel_axis=2, centred=True)
    y = samples.values
    assert np.abs(y.mean(axis=(0, 1))).max() < 2**-15  # means are rounded
    assert 0.5 <= np.abs(y).max() <= 1.5
    close(y * samples.scale + samples.offset, values, 1e-12 * 400)
    assert np.array_equal(samples.standardise(samples.raw[3:5]), y[3:5])
    assert samples.data_range == np.ptp(values)


def test_what_is_missing_does_not_count():
    values = np.ones((9, 9))
    values[4, 4] = np.nan
    mask = np.zeros((9, 9), bool)
    mask[0, 0] = True
    samples = read(values, mask, shape=(9, 9), channel_axis=None, centred=True)
    assert int(np.count_nonzero(~samples.present)) == 2
    assert samples.offset == 1
    assert samples.data_range == 1.0


def test_a_complex_sample_is_two_channels_and_its_error_a_modulus():
    values = np.array([3 + 4j, 0, 1j])
    samples = read(values, shape=(3,), channel_axis=None, centred=False)
    assert samples.raw.shape == (3, 2)
    assert samples.n_channels == 1
    close(samples.moduli(samples.raw)[:, 0], [5, 0, 1], 1e-15)


def test_a_mask_of_nothing_changes_nothing():
    values = np.random.default_rng(0).integers(0, 99, (20, 30)).astype(np.int16)
    plain, masked = ef.fit(values), ef.fit(values, mask=np.zeros(values.shape, bool))
    assert masked.model.blended.source_samples is not None
    assert masked.samples().dtype == np.int16
    assert np.array_equal(plain([[3.3, 4.4]]), masked([[3.3, 4.4]]))
