"""What other libraries do with the same samples: splines, block cosines, denoising, gaps."""

import time

import numpy as np
from scipy.fft import dct
from scipy.interpolate import RBFInterpolator, griddata, make_interp_spline
from scipy.linalg import block_diag
from scipy.ndimage import map_coordinates

import elmfield as ef
from measurement.heldout import halves

SPLINES = {"linear": 1, "cubic": 3, "quintic": 5}


# --- splines --------------------------------------------------------------------------------------


def spline_at(values, order, grid, channels=None):
    """An interpolating spline of `scipy.ndimage`, mirrored at the edges, on a grid of indices."""
    where = np.stack(np.meshgrid(*grid, indexing="ij"))
    planes = [values] if channels is None else np.moveaxis(values, -1, 0)
    found = [map_coordinates(p, where, order=order, mode="mirror") for p in planes]
    return found[0] if channels is None else np.stack(found, axis=-1)


def spline(values, order, channels=None, step=2):
    """All samples, predicted from every second one."""
    thin, grid = halves(values, channels, step)
    return spline_at(thin, order, grid, channels)


def spline_1d(values, order):
    """The same along axis 0 only, other axes being channels (not-a-knot ends)."""
    n = len(values)
    return make_interp_spline(np.arange(0, n, 2), values[::2], k=order)(np.arange(n))


# --- cosines in blocks, as JPEG has them ----------------------------------------------------------


def block_transform(n, cell=8):
    """Orthonormal cosines of n samples in blocks, the last one perhaps smaller, shape (n, n)."""
    sizes = [min(cell, n - a) for a in range(0, n, cell)]
    return block_diag(*(dct(np.eye(w), axis=0, norm="ortho") for w in sizes))


def cosine_matrix(n, x, cell=8):
    """From n samples to their block cosine series at coordinates x, shape (len(x), n)."""
    G = np.zeros((len(x), n))
    for a in range(0, n, cell):
        w = min(cell, n - a)  # the last block may be smaller
        inside = (x >= a - 0.5) & (x < a + w - 0.5)
        k = np.arange(w)
        waves = np.cos(np.pi * np.outer(x[inside] - a + 0.5, k) / w)
        own = np.cos(np.pi * np.outer(np.arange(w) + 0.5, k) / w)
        G[inside, a : a + w] = (waves * np.where(k == 0, 1, 2) / w) @ own.T
    return G


def cosines_at(values, grid, cell=8):
    """Block cosine series of all samples on a grid of indices; further axes are channels."""
    for k, x in enumerate(grid):
        G = cosine_matrix(values.shape[k], x, cell)
        values = np.moveaxis(np.tensordot(G, values, (1, k)), 0, k)
    return values


# --- denoising ------------------------------------------------------------------------------------


def denoised(noisy, level, clean):
    """Pictures between 0 and 255 by scikit-image's ways; total variation by its best weight.

    That weight is chosen with the clean picture, which favours it.
    """
    from skimage.restoration import (
        denoise_nl_means,
        denoise_tv_chambolle,
        denoise_wavelet,
        estimate_sigma,
    )

    y, guess = noisy / 255, estimate_sigma(noisy / 255)
    smoothed = [
        255 * denoise_tv_chambolle(y, weight=w * level / 255) for w in (0.35, 0.5, 0.7, 1, 1.4, 2)
    ]
    return {
        "wavelet": 255 * denoise_wavelet(y, rescale_sigma=True),
        "wavelet db2": 255 * denoise_wavelet(y, wavelet="db2", rescale_sigma=True),
        "total variation": max(smoothed, key=lambda x: ef.psnr(clean, x, data_range=255)),
        "non-local means": 255 * denoise_nl_means(y, h=0.8 * guess, sigma=guess, fast_mode=True),
    }


# --- gaps -----------------------------------------------------------------------------------------


def filled(values, missing):
    """Missing samples by SciPy's ways for scattered points: name, what they are, seconds."""
    have, want, known = np.argwhere(~missing), np.argwhere(missing), values[~missing]

    def by_triangles(method):
        found = griddata(have, known, want, method=method)
        # Outside the hull of the samples there are no triangles.
        return np.where(np.isnan(found), griddata(have, known, want, method="nearest"), found)

    ways = {
        "griddata linear": lambda: by_triangles("linear"),
        "griddata cubic": lambda: by_triangles("cubic"),
        "thin plate": lambda: RBFInterpolator(have, known, neighbors=50)(want),
    }
    for name, way in ways.items():
        start = time.perf_counter()
        found = way()
        yield name, found, time.perf_counter() - start
