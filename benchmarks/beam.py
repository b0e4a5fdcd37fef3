"""What BEAM must show: the paper's table at equal N and m, what goes past it, speed, the toy field.

    python benchmarks/beam.py                              everything
    python benchmarks/beam.py table --device cuda          the fits on a GPU

Sections: table, need, speed, scaling, flops, toy. Each rewrites its part of ``results/beam.json``;
``benchmarks/tables.py`` turns that into ``results/beam.md`` and the tables of ``docs/beam.md``.
"""

import json
import os
import warnings

import numpy as np

import elmfield as ef
from common import asked, record
from elmfield._array.backend import to_numpy
from elmfield._array.running import n_processors
from measurement.data import BEAM_PRINTED
from measurement.records import shortest
from paper.research import datasets
from paper.research.concept import toy_field

SEASONS = ("spring", "summer", "autumn", "winter")
VARIANTS = {
    "BEAM": {},
    "ortho": {"normalisation": "ortho"},
    "backward": {"normalisation": "backward"},
    "mean": {"outside": "mean"},
    "boxes": {"shapes": "boxes"},
}


def scenes():
    """Name, samples, cells of the regular mesh, atomic cells; what is printed, by width."""
    for name, cells in (("kodim20", (32, 16)), ("cameraman", (32, 16)), ("kodim23", (64, 32))):
        yield name, datasets.load(name), *cells, BEAM_PRINTED[name]
    for season in SEASONS:
        name = f"era5-{season}"
        yield season, datasets.load(name), 64, 32, BEAM_PRINTED[name]


