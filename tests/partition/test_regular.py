"""The regular mesh: equal cells, as nearly as the shape allows."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import elmfield as ef
from support import EPS, close, region_windows


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


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (((10,), 0), "`cell` must be a whole number of samples, at least 1, on axis 0; got 0"),
        (((10,), -4), "`cell` must be a whole number"),
        (((10, 10), (4, 2.5)), r"on axis 1; got 2\.5"),
        (((10,), float("nan")), "`cell` must be a finite number; got nan"),
        (((10,), "8"), "`cell` must be a finite number; got '8'"),
        (((10,), (4, 4)), r"`cell` must be one number or one per axis, 1; got 2: \(4, 4\)"),
        (((10,), 4, 2.1), "`overlap` must lie between 0 and half a cell, of 4 on axis 0; got 2.1"),
        (((10,), 4, -1), "Use a smaller overlap or larger cells"),
        (((10, 0), 4), "`shape` must be whole numbers of at least 1"),
        (((-3,), 4), "`shape` must be whole numbers of at least 1"),
    ],
)
def test_regular_says_what_is_wrong(arguments, message):
    with pytest.raises(ValueError, match=message):
        ef.Partition.regular(*arguments)
