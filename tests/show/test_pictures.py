import subprocess
import sys

import numpy as np
import pytest

import elmfield as ef
from elmfield.show import pictures

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")


@pytest.fixture(autouse=True)
def closed():
    yield
    from matplotlib import pyplot

    pyplot.close("all")


LABELS = np.array([[0, 0, 1], [2, 0, 1]])


def part(periodic=(False, False)):
    edges = (np.array([0, 4, 8]), np.array([0, 3, 6, 9]))
    return ef.Partition.of((8, 9), edges, LABELS, periodic=np.flatnonzero(periodic))


def test_borders_lie_between_regions_and_around_the_array():
    lines = {tuple(sorted(line)) for line in pictures.border_lines(part())}
    inner = {
        ((-0.5, 3.5), (2.5, 3.5)),  # 0 above 2
        ((2.5, 3.5), (2.5, 7.5)),  # 2 left of 0
        ((5.5, -0.5), (5.5, 3.5)),  # 0 left of 1
        ((5.5, 3.5), (5.5, 7.5)),
    }
    ends = ({-0.5, 8.5}, {-0.5, 7.5})  # columns, rows
    outer = {
        line
        for line in lines
        if any(line[0][k] == line[1][k] and line[0][k] in ends[k] for k in (0, 1))
    }
    assert inner <= lines
    assert lines - inner == outer
    assert len(outer) == 2 * (2 + 3)


def test_a_region_across_a_periodic_end_is_open_there():
    labels = np.array([[0, 1, 0], [2, 1, 3]])
    edges = (np.array([0, 4, 8]), np.array([0, 3, 6, 9]))
    wrapped = ef.Partition.of((8, 9), edges, labels, periodic=1)
    lines = {tuple(sorted(line)) for line in pictures.border_lines(wrapped)}
    assert ((-0.5, -0.5), (-0.5, 3.5)) not in lines  # region 0 goes on at the other side
    assert ((8.5, -0.5), (8.5, 3.5)) not in lines
    assert ((-0.5, 3.5), (-0.5, 7.5)) in lines


def test_a_partition_over_its_picture(rng):
    axes = pictures.draw_partition(part(), rng.random((8, 9)))
    assert axes.get_title() == "3 regions"
    assert axes.get_xlim() == (-0.5, 8.5)
    assert axes.get_ylim() == (7.5, -0.5)
    (image,) = axes.images
    assert image.get_array().shape == (8, 9)
    (lines,) = axes.collections
    assert len(lines.get_segments()) == len(pictures.border_lines(part()))
    colour = pictures.draw_partition(part(), rng.random((3, 8, 9)), channel_axis=0, title="t")
    assert colour.images[0].get_array().shape == (8, 9, 3)


def test_energies_in_colours(rng):
    values = rng.random((8, 9))
    axes = pictures.draw_energies(part(), values, outside="mean")
    beta = ef.barron_norm(values, partition=part(), outside="mean")
    mesh = axes.collections[0]
    np.testing.assert_allclose(np.ravel(mesh.get_array()), beta[LABELS].ravel())
    assert mesh.get_clim() == (0, beta.max())


def test_volumes_are_drawn_as_slices(rng):
    labels = np.arange(8).reshape(2, 2, 2)
    labels[1] = 4  # below, all one region
    whole = ef.Partition.of((8, 6, 4), ([0, 4, 8], [0, 3, 6], [0, 2, 4]), labels)
    values = rng.random((8, 6, 4))
    above = pictures.draw_partition(whole, values, at={0: 1})
    assert above.get_title() == "5 regions, axis 0 at 1"
    np.testing.assert_array_equal(above.images[0].get_array(), values[1])
    below = pictures.draw_partition(whole, values, at={0: 7})
    count = [len(ax.collections[0].get_segments()) for ax in (above, below)]
    assert count == [12, 8]  # a cross of two lines of two, and the frame; the frame alone
    middle = pictures.draw_partition(whole, values)  # across the shortest axis
    assert middle.get_title() == "5 regions, axis 2 at 2"
    axes = pictures.draw_energies(whole, values, at={0: 1})
    beta = ef.barron_norm(values, partition=whole)
    np.testing.assert_allclose(axes.collections[0].get_array(), beta[labels[0]].reshape(2, 2))


def test_what_cannot_be_drawn(rng):
    with pytest.raises(ValueError, match="regions are drawn over two axes; the array has 1"):
        pictures.draw_partition(ef.Partition.regular((4,), 2))
    with pytest.raises(
        ValueError, match=r"`at` must say a sample for each of 1 axes .*got \{0: 9\}"
    ):
        pictures.draw_partition(ef.Partition.regular((4, 4, 4), 2), at={0: 9})
    with pytest.raises(ValueError, match="must have the partition's shape"):
        pictures.draw_partition(part(), rng.random((9, 8)))


@pytest.mark.thorough
def test_pictures_without_matplotlib_name_what_is_missing():
    code = (
        "import sys; sys.modules['matplotlib'] = None\n"
        "import elmfield as ef\nfrom elmfield.show import pictures\n"
        "try:\n    pictures.draw_partition(ef.Partition.regular((4, 4), 2))\n"
        "except ImportError as error:\n    print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "pip install 'elmfield[show]'" in done.stdout


def test_directions_run_along_an_edge():
    i, j = np.indices((40, 46))
    field = ef.fit(np.tanh((0.8 * i - 0.6 * j) / 1.5), ef.oriented(order=1.5))
    lines = pictures.direction_lines(field)
    assert lines.shape == (field.partition.n_regions, 2, 2)
    way = lines[:, 1] - lines[:, 0]
    length = np.linalg.norm(way, axis=1)
    sure = length > 0.5 * length.max()
    assert sure.sum() > 10
    assert np.abs(way[sure] @ [0.6, 0.8] / length[sure]).min() > 0.95  # within 18 degrees
    assert length.max() <= 3
    axes = pictures.draw_directions(field, region=2, title="edge")
    (drawn,) = axes.collections
    assert len(drawn.get_segments()) == (-(-field.partition.n_cells[0] // 2)) * (
        -(-field.partition.n_cells[1] // 2)
    )


def test_directions_need_oriented_regions():
    with pytest.raises(ValueError, match=r"two axes fitted with oriented\(...\); got Field"):
        pictures.direction_lines(ef.fit(np.eye(9), ef.smooth(order=1.1)))
