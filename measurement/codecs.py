"""Other people's codecs behind one door: an array and a knob in, bytes and the decoded array out."""

import math

import imagecodecs as ic
import numpy as np


def psnr(values, decoded, peak):
    """Peak signal-to-noise ratio in dB, over all samples and channels."""
    error = np.mean((np.asarray(decoded, np.float64) - np.asarray(values, np.float64)) ** 2)
    return 10 * math.log10(peak**2 / max(float(error), 1e-300))


def whole(values):
    """The array as whole numbers of at most 16 bits for picture codecs, and the way back."""
    if values.dtype == np.uint8:
        return values, lambda a: a
    low, high = float(values.min()), float(values.max())
    unit = (high - low) / 65535
    picture = np.rint((values.astype(np.float64) - low) / unit).astype(np.uint16)
    return picture, lambda a: a.astype(np.float64) * unit + low


def _picture(encode, decode):
    def code(values, knob):
        picture, back = whole(values)
        data = encode(np.ascontiguousarray(picture), knob)
        return data, back(decode(data))

    return code


def _floats(encode, decode):
    def code(values, knob):
        data = encode(np.ascontiguousarray(values, np.float32), knob)
        return data, decode(data, values.shape)

    return code


PICTURES = {
    "JPEG": (
        _picture(lambda a, k: ic.jpeg8_encode(a, int(k), optimize=True), ic.jpeg8_decode),
        "quality",
    ),
    "JPEG 2000": (
        _picture(lambda a, k: ic.jpeg2k_encode(a, k, reversible=False), ic.jpeg2k_decode),
        "psnr",
    ),
    "JPEG XL": (
        _picture(lambda a, k: ic.jpegxl_encode(a, distance=k, effort=7), ic.jpegxl_decode),
        "distance",
    ),
    "WebP": (_picture(lambda a, k: ic.webp_encode(a, k, method=6), ic.webp_decode), "quality"),
}
"""Codecs of pictures: 8 bits, or 16 where they take them. WebP knows colour only."""

ARRAYS = {
    "ZFP": (
        _floats(lambda a, k: ic.zfp_encode(a, k, mode="a"), lambda b, s: ic.zfp_decode(b)),
        "error",
    ),
    "SZ3": (
        _floats(
            lambda a, k: ic.sz3_encode(a, mode="abs", abs=k),
            lambda b, s: ic.sz3_decode(b, s, np.float32),
        ),
        "error",
    ),
    "SPERR": (
        _floats(lambda a, k: ic.sperr_encode(a, k, "psnr"), lambda b, s: ic.sperr_decode(b)),
        "psnr",
    ),
    "SPERR bound": (
        _floats(lambda a, k: ic.sperr_encode(a, k, "pwe"), lambda b, s: ic.sperr_decode(b)),
        "error",
    ),
}
"""Codecs of floats."""


def _range(kind, peak, target):
    """Low and high ends of the knob, and whether more of it means more quality."""
    if kind == "psnr":
        return target - 25, target + 6, True
    if kind == "quality":
        return 1.0, 100.0, True
    if kind == "distance":
        return 0.01, 24.0, False
    guess = peak * 10 ** (-target / 20)
    return guess / 30, guess * 300, False


def at_psnr(code, kind, values, peak, target):
    """Bits per sample where the codec meets a PSNR: between the two settings around it.

    The knob is bisected; the bits are interpolated in their logarithm between the closest points
    above and below. None where the codec does not reach the target.
    """
    low, high, more = _range(kind, peak, target)
    below, above = None, None
    for _ in range(14):
        knob = math.sqrt(low * high) if kind in ("error", "distance") else (low + high) / 2
        knob = float(round(knob)) if kind == "quality" else knob
        data, decoded = code(values, knob)
        got = (psnr(values, decoded, peak), 8 * len(data) / values.size)
        if got[0] >= target:
            above = got if above is None or got[0] < above[0] else above
        else:
            below = got if below is None or got[0] > below[0] else below
        if (got[0] >= target) == more:
            high = knob
        else:
            low = knob
        if abs(got[0] - target) < 0.01 or (kind == "quality" and high - low <= 1):
            break
    if above is None:
        return None
    if below is None or above[0] - target < 0.01:
        return above[1]
    t = (target - below[0]) / (above[0] - below[0])
    return math.exp((1 - t) * math.log(below[1]) + t * math.log(above[1]))
