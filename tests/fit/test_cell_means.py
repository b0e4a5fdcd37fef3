"""Samples that are means: the field gives them back, and is better between them."""

import numpy as np
import pytest

import elmfield as ef
from support import close


def cells(field):
    return [a.from_index(np.arange(a.size + 1) - 0.5) for a in field.domain.axes]


@pytest.mark.parametrize(
    ("shape", "options"),
    [
        ((40,), {}),
        ((29, 31), {}),
        ((24, 30), {"periodic": (1,)}),
        ((24, 30), {"coords": [90 - 2.0 * np.arange(24), None]}),
        ((24, 30), {"coords": [np.cumsum(1 + 0.5 * np.sin(np.arange(24))), None]}),
        ((9, 10, 11), {}),
        ((22, 21, 2), {"channel_axis": -1}),
    ],
)
def test_means_come_back(shape, options, rng):
    values = rng.standard_normal(shape) + 5
    field = ef.fit(values, samples="means", **options)
    close(field.means(*cells(field)), values, 1e-10)
    # The same samples as points give means that are not these.
    assert np.abs(ef.fit(values, **options).means(*cells(field)) - values).max() > 0.1


@pytest.mark.parametrize("settings", [ef.smooth(order=1.3), ef.smooth(order=3), ef.oriented()])
def test_whatever_is_believed(settings, rng):
    values = rng.standard_normal((26, 28))
    field = ef.fit(values, settings, samples="means")
    close(field.means(*cells(field)), values, 1e-10)


def test_a_function_is_nearer_by_its_means_if_means_are_what_is_known():
    edges = np.arange(65) - 0.5
    F = -np.cos(0.5 * edges) / 0.5
    values = np.diff(F)  # means of sin(x / 2) over cells of one
    x = np.arange(8, 56, 0.1)
    by_means, by_points = (
        np.abs(ef.fit(values, samples=s)(x[:, None]) - np.sin(0.5 * x)).max()
        for s in ("means", "points")
    )
    assert by_means < by_points / 20


def test_gaps_are_left_out(rng):
    values = rng.standard_normal((24, 26))
    values[4:9, 7:15] = np.nan
    field = ef.fit(values, samples="means", missing="nan")
    got = field.means(*cells(field))
    assert np.array_equal(np.isnan(got), np.isnan(values))
    close(got[~np.isnan(values)], values[~np.isnan(values)], 1e-10)


def test_single_precision_and_complex_numbers(rng):
    values = rng.standard_normal((20, 22))
    field = ef.fit(values.astype(np.float32), samples="means")
    assert field.dtype == np.float32
    close(field.means(*cells(field)), values, 1e-4)
    both = values + 1j * rng.standard_normal((20, 22))
    close(ef.fit(both, samples="means").means(*cells(field)), both, 1e-10)


def test_what_cannot_give_means_back_is_refused(rng):
    values = rng.standard_normal((20, 22))
    with pytest.raises(ValueError, match="samples='means' is for settings that meet every sample"):
        ef.fit(values, ef.smooth(psnr=30), samples="means")
    with pytest.raises(ValueError, match="`samples` must be one of"):
        ef.fit(values, samples="areas")
    with pytest.warns(ef.RankWarning, match="the field's means still differ from the samples by"):
        ef.fit(values, ef.paper(cell=8, width=10), samples="means")
