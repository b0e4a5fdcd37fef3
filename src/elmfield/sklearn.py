"""Estimators of scikit-learn: scattered samples by regression, arrays as coefficients."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from elmfield._array.checks import sizes_of
from elmfield._array.typing import Array, Floats
from elmfield.errors import MissingExtraError
from elmfield.fit.scattered.points import fit_points
from elmfield.io.api import fit
from elmfield.local.bases.axis_modes import axis_modes
from elmfield.settings import smooth

try:
    from sklearn import base
    from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data
except ImportError as error:
    raise MissingExtraError(
        "`elmfield.sklearn` needs scikit-learn 1.6 or newer; pip install 'elmfield[sklearn]'."
    ) from error

__all__ = ["FieldRegressor", "FieldTransformer"]


class FieldRegressor(base.MultiOutputMixin, base.RegressorMixin, base.BaseEstimator):
    """Regression by a field through scattered samples, or near noisy ones: `elmfield.fit_points`.

    Parameters
    ----------
    order : float or "auto"
        How smooth the function is; "auto" chooses by the samples.
    denoise : bool or float
        True estimates the noise's level, a number is its standard deviation, False passes through
        the samples.
    spacing : float or sequence of float, optional
        As for `elmfield.fit_points`: one per feature where their units differ. Or put a
        ``StandardScaler`` before it in a pipeline.

    Attributes
    ----------
    field_ : Field
        The function: it also has derivatives, integrals and a file format.

    Notes
    -----
    Features are coordinates: one to three, as of maps and volumes, are cut into regions, and time
    grows with the number of samples. From about six on there is one region, a sum of kernels around
    at most 4000 samples, and its cost grows with their cube. Points outside the samples' bounding
    box get the value at its border.

    Examples
    --------
    >>> import numpy as np
    >>> from elmfield.sklearn import FieldRegressor
    >>> X = np.random.default_rng(0).uniform(size=(200, 2))
    >>> model = FieldRegressor(denoise=False).fit(X, X[:, 0] - X[:, 1])
    >>> model.predict([[0.5, 0.25]]).round(6)
    array([0.25])
    """

    def __init__(
        self,
        *,
        order: float | str = "auto",
        denoise: float | bool = True,
        spacing: float | Sequence[float] | None = None,
    ) -> None:
        self.order = order
        self.denoise = denoise
        self.spacing = spacing

    def fit(self, X: Array, y: Array, sample_weight: Array | None = None) -> "FieldRegressor":
        """Fit samples y, (n,) or (n, outputs), at points X, (n, features).

        The noise of each has a variance of 1 / `sample_weight`, (n,), in parts of what `denoise`
        says.
        """
        X, y = validate_data(self, X, y, dtype=np.float64, multi_output=True, y_numeric=True)
        self.field_ = fit_points(
            X,
            np.asarray(y, np.float64),
            smooth(order=self.order, denoise=self.denoise),
            spacing=self.spacing,
            weights=_check_sample_weight(sample_weight, X, dtype=np.float64),
        )
        return self

    def predict(self, X: Array, return_std: bool = False) -> Any:
        """Values at points X, (n, features): (n,) or (n, outputs); and their deviations."""
        check_is_fitted(self)
        X = validate_data(self, X, dtype=np.float64, reset=False)
        values = np.asarray(self.field_(X, outside="nearest"))
        return (values, np.asarray(self.field_.std(X, outside="nearest"))) if return_std else values


class FieldTransformer(
    base.ClassNamePrefixFeaturesOutMixin, base.TransformerMixin, base.BaseEstimator
):
    """Arrays of one shape as coefficients of smooth functions, and back.

    Every row is an array, fitted by a field of a fixed order. Its coefficients belong to modes that
    all arrays share: arrays of another resolution, seen through a transformer with the same
    `modes`, have coefficients of the same meaning. Both ways are linear.

    Parameters
    ----------
    shape : sequence of int, optional
        Of the arrays that rows are; by default a line of all features.
    modes : sequence of int, optional
        Modes along each axis, smooth ones first; by default as many as samples.
    order : float
        Of the fields, and of the modes.
    samples : {"points", "means"}
        What the numbers are, as for :func:`elmfield.fit`; pixels of a camera are means.

    Examples
    --------
    >>> import numpy as np
    >>> from elmfield.sklearn import FieldTransformer
    >>> X = np.random.default_rng(0).uniform(size=(5, 64))
    >>> fine = FieldTransformer(shape=(8, 8), modes=(6, 6)).fit(X)
    >>> fine.transform(X).shape, fine.inverse_transform(fine.transform(X)).shape
    ((5, 36), (5, 64))
    """

    def __init__(
        self,
        *,
        shape: Sequence[int] | None = None,
        modes: Sequence[int] | None = None,
        order: float = 2.0,
        samples: str = "points",
    ) -> None:
        self.shape = shape
        self.modes = modes
        self.order = order
        self.samples = samples

    def fit(self, X: Array, y: object = None) -> "FieldTransformer":
        """Check that rows of X are arrays of the shape; there is nothing to learn."""
        X = validate_data(self, X, dtype=np.float64)
        self.shape_ = sizes_of("shape", X.shape[1] if self.shape is None else self.shape, least=1)
        self.modes_ = self.shape_ if self.modes is None else sizes_of("modes", self.modes, least=1)
        if math.prod(self.shape_) != X.shape[1] or len(self.modes_) != len(self.shape_):
            raise ValueError(
                f"`shape` must have as many samples as rows, {X.shape[1]}, and `modes` as many "
                f"axes; got {self.shape_} and {self.modes_}."
            )
        self._n_features_out = math.prod(self.modes_)
        return self

    def transform(self, X: Array) -> Floats:
        """Coefficients, (n, modes), of arrays that are rows of X."""
        check_is_fitted(self)
        X = validate_data(self, X, dtype=np.float64, reset=False)
        return self._turned(self._resized(X, self.shape_, self.modes_), back=False)

    def inverse_transform(self, X: Array) -> Floats:
        """Arrays, (n, samples), of coefficients that are rows of X."""
        check_is_fitted(self)
        X, n = np.asarray(X, np.float64), self._n_features_out
        if X.ndim != 2 or X.shape[1] != n:
            raise ValueError(f"`X` must have shape (n, {n}); got {X.shape}.")
        return self._resized(self._turned(X, back=True), self.modes_, self.shape_)

    def _turned(self, rows: Floats, back: bool) -> Floats:
        """Samples on the grid of modes as coefficients, or back: an orthonormal basis per axis."""
        values = rows.reshape(-1, *self.modes_)
        for k, n in enumerate(self.modes_):
            U = axis_modes(n, self.order).basis
            turned = np.tensordot(values, U.T if back else U, ((k + 1,), (0,)))
            values = np.moveaxis(turned, -1, k + 1)
        return np.ascontiguousarray(values.reshape(rows.shape))

    def _resized(self, rows: Floats, shape: tuple[int, ...], target: tuple[int, ...]) -> Floats:
        """Rows as arrays of another shape, each the field of the first one seen there."""
        if shape == target:
            return rows
        values, settings = np.moveaxis(rows.reshape(-1, *shape), 0, -1), smooth(order=self.order)
        field = fit(values, settings, channel_axis=-1, samples=self.samples)
        return np.moveaxis(np.asarray(field.resize(target)), -1, 0).reshape(len(rows), -1)
