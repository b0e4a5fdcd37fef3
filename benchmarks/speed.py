"""Time and memory, side by side in one run: fits, grids, queries, against what they could be.

    python benchmarks/speed.py                    on the processor (make bench), under ten minutes
    python benchmarks/speed.py --device cuda      on a GPU (make bench DEVICE=cuda)
    python benchmarks/speed.py queries sizes      some sections

Sections: gemm, paper, sizes, queries, beam, iterative. Each rewrites its part of
``results/speed-<device>.json``; the Markdown beside it shows all. A time is the best of a few; "of
GEMM" is the rate of arithmetic as a part of the machine's own matrix product in the same run.
Running sums of noise (seed 0) stand for pictures: times of closed forms do not depend on them.
"""

import platform
import tracemalloc
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import torch
from scipy.ndimage import map_coordinates, zoom

import elmfield as ef
from common import RESULTS, asked
from elmfield._array.backend import to_numpy
from measurement.records import circumstances, read, shortest, write
from measurement.tables import table
from paper.research import baselines, datasets


class Bench:
    """A device, a clock and the rows measured so far."""

    def __init__(self, device):
        self.device, self.rows = device, []
        self.cuda = device.startswith("cuda")

    def on_device(self, y):
        """A NumPy array where it is to be worked on."""
        return torch.as_tensor(y, device=self.device) if self.cuda else y

    def picture(self, *shape, dtype="float32"):
        """A rough field between 0 and 1, on the device."""
        noise = np.random.default_rng(0).standard_normal(shape)
        y = np.cumsum(np.cumsum(noise, axis=0), axis=1)
        return self.on_device(((y - y.min()) / (y.max() - y.min())).astype(dtype))

    def best(self, work, times=5):
        """Seconds of the fastest of a few runs."""
        return shortest(work, times, self.wait)

    def wait(self):
        """Until the device has done what it was given."""
        if self.cuda:
            torch.cuda.synchronize()

    def peak(self, work):
        """Most bytes that `work` holds at once, and what it gives."""
        if self.cuda:
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()
            before = torch.cuda.memory_allocated()
            result = work()
            return torch.cuda.max_memory_allocated() - before, result
        tracemalloc.start()
        try:
            result = work()
            return tracemalloc.get_traced_memory()[1], result
        finally:
            tracemalloc.stop()

    def add(self, what, seconds, **more):
        """One row."""
        self.rows.append({"what": what, "seconds": seconds} | more)
        print(what, f"{seconds:.5f} s", more, flush=True)


def fit_cold(y, settings, **options):
    ef.cache_modes(clear=True)
    return ef.fit(y, settings, **options)


def rate(b, dtype):
    """The machine's own rate of matrix products, operations per second."""
    n = 8192 if b.cuda else 2048
    a = b.on_device(np.random.default_rng(0).standard_normal((n, n)).astype(dtype))
    return 2 * n**3 / b.best(lambda: a @ a), n


def gemm(b):
    for dtype in ("float32", "float64"):
        found, n = rate(b, dtype)
        b.add(f"GEMM {n}³ {dtype}", 2 * n**3 / found, gflops=found / 1e9)


