"""The page in the browser: first pictures, tiles, many at once, memory.

    python benchmarks/view.py            all sections; writes results/view.json
    python benchmarks/view.py tiles      one of them: first, tiles, many, streamed

A server runs in a process of its own, as the command does; times are those of a caller.
"""

import os
import resource
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

import elmfield as ef
from common import main, record

SIZE = 4096
RUNS = 5
PLACES = [(i, j) for i in range(2) for j in range(2)]


def large(n=SIZE):
    """A picture of waves and noise, bytes."""
    rng = np.random.default_rng(0)
    y, x = np.mgrid[0:n, 0:n].astype(np.float32)
    waves = 128 + 60 * np.sin(0.01 * x) * np.cos(0.013 * y) + 30 * np.sin(4e-5 * x * y)
    return (waves + rng.normal(0, 4, (n, n))).clip(0, 255).astype(np.uint8)


class Server:
    """`elmfield view` in a process of its own."""

    def __init__(self, path):
        began = time.perf_counter()
        command = [sys.executable, "-c", "from elmfield.cli import main; main()"]
        self.process = subprocess.Popen(
            [*command, "view", str(path), "--no-open"], stdout=subprocess.PIPE, text=True
        )
        self.url = self.process.stdout.readline().split(" at ")[1].split()[0]
        self.started = time.perf_counter() - began

    def get(self, path):
        """What it answers."""
        with urllib.request.urlopen(self.url + path, timeout=300) as answer:
            return answer.read()

    @property
    def worked(self):
        """Processor seconds it has taken, all threads together."""
        words = Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")

    @property
    def peak(self):
        """The most memory it had, in bytes."""
        for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith("VmHWM"):
                return int(line.split()[1]) * 1024
        return resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()


def models(folder):
    """The same picture kept in four ways."""
    values = large()
    field = ef.fit(values)
    ef.save(field, folder / "exact.elm")
    ef.save(ef.fit(values, ef.smooth(psnr=40)), folder / "40 dB.elm")
    np.save(folder / "array.npy", values)
    return {
        "samples in a file, fitted at the start": folder / "array.npy",
        "a model without loss": folder / "exact.elm",
        "a model at 40 dB": folder / "40 dB.elm",
    }


def seconds(call):
    began = time.perf_counter()
    made = call()
    return time.perf_counter() - began, made


def first():
    """From the printed address to the first picture, and to means that are complete."""
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for name, path in models(Path(folder)).items():
            with Server(path) as server:
                before = server.worked
                took, tile = seconds(lambda: server.get("tile/4/0/0"))
                worked = server.worked - before
                seen = np.frombuffer(tile, "<f4", offset=20)
                row = {
                    "what": name,
                    "megabytes": path.stat().st_size / 1e6,
                    "start": server.started,
                    "first": took,
                    "processor": worked,
                    "seen": float(np.isfinite(seen).mean()),
                }
                began = time.perf_counter()
                while server.get("tile/4/0/0")[6]:
                    time.sleep(0.1)
                row["complete"] = took + time.perf_counter() - began
                row["peak"] = server.peak / 1e6
                rows.append(row)
                print(row)
    record("view", "first", rows, **made("first"))


def tiles():
    """512² pixels, four tiles, at each level and quantity, where nothing is kept yet."""
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "array.npy"
        np.save(path, large())
        with Server(path) as server:
            while server.get("tile/4/0/0")[6]:
                time.sleep(0.1)
            for quantity in ("value", "gradient", "laplacian"):
                for level in (0, -1, -3, -6):
                    times, before = [], server.worked
                    for k in range(RUNS):
                        where = [(2 * k + i, j) for i in range(2) for j in range(2)]
                        took, _ = seconds(
                            lambda w=where, z=level, q=quantity: [
                                server.get(f"tile/{z}/{r}/{c}?quantity={q}") for r, c in w
                            ]
                        )
                        times.append(took)
                    row = {
                        "what": quantity,
                        "level": level,
                        "seconds": statistics.median(times),
                        "processor": (server.worked - before) / RUNS,
                    }
                    rows.append(row)
                    print(row)
    record("view", "tiles", rows, **made("tiles"))


def many():
    """A hundred tiles asked for at once, at different places."""
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "array.npy"
        np.save(path, large())
        with Server(path) as server, ThreadPoolExecutor(100) as pool:
            ready = threading.Barrier(100)

            def ask(k):
                ready.wait()
                return seconds(lambda: server.get(f"tile/-2/{k // 10}/{k % 10}"))

            before = server.worked
            took, answers = seconds(lambda: list(pool.map(ask, range(100))))
            row = {
                "answered": sum(len(a) > 20 for _, a in answers),
                "seconds": took,
                "slowest": max(t for t, _ in answers),
                "processor": server.worked - before,
                "peak": server.peak / 1e6,
            }
            rows.append(row)
            print(row)
    record("view", "many", rows, **made("many"))


def streamed():
    """A model of 20000 × 40000, made in parts: a sea with waves in one chunk of forty."""
    import dask.array as da

    def block(block_info=None):
        (a, b), (c, d) = block_info[None]["array-location"]
        calm = (a // 2000 * 20 + c // 2000) % 40
        y, x = np.ogrid[a:b, c:d]
        waves = 128 + 60 * np.sin(0.01 * x) * np.cos(0.013 * y)
        return np.full((b - a, d - c), 40, np.uint8) if calm else waves.astype(np.uint8)

    chunks = ((2000,) * 10, (2000,) * 20)
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "sea.elm.zarr"
        took, _ = seconds(
            lambda: ef.fit(da.map_blocks(block, chunks=chunks, dtype=np.uint8), out=path)
        )
        with Server(path) as server:
            first, tile = seconds(lambda: server.get("tile/8/0/0"))
            near, _ = seconds(lambda: [server.get(f"tile/-1/{r}/{c}") for r, c in PLACES])
            row = {
                "made": took,
                "start": server.started,
                "first": first,
                "seen": float(np.isfinite(np.frombuffer(tile, "<f4", offset=20)).mean()),
                "near": near,
                "peak": server.peak / 1e6,
            }
    rows.append(row)
    print(row)
    record("view", "streamed", rows, **made("streamed"))


def made(section):
    return {"command": f"python benchmarks/view.py {section}", "seed": 0}


if __name__ == "__main__":
    main(__doc__, {f.__name__: f for f in (first, tiles, many, streamed)})
