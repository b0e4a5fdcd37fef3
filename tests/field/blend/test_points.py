"""Fields at many points: in batches, from tables, on threads, as at few."""

import tracemalloc

import numpy as np
import pytest

import elmfield as ef
import oracles
from elmfield._array import running
from elmfield.field.blend import points
from support import close, coefficients_of, inside


def test_points_may_have_any_leading_shape(rough, rng):
    x = inside(rng, rough.shape, 24)
    flat = rough(x)
    assert np.array_equal(rough(x.reshape(2, 3, 4, 2)), flat.reshape(2, 3, 4))
    assert rough(x[0]).shape == ()
    close(rough(x[0]), flat[0], 1e-13)
    assert rough.gradient(x.reshape(4, 6, 2)).shape == (4, 6, 2)
    close(rough(x[::-1])[::-1], flat, 1e-12)


def test_large_queries_in_batches_equal_small_ones(rough, rng):
    x = inside(rng, rough.shape, 500)
    expected, grid = rough(x), rough.resize((90, 80))
    plain = ef.paper(cell=8, width=16)
    values = rng.standard_normal((40, 40))
    with ef.memory_limit(1 << 16):  # 8192 numbers: every step in several batches
        close(rough(x), expected, 1e-12)
        close(rough.resize((90, 80)), grid, 1e-12)
        batched = ef.fit(values, plain)
        pieces = batched(x * 0.9), batched.resize((55, 30)), batched.integral((1, 1), (30, 30))
    whole = ef.fit(values, plain)
    for a, b in zip(
        pieces, (whole(x * 0.9), whole.resize((55, 30)), whole.integral((1, 1), (30, 30)))
    ):
        close(a, b, 1e-9)


MANY = [
    ((40, 45), {}, {}),
    ((40, 45, 2), {"channel_axis": -1}, {}),
    ((40, 45), {"periodic": (0, 1)}, {}),
    ((90,), {}, {}),
    ((14, 13, 12), {}, {"cell": 7}),
    ((40, 45), {}, {"cell": 16, "overlap": 0.5, "context": 0}),
    ((40, 45), {}, {"order": 3, "cell": 20, "per_region": 100}),
]


@pytest.mark.slow
@pytest.mark.parametrize(("shape", "options", "settings"), MANY)
def test_many_points_equal_few(shape, options, settings, rng):
    field = ef.fit(rng.standard_normal(shape), ef.smooth(**settings), **options)
    x = inside(rng, field.shape, 4 * field.partition.n_regions * 2200)
    some = rng.permutation(len(x))[:300]
    few = [ask(x[some]) for ask in (field, field.gradient, field.hessian)]
    for ask, expected, tolerance in zip(
        (field, field.gradient, field.hessian), few, (1e-12, 1e-11, 1e-9)
    ):
        close(ask(x)[some], expected, tolerance * field.model.data_range)


def test_a_region_is_its_cosines(rng):
    field = ef.fit(rng.standard_normal((30, 26)))
    (group,), (centre,) = field.model.blended.groups, field.model.blended.centres
    x = inside(rng, field.shape, 5000)
    R, S = (a(x[:, k] - centre[k]) for k, a in enumerate(group.model.axes))
    F = group.model.expand(coefficients_of(group))[0, ..., 0]
    expected = np.einsum("na,nb,ab->n", R, S, F)
    expected = field.model.offset + field.model.scale * expected
    close(field(x), expected, 1e-12 * field.model.data_range)
    close(field(x[:50]), expected[:50], 1e-12 * field.model.data_range)


def test_windows_that_reach_beyond_the_boxes_find_their_functions(rng):
    field = ef.fit(rng.standard_normal((40, 45)), ef.smooth(cell=8, overlap=0.5, context=0))
    x = inside(rng, field.shape, 300)
    expected = np.zeros(len(x))
    edges, labels = field.partition.edges, field.partition.labels
    phi = oracles.windows(x, edges, labels, field.partition.overlap, field.partition.periodic)
    (group,) = field.model.blended.groups
    for i, c in enumerate(group.model.expand(coefficients_of(group))[..., 0]):
        R, S = (
            a(x[:, k] - field.model.blended.centres[i, k]) for k, a in enumerate(group.model.axes)
        )
        expected += phi[:, i] * np.einsum("na,nb,ab->n", R, S, c)
    close(
        field(x), field.model.offset + field.model.scale * expected, 1e-12 * field.model.data_range
    )


def test_many_points_on_every_library_and_in_single_precision(xp, rng):
    values = rng.standard_normal((40, 45)).astype("float32")
    x = inside(rng, (40, 45), 20000)
    found = ef.fit(xp.asarray(values))(xp.asarray(x))
    assert found.dtype == xp.float32
    # Coefficients in single precision: sqrt(1600) roundings of numbers up to 40 or so.
    close(found, ef.fit(values.astype(float))(x), 1e-4)


def test_threads_do_not_change_a_digit(rng, monkeypatch):
    field = ef.fit(rng.standard_normal((70, 70)))
    x = inside(rng, field.shape, 40000)
    monkeypatch.setattr(points, "CACHE_NUMBERS", 1 << 16)
    one = field(x), field.gradient(x)
    monkeypatch.setattr(running, "n_threads", lambda: 3)
    three = field(x), field.gradient(x)
    for a, b in zip(one, three):
        np.testing.assert_array_equal(a, b)


def test_points_of_one_place_are_taken_in_parts(rng):
    """A million points in one region must not become one batch."""
    field = ef.fit(rng.standard_normal((64, 64)))
    x = np.full((200_000, 2), 20.3) + rng.uniform(0, 0.1, (200_000, 2))

    def peak(work):
        tracemalloc.start()
        work()
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return most / 2**20

    field(x)
    # 3 MiB of points, some 30 numbers each while they are sorted, batches of 8 MiB and their parts.
    assert peak(lambda: field(x)) < 3 + 200_000 * 30 * 8 / 2**20 + 4 * 8
