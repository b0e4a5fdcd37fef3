"""Section 3.3 and the complexity appendix, measured: the bound, its remark, and exponents of time.

    python paper/theory.py

- `remark`: rank correlation of the energy β_i and the local error over regions, before and after
  BEAM, and the largest local error of each: is the error dominated by the largest energy?
- `bound`: how the error falls with the width, and the constant C = max_i √m |f - f_i| / β_i that the
  theorem wants independent of m;
- `time`: exponents of the fit's time in S, m and N, each region with its own layer, against those of
  O(S m² + N m³).
"""

import time
import warnings
from functools import partial

import numpy as np
from scipy.stats import spearmanr

import elmfield as ef
from common import at_hand, load, main
from elmfield.show.pictures import toy_field
from readings import NORMALISATIONS, picture

DATA = {  # cells of the mesh, BEAM's atoms, width
    "toy field": ((32, 32), (16, 16), 64),
    "kodim20": ((32, 32), (16, 16), 256),
    "cameraman": ((32, 32), (16, 16), 256),
    "camera": ((32, 32), (16, 16), 256),
    "kodim23": ((64, 64), (32, 32), 512),
    "era5-winter": ((64, 64), (32, 32), 256),
    "navier-stokes": ((32, 32, 25), (16, 16, 13), 128),
}
WIDTHS = (32, 64, 128, 256, 512)
TIMES = {  # S of a region's side, m, N of a side
    "m": [(32, m, 2) for m in (128, 256, 512, 1024)],
    "S": [(side, 256, 1) for side in (32, 64, 128)],
    "N": [(32, 256, n) for n in (2, 4, 8)],
}
PRINTED = {"m": "2 (S m²) to 3 (N m³)", "S": "1", "N": "1"}


def samples(run, name):
    """The array of a name."""
    if name == "toy field":
        return toy_field(64 if run.toy else 256)
    if name == "camera":
        return picture(run, "cameraman, CC0 512 halved")
    return np.asarray(load(run, name), np.float64)


def local_errors(values, width, partition):
    """The L2 error of each region, (N,), by one draw for all."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ef.RankWarning)
        field = ef.fit(values, ef.paper(width=width), partition=partition)
    return np.sqrt(field.model.residual)


def remark(run, values, cell, atom, width):
    """Correlation of energy and error, and the largest error, on the mesh and after BEAM."""
    mesh = ef.Partition.regular(values.shape, cell)
    result = {"N": mesh.n_regions}
    parts = {"regular": (mesh, "backward")}
    for word, normalisation in NORMALISATIONS.items():
        if word != "ortho":
            made = ef.beam(values, cell=atom, regions=mesh.n_regions, normalisation=normalisation)
            parts[word] = made, normalisation
    for word, (partition, normalisation) in parts.items():
        beta = ef.barron_norm(values, partition=partition, normalisation=normalisation)
        off = local_errors(values, width, partition)
        result[word] = {
            "spearman": float(spearmanr(beta, off).statistic),
            "largest": float(off.max()),
            "rank_of_worst": int((beta > beta[off.argmax()]).sum()) + 1,
            "beta_over_mean": float(beta.max() / beta.mean()),
        }
    return result


def bound(run, values, cell):
    """The error and the theorem's constant by width, on the mesh."""
    mesh = ef.Partition.regular(values.shape, cell)
    beta = ef.barron_norm(values, partition=mesh, normalisation="backward")
    widths = WIDTHS[:2] if run.toy else WIDTHS
    off = np.stack([local_errors(values, m, mesh) for m in widths])
    some = beta > 1e-3 * beta.max()  # a black cell has neither energy nor error
    constant = (np.sqrt(widths)[:, None] * off[:, some] / beta[some]).max(axis=1)
    slope = np.polyfit(np.log(widths), np.log(np.sqrt((off**2).sum(axis=1))), 1)[0]
    return {
        "widths": widths,
        "rms": np.sqrt((off**2).sum(axis=1)),
        "C": constant,
        "exponent": slope,
    }


def timed(run, rows):
    """Processor seconds of cold fits with own layers, and the exponent between the last two."""
    found = []
    rng = np.random.default_rng(0)
    for side, m, n in rows:
        values = rng.random((side * n, side * n))
        encode = ef.encoder(values.shape, ef.paper(cell=side, width=m, layers="own"))
        took = []
        for _ in range(1 if run.toy else 3):
            start = time.process_time()
            encode(values)
            took.append(time.process_time() - start)
        found.append(min(took))
    return found


