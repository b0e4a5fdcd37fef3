"""Places on long axes, made where they are looked at: the same as all of them in a list."""

import numpy as np
import pytest

import elmfield as ef
from elmfield.field.coordinates import output_positions
from support import close


@pytest.mark.parametrize("periodic", [(), 0], ids=["open", "periodic"])
@pytest.mark.parametrize("options", [{}, {"antialias": False}], ids=["means", "points"])
@pytest.mark.parametrize("size", [700, 2100, 9000])
def test_long_axes_give_what_short_ones_do(size, options, periodic, monkeypatch):
    values = np.sin(np.arange(5000) ** 1.3 / 50)
    field = ef.fit(values, ef.smooth(order=2), periodic=periodic)
    listed = field.resize(size, **options), field.samples()
    monkeypatch.setattr(output_positions, "LISTED_MAX_PLACES", 100)
    with ef.memory_limit(1 << 16):  # some hundred places at a time
        found = field.resize(size, **options), field.samples()
    close(found[0], listed[0], 1e-10)
    close(found[1], listed[1], 1e-10)


def test_a_stretch_has_its_own_places_and_edges(monkeypatch):
    monkeypatch.setattr(output_positions, "LISTED_MAX_PLACES", 10)
    x = output_positions.even(-0.5, 99.5, 25)
    whole = x[:]
    close(whole, 1.5 + 4 * np.arange(25), 1e-12)

    def edges(c):
        return np.concatenate([[c[0] - 2], (c[:-1] + c[1:]) / 2, [c[-1] + 2]])

    around = output_positions.between(x, edges)
    assert len(around) == 26
    for i, j in ((0, 26), (0, 3), (7, 9), (20, 26)):
        close(x[i:j], whole[i:j], 0)
        close(around[i:j], edges(whole)[i:j], 1e-12)
