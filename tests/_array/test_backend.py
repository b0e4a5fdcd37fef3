import sys
import types
import warnings

import numpy as np
import pytest

import elmfield as ef
from elmfield._array import backend
from support import close, host


def test_scatter_add_sums_repeated_indices(xp, rng):
    index, values = rng.integers(0, 5, 40), rng.standard_normal(40)
    expected = np.zeros(6)
    for i, v in zip(index, values):
        expected[i] += v
    close(backend.scatter_add(6, xp.asarray(index), xp.asarray(values)), expected, 1e-14)


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


class Unchangeable(np.lib.mixins.NDArrayOperatorsMixin):
    """What an array of JAX is like, where there is none."""

    def __init__(self, values):
        self.values = np.asarray(values)
        self.shape, self.dtype, self.ndim = self.values.shape, self.values.dtype, self.values.ndim

    def __array__(self, dtype=None, copy=None):
        return np.array(self.values, dtype)

    def __getitem__(self, at):
        return Unchangeable(self.values[at])

    def __setitem__(self, at, values):
        raise TypeError("JAX arrays are immutable")


@pytest.mark.parametrize("kind", ["jax", "a stand-in"])
def test_arrays_of_jax_are_read_as_numpy_arrays(kind, rng, monkeypatch):
    if kind == "jax":
        made = pytest.importorskip("jax.numpy").asarray
    else:
        module = types.ModuleType("jax")
        module.Array, made = Unchangeable, Unchangeable
        core = types.ModuleType("jax.core")
        core.Tracer = type("Tracer", (), {})
        monkeypatch.setitem(sys.modules, "jax", module)
        monkeypatch.setitem(sys.modules, "jax.core", core)
    values, x = rng.random((12, 10)).astype("float32"), rng.random((5, 2)).astype("float32") * 9
    there = made(values)
    field, plain = ef.fit(there, mask=made(values > 0.9)), ef.fit(values, mask=values > 0.9)
    for ask in ("__call__", "gradient", "hessian"):
        found = getattr(field, ask)(made(x))
        assert isinstance(found, np.ndarray)
        assert np.array_equal(found, getattr(plain, ask)(x))
    assert np.array_equal(ef.encoder((12, 10))(there).samples(), ef.fit(values).samples())
    scattered = ef.fit_points(made(x), made(x[:, 0]))
    assert np.array_equal(scattered(made(x)), ef.fit_points(x, x[:, 0])(x))


@pytest.mark.gpu
def test_to_device_moves_to_the_gpu():
    moved = backend.to_device(np.arange(3.0)[::-1], "cuda")
    assert str(backend.device(moved)).startswith("cuda")
    assert backend.to_numpy(moved).tolist() == [2, 1, 0]


@pytest.mark.parametrize("bound", [1, 200, 50_000, 70_000, 2**33])
def test_sorting_digit_by_digit_is_sorting(xp, bound, rng):
    key = rng.integers(0, bound, 500)
    key[::7] = key[3]
    order = backend.sort_order(xp.asarray(key), bound)
    assert np.array_equal(host(order), np.argsort(key, kind="stable"))
    if bound < 10**6:
        found = backend.count(xp.asarray(key), bound)
        assert np.array_equal(found, np.bincount(key, minlength=bound))


@pytest.mark.parametrize("C", [1, 3])
def test_rows_are_put_where_they_belong(xp, C, rng):
    rows, index = rng.standard_normal((4, C)), np.array([5, 0, 2, 3])
    out = backend.put_rows(xp.zeros((6, C), dtype=xp.float64), xp.asarray(index), xp.asarray(rows))
    expected = np.zeros((6, C))
    expected[index] = rows
    assert np.array_equal(host(out), expected)


def test_the_memory_of_an_array(xp):
    assert backend.n_bytes(xp.zeros((3, 5), dtype=xp.float64)) == 120


def test_the_memory_of_narrow_numbers():
    assert backend.n_bytes(np.zeros((3, 5), np.float32)) == 60


def test_a_device_that_is_not_there_is_named(rng):
    pytest.importorskip("torch")
    with pytest.raises(ValueError, match="`device` 'meta9' cannot be used here"):
        ef.fit(rng.random((8, 8)), device="meta9")


@pytest.mark.parametrize("name", [3.5, True, [1], "meta", "nonsense"], ids=repr)
def test_a_device_that_is_none(name):
    pytest.importorskip("torch")
    with pytest.raises(ValueError, match="`device`"):
        ef.fit(np.zeros((8, 8)), device=name)


def test_labels_are_looked_up_without_computing_values():
    class Lazy:
        dims, coords = ("y",), None

        @property
        def values(self):
            raise AssertionError("computed")

    assert backend.is_labelled(Lazy())
    assert not backend.is_labelled(np.eye(2))
