"""SciPy's tests of `RegularGridInterpolator`, answered by fields."""

import pytest
from scipy.interpolate.tests import test_rgi as theirs

from outside.shims import RegularGridInterpolator

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(autouse=True)
def ours(monkeypatch):
    monkeypatch.setattr(theirs, "RegularGridInterpolator", RegularGridInterpolator)


class TestRegularGridInterpolator(theirs.TestRegularGridInterpolator):
    pass
