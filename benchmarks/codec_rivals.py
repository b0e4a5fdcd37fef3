"""Other people's codecs behind one door: an array and a knob in, bytes and an array out."""

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
    "WebP": (
        _picture(lambda a, k: ic.webp_encode(a, k, method=4, lossless=False), ic.webp_decode),
        "quality",
    ),
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


BESIDE = {
    "JPEG": (lambda a: ic.jpeg8_encode(a, 95, optimize=True), ic.jpeg8_decode),
    "JPEG 2000": (lambda a: ic.jpeg2k_encode(a, 40, reversible=False), ic.jpeg2k_decode),
    "JPEG XL": (lambda a: ic.jpegxl_encode(a, distance=0.6, effort=7), ic.jpegxl_decode),
    "ZFP": (lambda a: ic.zfp_encode(np.float32(a), 12.0, mode="a"), ic.zfp_decode),
    "SPERR": (lambda a: ic.sperr_encode(np.float32(a), 40.0, "psnr"), ic.sperr_decode),
}
"""Encoders and decoders at about 40 dB on a busy picture, for their time."""

NEAR = 1.0
"""Two settings whose PSNR differs by less, one below a target and one above, say its bits."""
MOST = 9
"""Settings that are tried for one target, at most."""


def _place(kind, knob):
    """Where a knob is on a line along which PSNR is about straight: in dB, or in e-foldings."""
    if kind == "psnr":
        return float(knob)
    if kind == "quality":  # JPEG's scale of its tables
        return -math.log(max(5000 / knob if knob < 50 else 200 - 2 * knob, 1.0))
    return -math.log(knob)


def _knob(kind, place):
    """The knob at a place."""
    if kind == "psnr":
        return max(place, 1.0)
    scale = math.exp(-place)
    if kind == "quality":
        return float(min(max(round(5000 / scale if scale > 100 else 100 - scale / 2), 1), 100))
    return min(max(scale, 0.01), 25.0) if kind == "distance" else scale


def _start(kind, peak, target):
    """A place to begin at."""
    if kind == "psnr":
        return float(target)
    if kind == "error":
        return -math.log(3.5 * peak * 10 ** (-target / 20))
    return -math.log(30.0 if kind == "quality" else 2.0) + (target - 38) / 7


def at_targets(code, kind, values, peak, targets):
    """Bits per sample at which a codec meets each PSNR; None where it does not reach one.

    A few settings on both sides of every target are tried, all targets sharing what was found; the
    logarithm of the bits is interpolated between the two closest.
    """
    seen = {}  # by knob: PSNR, bits per sample, place

    def attempt(place):
        knob = _knob(kind, place)
        if knob in seen:
            return False
        data, decoded = code(values, knob)
        found = psnr(values, decoded, peak), 8 * len(data) / values.size
        seen[knob] = (*found, _place(kind, knob))
        return True

    return [_bits(seen, attempt, _start(kind, peak, t), 1.0 if kind == "psnr" else 7.0, t)
            for t in targets]  # fmt: skip


def _bits(seen, attempt, start, slope, target):
    """Bits per sample at one target."""
    for tries in range(MOST):
        below, above = _around(seen, target)
        close = [p for p in (below, above) if p is not None and abs(p[0] - target) < 0.02]
        if close or (below and above and above[0] - below[0] < NEAR):
            break
        if below and above:
            t = (target - below[0]) / (above[0] - below[0])
            place = below[2] + t * (above[2] - below[2])
        elif below or above:
            # Past the target, farther at every try, so that it lies between two settings.
            p, past = (below, 0.3 * 2**tries) if below else (above, -0.3 * 2**tries)
            place = p[2] + (target + past - p[0]) / slope
        else:
            place = start
        if not attempt(place) and below and above:
            break
    below, above = _around(seen, target)
    if above is None:
        return below[1] if target - below[0] < 0.02 else None
    if below is None or above[0] - target < 0.001:
        return above[1]
    t = (target - below[0]) / (above[0] - below[0])
    return math.exp((1 - t) * math.log(below[1]) + t * math.log(above[1]))


def _around(seen, target):
    """The closest of what was seen below a PSNR, and at or above it."""
    below = [p for p in seen.values() if p[0] < target]
    above = [p for p in seen.values() if p[0] >= target]
    return max(below, default=None), min(above, default=None)


# --- printed by others ----------------------------------------------------------------------------

PRINTED = {
    "COIN": (
        (0.0368, 0.07361, 0.1604, 0.3074, 0.6109, 1.209),
        (22.408, 23.205, 24.641, 26.412, 28.408, 30.644),
    ),
    "C3": (
        (0.0926, 0.1339, 0.1532, 0.2025, 0.2318, 0.2761, 0.3506, 0.5144, 0.5785, 0.7286, 0.8067,
         0.9140, 1.0800, 1.4093),
        (27.065, 28.450, 28.959, 30.032, 30.594, 31.336, 32.395, 34.368, 35.016, 36.384, 37.037,
         37.845, 38.984, 40.847),
    ),
}  # fmt: skip
"""Bits per pixel and PSNR, means of the 24 Kodak pictures in colour, as the authors publish them:
COIN in results.json of its repository (arXiv 2103.03123), C3 in baselines/kodak.py of
c3_neural_compression (arXiv 2312.02753)."""


def printed(name, target):
    """Bits per pixel of a printed curve at a PSNR; None outside of it."""
    bits, quality = PRINTED[name]
    if not quality[0] <= target <= quality[-1]:
        return None
    return float(np.exp(np.interp(target, quality, np.log(bits))))
