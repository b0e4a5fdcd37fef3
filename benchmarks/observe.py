# ruff: noqa: B023, E501, E731
"""Fits to observations beside what others make of the same rows, in one run.

    python benchmarks/observe.py                   all sections
    python benchmarks/observe.py slopes months     some

Sections: adjoint, slopes, months, boxes, deblur, fusion, tomography, helmholtz, sensors, deepxde,
stations, flow, rows.
Each rewrites its part of ``results/observe.json``. Rivals are used where they are installed:
scikit-learn, scikit-image, scikit-fem, gridpp, drizzle, reproject, deepxde. Weights of ours come
from the evidence; those of rivals are the best of several for the truth, and say so. Seconds are of
the processor. Functions, noise and places are drawn with seeds from FIRST_SEED on, which no choice
in the library has seen: those below it, and of slopes those up to FRESH_SEED, were used while it
was made.
"""

import importlib.util
import os
import resource
import time
import warnings
from itertools import pairwise
from pathlib import Path

import numpy as np
from scipy.interpolate import CubicSpline, RBFInterpolator
from scipy.ndimage import gaussian_filter, map_coordinates, uniform_filter

import elmfield as ef
from common import ROOT, main, record
from elmfield import observe as ob

DATA = Path(os.environ.get("ELMFIELD_DATA", ROOT.parent / "shared" / "data"))
UNIT = ((0, 0), (1, 1))
FIRST_SEED, FRESH_SEED = 100, 200


def has(name):
    """Whether a rival is installed."""
    return importlib.util.find_spec(name) is not None


def rms(x):
    """Root of the mean square."""
    return float(np.sqrt(np.mean(np.asarray(x) ** 2)))


def psnr(x, truth, peak=None):
    """DB of the truth's range, or of a given peak."""
    return float(20 * np.log10((np.ptp(truth) if peak is None else peak) / rms(x - truth)))


def timed(work):
    """What work gives, and the seconds of the processor it takes."""
    start = time.process_time()
    found = work()
    return found, time.process_time() - start


def mesh(*lines):
    """All places of a grid, (n, d)."""
    return np.stack(np.meshgrid(*lines, indexing="ij"), -1).reshape(-1, len(lines))


def smooth_function(rng):
    """A sum of eight waves over the unit square, and its gradient."""
    k, a, ph = 12 * rng.random((8, 2)) - 4, rng.standard_normal(8), 6.28 * rng.random(8)
    phase = lambda x: x @ k.T + ph
    return (
        lambda x: np.sin(phase(x)) @ a,
        lambda x: (np.cos(phase(x)) * a) @ k,
    )


def adjoint():
    """How far each operator's adjoint is from its transpose: the estimate of deepinv 0.5.

    The root mean square of ``uᵀ A v - vᵀ B u`` over that of ``uᵀ A v``, normal u and v, as in
    ``LinearPhysics.adjointness_test``; deepinv itself needs a torchvision of its own.
    """
    from scipy.sparse import random_array
    from scipy.sparse.linalg import aslinearoperator

    from elmfield.domain import make_domain
    from elmfield.fit.observations.rows import sample_maps

    rng, shape = np.random.default_rng(FIRST_SEED), (40, 32)
    (a, b), none = 29 * rng.random((2, 200, 2)), np.zeros(200)
    pixels = mesh(np.arange(40.0), np.arange(32.0))
    A = random_array((200, 1280), density=0.05, rng=rng, format="csr")
    own = ob.gaussian(1.6, step=1.0)
    made = {
        "values": ob.values(a, none),
        "derivatives": ob.derivatives(a, none, order=(1, 0)),
        "means": ob.means(np.minimum(a, b), np.minimum(a, b) + 2, none),
        "lines": ob.lines(a, b, none),
        "blurred, anywhere": ob.blurred(a, none, psf=own),
        "blurred, a grid": ob.blurred(pixels, np.zeros(1280), psf=own),
        "a kernel": ob.blurred(a, none, psf=rng.random((5, 3))),
        "equation": ob.equation(a, {(2, 0): 1, (0, 2): rng.random(200)}, none),
        "operator": ob.operator(A, none),
        "LinearOperator": ob.operator(aslinearoperator(A), none),
    }
    rows = []
    for wraps in ((), (1,)):
        domain = make_domain(shape, dims=None, coords=None, periodic=wraps)
        for name, o in made.items():
            (M,) = sample_maps([o], domain, ef.smooth(order=2.0, cell=6, overlap=1.0, context=1))
            v, u = rng.standard_normal((1280, 50)), rng.standard_normal((len(o), 50))
            one, other = (u * M.matmat(v)).sum(axis=0), (v * M.rmatmat(u)).sum(axis=0)
            rows.append({"rows": name, "periodic": len(wraps), "off": rms(one - other) / rms(one)})
            print(rows[-1], flush=True)
    record("observe", "adjoint", rows)


