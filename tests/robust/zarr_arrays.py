"""Zarr arrays in our codec, each from a seed: any dtype, axes, chunks, shards and fill values.

An array may be refused when it is created, with a sentence. Else it gives back what Zarr's own
serializer does, bit for bit or within what was asked.
"""

import itertools
import math

import numpy as np
import zarr

import elmfield as ef
from elmfield.io.zarr import Codec
from robust.damage import Hung, limited

KINDS = (
    "?", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8", "c8", "c16",
    "M8[s]", "m8[ms]",
)  # fmt: skip
MOST = {0: 1, 1: 300, 2: 30, 3: 10, 4: 6, 5: 5, 6: 4}


def samples(rng, shape, dtype):
    """Values of a shape and a dtype: smooth, noise, any bits; with -0, NaN and infinities."""
    n = math.prod(shape)
    if dtype.kind not in "biufc" or rng.integers(3) == 0:
        raw = rng.integers(0, 256, n * dtype.itemsize, dtype=np.uint8)
        if dtype.kind in "bMm":
            raw &= 1
        return np.frombuffer(raw.tobytes(), dtype).reshape(shape)
    parts = [np.sin(np.arange(n) / 9 + k) + rng.choice([0, 0.1]) * rng.random(n) for k in (0, 1)]
    values = parts[0] + 1j * parts[1] if dtype.kind == "c" else parts[0]
    if dtype.kind in "iu":
        ends = np.iinfo(dtype)
        low, high = (float(e) * float(rng.choice([1e-9, 1e-3, 0.99])) for e in (ends.min, ends.max))
        values = low + (high - low) * (values + 2) / 4
    values = np.round(values, int(rng.integers(1, 17))).astype(dtype).reshape(shape)
    if dtype.kind in "fc" and n and rng.integers(3) == 0:
        some = rng.random(shape) < rng.choice([0.01, 0.3, 1])
        values[some] = rng.choice([np.nan, np.inf, -np.inf, -0.0, 1e-7])
    return values


def case(seed):
    """Values, options of `zarr.create_array`, and the slab that is written."""
    rng = np.random.default_rng(seed)
    dtype = np.dtype(str(rng.choice(KINDS))).newbyteorder(str(rng.choice(["<", ">"])))
    d = int(rng.choice([0, 1, 2, 2, 3, 3, 4, 4, 5, 6]))
    shape = tuple(int(n) for n in rng.integers(0 if rng.integers(9) == 0 else 1, MOST[d] + 1, d))
    values = samples(rng, shape, dtype)
    if rng.integers(2):
        values = np.asfortranarray(values).reshape(shape)
    asked = {}
    if dtype.kind in "iufc" and rng.integers(2):
        span = (
            1.0
            if dtype.kind in "fc"
            else float(np.ptp(values.astype(float)))
            if values.size
            else 1.0
        )
        asked = {"max_error": (span or 1.0) * float(rng.choice([1e-6, 1e-2, 2]))}
        asked = {"psnr": float(rng.choice([5, 30, 80, 200]))} if rng.integers(3) == 0 else asked
    if d and rng.integers(4) == 0:
        asked["channel_axis"] = int(rng.integers(-d, d))
    chunks = tuple(int(rng.integers(1, max(n, 1) + 3)) for n in shape)
    options = {"shape": shape, "dtype": dtype, "chunks": chunks, "serializer": Codec(**asked)}
    if d and rng.integers(3) == 0:  # Zarr has no shards of arrays without axes
        options["shards"] = tuple(c * int(rng.integers(1, 4)) for c in chunks)
    if rng.integers(2):
        options["compressors"] = None
    if dtype.kind in "fc" and rng.integers(2):
        options["fill_value"] = float(rng.choice([np.nan, 1.5, -np.inf]))
    elif dtype.kind in "iu" and rng.integers(2):
        options["fill_value"] = int(np.iinfo(dtype).max)
    options["config"] = {"order": str(rng.choice(["C", "F"]))}
    part = tuple(slice(*sorted(map(int, rng.integers(0, n + 1, 2)))) for n in shape)
    return values, options, ... if rng.integers(2) else part, asked


def attempt(seed):
    """ "the same", "refused", or what is wrong."""
    values, options, part, asked = case(seed)
    store = {}
    try:
        with limited():
            try:
                array = zarr.create_array(store, **options)
            except TypeError as error:
                ours = "the codec 'elmfield' takes" in str(error)
                return "refused" if ours and values.dtype.kind not in "biufc" else f"wrong: {error}"
            plain = zarr.create_array({}, **options | {"serializer": "auto"})
            for made in (array, plain):
                made[part] = values[part]
            expected = np.asarray(plain[...])
            for reader in (array, zarr.open_array(store, mode="r")):
                if wrong := differs(expected, np.asarray(reader[...]), options["chunks"], asked):
                    return f"wrong: {values.dtype}, {options}: {wrong}"
            return "the same"
    except Hung:
        return "hung"
    except Exception as error:
        return f"foreign: {values.dtype}, {options}: {type(error).__name__}: {error}"


def bits(values):
    """The bytes of values in this machine's order."""
    return values.astype(values.dtype.newbyteorder("=")).tobytes()


def differs(truth, got, chunks, asked):
    """What is wrong with what came back, or None."""
    if got.shape != truth.shape or got.dtype.newbyteorder("=") != truth.dtype.newbyteorder("="):
        return f"{got.dtype}{got.shape} came back"
    if not {"max_error", "psnr"} & set(asked):
        return None if bits(got) == bits(truth) else "other bits came back"
    wide = np.complex128 if truth.dtype.kind == "c" else np.longdouble
    gap = np.isnan(truth)
    if not np.array_equal(gap, np.isnan(got)):
        return "other gaps came back"
    with np.errstate(invalid="ignore"):  # NaN of any bits
        truth, got = truth.astype(wide), got.astype(wide)
        off = np.where((truth == got) | gap, 0, np.abs(truth - got))
    if "max_error" in asked:
        return None if (off <= asked["max_error"]).all() else f"off by {off.max()}"
    for slab in itertools.product(*(range(0, n - c + 1, c) for n, c in zip(truth.shape, chunks))):
        box = tuple(slice(a, a + c) for a, c in zip(slab, chunks))
        if not gap[box].all() and off[box].any():
            found = ef.psnr(truth[box], got[box])
            if not found >= asked["psnr"] - 1e-9:
                return f"{found} dB came back"
    return None
