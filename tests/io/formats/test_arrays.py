"""Bare arrays: NumPy's and MATLAB's files."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import elmfield as ef
from elmfield import read, write

RNG = np.random.default_rng(0)


def test_numpy_archives_bring_their_coordinates(tmp_path):
    values = RNG.random((5, 7))
    np.savez(tmp_path / "x.npz", u=values, y=np.arange(5) * 2.0, x=np.arange(7) + 1.0)
    samples = read(tmp_path / "x.npz")
    assert samples.dims == ("y", "x")
    assert_array_equal(samples.coords["x"], np.arange(7) + 1.0)
    write(samples, tmp_path / "y.npz")
    assert read(tmp_path / "y.npz").dims == ("y", "x")
    np.savez(tmp_path / "z.npz", a=values, b=values)
    with pytest.raises(ValueError, match=r"holds 2 arrays \(a \(5, 7\), b \(5, 7\)\); say which"):
        read(tmp_path / "z.npz")
    with pytest.raises(ValueError, match="has no array 'c'; it has a, b"):
        read(tmp_path / "z.npz", variable="c")


def test_lines_that_turn_back_are_no_coordinates(tmp_path):
    turns = np.array([0, 5, 3, 9, 7], np.uint8)  # whose differences, as such, are all above 0
    np.savez(tmp_path / "x.npz", u=RNG.random((5, 7)), y=turns, x=np.arange(7) + 1.0)
    assert not read(tmp_path / "x.npz").coords


@pytest.mark.parametrize("suffix", [".npz", ".mat"])
def test_what_is_written_is_read_with_its_coordinates(suffix, tmp_path):
    coords = {"y": np.arange(5) * 2.0, "x": np.arange(7) + 1.0}
    field = ef.fit(RNG.random((5, 7)), dims=("y", "x"), coords=coords)
    write(field, tmp_path / f"x{suffix}")
    back = read(tmp_path / f"x{suffix}")
    assert_array_equal(back.values, field.samples())
    assert back.dims == ("y", "x")
    for name, c in coords.items():
        assert_array_equal(back.coords[name], c)
    np.savez(tmp_path / "y.npz", y=coords["y"])
    assert read(tmp_path / "y.npz").shape == (5,)


def test_pickled_arrays_are_refused(tmp_path):
    np.save(tmp_path / "x.npy", np.asarray([{}], object), allow_pickle=True)
    with pytest.raises(ValueError, match="pickled objects, which are never loaded"):
        read(tmp_path / "x.npy")


def test_coils_are_channels(tmp_path):
    values = (RNG.random((6, 5, 1, 4)) + 1j * RNG.random((6, 5, 1, 4))).astype(np.complex64)
    (tmp_path / "x.hdr").write_text("# Dimensions\n6 5 1 4 1 1\n")
    (tmp_path / "x.cfl").write_bytes(values.tobytes(order="F"))
    samples = read(tmp_path / "x.cfl")
    assert samples.dims == ("readout", "phase1", "phase2")
    assert samples.channel_axis == 3
    assert samples.channel_name == "coil"
    assert_array_equal(samples.values, values)
    write(samples, tmp_path / "y.cfl")
    assert_array_equal(read(tmp_path / "y.cfl").values, values)


def test_parts_of_a_lazy_array_are_those_of_the_array(tmp_path):
    values = RNG.random((5, 6, 7))
    write(values, tmp_path / "x.npy")
    lazy = read(tmp_path / "x.npy", lazily=True).values
    for key in (2, (1, 2, 3), (-1, slice(None, None, -2)), (..., 3), (slice(4, 1, -1), 0), ()):
        assert_array_equal(np.asarray(lazy[key]), values[key])
    assert_array_equal(np.asarray(lazy[1:][0, 2:, -1]), values[1, 2:, -1])
    assert np.asarray(lazy[1, 2, 3], np.float32).dtype == np.float32
