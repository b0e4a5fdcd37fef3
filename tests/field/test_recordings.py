"""One axis at very many positions, by one polynomial for every sample."""

import numpy as np
import pytest

import elmfield as ef
from elmfield.field.recordings import LONGEST, along
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
    close(along(field.blended, x), field.blended.on_grid([x]), 1e-9)


def test_runs_of_positions_meet(rng):
    field = ef.fit(rng.standard_normal(300))
    x = np.linspace(0, 299, LONGEST + 77)
    seam = slice(LONGEST - 50, LONGEST + 50)
    close(along(field.blended, x)[seam], field.blended.on_grid([x[seam]]), 1e-9)


def test_where_it_does_not_lead(rng):
    x = np.arange(3.0)
    assert along(ef.fit(rng.random((8, 8))).blended, x) is None
    assert along(ef.fit(rng.random(40), periodic=[0]).blended, x) is None
    assert along(ef.fit(rng.random(40), ef.paper(width=8)).blended, x) is None
