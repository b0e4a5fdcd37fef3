"""Blocks and steps: nothing is lost, and nothing is asked for before it is known."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from elmfield.codec.lossless.wavefront import Layout

SHAPES = st.tuples(
    st.integers(1, 4), st.integers(1, 9), st.integers(1, 18), st.integers(1, 70), st.integers(1, 30)
)


def layouts(shape, ndim):
    """A layout with so many axes besides channels."""
    C, *axes = shape
    return Layout.of((C, *[1] * (4 - ndim), *axes[4 - ndim :]), ndim)


@given(shape=SHAPES, ndim=st.integers(1, 4))
def test_blocks_are_the_array_again(shape, ndim):
    layout = layouts(shape, ndim)
    values = np.arange(np.prod(layout.shape)).reshape(layout.shape)
    np.testing.assert_array_equal(layout.join(layout.cut(values)), values)


@given(shape=SHAPES, ndim=st.integers(1, 4))
def test_every_sample_is_coded_once_and_after_its_neighbours(shape, ndim):
    layout = layouts(shape, ndim)
    outside = layout.counts[3] * layout.block[3] - layout.shape[4]
    rows = int(np.prod(layout.shape[:4]))
    assert layout.sizes.sum() == rows * (layout.shape[4] + outside)
    for near in layout.near, layout.past:
        assert (near.steps < 0).all()
        # A neighbour `back` groups before lies skew lines higher.
        assert (near.lines == near.down - layout.skew[near.back]).all()
        assert (near.steps == 2 * near.lines + near.right).all()


@given(shape=SHAPES, ndim=st.integers(1, 4))
def test_a_slanted_view_finds_every_sample_at_its_step(shape, ndim):
    layout = layouts(shape, ndim)
    steps = np.zeros((layout.n_steps, layout.n_groups, layout.n_lines, layout.n_blocks), np.int64)
    steps += np.arange(layout.n_steps)[:, None, None, None]
    x, y = np.arange(layout.block[3]), np.arange(layout.block[2])[:, None]
    for g in range(layout.n_groups):
        expected = x + 2 * (y + layout.skew[g])
        np.testing.assert_array_equal(layout.slant(steps, g)[..., 0], expected)
