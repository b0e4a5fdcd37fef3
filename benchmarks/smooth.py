"""Smooth functions, noise on smooth signals and scattered samples, beside SciPy's splines.

    python benchmarks/smooth.py                        everything
    python benchmarks/smooth.py functions              some sections
    python benchmarks/smooth.py picture                docs/pictures/smooth.png, from the record

Sections: functions (largest errors of values and two derivatives, borders included), exact
(polynomials and periodic waves), noise, slopes, scattered, picture. Functions and signals are in
closed form and were not used to choose a constant; seeds are fixed.
"""

from functools import lru_cache
from itertools import pairwise

import numpy as np
from numpy.polynomial import Chebyshev
from scipy.interpolate import (
    RBFInterpolator,
    griddata,
    make_interp_spline,
    make_smoothing_spline,
)
from scipy.ndimage import gaussian_filter
from scipy.special import j0, j1

import elmfield as ef
from common import ROOT, has, main, record, rows_of
from paper.research import datasets

SIZES = {1: (12, 16, 24, 36, 50, 100, 200), 2: (12, 20, 36, 60, 100), 3: (12, 20, 32)}
"""Samples an axis, by number of axes."""

# --- functions of one variable on [0, 1], each with two derivatives -------------------------------


def wave(omega, phase):
    """``sin(ωt + φ)``."""
    return lambda t, d=0: omega**d * np.sin(omega * t + phase + d * np.pi / 2)


def growth(a):
    """``exp(at)``."""
    return lambda t, d=0: a**d * np.exp(a * t)


def runge(t, d=0):
    """``1 / (1 + 25 x²)``, x between -1 and 1."""
    x = 2 * t - 1
    q = 1 + 25 * x**2
    return (1 / q, -100 * x / q**2, -200 / q**2 + 20000 * x**2 / q**3)[d]


def bump(t, d=0):
    """A Gaussian of standard deviation 0.05."""
    x = t - 0.5
    return np.exp(-200 * x**2) * (1, -400 * x, 160000 * x**2 - 400)[d]


def bessel(t, d=0):
    """``J_0(20 t)``."""
    z = 20 * t
    over = np.where(z > 0, j1(z) / np.where(z > 0, z, 1), 0.5)
    return (j0(z), -20 * j1(z), -400 * (j0(z) - over))[d]


def band_limited(d, seed, waves=12, cycles=4):
    """A sum of plane waves of up to so many cycles an axis: products of sines and cosines."""
    rng = np.random.default_rng(seed)
    terms = []
    for _ in range(waves):
        omega, phase = 2 * np.pi * rng.uniform(-cycles, cycles, d), rng.uniform(0, 2 * np.pi)
        a = rng.standard_normal()
        for odd in np.ndindex(*(2,) * d):  # sin(φ + Σ θ_k) in sines and cosines of each θ_k
            factors = [wave(w, 0 if o else np.pi / 2) for w, o in zip(omega, odd)]
            terms.append((a * np.sin(phase + np.pi / 2 * sum(odd)), factors))
    return terms


def functions(d):
    """Named sums of products, ``Σ_j c_j Π_k g_jk(x_k)``, of d variables."""
    found = {
        "waves": [(1.0, [wave(6 - k, 0.3 * k) for k in range(d)])],
        "exp": [(1.0, [growth((3, -1, 2)[k]) for k in range(d)])],
        "Runge": [(1.0, [runge] * d)],
        "Gaussian": [(1.0, [bump] * d)],
        "Bessel": [(1.0, [bessel, *(wave(5, 1.0),) * (d - 1)])],
    }
    return found | {f"band-limited {i}": band_limited(d, i) for i in range(3)}


def on_grid(terms, axes, along=()):
    """A sum of products on a grid, differentiated once for each axis named in `along`."""
    total = 0.0
    for c, factors in terms:
        part = np.full((), c)
        for k, (g, t) in enumerate(zip(factors, axes)):
            part = np.multiply.outer(part, g(t, along.count(k)))
        total = total + part
    return total


