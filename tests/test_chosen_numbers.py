"""What the tuned constants make of fixed arrays: a constant that is changed turns a number here.

These are no claims of quality. Whoever changes a constant runs the measurement that chose it (its
docstring names it), and writes the new numbers here. They hold to four digits: rounding differs
between machines by far less.
"""

import numpy as np
import pytest
import skimage.data
from scipy.ndimage import map_coordinates

import elmfield as ef
from elmfield.codec import pack


def picture():
    """64 × 64 samples of a photograph with sky, edges and grass."""
    return skimage.data.camera()[130:194, 210:274].astype(np.float64)


def noisy():
    return picture() + 15 * np.random.default_rng(0).standard_normal((64, 64))


def colours(noise=15):
    random = np.random.default_rng(0).standard_normal((64, 64, 3))
    return picture()[..., None] * [1.0, 0.8, 1.2] + noise * random


def counts():
    return np.random.default_rng(0).poisson(picture() - picture().min())


def holes(share=0.5, n=64):
    gone = np.random.default_rng(1).random((n, n)) < share
    return np.where(gone, np.nan, picture()[:n, :n])


def hole():
    y, x = np.mgrid[0:64, 0:64]
    return np.where(np.hypot(y - 30, x - 20) < 9, np.nan, picture())


def volume():
    z, y, x = np.mgrid[0:14, 0:18, 0:20]
    return np.sin(0.4 * z + 0.02 * y**2) + np.cos(0.5 * x) * (y > 8)


def off(field, truth):
    """Root of the mean squared error at the samples."""
    return float(np.sqrt(np.mean((np.asarray(field.samples(missing="fill")) - truth) ** 2)))


def between(field):
    """How far values between samples are from straight lines, which depends on all there is."""
    at = np.stack(np.meshgrid(*(np.arange(0.5, n - 1, 1.7) for n in field.shape)), -1)
    lines = map_coordinates(field.samples(missing="fill"), np.moveaxis(at, -1, 0), order=1)
    return float(np.sqrt(np.mean((field(at, missing="fill") - lines) ** 2)))


def scattered(d, n, noise=0.0, **options):
    rng = np.random.default_rng(d)
    x, q = rng.random((n, d)), 0.1 + 0.8 * rng.random((200, d))
    y = np.sin(9 * x[:, 0]) * np.cos(4 * x[:, -1]) + noise * rng.standard_normal(n)
    truth = np.sin(9 * q[:, 0]) * np.cos(4 * q[:, -1])
    return float(np.sqrt(np.mean((ef.fit_points(x, y, **options)(q) - truth) ** 2)))


CASES = {
    "order of a photograph": lambda: float(np.mean(ef.fit(picture()).settings.order)),
    "order of a volume": lambda: float(np.mean(ef.fit(volume()).settings.order)),
    "order of noise": lambda: float(np.mean(ef.fit(noisy() - picture()).settings.order)),
    "order of a wave": lambda: float(np.mean(ef.fit(np.sin(np.arange(300) / 9)).settings.order)),
    "smooth": lambda: between(ef.fit(picture())),
    "oriented": lambda: between(ef.fit(picture(), ef.oriented())),
    "oriented, order": lambda: float(ef.fit(picture(), ef.oriented()).settings.order),
    "oriented volume": lambda: between(ef.fit(volume(), ef.oriented())),
    "paper": lambda: off(ef.fit(picture(), ef.paper(width=200)), picture()),
    "denoise": lambda: off(ef.fit(noisy(), ef.smooth(denoise=True)), picture()),
    "denoise, little noise": lambda: off(ef.fit(noisy(), ef.smooth(denoise=0.5)), noisy()),
    "denoise volume": lambda: between(ef.fit(volume(), ef.smooth(denoise=0.3))),
    "denoise line": lambda: between(ef.fit(noisy().ravel()[:600], ef.smooth(denoise=True))),
    "gaps filled": lambda: off(ef.fit(holes(), missing="fill"), picture()),
    "gaps that stay": lambda: off(ef.fit(holes(0.2), missing="nan"), picture()),
    "gaps at a given order": lambda: off(
        ef.fit(holes(), ef.smooth(order=1.1), missing="fill"), picture()
    ),
    "a hole": lambda: off(ef.fit(hole(), missing="fill"), picture()),
    "most missing": lambda: between(ef.fit(holes(0.93, 32), missing="fill")),
    "means": lambda: between(ef.fit(picture(), samples="means")),
    "oriented means": lambda: between(ef.fit(picture(), ef.oriented(), samples="means")),
    "noise in colours": lambda: off(
        ef.fit(colours(), ef.oriented(denoise=15.0), channel_axis=-1), colours(0)
    ),
    "counts": lambda: off(
        ef.fit(counts(), ef.oriented(denoise="poisson")), picture() - picture().min()
    ),
    "points on a line": lambda: scattered(1, 60),
    "points in a plane": lambda: scattered(2, 300),
    "points in space": lambda: scattered(3, 300),
    "noisy points on a line": lambda: scattered(1, 200, 0.2, denoise=True),
    "noisy points in a plane": lambda: scattered(2, 400, 0.2, denoise=True),
    "noisy points in space": lambda: scattered(3, 300, 0.2, denoise=True),
    "bytes without loss": lambda: len(pack(picture().astype("u1"))),
    "bytes of floats": lambda: len(pack(volume().astype("f4"))),
    "bytes at a step": lambda: len(pack(picture(), step=20.0)),
    "bytes at a fine step": lambda: len(pack(picture(), step=3.0)),
    "bytes within an error": lambda: len(pack(picture(), max_error=12.0)),
    "bytes of a volume": lambda: len(pack(volume(), max_error=0.05)),
    "bytes with gaps": lambda: len(pack(holes(0.2), step=10.0)),
    "coefficients": lambda: off(ef.fit(picture(), ef.smooth(coefficients=600)), picture()),
}

EXPECTED = {
    "order of a photograph": 2.275,
    "order of a volume": 5.83333,
    "order of noise": 0.9,
    "order of a wave": 8.0,
    "smooth": 3.73069,
    "oriented": 3.77868,
    "oriented, order": 2.75,
    "oriented volume": 0.0261378,
    "paper": 15.6798,
    "denoise": 8.16918,
    "denoise, little noise": 0.00892354,
    "denoise volume": 0.0216194,
    "denoise line": 1.50863,
    "gaps filled": 8.41861,
    "gaps that stay": 5.05662,
    "gaps at a given order": 9.58466,
    "a hole": 3.5957,
    "most missing": 0.562039,
    "means": 6.33881,
    "oriented means": 6.70536,
    "noise in colours": 5.81922,
    "counts": 6.90724,
    "points on a line": 8.66367e-07,
    "points in a plane": 3.14731e-05,
    "points in space": 0.00739746,
    "noisy points on a line": 0.0443034,
    "noisy points in a plane": 0.0523701,
    "noisy points in space": 0.122301,
    "bytes without loss": 2531,
    "bytes of floats": 15077,
    "bytes at a step": 637,
    "bytes at a fine step": 1767,
    "bytes within an error": 696,
    "bytes of a volume": 700,
    "bytes with gaps": 1465,
    "coefficients": 8.08817,
}


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_chosen_numbers(name):
    assert CASES[name]() == pytest.approx(EXPECTED[name], rel=1e-4)
