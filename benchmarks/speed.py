"""Time and memory, side by side in one run: fits, grids, queries, against what they could be.

    python benchmarks/speed.py                    on the processor
    python benchmarks/speed.py --device cuda      on a GPU

Writes ``results/speed-<device>.json`` and a Markdown table beside it. Every time is the best of a
few; "of GEMM" is the rate of arithmetic as a part of the machine's own matrix product in the same
run. Running sums of noise (seed 0) stand for pictures: times do not depend on them.
"""

import argparse
import json
import platform
import time
from pathlib import Path

import numpy as np
import torch
from scipy.ndimage import map_coordinates

import elmfield as ef
from elmfield.modes import axis_modes, box_positions, half_widths, product_modes

RESULTS = Path(__file__).parent / "results"


class Bench:
    """A device, a clock and the rows measured so far."""

    def __init__(self, device):
        self.device, self.rows = device, []
        self.cuda = device.startswith("cuda")

    def picture(self, *shape, dtype="float32"):
        """A rough field between 0 and 1, on the device."""
        noise = np.random.default_rng(0).standard_normal(shape)
        y = np.cumsum(np.cumsum(noise, axis=0), axis=1)
        y = ((y - y.min()) / (y.max() - y.min())).astype(dtype)
        return torch.as_tensor(y, device=self.device) if self.cuda else y

    def best(self, work, times=5):
        """Seconds of the fastest of a few runs."""
        found = []
        for _ in range(times):
            self.wait()
            start = time.perf_counter()
            work()
            self.wait()
            found.append(time.perf_counter() - start)
        return min(found)

    def wait(self):
        """Until the device has done what it was given."""
        if self.cuda:
            torch.cuda.synchronize()

    def add(self, what, seconds, **more):
        """One row."""
        self.rows.append({"what": what, "seconds": seconds} | more)
        print(what, f"{seconds:.5f} s", more, flush=True)

    def gemm(self, dtype, n=2048):
        """The machine's own rate of matrix products, in operations per second."""
        a = torch.randn(n, n, dtype=getattr(torch, dtype), device=self.device)
        if not self.cuda:
            a = a.numpy()
        rate = 2 * n**3 / self.best(lambda: a @ a)
        self.add(f"GEMM {n}³ {dtype}", 2 * n**3 / rate, gflops=rate / 1e9)
        return rate


def cold():
    """Nothing kept from before."""
    ef.cache_modes(clear=True)
    product_modes.cache_clear()
    axis_modes.cache_clear()


def fit_cold(y, settings, **options):
    cold()
    return ef.fit(y, settings, **options)


