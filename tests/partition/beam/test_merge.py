import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import elmfield as ef
import oracles.beam as slow
from elmfield.partition.beam.barron import Energy, Region, rounded, samples_of, span, union
from elmfield.partition.beam.merge import Start, merge, search

QUICK = settings(max_examples=25, deadline=None)


def close(a, b, rtol=1e-9):
    np.testing.assert_allclose(a, b, rtol=rtol, atol=1e-10)


# --- the energy ---------------------------------------------------------------------------------


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
    close(ef.barron_norm(y, out), expected)
    close(ef.barron_norm(np.where(out, np.nan, y)), expected)
    close(ef.barron_norm(np.ma.masked_array(y, out)), expected)
    mean = y[~out].mean()
    close(ef.barron_norm(y, out, outside="mean"), ef.barron_norm(np.where(out, mean, y)[3:8, 2:9]))


def test_with_the_mean_outside_a_constant_has_no_energy_on_any_shape():
    out = np.zeros((9, 9), bool)
    out[2:6, 3:] = True
    y = np.full((9, 9), 280.0)
    assert ef.barron_norm(y, out) > 1
    assert ef.barron_norm(y, out, outside="mean") == 0


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
    energy = Energy(y[None], None, ef.Partition.regular(y.shape, 12), normalisation)
    cells = energy.cells()
    for _ in range(20):
        a, b = (_random_region(rng, cells) for _ in range(2))
        b = [c for c in b if c.first not in {c.first for c in a}]
        if b:
            a, b = _together(a), _together(b)
            assert energy.at_least(a, b) <= energy([union(a, b)])[0]
    whole = _together(cells[:-1])
    if kind != "spike":
        assert energy.at_least(whole, cells[-1]) > 0


def _random_region(rng, cells):
    return [cells[i] for i in np.unique(rng.integers(0, len(cells), rng.integers(1, 30)))]


def _together(cells) -> Region:
    whole = cells[0]
    for c in cells[1:]:
        whole = union(whole, c)
    return whole


# --- Algorithm 1 --------------------------------------------------------------------------------


def start_of(values, cell, periodic=(), boxes=False, **energy):
    y, present = samples_of(values, None, None)
    mesh = ef.Partition.regular(values.shape, cell, periodic=periodic)
    return Start.of(Energy(y, present, mesh, **energy), boxes), mesh, (y, present)


def compare(values, cell, quantile, stop=1, periodic=(), boxes=False, **energy):
    """Both ways, merge by merge."""
    start, mesh, (y, present) = start_of(values, cell, periodic, boxes, **energy)
    missing = np.zeros(y.shape, bool) if present is None else ~present
    betas = sorted(start.known[c.key] for c in start.cells)
    tau = betas[int(quantile * (len(betas) - 1))] * (1 + 2 * quantile) + 1e-9
    merges, regions, beta = slow.algorithm_1(
        y, missing, mesh.edges, tau, periodic=mesh.periodic, stop=stop, boxes=boxes, **energy
    )
    found = merge(start, tau, stop)
    cells = list(np.ndindex(mesh.n_cells))

    def as_set(region):
        return frozenset(cells[i] for i in region.cells)

    assert [(as_set(a), as_set(b)) for a, b in found.pairs] == merges
    assert found.n_regions == len(regions)
    labels = start.labels(found.pairs)
    assert {frozenset(c for c in cells if labels[c] == i) for i in range(labels.max() + 1)} == set(
        regions
    )
    return tau, regions, beta


