"""SciPy's tests of `RegularGridInterpolator`, answered by fields."""

import pytest
from numpy.testing import assert_allclose
from scipy.interpolate.tests import test_rgi as theirs

from outside.shims import RegularGridInterpolator

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(autouse=True)
def ours(monkeypatch):
    monkeypatch.setattr(theirs, "RegularGridInterpolator", RegularGridInterpolator)


@pytest.fixture(autouse=True)
def to_rounding(monkeypatch, request):
    """Reversed axes agree to rounding, where SciPy's agree bit for bit: it turns them round."""
    if request.node.originalname == "test_descending_points_nd":
        monkeypatch.setattr(theirs, "xp_assert_equal", lambda a, b: assert_allclose(a, b, 1e-12))


class TestRegularGridInterpolator(theirs.TestRegularGridInterpolator):
    pass
