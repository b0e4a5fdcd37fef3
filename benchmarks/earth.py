"""Grids of the Earth: what means conserve, how land costs, how well winds are differentiated.

    python benchmarks/earth.py              everything, about a minute
    python benchmarks/earth.py land         some sections

Sections: conserved, shrunk, land, flow, held, times. Each rewrites its part of
``results/earth.json``. Weights of first order and MetPy's formula are those of ``tests/oracles``.
"""

import sys
import time

import numpy as np
import xarray as xr
from scipy.ndimage import binary_dilation, gaussian_filter

import elmfield as ef
from common import ROOT, main, record
from paper.research import datasets

sys.path.insert(0, str(ROOT / "tests"))
from oracles.earth import area_mean, conservative, metpy_gradient

RADIUS = 6.371e6


def era5(name="era5-winter"):
    """A global array of a quarter of a degree, with its coordinates, in float64."""
    values = np.asarray(datasets.load(name), np.float64)
    lat, lon = 90 - 0.25 * np.arange(721), 0.25 * np.arange(1440)
    return xr.DataArray(
        values, dims=("latitude", "longitude"), coords={"latitude": lat, "longitude": lon}
    )


def spent(work, times=5):
    """Processor seconds of the fastest of a few runs of `work`, all threads together."""
    found = []
    for _ in range(times):
        began = time.process_time()
        work()
        found.append(time.process_time() - began)
    return min(found)


def uneven(low, high, n, rng):
    steps = 0.3 + rng.random(n)
    return low + (high - low) * np.concatenate([[0], np.cumsum(steps) / steps.sum()])


def conserved():
    """The global mean through coarser grids, and what weights of first order give."""
    t2m = era5()
    field = ef.fit(t2m)
    sphere, rng, rows = ef.sphere(field), np.random.default_rng(0), []
    whole = float(sphere.mean())
    old = np.clip(np.arange(-90.125, 90.2, 0.25), -90, 90), np.arange(-0.125, 360, 0.25)
    grids = {
        "1°": (np.arange(-90, 91.0), np.arange(-0.125, 360.5)),
        "2.5°": (np.arange(-90, 91, 2.5), np.arange(-0.125, 360.5, 2.5)),
        "40 × 60, uneven": (uneven(-90, 90, 40, rng), uneven(-0.125, 359.875, 60, rng)),
    }
    for name, (lat, lon) in grids.items():
        means = sphere.means(lat, lon)
        theirs = conservative(t2m.values[::-1], *old, lat, lon)
        points = field.grid((lat[1:] + lat[:-1]) / 2, (lon[1:] + lon[:-1]) / 2)
        rows.append(
            {
                "grid": name,
                "off": abs(area_mean(means, lat, lon) / whole - 1),
                "rms": np.sqrt(np.mean((means - theirs) ** 2)),
                "largest": np.abs(means - theirs).max(),
                "points": np.abs(points - theirs).max(),
            }
        )
    cells = [a.from_index(np.arange(a.size + 1) - 0.5) for a in field.domain.axes]
    back = ef.fit(t2m, samples="means")
    found = back.means(*cells)
    rows.append({"grid": "samples='means'", "off": np.abs(found / t2m.values - 1).max()})
    record("earth", "conserved", rows)


def shrunk():
    """512² to 64²: what is left of noise, and of a zone plate."""
    rng, rows = np.random.default_rng(0), []
    i, j = np.indices((512, 512)) - 255.5
    pictures = {
        "white noise": rng.standard_normal((512, 512)),
        "zone plate": np.cos(np.pi / 512 * (i**2 + j**2)),
    }
    for name, values in pictures.items():
        field = ef.fit(values)
        rows.append(
            {
                "picture": name,
                "means": field.resize((64, 64)).std(),
                "areas": values.reshape(64, 8, 64, 8).mean(axis=(1, 3)).std(),
                "points": field.resize((64, 64), antialias=False).std(),
            }
        )
    record("earth", "shrunk", rows)


def coasts(shape, part=0.46, size=25, seed=0):
    """A mask of land in large pieces."""
    rng = np.random.default_rng(seed)
    rough = gaussian_filter(rng.standard_normal(shape), size, mode=("nearest", "wrap"))
    return rough > np.quantile(rough, 1 - part)


def land():
    """46 % missing: processor seconds of a fit, and errors between samples beside the coast.

    Every second sample of each axis is fitted; scored are places between four that are there, two
    samples from land at most.
    """
    rows = []
    for name in ("era5-winter", "era5-spring", "era5-summer"):
        whole = era5(name)
        gone = coasts(whole.shape)
        holes = whole.where(~gone)
        seconds = spent(lambda holes=holes: ef.fit(holes), 2)
        half = whole.values[:720:2, ::2]
        m = gone[:720:2, ::2]
        truth = whole.values[1:720:2, 1::2][:-1, :-1]
        sea = ~m[:-1, :-1] & ~m[1:, :-1] & ~m[:-1, 1:] & ~m[1:, 1:]
        coast = sea & binary_dilation(m, iterations=2)[:-1, :-1]
        row = {"data": name, "seconds": seconds}
        at = [np.arange(n - 1) + 0.5 for n in half.shape]
        for way in ("nan", "fill"):
            field = ef.fit(np.where(m, np.nan, half), periodic=1, missing=way)
            off = (field.grid(*at, missing="fill") - truth)[coast]
            row[way] = np.sqrt(np.mean(off**2))
        full = ef.fit(half, periodic=1).grid(*at) - truth
        row["nothing missing"] = np.sqrt(np.mean(full[coast] ** 2))
        rows.append(row)
    record("earth", "land", rows)


