"""Grids as they are: uneven axes, curvilinear meshes, maps, means over cells; beside rivals.

    python benchmarks/ground.py              everything, a few minutes
    python benchmarks/ground.py lines sine   some sections

Sections: lines, sine, cells, levels, times, meshes, conserved, fine, maps, nodata. Each rewrites
its part of ``results/ground.json``. `maps` and `nodata` need rasterio and no ecCodes beside it.
"""

import contextlib
import sys
import tempfile
import time

with contextlib.suppress(ImportError):
    import pyproj  # noqa: F401  (before ecCodes, or it finds no database)

import numpy as np
import xarray as xr
from scipy.interpolate import CubicSpline, griddata

import elmfield as ef
from common import ROOT, main, record
from paper.research import datasets

sys.path.insert(0, str(ROOT / "tests"))
from oracles.earth import area_mean, conservative

LEVELS = np.array(
    [1, 2, 3, 5, 7, 10, 20, 30, 50, 70, *range(100, 251, 25), *range(300, 751, 50),
     *range(775, 1001, 25)], float,
)  # fmt: skip
"""ERA5's 37 pressure levels, in hPa."""


def uneven(rng, n):
    """Coordinates whose distances differ by factors up to 1000."""
    gaps = np.exp(rng.uniform(0, np.log(rng.choice([2.0, 30.0, 1000.0])), n - 1))
    c = np.concatenate([[0.0], np.cumsum(gaps)])
    return c if rng.random() < 0.5 else c[::-1].copy()


def lines():
    """Planes on 1000 random uneven axes of 1 to 3 dimensions: the largest error, by preset."""
    rows = []
    presets = {
        "smooth()": ef.smooth(),
        "oriented()": ef.oriented(),
        "smooth(order=2)": ef.smooth(order=2),
    }
    for name, preset in presets.items():
        for d in (1, 2, 3):
            rng, worst, n_axes = np.random.default_rng(d), 0.0, 0
            while n_axes < 112:
                sizes = rng.integers(2, (150, 40, 12)[d - 1], d)
                coords = [uneven(rng, int(n)) for n in sizes]
                slopes = rng.uniform(0.3, 1, d) / [np.ptp(c) for c in coords]
                f = lambda x, a=slopes: 2 + x @ a  # noqa: E731
                grid = np.stack(np.meshgrid(*coords, indexing="ij"), axis=-1)
                field = ef.fit(f(grid), preset, coords=coords)
                x = rng.uniform([c.min() for c in coords], [c.max() for c in coords], (300, d))
                worst = max(worst, np.abs(field(x) - f(x)).max() / np.ptp(f(grid)))
                n_axes += d
            rows.append({"preset": name, "axes": d, "worst": worst, "n_axes": n_axes})
    record("ground", "lines", rows)


def sine():
    """A sine on 60 random nodes, 100 draws each: how often nearer than a cubic spline."""
    rows = []
    for waves in (1, 2, 3, 5):
        found = []
        for seed in range(100):
            x = np.sort(np.random.default_rng(seed).random(60))
            q = np.linspace(x[0], x[-1], 4001)
            y, truth = (np.sin(2 * np.pi * waves * c) for c in (x, q))
            ours = ef.fit(y, coords=[x]).grid(q)
            theirs = CubicSpline(x, y)(q), np.interp(q, x, y)
            found.append([np.abs(v - truth).max() for v in (ours, *theirs)])
        e = np.asarray(found)
        rows.append(
            {
                "waves": waves,
                **dict(zip(("ours", "spline", "linear"), np.median(e, axis=0))),
                "nearer_than_spline": int((e[:, 0] <= e[:, 1]).sum()),
                "above_linear": int((e[:, 0] > e[:, 2]).sum()),
            }
        )  # fmt: skip
    record("ground", "sine", rows)


def sounding(p):
    """A temperature profile as smooth as the standard atmosphere's with an inversion, in K."""
    z = 44.3 * (1 - (p / 1013.25) ** 0.19)  # kilometres
    falling = 6.5 * np.logaddexp(0, 11 - z)
    return (
        216 + falling + 4 * np.exp(-(((z - 1.5) / 1.2) ** 2)) + 30 * np.exp(-(((z - 40) / 12) ** 2))
    )


