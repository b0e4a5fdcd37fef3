"""SciPy's tests of `RBFInterpolator`, answered by `fit_points`."""

import pytest
from scipy.interpolate.tests import test_rbfinterp as theirs

from outside.shims import RBFInterpolator

pytestmark = pytest.mark.filterwarnings("ignore")


class TestRBFInterpolator(theirs.TestRBFInterpolatorNeighborsNone):
    def build(self, *args, **kwargs):
        return RBFInterpolator(*args, **kwargs)
