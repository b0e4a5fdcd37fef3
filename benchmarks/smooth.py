"""Smooth functions, noise on smooth signals and scattered samples, beside SciPy's splines.

    python benchmarks/smooth.py                        everything
    python benchmarks/smooth.py functions              some sections
    python benchmarks/smooth.py picture                docs/pictures/smooth.png, from the record

Sections: functions (largest errors of values and two derivatives, borders included), exact
(polynomials and periodic waves), fresh, noise, slopes, scattered, picture. Seeds are fixed.

What was chosen on what is scored here: the decades of prices, the number of free polynomials and
the margins of boxes on `functions`; the offset of the order on seven Navier-Stokes slices; the
orders of scattered samples on the fields of `scattered`; the cost of a kept number in the plane on
noisy ERA5. Lines with noise were tuned on other seeds, and how few samples are left out on random
functions of other families, and small parts of weather, flows and MRI. `fresh` has functions that
no choice has seen. Those it had before (tanh, a pole, a chirp, band-limited lines 100 to 105) are
no longer fresh: the decades of prices and the boxes of lines at high orders were chosen again on
the first three and seven others.
"""

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
from common import ROOT, main, record, rows_of
from paper.research import datasets

SIZES = {1: (12, 16, 24, 36, 50, 100, 200), 2: (12, 20, 36, 60, 100), 3: (12, 20)}
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


def field_on(field, n, axes, order):
    """A field through samples on [0, 1], on a grid: values, gradients or Hessians."""
    points = np.stack(np.meshgrid(*(t * (n - 1) for t in axes), indexing="ij"), axis=-1)
    return (field, field.gradient, field.hessian)[order](points) * (n - 1) ** order


def looked_at(n, d):
    """Where errors are looked for along an axis: the borders, and places between samples."""
    many = {1: 1999, 2: 101, 3: 17}[d]
    near = np.linspace(0, 2.5 / (n - 1), {1: 41, 2: 15, 3: 4}[d])
    return np.unique(np.concatenate([np.linspace(0, 1, many), near, 1 - near]))


def compare(d, name, n, presets, terms=None):
    """Largest errors of one function: of values, first and second derivatives."""
    terms = functions(d)[name] if terms is None else terms
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
            every = field_on(field, n, t, len(orders[0]))
            row[f"{what}, {word}"] = worst(lambda a, every=every: every[(..., *a)])
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


# --- what no choice has seen ---------------------------------------------------------------------


def hill(t, d=0):
    """``1 / cosh 8(t - 0.6)``."""
    h, v = 1 / np.cosh(8 * (t - 0.6)), np.tanh(8 * (t - 0.6))
    return (h, -8 * h * v, 64 * h * (2 * v**2 - 1))[d]


def swing(t, d=0):
    """``sin exp 2.5t``."""
    e = np.exp(2.5 * t)
    s, c = np.sin(e), np.cos(e)
    return (s, 2.5 * e * c, 6.25 * (e * c - e**2 * s))[d]


def root(t, d=0):
    """``sqrt(t + 0.1)``."""
    return (1, 0.5, -0.25)[d] * (t + 0.1) ** (0.5 - d)


def fresh_functions(d):
    """Named sums of products of d variables, none of them in :func:`functions`."""
    found = {f.__name__: [(1.0, [f] * d)] for f in (hill, swing, root)}
    return found | {f"band-limited {i}": band_limited(d, i, cycles=5) for i in range(200, 206)}


def fresh_section():
    """Functions, slices of a flow and scattered samples that were never looked at before."""
    rows = []
    for d, sizes in ((1, (13, 18, 28, 45, 80, 160)), (2, (14, 25, 45, 80))):
        for name, terms in fresh_functions(d).items():
            rows += [
                compare(d, name, n, {"smooth()": ef.smooth(), "oriented()": ef.oriented()}, terms)
                for n in sizes
            ]
    record("smooth", "fresh", rows)
    for word in ("smooth()", "oriented()"):
        print(word, summary(rows, word))


# --- what is exact --------------------------------------------------------------------------------


