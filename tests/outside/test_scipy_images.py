"""SciPy's tests of `map_coordinates`, answered by fields."""

import pytest
from scipy.ndimage.tests import test_interpolation as theirs

from outside.shims import map_coordinates

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(autouse=True)
def ours(monkeypatch):
    monkeypatch.setattr(theirs.ndimage, "map_coordinates", map_coordinates)


class TestMapCoordinates(theirs.TestMapCoordinates):
    pass
