"""Cells that lie alike from both ends, with boxes of one size."""

import numpy as np
import pytest

import elmfield as ef
from elmfield.settings.oriented import CELL_LAYOUT


@pytest.mark.parametrize("d", [1, 2, 3])
@pytest.mark.parametrize("wraps", [False, True])
def test_cells_lie_alike_from_both_ends(d, wraps):
    cell, overlap, context = CELL_LAYOUT[d]
    for n in range(1, 130):
        part = ef.Partition.symmetric(
            (n,), cell, overlap, context=context, periodic=(0,) if wraps else ()
        )
        sizes, (starts, boxes) = np.diff(part.edges[0]), part.boxes
        assert np.array_equal(sizes, sizes[::-1])
        assert np.array_equal(starts[:, 0], n - boxes[0, 0] - starts[::-1, 0])
        assert (boxes == boxes[0]).all()
        assert boxes[0, 0] <= n
        if not wraps:
            assert starts.min() >= 0
            assert (starts + boxes).max() <= n
        # Windows end at most a sample beyond the outermost of the box.
        centre = starts[:, 0] + (boxes[0, 0] - 1) / 2
        low = part.edges[0][:-1] - 0.5 - part.overlap[0]
        high = part.edges[0][1:] - 0.5 + part.overlap[0]
        if not wraps:
            low[0], high[-1] = -0.5, n - 0.5
        reach = max(np.abs(low - centre).max(), np.abs(high - centre).max())
        assert part.n_regions == 1 or reach <= (boxes[0, 0] + 1) / 2