def exact_section():
    """Cubic polynomials, and waves around periodic axes: largest errors in parts of the range."""
    rows, rng = [], np.random.default_rng(0)
    for d, n in ((1, 30), (1, 200), (2, 50), (3, 20)):
        c = rng.standard_normal((4,) * d)
        at = rng.uniform(0, 1, (2000, d))
        value = {1: np.polynomial.polynomial.polyval, 2: np.polynomial.polynomial.polyval2d}.get(
            d, np.polynomial.polynomial.polyval3d
        )
        grid = np.meshgrid(*[np.linspace(0, 1, n)] * d, indexing="ij")
        y = value(*grid, c)
        for word, s in {"smooth": ef.smooth(order=4), "oriented": ef.oriented(order=4)}.items():
            off = np.abs(ef.fit(y, s)(at * (n - 1)) - value(*at.T, c)).max() / np.ptp(y)
            rows.append({"what": f"cubic, {d} axes", "preset": word, "samples": n, "error": off})
    for n in (12, 16, 24, 32, 64):
        x, at = np.arange(n), rng.uniform(-0.5, n - 0.5, 2000)

        def waves(x, n=n):
            return np.cos(2 * np.pi * x / n + 0.3) + 0.5 * np.sin(6 * np.pi * x / n)

        field = ef.fit(waves(x), periodic=0)
        off = np.abs(field(at[:, None]) - waves(at)).max() / np.ptp(waves(x))
        rows.append({"what": "waves, periodic", "preset": "smooth", "samples": n, "error": off})
    record("smooth", "exact", rows)
    print(*rows, sep="\n")


# --- noise ----------------------------------------------------------------------------------------


def rms(x):
    """Root of the mean square."""
    return float(np.sqrt(np.mean(np.square(x))))


def signal_1d(seed, t):
    """Four waves of up to five cycles, of variance 1: values and slopes per unit of t."""
    rng = np.random.default_rng(seed)
    f, phase, a = rng.uniform(0.5, 5, 4), rng.uniform(0, 2 * np.pi, 4), rng.standard_normal(4)
    a /= np.sqrt(np.sum(a**2) / 2)
    theta = 2 * np.pi * np.outer(t, f) + phase
    return (a * np.sin(theta)).sum(axis=1), (a * 2 * np.pi * f * np.cos(theta)).sum(axis=1)


def noise_section():
    """Noise on smooth signals: along a line, in the plane, in space."""
    rows, n = [], 200
    t, x = np.linspace(0, 1, n), np.arange(float(n))
    for seed in range(20):
        y, slope = signal_1d(seed, t)
        z = y + 0.1 * np.random.default_rng(100 + seed).standard_normal(n)
        spline = make_smoothing_spline(x, z)
        fields = {
            "smooth(denoise=True)": ef.fit(z, ef.smooth(denoise=True)),
            "fit_points(denoise=True)": ef.fit_points(x[:, None], z, denoise=True),
        }
        row = {"axes": 1, "seed": seed}
        for word, field in fields.items():
            found = field.gradient(x[:, None])[:, 0] * (n - 1)
            row |= {
                f"{word}, value": rms(field(x[:, None]) - y),
                f"{word}, slope": rms(found - slope),
            }
        row["make_smoothing_spline, value"] = rms(spline(x) - y)
        row["make_smoothing_spline, slope"] = rms(spline(x, 1) * (n - 1) - slope)
        rows.append(row)
    for d, n in ((2, 64), (3, 24)):
        at = np.stack(np.meshgrid(*[np.arange(n)] * d, indexing="ij"), axis=-1)
        for seed in range(5 if d == 2 else 2):
            rng = np.random.default_rng(seed)
            y = sum(
                np.sin(at @ rng.uniform(-1, 1, d) * 4 * np.pi / n + rng.uniform(0, 2 * np.pi))
                for _ in range(2)
            )
            z = y + 0.2 * rng.standard_normal(y.shape)
            points = ef.fit_points(at.reshape(-1, d).astype(float), z.reshape(-1), denoise=True)
            widths = np.arange(0.5, 6, 0.25)
            rows.append(
                {
                    "axes": d,
                    "seed": seed,
                    "smooth(denoise=True), value": rms(
                        ef.fit(z, ef.smooth(denoise=True)).samples() - y
                    ),
                    "fit_points(denoise=True), value": rms(points(at.astype(float)) - y),
                    "best Gaussian filter, value": min(
                        rms(gaussian_filter(z, w) - y) for w in widths
                    ),
                }
            )
    record("smooth", "noise", rows)
    for d in (1, 2, 3):
        some = [r for r in rows if r["axes"] == d]
        print(d, {k: round(np.mean([r[k] for r in some]), 4) for k in some[0] if "," in k})