def slopes():
    """Values and slopes at 300 points, against values alone; without noise and with 1 %."""
    rows = []
    for seed in range(FRESH_SEED, FRESH_SEED + 6):
        rng = np.random.default_rng(seed)
        f, g = smooth_function(rng)
        x, q = rng.random((300, 2)), rng.random((2000, 2))
        for noise in (0.0, 0.01):
            y = f(x) + noise * rng.standard_normal(300)
            d = g(x) + noise * rng.standard_normal((300, 2))
            first = [ob.values(x, y, noise=noise)]
            more = [
                ob.derivatives(x, d[:, k], order=np.eye(2, dtype=int)[k], noise=noise)
                for k in range(2)
            ]
            alone = rms(ef.fit_observations(first, bounds=UNIT, spacing=0.02)(q) - f(q))
            both, seconds = timed(
                lambda: ef.fit_observations(first + more, bounds=UNIT, spacing=0.02)
            )
            row = {"seed": seed, "noise": noise, "values": alone, "slopes": rms(both(q) - f(q))}
            row |= {"ratio": row["slopes"] / alone, "seconds": seconds}
            if has("sklearn"):
                from sklearn.gaussian_process import GaussianProcessRegressor
                from sklearn.gaussian_process.kernels import RBF, WhiteKernel

                kernel = RBF([0.3, 0.3]) + WhiteKernel(1e-4, (1e-12, 1))
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    gp = GaussianProcessRegressor(kernel, normalize_y=True).fit(x, y)
                row["scikit_learn"] = rms(gp.predict(q) - f(q))
            rows.append(row)
            print(row, flush=True)
    record("observe", "slopes", rows)


def months():
    """Calendar-month means of three years to days: 30 climates of seasons and slow waves."""
    lengths = np.tile([31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31], 3)
    edges = np.concatenate([[0], np.cumsum(lengths)]).astype(float)
    days, rows = np.arange(edges[-1]) + 0.5, []
    for seed in range(FIRST_SEED, FIRST_SEED + 30):
        rng = np.random.default_rng(seed)
        f = 0.7 * np.arange(2, 9)
        a, ph = 3 * rng.standard_normal(7) / (1 + f / 2), 6.28 * rng.random(7)
        w = 2 * np.pi / 365 * np.concatenate([[1], f])
        a, ph = np.concatenate([[10], a]), np.concatenate([[0.3], ph])
        truth = np.sin(np.outer(days, w) + ph) @ a
        whole = -np.cos(np.outer(edges, w) + ph) @ (a / w)
        m = np.diff(whole) / lengths
        field, seconds = timed(
            lambda m=m: ef.fit_observations([ob.means(edges[:-1], edges[1:], m)], spacing=1)
        )
        kept = [field.integral([p], [q]) / (q - p) for p, q in pairwise(edges)]
        spline = CubicSpline(edges, np.concatenate([[0], np.cumsum(m * lengths)]))
        linear = np.interp(days, (edges[:-1] + edges[1:]) / 2, m)
        rows.append(
            {
                "seed": seed,
                "off": float(np.abs(kept - m).max()),
                "ours": rms(field(days[:, None]) - truth),
                "linear": rms(linear - truth),
                "spline": rms(spline(days, 1) - truth),
                "seconds": seconds,
            }
        )
    record("observe", "months", rows)
    print({k: float(np.mean([r[k] for r in rows])) for k in ("ours", "linear", "spline")})
    print(max(r["off"] for r in rows), sum(r["ours"] < min(r["linear"], r["spline"]) for r in rows))


def boxes():
    """Means over random, uneven, overlapping boxes, kept: of a wave, and of nothing smooth."""
    rows = []
    F = lambda x, y: -np.sin(5 * x + 3 * y) / 15
    for seed, n in enumerate((40, 200, 400), FIRST_SEED):
        rng = np.random.default_rng(seed)
        a = 0.8 * rng.random((n, 2))
        b = a + 0.02 + 0.15 * rng.random((n, 2))
        whole = F(*b.T) - F(a[:, 0], b[:, 1]) - F(b[:, 0], a[:, 1]) + F(*a.T)
        for word, m in (
            ("wave", whole / np.prod(b - a, axis=1)),
            ("random", rng.standard_normal(n)),
        ):
            field, seconds = timed(
                lambda m=m, a=a, b=b: ef.fit_observations(
                    [ob.means(a, b, m)], bounds=UNIT, spacing=0.02
                )
            )
            kept = [field.integral(p, q) / np.prod(q - p) for p, q in zip(a, b)]
            off = float(np.abs(kept - m).max())
            rows.append({"seed": seed, "boxes": n, "of": word, "off": off, "seconds": seconds})
            print(rows[-1], flush=True)
    record("observe", "boxes", rows)


