"""What every partition promises, whoever made it; and what it refuses."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given

import elmfield as ef
from elmfield.partition import gather, sample_index
from support import EPS, L_SHAPE, close, partition, partitions, region_windows


def bumps(*shape):
    """Samples that are rough in one corner, for BEAM to have something to do."""
    x = np.stack(np.indices(shape), axis=-1) / np.asarray(shape)
    return np.sin(40 * np.prod(x, axis=-1) ** 2)


MADE = {
    "regular": lambda: ef.Partition.regular((22, 17), 5),
    "regular, blended": lambda: ef.Partition.regular((22, 17), (5, 6), (2.0, 0.7)),
    "regular, around": lambda: ef.Partition.regular((22, 17), 5, 1.5, periodic=(0, 1)),
    "regular, equal": lambda: ef.Partition.regular((22, 17), 5, 1.5, equal_boxes=True, context=2),
    "regular, mirrored": lambda: ef.Partition.regular(
        (22, 17), 5, 1.0, periodic=1, equal_boxes=True, context=2, mirrored=True
    ),
    "regular, line": lambda: ef.Partition.regular((40,), 7, 2.0),
    "regular, volume": lambda: ef.Partition.regular((9, 8, 7), 3, 1.0),
    "beam": lambda: ef.Partition.beam(bumps(24, 20), cell=4, regions=9),
    "beam, blended": lambda: ef.Partition.beam(bumps(24, 20), cell=4, regions=9, overlap=1.5),
    "beam, around": lambda: ef.Partition.beam(
        bumps(24, 20), cell=4, threshold=1.0, overlap=1, periodic={1: None}
    ),
    "beam, boxes": lambda: ef.Partition.beam(bumps(24, 20), cell=4, regions=9, shapes="boxes"),
    "labels": lambda: partition((30, 30), L_SHAPE, 2.0),
    "labels, around": lambda: partition((30, 30), L_SHAPE, 2.0, (False, True)),
    "labels, apart": lambda: ef.Partition.of((12,), ([0, 3, 7, 12],), [0, 1, 0], 1.0),
    "labels, over the seam": lambda: ef.Partition.of(
        (12,), ([0, 3, 7, 12],), [0, 1, 0], 1.0, periodic=0
    ),
}


@pytest.fixture(params=MADE)
def part(request):
    return MADE[request.param]()


class TestEveryPartition:
    """Nothing after `partition/` asks which way it was made."""

    def test_every_sample_lies_in_one_cell_and_every_cell_in_one_region(self, part):
        assert part.labels.shape == part.n_cells
        assert sorted(set(part.labels.ravel().tolist())) == list(range(part.n_regions))
        for n, edges, cell_of in zip(part.shape, part.edges, part.cell_of):
            assert (edges[0], edges[-1]) == (0, n)
            assert np.array_equal(cell_of[:n], np.repeat(np.arange(len(edges) - 1), np.diff(edges)))

    def test_cells_are_found_without_a_table_too(self, part, monkeypatch):
        for k, n in enumerate(part.shape):
            some = np.random.default_rng(0).integers(n + 1, size=40)
            listed = part.cell_of[k][some]
            with monkeypatch.context() as patch:
                patch.setattr("elmfield.partition.partition.TABULATED_MAX_SAMPLES", 0)
                assert np.array_equal(part.cells_at(k, some), listed)
                assert np.array_equal(part.cells_at(k, some[:1]), listed[:1])

    def test_windows_sum_to_one_and_keep_to_their_boxes(self, part):
        samples = np.stack(np.indices(part.shape), axis=-1).reshape(-1, len(part.shape))
        phi = region_windows(part, samples.astype(float))
        assert phi.min() >= 0
        close(phi.sum(axis=1), 1, 8 * EPS)
        for i in range(part.n_regions):
            held = np.zeros(part.shape, bool)
            held[np.ix_(*self.box(part, i))] = True
            assert held.ravel()[phi[:, i] > 0].all()

    @staticmethod
    def box(part, i):
        """Samples of a region's box on each axis."""
        starts, sizes = (a[i] for a in part.boxes)
        return [part.within(k, a + np.arange(n)) for k, (a, n) in enumerate(zip(starts, sizes))]

    def test_boxes_hold_samples_of_the_array_and_none_twice_unless_mirrored(self, part):
        for i in range(part.n_regions):
            for n, along in zip(part.shape, self.box(part, i)):
                assert along.min() >= 0
                assert along.max() < n
                assert part.mirrored or len(set(along.tolist())) == len(along)

    def test_footprints_share_out_the_regions(self, part):
        assert sorted(np.concatenate([r for _, r in part]).tolist()) == list(range(part.n_regions))
        assert len({box for box, _ in part}) == len(part.footprints)
        for box, regions in part:
            assert np.array_equal(part.boxes[1][regions], [box] * len(regions))
        assert len(part.footprints) == 1 or not part.equal_boxes

    def test_shapes_share_out_the_regions_and_name_what_windows_touch(self, part):
        shapes = part.shapes
        assert sorted(np.concatenate([r for *_, r in shapes]).tolist()) == list(
            range(part.n_regions)
        )
        samples = np.stack(np.indices(part.shape), axis=-1).reshape(-1, len(part.shape))
        phi = region_windows(part, samples.astype(float)).T.reshape(-1, *part.shape)
        for box, inside, regions in shapes:
            inside = np.ones(box, bool) if inside is None else inside
            assert inside.shape == box
            for i in regions:
                along = self.box(part, i)
                own = {tuple(x[j] for x, j in zip(along, at)) for at in np.argwhere(inside)}
                assert own >= {*zip(*np.nonzero(phi[i]))}

    def test_gathered_samples_are_those_of_the_boxes(self, part):
        values = np.arange(np.prod(part.shape)).reshape(*part.shape, 1)
        for box, regions in part:
            found = gather(values, sample_index(part, regions, box, values))
            for row, i in zip(found, regions):
                expected = values[np.ix_(*self.box(part, i))]
                assert np.array_equal(row[:, 0], expected.ravel())

    def test_one_region_is_the_whole_array(self, part):
        one = part.changed(labels=np.zeros_like(part.labels))
        assert one.n_regions == 1
        assert (one.boxes[1] >= np.asarray(part.shape)).all()
        assert (one.edges, one.overlap, one.periodic) == (part.edges, part.overlap, part.periodic)


@given(part=partitions)
def test_a_box_holds_every_sample_its_window_touches(part):
    samples = np.stack(np.indices(part.shape), axis=-1).reshape(-1, len(part.shape))
    phi = region_windows(part, samples.astype(float))
    starts, sizes = part.boxes
    for i in range(part.n_regions):
        within = (samples - starts[i]) % part.shape < sizes[i]
        assert not phi[~within.all(axis=1), i].any()


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
            "`edges` must increase from 0 to the number of samples, 10 on axis 0",
        ),
        (
            {"edges": (np.array([0, 5, 12]),)},
            "`edges` must increase from 0 to the number of samples, 10 on axis 0",
        ),
        ({"overlap": (3.0,)}, "`overlap` must lie between 0 and half a cell, of 5 on axis 0"),
        ({"overlap": (-1.0,)}, "`overlap` must lie between 0 and half a cell, of 5 on axis 0"),
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


def test_beam_at_the_top_is_that_of_the_partition():
    y = bumps(24, 20)
    assert np.array_equal(
        ef.beam(y, cell=4, regions=9).labels, ef.Partition.beam(y, cell=4, regions=9).labels
    )
