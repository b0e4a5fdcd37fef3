from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import elmfield as ef
import oracles
from elmfield.partition import blend, gather, sample_index
from support import EPS, L_SHAPE, close, host, inside, label_grids, partition


def region_windows(part, points):
    """φ, shape (n, N), assembled from the blends of the axes."""
    phi = np.zeros((len(points), part.n_regions))
    blends = [blend(part, k, points[:, k]) for k in range(points.shape[1])]
    for corner in np.ndindex(*(2,) * len(blends)):
        weight, cell = np.ones(len(points)), []
        for b, up in zip(blends, corner):
            weight = weight * (b.ramp[0] if up else 1 - b.ramp[0])
            cell.append(b.upper if up else b.lower)
        np.add.at(phi, (np.arange(len(points)), part.labels[tuple(cell)]), weight)
    return phi


partitions = st.builds(
    lambda labels, sizes, overlap, periodic: partition(
        [s * c for s, c in zip(sizes, labels.shape)], labels, overlap, periodic
    ),
    label_grids(),
    st.tuples(st.integers(4, 7), st.integers(4, 7)),
    st.sampled_from([0.5, 1.0, 1.7, 2.0]),
    st.tuples(st.booleans(), st.booleans()),
)


@given(part=partitions, seed=st.integers(0, 2**32 - 1))
def test_windows_sum_to_one_and_follow_the_formula(part, seed):
    # A periodic axis of one cell has no border: nothing to blend there.
    assume(not any(p and c == 1 for p, c in zip(part.periodic, part.n_cells)))
    x = inside(np.random.default_rng(seed), part.shape, 40)
    phi = region_windows(part, x)
    assert phi.min() >= 0
    close(phi.sum(axis=1), 1, 8 * EPS)
    # The oracle subtracts ramps, sums images and cells: a dozen roundings of numbers up to 1.
    expected = oracles.windows(x, part.edges, part.labels, part.overlap, part.periodic)
    close(phi, expected, 64 * EPS)


@given(part=partitions)
def test_a_box_holds_every_sample_its_window_touches(part):
    samples = np.stack(np.indices(part.shape), axis=-1).reshape(-1, len(part.shape))
    phi = region_windows(part, samples.astype(float))
    starts, sizes = part.boxes
    for i in range(part.n_regions):
        within = (samples - starts[i]) % part.shape < sizes[i]
        assert not phi[~within.all(axis=1), i].any()


def test_windows_are_twice_differentiable_across_a_border():
    part = ef.Partition.regular((40,), 10, 3.0)
    x = np.linspace(4, 35, 3001)
    ramp, slope, bend = blend(part, 0, x, 2).ramp
    h = 1e-4
    ahead, behind = blend(part, 0, x + h).ramp[0], blend(part, 0, x - h).ramp[0]
    smooth = (blend(part, 0, x + h).lower == blend(part, 0, x - h).lower) & (ramp > 0)
    # Central differences of a quintic of half-width 3: third derivative 60/6³ at most, times h²/6.
    close(((ahead - behind) / (2 * h))[smooth], slope[smooth], 60 / 6**3 * h**2)
    close(((ahead - 2 * ramp + behind) / h**2)[smooth], bend[smooth], 1e-6)
    # C²: near both ends of the ramp its two derivatives vanish.
    ends = np.array([6.5 + 1e-6, 12.5 - 1e-6])
    _, slope, bend = blend(part, 0, ends, 2).ramp
    close(slope, 0, 1e-11)
    close(bend, 0, 1e-5)


@given(
    n=st.integers(1, 60),
    cell=st.integers(1, 20),
    half=st.just(0.0) | st.floats(0.01, 0.5),
    periodic=st.booleans(),
    equal=st.booleans(),
)
def test_regular_cells_tile_the_axis_and_boxes_hold_what_windows_touch(
    n, cell, half, periodic, equal
):
    part = ef.Partition.regular(
        (n,), cell, half * cell, periodic=[0] if periodic else (), equal_boxes=equal
    )
    (edges,) = part.edges
    assert edges[0] == 0
    assert edges[-1] == n
    sizes = np.diff(edges)
    assert sizes.min() >= 1
    assert sizes.max() <= cell
    assert sizes.max() - sizes.min() <= 1
    x = np.arange(n, dtype=float)
    phi = region_windows(part, x[:, None])
    close(phi.sum(axis=1), 1, 8 * EPS)
    starts, counts = part.boxes
    for i in range(part.n_regions):
        box = (starts[i, 0] + np.arange(counts[i, 0])) % n if periodic else None
        if box is None:
            assert starts[i, 0] >= 0
            assert starts[i, 0] + counts[i, 0] <= n
            box = starts[i, 0] + np.arange(counts[i, 0])
        assert len(set(box)) == len(box), "a box must not hold a sample twice"
        assert set(np.flatnonzero(phi[:, i] > 0)) <= set(box)
    if equal:
        assert len(part.footprints) == 1


@given(n=st.integers(1, 60), cell=st.integers(1, 20), context=st.integers(0, 4))
def test_mirrored_boxes_reach_as_far_beyond_the_ends_as_beyond_their_cells(n, cell, context):
    part = ef.Partition.regular((n,), cell, 1.5 if cell > 2 else 0, equal_boxes=True,
                                context=context,
                                mirrored=True)  # fmt: skip
    starts, counts = (x[:, 0] for x in part.boxes)
    beyond = min(part.margins[0] + context, n - 1)
    if part.n_cells == (1,):
        beyond = min(beyond, 1)
    assert starts.min() == -beyond
    assert (starts + counts).max() == n + beyond
    assert len(set(counts)) == 1
    extended = np.pad(np.arange(n), beyond, "symmetric")
    for i, b in zip(starts, counts):
        found = part.within(0, i + np.arange(b))
        assert np.array_equal(found, extended[i + beyond :][:b])


