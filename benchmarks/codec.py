"""Tiles with loss beside other codecs: rate against distortion, hard bounds, speed.

    python benchmarks/codec.py                  everything
    python benchmarks/codec.py bounds speed     some sections

Sections: pictures, colour, fields, volumes, bounds, speed. Each rewrites its part of
``results/codec.json``; ``benchmarks/tables.py`` turns that into the tables of the documents.

Rates are bits per sample at equal PSNR, all headers counted; between the two settings of a codec
around a target the logarithm of the rate is interpolated. Nothing here was used to train the
codec's tables.
"""

import math
import time

import numpy as np

from common import main, record
from elmfield import codec
from measurement.codecs import ARRAYS, PICTURES, at_psnr, psnr
from measurement.samples import KODAK, WEATHER, colour, sample

TARGETS = (30, 35, 40, 45, 50)
BOUNDS = (1e-2, 1e-3, 1e-4)


def ours(values, knob, channel_axis=None):
    """Our codec behind the same door as the others; the knob is the step."""
    data = codec.pack(values, step=knob, channel_axis=channel_axis)
    return data, codec.unpack(data)


def our_rate(values, peak, target, channel_axis=None):
    """Bits per sample where our codec meets a PSNR, by secants in the logarithm of the step."""
    step, seen = peak * 10 ** (-target / 20) * 3.5, []
    for _ in range(5):
        data, decoded = ours(values, step, channel_axis)
        seen.append((psnr(values, decoded, peak), 8 * len(data) / values.size, math.log(step)))
        if abs(seen[-1][0] - target) < 0.01:
            break
        slope = -0.14
        if len(seen) > 1 and abs(seen[-1][0] - seen[-2][0]) > 1e-3:
            slope = (seen[-1][2] - seen[-2][2]) / (seen[-1][0] - seen[-2][0])
        step = math.exp(seen[-1][2] + min(max(slope, -0.5), -0.05) * (target - seen[-1][0]))
    a, b = sorted(seen, key=lambda point: abs(point[0] - target))[:2] if len(seen) > 1 else seen * 2
    if abs(a[0] - b[0]) < 1e-3:
        return a[1]
    t = (target - a[0]) / (b[0] - a[0])
    return math.exp((1 - t) * math.log(a[1]) + t * math.log(b[1]))


def curves(names, load, codecs, channel_axis=None):
    """A row for each array: bits per sample by codec and target."""
    rows = []
    for name in names:
        values, peak = load(name)
        row = {"data": name, "elmfield": [our_rate(values, peak, t, channel_axis) for t in TARGETS]}
        for label in codecs:
            code, kind = (PICTURES | ARRAYS)[label]
            row[label] = [at_psnr(code, kind, values, peak, t) for t in TARGETS]
        rows.append(row)
        print(row, flush=True)
    return rows


def pictures():
    names = ("JPEG", "JPEG 2000", "JPEG XL", "ZFP", "SZ3", "SPERR")
    record("codec", "pictures", curves(KODAK, sample, names), targets=TARGETS)


def in_colour():
    rows = curves(KODAK, colour, ("JPEG", "JPEG 2000", "JPEG XL", "WebP"), channel_axis=2)
    record("codec", "colour", rows, targets=TARGETS)


def fields():
    rows = curves(WEATHER, sample, ("JPEG 2000", "ZFP", "SZ3", "SPERR"))
    record("codec", "fields", rows, targets=TARGETS)


def volumes():
    rows = curves(("ns", "brain"), sample, ("ZFP", "SZ3", "SPERR"))
    record("codec", "volumes", rows, targets=TARGETS)


def bounds():
    rows = []
    for name in (*WEATHER, "ns", *KODAK):
        values, peak = sample(name)
        for part in BOUNDS if name not in KODAK else BOUNDS[:1]:
            data = codec.pack(values, max_error=part * peak)
            worst = np.abs(codec.unpack(data).astype(float) - values).max() / (part * peak)
            row = {"data": name, "bound": part, "elmfield": 8 * len(data) / values.size}
            row["worst"] = float(worst)
            for label in ("SZ3", "SPERR bound", "ZFP"):
                row[label] = 8 * len(ARRAYS[label][0](values, part * peak)[0]) / values.size
            rows.append(row)
            print(row, flush=True)
    record("codec", "bounds", rows)


def speed():
    rows = []
    cases = [("kodim05", 40, None), ("kodim23", 40, None), (WEATHER[0], 50, None)]
    for name, target, bound in [*cases, (WEATHER[0], None, 1e-3)]:
        values, peak = sample(name)
        values = values.astype(np.float32)
        asked = (
            {"max_error": bound * peak} if bound else {"step": peak * 10 ** (-target / 20) * 3.5}
        )
        best = [math.inf, math.inf]
        for _ in range(5):
            start = time.process_time()
            data = codec.pack(values, **asked)
            middle = time.process_time()
            codec.unpack(data)
            took = (middle - start, time.process_time() - middle)
            best = [min(b, t) for b, t in zip(best, took)]
        megabytes = values.nbytes / 1e6
        row = {"data": name, "psnr": target, "bound": bound, "bits": 8 * len(data) / values.size}
        row |= {"encode": megabytes / best[0], "decode": megabytes / best[1]}
        rows.append(row)
        print(row, flush=True)
    record("codec", "speed", rows)


SECTIONS = {
    "pictures": pictures,
    "colour": in_colour,
    "fields": fields,
    "volumes": volumes,
    "bounds": bounds,
    "speed": speed,
}

if __name__ == "__main__":
    main(__doc__, SECTIONS)