def cells():
    """Means of a sine over 60 uneven cells, 100 draws: as means, as points, by a cubic spline."""
    rows = []
    for waves in (1, 2, 3, 5):
        found, k = [], 2 * np.pi * waves
        for seed in range(100):
            e = np.sort(np.random.default_rng(seed).random(61))
            x = (e[1:] + e[:-1]) / 2
            y = -np.diff(np.cos(k * e)) / (k * np.diff(e))
            q = np.linspace(x[0], x[-1], 4001)
            field = ef.fit(y, coords=[x], bounds={"axis0": e}, samples="means")
            ways = field(q[:, None]), ef.fit(y, coords=[x]).grid(q), CubicSpline(x, y)(q)
            errors = [np.abs(v - np.sin(k * q)).max() for v in ways]
            found.append([*errors, np.abs(field.means(e) - y).max()])
        names = ("means", "points", "spline")
        worst = np.max(found, axis=0)[3]
        rows.append({"waves": waves, **dict(zip(names, np.median(found, axis=0))), "kept": worst})
    record("ground", "cells", rows)


def levels():
    """Every second of ERA5's levels left out of a smooth sounding; and 288 + 0.02 p between all."""
    rows = []
    p = np.linspace(LEVELS[0], LEVELS[-1], 5001)
    straight = ef.fit(288 + 0.02 * LEVELS, coords=[LEVELS]).grid(p)
    rows.append({"what": "288 + 0.02 p", "ours": np.abs(straight - 288 - 0.02 * p).max()})
    for first in (0, 1):
        kept, out = LEVELS[first::2], LEVELS[1 - first :: 2]
        out = out[(out > kept[0]) & (out < kept[-1])]
        T, truth = sounding(kept), sounding(out)
        ways = {
            "ours": ef.fit(T, coords=[kept]).grid(out),
            "ours in log p": ef.fit(T, coords=[np.log(kept)]).grid(np.log(out)),
            "spline": CubicSpline(kept, T)(out),
            "spline in log p": CubicSpline(np.log(kept), T)(np.log(out)),
            "linear": np.interp(out, kept, T),
            "log-linear": np.interp(np.log(out), np.log(kept), T),
        }
        rms = {k: np.sqrt(np.mean((v - truth) ** 2)) for k, v in ways.items()}
        rows.append({"what": f"held-out levels, from number {first}", **rms})
    record("ground", "levels", rows)


def moving(t):
    """Weather that moves: a part of ERA5's winter, turned by longitudes in time, with a day."""
    whole = np.asarray(datasets.load("era5-winter"), np.float64)[200:360:4]
    lon = 0.25 * np.arange(1440)
    out = []
    for hour in t:
        shift = (hour * 0.6) % 360
        at = (lon[::16] + shift) % 360
        rows = [np.interp(at, lon, row, period=360) for row in whole]
        out.append(np.asarray(rows) + 4 * np.sin(2 * np.pi * (hour / 24 + lon[::16] / 360)))
    return np.asarray(out)


def times():
    """Fields at irregular times, others asked for: beside xarray's `interp`."""
    rows = []
    for seed in range(3):
        rng = np.random.default_rng(seed)
        t = np.cumsum(rng.exponential(3.0, 60) + 0.5)
        q = rng.uniform(t[1], t[-2], 40)
        values, truth = moving(t), moving(q)
        da = xr.DataArray(values, dims=("time", "y", "x"), coords={"time": t})
        found = {"ours": ef.fit(da).interp(time=q).values}
        found |= {m: da.interp(time=q, method=m).values for m in ("linear", "cubic")}
        rms = {k: np.sqrt(np.mean((v - truth) ** 2)) for k, v in found.items()}
        rows.append({"seed": seed, **rms})
    record("ground", "times", rows)


