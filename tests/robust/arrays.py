"""Arrays that are hard to keep a promise on: 60 of them, in any dtype."""

import numpy as np

SIDE = 20


def adversarial(seed=1):
    """Arrays by name, float64, within ±1 or so; a dtype gives them their unit."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[0:SIDE, 0:SIDE] / SIDE
    noise = rng.standard_normal((SIDE, SIDE))
    line = np.linspace(0, 1, 160)
    found = {
        "constant": np.full((SIDE, SIDE), 0.5),
        "zeros": np.zeros((SIDE, SIDE)),
        "plane": x - 2 * y,
        "edge": (x > 0.5) * 1.0,
        "corner": ((x > 0.5) & (y > 0.5)) * 1.0,
        "chequers": np.indices((SIDE, SIDE)).sum(0) % 2.0,
        "stripes": np.indices((SIDE, SIDE))[1] % 2.0,
        "noise": noise,
        "uniform noise": rng.random((SIDE, SIDE)),
        "heavy tails": rng.standard_cauchy((SIDE, SIDE)).clip(-1e3, 1e3) / 1e3,
        "salt": (rng.random((SIDE, SIDE)) > 0.97) * 1.0,
        "spike": np.where((x == x[0, 7]) & (y == y[3, 0]), 1.0, 0.0),
        "spike in noise": np.where((x == x[0, 7]) & (y == y[3, 0]), 1.0, 1e-6 * noise),
        "spike at a corner": np.where((x == 0) & (y == 0), 1.0, 0.0),
        "steep": np.tanh(80 * (x - 0.5)),
        "powers": 10.0 ** (-12 * x),
        "two scales": np.where(x > 0.5, noise, 1e-9 * noise),
        "offset": 1 + 1e-6 * noise,
        "far offset": 1 + 1e-11 * noise,
        "nearly constant": 0.5 + 2.0**-52 * rng.integers(0, 3, (SIDE, SIDE)),
        "slow wave": np.sin(3 * x) * np.cos(2 * y),
        "fast wave": np.sin(60 * x * y),
        "nyquist": np.cos(np.pi * np.arange(SIDE))[:, None] * np.ones(SIDE),
        "chirp": np.sin(200 * x**2),
        "saw": (7 * x) % 1,
        "cone": np.hypot(x - 0.5, y - 0.5),
        "root": np.sqrt(x),
        "log": np.log(x + 1e-9) / 20,
        "steps": np.floor(6 * x) / 6,
        "few levels": np.round(2 * noise) / 4,
        "one level": np.where(noise > 2.5, 1.0, 0.0),
        "brownian": noise.cumsum(0).cumsum(1) / 100,
        "row": np.where(y == y[4, 0], 1.0, 0.0),
        "cross": np.where((y == y[4, 0]) | (x == x[0, 9]), 1.0, 0.0),
        "border": np.pad(np.zeros((SIDE - 2, SIDE - 2)), 1, constant_values=1.0),
        "half noise": np.where(x > 0.5, noise, 0.0),
        "negative": -np.abs(noise),
        "alternating signs": noise * (-1.0) ** np.indices((SIDE, SIDE)).sum(0),
        "line": np.sin(40 * line),
        "line with a jump": (line > 0.31) * 1.0,
        "line of noise": rng.standard_normal(160),
        "line of spikes": (np.arange(160) % 31 == 0) * 1.0,
        "short line": np.asarray([0.0, 1.0, -1.0]),
        "one sample": np.asarray([[0.7]]),
        "two samples": np.asarray([0.0, 1.0]),
        "one row": rng.standard_normal((1, 50)),
        "one column": rng.standard_normal((50, 1)),
        "thin": rng.standard_normal((2, 70)),
        "volume": rng.standard_normal((7, 8, 9)),
        "smooth volume": np.sin(np.indices((8, 8, 8)).sum(0) / 4),
        "volume with a spike": np.where(np.arange(512).reshape(8, 8, 8) == 200, 1.0, 0.0),
        "four axes": rng.standard_normal((4, 5, 4, 5)),
        "colours": rng.random((12, 14, 3)),
        "bright and dark": np.stack([noise, 1e-7 * noise], -1),
        "one still channel": np.stack([noise, np.ones_like(noise)], -1),
        "odd sides": rng.standard_normal((13, 29)).cumsum(0) / 4,
        "gaps": np.where(noise > 1.5, np.nan, np.sin(5 * x)),
        "a hole": np.where(np.hypot(x - 0.5, y - 0.5) < 0.2, np.nan, y),
        "nearly all gaps": np.where(noise > 1.9, x, np.nan),
        "spike beside a gap": np.where(x == x[0, 6], np.nan, np.where(x == x[0, 7], 1.0, 0.0)),
    }
    assert len(found) == 60
    return found


CHANNELS = ("colours", "bright and dark", "one still channel")
UNITS = {"uint8": 100.0, "int32": 1e6, "float32": 300.0, "float64": 1e4}
"""Dtypes, and what ±1 becomes in them."""


def as_dtype(values, dtype):
    """The array in a dtype; None where that has no gaps."""
    unit = UNITS[dtype]
    if np.dtype(dtype).kind == "f":
        return (unit * values).astype(dtype)
    if np.isnan(values).any():
        return None
    info = np.iinfo(dtype)
    return np.clip(np.round(unit * values), info.min, info.max).astype(dtype)