@settings(max_examples=30, deadline=None)
@given(
    st.integers(0, 2**32 - 1),
    st.floats(0.1, 1),
    st.sampled_from(["noise", "smooth", "steps", "blocks"]),
    st.sampled_from(["forward", "ortho", "backward"]),
    st.sampled_from(["zero", "mean"]),
    st.booleans(),
    st.booleans(),
)
def test_the_same_merges_as_the_printed_algorithm(
    seed, quantile, kind, normalisation, outside, boxes, wraps
):
    rng = np.random.default_rng(seed)
    shape = tuple(int(n) for n in rng.integers(8, 18, 2))  # cells of 3 rarely divide these
    values = rng.standard_normal(shape)
    x, z = (np.linspace(0, 1, n) for n in shape)
    if kind == "smooth":
        values = np.sin(9 * x**3)[:, None] * np.sin(3 * z) + 0.01 * values
    elif kind == "steps":  # few values: many equal energies
        values = np.round(values / 2)
    elif kind == "blocks":  # constants on boxes: energies that are 0 on paper
        values = np.kron(rng.integers(0, 2, (6, 6)), np.ones((3, 3)))[: shape[0], : shape[1]]
    options = {"normalisation": normalisation, "outside": outside}
    compare(values, 3, quantile, periodic=(1,) if wraps else (), boxes=boxes, **options)


@pytest.mark.parametrize("shape", [(40,), (9, 8, 7)])
def test_the_same_merges_in_other_dimensions(shape, rng):
    values = np.cumsum(rng.standard_normal(shape), axis=0)
    compare(values, 3, 0.7)


def test_the_same_merges_with_missing_samples(rng):
    values = rng.standard_normal((14, 13))
    values[rng.random(values.shape) < 0.3] = np.nan
    values[:4, :8] = np.nan  # whole cells without a sample
    compare(values, 3, 0.8, periodic=(0,))


def test_ties_go_to_the_first_region():
    wave = np.sin(np.add.outer(np.arange(4), np.arange(4)))  # symmetric, so that pairs tie too
    wave = np.tile(wave, (3, 3))
    tau, _, _ = compare(wave, 4, 1.0)
    start, _, _ = start_of(wave, 4)
    (a, b), *_ = merge(start, tau).pairs
    assert (a.first, b.first) == (0, 1)


def test_stopping_early_stops_the_same_way(rng):
    values = rng.standard_normal((15, 15))
    for stop in (20, 12, 5):
        compare(values, 3, 1.0, stop=stop)


@QUICK
@given(
    st.integers(0, 2**32 - 1),
    st.floats(0.05, 3),
    st.booleans(),
    st.sampled_from([(), (0,), (1,), (0, 1)]),
)
def test_what_holds_for_every_partition(seed, factor, boxes, periodic):
    rng = np.random.default_rng(seed)
    shape = tuple(int(n) for n in rng.integers(10, 40, 2))
    values = np.cumsum(rng.standard_normal(shape), axis=int(rng.integers(2)))
    if rng.random() < 0.3:
        values[rng.random(shape) < 0.2] = np.nan
    shapes = "boxes" if boxes else "any"
    mesh = ef.Partition.regular(shape, 4, periodic=periodic)
    cells = ef.barron_norm(values, partition=mesh)
    tau = float(np.median(cells)) * factor + 1e-6
    part = ef.beam(values, cell=4, threshold=tau, shapes=shapes, periodic=periodic)
    again = ef.beam(values, cell=4, threshold=tau, shapes=shapes, periodic=periodic)
    assert np.array_equal(part.labels, again.labels)
    assert part.labels.shape == mesh.labels.shape
    assert [np.flatnonzero(part.labels.ravel() == i)[0] for i in range(part.n_regions)] == sorted(
        np.unique(part.labels.ravel(), return_index=True)[1]
    )
    beta = ef.barron_norm(values, partition=part)
    for i in range(part.n_regions):
        own = part.labels == i
        assert connected(own, periodic)
        assert own.sum() == 1 or beta[i] <= tau
        if boxes:
            assert own.sum() == math.prod(own.any(axis=k).sum() for k in (0, 1))
    for i, j in touching(part.labels, periodic):
        both = np.unique(np.where(part.labels == j, i, part.labels), return_inverse=True)[1]
        both = both.reshape(part.labels.shape)
        merged = part.changed(labels=both)
        own = both == both[part.labels == i][0]
        is_box = own.sum() == math.prod(own.any(axis=k).sum() for k in (0, 1))
        energy = ef.barron_norm(values, partition=merged)[both[part.labels == i][0]]
        admissible = min(beta[i], beta[j]) < tau and energy <= tau and (is_box or not boxes)
        assert not admissible


