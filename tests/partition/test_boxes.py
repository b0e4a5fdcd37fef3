"""The samples of boxes, taken out of an array."""

import numpy as np
import pytest

import elmfield as ef
from elmfield.partition import gather, gather_boxes, sample_index
from support import host


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


@pytest.mark.parametrize("cells", [slice(None), slice(3, 9), slice(1, 5), [0, 1, 3, 4], [0, 4]])
def test_blocks_of_cells_are_gathered_axis_by_axis_all_the_same(xp, cells, rng):
    part = ef.Partition.regular((14, 11), (5, 4), 1.0, periodic=0, equal_boxes=True, context=1)
    values = xp.asarray(rng.standard_normal((14, 11, 2)))
    ((box, every),) = part.footprints
    regions = every[cells]
    found = host(gather_boxes(values, part, regions, box))
    expected = host(gather(values, sample_index(part, regions, box, values)))
    assert np.array_equal(found, expected)
