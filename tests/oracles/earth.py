"""Grids on the sphere, slowly: conservative weights of first order, derivatives by differences."""

import numpy as np


def overlaps(old, new, measure):
    """What cell i of the new edges has of cell j of the old ones, (n, m), by a measure of both."""
    W = np.zeros((len(new) - 1, len(old) - 1))
    for i in range(len(new) - 1):
        for j in range(len(old) - 1):
            low, high = max(new[i], old[j]), min(new[i + 1], old[j + 1])
            if high > low:
                W[i, j] = measure(low, high)
    return W


def conservative(values, lat, lon, new_lat, new_lon):
    """Means of piecewise constant cells over others, by area, as xESMF's first order has them.

    All are ascending edges in degrees; cells of the old grid cover those of the new one.
    """
    by_sine = overlaps(lat, new_lat, lambda a, b: np.sin(np.deg2rad(b)) - np.sin(np.deg2rad(a)))
    by_angle = overlaps(lon, new_lon, lambda a, b: b - a)
    by_sine /= by_sine.sum(axis=1, keepdims=True)
    by_angle /= by_angle.sum(axis=1, keepdims=True)
    return by_sine @ values @ by_angle.T


def area_mean(means, lat, lon):
    """Mean of cells by their area on the sphere."""
    w = np.diff(np.sin(np.deg2rad(lat)))[:, None] * np.diff(lon)
    return np.sum(means * w) / np.sum(w)


def metpy_gradient(values, lat, lon, radius):
    """Northward and eastward derivative by central differences over great-circle spacings.

    The formula of MetPy's `gradient` with the spacings of its `lat_lon_grid_deltas`, on a sphere,
    for evenly spaced latitudes (any order) and longitudes that go round.
    """
    dy = radius * np.deg2rad(lat[1] - lat[0])
    north = np.gradient(values, dy, axis=0)
    dx = radius * np.deg2rad(lon[1] - lon[0]) * np.cos(np.deg2rad(lat))[:, None]
    east = (np.roll(values, -1, axis=1) - np.roll(values, 1, axis=1)) / (2 * dx)
    return north, east
