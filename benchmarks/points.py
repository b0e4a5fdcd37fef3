"""Points at lookup speed: tables and fields beside what others take, in one run.

    python benchmarks/points.py                    on the processor
    python benchmarks/points.py --device cuda      on a GPU
    python benchmarks/points.py tables few         some sections

Sections: tables, fields, few, warps, lines, volumes, scattered. Each rewrites its part of
``results/points-<device>.json``, and what was found is printed as JSON. A time is the best of a
few; ratios are of times in the same run, on a processor of processor time, all threads together:
what else the machine does counts less. Running sums of noise (seed 0) stand for pictures.
"""

import json
import time
from functools import partial

import numpy as np
import torch
from scipy.interpolate import CubicSpline, RBFInterpolator, RegularGridInterpolator, griddata
from scipy.ndimage import map_coordinates

import elmfield as ef
from common import RESULTS, asked
from elmfield._array.backend import to_numpy
from measurement.records import circumstances, kind, read, shortest, write
from paper.research import datasets

MILLION = 1_000_000


class Seconds(float):
    """Seconds on the clock, and those of the processor, all threads together."""

    processor = 0.0


class Bench:
    """A device, a clock and the rows measured so far."""

    def __init__(self, device):
        self.device, self.rows = device, []
        self.cuda = kind(device) == "cuda"

    def wait(self):
        """Until the device has done what it was given."""
        if self.cuda:
            torch.cuda.synchronize()

    def best(self, work, times=5):
        """Seconds of the fastest of a few runs; the first does not count."""
        work()
        return self.of(work, times)

    def of(self, work, times=1):
        """The same, where the first run counts too."""
        spent = []

        def counted():
            start = time.process_time()
            work()
            spent.append(time.process_time() - start)

        found = Seconds(shortest(counted, times, self.wait))
        found.processor = min(spent)
        return found

    def ratio(self, ours, rival):
        """How many times as long ours takes."""
        return ours / rival if self.cuda else ours.processor / rival.processor

    def add(self, what, seconds, **more):
        """One row."""
        if isinstance(seconds, Seconds) and not self.cuda:
            more = {"processor_seconds": seconds.processor} | more
        self.rows.append({"what": what, "seconds": float(seconds)} | more)
        print(json.dumps(self.rows[-1], default=float), flush=True)


def picture(*shape, dtype="float32"):
    """A rough field between 0 and 1."""
    y = np.random.default_rng(0).standard_normal(shape)
    for k in range(len(shape)):
        y = np.cumsum(y, axis=k)
    return ((y - y.min()) / np.ptp(y)).astype(dtype)


def places(n, *shape):
    """Points all over the samples of an array."""
    return np.random.default_rng(1).random((n, len(shape))) * (np.asarray(shape) - 1)


def tables(b):
    """A table, its gradient, and what `grid_sample` or `map_coordinates` take."""
    scenes = [((512, 512), 1e-5), ((4096, 4096), 1e-5), ((128, 128, 128), 1e-5)]
    n = 16 * MILLION if b.cuda else MILLION
    for shape, tolerance in scenes if b.cuda else scenes[:1]:
        y, x = picture(*shape), places(n, *shape)
        exact = ef.fit(torch.as_tensor(y.astype(np.float64), device=b.device) if b.cuda else y)
        field = ef.fit(torch.as_tensor(y, device=b.device)) if b.cuda else ef.fit(y)
        name = "×".join(map(str, shape))
        made = {}

        def make(field=field, made=made, tolerance=tolerance):
            made["table"] = field.tabulate(tolerance, 0)

        seconds = b.best(make, 2)
        table = made["table"]
        b.add(f"{name}: making the table", seconds, degree=table.polynomials.degree,
              mib=table.n_bytes / 2**20,
              error_of_range=table.error / field.model.data_range)  # fmt: skip
        if b.cuda:
            _on_gpu(b, name, table, exact, y, x)
        else:
            ours = b.best(lambda: table(x))  # noqa: B023
            slope = b.best(lambda: table.gradient(x), 3)  # noqa: B023
            rival = b.best(partial(map_coordinates, y, x.T, order=3, mode="mirror"))
            some = x[:20000]
            off = np.abs(table(some) - ef.fit(y.astype(np.float64))(some)).max()
            b.add(f"{name}: table, {n} points", ours, over_map_coordinates=b.ratio(ours, rival),
                  off_of_range=off)  # fmt: skip
            b.add(f"{name}: table's gradient, {n} points", slope)
            b.add(f"{name}: map_coordinates order 3", rival)


