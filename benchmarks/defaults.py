"""The measurements behind the defaults: cell, overlap, lattice, ε, order, price, activation.

    python benchmarks/defaults.py                 everything
    python benchmarks/defaults.py cells dense     some sections

Sections: check, chosen, orders, cells, lattice, together, borders, epsilon, price, dense,
precision. Held-out PSNR throughout: every second sample per axis is fitted, the others are scored.
Each section rewrites its part of ``results/defaults.json``.
"""

from dataclasses import replace
from functools import lru_cache

import numpy as np
from scipy.ndimage import map_coordinates

import elmfield as ef
from common import main, record
from elmfield.local.bases import axis_modes
from elmfield.local.layers import Cosines, price
from measurement.data import PHOTOGRAPHS as KODAK
from measurement.heldout import halves, predicted, score, thinned
from measurement.rivals import SPLINES, spline, spline_1d
from paper.research import datasets
from reference import Lattice, corners, radial

ORDERS = (0.75, 1.0, 1.1, 1.25, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0, 5.0, 6.0)
PHOTOGRAPHS = (5, 8, 15, 20, 23, 24)


def waves(n=400):
    """A smooth field in closed form: twelve plane waves, 16 to 64 samples long."""
    rng, x = np.random.default_rng(0), np.arange(float(n))
    total = np.zeros((n, n))
    for _ in range(12):
        length, angle, phase = rng.uniform((16, 0, 0), (64, 2 * np.pi, 2 * np.pi))
        along = np.cos(angle) * x[:, None] + np.sin(angle) * x
        total += np.cos(2 * np.pi / length * along + phase)
    return total


@lru_cache(maxsize=1)
def sets():
    """Data by number of dimensions: name -> (list of arrays, border, peak, channels last?)."""
    w = datasets.load("navier-stokes").astype(np.float64)
    winter = datasets.load("era5-winter")
    photographs = [datasets.load(KODAK[f"kodim{n:02d}"]) for n in PHOTOGRAPHS]
    return {
        1: {
            "speech": ([datasets.load("speech")[:, None]], 16, None),
            "ERA5 along longitude": ([np.ascontiguousarray(winter.T)], 16, None),
            "ERA5 along latitude": ([winter], 16, None),
            "rows of photographs": ([p.T for p in photographs], 16, 255.0),
            "Navier-Stokes in time": ([w.reshape(-1, 100).T], 8, None),
        },
        2: {
            "photographs": (photographs, 16, 255.0),
            "ERA5 t2m": ([winter], 16, None),
            "brain T2 slice": ([datasets.load("mri")], 16, None),
            "Navier-Stokes slice": ([w[:, :, 99]], 16, None),
            "sum of waves": ([waves()], 16, None),
        },
        3: {
            "Navier-Stokes volume": ([w], 8, None),
            "brain T1 volume": ([datasets.load("brain-volume")[24:152, 30:158, 24:120]], 8, None),
        },
    }


def measure(d, name, settings):
    """Mean held-out PSNR, mean PSNR at the samples, coefficients per sample."""
    arrays, border, peak = sets()[d][name]
    channels = -1 if d == 1 else None
    found = []
    for y in arrays:
        back, field = predicted(y, settings, channels=channels)
        kept = thinned(y, channels)
        own = ef.psnr(kept, thinned(back, channels))
        held = score(y, back, border=border, data_range=peak, channels=channels)
        found.append((held, own, field.model.n_coefficients / kept.size))
    return dict(zip(("heldout", "at_samples", "per_sample"), np.mean(found, axis=0).tolist()))