def polynomial(lat, lon, which):
    """A polynomial on the unit sphere: its slopes east and north, and its Laplacian."""
    f, l = np.broadcast_arrays(np.deg2rad(lat), np.deg2rad(lon))
    x, y, z = np.cos(f) * np.cos(l), np.cos(f) * np.sin(l), np.sin(f)
    if which == 0:
        g = y * z + 3 * x**2 + 0.3, x * z - 0.5 * z**2, x * y - y * z
        lap, bend = 6 * x - y, 6 * x * y * z + 6 * x**3 - 3 * y * z**2
    else:
        g = z, 3 * y**2 + 0.7 * z**2, x + 1.4 * z * y
        lap, bend = 7.4 * y, 6 * y**3 + 2 * x * z + 4.2 * z**2 * y
    east = -np.sin(l) * g[0] + np.cos(l) * g[1]
    north = -np.sin(f) * (np.cos(l) * g[0] + np.sin(l) * g[1]) + np.cos(f) * g[2]
    return east, north, lap - 2 * (x * g[0] + y * g[1] + z * g[2]) - bend


def winds(lat, lon):
    """u, v, vorticity, divergence of a flow with a stream function and a potential."""
    a, b = polynomial(lat, lon, 0), polynomial(lat, lon, 1)
    return b[0] - a[1], a[0] + b[1], a[2], b[2]


def flow():
    """Vorticity and divergence at 1°, by bands of latitude, beside differences on the grid."""
    lat, lon = np.arange(90, -90.5, -1.0), np.arange(360.0)
    u, v, _, _ = winds(lat[:, None], lon)
    ds = xr.Dataset(
        {"u": (("latitude", "longitude"), u), "v": (("latitude", "longitude"), v)},
        coords={"latitude": lat, "longitude": lon},
    )
    sphere, rng, rows = ef.sphere(ef.fit(ds), 1.0), np.random.default_rng(0), []
    (un, ue), (vn, ve) = (metpy_gradient(w, lat, lon, 1.0) for w in (u, v))
    tan = np.tan(np.deg2rad(lat))[:, None]
    grid = {"vorticity": ve - un + u * tan, "divergence": ue + vn - v * tan}
    for low, high in ((0, 80), (80, 89), (89, 90)):
        places = rng.uniform(low, high, 4000) * rng.choice([-1, 1], 4000)
        x = np.stack([places, rng.uniform(0, 360, 4000)], axis=-1)
        truth = dict(zip(("vorticity", "divergence"), winds(*x.T)[2:]))
        inside = (np.abs(lat) >= low) & (np.abs(lat) <= min(high, 89))
        true_grid = dict(zip(("vorticity", "divergence"), winds(lat[:, None], lon)[2:]))
        for name, t in truth.items():
            got = getattr(sphere, name)(x)
            row = {"band": f"{low}° to {high}°", "quantity": name}
            row["ours"] = np.linalg.norm(got - t) / np.linalg.norm(t)
            own = true_grid[name][inside]
            off = grid[name][inside] - own
            row["differences"] = np.linalg.norm(off) / np.linalg.norm(own) if high < 90 else None
            rows.append(row)
    record("earth", "flow", rows)


def held():
    """Every second sample of ERA5 fitted, the others asked for: beside xarray's `interp`."""
    rows = []
    for name in ("era5-winter", "era5-spring", "era5-summer"):
        whole = era5(name)
        half = whole.isel(latitude=slice(None, None, 2), longitude=slice(None, None, 2))
        inner = whole.isel(latitude=slice(101, 621, 2), longitude=slice(101, 1301, 2))
        at = {"latitude": inner.latitude.values, "longitude": inner.longitude.values}
        found = {"ours": ef.fit(half).interp(at)}
        found |= {m: half.interp(at, method=m) for m in ("linear", "cubic")}
        rms = {k: float(np.sqrt(((v - inner) ** 2).mean())) for k, v in found.items()}
        rows.append({"data": name, **rms})
    record("earth", "held", rows)


def times():
    """Processor seconds at a quarter of a degree, beside those of a fit."""
    t2m = era5().astype(np.float32)
    ef.fit(t2m)
    fit = spent(lambda: ef.fit(t2m))
    field = ef.fit(t2m)
    lat, lon = np.arange(-90, 91.0), np.arange(0, 361.0)
    sphere = ef.sphere(field)
    rng = np.random.default_rng(0)
    x = np.stack([rng.uniform(-90, 90, 10000), rng.uniform(0, 360, 10000)], axis=-1)
    work = {
        "samples back": field.samples,
        "means over 1°": lambda: field.means(lat, lon),
        "the same by area": lambda: sphere.means(lat, lon),
        "`ef.sphere(field)`": lambda: ef.sphere(field),
        "10 000 gradients": lambda: field.gradient(x),
        "10 000 gradients per metre": lambda: sphere.gradient(x),
    }
    rows = [{"work": "a fit", "seconds": fit, "fits": 1.0}]
    for name, what in work.items():
        seconds = spent(what)
        rows.append({"work": name, "seconds": seconds, "fits": seconds / fit})
    record("earth", "times", rows, dtype="float32")


SECTIONS = {f.__name__: f for f in (conserved, shrunk, land, flow, held, times)}

if __name__ == "__main__":
    main(__doc__, SECTIONS)