# --- the section ------------------------------------------------------------------------------


def spline_on(y, axes, degree, along):
    """The tensor product spline through samples on [0, 1], on a grid."""
    for k, t in enumerate(axes):
        x = np.linspace(0, 1, y.shape[k])
        weights = make_interp_spline(x, np.eye(len(x)), degree)(t, along.count(k))
        y = np.moveaxis(np.tensordot(weights, y, axes=(1, k)), 0, k)
    return y


def field_on(field, n, axes, along):
    """A field through samples on [0, 1], on a grid."""
    points = np.stack(np.meshgrid(*(t * (n - 1) for t in axes), indexing="ij"), axis=-1)
    if not along:
        return field(points)
    if len(along) == 1:
        return field.gradient(points)[..., along[0]] * (n - 1)
    return field.hessian(points)[..., along[0], along[1]] * (n - 1) ** 2


def looked_at(n, d):
    """Where errors are looked for along an axis: the borders, and places between samples."""
    many = {1: 1999, 2: 101, 3: 17}[d]
    near = np.linspace(0, 2.5 / (n - 1), {1: 41, 2: 15, 3: 4}[d])
    return np.unique(np.concatenate([np.linspace(0, 1, many), near, 1 - near]))


def compare(d, name, n, presets):
    """Largest errors of one function: of values, first and second derivatives."""
    terms = functions(d)[name]
    x, t = [np.linspace(0, 1, n)] * d, [looked_at(n, d)] * d
    y = on_grid(terms, x)
    row = {"axes": d, "function": name, "samples": n}
    fields = {word: ef.fit(y, s) for word, s in presets.items()}
    for what, orders in {
        "value": [()],
        "first": [(k,) for k in range(d)],
        "second": [(j, k) for j in range(d) for k in range(j, d)],
    }.items():
        truth = [on_grid(terms, t, a) for a in orders]

        def worst(found, truth=truth, orders=orders):
            return max(float(np.abs(found(a) - f).max()) for a, f in zip(orders, truth))

        row[f"{what}, cubic"] = worst(lambda a: spline_on(y, t, 3, a))
        row[f"{what}, quintic"] = worst(lambda a: spline_on(y, t, 5, a))
        for word, field in fields.items():
            row[f"{what}, {word}"] = worst(lambda a, field=field: field_on(field, n, t, a))
    if d == 1:
        nodes = (1 - np.cos(np.pi * np.arange(n) / (n - 1))) / 2
        best = Chebyshev.fit(nodes, on_grid(terms, [nodes]), n - 1, domain=[0, 1])
        row["value, Chebyshev"] = float(np.abs(best(t[0]) - on_grid(terms, t)).max())
    return row


def measure_functions(dims=(1, 2, 3)):
    """Every function at every size."""
    presets = {"smooth()": ef.smooth(), "oriented()": ef.oriented()}
    rows = []
    for d in dims:
        for name in functions(d):
            for n in SIZES[d]:
                rows.append(compare(d, name, n, presets))
    return rows


def functions_section():
    """Record errors of functions."""
    rows = measure_functions()
    record("smooth", "functions", rows)
    for word in ("smooth()", "oriented()"):
        print(word, summary(rows, word))


def ratios(rows, word, whats=("value", "first", "second"), floor=1e-12):
    """Errors over those of the better spline; below `floor` of the samples' range all are equal."""
    found = []
    for row in rows:
        for what in whats:
            size = floor * row["samples"] ** (2 * whats.index(what))
            best = min(row[f"{what}, cubic"], row[f"{what}, quintic"])
            found.append(max(row[f"{what}, {word}"], size) / max(best, size))
    return np.array(found)


def summary(rows, word):
    """How many cases are below 2 times the better spline's error, and the worst."""
    r = ratios(rows, word)
    return {"cases": len(r), "at most 2": float(np.mean(r <= 2)), "worst": float(r.max())}


SECTIONS = {"functions": functions_section}

if __name__ == "__main__":
    main(__doc__, SECTIONS)