def connected(own, periodic):
    cells = {tuple(map(int, c)) for c in np.argwhere(own)}
    seen, todo = set(), [min(cells)]
    while todo:
        cell = todo.pop()
        if cell in seen:
            continue
        seen.add(cell)
        todo += [n for n in faces(cell, own.shape, periodic) if n in cells]
    return seen == cells


def faces(cell, shape, periodic):
    for k in range(len(shape)):
        for step in (-1, 1):
            other = list(cell)
            other[k] += step
            if k in periodic:
                other[k] %= shape[k]
            yield tuple(other)


def touching(labels, periodic):
    pairs = set()
    for cell in np.ndindex(labels.shape):
        for other in faces(cell, labels.shape, periodic):
            if all(0 <= o < n for o, n in zip(other, labels.shape)):
                pairs.add(tuple(sorted((int(labels[cell]), int(labels[other])))))
    return {(i, j) for i, j in pairs if i != j}


# --- a number of regions ------------------------------------------------------------------------


@QUICK
@given(st.integers(0, 2**32 - 1), st.sampled_from(["noise", "constant", "half"]))
def test_exactly_so_many_regions_as_asked_for(seed, kind):
    rng = np.random.default_rng(seed)
    values = rng.standard_normal((20, 23))
    if kind == "constant":
        values[:] = 5.0
    elif kind == "half":
        values[:, :12] = 0.0
    n = ef.Partition.regular(values.shape, 4).n_regions
    for regions in {1, 2, int(rng.integers(1, n + 1)), n - 1, n}:
        part = ef.beam(values, cell=4, regions=regions)
        assert part.n_regions == regions
        assert all(connected(part.labels == i, ()) for i in range(regions))


def test_the_search_finds_a_threshold_where_there_is_one(rng):
    values = np.cumsum(rng.standard_normal((48, 48)), axis=0)
    start, _, _ = start_of(values, 4)
    for tau in (3.0, 10.0, 30.0):
        there = merge(start, tau)
        found = search(start, there.n_regions)
        assert found.n_regions == there.n_regions
        assert found.next_energy < math.inf  # it ended by itself: nothing below τ was left


def test_a_large_dark_part_does_not_change_the_result(rng, monkeypatch):
    values = rng.random((72, 72)) * np.linspace(0, 1, 72) ** 2
    values[:, :40] = 0
    import sys

    module = sys.modules["elmfield.partition.beam.merge"]
    bounded = ef.beam(values, cell=4, regions=60)
    monkeypatch.setattr(module, "LARGE", 10**9)  # transform every box
    assert np.array_equal(bounded.labels, ef.beam(values, cell=4, regions=60).labels)


def test_looking_ahead_does_not_change_the_result(rng, monkeypatch):
    import sys

    values = rng.random((40, 40))
    part = ef.beam(values, cell=4, regions=30)
    monkeypatch.setattr(sys.modules["elmfield.partition.beam.merge"], "LOOKAHEAD", 0)
    monkeypatch.setattr(sys.modules["elmfield.partition.beam.barron"], "BATCH", 1)
    assert np.array_equal(part.labels, ef.beam(values, cell=4, regions=30).labels)


def test_smooth_parts_make_large_regions():
    x = np.linspace(0, 1, 128)
    values = np.sin(8 * np.pi * x**3)[:, None] * np.sin(np.pi * x)
    part = ef.beam(values, cell=8, regions=64)
    cells = np.bincount(part.labels.ravel())
    assert cells[part.labels[0]].mean() > 3 * cells[part.labels[-1]].mean()
    mesh = ef.Partition.regular(values.shape, 16)
    assert mesh.n_regions == part.n_regions
    even, found = (ef.barron_norm(values, partition=p) for p in (mesh, part))
    assert found.std() / found.mean() < 0.75 * even.std() / even.mean()
    assert found.max() < even.max()


