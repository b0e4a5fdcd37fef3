"""β: the printed sum, of arrays, of masks, of regions; and a bound below it."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import elmfield as ef
import oracles.beam as slow
from elmfield.partition.barron import Barron, Region, rounded, span, union

QUICK = settings(max_examples=25, deadline=None)


def close(a, b, rtol=1e-9):
    np.testing.assert_allclose(a, b, rtol=rtol, atol=1e-10)


@pytest.mark.parametrize("normalisation", ["forward", "ortho", "backward"])
@pytest.mark.parametrize("shape", [(7,), (8,), (4, 6), (5, 3), (3, 2, 4)])
def test_the_barron_norm_is_the_sum_over_the_printed_transform(shape, normalisation, rng):
    y = rng.standard_normal(shape)
    expected = slow.barron_norm(y, normalisation)
    close(ef.barron_norm(y, normalisation=normalisation), expected)


@pytest.mark.parametrize(("n", "k"), [(16, 3), (16, 8), (15, 7), (9, 1)])
def test_a_cosine_has_its_number_of_waves_times_its_amplitude(n, k):
    wave = 2.5 * np.cos(2 * np.pi * k * np.arange(n) / n)
    close(ef.barron_norm(wave), 2.5 * k)  # |F(k)| = |F(-k)| = a/2, or |F(n/2)| = a


def test_in_two_dimensions_waves_add_up_over_axes():
    x = np.arange(12) / 12
    y = np.cos(2 * np.pi * (2 * x[:, None] + 3 * x))
    close(ef.barron_norm(y), 5)
    close(ef.barron_norm(y, normalisation="backward"), 5 * 144)
    close(ef.barron_norm(y, normalisation="ortho"), 5 * 12)


def test_a_constant_has_no_energy_at_all():
    assert ef.barron_norm(np.full((15, 22), 273.15)) == 0


def test_constants_added_and_cyclic_shifts_change_nothing(rng):
    y = rng.standard_normal((9, 10))
    beta = ef.barron_norm(y)
    close(ef.barron_norm(y + 7), beta)
    close(ef.barron_norm(np.roll(y, (2, 3), (0, 1))), beta)
    close(ef.barron_norm(-3 * y), 3 * beta)


def test_channels_add_up_and_complex_parts_are_channels(rng):
    y = rng.standard_normal((8, 9, 3))
    apart = [ef.barron_norm(y[..., c]) for c in range(3)]
    close(ef.barron_norm(y, channel_axis=-1), sum(apart))
    close(ef.barron_norm(np.moveaxis(y, -1, 0), channel_axis=0), sum(apart))
    close(ef.barron_norm(y[..., 0] + 1j * y[..., 1]), apart[0] + apart[1])


def test_a_mask_is_the_box_around_what_counts_with_zeros(rng):
    y = rng.standard_normal((12, 14))
    out = np.ones(y.shape, bool)
    out[3:8, 2:9] = False
    out[3:5, 2:4] = True
    box = np.where(out, 0, y)[3:8, 2:9]
    expected = ef.barron_norm(box)
    close(ef.barron_norm(y, mask=out), expected)
    close(ef.barron_norm(np.where(out, np.nan, y)), expected)
    close(ef.barron_norm(np.ma.masked_array(y, out)), expected)
    mean = y[~out].mean()
    close(
        ef.barron_norm(y, mask=out, outside="mean"),
        ef.barron_norm(np.where(out, mean, y)[3:8, 2:9]),
    )


def test_with_the_mean_outside_a_constant_has_no_energy_on_any_shape():
    out = np.zeros((9, 9), bool)
    out[2:6, 3:] = True
    y = np.full((9, 9), 280.0)
    assert ef.barron_norm(y, mask=out) > 1
    assert ef.barron_norm(y, mask=out, outside="mean") == 0


@QUICK
@given(st.integers(0, 2**32 - 1), st.sampled_from(["zero", "mean"]), st.booleans(), st.booleans())
def test_energies_of_regions_are_those_of_their_masks(seed, outside, gaps, wraps):
    rng = np.random.default_rng(seed)
    shape = tuple(rng.integers(5, 12, 2))
    labels = np.unique(rng.integers(0, 4, (3, 3)), return_inverse=True)[1].reshape(3, 3)
    y = rng.standard_normal((*shape, 2))
    if gaps:
        y[rng.random(y.shape) < 0.4] = np.nan
        y[0, 0] = 1
    edges = tuple(np.array([0, n // 3, n // 2 + 1, n]) for n in shape)
    part = ef.Partition.of(shape, edges, labels, periodic=[1] if wraps else ())
    found = ef.barron_norm(y, partition=part, channel_axis=-1, outside=outside)
    where = np.repeat(np.repeat(labels, np.diff(edges[0]), 0), np.diff(edges[1]), 1)
    values = np.moveaxis(np.nan_to_num(y), -1, 0)
    missing = np.moveaxis(np.isnan(y), -1, 0)
    for i, beta in enumerate(found):
        expected = slow.region_energy(values, missing, where == i, (False, wraps), outside=outside)
        close(beta, expected, 1e-9)


@QUICK
@given(st.lists(st.booleans(), min_size=1, max_size=20))
def test_the_shortest_run_around_a_circle(marks):
    positions = [j for j, m in enumerate(marks) if m]
    bits = sum(1 << j for j in positions)
    if not positions:
        assert span(bits, len(marks)) == (0, 0)
        return
    assert span(bits, 0) == slow.shortest_run(positions, len(marks), False)
    start, length = span(bits, len(marks))
    assert length == slow.shortest_run(positions, len(marks), True)[1]
    assert {(start + j) % len(marks) for j in range(length)} >= set(positions)


@pytest.mark.parametrize("normalisation", ["forward", "ortho", "backward"])
@pytest.mark.parametrize("kind", ["noise", "smooth", "steps", "spike"])
def test_the_lower_bound_is_below(kind, normalisation, rng):
    x = np.linspace(0, 1, 96)
    y = {
        "noise": rng.standard_normal((96, 96)),
        "smooth": np.sin(7 * x)[:, None] * np.cos(40 * x**2),
        "steps": np.sign(np.sin(60 * x**2))[:, None] * np.ones(96),
        "spike": np.eye(96)[[40]] * np.eye(96)[:, [40]],
    }[kind]
    mesh = ef.Partition.regular(y.shape, 12)
    energy = Barron(y[None], None, mesh, normalisation=normalisation)
    cells = energy.cells()
    for _ in range(20):
        a, b = (_random_region(rng, cells) for _ in range(2))
        b = [c for c in b if c.first not in {c.first for c in a}]
        if b:
            a, b = _together(a), _together(b)
            assert energy.bound(a, b) <= energy([union(a, b)])[0]
    whole = _together(cells[:-1])
    assert energy.bound(whole, cells[-1]) > 0


def _random_region(rng, cells):
    return [cells[i] for i in np.unique(rng.integers(0, len(cells), rng.integers(1, 30)))]


def _together(cells) -> Region:
    whole = cells[0]
    for c in cells[1:]:
        whole = union(whole, c)
    return whole


@pytest.mark.parametrize(
    "function",
    [
        lambda y, m=None: ef.barron_norm(y, mask=m),
        lambda y, m=None: ef.beam(y, mask=m, cell=2, regions=1),
    ],
    ids=["barron_norm", "beam"],
)
def test_bad_samples(function):
    with pytest.raises(ValueError, match="all NaN or masked"):
        function(np.full((4, 4), np.nan))
    with pytest.raises(ValueError, match="all NaN or masked"):
        function(np.ones((4, 4)), np.ones((4, 4), bool))
    with pytest.raises(ValueError, match="must be finite; got infinities"):
        function(np.full((4, 4), np.inf))
    with pytest.raises(TypeError, match="must hold numbers"):
        function(np.full((4, 4), "a"))
    with pytest.raises(TypeError, match="`mask` must be boolean"):
        function(np.ones((4, 4)), np.ones((4, 4)))
    with pytest.raises(ValueError, match="`mask` must have the shape"):
        function(np.ones((4, 4)), np.ones((4, 3), bool))
    with pytest.raises(ValueError, match="at least one axis and one sample"):
        function(np.ones((0, 4)))


def test_a_partition_of_another_array_is_refused():
    with pytest.raises(ValueError, match="`partition` must be a Partition made for this array"):
        ef.barron_norm(np.ones((8, 8)), partition=ef.Partition.regular((8, 9), 4))


def test_energies_are_numbers_of_36_bits():
    beta = rounded(np.array([0.0, 1.0, math.pi, 1e300, 1e-300]))
    assert beta[0] == 0
    assert beta[1] == 1
    assert all(float(b * 2.0**36).is_integer() for b in np.frexp(beta)[0])
    close(beta[2:], [math.pi, 1e300, 1e-300], 1e-10)


def test_one_reading_of_input(xp, rng):
    y = rng.standard_normal((8, 9)).astype("float32")
    y[2, 3] = np.nan
    expected = ef.barron_norm(y.astype(float))
    assert ef.barron_norm(xp.asarray(y)) == expected
    assert ef.barron_norm(y.tolist()) == expected
    assert ef.barron_norm(y.astype(">f4")) == expected
    mask = np.isnan(y)
    y[2, 3] = np.inf  # what stands under a mask does not matter, as in a fit
    assert ef.barron_norm(y, mask=mask) == expected