def paper(b):
    """The paper's preset, cold and kept, against one least-squares problem per region."""
    scenes = [((512, 512), 32, 1024)]
    if b.cuda:
        scenes.append(((2048, 2048, 8), 64, 4096))
    for shape, cell, width in scenes:
        options = {"channel_axis": -1} if len(shape) == 3 else {}
        settings = ef.paper(cell=cell, width=width)
        C = shape[2] if len(shape) == 3 else 1
        N = (shape[0] // cell) * (shape[1] // cell)
        few = 4
        ways = ("lstsq", "normal") if b.cuda else ("lstsq", "gels", "normal")
        name = f"paper {'×'.join(map(str, shape))}, cells {cell}, m = {width}"
        corner = to_numpy(b.picture(*shape, dtype="float64"))[:cell, : few * cell]
        slow = {}
        for solver in ways:

            def one_by_one(solver=solver, corner=corner, settings=settings, options=options):
                baselines.region_by_region(
                    corner, settings, solver=solver, device=b.device, **options
                )

            slow[solver] = b.best(one_by_one, 3) / few * N
        for dtype in ("float32", "float64"):
            y = b.picture(*shape, dtype=dtype)
            back = fit_cold(y, settings, **options).samples()
            score = ef.paper_psnr(to_numpy(y), to_numpy(back), channel_axis=-1 if C > 1 else None)
            seconds = b.best(lambda: fit_cold(y, settings, **options))  # noqa: B023
            encode = ef.encoder(y.shape, settings, **options)
            encode(y)
            kept = b.best(lambda: encode(y), 10)  # noqa: B023
            flops = 2 * cell**2 * width * N * C
            b.add(f"{name}, {dtype}: cold", seconds, paper_psnr=score,
                  **{f"faster_than_{s}": t / seconds for s, t in slow.items()})  # fmt: skip
            b.add(f"{name}, {dtype}: kept", kept, of_gemm=flops / kept / rate(b, dtype)[0],
                  **{f"faster_than_{s}": t / kept for s, t in slow.items()})  # fmt: skip
        for solver, seconds in slow.items():
            b.add(f"{name}: region by region, {solver}", seconds, measured_on=few)


def sizes(b):
    """How cost grows: squares, channels, a volume; and the most memory held beside the input."""
    shapes = [(n, n) for n in (256, 512, 1024, 2048, 4096)]
    shapes += [(512, 512, C) for C in (3, 8, 12)] + [(128, 128, 128)]
    for shape in shapes:
        y = b.picture(*shape)
        options = {"channel_axis": -1} if len(shape) == 3 and shape[2] < 16 else {}
        samples = int(np.prod(shape))
        name = "default " + "×".join(map(str, shape))
        times = 30 if samples < 2**19 else 5
        t_cold = b.best(lambda: fit_cold(y, None, **options), times)  # noqa: B023
        encode = ef.encoder(y.shape, None, **options)
        encode(y)
        t_kept = b.best(lambda: encode(y), times)  # noqa: B023
        ef.cache_modes(clear=True)
        held, field = b.peak(lambda: ef.fit(y, None, **options))  # noqa: B023
        own = samples * 4
        memory = (own + held) / (own + 4 * field.model.n_coefficients)
        b.add(f"{name}: cold", t_cold, ns_per_sample=1e9 * t_cold / samples,
              memory_over_input_and_output=memory)  # fmt: skip
        b.add(f"{name}: kept", t_kept, ns_per_sample=1e9 * t_kept / samples)


def queries(b, n=512, count=1_000_000):
    """Scattered points, gradients and a finer grid of a default field, against splines."""
    y = b.picture(n, n, dtype="float64")
    field = ef.fit(y)
    points = np.random.default_rng(1).uniform(0, n - 1, (count, 2))
    at = b.on_device(points)
    t = b.best(lambda: field(at), 5)
    b.add(f"default {n}², {count} points", t, million_per_second=count / t / 1e6)
    if not b.cuda:
        close = field.tabulate(1e-9, 0)
        u = b.best(lambda: close(at), 5)
        b.add(f"default {n}², {count} points of tabulate(1e-9)", u,
              million_per_second=count / u / 1e6)  # fmt: skip
    g = b.best(lambda: field.gradient(at), 3)
    b.add(f"default {n}², gradient at {count} points", g, million_per_second=count / g / 1e6)
    r = b.best(lambda: field.resize((4 * n, 4 * n)), 3)
    b.add(f"default {n}², resize 4x", r)
    if not b.cuda:
        spline = b.best(lambda: map_coordinates(y, points.T, order=3, mode="mirror"), 5)
        b.add(f"map_coordinates order 3, {count} points", spline, ours_takes=t / spline)
        zoomed = b.best(lambda: zoom(y, 4, order=3, mode="mirror"), 3)
        b.add("zoom 4x, order 3", zoomed, ours_takes=r / zoomed)


def beam(b):
    """BEAM partitions of a rough picture, on the processor, and the fit on one."""
    for n in (512, 1024, 2048):
        y = b.picture(n, n)
        on_host = to_numpy(y)
        regions = (n // 64) ** 2
        t = b.best(lambda: ef.beam(on_host, cell=32, regions=regions), 3)  # noqa: B023
        b.add(f"BEAM {n}², cells 32, {regions} regions", t, us_per_cell=1e6 * t / (n // 32) ** 2)
    y = b.picture(512, 512, dtype="float64")
    partition = ef.beam(to_numpy(y), cell=32, regions=64)
    t = b.best(lambda: ef.fit(y, ef.paper(width=1024), partition=partition), 1)
    b.add("BEAM 512², 64 regions: fit, m = 1024", t)


def iterative(b):
    """Seconds to 30, 40 and 50 dB (the paper's PSNR) on kodim05: closed form and training."""
    name = "kodim05" if b.cuda else "kodim05, its middle 128²"
    y = datasets.load("kodim05")
    y = y if b.cuda else y[192:320, 192:320]
    n, x = y.shape[0], b.on_device(y.astype(np.float32))
    ours = b.best(lambda: fit_cold(x, None), 30)  # as often as in `sizes`
    back = to_numpy(ef.fit(x).resize(x.shape))
    b.add(f"{name}: default, cold", ours, paper_psnr=ef.paper_psnr(y, back))
    shown = b.best(lambda: fit_cold(x, None).resize(x.shape), 30)
    b.add(f"{name}: default, cold, and all samples shown", shown)
    for goal in (30, 40, 50):
        t = b.best(lambda: fit_cold(x, ef.smooth(psnr=goal)), 10)  # noqa: B023
        b.add(f"{name}: smooth(psnr={goal}), cold", t)
    settings = {
        "SIREN": (baselines.siren(hidden=256, layers=3), 5e-4),
        "FFN": (baselines.ffn(hidden=256, layers=3), 1e-3),
        "GaussNet": (baselines.gaussnet(hidden=256, layers=3), 1e-3),
        "WIRE": (baselines.wire(hidden=256, layers=3), 1e-3),
        "hash grid, finest half the width": (baselines.hashgrid(finest=n // 2), 1e-2),
        "hash grid, finest the width": (baselines.hashgrid(), 1e-2),
        "hash grid, finest four times the width": (baselines.hashgrid(finest=4 * n), 1e-2),
    }
    for method, (network, learning) in settings.items():
        usual = baselines.Schedule(steps=3, rate=learning, every=5)
        long = replace(usual, steps=100_000, seconds=6 if b.cuda else 20, target=50)
        fit = partial(baselines.fit, y.astype(np.float32), network, device=b.device)
        fit(usual)  # first calls are slow
        model = fit(long)
        reached = {}
        for goal in (30, 40, 50):
            when = [r.seconds for r in model.log if r.paper_psnr >= goal]
            reached[f"seconds_to_{goal}"] = when[0] if when else None
        last = model.log[-1]
        more = {"paper_psnr": last.paper_psnr, "steps": last.step, "rate": learning}
        more["numbers_per_sample"] = model.n_parameters / y.size
        if reached["seconds_to_40"]:
            more["over_default_at_40"] = reached["seconds_to_40"] / ours
        b.add(f"{name}: {method}", last.seconds, **reached, **more)


SECTIONS = {f.__name__: f for f in (gemm, paper, sizes, queries, beam, iterative)}


def shown(row):
    """A line of the table: what, seconds, and the rest in words."""

    def text(v):
        return "never" if v is None else f"{v:.4g}" if isinstance(v, float) else str(v)

    more = {k.replace("_", " "): v for k, v in row.items() if k not in ("what", "seconds")}
    return [
        row["what"],
        f"{row['seconds']:.5f}",
        ", ".join(f"{k} {text(v)}" for k, v in more.items()),
    ]


def main():
    chosen = asked(__doc__, SECTIONS, ("--device", {"default": "cpu"}),
                   ("--folder", {"type": Path, "default": RESULTS}))  # fmt: skip
    cuda = chosen.device.startswith("cuda")
    where = torch.cuda.get_device_name() if cuda else platform.processor() or platform.machine()
    about = circumstances(
        chosen.device,
        command=f"python benchmarks/speed.py --device {chosen.device}",
        device=where,
        seed=0,
        dtype="float32 unless named; queries, BEAM's fit and region by region float64",
    )
    path = chosen.folder / f"speed-{'cuda' if cuda else 'cpu'}.json"
    parts = read(path).get("sections", {})
    for name, section in chosen.sections.items():
        b = Bench(chosen.device)
        section(b)
        parts[name] = b.rows
        write(path, {"about": about, "sections": parts})
    versions = ", ".join(f"{k} {v}" for k, v in about["versions"].items())
    how = f"{about['threads']} threads; {versions}; {about['dtype']}"
    made = f"`{about['command']}` on {where}, {how}."
    rows = [shown(r) for name in SECTIONS for r in parts.get(name, [])]
    text = table(["what", "seconds", ""], rows, align="lrl")
    path.with_suffix(".md").write_text(f"# Speed\n\n{made}\n\n{text}\n")


if __name__ == "__main__":
    main()
