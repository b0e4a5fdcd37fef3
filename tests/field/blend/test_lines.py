"""One axis at very many positions, by one polynomial for every sample."""

import numpy as np
import pytest

import elmfield as ef
from elmfield.field.blend import grids, means
from elmfield.field.blend.grids import RUN_POSITIONS, along
from support import close


@pytest.mark.parametrize(
    "settings",
    [
        ef.smooth(),
        ef.smooth(order=16, context=32, mirrored=True),
        ef.smooth(order=3, cell=10, overlap=0),
        ef.smooth(order=2, cell=9, overlap=0.5),
    ],
)
@pytest.mark.parametrize("n", [1, 5, 70, 700])
def test_it_is_the_same_function(rng, settings, n):
    field = ef.fit(rng.standard_normal((n, 2)), settings, channel_axis=1)
    x = np.sort(rng.uniform(0, n - 1, 3 * n))
    x[:2] = 0, min(0.5, n - 1)
    x = np.sort(np.append(x, n - 1.0))
    close(along(field.model.blended, x), field.model.blended.on_grid([x]), 1e-9)


def test_runs_of_positions_meet(rng):
    field = ef.fit(rng.standard_normal(300))
    x = np.linspace(0, 299, RUN_POSITIONS + 77)
    seam = slice(RUN_POSITIONS - 50, RUN_POSITIONS + 50)
    close(along(field.model.blended, x)[seam], field.model.blended.on_grid([x[seam]]), 1e-9)


def test_round_a_period(rng):
    blended = ef.fit(rng.standard_normal(300), periodic=[0]).model.blended
    x = np.sort(rng.uniform(-0.5, 299.49, 900))
    close(along(blended, x), blended.on_grid([x]), 1e-12)


def test_a_few_positions_of_many_regions(rng):
    blended = ef.fit(rng.standard_normal((5000, 2)), channel_axis=1).model.blended
    x = np.sort(rng.uniform(0, 4999, 60))
    close(along(blended, x), blended.on_grid([x]), 1e-12)


@pytest.mark.thorough
@pytest.mark.parametrize("options", [{}, {"periodic": [0]}])
def test_means_in_parts_are_means(rng, options, monkeypatch):
    field = ef.fit(rng.standard_normal(3000), **options)
    whole = field.resize(2500)
    monkeypatch.setattr(means, "MEANS_MAX_BOXES", 700)
    close(field.resize(2500), whole, 1e-13)
    monkeypatch.setattr(grids, "along", lambda *_: None)
    close(whole, field.resize(2500), 1e-12)


def test_where_it_does_not_lead(rng):
    assert along(ef.fit(rng.random((8, 8))).model.blended, np.zeros(1)) is None
    assert along(ef.fit(rng.random(40), ef.paper(width=8)).model.blended, np.zeros(1)) is None
