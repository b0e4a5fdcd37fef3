"""ELM-INR region by region: what fits with own layers are measured against gives the same."""

import numpy as np
import pytest

import elmfield as ef
import oracles

baselines = pytest.importorskip("paper.research.baselines")
torch = pytest.importorskip("torch")


@pytest.mark.parametrize("solver", ["lstsq", "gels", "normal"])
def test_it_gives_what_a_fit_with_own_layers_gives(solver, rng):
    y = rng.standard_normal((24, 16))
    settings = ef.paper(cell=8, width=24, layers="own")  # fewer neurons than samples: no copy
    found = baselines.region_by_region(y, settings, solver=solver)
    expected = ef.fit(y, settings).samples()
    # Normal equations square the condition number, about 1e4 here.
    tolerance = 1e-6 if solver == "normal" else 1e-10
    np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance)
    assert np.abs(found - y).max() > 0.1


def test_it_agrees_with_the_equations_as_printed(rng):
    y = rng.standard_normal((16, 16))
    settings = ef.paper(cell=8, width=20)
    found = baselines.region_by_region(y, settings)
    expected = np.empty_like(y)
    for i, (a, b) in enumerate(np.ndindex(2, 2)):
        cell = slice(8 * a, 8 * a + 8), slice(8 * b, 8 * b + 8)
        seed = settings.network.of_region(i).seed
        expected[cell] = oracles.paper_samples(y[cell], (8, 8), width=20, seed=seed)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-9)


@pytest.mark.parametrize("overlap", [0, 0.5, 2])
def test_overlap_and_merged_regions(overlap, rng):
    y = rng.standard_normal((24, 32)).cumsum(0)
    settings = ef.paper(cell=8, width=24, overlap=overlap, layers="own")
    found = baselines.region_by_region(y, settings)
    np.testing.assert_allclose(found, ef.fit(y, settings).samples(), rtol=0, atol=1e-9)
    part, own = ef.beam(y, cell=8, regions=7, overlap=overlap), ef.paper(width=24, layers="own")
    found = baselines.region_by_region(y, own, partition=part)
    expected = ef.fit(y, own, partition=part).samples()
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-9)


def test_channels_and_cells_that_do_not_divide(rng):
    y = rng.standard_normal((3, 19, 21))
    settings = ef.paper(cell=8, width=16, layers="own")
    found = baselines.region_by_region(y, settings, channel_axis=0)
    expected = ef.fit(y, settings, channel_axis=0).samples()
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-10)


def test_some_regions_only(rng):
    y = rng.standard_normal((16, 16))
    found = baselines.region_by_region(y, ef.paper(cell=8, width=64), regions=3)
    assert np.isnan(found).sum() == 64
    np.testing.assert_allclose(found[:8], y[:8], rtol=0, atol=1e-6)


def test_tensors_are_taken_too(rng):
    y, settings = rng.standard_normal((16, 16)), ef.paper(cell=8, width=20)
    found, expected = (
        baselines.region_by_region(x, settings, solver="gels") for x in (torch.as_tensor(y), y)
    )
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"solver": "svd"}, '`solver` must be "lstsq", "gels" or "normal"; got'),
        ({"values": np.full((8, 8), np.nan)}, "`values` must hold finite numbers; got 64 that"),
        ({"values": np.ones((8, 8), complex)}, "`values` must hold real numbers; got dtype"),
        ({"values": np.ones((0, 8))}, "`values` must have at least one axis .* one sample; got"),
        ({"device": "nowhere"}, "`device` 'nowhere' cannot be used here"),
        ({"device": 1.5}, "`device` must be a name such as .* got 1.5"),
        ({"channel_axis": 2}, "`channel_axis` must be an axis of the array.* got 2"),
        ({"channel_axis": 0.5}, "`channel_axis` must be an axis of the array.* got 0.5"),
        ({"regions": 0}, "`regions` must be a whole number of at least 1; got 0"),
        ({"regions": 1.5}, "`regions` must be a whole number of at least 1; got 1.5"),
    ],
)
def test_bad_input_is_named(options, message):
    given = {"values": np.zeros((8, 8)), "settings": ef.paper(cell=8, width=4)} | options
    with pytest.raises(ValueError, match=message):
        baselines.region_by_region(**given)


@pytest.mark.parametrize("settings", [ef.smooth(), None, ef.paper])
def test_only_the_papers_settings_are_taken(settings):
    with pytest.raises(TypeError, match=r"`settings` must come from paper\(...\); got"):
        baselines.region_by_region(np.zeros((8, 8)), settings)