def test_footprints_group_regions_of_equal_boxes():
    part = ef.Partition.regular((512, 512), 32, 0)
    assert [(box, len(r)) for box, r in part] == [((32, 32), 256)]
    part = ef.Partition.regular((100, 33), 32, 2)
    found = np.concatenate([regions for _, regions in part])
    assert sorted(found) == list(range(part.n_regions))
    for box, regions in part:
        assert {tuple(s) for s in part.boxes[1][regions]} == {box}


def test_an_l_shaped_region_has_the_bounding_box_of_its_cells_and_margin():
    part = partition((30, 30), L_SHAPE, 2.0)
    starts, sizes = part.boxes
    assert starts.tolist() == [[0, 0], [0, 8], [18, 0]]
    assert sizes.tolist() == [[22, 22], [22, 22], [12, 30]]


def test_gather_takes_the_samples_of_a_box(xp):
    part = ef.Partition.regular((7, 9), (4, 5), 1.0, periodic=0)
    values = np.arange(63 * 2, dtype=float).reshape(7, 9, 2)
    like = xp.asarray(values)
    for box, regions in part:
        found = host(gather(like, sample_index(part, regions, box, like)))
        for g, i in enumerate(regions):
            rows, columns = (part.boxes[0][i, k] + np.arange(box[k]) for k in range(2))
            expected = values.take(rows, axis=0, mode="wrap")[:, columns]
            assert np.array_equal(found[g], expected.reshape(-1, 2))


def test_labels_must_fit_the_cells():
    edges = (np.array([0, 5, 10]),)
    with pytest.raises(ValueError, match=r"one entry per cell, shape \(2,\); got \(3,\)"):
        ef.Partition.of((10,), edges, [0, 1, 2])
    for labels in ([0, 2], [-1, 0], [1, 1]):
        with pytest.raises(ValueError, match="number the regions 0 to N - 1 without gaps"):
            ef.Partition.of((10,), edges, labels)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"edges": (np.array([0, 6, 5, 10]),), "labels": np.arange(3)},
            "`edges` of axis 0 must increase",
        ),
        ({"edges": (np.array([0, 5, 12]),)}, "`edges` of axis 0 must increase"),
        ({"overlap": (3.0,)}, "`overlap` must lie between 0 and half a cell"),
        ({"overlap": (-1.0,)}, "`overlap` must lie between 0 and half a cell"),
        ({"overlap": (0.0, 0.0)}, "one entry per axis"),
        ({"periodic": ()}, "one entry per axis"),
        (
            {"starts": np.zeros((3, 1), int)},
            r"`starts` must have one row per region, shape \(2, 1\)",
        ),
    ],
)
def test_a_partition_checks_its_own_parts(change, message):
    parts = {
        "shape": (10,),
        "edges": (np.array([0, 5, 10]),),
        "labels": np.array([0, 1]),
        "overlap": (1.0,),
        "periodic": (False,),
    }
    assert ef.Partition(**parts).n_regions == 2
    with pytest.raises(ValueError, match=message):
        ef.Partition(**{**parts, **change})


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (((10,), 0), "`cell` must be a whole number of samples, at least 1; got cell=0 on axis 0"),
        (((10,), -4), "`cell` must be a whole number"),
        (((10, 10), (4, 2.5)), r"got cell=2\.5 on axis 1"),
        (((10,), float("nan")), "`cell` must be a finite number; got nan"),
        (((10,), "8"), "`cell` must be a finite number; got '8'"),
        (((10,), (4, 4)), r"`cell` must be one number or one per axis, 1; got 2: \(4, 4\)"),
        (((10,), 4, 2.1), "`overlap` must lie between 0 and half a cell; got overlap=2.1"),
        (((10,), 4, -1), "Use a smaller overlap or larger cells"),
        (((10, 0), 4), "`shape` must be whole numbers of at least 1"),
        (((-3,), 4), "`shape` must be whole numbers of at least 1"),
    ],
)
def test_regular_says_what_is_wrong(arguments, message):
    with pytest.raises(ValueError, match=message):
        ef.Partition.regular(*arguments)


def test_lists_will_do_where_they_are_read():
    part = ef.Partition.of([10], ([0, 5, 10],), [0, 1], 1, periodic={0: None})
    assert (part.shape, part.overlap, part.periodic) == ((10,), (1.0,), (True,))
    assert part.labels.tolist() == [0, 1]
    with pytest.raises(
        TypeError, match=r"arrays of integers; got .* Partition\.of\(\.\.\.\) takes"
    ):
        ef.Partition(
            shape=(10,), edges=([0, 5, 10],), labels=[0, 1], overlap=(0.0,), periodic=(False,)
        )
    with pytest.raises(ValueError, match="one number or one per axis, 1; got 2"):
        ef.Partition.of((10,), ([0, 5, 10],), [0, 1], (1, 1))
    with pytest.raises(ValueError, match=r"numbers of axes, between -1 and 0; got 'x'"):
        ef.Partition.of((10,), ([0, 5, 10],), [0, 1], periodic="x")


def test_boxes_follow_from_the_cells_unless_they_are_given():
    part = ef.Partition.regular((10, 8), 4, 1.0)
    starts, sizes = (a + 1 for a in part.boxes)
    given = replace(part, starts=starts, sizes=sizes)
    assert given.boxes[0] is starts
    assert given.boxes[1] is sizes
    merged = given.changed(labels=np.zeros_like(part.labels))
    assert merged.boxes[0].tolist() == [[0, 0]]
    assert merged.boxes[1].tolist() == [[10, 8]]