def base(d, order, **changes):
    """The default's settings in d dimensions with some of them changed."""
    usual = ef.smooth(order=order).partition((192,) * d, (False,) * d)
    own = {"cell": 192 // usual.n_cells[0], "overlap": usual.overlap[0], "context": usual.context}
    own |= {k: changes.pop(k) for k in ("cell", "overlap", "context") if k in changes}
    return ef.smooth(order=order, layer=Lattice(**changes), **own)


@lru_cache(maxsize=32)
def best_order(d, name):
    """The order a set wants, at the default's cell and overlap."""
    return max(ORDERS, key=lambda s: measure(d, name, base(d, s))["heldout"])


def everything():
    """All (dimension, name) pairs."""
    return [(d, name) for d, of in sets().items() for name in of]


def check():
    """The lattice used here is the library's own when nothing is changed."""
    for d, name in everything():
        ours, theirs = measure(d, name, base(d, 1.5)), measure(d, name, ef.smooth(order=1.5))
        if abs(ours["heldout"] - theirs["heldout"]) > 1e-6:
            raise SystemExit(f"{name}: the lattice gives {ours}, the library {theirs}")


def chosen():
    """What the preset uses today, by dimension and order."""
    rows = []
    for d in (1, 2, 3, 4):
        for s in (1.1, 1.5, 2.0, 3.0, 4.0):
            setting = base(d, s)
            cut = {k: getattr(setting, k) for k in ("cell", "overlap", "context")}
            rows.append({"d": d, "order": s} | cut)
    rows.append({"order": ef.smooth().order})
    record("defaults", "chosen", rows)


def orders():
    """Held-out scores by order; best are 1.1 for photographs, 1.5 to 2 weather, 4 to 6 flows."""
    rows = []
    for d, name in everything():
        arrays, border, peak = sets()[d][name]
        rival = spline_1d if d == 1 else spline
        how = {"border": border, "data_range": peak, "channels": -1 if d == 1 else None}
        row = {"d": d, "data": name}
        for label, k in SPLINES.items():
            row[label] = float(np.mean([score(y, rival(y, k), **how) for y in arrays]))
        row["orders"] = {str(s): measure(d, name, base(d, s))["heldout"] for s in ORDERS}
        rows.append(row)
    record("defaults", "orders", rows)


CELLS = {1: (8, 16, 32, 64, 128), 2: (8, 12, 16, 24, 32), 3: (4, 8, 12, 16, 24)}
MARGINS = ((0.0, 0), (1.0, 0), (2.0, 0), (2.0, 1), (2.0, 2), (4.0, 0), (2.0, 4), (4.0, 4))
"""Overlap, and context: samples a box takes in beyond its window."""


def cells():
    """Cell, overlap and context, each data set at its best order.

    Two samples of overlap are enough for rough data; smooth data gain from context, more than
    from a wider overlap of the same storage. Chosen in 1-D to 4-D: cells of 64, 32, 24 and 8 with
    2 + 2, 2 + 2, 2 + 1 and 1 + 0.
    """
    rows = []
    for d, name in everything():
        s = best_order(d, name)
        for cell, (overlap, context) in corners(CELLS[d], MARGINS):
            if overlap > cell / 2:
                continue
            changes = {"cell": cell, "overlap": overlap, "context": context}
            found = measure(d, name, base(d, s, **changes))
            rows.append({"d": d, "data": name, "order": s} | changes | found)
    record("defaults", "cells", rows)


def lattice():
    """Period, in boxes, and band, in cycles per sample, changed one at a time.

    From a period of 1.25 on measured data see no difference; a band of 0.5 costs about 1 dB on
    rough data, beyond 1 scores differ in the third digit. Chosen: 1.25 and 1.
    """
    rows = []
    for d, name in everything():
        s = best_order(d, name)
        tried = [{"period": p} for p in (1.0, 1.125, 1.25, 1.5, 2.0)]
        tried += [{"band": b} for b in (0.5, 0.75, 1.0, 1.5, 2.0)]
        for change in tried:
            found = measure(d, name, base(d, s, **change))
            rows.append({"d": d, "data": name, "order": s} | change | found)
    record("defaults", "lattice", rows)


def together():
    """Cell, overlap and period at once, where they matter: smooth data, orders of 1.5 and more.

    Only the sum of waves tells the choices apart: there margins of 4 + 4 gain 20 dB over 2 + 2.
    """
    rows = []
    for name in ("ERA5 t2m", "brain T2 slice", "Navier-Stokes slice", "sum of waves"):
        cuts = ((16, 2.0, 0), (16, 2.0, 2), (32, 2.0, 0), (32, 2.0, 2), (32, 4.0, 0), (32, 4.0, 4))
        for s, (cell, overlap, context), period in corners((1.5, 2.0, 3.0, 4.0), cuts, (1.25, 1.5)):
            changes = {"cell": cell, "overlap": overlap, "context": context, "period": period}
            found = measure(2, name, base(2, s, **changes))
            rows.append({"data": name, "order": s} | changes | found)
    record("defaults", "together", rows)


def paid(n):
    """The library's layer with a price on straight lines."""
    return Cosines.lattice(n, free=0)


def borders():
    """Half a sample beyond the outermost: lines charged, then mirrored too; lines free.

    Free lines are chosen: mirroring turns slopes around and counts samples twice. Below order 2 the
    slope of the last six samples continues; 3, 8 and 16 samples score 12.7, 13.0 and 13.1 dB on
    photographs at order 1.1, and 52.6, 46.8 and 43.5 dB on ERA5.
    """
    rows = []
    for (name, (arrays, _, peak)), s in corners(sets()[2].items(), (1.1, 1.5, 2.0, 4.0)):
        found = {k: [] for k in ("paid", "mirrored", "free", "cubic spline", "nearest sample")}
        for y in arrays:
            y = y[tuple(slice(n // 2 * 2) for n in y.shape)]
            part, grid = thinned(y), [np.arange(n) / 2 for n in y.shape]
            usual = ef.smooth(order=s).partition(part.shape, (False, False))
            where = np.stack(np.meshgrid(*grid, indexing="ij"))
            ways = {
                "paid": (paid, usual),
                "mirrored": (paid, replace(usual, mirrored=True)),
                "free": (None, usual),
            }
            made = {
                word: ef.fit(part, ef.smooth(order=s, layer=layer), partition=cut).grid(*grid)
                for word, (layer, cut) in ways.items()
            }
            made["cubic spline"] = map_coordinates(part, where, order=3, mode="reflect")
            made["nearest sample"] = map_coordinates(part, where, order=1, mode="nearest")
            for word, predict in made.items():
                off = np.concatenate([(predict - y)[-1], (predict - y)[:, -1]])
                range_ = float(np.ptp(y)) if peak is None else peak
                found[word].append(-10 * np.log10(np.mean(off**2) / range_**2 + 1e-12))
        rows.append({"data": name, "order": s} | {k: float(np.mean(v)) for k, v in found.items()})
    record("defaults", "borders", rows)


def epsilon():
    """Scores by ε: all alike at low orders; a small ε ruins the condition number at high ones."""
    rows = []
    for d, name in everything():
        s = best_order(d, name)
        for e in (None, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1):
            found = measure(d, name, base(d, s, epsilon=e))
            rows.append({"d": d, "data": name, "order": s, "epsilon": e} | found)
    record("defaults", "epsilon", rows)


def price_of_a_product():
    """Product price against radial price, each at its best order: equal on measured data."""
    rows = []
    for d, name in everything():
        if d == 1:
            continue  # one axis: the two are the same
        arrays, border, peak = sets()[d][name]
        # the radial kernel is (box^d)²: in 3-D cells of 16 would need 8000² numbers and a solve
        cell, overlap = (16, 2.0) if d == 2 else (8, 2.0)
        row = {"d": d, "data": name, "cell": cell, "overlap": overlap, "radial": {}, "product": {}}
        for s in (1.25, 1.5, 1.75, 2.0, 2.5, 3.0, 4.0, 5.0) if d == 2 else (1.75, 2.5, 4.0, 5.0):
            how = {"border": border, "data_range": peak}
            found = [score(y, radial(y, cell, overlap, s), **how) for y in arrays]
            row["radial"][str(s)] = float(np.mean(found))
        for s in ORDERS:
            found = measure(d, name, base(d, s, cell=cell, overlap=overlap, context=0))
            row["product"][str(s)] = found["heldout"]
        rows.append(row)
    record("defaults", "price", rows)


def dense():
    """Smooth modes of the paper's dense layer: which activation, how wide.

    Every *third* sample is fitted: half-way between samples lie the nodes of the energy's
    quadrature, and a layer wider than there are nodes can do there what it is told and elsewhere
    what it likes. Scored at the nodes, all activations are the same.
    """
    corners_of = [(slice(a, a + 128), slice(b, b + 128)) for a in (100, 280) for b in (100, 280)]
    w = datasets.load("navier-stokes").astype(np.float64)
    items = {k: datasets.load(KODAK[k]) for k in ("kodim05", "kodim20", "kodim23")}
    items = {k: [picture[c] for c in corners_of] for k, picture in items.items()}
    items["Navier-Stokes slices"] = [w[:, :, k] for k in (49, 99)]
    items["sum of waves"] = [waves(128)]
    peaks = {name: 255.0 if name.startswith("kodim") else None for name in items}
    every = np.stack([y for of in items.values() for y in of], axis=-1)  # all are fitted at once
    which = np.repeat(np.arange(len(items)), [len(of) for of in items.values()])
    border, step = 18, 3
    part, grid = halves(every, -1, step)

    def scores(predict):
        """Held-out PSNR of each item; all channels of an item count together."""
        how = {"border": border, "channels": -1, "step": step}
        return {
            name: score(
                every[..., which == k], predict[..., which == k], data_range=peaks[name], **how
            )
            for k, name in enumerate(items)
        }

    rows = []
    activations = ("relu", "tanh", "gaussian", "sin", "cos")
    tried = [(a, 1024, s, 1.0) for a in activations for s in (1.5, 2, 3)]
    tried += [(a, width, 2, 1.0) for a in ("relu", "sin") for width in (256, 512, 2048)]
    tried += [(a, 1024, 2, scale) for a in activations for scale in (0.25, 0.5)]
    for activation, width, s, scale in tried:
        network = ef.Dense(width=width, activation=activation, scale=scale)
        settings = ef.smooth(order=s, network=network)
        found = ef.fit(part, settings, channel_axis=-1).grid(*grid, outside="nearest")
        rows.append(
            {
                "layer": f"{activation}, m = {width}, s = {s:g}, scale {scale:g}",
                "heldout": scores(found),
                "at_samples": ef.psnr(part, thinned(found, -1, step)),
            }
        )
    for name, order in SPLINES.items():
        found = scores(spline(every, order, -1, step))
        rows.append({"layer": f"{name} spline", "heldout": found})
    for s in (1.1, 1.5, 2.0, 3.0, 4.0):
        found, _ = predicted(every, ef.smooth(order=s), channels=-1, step=step)
        own, layer = ef.psnr(part, thinned(found, -1, step)), f"product layer, s = {s:g}"
        rows.append({"layer": layer, "heldout": scores(found), "at_samples": own})
    record("defaults", "dense", rows, border=border, step=step)


def precision():
    """What rounding does: kernels of the default at growing order, and the paper's H."""
    rows = []
    y = sets()[2]["Navier-Stokes slice"][0][0]
    n = ef.smooth().partition((512, 512), (False, False)).footprints[0][0][0]
    for s in (1.1, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0):
        modes = axis_modes(n, s)
        row = {
            "what": "product",
            "order": s,
            "kept": int(modes.basis.shape[1]),
            "of": n,
            "spread": float(modes.smoothness[0] / modes.smoothness[-1]),
            "epsilon": float(price(np.zeros(1), s)[0] ** (1 / s)),
        }
        for dtype in ("float64", "float32"):
            back, _ = predicted(y.astype(dtype), ef.smooth(order=s))
            own = ef.psnr(thinned(y.astype(dtype)), thinned(back))
            held = score(y, back.astype(float), border=16)
            row[dtype] = {"heldout": held, "at_samples": own}
        rows.append(row)
    picture = datasets.load("kodim05")
    Y = picture.reshape(16, 32, 16, 32).transpose(1, 3, 0, 2).reshape(1024, -1) / 256
    t = np.linspace(-1, 1, 32)
    t = np.stack(np.meshgrid(t, t, indexing="ij"), axis=-1).reshape(-1, 2)
    for seed in range(4):
        H = ef.Dense(seed=seed)(t)
        Q = np.linalg.qr(H).Q
        c, alpha = Q.T @ Y, np.linalg.solve(H, Y)
        H32, Y32 = H.astype(np.float32), Y.astype(np.float32)
        normal = np.linalg.solve(H32.T @ H32, H32.T @ Y32)

        def eight(a):
            step = np.abs(a).max(axis=0) / 127
            return np.round(a / step) * step

        ways = {
            "float32 normal equations": H32 @ normal,
            "float32 lstsq": H32 @ np.linalg.lstsq(H32, Y32, rcond=None)[0],
            "float32 projection": Q.astype(np.float32) @ (Q.T.astype(np.float32) @ Y32),
            "α stored in float16": H @ alpha.astype(np.float16).astype(float),
            "c stored in float16": Q @ c.astype(np.float16).astype(float),
            "α stored in 8 bits": H @ eight(alpha),
            "c stored in 8 bits": Q @ eight(c),
        }
        rows.append(
            {
                "what": "dense",
                "seed": seed,
                "condition": float(np.linalg.cond(H)),
                "psnr": {k: ef.psnr(Y, v, data_range=255 / 256) for k, v in ways.items()},
            }
        )
    record("defaults", "precision", rows, seed="0 to 3", dtype="as named")


SECTIONS = {
    "check": check,
    "chosen": chosen,
    "orders": orders,
    "cells": cells,
    "lattice": lattice,
    "together": together,
    "borders": borders,
    "epsilon": epsilon,
    "price": price_of_a_product,
    "dense": dense,
    "precision": precision,
}


if __name__ == "__main__":
    main(__doc__, SECTIONS)
