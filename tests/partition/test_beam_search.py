"""So many regions as asked for, and the same ones however the work is shared out."""

import math
from contextlib import nullcontext

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import elmfield as ef
import elmfield.partition.barron as energy
import elmfield.partition.beam as merging
from elmfield.partition.barron import Barron
from elmfield.partition.beam import Mesh, merge, search
from oracles.beam import connected

QUICK = settings(max_examples=25, deadline=None)


@pytest.mark.slow
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
        alone = pytest.warns(UserWarning, match="nothing was merged: with regions=")
        with alone if regions == n else nullcontext():
            part = ef.beam(values, cell=4, regions=regions)
        assert part.n_regions == regions
        assert all(connected(part.labels == i, ()) for i in range(regions))


def test_the_search_finds_a_threshold_where_there_is_one(rng):
    values = np.cumsum(rng.standard_normal((48, 48)), axis=0)
    mesh = ef.Partition.regular(values.shape, 4)
    start = Mesh(Barron(values[None], None, mesh))
    for tau in (3.0, 10.0, 30.0):
        there = merge(start, tau)
        found = search(start, there.n_regions)
        assert found.n_regions == there.n_regions
        assert found.next_energy < math.inf  # it ended by itself: nothing below τ was left


@pytest.mark.thorough
def test_a_large_dark_part_does_not_change_the_result(rng, monkeypatch):
    values = rng.random((72, 72)) * np.linspace(0, 1, 72) ** 2
    values[:, :40] = 0
    bounded = ef.beam(values, cell=4, regions=60)
    monkeypatch.setattr(merging, "BOUND_MIN_CELLS", 10**9)  # transform every box
    assert np.array_equal(bounded.labels, ef.beam(values, cell=4, regions=60).labels)


def test_looking_ahead_does_not_change_the_result(rng, monkeypatch):
    values = rng.random((40, 40))
    part = ef.beam(values, cell=4, regions=30)
    monkeypatch.setattr(merging, "LOOKAHEAD_REGIONS", 0)
    monkeypatch.setattr(energy, "BATCH_SAMPLES", 1)
    assert np.array_equal(part.labels, ef.beam(values, cell=4, regions=30).labels)


def pictures(rng):
    """Pictures on which it is hard to agree: many energies are equal, or 0, or nearly so."""
    x = np.linspace(-1, 1, 48)
    wave = np.cos(9 * np.add.outer(x**2, x**2))
    return {
        "noise": rng.standard_normal((48, 60)),
        "constant": np.full((48, 48), 273.15),
        "repeated": np.tile(rng.standard_normal((12, 12)), (4, 4)),
        "symmetric": wave + wave[::-1, ::-1].T,
        "dark": np.where(x > 0.3, rng.random((48, 48)), 0),
        "tiny": 1e-200 * rng.standard_normal((48, 48)),
        "huge": 1e200 * rng.standard_normal((48, 48)),
        "faint": 280 + 1e-3 * rng.standard_normal((48, 48)),
    }


@pytest.mark.slow
@pytest.mark.parametrize("kind", pictures(np.random.default_rng(0)))
def test_the_order_of_work_does_not_change_hard_pictures(kind, rng, monkeypatch):
    """Energies found one by one, without lower bounds, lead to the same regions."""
    values = pictures(rng)[kind]
    for options in (
        {"cell": 4, "regions": 40},
        {"cell": 4, "regions": 40, "shapes": "boxes"},
        {"cell": (6, 4), "regions": 20, "outside": "mean"},
        {"cell": (4, 12), "regions": 20, "periodic": (0, 1)},
        {"cell": 4, "regions": 5, "channel_axis": 2},
    ):
        channels = np.stack([values, values[::-1]], axis=2) if "channel_axis" in options else values
        found = ef.beam(channels, **options).labels
        with monkeypatch.context() as patch:
            patch.setattr(merging, "BOUND_MIN_CELLS", 10**9)
            patch.setattr(merging, "LOOKAHEAD_REGIONS", 0)
            assert np.array_equal(found, ef.beam(channels, **options).labels), options


@pytest.mark.gpu
def test_samples_on_a_gpu_give_the_same_partition(rng):
    torch = pytest.importorskip("torch")
    values = rng.standard_normal((40, 44)).astype("float32")
    values[3:9, 5:20] = np.nan
    tensor = torch.asarray(values, device="cuda")
    for options in ({"regions": 30}, {"regions": 30, "shapes": "boxes"}, {"threshold": 20.0}):
        expected = ef.beam(values, cell=4, **options).labels
        assert np.array_equal(ef.beam(tensor, cell=4, **options).labels, expected)
    mask = torch.isnan(tensor)
    expected = ef.beam(values, mask=np.isnan(values), cell=4, regions=30).labels
    assert np.array_equal(ef.beam(tensor, mask=mask, cell=4, regions=30).labels, expected)


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


def test_boxes_in_each_others_way_still_come_to_the_number():
    pinwheel = np.array([[0, 0, 1], [2, 3, 1], [2, 4, 4]])
    values = np.array([1.0, 3.0, 5.0, 7.0, 9.0])[pinwheel].repeat(2, 0).repeat(2, 1)
    values[2, 2] += 0.1  # the middle has its turn after the arms, which then fit no box with it
    for regions in (1, 2, 3, 4, 5):
        partition = ef.beam(values, cell=2, regions=regions, shapes="boxes")
        assert partition.n_regions == regions
        assert all_boxes(partition)


