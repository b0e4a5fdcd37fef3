"""What error targets, denoising, filling and the automatic order must show, on real data.

    python benchmarks/targets.py                  everything
    python benchmarks/targets.py budget denoise   some sections

Sections: budget, quality, bound, denoise, gaps, automatic. Each rewrites its part of
``results/targets.json``; ``benchmarks/tables.py`` turns that into the tables of the documents.
"""

import math
import time
import warnings
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace

import numpy as np
from scipy.fft import dctn
from threadpoolctl import threadpool_limits

import elmfield as ef
from common import in_parts, main, record
from elmfield.field.coefficients.stored import Full
from elmfield.field.drop_modes import choose
from measurement.data import BEAM_PRINTED, PHOTOGRAPHS, WEATHER
from measurement.heldout import predicted, score, thinned
from measurement.rivals import SPLINES, denoised, filled, spline
from paper.research import datasets

BORDER = 16

PICTURES = ("kodim20", "kodim23", "cameraman")
REGIONS = 64
"""Those of the paper's BEAM runs, whose results `BEAM_PRINTED` has."""


# --- 1. the same number of coefficients as the paper's BEAM runs ----------------------------------


def block_dct(values, cell, budget):
    """PSNR of a block cosine transform with the same rule of selection, index paid for."""
    n = values.shape[0] // cell
    blocks = (values - values.mean()).reshape(n, cell, n, cell).transpose(0, 2, 1, 3)
    c = dctn(blocks.reshape(-1, cell, cell), axes=(1, 2), norm="ortho")
    k = np.arange(cell)
    ranks = np.argsort(np.add.outer(k**2, k**2).ravel(), kind="stable")
    e = (c.reshape(len(c), 1, -1) ** 2)[:, :, ranks]
    low, high = 1e-12, float(e.max())
    while high / low > 1 + 1e-6:
        price = math.sqrt(low * high)
        kept = choose(e, price)
        lengths = np.where(kept, np.arange(1, e.shape[2] + 1), 0).max(axis=2)
        cost = kept.sum() + (lengths.sum() + 16 * lengths.size) / 32
        low, high = (price, high) if cost > budget else (low, price)
    left = e[~choose(e, high)].sum()
    return 10 * math.log10(float(np.ptp(values)) ** 2 / (left / values.size))


