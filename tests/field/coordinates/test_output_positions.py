"""Grids on long axes, a few rows at a time: the same as all at once."""

import numpy as np
import pytest

import elmfield as ef
from support import close


@pytest.mark.parametrize("periodic", [(), 0], ids=["open", "periodic"])
@pytest.mark.parametrize("options", [{}, {"antialias": False}], ids=["means", "points"])
@pytest.mark.parametrize("size", [700, 2100, 9000])
def test_little_memory_gives_what_much_does(size, options, periodic):
    values = np.sin(np.arange(5000) ** 1.3 / 50)
    field = ef.fit(values, ef.smooth(order=2), periodic=periodic)
    listed = field.resize(size, **options), field.samples()
    with ef.memory_limit(1 << 16):  # some hundred places at a time
        found = field.resize(size, **options), field.samples()
    close(found[0], listed[0], 1e-10)
    close(found[1], listed[1], 1e-10)