def fitted(values, partition, width, device, seed=0):
    """The reconstruction at the samples, and the field."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ef.RankWarning)
        place = None if device == "cpu" else device
        settings = ef.paper(width=width, seed=seed)
        field = ef.fit(values, settings, partition=partition, device=place)
        return to_numpy(field.samples()), field


def errors(name, values, found):
    if name in SEASONS:
        bias = float(np.mean(found - values))
        return {"mae": ef.mae(values, found), "bias": bias}
    return {"psnr": ef.paper_psnr(values, found)}


def table(device, seeds=3):
    rows = []
    for name, values, coarse, fine, by_width in scenes():
        mesh = ef.Partition.regular(values.shape, coarse)
        N = mesh.n_regions
        partitions = {"regular": mesh}
        for variant, options in VARIANTS.items():
            partitions[variant] = ef.beam(values, cell=fine, regions=N, **options)
        for width, printed in by_width.items():
            row = {"scene": name, "N": N, "m": width, "printed": printed}
            for variant, partition in partitions.items():
                many = seeds if variant in ("regular", "BEAM") and name not in SEASONS else 1
                found = [
                    errors(name, values, fitted(values, partition, width, device, seed)[0])
                    for seed in range(many)
                ]
                row[variant] = found[0] | {"shapes": len(partition.shapes)}
                if many > 1:
                    row[variant]["seeds"] = [f["psnr"] for f in found]
            rows.append(row)
            print(json.dumps(row), flush=True)
    record("beam", "table", rows, device=device)


# --- widths by need -----------------------------------------------------------------------------


def curves(field, samples):
    """Energy left in each region after its first k coefficients, k = 0, 1, ...: list of arrays."""
    left = {}
    for group in field.model.blended.groups:
        c = group.coefficients.take(np.arange(len(group.regions)))
        c = to_numpy(c)[:, :, 0] * float(field.model.scale[0])
        for i, row in zip(group.regions, c):
            gone = np.concatenate([[0], np.cumsum(row**2)])
            left[int(i)] = gone[-1] + float(field.model.residual[i]) - gone
    return [left[i] for i in range(len(left))]


def spread(left, total, block=16):
    """The least energy left with `total` coefficients, widths in blocks; and the widths."""
    steps = [np.minimum(np.arange(0, len(e) + block - 1, block), len(e) - 1) for e in left]
    energy = [e[k] for e, k in zip(left, steps)]

    def at(price):
        return [int(k[np.argmin(e + price * k)]) for e, k in zip(energy, steps)]

    low, high = 1e-12, max(float(e[0]) for e in left)
    for _ in range(80):
        middle = (low * high) ** 0.5
        low, high = (middle, high) if sum(at(middle)) > total else (low, middle)
    widths = at(high)
    return sum(float(e[w]) for e, w in zip(left, widths)), widths


def need(device):
    """Equal widths against widths by need, at the same total, by Parseval."""
    rows = []
    for name, values, coarse, fine, by_width in scenes():
        if name in SEASONS:
            continue
        widths = tuple(by_width)
        mesh = ef.Partition.regular(values.shape, coarse)
        N = mesh.n_regions

        unit = values.size * values.max() ** 2

        def decibel(left, unit=unit):
            return float(-10 * np.log10(left / unit + 1e-8))

        kinds = {
            "regular": mesh,
            "BEAM": ef.beam(values, cell=fine, regions=N),
            "BEAM, mean": ef.beam(values, cell=fine, regions=N, outside="mean"),
        }
        for kind, partition in kinds.items():
            most = min(4 * widths[0], coarse**2)
            _, field = fitted(values, partition, most, device)
            left = curves(field, values)
            for m in widths:
                equal = sum(float(e[min(m, len(e) - 1)]) for e in left)
                spare = N * m - sum(min(m, len(e) - 1) for e in left)
                best, chosen = spread(left, N * m)
                rows.append({
                    "scene": name, "N": N, "m": m, "partition": kind,
                    "equal": decibel(equal), "need": decibel(best),
                    "unused at equal widths": spare, "widths": [min(chosen), max(chosen)],
                })  # fmt: skip
                print(json.dumps(rows[-1]), flush=True)
        for m in widths:
            row = {"scene": name, "N": N, "m": m, "partition": "smooth, by need"}
            for kind, partition in {"default": None, **kinds}.items():
                field = ef.fit(values, ef.smooth(coefficients=N * m), partition=partition)
                left = float(np.sum((field.samples() - values) ** 2))
                row[kind] = decibel(left)
            rows.append(row)
            print(json.dumps(row), flush=True)
    record("beam", "need", rows, device=device)


# --- time ---------------------------------------------------------------------------------------


def pictures():
    """Large pictures, grey: one with texture nearly everywhere, one half of which is black."""
    from PIL import Image

    Image.MAX_IMAGE_PIXELS = None
    yield "Blue Marble", np.asarray(Image.open(datasets.path("blue-marble")[0]).convert("L"))
    yield "Sun", np.asarray(Image.open(datasets.path("sdo")[0]).convert("L"))


def speed():
    """2048 x 2048 in cells of 32 to 1024 regions, search for the threshold included."""
    rows = []
    for name, picture in pictures():
        for shapes in ("any", "boxes"):
            part = picture[:2048, 1024:3072]
            seconds = shortest(lambda p=part, s=shapes: ef.beam(p, cell=32, regions=1024, shapes=s))
            rows.append({"picture": name, "shapes": shapes, "seconds": seconds})
            print(json.dumps(rows[-1]), flush=True)
    record("beam", "speed", rows, threads=n_processors())


def scaling():
    """Time per cell from 256 to 16384 cells of 16: whole picture, or the mean over tiles of it."""
    rows = []
    for name, picture in pictures():
        part = picture[:2048, 1024:3072]
        ef.beam(part[:512, :512], cell=16, regions=256)  # loads what there is to load
        for side in (256, 512, 1024, 2048):
            tiles = [
                part[a : a + side, b : b + side]
                for a in range(0, 2048, side)
                for b in range(0, 2048, side)
            ]
            tiles = tiles[:: max(1, len(tiles) // 16)]
            cells = (side // 16) ** 2
            seconds = [shortest(lambda t=t, n=cells // 4: ef.beam(t, cell=16, regions=n), 1)
                       for t in tiles]  # fmt: skip
            rows.append({
                "picture": name, "cells": cells, "tiles": len(tiles),
                "microseconds per cell": 1e6 * float(np.mean(seconds)) / cells,
            })  # fmt: skip
            print(json.dumps(rows[-1]), flush=True)
    record("beam", "scaling", rows, threads=n_processors())


def flops():
    """The fit of kodim23 on a BEAM partition against its flop count at the machine's GEMM rate."""
    rng = np.random.default_rng(0)
    A, B = rng.standard_normal((4096, 1024)), rng.standard_normal((1024, 1024))
    rate = 2 * 4096 * 1024**2 / shortest(lambda: A @ B, 5)
    values, m = datasets.load("kodim23"), 1024
    rows = []
    for shapes in ("any", "boxes"):
        partition = ef.beam(values, cell=32, regions=64, shapes=shapes)
        sizes = [int(np.prod(b)) if i is None else int(i.sum()) for b, i, _ in partition.shapes]
        # Householder's count for S x m, 2 m² (S - m/3); Golub and Van Loan, section 5.2.
        count = sum(2 * min(S, m) ** 2 * (max(S, m) - min(S, m) / 3) for S in sizes)
        seconds = shortest(lambda p=partition: ef.fit(values, ef.paper(width=m), partition=p), 2)
        rows.append({
            "shapes": shapes, "factorisations": len(sizes), "GEMM GFLOP/s": rate / 1e9,
            "GFLOP": count / 1e9, "seconds": seconds, "ratio": seconds * rate / count,
        })  # fmt: skip
        print(json.dumps(rows[-1]), flush=True)
    threads = os.environ.get("OPENBLAS_NUM_THREADS", "all")
    name = "flops two threads" if threads == "2" else "flops"
    record("beam", name, rows, blas_threads=threads)


# --- the toy field ------------------------------------------------------------------------------


def toy():
    rows = []
    values = toy_field()
    for coarse, fine in ((64, 16), (32, 16), (16, 8)):
        mesh = ef.Partition.regular(values.shape, coarse)
        for outside in ("zero", "mean"):
            partition = ef.beam(values, cell=fine, regions=mesh.n_regions, outside=outside)
            row = {"N": mesh.n_regions, "cell": fine, "outside": outside}
            for name, p in (("regular", mesh), ("BEAM", partition)):
                beta = ef.barron_norm(values, partition=p, outside=outside)
                row[name] = {
                    "max / median": float(beta.max() / np.median(beta)),
                    "variation": float(beta.std() / beta.mean()),
                }
            rows.append(row)
            print(json.dumps(row), flush=True)
    record("beam", "toy", rows)


SECTIONS = {f.__name__: f for f in (table, need, speed, scaling, flops, toy)}

if __name__ == "__main__":
    device = ("--device", {"default": "cpu", "help": "where the fits of table and need run"})
    chosen = asked(__doc__, SECTIONS, device)
    for name, section in chosen.sections.items():
        section(chosen.device) if name in ("table", "need") else section()
