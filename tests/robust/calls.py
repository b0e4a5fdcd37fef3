"""Calls that nobody would write, each from a seed: arrays, settings, options, and what follows.

A call may be refused with a sentence (ValueError, TypeError, StoreError). What it gives must be
finite, must keep what was promised, and must come back from a file as it went in.
"""

import math
import warnings

import numpy as np

import elmfield as ef
from robust.damage import Hung, limited

DTYPES = (
    "bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64",
    "float16", "float32", "float64", "complex64", "complex128",
)  # fmt: skip
REFUSED = (ValueError, TypeError, ef.StoreError, ef.OutsideDomainError)
OURS = (ef.RankWarning, ef.ChannelWarning, UserWarning)


def array(rng):
    """Samples of one to four axes in any dtype and of any size."""
    d = int(rng.choice([1, 2, 2, 2, 3, 4]))
    most = {1: 300, 2: 30, 3: 10, 4: 6}[d]
    shape = tuple(int(n) for n in rng.integers(1, most, d))
    dtype = np.dtype(str(rng.choice(DTYPES)))
    kind = str(rng.choice(["noise", "smooth", "constant", "spike", "steps"]))
    values = {
        "noise": lambda: rng.standard_normal(shape),
        "smooth": lambda: np.sin(np.indices(shape).sum(0) / 3),
        "constant": lambda: np.full(shape, rng.standard_normal()),
        "spike": lambda: (np.arange(math.prod(shape)).reshape(shape) == 3) * 1.0,
        "steps": lambda: np.round(rng.standard_normal(shape)),
    }[kind]()
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        scale = float(info.max) * float(rng.choice([1e-9, 1e-3, 1]))
        return np.clip(values * scale, float(info.min), float(info.max) * 0.99).astype(dtype)
    if dtype.kind == "b":
        return values > 0
    most = math.log10(float(np.finfo(dtype).max)) - 1
    if rng.integers(3) == 0:
        values = values * 10.0 ** rng.uniform(-most, most)
    if rng.integers(4) == 0:
        values = values + 10.0 ** rng.uniform(0, min(15, most))
    if dtype.kind == "c":
        values = values + 1j * values[::-1]
    with np.errstate(all="ignore"):
        values = values.astype(dtype)
    if rng.integers(4) == 0:
        values[rng.random(shape) < rng.choice([0.02, 0.5, 1])] = np.nan
    if rng.integers(12) == 0:
        values.flat[0] = rng.choice([np.inf, np.finfo(dtype).max, np.finfo(dtype).tiny])
    return values


def settings(rng, values):
    """Settings, sensible or not."""
    with np.errstate(all="ignore"):
        have = values[np.isfinite(values)].astype(complex)
        span = float(np.ptp(have.real)) if have.size else 1.0
    target = {
        "none": {},
        "psnr": {"psnr": float(rng.choice([0.1, 20, 45, 90, 160, 400]))},
        "max_error": {"max_error": abs(span) * float(rng.choice([1e-9, 1e-2, 3])) or 0.1},
        "bits": {"bits": float(rng.choice([0.01, 1, 4, 80]))},
        "bytes": {"bytes": int(rng.choice([1, 100, 10**6]))},
        "coefficients": {"coefficients": int(rng.choice([1, 100, 10**5]))},
        "per_region": {"per_region": int(rng.choice([1, 9, 10**4]))},
    }
    kind = str(rng.choice(["smooth"] * 4 + ["paper", "oriented", "none"]))
    if kind == "none":
        return None, {}
    if kind == "paper":
        activation = str(rng.choice(["relu", "sin", "tanh", "gaussian"]))
        return ef.paper(width=int(rng.integers(1, 80)), activation=activation), {}
    order = float(rng.choice([0.5, 1, 1.7, 2, 3, 6])) if rng.integers(2) else "auto"
    if kind == "oriented":
        return ef.oriented(order=order, denoise=bool(rng.integers(8) == 0)), {}
    asked = target[str(rng.choice(list(target)))]
    more = {"denoise": True} if rng.integers(10) == 0 else {}
    if rng.integers(3) == 0:
        more["cell"] = int(rng.integers(1, 20))
    if rng.integers(4) == 0:
        more["overlap"] = float(rng.integers(0, 6))
    return ef.smooth(order=order, **asked, **more), asked


