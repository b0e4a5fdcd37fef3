"""scikit-learn's own checks of estimators, unchanged."""

import pytest

pytest.importorskip("sklearn", minversion="1.6")

from sklearn.utils.estimator_checks import parametrize_with_checks

from elmfield.sklearn import FieldRegressor, FieldTransformer

pytestmark = pytest.mark.filterwarnings("ignore")  # checks warn of what they do themselves


@parametrize_with_checks([FieldRegressor(), FieldRegressor(denoise=False), FieldTransformer()])
def test_estimators(estimator, check):
    check(estimator)