def paper_fit(b, shape, cell, width, rate, solve):
    """The paper's preset, cold and kept, against one least-squares problem per region."""
    y = b.picture(*shape)
    options = {"channel_axis": -1} if len(shape) == 3 else {}
    settings = ef.paper(cell=cell, width=width)
    name = f"paper {'×'.join(map(str, shape))}, cells {cell}, m = {width}"
    C = shape[2] if len(shape) == 3 else 1
    N = (shape[0] // cell) * (shape[1] // cell)
    first = fit_cold(y, settings, **options)
    score = ef.paper_psnr(_host(y), _host(first.samples()), channel_axis=-1 if C > 1 else None)
    t_cold = b.best(lambda: fit_cold(y, settings, **options), 3)
    encode = ef.encoder(y.shape, settings, **options)
    encode(y)
    t_kept = b.best(lambda: encode(y))
    flops = 2 * cell**2 * width * N * C
    # As printed: each region its own H and its own solve; a few of them, times their number.
    box = (cell, cell)
    like = y if b.cuda else torch.zeros(1)
    t = box_positions(box, like) / torch.as_tensor(half_widths(box), device=like.device)
    few = 4

    def regions():
        for _ in range(few):
            H = settings.network(t)
            target = torch.rand(cell**2, C, dtype=torch.float64, device=like.device)
            if solve == "normal equations":
                torch.linalg.solve(
                    H.T @ H + 1e-12 * torch.eye(width, device=H.device), H.T @ target
                )
            elif b.cuda:  # CUDA's lstsq has the full-rank driver only
                torch.linalg.lstsq(H, target, driver="gels")
            else:
                torch.linalg.lstsq(H, target)

    each = b.best(regions, 2) / few
    b.add(f"{name}: cold", t_cold, paper_psnr=score, faster=each * N / t_cold)
    b.add(f"{name}: kept", t_kept, of_gemm=flops / t_kept / rate, faster=each * N / t_kept)
    b.add(f"{name}: region by region, {solve}", each * N, measured_on=few)


def default_fit(b, shape):
    y = b.picture(*shape)
    samples = int(np.prod(shape))
    name = "default " + "×".join(map(str, shape))
    options = {"channel_axis": -1} if len(shape) == 3 and shape[2] < 16 else {}
    t_cold = b.best(lambda: fit_cold(y, None, **options), 3)
    encode = ef.encoder(y.shape, None, **options)
    encode(y)
    t_kept = b.best(lambda: encode(y), 3)
    b.add(f"{name}: cold", t_cold, nanoseconds_per_sample=1e9 * t_cold / samples)
    b.add(f"{name}: kept", t_kept, nanoseconds_per_sample=1e9 * t_kept / samples)


def queries(b, n=512, count=1_000_000):
    y = b.picture(n, n)
    field = ef.fit(y)
    points = np.random.default_rng(1).uniform(0, n - 1, (count, 2))
    at = torch.as_tensor(points, device=b.device) if b.cuda else points
    b.add("default 512², resize 4x", b.best(lambda: field.resize((4 * n, 4 * n)), 3))
    t = b.best(lambda: field(at), 3)
    b.add(f"default 512², {count} points", t, million_per_second=count / t / 1e6)
    b.add(f"default 512², gradient at {count} points", b.best(lambda: field.gradient(at), 2))
    if not b.cuda:
        spline = b.best(lambda: map_coordinates(y, points.T, order=3, mode="mirror"), 3)
        b.add(f"map_coordinates order 3, {count} points", spline, ours_takes=t / spline)


def _host(x):
    return x.cpu().numpy() if isinstance(x, torch.Tensor) else np.asarray(x)


def table(rows):
    def text(r):
        extra = ", ".join(
            f"{k.replace('_', ' ')} {v:.4g}" for k, v in r.items() if k not in ("what", "seconds")
        )
        return f"| {r['what']} | {r['seconds']:.5f} | {extra} |"

    return "\n".join(["| what | seconds | |", "| --- | ---: | --- |", *map(text, rows)])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cpu")
    b = Bench(parser.parse_args().device)
    single = b.gemm("float32", 8192 if b.cuda else 2048)
    b.gemm("float64", 8192 if b.cuda else 2048)
    paper_fit(b, (512, 512), 32, 1024, single, "lstsq")
    if b.cuda:
        paper_fit(b, (2048, 2048, 8), 64, 4096, single, "lstsq")
    for n in (256, 512, 1024, 2048, 4096):
        default_fit(b, (n, n))
    for C in (3, 8, 12):
        default_fit(b, (512, 512, C))
    default_fit(b, (128, 128, 128))
    queries(b)
    name = torch.cuda.get_device_name() if b.cuda else platform.processor() or platform.machine()
    about = {
        "command": f"python benchmarks/speed.py --device {b.device}",
        "device": name,
        "seed": 0,
        "versions": {
            "python": platform.python_version(),
            "numpy": np.__version__,
            "torch": torch.__version__,
            "elmfield": ef.__version__,
        },
    }
    stem = RESULTS / f"speed-{'cuda' if b.cuda else 'cpu'}"
    RESULTS.mkdir(exist_ok=True)
    stem.with_suffix(".json").write_text(
        json.dumps({"about": about, "rows": b.rows}, indent=1) + "\n"
    )
    made = f"`{about['command']}` on {name}; " + ", ".join(
        f"{k} {v}" for k, v in about["versions"].items()
    )
    stem.with_suffix(".md").write_text(f"# Speed\n\n{made}.\n\n{table(b.rows)}\n")


if __name__ == "__main__":
    main()
