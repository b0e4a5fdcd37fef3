"""Algorithm 1: the printed one, merge by merge, and what holds for every partition."""

import math
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import elmfield as ef
import oracles.beam as slow
from elmfield.partition.barron import Barron, samples_of
from elmfield.partition.beam import Mesh, merge
from oracles.beam import connected, touching

QUICK = settings(max_examples=25, deadline=None)


def start_of(values, cell, periodic=(), boxes=False, **energy):
    y, present = samples_of(values, None, None)
    mesh = ef.Partition.regular(values.shape, cell, periodic=periodic)
    beta = Barron(y, present, mesh, **energy)
    return Mesh(beta, boxes), mesh, (y, present)


def compare(values, cell, quantile, stop=1, periodic=(), boxes=False, **energy):
    """Both ways, merge by merge."""
    start, mesh, (y, present) = start_of(values, cell, periodic, boxes, **energy)
    missing = np.zeros(y.shape, bool) if present is None else ~present
    betas = sorted(start.energies[c.key] for c in start.cells)
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


@pytest.mark.thorough
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


@pytest.mark.parametrize("kind", ["noise", "steps", "blocks", "dark"])
@pytest.mark.parametrize("periodic", [(), (1,), (0, 1)])
@pytest.mark.parametrize(
    "options", [{}, {"boxes": True}, {"outside": "mean", "normalisation": "ortho"}]
)
def test_the_same_merges_with_every_option(kind, periodic, options, rng):
    values = rng.standard_normal((12, 18))
    if kind == "steps":
        values = np.round(values / 2)
    elif kind == "blocks":  # equal energies, and energies that are 0 on paper
        values = np.kron(np.tile([[0, 1, 1], [2, 0, 1]], (2, 2)), np.ones((3, 3)))
    elif kind == "dark":
        values[:, 6:12] = 0
    for quantile, stop in ((0.6, 1), (1.0, 9)):
        compare(values, 3, quantile, stop, periodic, **options)


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


@pytest.mark.slow
@pytest.mark.parametrize("boxes", [False, True])
@pytest.mark.parametrize("kind", ["noise", "steps", "dark"])
def test_a_run_after_others_makes_the_same_merges(kind, boxes, rng):
    values = rng.standard_normal((36, 36))
    if kind == "steps":
        values = np.round(values / 2)
    elif kind == "dark":  # large boxes, of which bounds are known
        values[:, :24] = 0
    used, _, _ = start_of(values, 3, boxes=boxes)
    betas = np.quantile([used.energies[c.key] for c in used.cells], [0.05, 0.3, 0.6, 0.9, 0.98, 1])
    for tau in rng.permutation([*betas, *(rng.uniform(0.5, 3, 4) * betas[3])]).tolist():
        for stop in (1, 60):
            fresh, _, _ = start_of(values, 3, boxes=boxes)
            there, here = merge(used, tau, stop), merge(fresh, tau, stop)
            assert [(a.key, b.key) for a, b in there.pairs] == [
                (a.key, b.key) for a, b in here.pairs
            ]
            assert there.n_regions == here.n_regions


@pytest.mark.slow
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
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        part = ef.beam(values, cell=4, threshold=tau, shapes=shapes, periodic=periodic)
        again = ef.beam(values, cell=4, threshold=tau, shapes=shapes, periodic=periodic)
    is_alone = part.n_regions == mesh.n_regions > 1
    assert ["nothing was merged" in str(w.message) for w in told] == [True] * (2 * is_alone)
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
