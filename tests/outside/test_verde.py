"""verde's tests of gridders, answered by `fit_points`."""

from unittest import mock

import numpy as np
import pytest

import elmfield as ef

verde = pytest.importorskip("verde", reason="verde is not installed: pip install verde")


class FieldGridder(verde.base.BaseGridder):
    """A field as one of verde's gridders; its options are taken and have no meaning."""

    def __init__(self, method=None, k=1, reduction=None, rescale=True, damping=None, **options):
        super().__init__()
        self.method, self.k, self.reduction, self.rescale = method, k, reduction, rescale
        self.damping, self.options = damping, options

    def fit(self, coordinates, data, weights=None):
        coordinates = [np.ravel(c) for c in coordinates[:2]]
        self.region_ = verde.get_region(coordinates)
        weights = None if weights is None else np.ravel(weights)
        x, is_noisy = np.stack(coordinates, axis=-1), weights is not None
        self.field_ = ef.fit_points(x, np.ravel(data), weights=weights, denoise=is_noisy)
        return self

    def predict(self, coordinates):
        shape = np.broadcast(*coordinates[:2]).shape
        x = np.stack([np.ravel(c) for c in coordinates[:2]], axis=-1).astype(float)
        return np.asarray(self.field_(x, outside="nearest")).reshape(shape)


with mock.patch.multiple("verde.spline", Spline=FieldGridder), \
     mock.patch.multiple("verde.neighbors", KNeighbors=FieldGridder), \
     mock.patch.multiple("verde.scipygridder", ScipyGridder=FieldGridder, Linear=FieldGridder,
                         Cubic=FieldGridder):  # fmt: skip
    from verde.tests.test_neighbors import *  # noqa: F403
    from verde.tests.test_scipy import *  # noqa: F403
    from verde.tests.test_spline import *  # noqa: F403

pytestmark = pytest.mark.filterwarnings("ignore")
