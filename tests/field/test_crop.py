"""Part of a field is the same function, also around periodic axes."""

import numpy as np
import pytest

import elmfield as ef
from support import L_SHAPE, ROUND, close, on_given_cells, on_samples, partition, pixels


@pytest.mark.parametrize("labels", [None, np.kron(L_SHAPE, np.ones((2, 2), int))])
@pytest.mark.parametrize("settings", [ef.smooth(), ef.paper(width=20, cell=16, overlap=1)])
@pytest.mark.parametrize(
    ("low", "high"),
    [((20.2, 17.9), (55.5, 30.1)), ((-0.5, -0.5), (5, 5)), ((80, 60), (95.5, 95.5))],
)
def test_a_crop_is_the_same_function(labels, settings, low, high, rng):
    shape = (96, 96)
    part = None if labels is None else partition(shape, labels, 2.0)
    values = rng.standard_normal(shape)
    settings = settings if labels is None else on_given_cells(settings)
    field = ef.fit(values, settings, partition=part)
    crop = field.crop(low, high)
    assert crop.model.n_coefficients < field.model.n_coefficients
    x = np.asarray(low) + rng.random((200, 2)) * np.subtract(high, low)
    close(crop(x), field(x), 1e-9)
    close(crop.gradient(x), field.gradient(x), 1e-7)
    close(crop.integral(low, high), field.integral(low, high), 1e-8)
    close(crop([low, high]), field([low, high]), 1e-9)
    n = (7, 9)
    at = np.asarray(low) + (pixels((1, 1), n) + 0.5) * np.subtract(high, low)
    close(crop.resize(n, antialias=False), field(at), 1e-9)
    with pytest.raises(ef.OutsideDomainError, match="lie outside"):
        crop([np.add(high, 1e-3)])
    inner = tuple(slice(int(np.ceil(a)), int(np.floor(b)) + 1) for a, b in zip(low, high))
    close(on_samples(crop), on_samples(field)[inner], 1e-9)


@pytest.mark.parametrize(
    ("settings", "past"),
    [(ef.smooth(cell=10, coefficients=300), past) for past in (0.0, 1e-9, 1e-3, 0.1, 0.24, 0.26)]
    + [(ef.smooth(order=2, cell=8, overlap=0.5), past) for past in (0.0, 1e-3, 0.24)]
    + [(ef.smooth(order=1.5, cell=9, overlap=1 / 3), past) for past in (1e-9, 0.1, 0.26)]
    + [(ef.oriented(), past) for past in (1e-9, 0.24)],
)
def test_a_crop_may_end_just_past_a_blend(settings, past, rng):
    """Who spoke before the end of the blend was once asked beyond it."""
    field = ef.fit(rng.standard_normal((40, 26)), settings)
    part = field.model.blended.partition
    low, high = [-0.5, 1.0], [39.5, 24.0]
    low[0] = part.borders(0)[1] - part.overlap[0] - past
    high[0] = part.borders(0)[3] + part.overlap[0] + past
    x = rng.uniform(low, high, (30, 2))
    x[:10, 0], x[10:20, 0] = low[0], high[0]
    crop, size = field.crop(low, high), field.model.data_range
    tables = [
        field.tabulate(1e-6, 0, window={"axis0": (low[0], high[0]), "axis1": (low[1], high[1])}),
        crop.tabulate(1e-4, 1),
    ]
    for o, ask in enumerate(("__call__", "gradient", "hessian")):
        truth = getattr(field, ask)(x)
        # derivatives of polynomials of 20 terms are rounded 20² times as much (Markov)
        close(getattr(crop, ask)(x), truth, 1e-13 * 400**o * size)
        for table in tables:
            if o < len(table.errors):
                off = np.abs(getattr(table, ask)(x) - truth).max()
                assert off <= table.errors[o] + 1e-12 * 400**o
    close(crop(x[0]), field(x[0]), 1e-13 * size)
    axes = np.linspace(low[0], high[0], 9), [low[1], high[1]]
    close(crop.grid(*axes), field.grid(*axes), 1e-13 * size)
    thin = field.crop([np.nextafter(low[0], -1), 1.0], [low[0], 24.0])
    close(thin([low[0], 7.3]), field([low[0], 7.3]), 1e-13 * size)


def test_many_points_of_a_crop_are_those_of_the_field(rng):
    field = ef.fit(rng.standard_normal((40, 26)), ef.smooth(cell=8, overlap=0.5, order=2))
    end = field.model.blended.partition.borders(0)[3] + 0.5 + 0.24
    crop = field.crop([1.0, 2.0], [end, 20.3])
    x = rng.uniform([1.0, 2.0], [end, 20.3], (5000, 2))
    x[:500, 0] = end
    truth = field.model.blended.partials(x, [(0, 0), (1, 0)])
    for n in (5000, 700):
        for f in (crop, field):
            for found, expected in zip(f.model.partials(x[:n], [(0, 0), (1, 0)]), truth):
                close(found, expected[:n], 1e-10)


def test_a_crop_of_a_crop_and_its_units(rng):
    field = ef.fit(rng.standard_normal(100), coords=[50 - 0.5 * np.arange(100)])
    crop = field.crop([10], [40]).crop([12.25], [20])
    x = np.linspace(12.25, 20, 50)[:, None]
    close(crop(x), field(x), 1e-11)
    with pytest.raises(ValueError, match=r"axis 'axis0' covers \[12.25, 20\], got 12 to 20"):
        crop.crop([12], [20])
    with pytest.raises(ValueError, match="must span a box inside the domain"):
        crop.crop([15], [14])


def test_the_end_of_a_periodic_axis_belongs_to_a_crop(rng):
    field = ef.fit(rng.standard_normal(40), periodic=[0])
    crop = field.crop([5], [39.5])
    close(crop([[39.5], [5.0]]), field([[39.5], [5.0]]), 1e-12)
    close(on_samples(crop), on_samples(field)[5:], 1e-12)


@pytest.mark.parametrize(("c", "period"), ROUND, ids=["even", "long", "long down", "up", "down"])
def test_a_crop_of_a_periodic_axis_lies_in_any_turn(c, period, rng):
    field = ef.fit(rng.standard_normal(36), coords=[c], periodic={0: period})
    x = np.linspace(100, 140, 30)[:, None]
    for turn in (-2, 0, 1):
        crop = field.crop([100 + turn * period], [140 + turn * period])
        for other in (-1, 0):
            close(crop(x + other * period), field(x), 1e-9)
        close(crop.integral([101], [139]), field.integral([101], [139]), 1e-9)
        with pytest.raises(ValueError, match="inside the domain"):
            crop.integral([99], [139])
    whole = field.crop([-180], [period - 180])
    close(whole.samples(), field.samples(), 0)
    seam = field.domain.axes[0].from_index(np.array([35.5]))[0]
    with pytest.raises(ValueError, match=f"not reach over the seam .* {seam:g} on .* Crop"):
        field.crop([seam - 20], [seam + 5])
    close(field.crop([seam - 20], [seam])([[seam - 3]]), field([[seam - 3]]), 1e-9)
    close(field.crop([seam], [seam + 5])([[seam + 3]]), field([[seam + 3]]), 1e-9)