def slopes_section():
    """Slopes of noisy arrays: ours, and a Gaussian derivative at its best width.

    The truth is the slope of a spline through the samples before noise was added.
    """
    w = datasets.load("navier-stokes").astype(float)
    sets = {
        "ERA5 t2m": (np.asarray(datasets.load("era5-winter"), float)[100:300, 200:400], 1.0),
        "Navier-Stokes, t = 50": (w[..., 50], 0.1 * w[..., 50].std()),
        "DEM": (np.asarray(datasets.load("dem"), float)[:200, :200], None),
        "MRI": (np.asarray(datasets.load("mri"), float)[100:300, 100:300], None),
    }
    rows = []
    for name, (y, level) in sets.items():
        level = 0.1 * y.std() if level is None else level
        z = y + level * np.random.default_rng(0).standard_normal(y.shape)
        x = np.arange(len(y))
        truth = make_interp_spline(x, y, 3)(x, 1)
        at = np.stack(np.indices(y.shape), axis=-1).astype(float)
        row = {"what": name, "noise": level}
        for word, s in {"smooth": ef.smooth, "oriented": ef.oriented}.items():
            field = ef.fit(z, s(denoise=True))
            row[word] = rms(field.gradient(at)[..., 0] - truth)
        widths = np.arange(0.5, 6, 0.25)
        row["Gaussian"] = min(rms(gaussian_filter(z, s, order=(1, 0)) - truth) for s in widths)
        rows.append(row)
        print(row)
    record("smooth", "slopes", rows)


# --- scattered samples ----------------------------------------------------------------------------


def scattered_section():
    """Held-out errors of scattered samples: ours, thin plates of 50 neighbours, griddata."""
    w, rows = datasets.load("navier-stokes").astype(float), []
    sets = {
        "ERA5 t2m": np.asarray(datasets.load("era5-winter"), float),
        "ERA5 t850": np.asarray(datasets.load("t850"), float).squeeze(),
        "DEM": np.asarray(datasets.load("dem"), float),
        "Navier-Stokes, t = 50": w[..., 50],
    }
    for name, y in sets.items():
        rng = np.random.default_rng(0)
        n = min(20_000, y.size // 3)
        some = rng.permutation(y.size)[: n + 4000]
        at, v = np.stack(np.unravel_index(some, y.shape), axis=1).astype(float), y.reshape(-1)[some]
        ours = ef.fit_points(at[:n], v[:n])
        linear = griddata(at[:n], v[:n], at[n:], "cubic")
        inside = np.isfinite(linear)
        plates = RBFInterpolator(at[:n], v[:n], neighbors=50)
        found = {"fit_points": ours(at[n:]), "thin plates": plates(at[n:]), "griddata": linear}
        row = {"what": name, "samples": n, "order": ours.settings.order}
        rows.append(row | {k: rms((f - v[n:])[inside]) for k, f in found.items()})
        print(rows[-1])
    record("smooth", "scattered", rows)


# --- a picture ------------------------------------------------------------------------------------


def picture_section():
    """Errors against the spacing of the samples, from the record."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    rows = [r for r in rows_of("smooth", "functions") if r["axes"] == 1]
    names = ["waves", "exp", "Runge", "Gaussian", "Bessel", "band-limited 0"]
    figure, axes = plt.subplots(2, 3, figsize=(10, 6), sharex=True, layout="constrained")
    for name, ax in zip(names, axes.flat):
        own = [r for r in rows if r["function"] == name]
        h = [1 / (r["samples"] - 1) for r in own]
        for word in ("cubic", "quintic", "Chebyshev", "smooth()"):
            style = {"smooth()": "k-o", "Chebyshev": ":"}.get(word, "-")
            label = {"smooth()": "elmfield"}.get(word, word)
            ax.loglog(h, [max(r[f"value, {word}"], 1e-16) for r in own], style, ms=3, label=label)
        ax.set_title(name, fontsize=10)
    axes[1, 1].set_xlabel("spacing of the samples on [0, 1]")
    axes[0, 0].set_ylabel("largest error")
    axes[1, 0].set_ylabel("largest error")
    axes[0, 0].legend(fontsize=8)
    figure.savefig(ROOT / "docs" / "pictures" / "smooth.png", dpi=110)


SECTIONS = {
    "functions": functions_section,
    "fresh": fresh_section,
    "exact": exact_section,
    "noise": noise_section,
    "slopes": slopes_section,
    "scattered": scattered_section,
    "picture": picture_section,
}

if __name__ == "__main__":
    main(__doc__, SECTIONS)
