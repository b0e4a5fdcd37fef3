"""Tables as functions of JAX: the table's values, and its gradient by `jax.grad`."""

import numpy as np
import pytest

import elmfield as ef

jax = pytest.importorskip("jax")


def smooth_array(shape, rng):
    return sum(
        np.sin(rng.uniform(0.1, 0.6) * np.arange(n) + rng.uniform(0, 6)).reshape(
            [-1 if i == k else 1 for i in range(len(shape))]
        )
        for k, n in enumerate(shape)
    )


CASES = {
    "line": {"shape": (60,)},
    "plane": {"shape": (40, 30)},
    "volume": {"shape": (14, 12, 10)},
    "units": {"shape": (20, 30), "coords": [3.0 - 0.5 * np.arange(20), 100 + 2.0 * np.arange(30)]},
    "uneven": {"shape": (20, 30), "coords": [np.arange(20.0) ** 1.3, None]},
    "periodic": {"shape": (24, 32), "dims": ("y", "x"), "periodic": ("x",)},
    "colours": {"shape": (20, 30, 3), "channel_axis": -1},
    "complex": {"shape": (20, 30), "dtype": complex},
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("wide", [False, True])
def test_values_and_gradients_are_the_tables(case, wide, rng):
    options = dict(CASES[case])
    array = smooth_array(options.pop("shape"), rng).astype(options.pop("dtype", float))
    if array.dtype.kind == "c":
        array = array + 1j * array[::-1]
    field = ef.fit(array, ef.smooth(order=2), **options)
    table = field.tabulate(1e-8, 1)
    low, high = (
        np.asarray([getattr(a.coords, "min", lambda: 0.0)() for a in field.domain.axes]),
        np.asarray(
            [
                n - 1.0 if a.coords is None else a.coords.max()
                for a, n in zip(field.domain.axes, field.shape)
            ]
        ),
    )
    points = rng.uniform(low, high, (200, len(low)))
    with jax.enable_x64(wide):
        function = table.jax()
        points = np.asarray(jax.numpy.asarray(points), np.float64)  # as JAX rounds them
        span = field.model.data_range
        got = np.asarray(jax.jit(function)(points))
        assert np.abs(got - table(points)).max() <= 1e-6 * span
        assert np.abs(np.asarray(jax.vmap(function)(points)) - got).max() <= 1e-6 * span
        if array.dtype.kind == "c":
            return
        slopes = np.asarray(jax.vmap(jax.jacfwd(function))(points))
        assert np.abs(slopes - table.gradient(points)).max() <= 1e-5 * np.abs(slopes).max()
        if got.ndim == 1:
            reverse = np.asarray(jax.vmap(jax.grad(function))(points))
            assert np.abs(reverse - slopes).max() <= 1e-5 * np.abs(slopes).max()


def test_points_outside_go_to_the_border(rng):
    function = ef.fit(rng.standard_normal((9, 7))).tabulate().jax()
    np.testing.assert_allclose(function([[-5.0, 3.0]]), function([[-0.5, 3.0]]))
