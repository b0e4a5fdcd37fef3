"""Fields that several tests of this package use."""

import numpy as np
import pytest

import elmfield as ef
from support import hills, on_grid


@pytest.fixture(scope="module")
def whole():
    """The same in one region, whose own border is far from where the tests look."""
    return ef.fit(on_grid(lambda x: hills(x)[0], (50, 45)), ef.smooth(order=3, cell=50))


@pytest.fixture(scope="module")
def rough():
    return ef.fit(np.random.default_rng(5).standard_normal((37, 41)))
