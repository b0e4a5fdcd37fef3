"""Fields behind the interfaces of SciPy's interpolators, as thin as can be."""

import numpy as np

import elmfield as ef


class RegularGridInterpolator:
    """`scipy.interpolate.RegularGridInterpolator`, answered by a field of a fixed order."""

    def __init__(self, points, values, method="linear", bounds_error=True, fill_value=np.nan, **_):
        values = np.asarray(values)
        if len(points) > values.ndim:
            raise ValueError(
                f"There are {len(points)} point arrays, but values has {values.ndim} dimensions"
            )
        self.grid, d = [np.asarray(p, float) for p in points], len(points)
        self.bounds_error, self.fill_value, self.rest = bounds_error, fill_value, values.shape[d:]
        order = 1.1 if method == "linear" else 2.0
        flat = values.reshape(*values.shape[:d], -1)
        self.field = ef.fit(flat, ef.smooth(order=order), coords=self.grid, channel_axis=-1)

    def __call__(self, xi, method=None, *, nu=None):
        xi = np.stack(np.broadcast_arrays(*xi), axis=-1) if isinstance(xi, tuple) else xi
        xi = np.asarray(xi, float)
        d = len(self.grid)
        xi = xi[:, None] if xi.ndim == 1 and d == 1 else np.atleast_2d(xi)
        if xi.shape[-1] != d:
            raise ValueError(f"The requested sample points xi have dimension {xi.shape[-1]}")
        low, high = (np.asarray([f(g) for g in self.grid]) for f in (np.min, np.max))
        is_nan, out = np.isnan(xi), (xi < low) | (xi > high)
        if self.bounds_error and (out | is_nan).any():
            k = int(np.argmax((out | is_nan).reshape(-1, d).any(axis=0)))
            raise ValueError(f"One of the requested xi is out of bounds in dimension {k}")
        place = np.clip(np.where(is_nan, low, xi), low, high)
        if nu is not None and np.shape(nu) != (d,):
            raise ValueError(f"`nu` must have {d} numbers, one for each axis")
        along = [] if nu is None else np.repeat(np.arange(d), nu)
        ask = (self.field, self.field.gradient, self.field.hessian)[len(along)]
        found = np.array(ask(place))[(..., *along)]
        found[is_nan.any(axis=-1)] = np.nan
        if self.fill_value is not None:
            found[out.any(axis=-1)] = self.fill_value
        return found.reshape(xi.shape[:-1] + self.rest)


class RBFInterpolator:
    """`scipy.interpolate.RBFInterpolator`, answered by `fit_points`."""

    def __init__(self, y, d, neighbors=None, smoothing=0.0, kernel=None, epsilon=None, degree=None):
        y, d = np.asarray(y, float), np.asarray(d)
        if y.ndim != 2:
            raise ValueError("`y` must be a 2-dimensional array.")
        if len(d) != len(y):
            raise ValueError(f"Expected the first axis of `d` to have length {len(y)}.")
        self.rest = d.shape[1:]
        # SciPy's is a function of all space: a box three times as wide stands for it.
        low, high = y.min(axis=0), y.max(axis=0)
        margin = np.where(high > low, high - low, 1.0)
        self.field = ef.fit_points(
            y,
            d.reshape(len(d), -1),
            ef.smooth(order=1.5 if kernel == "linear" else 2.0),
            bounds=(low - margin, high + margin),
            denoise=bool(np.any(smoothing)),
        )

    def __call__(self, x):
        x = np.asarray(x, float)
        if x.ndim != 2:
            raise ValueError("`x` must be a 2-dimensional array.")
        if x.shape[1] != len(self.field.shape):
            raise ValueError(f"Expected the second axis of `x`: {len(self.field.shape)}.")
        return np.asarray(self.field(x, outside="nearest")).reshape(len(x), *self.rest)


def map_coordinates(input, coordinates, output=None, order=3, mode="constant", cval=0.0, **_):
    """`scipy.ndimage.map_coordinates`, answered by a field."""
    input = np.asarray(input)
    x = np.moveaxis(np.asarray(coordinates, float), 0, -1)
    high = np.asarray(input.shape) - 1.0
    out = ((x < 0) | (x > high)).any(axis=-1)
    field = ef.fit(input, ef.smooth(order=(order + 1) / 2), channel_axis=None)
    values = np.array(field(np.clip(x, 0, high)))
    if mode == "constant":
        values = np.where(out, cval, values)
    if isinstance(output, np.ndarray):
        output[...] = values
        return None
    dtype = np.dtype(input.dtype if output is None else output)
    return (np.round(values) if dtype.kind in "iu" else values).astype(dtype)
