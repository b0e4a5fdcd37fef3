import warnings

import numpy as np
import pytest

from elmfield import backend
from support import close, host


def test_solve_triangular_agrees_with_a_general_solve(xp, rng):
    R = np.triu(rng.standard_normal((6, 6))) + 4 * np.eye(6)
    B = rng.standard_normal((6, 3))
    found = backend.solve_triangular(xp.asarray(R), xp.asarray(B))
    close(found, np.linalg.solve(R, B), 1e-14)


def test_scatter_add_sums_repeated_indices(xp, rng):
    index, values = rng.integers(0, 5, 40), rng.standard_normal(40)
    expected = np.zeros(6)
    for i, v in zip(index, values):
        expected[i] += v
    close(backend.scatter_add(6, xp.asarray(index), xp.asarray(values)), expected, 1e-14)


def test_put_places_values(xp):
    found = backend.put(5, xp.asarray([3, 0]), xp.asarray([2.0, 7.0]))
    assert host(found).tolist() == [7, 0, 0, 2, 0]


def test_move_takes_any_layout_and_says_nothing(xp):
    like = xp.asarray(np.zeros(1))
    frozen = np.arange(6.0)
    frozen.setflags(write=False)
    views = [np.arange(6.0)[::-1], np.arange(12.0)[::2], np.broadcast_to(2.0, (3, 2)), frozen]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for x in views:
            moved = backend.move(x, like)
            assert backend.namespace(moved) is backend.namespace(like)
            assert np.array_equal(host(moved), x)


def test_to_device_leaves_numpy_alone_on_the_host():
    x = np.zeros(3)
    assert backend.to_device(x, "cpu") is x


def test_what_is_an_array(xp):
    assert backend.is_array(xp.asarray([1.0]))
    assert not backend.is_array([1.0])
    assert not backend.is_array(1.0)


@pytest.mark.gpu
def test_to_device_moves_to_the_gpu():
    moved = backend.to_device(np.arange(3.0)[::-1], "cuda")
    assert str(backend.device(moved)).startswith("cuda")
    assert backend.to_numpy(moved).tolist() == [2, 1, 0]