def total_variation(forward, back, y, x, weight, norm, *, positive=False, steps=400):
    """``|A x - y|²/2 + weight TV(x)`` by Chambolle and Pock's algorithm."""
    size = np.sqrt(norm**2 + 8)
    tau = sigma = 0.99 / size
    p, q, bar = np.zeros((2, *x.shape)), np.zeros_like(y), x
    for _ in range(steps):
        q = (q + sigma * (forward(bar) - y)) / (1 + sigma)
        g = np.stack([np.diff(bar, axis=k, append=bar.take([-1], axis=k)) for k in range(2)])
        p = p + sigma * g
        p /= np.maximum(1, np.sqrt((p**2).sum(0)) / weight)
        d = sum(
            np.diff(
                np.where(np.arange(x.shape[k]).reshape(-1, *[1] * (1 - k)) == x.shape[k] - 1, 0, p[k]),
                axis=k, prepend=np.zeros_like(p[k].take([0], axis=k)),
            )
            for k in range(2)
        )  # fmt: skip
        new = x - tau * (back(q) - d)
        new = np.maximum(new, 0) if positive else new
        bar, x = 2 * new - x, new
    return x


def deblur_by_variation(gain, y, weight, steps=120):
    """The same of a periodic blur, by alternating directions: each linear solve is exact."""
    waves = [2 * np.pi * np.fft.fftfreq(n) for n in y.shape]
    squares = sum(np.meshgrid(*[2 - 2 * np.cos(w) for w in waves], indexing="ij"))
    slope = lambda x: np.stack([np.roll(x, -1, k) - x for k in range(2)])
    back = lambda p: sum(np.roll(p[k], 1, k) - p[k] for k in range(2))
    rho, z, u, right = weight / 4, slope(y), 0.0, gain * np.fft.fft2(y)
    for _ in range(steps):
        x = right + rho * np.fft.fft2(back(z - u))
        x = np.fft.ifft2(x / (gain**2 + rho * squares)).real
        g = slope(x) + u
        size = np.maximum(np.sqrt((g**2).sum(0)), 1e-12)
        z = g * np.maximum(1 - weight / rho / size, 0)
        u = g - z
    return x