def _on_gpu(b, name, table, exact, y, x):
    """A table in one kernel and in plain operations; `grid_sample` beside it."""
    module = table.module()
    at = torch.as_tensor(x.astype(np.float32), device=b.device)
    fast = torch.compile(module, fullgraph=True)
    slopes = torch.compile(module.gradient, fullgraph=True)
    ways = {"compiled": fast, "plain": module, "compiled gradient": slopes}
    n = len(x)
    for way, work in ways.items():
        with torch.no_grad():
            seconds = b.best(lambda: work(at), 10)  # noqa: B023
        b.add(f"{name}: table, {way}, {n} points", seconds, giga_per_second=n / seconds / 1e9)
    some = at[: 1 << 18]
    with torch.no_grad():
        off = (fast(some).double() - exact(some.double())).abs().max()
    b.add(f"{name}: table's distance from the field", 0.0, off_of_range=float(off),
          certified=table.error / float(np.ptp(y)))  # fmt: skip
    if y.ndim == 2:
        size = torch.as_tensor([s - 1 for s in y.shape], device=b.device)
        grid = (2 * at / size - 1).flip(-1)[None, None]
        image = torch.as_tensor(y, device=b.device)[None, None]
        sample = partial(torch.nn.functional.grid_sample, image, grid, "bicubic",
                         align_corners=True)  # fmt: skip
        seconds = b.best(sample, 10)
        b.add(f"{name}: grid_sample bicubic", seconds, giga_per_second=n / seconds / 1e9)


def fields(b):
    """The field itself, and a table within 1e-9 of it, beside other interpolators."""
    y, x = picture(512, 512, dtype="float64"), places(MILLION, 512, 512)
    rival = b.best(partial(map_coordinates, y, x.T, order=3, mode="mirror"))
    field = ef.fit(y)
    direct = b.of(lambda: field(x))
    close = field.tabulate(1e-9, 0)
    kept = b.best(lambda: close(x))
    b.add(
        "512×512: field, 1000000 points, first call",
        direct,
        over_map_coordinates=b.ratio(direct, rival),
    )
    b.add(
        "512×512: field, 1000000 points, table kept",
        kept,
        over_map_coordinates=b.ratio(kept, rival),
    )
    b.add("512×512: map_coordinates order 3", rival)
    for method in ("linear", "cubic"):
        other = RegularGridInterpolator((np.arange(512), np.arange(512)), y, method=method)
        few = x if method == "linear" else x[:10000]
        seconds = float(b.best(lambda: other(few), 1)) * len(x) / len(few)  # noqa: B023
        b.add(f"512×512: RegularGridInterpolator {method}", seconds, measured_on=len(few))


def few(b):
    """One point, ten, a thousand: what a call costs."""
    field, x = ef.fit(picture(512, 512, dtype="float64")), places(1000, 512, 512)
    for n in (1, 10, 1000):
        b.add(f"512×512: field, {n} points", b.best(lambda: field(x[:n]), 50))  # noqa: B023


def warps(b):
    """A rotated picture, a curvilinear grid, and forward and backward in torch."""
    y = picture(512, 768)
    i, j = np.meshgrid(np.arange(512.0) - 255.5, np.arange(768.0) - 383.5, indexing="ij")
    turn = np.deg2rad(7)
    x = np.stack([np.cos(turn) * i - np.sin(turn) * j, np.sin(turn) * i + np.cos(turn) * j], -1)
    x = 0.8 * x + [255.5, 383.5]
    field = ef.fit(y)
    ours = b.best(lambda: field(x))
    rival = b.best(lambda: map_coordinates(y, np.moveaxis(x, -1, 0), order=3, mode="mirror"))
    b.add("512×768 rotated", ours, over_map_coordinates=b.ratio(ours, rival))
    grid = picture(721, 1440)
    u, v = np.meshgrid(np.linspace(0, 1, 2500), np.linspace(0, 1, 2600), indexing="ij")
    at = np.stack([700 * u + 10 * np.sin(6 * v), 1400 * v + 20 * np.cos(5 * u) ** 2], axis=-1) + 10
    globe = ef.fit(grid)
    first = b.of(lambda: globe(at))
    close = globe.tabulate(1e-7, 0)
    b.add("721×1440: curvilinear grid of 6.5 M points, first call", first)
    b.add("721×1440: curvilinear grid of 6.5 M points, table kept", b.best(lambda: close(at), 2))
    _backward(b, y, x)


def _backward(b, y, x):
    """Values, and derivatives by the points, of a warp."""
    image = torch.as_tensor(y, device=b.device)
    table = ef.fit(image).tabulate(1e-5, 1)
    at = torch.as_tensor(x.reshape(-1, 2), device=b.device).requires_grad_()
    size = torch.as_tensor([s - 1 for s in y.shape], device=b.device)

    def ours():
        at.grad = None
        table(at).sum().backward()

    def rival():
        at.grad = None
        grid = (2 * at / size - 1).flip(-1)[None, None].float()
        torch.nn.functional.grid_sample(
            image[None, None], grid, "bicubic", align_corners=True
        ).sum().backward()

    a, c = b.best(ours, 3), b.best(rival, 3)
    b.add("512×768 rotated: forward and backward", a, over_grid_sample=b.ratio(a, c))
    b.add("512×768 rotated: grid_sample bicubic, forward and backward", c)


