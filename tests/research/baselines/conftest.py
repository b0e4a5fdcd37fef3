"""Arrays small enough to train on."""

import pytest
from skimage import data, transform

from support import on_grid, wave


@pytest.fixture(scope="module")
def camera():
    return transform.resize(data.camera(), (32, 32), anti_aliasing=True)


@pytest.fixture
def small(rng):
    return 5 + 3 * on_grid(wave, (9, 12))