def budget():
    rows = []
    for name in PICTURES:
        values, N = datasets.load(name), REGIONS
        for m, (_, printed) in BEAM_PRINTED[name].items():
            label = f"{name} {values.shape[0]}²"
            row = {"data": label, "regions": N, "width": m, "paper_beam": printed}
            settings = ef.paper(cell=values.shape[0] // 8, width=m)
            row["paper_regular"] = ef.psnr(values, ef.fit(values, settings).samples())
            for cell in (8, 16, 32):
                field = ef.fit(values, ef.smooth(coefficients=N * m, cell=cell))
                row[f"ours_{cell}"] = ef.psnr(values, field.samples())
                row[f"stored_{cell}"] = field.model.n_coefficients + field.model.index_cost
                row[f"dct_{cell}"] = block_dct(values, cell, N * m)
            rows.append(row)
            print(row)
    record("targets", "budget", rows)


# --- 2. a quality on request ---------------------------------------------------------------------


def coded_arrays():
    """All photographs, then temperature fields."""
    return [datasets.load(name) for name in (*PHOTOGRAPHS.values(), *WEATHER.values())]


def quality():
    n = len(PHOTOGRAPHS)

    def row(q):
        off, stored = [], []
        for values in coded_arrays():
            field = ef.fit(values, ef.smooth(psnr=q))
            off.append(ef.psnr(values, field.samples()) - q)
            stored.append(8 * field.n_bytes / values.size)
        found = {"psnr": q, "arrays": len(off), "lowest": min(off), "highest": max(off)}
        found |= {"bits_photos": float(np.mean(stored[:n]))}
        return found | {"bits_weather": float(np.mean(stored[n:]))}

    in_parts("targets", "quality", [(q,) for q in (30, 35, 40, 45, 50)], row)


def bound():
    def row(part, dtype):
        ratios, stored = [], []
        for values in [*coded_arrays(), datasets.load("mri")]:
            y = values.astype(dtype)
            e = part * float(np.ptp(y))
            field = ef.fit(y, ef.smooth(max_error=e))
            ratios.append(ef.max_error(y, field.samples()) / e)
            stored.append(8 * field.n_bytes / y.size)
        found = {"part": part, "dtype": dtype, "arrays": len(ratios), "largest": max(ratios)}
        return found | {"median": float(np.median(ratios)), "bits": float(np.mean(stored))}

    in_parts("targets", "bound", [(0.01, "float32"), (0.001, "float32"), (0.01, "float64")], row)


# --- 3. denoising --------------------------------------------------------------------------------


def cross_validated(noisy, partition):
    """Shrinkage γ / (γ + λ) alone, λ by generalised cross-validation in every region."""
    field = ef.fit(noisy, partition=partition)
    (group,) = field.model.blended.groups
    gamma, c = group.model.basis.smoothness, group.coefficients.take(np.arange(len(group.regions)))
    lambdas = gamma.max() * np.logspace(-14, 0, 57)
    w = lambdas / (gamma[:, None] + lambdas)
    score = (c[:, :, 0] ** 2 @ w**2) / w.sum(axis=0) ** 2
    best = lambdas[np.argmin(score, axis=1)][:, None]
    shrunk = replace(group, coefficients=Full(c * (gamma / (gamma + best))[:, :, None]))
    return ef.Field(
        replace(field.model, blended=replace(field.model.blended, groups=(shrunk,)))
    ).samples()


def denoised_scores(photograph, level, seed):
    """PSNR of one photograph with noise, by every way."""
    clean = datasets.load(photograph)
    noisy = clean + level * np.random.default_rng([level, seed]).standard_normal(clean.shape)
    cells = ef.smooth(cell=8, overlap=4, context=0).partition(noisy.shape, (False, False))
    found = {
        "noisy": noisy,
        "ours": ef.fit(noisy, ef.smooth(denoise=True)).samples(),
        "ours, level known": ef.fit(noisy, ef.smooth(denoise=float(level))).samples(),
        **denoised(noisy, level, clean),
        "GCV alone": cross_validated(noisy, cells),
    }
    return {name: ef.psnr(clean, values, data_range=255) for name, values in found.items()}


def denoise():
    """Means over the photographs, and on how many of them ours is above the others."""
    rows = []
    with ProcessPoolExecutor(initializer=one_thread) as pool:
        for level in (5, 10, 25):
            jobs = [
                pool.submit(denoised_scores, name, level, k)
                for k, name in enumerate(PHOTOGRAPHS.values())
            ]
            scores = [job.result() for job in jobs]
            means = {name: float(np.mean([s[name] for s in scores])) for name in scores[0]}
            above = {
                name: sum(s["ours, level known"] > s[name] for s in scores)
                for name in ("wavelet", "wavelet db2", "total variation", "non-local means")
            }
            rows.append({"level": level, "pictures": len(scores), **means, "above": above})
            print(rows[-1])
    record("targets", "denoise", rows)


def one_thread():
    """Each process of a pool keeps to one core."""
    threadpool_limits(1)


# --- 4. gaps -------------------------------------------------------------------------------------


def gaps():
    rows = []
    rng = np.random.default_rng(0)
    labels = [f"kodim{n:02d}" for n in (5, 8, 20, 23, 24)]
    fields = {k: datasets.load(PHOTOGRAPHS[k])[128:384, 128:384] for k in labels}
    fields["ERA5 t2m, winter 2023"] = datasets.load("era5-winter")[200:456, 200:456]
    fields["Navier-Stokes, t = 99"] = datasets.load("navier-stokes")[:, :, 99].astype(float)
    for name, values in fields.items():
        for kind in ("50 %", "80 %", "16 × 16 holes"):
            if kind.startswith("16"):
                missing = np.zeros(values.shape, bool)
                for i, j in ((30, 40), (70, 90), (100, 20)):
                    missing[i : i + 16, j : j + 16] = True
            else:
                missing = rng.random(values.shape) < float(kind[:2]) / 100
            row = {"data": name, "missing": kind}
            peak = float(np.ptp(values))
            for label, settings in (
                ("ours, order 1.1", ef.smooth(order=1.1)),
                ("ours, auto", ef.smooth(order="auto")),
            ):
                start = time.perf_counter()
                back = ef.fit(np.where(missing, np.nan, values), settings).samples()
                row[f"{label}: s"] = time.perf_counter() - start
                row[label] = ef.psnr(values[missing], back[missing], data_range=peak)
            for label, found, seconds in filled(values, missing):
                row[f"{label}: s"] = seconds
                row[label] = ef.psnr(values[missing], found, data_range=peak)
            rows.append(row)
            print(row)
    record("targets", "gaps", rows)


# --- 5. the automatic order ----------------------------------------------------------------------


def automatic():
    rows = []
    flow = datasets.load("navier-stokes").astype(float)
    arrays = [(label, datasets.load(name), BORDER) for label, name in PHOTOGRAPHS.items()]
    arrays += [(label, datasets.load(name), BORDER) for label, name in WEATHER.items()]
    arrays += [("brain T2 slice", datasets.load("mri"), BORDER)]
    arrays += [(f"Navier-Stokes, t = {t}", flow[:, :, t], BORDER) for t in (0, 50, 99)]
    arrays += [("Navier-Stokes volume", flow, 8)]
    orders = (0.9, 1.0, 1.1, 1.25, 1.5, 1.75, 2.0, 2.5, 3.0, 3.5, 4.0, 5.0, 6.0)
    for name, values, border in arrays:
        peak = 255.0 if name.startswith("kodim") else float(np.ptp(values))
        auto = ef.smooth(order="auto")
        how = {"border": border, "data_range": peak}
        row = {"data": name}
        for label, order in SPLINES.items():
            row[label] = score(values, spline(values, order), **how)
        kept = thinned(values)
        start = time.perf_counter()
        field = ef.fit(kept, auto)
        middle = time.perf_counter()
        ef.fit(kept, ef.smooth(order=1.1))
        row["cost_in_fits"] = (middle - start) / (time.perf_counter() - middle)
        row["order"] = list(field.settings.order)
        row["auto"] = score(values, predicted(values, auto)[0], **how)
        row["orders"] = {
            str(s): score(values, predicted(values, ef.smooth(order=s))[0], **how) for s in orders
        }
        rows.append(row)
        print(name, row["order"], row["auto"], max(row["orders"].values()))
    record("targets", "automatic", rows)


SECTIONS = {f.__name__: f for f in (budget, quality, bound, denoise, gaps, automatic)}

if __name__ == "__main__":
    warnings.simplefilter("error", RuntimeWarning)
    main(__doc__, SECTIONS)