def one_call(seed, path):
    """ "done", "refused: ...", or what is wrong."""
    rng = np.random.default_rng(seed)
    try:
        with limited(60), warnings.catch_warnings():
            warnings.simplefilter("error", RuntimeWarning)
            for ours in OURS:
                warnings.simplefilter("ignore", ours)
            warnings.simplefilter("error", RuntimeWarning)
            return _one(rng, path)
    except REFUSED as error:
        text = str(error)
        return "refused" if text and "\n" not in text.strip() else f"wrong: no sentence: {text!r}"
    except Hung:
        return "hung"
    except Exception as error:
        return f"foreign: {type(error).__name__}: {error}"


def _one(rng, path):
    values = array(rng)
    made, asked = settings(rng, values)
    options = {}
    if values.ndim > 1 and rng.integers(3) == 0:
        options["channel_axis"] = int(rng.integers(-values.ndim, values.ndim))
    if rng.integers(5) == 0:
        options["periodic"] = int(rng.integers(0, values.ndim))
    if rng.integers(6) == 0:
        options["mask"] = rng.random(values.shape) < 0.1
    if rng.integers(5) == 0:
        options["missing"] = str(rng.choice(["nan", "fill"]))
    if rng.integers(12) == 0 and not asked:
        options["samples"] = "means"
    field = ef.fit(values, made, **options)
    got = np.asarray(field.samples(missing="fill"))
    if not np.isfinite(got).all():
        return "wrong: values are not finite"
    if "max_error" in asked:
        gone = np.isnan(values) | options.get("mask", False)
        wide = np.complex128 if np.iscomplexobj(values) else np.float64
        gap = np.abs(got.astype(wide) - values.astype(wide))[~gone]
        if gap.max(initial=0) > asked["max_error"]:
            return f"wrong: an error of {gap.max():g} where {asked['max_error']:g} was promised"
    what = str(rng.choice(["save", "crop", "keep", "resize", "points", "slope"]))
    if what == "save":
        dtype = [None, "float64", "float32", "float16"][int(rng.integers(4))]
        ef.save(field, path, dtype=dtype)
        back = np.asarray(ef.load(path).samples(missing="fill"))
        close = 1e-12 if str(field.coefficient_dtype).endswith("64") else 1e-5
        close *= float(np.abs(got).max())  # modes are made again, elsewhere perhaps
        if dtype == "float64" and str(field.coefficient_dtype).endswith("32"):
            close += np.nanmax(np.abs(got - values), initial=0)  # read by more digits: nearer
        if dtype in (None, "float64") and not np.abs(back - got).max() <= close:
            return f"wrong: not what was saved by {np.abs(back - got).max():g}"
        got = back
    elif what == "crop":
        ends = np.sort([rng.uniform(-0.5, n - 0.5, 2) for n in field.shape], axis=1)
        got = field.crop(ends[:, 0], ends[:, 1]).samples(missing="fill")
    elif what == "keep":
        got = field.keep(psnr=float(rng.choice([20, 60]))).samples(missing="fill")
    elif what == "resize":
        size = [int(n) for n in rng.integers(1, 25, len(field.shape))]
        got = field.resize(size, missing="fill")
    else:
        at = np.stack([rng.uniform(-0.5, n - 0.5, 5) for n in field.shape], axis=-1)
        got = field(at, missing="fill") if what == "points" else field.gradient(at, missing="fill")
    return "done" if np.isfinite(np.asarray(got)).all() else f"wrong: {what} is not finite"