def exponents(run, what):
    """Seconds along one of S, m and N, and the exponent of a straight line through logarithms."""
    rows = [(8, 16, 1), (8, 32, 1)] if run.toy and what != "m" else TIMES[what]
    rows = [(8, m, 1) for m in (16, 32)] if run.toy else rows
    took = timed(run, rows)
    sizes = {"m": [m for _, m, _ in rows], "S": [s**2 for s, _, _ in rows],
             "N": [n**2 for *_, n in rows]}[what]  # fmt: skip
    slope = 0.0 if len(set(sizes)) < 2 else np.polyfit(np.log(sizes), np.log(took), 1)[0]
    return {"sizes": sizes, "seconds": took, "exponent": float(slope)}


def compute(run):
    """All that can be had."""
    names = ("toy field", "kodim20") if run.toy else DATA
    for name in names:
        if name != "toy field" and not at_hand(run, [name]):
            continue
        values = samples(run, name)
        cell, atom, width = DATA[name]
        if run.toy:
            cell, atom, width = (16, 16), (8, 8), 16
        work = partial(remark, run, values, cell, atom, width)
        run.unit(f"remark: {name}, m = {width}", work, cells=[cell, atom])
        if values.ndim == 2 and values.size <= 2**18:
            run.unit(f"bound: {name}", partial(bound, run, values, cell))
    for what in TIMES:
        run.unit(f"time: {what}", partial(exponents, run, what))


def draw(run):
    """Tables only."""


def report(doc, records):
    """The section of the report."""
    remarks, bounds, times = [], [], []
    for name in records.names("theory"):
        r, unit = records.get("theory", name)
        kind, what = name.split(": ", 1)
        mark = records.mark(unit)
        if kind == "remark":
            words = [r.get(w) for w in ("regular", "plain DFT", "forward")]
            remarks.append([
                what + mark, str(r["N"]), *(f"{w['spearman']:.2f}" for w in words),
                *(f"{w['largest']:.3g}" for w in words), f"{words[0]['rank_of_worst']}",
            ])  # fmt: skip
        elif kind == "bound":
            bounds.append([what + mark, f"{r['exponent']:.2f}",
                           *(f"{c:.2g}" for c in r["C"])])  # fmt: skip
        else:
            times.append([what + mark, PRINTED[what], f"{r['exponent']:.2f}",
                          ", ".join(f"{n}: {1e3 * t:.0f} ms" for n, t in zip(r["sizes"], r["seconds"]))])  # fmt: skip
    if not remarks and not times:
        return
    doc.heading("Theory: the bound, its remark, the complexity")
    if remarks:
        doc.text("""The remark says that the error is dominated by the region of the largest spectral
            energy β. Rank correlation of β and the L2 error over regions, and the largest error of a
            region, on the regular mesh and after BEAM with as many regions (energies by the plain
            transform, and normalised as `ef.beam` does):""")
        doc.table(["", "N", "correlation: regular", "BEAM, plain DFT", "BEAM, forward",
                   "largest error: regular", "BEAM, plain DFT", "BEAM, forward",
                   "rank of β of the worst region"], remarks)  # fmt: skip
        fell = (
            sum(float(r[6]) < float(r[5]) for r in remarks),
            sum(float(r[7]) < float(r[5]) for r in remarks),
        )
        doc.text(f"""On the mesh energy and error go together. After BEAM the energies are alike, so that
            little is left to correlate. The largest local error falls with the plain transform in
            {fell[0]} and with the normalised one in {fell[1]} of {len(remarks)} cases.""")
    if bounds:
        doc.text("""The theorem bounds the error by C β / √m. The exponent of the error in m that is
            measured, and C = max √m |f - f_i| / β_i by width, which the theorem wants not to grow:""")
        doc.table(["", "exponent in m", *(f"C, m = {m}" for m in WIDTHS)], bounds)
    if times:
        doc.text("""The appendix gives O(S m² + N m³) for the closed form (S samples in all, m neurons, N
            regions) and O(T L S m²) for training. Processor time of a fit with own layers:""")
        doc.table(["in", "printed exponent", "measured", "seconds"], times)
        doc.text("""With one shared layer the factorisation is done once: S m² for the projection and m³
            once instead of N times.""")


if __name__ == "__main__":
    main(compute, draw, "theory")