def test_a_region_may_go_around_a_periodic_axis():
    x = np.arange(48) / 48
    values = np.sin(2 * np.pi * x) * np.ones((16, 1))
    values[:, 20:28] += np.where(np.indices((16, 8)).sum(0) % 2, 1.0, -1.0)
    part = ef.beam(values, cell=8, regions=4, periodic=(1,))
    assert part.periodic == (False, True)
    around = [i for i in range(4) if {0, 5} <= set(np.nonzero(part.labels == i)[1])]
    assert around
    assert not any(
        {0, 5} <= set(np.nonzero((part.labels == i) & (part.labels != part.labels[0, 2]))[1])
        for i in range(4)
        if i not in around
    )


# --- bad input ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"cell": 40, "regions": 2}, r"`cell` must not be larger than the array; got cell=40 on "),
        ({"cell": (4, 33), "regions": 2}, r"got cell=33 on axis 1 with 32 samples"),
        ({"cell": 4, "threshold": 0}, r"`threshold` must be a positive number; got 0"),
        ({"cell": 4, "threshold": -1.0}, r"`threshold` must be a positive number; got -1"),
        ({"cell": 4, "threshold": math.nan}, r"`threshold` must be a positive number; got nan"),
        ({"cell": 8, "regions": 17}, r"between 1 and the number of cells, 16 .*got 17"),
        ({"cell": 8, "regions": 0}, r"between 1 and the number of cells, 16 .*got 0"),
        ({"cell": 8, "regions": 2.5}, r"`regions` must be a whole number; got 2.5"),
        ({"cell": 8}, r"either `threshold` or `regions`; got neither"),
        ({"cell": 8, "regions": 2, "threshold": 1.0}, r"`threshold` or `regions`; got both"),
        ({"cell": 0, "regions": 2}, r"`cell` must be a whole number of samples"),
        ({"cell": 8, "regions": 2, "shapes": "round"}, r"`shapes` must be one of .*'round'"),
        ({"cell": 8, "regions": 2, "normalisation": "n"}, r"`normalisation` must be one of"),
        ({"cell": 8, "regions": 2, "outside": "n"}, r"`outside` must be one of"),
        ({"cell": 8, "regions": 2, "periodic": (2,)}, r"`periodic` must hold numbers of axes"),
        ({"cell": 8, "regions": 2, "periodic": (True, False)}, r"`periodic` must hold numbers"),
        ({"cell": 8, "regions": 2, "channel_axis": 3}, r"`channel_axis` must be an axis"),
        ({"cell": 8, "regions": 2, "overlap": 5}, r"`overlap` must lie between 0 and half a cell"),
    ],
)
def test_bad_options(options, message):
    with pytest.raises(ValueError, match=message):
        ef.beam(np.zeros((32, 32)), **options)


@pytest.mark.parametrize(
    "function", [ef.barron_norm, lambda y, m=None: ef.beam(y, m, cell=2, regions=1)]
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
    with pytest.raises(ValueError, match="`partition` must be made for this array"):
        ef.barron_norm(np.ones((8, 8)), partition=ef.Partition.regular((8, 9), 4))


def test_boxes_may_come_to_an_end_before_the_number():
    pinwheel = np.array([[0, 0, 1], [2, 3, 1], [2, 4, 4]])
    values = np.array([1.0, 3.0, 5.0, 7.0, 9.0])[pinwheel].repeat(2, 0).repeat(2, 1)
    values[2, 2] += 0.1  # the middle has its turn after the arms, which then fit no box with it
    with pytest.raises(ValueError, match=r"merging boxes .* end at \d+ regions; .*shapes='any'"):
        ef.beam(values, cell=2, regions=2, shapes="boxes")


def test_energies_are_numbers_of_36_bits():
    beta = rounded(np.array([0.0, 1.0, math.pi, 1e300, 1e-300]))
    assert beta[0] == 0
    assert beta[1] == 1
    assert all(float(b * 2.0**36).is_integer() for b in np.frexp(beta)[0])
    close(beta[2:], [math.pi, 1e300, 1e-300], 1e-10)