def smooth_on_sphere(lat, lon):
    """A function of the place alone, and its slopes per metre, north and east."""
    f, l = np.radians(lat), np.radians(lon)
    x, y, z = np.cos(f) * np.cos(l), np.cos(f) * np.sin(l), np.sin(f)
    k = 14.0
    value = np.sin(k * x) * np.cos(k * y) + np.sin(k * z)
    g = k * np.cos(k * x) * np.cos(k * y), -k * np.sin(k * x) * np.sin(k * y), k * np.cos(k * z)
    north = -np.sin(f) * np.cos(l) * g[0] - np.sin(f) * np.sin(l) * g[1] + np.cos(f) * g[2]
    east = -np.sin(l) * g[0] + np.cos(l) * g[1]
    return value, np.stack([north, east], axis=-1) / 6.371e6


def turned(la, lo, pole):
    """Latitudes and longitudes of a grid around another pole."""
    la, lo = np.radians(la), np.radians(lo)
    x, y, z = np.cos(la) * np.cos(lo), np.cos(la) * np.sin(lo), np.sin(la)
    a = np.radians(90 - pole)
    x, z = np.cos(a) * x - np.sin(a) * z, np.sin(a) * x + np.cos(a) * z
    return np.degrees(np.arcsin(np.clip(z, -1, 1))), np.degrees(np.arctan2(y, x))


def by_pyresample(lat, lon, values, places):
    """Values of a swath at places by pyresample, with Gaussian weights half a cell wide."""
    from pyresample.geometry import SwathDefinition
    from pyresample.kd_tree import resample_gauss

    source = SwathDefinition(lons=lon, lats=lat)
    target = SwathDefinition(lons=places[:, 1], lats=places[:, 0])
    return resample_gauss(source, values, target, radius_of_influence=2e5, sigmas=27e3)


def meshes():
    """A rotated-pole and a sheared mesh of a known function, beside an even grid and griddata."""
    rng, rows = np.random.default_rng(0), []
    n, m, h = 100, 120, 0.5
    j, i = np.meshgrid(np.arange(n), np.arange(m), indexing="ij")

    def place(kind, j, i):
        la, lo = (j - n / 2) * h, (i - m / 2) * h
        if kind == "rotated pole":
            return turned(la, lo, 39.25)
        return (la, lo) if kind == "even" else (la + 0.15 * lo, lo + 0.3 * la)

    at = rng.uniform([2, 2], [n - 3, m - 3], (20_000, 2))
    many = rng.uniform([2, 2], [n - 3, m - 3], (1_000_000, 2))
    even = None
    for kind in ("even", "rotated pole", "sheared"):
        lat, lon = place(kind, j, i)
        field = ef.fit(smooth_on_sphere(lat, lon)[0])
        q = np.stack(place(kind, *at.T), axis=-1)
        truth, slopes = smooth_on_sphere(*q.T)
        mesh = ef.curvilinear(field, lat, lon)
        Q, ratios = np.stack(place(kind, *many.T), axis=-1), []
        for k in range(5):  # another mesh each time: what is kept of one does not count
            own = ef.curvilinear(ef.fit(field.samples()), lat, lon + 1e-9 * k)
            seconds = []
            for call, at_these in ((ef.fit(field.samples()), many), (own, Q)):
                began = time.process_time()
                call(at_these)
                seconds.append(time.process_time() - began)
            ratios.append(seconds[1] / seconds[0])
        off = mesh(q) - truth
        row = {
            "mesh": kind,
            "rms": np.sqrt(np.mean(off**2)),
            "slopes": np.abs(mesh.gradient(q) - slopes).max() / np.abs(slopes).max(),
            "places_cells": np.abs(mesh.locate(q)[0] - at).max(),
            "times_even": np.median(ratios),
        }
        few = slice(0, 2000)
        places = np.column_stack([lat.ravel(), lon.ravel()])
        for method in ("linear", "cubic"):
            them = griddata(places, field.samples().ravel(), q[few], method=method)
            row[f"griddata {method}"] = np.sqrt(np.nanmean((them - truth[few]) ** 2))
        with contextlib.suppress(ImportError):
            them = by_pyresample(lat, lon, field.samples(), q[few])
            row["pyresample Gauss"] = np.sqrt(np.nanmean((them - truth[few]) ** 2))
        even = row["rms"] if even is None else even
        rows.append({**row, "rms_by_even": row["rms"] / even})
    record("ground", "meshes", rows)