@pytest.mark.parametrize("periodic", [(), (0,), (0, 1)])
@pytest.mark.parametrize("regions", [1, 2, 3, 5, 8, 13, 40])
def test_boxes_reach_any_number(regions, periodic):
    values = np.random.default_rng(regions).standard_normal((35, 42))
    partition = ef.beam(values, cell=5, regions=regions, shapes="boxes", periodic=periodic)
    assert partition.n_regions == regions
    assert all_boxes(partition)


@pytest.mark.thorough
def test_large_boxes_are_boxes():
    values = np.zeros((128, 128))
    values[:8] = np.random.default_rng(0).standard_normal((8, 128))
    values[:, :8] = np.random.default_rng(1).standard_normal((128, 8))
    assert all_boxes(ef.beam(values, cell=4, regions=40, shapes="boxes"))


def all_boxes(partition):
    """Whether every region fills the shortest box around it, on periodic axes over the seam too."""
    for i in range(partition.n_regions):
        cells = np.argwhere(partition.labels == i)
        sides = []
        for k, n in enumerate(partition.n_cells):
            own = np.unique(cells[:, k])
            gap = np.diff(own, append=own[0] + n).max() if partition.periodic[k] else None
            sides.append(np.ptp(own) + 1 if gap is None else n - gap + 1)
        if np.prod(sides) != len(cells):
            return False
    return True


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"cell": 40, "regions": 2}, r"larger than the array, 32 samples on axis 0; got 40\."),
        ({"cell": (4, 33), "regions": 2}, r"32 samples on axis 1; got 33\. Use smaller cells"),
        ({"cell": 4, "threshold": 0}, r"`threshold` must be a positive number; got 0"),
        ({"cell": 4, "threshold": -1.0}, r"`threshold` must be a positive number; got -1"),
        ({"cell": 4, "threshold": math.nan}, r"`threshold` must be a positive number; got nan"),
        ({"cell": 8, "regions": 17}, r"between 1 and the number of cells, 16 .*got 17"),
        ({"cell": 8, "regions": 0}, r"`regions` must be a whole number of at least 1; got 0"),
        ({"cell": 8, "regions": 2.5}, r"`regions` must be a whole number .*; got 2.5"),
        ({"cell": 8}, r"either `threshold` or `regions`; got neither"),
        ({"cell": 8, "regions": 2, "threshold": 1.0}, r"`threshold` or `regions`; got both"),
        ({"cell": 0, "regions": 2}, r"`cell` must be a whole number of samples"),
        ({"cell": 8, "regions": 2, "shapes": "round"}, r"`shapes` must be one of .*'round'"),
        ({"cell": 8, "regions": 2, "normalisation": "n"}, r"`normalisation` must be one of"),
        ({"cell": 8, "regions": 2, "outside": "n"}, r"`outside` must be one of"),
        ({"cell": 8, "regions": 2, "periodic": (2,)}, r"`periodic` must hold numbers of axes"),
        ({"cell": 8, "regions": 2, "periodic": (True, False)}, r"`periodic` must hold numbers"),
        ({"cell": 8, "regions": 2, "periodic": "lon"}, r"numbers of axes.*got 'lon'. Axes have no"),
        ({"cell": 8, "regions": True}, r"`regions` must be a whole number .*; got True"),
        ({"cell": 8, "regions": 2, "channel_axis": 3}, r"`channel_axis` must be an axis"),
        ({"cell": 8, "regions": 2, "overlap": 5}, r"`overlap` must lie between 0 and half a cell"),
    ],
)
def test_bad_options(options, message):
    with pytest.raises(ValueError, match=message):
        ef.beam(np.zeros((32, 32)), **options)


def test_a_partition_knows_how_it_was_made(rng):
    values = rng.random((48, 64)).cumsum(0).cumsum(1)
    part = ef.beam(values, cell=8, regions=9, normalisation="backward")
    expected = ef.barron_norm(values, partition=part, normalisation="backward")
    np.testing.assert_allclose(part.energies, expected, rtol=1e-9)
    again = ef.beam(values, cell=8, threshold=part.threshold, normalisation="backward")
    assert again.n_regions in (9, 8)  # where no τ gives 9, the last run was broken off
    assert part.energies[np.bincount(part.labels.ravel()) > 1].max() <= part.threshold
    said = repr(part)
    assert "\n" not in said
    assert said.startswith(
        "Partition(48×64, 9 regions of 6×8 cells, overlap=(0.0, 0.0), BEAM, back"
    )
    assert f"τ={part.threshold:.4g}" in said
    wider = part.changed(overlap=(1.0, 1.0))
    assert wider.threshold == part.threshold
    assert part.changed(labels=np.arange(48).reshape(6, 8)).energies is None
    field = ef.fit(values, ef.paper(width=20), partition=part)
    assert field.partition.threshold == part.threshold


@pytest.mark.parametrize("how", [{"regions": 12}, {"threshold": 1e-6}])
def test_merging_nothing_is_told(how, rng):
    with pytest.warns(UserWarning, match="nothing was merged: with .* each of the 12 cells"):
        part = ef.beam(rng.random((24, 32)), cell=8, **how)
    assert part.is_regular
