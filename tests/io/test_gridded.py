"""Gridded samples, their parts, and grids of fields."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import elmfield as ef
from elmfield.io.gridded import Gridded


def test_areas_and_nodes():
    field = ef.fit(np.arange(8.0), coords=[10.0 * np.arange(8)], dims=("x",))
    (areas,) = field.model.coordinates.positions(scale=2)
    assert_allclose(areas, np.arange(16) / 2 - 0.25)
    (nodes,) = field.model.coordinates.positions(scale=2, align="nodes")
    assert_allclose(nodes, np.arange(15) / 2)
    (nodes,) = field.model.coordinates.positions(shape=(15,), align="nodes")
    assert_allclose(nodes, np.arange(15) / 2)
    (part,) = field.model.coordinates.positions(scale=2, window={"x": (16, 31)}, align="nodes")
    assert_allclose(part, [2, 2.5, 3])
    wraps = ef.fit(np.sin(np.arange(8) * np.pi / 4), periodic=(0,))
    (nodes,) = wraps.model.coordinates.positions(scale=2, align="nodes")
    assert_allclose(nodes, np.arange(16) / 2)
    with pytest.raises(ValueError, match="`scale` must be a positive number"):
        field.model.coordinates.positions(scale=-1)
    with pytest.raises(ValueError, match="`shape` must be 1 whole numbers"):
        field.model.coordinates.positions(shape=(3, 4))


def test_slices_know_where_they_were_taken():
    values = np.arange(60.0).reshape(6, 10)
    labels = ef.Labels(affine=np.eye(4).tolist(), transform=[1.0, 0, 10, 0, -1, 50])
    at = {"y": np.arange(6) * 2.0}
    samples = Gridded(values=values, dims=("y", "x"), coords=at, labels=labels)
    part = samples.pick("y", slice(1, 5, 2)).pick("x", slice(3, None))
    expected = [[2, 0, 0, 1], [0, 1, 0, 3], [0, 0, 1, 0], [0, 0, 0, 1]]
    assert_array_equal(part.labels.affine, expected)
    assert part.labels.transform == [1, 0, 13, 0, -2, 49.5]  # of corners
    assert_array_equal(part.coords["y"], [2, 6])
    line = part.pick("y", -1)
    assert line.dims == ("x",)
    assert line.labels.coords["y"].values == 6
    expected = [[0, 0, 2, 3], [1, 0, 0, 3], [0, 1, 0, 0], [0, 0, 0, 1]]
    assert_array_equal(line.labels.affine, expected)
    with pytest.raises(ValueError, match="there is no axis 'z'"):
        samples.pick("z", 0)
    with pytest.raises(ValueError, match="nothing is left of axis"):
        samples.pick("y", slice(9, 12))
    with pytest.raises(ValueError, match="there is no number 6"):
        samples.pick("y", 6)