def globe(step=1.0, name="era5-spring"):
    """ERA5 on a grid of whole degrees, as means over its cells."""
    values = np.asarray(datasets.load(name), np.float64)[:720]
    k = int(step / 0.25)
    v = values.reshape(720 // k, k, 1440 // k, k).mean(axis=(1, 3))
    lat, lon = 90.125 - step / 2 - step * np.arange(len(v)), step * (np.arange(v.shape[1]) + 0.5)
    return xr.DataArray(
        v, dims=("latitude", "longitude"), coords={"latitude": lat - 0.125, "longitude": lon}
    )


def conserved():
    """Global sums through cells that are no boxes of the grid, and through those that are."""
    da, rng, rows = globe(), np.random.default_rng(0), []
    field = ef.fit(da, samples="means")
    size = np.diff(np.sin(np.radians(np.linspace(-90, 90, 181))))
    whole = float((da.values.mean(axis=1) * size[::-1]).sum() / size.sum())  # of the samples
    lat, lon = np.linspace(-90, 90, 46), np.linspace(0, 360, 91)
    means = ef.sphere(field).means(lat, lon)
    first = conservative(
        da.values[::-1], np.linspace(-90, 90, 181), np.linspace(0, 360, 361), lat, lon
    )
    rows.append({"cells": "even, 4°", "off": abs(area_mean(means, lat, lon) / whole - 1),
                 "rms_first_order": np.sqrt(np.mean((means - first) ** 2))})  # fmt: skip
    y, x = np.meshgrid(np.linspace(-90, 90, 37), np.linspace(0, 360, 73), indexing="ij")
    y[1:-1, :-1] += rng.uniform(-1.5, 1.5, (35, 72))
    x[1:-1, :-1] += rng.uniform(-1.5, 1.5, (35, 72))
    y[:, -1], x[:, -1] = y[:, 0], x[:, 0] + 360
    corners = np.stack([y, x], axis=-1)
    cells = np.stack([corners[:-1, :-1], corners[:-1, 1:], corners[1:, 1:], corners[1:, :-1]], 2)
    found, covered = ef.polygon_means(field)(cells)
    t, w = np.polynomial.legendre.leggauss(24)
    ends = np.concatenate([cells, cells[:, :, :1]], axis=2)
    a, b = ends[:, :, :-1, None], ends[:, :, 1:, None]
    p = a + (b - a) * (t[:, None] + 1) / 2
    area = (p[..., 1] * np.cos(np.radians(p[..., 0])) * w / 2 * (b - a)[..., 0]).sum(axis=(2, 3))
    off = abs((found * area).sum() / area.sum() / whole - 1)
    rows.append({"cells": "curvilinear, about 5°", "off": off, "least_covered": covered.min()})
    # Of equal areas on the sphere, as the sums are; its cells fill it, so that none counts in part.
    found = ef.regrid(field, crs="+proj=cea +R=6371000", grid=(60, 120), mean=True)
    off = abs(float(found.mean()) / whole - 1)
    rows.append({"cells": "Lambert's cylinder, 60 x 120", "off": off})
    x, w = np.polynomial.legendre.leggauss(48)
    edges = np.degrees(np.arcsin(np.clip(np.append(-1, -1 + np.cumsum(w)), -1, 1)))
    to = xr.Dataset(
        {"lat_bnds": (("latitude", "v"), np.stack([edges[:-1], edges[1:]], axis=-1))},
        {"latitude": ("latitude", np.degrees(np.arcsin(x)), {"bounds": "lat_bnds"})},
    )
    found = ef.regrid(field, to, mean=True)
    off = abs(float((found.mean("longitude") * w).sum() / w.sum()) / whole - 1)
    rows.append({"cells": "Gaussian latitudes with bounds", "off": off})
    back = ef.fit(found.to_dataset(name="t").assign(lat_bnds=to.lat_bnds), samples="means")["t"]
    off = abs(float(ef.regrid(back, grid=(30, 60), mean=True).weighted(
        xr.DataArray(np.diff(np.sin(np.radians(np.linspace(-90, 90, 31)))), dims="latitude")
    ).mean()) / whole - 1)  # fmt: skip
    rows.append({"cells": "from these, uneven, to 6°", "off": off})
    record("ground", "conserved", rows)


def fine():
    """Averaged over 2 × 2 and 4 × 4 cells and brought back: rms against the original.

    `aim` is what a study before this library measured by means: of t2m on another day.
    """
    rows = []
    aims = {"t850": (0.118, 0.328), "dem": (0.63, 1.46)}
    for name in ("era5-winter", "era5-spring", "era5-summer", *aims):
        values = np.asarray(datasets.load(name), np.float64).squeeze()
        values = values if name == "dem" else values[100:600, 200:900]
        for k in (2, 4):
            n, m = (s // k * k for s in values.shape)
            whole = values[:n, :m]
            coarse = whole.reshape(n // k, k, m // k, k).mean(axis=(1, 3))
            at = [(np.arange(s) + 0.5) / k - 0.5 for s in (n, m)]
            da = xr.DataArray(
                coarse,
                dims=("y", "x"),
                coords={"y": np.arange(n // k) + 0.0, "x": np.arange(m // k) + 0.0},
            )
            inner = (slice(2 * k, n - 2 * k), slice(2 * k, m - 2 * k))
            row = {
                "data": name,
                "factor": k,
                "n_inner": int(np.prod([s.stop - s.start for s in inner])),
                "aim": aims.get(name, (0.292, 0.617))[k // 4],
            }
            for method in ("linear", "cubic"):
                found = da.interp(y=at[0], x=at[1], method=method).values
                row[method] = np.sqrt(np.mean((found - whole)[inner] ** 2))
            first = np.repeat(np.repeat(coarse, k, axis=0), k, axis=1)
            row["first order"] = np.sqrt(np.mean((first - whole)[inner] ** 2))
            gy, gx = np.gradient(coarse)
            offset = (np.arange(k) + 0.5) / k - 0.5
            second = first + np.repeat(np.repeat(gy, k, 0), k, 1) * np.tile(offset, n // k)[:, None]
            second += np.repeat(np.repeat(gx, k, 0), k, 1) * np.tile(offset, m // k)
            row["second order"] = np.sqrt(np.mean((second - whole)[inner] ** 2))
            for preset in ("smooth", "oriented"):
                field = ef.fit(da, getattr(ef, preset)(), samples="means")
                found = ef.regrid(field, {"y": at[0], "x": at[1]}).values
                row[f"means of {preset}()"] = np.sqrt(np.mean((found - whole)[inner] ** 2))
                back = found.reshape(n // k, k, m // k, k).mean(axis=(1, 3))
                row[f"{preset} off"] = np.abs(back - coarse).max() / np.ptp(coarse)
            rows.append(row)
    record("ground", "fine", rows)


def maps():
    """The globe, and Europe, on maps: beside rasterio's warp of the same array.

    XSCALE and YSCALE keep GDAL's kernels one sample wide. By itself it widens them by one factor
    for the whole map, from the sizes of both windows: where the globe goes to a polar map, by five
    along longitudes, also where nothing shrinks (0.75 K off, with 1 as below 0.12).
    """
    from rasterio.transform import from_origin
    from rasterio.warp import Resampling, reproject

    da, rows = globe(1.0), []
    europe = da.sel(latitude=slice(72, 33), longitude=slice(0, 45))
    for crs, source in (
        ("ESRI:54030", da), ("EPSG:3035", europe), ("EPSG:3413", da), ("EPSG:32633", europe)
    ):  # fmt: skip
        ours = ef.regrid(source, crs=crs, step=100_000.0)
        x, y = ours.x.values, ours.y.values
        to = from_origin(x[0] - 5e4, y[0] + 5e4, 1e5, 1e5)
        lat, lon = source.latitude.values, source.longitude.values
        rolled = source.values
        if source is da:  # rasterio's globe begins at -180°
            rolled, lon = np.roll(rolled, 180, axis=1), lon - 180
        own = from_origin(lon[0] - 0.5, lat[0] + 0.5, 1.0, 1.0)
        row = {"crs": crs, "shape": list(ours.shape)}
        for name in ("bilinear", "cubic", "cubic_spline"):
            theirs = np.full(ours.shape, np.nan)
            reproject(
                rolled, theirs, src_transform=own, src_crs="EPSG:4326", dst_transform=to,
                dst_crs=crs, resampling=Resampling[name], src_nodata=np.nan, dst_nodata=np.nan,
                XSCALE=1, YSCALE=1,
            )  # fmt: skip
            both = np.isfinite(theirs) & np.isfinite(ours.values)
            row[name] = np.sqrt(np.mean((ours.values - theirs)[both] ** 2))
            row["both"] = float(both.mean())
            row["only_ours"] = float((np.isfinite(ours.values) & ~np.isfinite(theirs)).mean())
            row["only_theirs"] = float((~np.isfinite(ours.values) & np.isfinite(theirs)).mean())
        rows.append(row)
    field = ef.fit(da, samples="means")
    for what in ("the globe by means", "the same grids again"):
        began = time.process_time()
        out = ef.regrid(field, crs="EPSG:3035", step=100_000.0, mean=True)
        seconds = time.process_time() - began
        rows.append({"crs": f"EPSG:3035, {what}", "shape": list(out.shape), "seconds": seconds})
    record("ground", "maps", rows)


def nodata():
    """Gaps of 20 generated GeoTIFFs and 20 DataArrays, through a field and back: how many hold.

    Values, gaps, dtype and the number that stands for a gap, in the file or DataArray that comes
    back at the samples' places.
    """
    import rasterio
    from rasterio.transform import from_origin

    kept = {"GeoTIFF": 0, "DataArray": 0}
    for seed in range(20):
        rng = np.random.default_rng(seed)
        kind = np.dtype(("u1", "i2", "u2", "i4", "f4", "f8")[seed % 6])
        shape = tuple(int(n) for n in rng.integers(12, 40, 2))
        fill = (rng.choice([0, 255]) if kind == "u1" else -9999) if kind != "u2" else 65535
        values = np.where(rng.random(shape) < 0.2, fill, rng.integers(1, 200, shape)).astype(kind)
        with tempfile.TemporaryDirectory() as folder:
            one, two = f"{folder}/one.tif", f"{folder}/two.tif"
            about = {"height": shape[0], "width": shape[1], "count": 1, "dtype": kind.name}
            about |= {"crs": "EPSG:32633", "transform": from_origin(5e5, 5e6, 30, 30)}
            with rasterio.open(one, "w", driver="GTiff", nodata=fill, **about) as file:
                file.write(values, 1)
            ef.write(ef.fit(one), two)
            with rasterio.open(two) as file:
                same = file.nodata == fill and np.dtype(file.dtypes[0]) == kind
                kept["GeoTIFF"] += bool(same and (file.read(1) == values).all())
        da = xr.DataArray(values, dims=("y", "x"), coords={"y": np.arange(shape[0]) * 1.0})
        da.attrs[("_FillValue", "missing_value")[seed % 2]] = np.asarray(fill, kind)[()]
        back = ef.fit(da).to_xarray()
        if kind.kind == "f":  # as xarray decodes files: NaN, and the number in the encoding
            same = back.encoding["_FillValue"] == fill
            same &= np.array_equal(back.fillna(fill).values, values) and back.isnull().any()
        else:
            same = back.attrs["_FillValue"] == fill and (back.values == values).all()
        kept["DataArray"] += bool(same and back.dtype == kind)
    record("ground", "nodata", [{"what": name, "of": 20, "kept": n} for name, n in kept.items()])


SECTIONS = {
    f.__name__: f
    for f in (lines, sine, cells, levels, times, meshes, conserved, fine, maps, nodata)
}

if __name__ == "__main__":
    main(__doc__, SECTIONS)