def pictures():
    """512 × 512 crops of three photographs and a scan, 0 to 255."""
    from PIL import Image

    found = {}
    for name in ("kodim05", "kodim20", "kodim23"):
        image = np.asarray(Image.open(DATA / "kodak" / f"{name}.png").convert("L"), float)
        a, b = ((n - 512) // 2 for n in image.shape)
        found[name] = image[a : a + 512, b : b + 512]
    found["MRI"] = np.asarray(Image.open(DATA / "mri" / "brain_t2_512.png").convert("L"), float)
    return found


def deblur():
    """Gaussian 1.6 pixels, noise 2, periodic borders."""
    rows = []
    for name, truth in pictures().items():
        n = len(truth)
        offsets = np.arange(-8, 9)
        w = np.exp(-((offsets / 1.6) ** 2) / 2)
        line = np.zeros(n)
        line[offsets] = w / w.sum()
        gain = np.fft.fft(line).real
        gain = gain[:, None] * gain
        blur = lambda x, gain=gain: np.fft.ifft2(np.fft.fft2(x) * gain).real
        y = blur(truth) + 2 * np.random.default_rng(FIRST_SEED).standard_normal(truth.shape)
        row = {"picture": name, "blurred": psnr(y, truth, 255)}
        at = mesh(*[np.arange(float(n))] * 2)
        seen = [ob.blurred(at, y.ravel(), psf=ob.gaussian(1.6, step=1.0), noise=2.0)]
        field, seconds = timed(
            lambda o=seen: ef.fit_observations(o, ef.oriented(), shape=(512, 512), periodic=(0, 1))
        )
        row |= {"oriented": psnr(field.samples(), truth, 255), "oriented_seconds": seconds}
        tv = {k: psnr(deblur_by_variation(gain, y, k), truth, 255) for k in (0.05, 0.1, 0.2, 0.4)}
        row |= {"tv": max(tv.values()), "tv_weight": max(tv, key=tv.get)}
        if has("skimage"):
            from skimage.restoration import richardson_lucy, unsupervised_wiener

            kernel = np.outer(w, w) / w.sum() ** 2
            some = [
                255 * richardson_lucy(np.clip(y / 255, 1e-3, 1), kernel, k) for k in (5, 10, 20, 40)
            ]
            row["richardson_lucy"] = max(psnr(x, truth, 255) for x in some)
            row["wiener"] = psnr(255 * unsupervised_wiener(y / 255, kernel, rng=0)[0], truth, 255)
        rows.append(row)
        print(row, flush=True)
        record("observe", "deblur", rows)


def rays(n, views):
    """Both ends of parallel rays, a sample apart, through a grid of n × n samples."""
    start, end, c = [], [], (n - 1) / 2
    for angle in np.pi * np.arange(views) / views:
        along = np.array([-np.sin(angle), np.cos(angle)])
        for t in np.arange(n) - c:
            p, low, high = c + t * np.array([np.cos(angle), np.sin(angle)]), -np.inf, np.inf
            for k in range(2):
                if abs(along[k]) > 1e-12:
                    a, b = sorted(((-0.5 - p[k]) / along[k], (n - 0.5 - p[k]) / along[k]))
                    low, high = max(low, a), min(high, b)
            if high - low > 1:
                start.append(p + low * along)
                end.append(p + high * along)
    return np.clip(start, -0.5, n - 0.5), np.clip(end, -0.5, n - 0.5)


def phantoms(n):
    """25 smooth blobs, and Shepp and Logan's phantom."""
    from skimage.data import shepp_logan_phantom
    from skimage.transform import resize

    rng, at = np.random.default_rng(1), mesh(*[np.arange(n)] * 2)
    blobs = np.zeros(n * n)
    for _ in range(25):
        c, s, a = 24 + (n - 48) * rng.random(2), 3 + 7 * rng.random(), rng.random()
        blobs += a * np.exp(-((at - c) ** 2).sum(-1) / 2 / s**2)
    logan = resize(shepp_logan_phantom(), (n, n), anti_aliasing=True)
    return {"blobs": blobs.reshape(n, n), "Shepp-Logan": logan}


def tomography():
    """128 × 128, 30 views, 1 % noise: `lines` of a function, and what others make of them.

    Rows of the rivals are ours as a matrix (a ray's integral in terms of samples), so that all see
    the same data; FBP is scikit-image's on the same sinogram.
    """
    from elmfield.domain import make_domain
    from elmfield.fit.observations.rows import sample_maps

    n, rows = 128, []
    start, end = rays(n, 30)
    domain = make_domain((n, n), dims=None, coords=None, periodic=())
    settings = ef.smooth(order=2.0, cell=6, overlap=1.0, context=1)
    (A,) = sample_maps([ob.lines(start, end, np.zeros(len(start)))], domain, settings)
    x = np.random.default_rng(0).random((n * n, 1))
    for _ in range(30):
        x = A.rmatmat(A.matmat(x))
        norm = np.sqrt(np.linalg.norm(x))
        x /= np.linalg.norm(x)
    sums = (A.matmat(np.ones((n * n, 1))), A.rmatmat(np.ones((len(start), 1))))
    for name, truth in phantoms(n).items():
        y = A.matmat(truth.reshape(-1, 1))
        noise = 0.01 * y.max()
        y = y + noise * np.random.default_rng(FIRST_SEED).standard_normal(y.shape)
        row = {"phantom": name}
        for word, level, positive in (
            ("ours", noise, False),
            ("unknown_noise", None, False),
            ("positive", noise, True),
        ):
            field, seconds = timed(
                lambda level=level, positive=positive, y=y: ef.fit_observations(
                    [ob.lines(start, end, y[:, 0], noise=level)], shape=(n, n), positive=positive
                )
            )
            row |= {word: psnr(field.samples(), truth), f"{word}_seconds": seconds}
        best, x = -np.inf, np.zeros((n * n, 1))
        for _ in range(300):  # SIRT, its best step for the truth
            x = np.maximum(
                x + A.rmatmat((y - A.matmat(x)) / sums[0]) / np.maximum(sums[1], 1e-9), 0
            )
            best = max(best, psnr(x.reshape(n, n), truth))
        row["sirt"] = best
        if len(start) == 30 * n and has("skimage"):
            from skimage.transform import iradon

            angles = 180 * np.arange(30) / 30
            made = [
                iradon(y[:, 0].reshape(30, n).T, s * angles + o, filter_name=f, circle=True)
                for s in (1, -1) for o in (0, 90) for f in ("ramp", "hann")
            ]  # fmt: skip
            row["fbp"] = max(
                psnr(turn(x), truth)
                for x in made
                for turn in (np.array, np.transpose, np.fliplr, np.flipud)
            )
        rows.append(row)
        print(row, flush=True)
        record("observe", "tomography", rows)
        forward = lambda x: A.matmat(x.reshape(-1, 1)) / norm
        back = lambda q: (A.rmatmat(q) / norm).reshape(n, n)
        tv = {}
        for k in (1e-4, 3e-4, 1e-3, 3e-3):
            weight = k * np.ptp(truth)
            found = total_variation(
                forward, back, y / norm, np.zeros((n, n)), weight, 1.0, positive=True, steps=1000
            )
            tv[k] = psnr(found, truth)
        row |= {"tv": max(tv.values()), "tv_weight": max(tv, key=tv.get)}
        print(row, flush=True)
        record("observe", "tomography", rows)


def helmholtz():
    """u_xx + u_yy - 10 u = f on [0, 3.6]², as in the paper of locELM."""
    k = 3.6
    f = lambda t: 1.5 * np.cos(np.pi * t + 0.4 * np.pi) + 2 * np.cos(2 * np.pi * t - np.pi / 5)
    f2 = lambda t: (
        -(np.pi**2)
        * (1.5 * np.cos(np.pi * t + 0.4 * np.pi) + 8 * np.cos(2 * np.pi * t - np.pi / 5))
    )
    u = lambda p: -f(p[:, 0]) * f(p[:, 1])
    rhs = lambda p: -f2(p[:, 0]) * f(p[:, 1]) - f(p[:, 0]) * f2(p[:, 1]) - 10 * u(p)
    line = k / 2 * (1 - np.cos(np.pi * np.arange(42) / 41))
    p = mesh(line, line)
    edge = ((p < 1e-12) | (p > k - 1e-12)).any(1)
    rows_of = [
        ob.equation(p[~edge], {(2, 0): 1, (0, 2): 1, (0, 0): -10}, rhs(p[~edge])),
        ob.values(p[edge], u(p[edge]), noise=0),
    ]
    field, seconds = timed(
        lambda: ef.fit_observations(rows_of, bounds=((0, 0), (k, k)), spacing=0.1)
    )
    q = k * np.random.default_rng(0).random((4000, 2))
    off = float(np.abs(field(q) - u(q)).max())
    rows = [
        {
            "who": "ours",
            "coefficients": field.model.n_coefficients,
            "error": off,
            "seconds": seconds,
        }
    ]
    start = time.process_time()
    N = 40
    x = np.cos(np.pi * np.arange(N + 1) / N)
    c = np.hstack([2, np.ones(N - 1), 2]) * (-1) ** np.arange(N + 1)
    D = np.outer(c, 1 / c) / (x[:, None] - x + np.eye(N + 1))
    D = (D - np.diag(D.sum(1))) * 2 / k
    L, V = np.linalg.eig((D @ D)[1:-1, 1:-1])
    place = k * (1 + x) / 2
    at = mesh(place, place)
    U = u(at).reshape(N + 1, -1)
    R = rhs(at).reshape(N + 1, -1)[1:-1, 1:-1]
    B = (D @ D)[1:-1][:, [0, N]]
    R = R - B @ U[[0, N]][:, 1:-1] - (B @ U[:, [0, N]].T[:, 1:-1]).T
    inner = V @ (np.linalg.solve(V, R) @ np.linalg.inv(V).T / (L[:, None] + L - 10)) @ V.T
    off = float(np.abs(inner - U[1:-1, 1:-1]).max())
    rows.append(
        {
            "who": "Chebyshev, N = 40",
            "coefficients": 1681,
            "error": off,
            "seconds": time.process_time() - start,
        }
    )
    if has("skfem"):
        import skfem
        from skfem.helpers import dot, grad

        start = time.process_time()
        mesh_ = skfem.MeshQuad.init_tensor(*[np.linspace(0, k, 9)] * 2)
        basis = skfem.Basis(mesh_, skfem.ElementQuadP(8))
        A = skfem.BilinearForm(lambda a, b, w: -dot(grad(a), grad(b)) - 10 * a * b).assemble(basis)
        b = skfem.LinearForm(
            lambda v, w: rhs(w.x.reshape(2, -1).T).reshape(w.x[0].shape) * v
        ).assemble(basis)
        full = basis.project(lambda x: u(x.reshape(2, -1).T).reshape(x[0].shape))
        D_ = basis.get_dofs().all()
        full = skfem.solve(*skfem.condense(A, b, x=full, D=D_))
        seen = basis.probes(q.T) @ full
        rows.append(
            {
                "who": "scikit-fem Q8, 8 × 8",
                "coefficients": int(basis.N),
                "error": float(np.abs(seen - u(q)).max()),
                "seconds": time.process_time() - start,
            }
        )
    rows.append(
        {"who": "locELM, its paper", "coefficients": 1600, "error": 2.01e-5, "seconds": None}
    )
    for row in rows:
        print(row, flush=True)
    record("observe", "helmholtz", rows)


def heat(rng):
    """Seven modes of heat in a rod whose ends are at 0, and their equation."""
    j = np.arange(1, 8)
    a = rng.standard_normal(7) / j**0.5
    u = lambda p: (
        (np.sin(np.pi * np.outer(p[:, 0], j)) * np.exp(-0.02 * (np.pi * j) ** 2 * p[:, 1:])) @ a
    )
    t = np.linspace(0, 1, 40)
    ends = np.concatenate([np.stack([np.full(40, x), t], 1) for x in (0.0, 1.0)])
    return u, [
        ob.equation(rng.random((600, 2)), {(0, 1): 1, (2, 0): -0.02}),
        ob.values(ends, np.zeros(80), noise=0),
    ]


def advection(rng):
    """Waves that move at speed 0.7, and their equation."""
    a, ph, k = rng.standard_normal(5) / np.arange(1, 6), 6.28 * rng.random(5), 3 * np.arange(1, 6)
    u = lambda p: np.sin(np.outer(p[:, 0] - 0.7 * p[:, 1], k) + ph) @ a
    return u, [ob.equation(rng.random((600, 2)), {(0, 1): 1, (1, 0): 0.7})]


def sensors():
    """60 noisy sensors (5 %), alone and with the equation they obey; noise known and not."""
    rows = []
    for case in (heat, advection):
        for seed in range(FIRST_SEED, FIRST_SEED + 5):
            rng = np.random.default_rng(seed)
            u, law = case(rng)
            x, q = rng.random((60, 2)), rng.random((3000, 2))
            size = rms(u(q))
            y = u(x) + 0.05 * size * rng.standard_normal(60)
            for noise in (0.05 * size, None):
                seen = ob.values(x, y, noise=noise)
                alone = rms(ef.fit_observations([seen], bounds=UNIT)(q) - u(q)) / size
                both, seconds = timed(
                    lambda seen=seen, law=law: ef.fit_observations([seen, *law], bounds=UNIT)
                )
                row = {"case": case.__name__, "seed": seed, "noise_known": noise is not None}
                row |= {"alone": alone, "law": rms(both(q) - u(q)) / size, "seconds": seconds}
                row["ratio"] = row["law"] / alone
                rbf = RBFInterpolator(x, y, smoothing=0.01)
                row["rbf"] = rms(rbf(q) - u(q)) / size
                rows.append(row)
                print(row, flush=True)
    record("observe", "sensors", rows)


def deepxde():
    """The same sensors and equations by DeepXDE, five minutes of the processor each."""
    os.environ.setdefault("DDE_BACKEND", "pytorch")
    import deepxde as dde

    class Minutes(dde.callbacks.Callback):
        def on_train_begin(self):
            self.start = time.process_time()

        def on_epoch_end(self):
            self.model.stop_training = time.process_time() - self.start > 300

    def slope(u, x, *order):
        for k, n in enumerate(order):
            for _ in range(n):
                u = dde.grad.jacobian(u, x, i=0, j=k)
        return u

    rows = []
    for case in (heat, advection):
        rng = np.random.default_rng(FIRST_SEED)
        u, law = case(rng)
        x, q = rng.random((60, 2)), rng.random((3000, 2))
        size = rms(u(q))
        y = u(x) + 0.05 * size * rng.standard_normal(60)
        terms = (
            (lambda a, b: slope(b, a, 0, 1) - 0.02 * slope(b, a, 2, 0))
            if case is heat
            else (lambda a, b: slope(b, a, 0, 1) + 0.7 * slope(b, a, 1, 0))
        )
        known = [dde.icbc.PointSetBC(x, y[:, None])]
        known += [dde.icbc.PointSetBC(o.places, 0 * o.places[:, :1]) for o in law[1:]]
        data = dde.data.PDE(dde.geometry.Rectangle([0, 0], [1, 1]), terms, known, num_domain=600)
        model = dde.Model(data, dde.nn.FNN([2, 50, 50, 50, 1], "tanh", "Glorot uniform"))
        model.compile("adam", lr=1e-3)
        model.train(iterations=10**7, callbacks=[Minutes()], display_every=10**7, verbose=0)
        off = rms(model.predict(q)[:, 0] - u(q)) / size
        rows.append(
            {
                "case": case.__name__,
                "seed": FIRST_SEED,
                "deepxde": off,
                "steps": int(model.train_state.step),
            }
        )
        print(rows[-1], flush=True)
        record("observe", "deepxde", rows)


def crps(mean, std, truth):
    """Mean continuous ranked probability score of normal predictions."""
    from scipy.stats import norm

    z = (truth - mean) / std
    return float(np.mean(std * (z * (2 * norm.cdf(z) - 1) + 2 * norm.pdf(z) - 1 / np.sqrt(np.pi))))


def stations():
    """Stations correct a forecast: ERA5 over Europe, its coarse means with an error, 300 stations."""
    import xarray as xr

    data = xr.open_dataset(DATA / "era5" / "era5_t2m_20230422T03_spring.nc")
    name = next(iter(data.data_vars))
    whole = np.squeeze(data[name].to_numpy()).astype(float)
    lat = data[next(d for d in data[name].dims if "lat" in d)].to_numpy()
    rows_at = np.flatnonzero((lat < 60) & (lat > 40))
    truth, rows = whole[rows_at][:, :120], []
    shape = truth.shape
    index = mesh(*map(np.arange, shape)).astype(float)
    for seed in range(FIRST_SEED, FIRST_SEED + 5):
        rng = np.random.default_rng(seed)
        wrong = gaussian_filter(rng.standard_normal(shape), 8)
        guess = uniform_filter(truth, 7) + 1.5 * wrong / wrong.std()
        picked = rng.permutation(len(index))[:600]
        x, q = index[picked[:300]], index[picked[300:]]
        y = map_coordinates(truth, x.T, order=1) + 0.5 * rng.standard_normal(300)
        t = map_coordinates(truth, q.T, order=1)
        background = ef.fit(guess, ef.smooth(order=2.0))
        field, seconds = timed(
            lambda: ef.fit_observations([ob.values(x, y, noise=0.5)], background=background)
        )
        std = field.std(q)
        row = {"seed": seed, "background": rms(background(q) - t), "ours": rms(field(q) - t)}
        row |= {
            "crps": crps(field(q), std, t),
            "cover": float(np.mean(np.abs(field(q) - t) < 1.645 * std)),
        }
        row["seconds"] = seconds
        if has("gridpp"):
            import gridpp

            flat = lambda x: x.astype(np.float32)
            step = 25000.0  # metres: a plane of our own
            grid = gridpp.Grid(
                *(flat(c.reshape(shape)) for c in step * index.T),
                *[flat(0 * truth)] * 2,
                gridpp.Cartesian,
            )
            points = gridpp.Points(
                *(flat(c) for c in step * x.T), *[flat(np.zeros(300))] * 2, gridpp.Cartesian
            )
            at = flat(background(x))
            errors = np.std(y - at)
            best, own = (np.inf,), (np.inf,)
            some = gridpp.Points(
                *(flat(c) for c in step * x[::2].T), *[flat(np.zeros(150))] * 2, gridpp.Cartesian
            )
            for h in (5e4, 1e5, 1.5e5, 2e5, 3e5, 4e5, 6e5, 8e5):
                ratio = flat(np.full(300, 0.25 / max(errors**2 - 0.25, 0.01)))
                got = gridpp.optimal_interpolation_full(
                    grid, flat(guess), flat(np.full(shape, errors**2 - 0.25)), points, flat(y),
                    ratio * flat(np.full(300, errors**2 - 0.25)), at,
                    flat(np.full(300, errors**2 - 0.25)), gridpp.BarnesStructure(h), 50,
                )  # fmt: skip
                mean, var = (map_coordinates(np.asarray(g), q.T, order=1) for g in got)
                best = min(best, (rms(mean - t), crps(mean, np.sqrt(np.maximum(var, 1e-4)), t), h))
                half = gridpp.optimal_interpolation(
                    grid, flat(guess), some, flat(y[::2]), ratio[::2], at[::2],
                    gridpp.BarnesStructure(h), 50,
                )  # fmt: skip
                left = rms(map_coordinates(np.asarray(half), x[1::2].T, order=1) - y[1::2])
                own = min(own, (left, rms(mean - t), h))
            row |= {"gridpp": best[0], "gridpp_crps": best[1], "gridpp_length": best[2]}
            row |= {"gridpp_by_stations": own[1], "gridpp_length_by_stations": own[2]}
        rows.append(row)
        print(row, flush=True)
    record("observe", "stations", rows)


def flow():
    """A flow without divergence from 200 noisy vectors, with the law and without."""
    rows = []
    for seed in range(FIRST_SEED, FIRST_SEED + 5):
        rng = np.random.default_rng(seed)
        _, g = smooth_function(rng)  # its stream function
        v = lambda p, g=g: np.stack([g(p)[:, 1], -g(p)[:, 0]], -1)
        x, q, law = rng.random((200, 2)), rng.random((2000, 2)), rng.random((400, 2))
        noise = 0.1 * rms(v(q))
        seen = ob.values(x, v(x) + noise * rng.standard_normal((200, 2)), noise=noise)
        alone = ef.fit_observations([seen], bounds=UNIT)
        field, seconds = timed(
            lambda seen=seen, law=law: ef.fit_observations([seen, ob.divergence(law)], bounds=UNIT)
        )
        G = field.gradient(law)
        row = {
            "seed": seed,
            "components": rms(alone(q) - v(q)),
            "divergence_free": rms(field(q) - v(q)),
        }
        row |= {
            "divergence": float(np.abs(G[:, 0, 0] + G[:, 1, 1]).max() / np.abs(G).max()),
            "seconds": seconds,
        }
        rows.append(row)
        print(row, flush=True)
    record("observe", "flow", rows)


def fusion():
    """Four shifted, rotated, blurred exposures of a photograph, noise 2, in one picture."""
    from PIL import Image

    image = np.asarray(Image.open(DATA / "kodak" / "kodim23.png").convert("L"), float)
    truth, n, m, pitch, width = image[150:278, 300:428], 128, 76, 1.5, 1.0
    seen_by, rng = (
        gaussian_filter(image, width)[150:278, 300:428],
        np.random.default_rng(FIRST_SEED),
    )
    exposures, where = [], []
    for angle, shift in ((0, (0.3, -0.2)), (7, (-0.4, 0.6)), (-11, (0.7, 0.1)), (19, (-0.1, -0.6))):
        a = np.deg2rad(angle)
        turn = np.array([[np.cos(a), -np.sin(a)], [np.sin(a), np.cos(a)]])
        at = (
            (pitch * (mesh(np.arange(m), np.arange(m)) - (m - 1) / 2)) @ turn.T
            + (n - 1) / 2
            + shift
        )
        inside = ((at > 6) & (at < n - 7)).all(1)
        y = map_coordinates(seen_by, at.T, order=5) + 2 * rng.standard_normal(len(at))
        exposures.append((at, y, inside))
        where.append((turn, np.asarray(shift)))
    rows_of = [
        ob.blurred(at[ok], y[ok], psf=ob.gaussian(width), noise=2.0) for at, y, ok in exposures
    ]
    field, seconds = timed(lambda: ef.fit_observations(rows_of, shape=(n, n)))
    inner = slice(16, n - 16)
    x, want = field.samples()[inner, inner], truth[inner, inner]
    std = field.resize((n, n), quantity="std")[inner, inner]
    row = {
        "ours": rms(x - want),
        "cover": float(np.mean(np.abs(x - want) < 1.645 * std)),
        "seconds": seconds,
    }
    drawn = field.model.observed.parts(mesh(*[np.arange(16.0, n - 16)] * 2), ())
    drawn = drawn.reshape(n - 32, n - 32, -1)
    off, spread = [], []
    for i in range(0, 90, 6):
        for j in range(0, 90, 6):
            box = (slice(i, i + 6), slice(j, j + 6))
            off.append(abs((x - want)[box].sum()))
            spread.append(np.sqrt((drawn[box].sum((0, 1)) ** 2).sum()))
    row["cover_of_sums"] = float(np.mean(np.asarray(off) < 1.645 * np.asarray(spread)))
    if has("drizzle"):
        from drizzle.resample import Drizzle

        made = Drizzle(out_shape=(n, n), kernel="square")
        for at, y, ok in exposures:
            pixmap = at.reshape(m, m, 2)[..., ::-1].copy()
            made.add_image(
                y.reshape(m, m).astype(np.float32), exptime=1.0, pixmap=pixmap, pixfrac=0.8,
                weight_map=ok.reshape(m, m).astype(np.float32),
            )  # fmt: skip
        row["drizzle"] = rms(np.nan_to_num(made.out_img)[inner, inner] - want)
    if has("reproject"):
        from astropy.wcs import WCS
        from reproject import reproject_adaptive

        total = np.zeros((2, n, n))
        scale = 1e-4
        target = WCS(naxis=2)
        target.wcs.crpix, target.wcs.cdelt = [(n + 1) / 2] * 2, [scale] * 2
        for (_, y, _), (turn, shift) in zip(exposures, where):
            own = WCS(naxis=2)
            back = np.linalg.inv(turn) @ (-shift) / pitch  # where the target's centre lies
            own.wcs.crpix = [(m + 1) / 2 + back[1], (m + 1) / 2 + back[0]]
            own.wcs.cd = (
                scale * pitch * np.array([[turn[1, 1], turn[1, 0]], [turn[0, 1], turn[0, 0]]])
            )
            got, foot = reproject_adaptive(
                (y.reshape(m, m), own), target, shape_out=(n, n), kernel="gaussian"
            )
            total += np.stack([np.nan_to_num(got) * foot, foot])
        row["reproject"] = rms((total[0] / total[1])[inner, inner] - want)
    print(row, flush=True)
    record("observe", "fusion", [row])
    sharp, seconds = timed(lambda: ef.fit_observations(rows_of, ef.oriented(), shape=(n, n)))
    row |= {"oriented": rms(sharp.samples()[inner, inner] - want), "oriented_seconds": seconds}
    print(row, flush=True)
    record("observe", "fusion", [row])


def rows():
    """10⁵ rows of values and means of something rough."""
    rng, n = np.random.default_rng(0), 50_000
    f = lambda p: (
        np.sin(40 * p[:, 0] + 20 * p[:, 1] ** 2)
        + np.tanh(20 * (p[:, 0] - 0.5 - 0.2 * np.sin(6 * p[:, 1])))
    )
    x, low = rng.random((n, 2)), 0.97 * rng.random((n, 2))
    high = low + 0.005 + 0.02 * rng.random((n, 2))
    means = np.mean([f(low + (high - low) * s) for s in mesh(*[[0.17, 0.5, 0.83]] * 2)], axis=0)
    seen = [
        ob.values(x, f(x) + 0.1 * rng.standard_normal(n)),
        ob.means(low, high, means + 0.1 * rng.standard_normal(n), noise=0.1),
    ]
    start = time.perf_counter()
    field, seconds = timed(lambda: ef.fit_observations(seen, bounds=UNIT, spacing=0.01))
    q = rng.random((2000, 2))
    row = {
        "rows": 2 * n,
        "seconds": seconds,
        "clock": time.perf_counter() - start,
        "error": rms(field(q) - f(q)),
    }
    row["gigabytes"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    print(row)
    record("observe", "rows", [row])


SECTIONS = {
    "adjoint": adjoint, "slopes": slopes, "months": months, "boxes": boxes, "deblur": deblur, "fusion": fusion,
    "tomography": tomography, "helmholtz": helmholtz, "sensors": sensors, "deepxde": deepxde, "stations": stations,
    "flow": flow, "rows": rows,
}  # fmt: skip

if __name__ == "__main__":
    main(__doc__, SECTIONS)