def lines(b):
    """A long line at another rate."""
    y = picture(1_600_000, dtype="float64")
    field = ef.fit(y)
    values = b.best(lambda: field.resize(1_470_000, antialias=False), 3)
    b.add("1600000 to 1470000 samples, values", values)
    b.add("1600000 to 1470000 samples, means", b.best(lambda: field.resize(1_470_000), 1))
    (x,) = field.model.coordinates.positions(1_470_000)
    b.add("CubicSpline, the same", b.best(lambda: CubicSpline(np.arange(len(y)), y)(x), 3))


def volumes(b):
    """Points in a volume."""
    y, x = picture(64, 64, 64), places(MILLION, 64, 64, 64)
    field = ef.fit(y)
    rival = b.best(partial(map_coordinates, y, x.T, order=3, mode="mirror"), 2)
    tables = []
    b.add("64³: making the table", b.of(lambda: tables.append(field.tabulate(1e-5, 0))))
    ours = b.best(lambda: tables[0](x), 2)
    b.add("64³: table, 1000000 points", ours, over_map_coordinates=b.ratio(ours, rival))
    ours = b.of(lambda: field(x))
    b.add("64³: field, 1000000 points, first call", ours, over_map_coordinates=b.ratio(ours, rival))
    b.add("64³: map_coordinates order 3", rival)


def franke(p):
    """Four bumps, as is usual."""
    x, y = 9 * p[:, 0], 9 * p[:, 1]
    return (
        0.75 * np.exp(-((x - 2) ** 2 + (y - 2) ** 2) / 4)
        + 0.75 * np.exp(-((x + 1) ** 2) / 49 - (y + 1) / 10)
        + 0.5 * np.exp(-((x - 7) ** 2 + (y - 3) ** 2) / 4)
        - 0.2 * np.exp(-((x - 4) ** 2) - (y - 7) ** 2)
    )


def spectrum(d):
    """Forty waves of random direction, fainter the faster they are (seed 1)."""
    rng = np.random.default_rng(1)
    k = rng.standard_normal((40, d)) * 12
    phase, height = rng.random(40) * 2 * np.pi, 1 / (1 + np.linalg.norm(k, axis=1) / 6) ** 2
    return lambda p: np.cos(p @ k.T + phase) @ height


def era5():
    """A real field between its samples: ERA5 at random places, by cubic splines."""
    values = np.asarray(datasets.load("era5-spring"), np.float64)
    size = np.asarray(values.shape) - 1
    return lambda p: map_coordinates(values, (p * size).T, order=3, mode="nearest")


def scattered(b):
    """Scattered samples: time and error beside griddata and radial basis functions."""
    rng = np.random.default_rng(0)
    functions = [("Franke's", 2, franke), ("waves", 2, spectrum(2)), ("ERA5", 2, era5()),
                 ("waves", 3, spectrum(3))]  # fmt: skip
    for name, d, truth in functions:
        n = {2: 100_000, 3: 10_000}[d]
        x = rng.random((n, d))
        new = rng.random((5000, d)) * 0.9 + 0.05
        y, right = truth(x), truth(new)
        stored = {}

        def ours(x=x, y=y, new=new, stored=stored):
            field = ef.fit_points(x, y)
            stored["numbers_a_sample"] = field.model.n_coefficients / len(x)
            return field(new)

        ways = {
            "fit_points": ours,
            "RBFInterpolator, 50 neighbours": partial(_rbf, x, y, new),
        }
        if d == 2:
            ways["griddata cubic"] = partial(griddata, x, y, new, "cubic")
        for way, work in ways.items():
            begun, busy = time.perf_counter(), time.process_time()
            found = work()
            seconds, busy = time.perf_counter() - begun, time.process_time() - busy
            off = float(np.sqrt(np.nanmean((to_numpy(found) - right) ** 2)))
            more = stored if way == "fit_points" else {}
            what = f"{name}, {n} samples in {d}-D: {way}"
            b.add(what, seconds, processor=busy, rms_error=off, **more)


def _rbf(x, y, new):
    return RBFInterpolator(x, y, 50)(new)


SECTIONS = {
    "tables": tables,
    "fields": fields,
    "few": few,
    "warps": warps,
    "lines": lines,
    "volumes": volumes,
    "scattered": scattered,
}
ON_GPU = ("tables", "warps")


def main():
    words = asked(__doc__, SECTIONS, ("--device", {"default": "cpu"}))
    path = RESULTS / f"points-{kind(words.device)}.json"
    for name, section in words.sections.items():
        b = Bench(words.device)
        if b.cuda and name not in ON_GPU:
            continue
        section(b)
        found = read(path)
        found[name] = {"about": circumstances(words.device), "rows": b.rows}
        write(path, found)


if __name__ == "__main__":
    main()
