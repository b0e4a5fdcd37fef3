"""Channels that say much the same: turned into few that say most."""

import numpy as np

from elmfield.codec.lossy.boxes import Floats

MOST = 32
"""Channels that are turned at most; the matrix has their square."""
BITS = 14
LEAST = 2.0**-7
"""The squared difference of neighbouring samples, in steps, where a channel stops to matter."""


def turned(x: Floats) -> Floats | None:
    """A matrix (C, C) in 2^-14 that makes samples from channels that say different things.

    None where that does not pay. Its columns are the main axes of the differences between
    neighbouring samples; what counts for bits is the product of variances.
    """
    C = len(x)
    if not 1 < C <= MOST:
        return None
    S = np.zeros((C, C))
    for k in range(1, x.ndim):
        if x.shape[k] > 1:
            D = np.diff(x, axis=k).reshape(C, -1)
            S += D @ D.T / D.shape[1]
    # below the step nothing is coded, but low modes of a box gather what many samples say
    own = np.log2(np.diag(S) + LEAST).sum()
    values, axes = np.linalg.eigh(S + 1e-9 * np.trace(S) * np.eye(C))
    main = np.log2(np.maximum(values, 0) + LEAST).sum()
    if own - main < 0.05:
        return None
    axes = axes[:, ::-1] * np.where(axes.sum(axis=0)[::-1] < 0, -1, 1)
    return np.asarray(np.rint(axes * (1 << BITS)))


def apart(x: Floats, M: Floats) -> Floats:
    """Independent channels of samples."""
    back = np.linalg.solve(M / (1 << BITS), x.reshape(len(x), -1))
    return np.asarray(back, np.float64).reshape(x.shape)


def together(y: Floats, M: Floats) -> Floats:
    """Whole samples of whole independent channels: ``floor((M y + 2^13) / 2^14)``, exact."""
    z = M @ y.reshape(len(y), -1)
    return np.floor((z + (1 << BITS >> 1)) * 2.0**-BITS).reshape(y.shape)
