"""What the core must show, on real data: the paper's numbers, held-out scores, memory.

    python benchmarks/core.py                     everything
    python benchmarks/core.py paper heldout       some sections

Sections: paper, seeds, heldout, fields, scales, memory, navier_stokes. Each rewrites its
part of ``results/core.json``; ``benchmarks/tables.py`` turns that into the documents' tables.
"""

import tracemalloc
import warnings

import numpy as np
import scipy.fft
import scipy.linalg

import elmfield as ef
from common import main, record
from measurement.data import PHOTOGRAPHS, WEATHER
from measurement.heldout import predicted, score, thinned
from measurement.rivals import SPLINES, spline
from paper.research import datasets

ORDERS = (1.0, 1.1, 1.25, 1.5, 1.75, 2.0, 2.25, 2.5, 3.0, 3.5, 4.0, 5.0, 6.0)
BORDER = 16
PHOTOGRAPH = {"border": BORDER, "data_range": 255}


# --- 1. the paper's preset at the samples ---------------------------------------------------------

PRINTED = {
    "kodim05 512²": 78.4,
    "kodim08 512²": 77.1,
    "kodim20 256²": 78.4,
    "kodim24 512²": 79.0,
    "cameraman 256²": 77.8,
    "brain T2 slice 512²": 79.8,
}
"""The paper's PSNR where its data is ours or of the same kind (PAPER: ELM-INR column)."""


def colours():
    return datasets.centre(datasets.load("kodim23", prepare="whole"))


def scenes():
    """Name, samples, channel axis and settings of everything the preset is tried on."""
    wide = ef.paper(cell=64, width=4096)
    for n in (5, 8, 24):
        yield f"kodim{n:02d} 512²", datasets.load(f"kodim{n:02d}"), None, ef.paper()
    yield "kodim20 256²", datasets.load("kodim20"), None, ef.paper()
    yield "cameraman 256²", datasets.load("cameraman"), None, ef.paper()
    yield "cameraman 512²", datasets.load("cameraman-512"), None, ef.paper()
    yield "camera (CC0) 512²", datasets.load("camera"), None, ef.paper()
    yield "kodim23 512² RGB", colours(), -1, ef.paper()
    tiles = {"38D_378R_2_3": "tanzania", "282D_485L_3_3": "brazil"}
    tiles |= {"433D_629L_3_1": "chile", "609U_541L_3_0": "ontario"}
    for tile, place in tiles.items():
        scene = datasets.load(f"sentinel2-l2a-{place}")
        yield f"Sentinel-2 {tile} 224²×12", scene, -1, ef.paper()
    scene = datasets.load("sentinel2-l2a-brazil")[:192, :192]
    yield "Sentinel-2 282D_485L_3_3 192²×12", scene, -1, wide
    scene = datasets.load("worldview")
    yield "WorldView-2 320²×8", scene, -1, ef.paper()
    yield "WorldView-2 320²×8 (64² cells)", scene, -1, wide
    yield "brain T2 slice 512²", datasets.load("mri"), None, ef.paper()


def paper():
    rows = []
    for name, values, channel_axis, settings in scenes():
        for dtype in (np.float32, np.float64):
            y = values.astype(dtype)
            field = ef.fit(y, settings, channel_axis=channel_axis)
            back = field.resize(field.shape)
            rows.append(
                {
                    "data": name,
                    "printed": PRINTED.get(name),
                    "dtype": np.dtype(dtype).name,
                    "cell": settings.cell,
                    "width": settings.network.width,
                    "paper_psnr": ef.paper_psnr(y, back, channel_axis=channel_axis),
                    "psnr": ef.psnr(y, back),
                    "max_error": ef.max_error(y, back) / float(np.ptp(y)),
                    "coefficients_per_sample": field.model.n_coefficients / y.size,
                }
            )
    record("core", "paper", rows, dtype="float32 and float64")


def seeds():
    """The paper leaves the distribution of the hidden layer open; this is how much it matters."""
    rows = []
    y = datasets.load("kodim05")
    for draw in ("normal", "uniform"):
        for width in (256, 512, 1024):
            scores = []
            for seed in range(5):
                settings = ef.paper(width=width, draw=draw, seed=seed)
                scores.append(ef.psnr(y, ef.fit(y, settings).samples(), data_range=255))
            rows.append({"draw": draw, "width": width, "psnr": scores})
    record("core", "seeds", rows, seed="0 to 4")


def navier_stokes():
    w = datasets.load("navier-stokes")
    rows = []
    readings = [
        ((64, 64), -1, "each time step a picture: S = m = 4096 in two dimensions"),
        ((32, 32, 4), None, "a piece in time as well: S = m = 4096 in three dimensions"),
        ((64, 64, 1), None, "the same pieces as in the first row, but three coordinates"),
        ((64, 64, 10), None, "the paper's cells and 10 steps: S = 40960, m = 4096"),
    ]
    for cell, channel_axis, reading in readings:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ef.RankWarning)  # the rank is in the table
            settings = ef.paper(cell=cell, width=4096)
            encode = ef.encoder(w.shape, settings, channel_axis=channel_axis)
            found = [encode(w.astype(dtype)) for dtype in (np.float32, np.float64)]
        for field in found:
            back = field.resize(field.shape)
            y = w.astype(back.dtype)
            rows.append(
                {
                    "cell": list(cell),
                    "reading": reading,
                    "dtype": back.dtype.name,
                    "rank": ", ".join(map(str, field.report()["rank of a region"])),
                    "mae": ef.mae(y, back),
                    "max_error": ef.max_error(y, back),
                    "range": float(np.ptp(y)),
                    "coefficients_per_sample": field.model.n_coefficients / y.size,
                    "printed": 5.68e-5,
                }
            )
            print(rows[-1], flush=True)
        del encode, field, found
    record("core", "navier_stokes", rows, dtype="float32 and float64")


def scales():
    """Ten times more samples than neurons: does another scale of the Fourier features help."""
    w = datasets.load("navier-stokes").astype(np.float64)
    rows = []
    for scale in (0.1, 0.25, 0.5, 1.0):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ef.RankWarning)
            field = ef.fit(w, ef.paper(cell=(16, 16, 10), width=256, scale=scale))
        what = f"16×16×10 pieces, m = 256, scale {scale:g}"
        rows.append({"what": what, "mae": ef.mae(w, field.resize(field.shape))})
    pieces = w.reshape(2, 64, 2, 64, 10, 10).transpose(0, 2, 4, 1, 3, 5).reshape(-1, 64, 64, 10)
    c = scipy.fft.dctn(pieces, axes=(1, 2, 3), norm="ortho").reshape(len(pieces), -1)
    c[np.abs(c) < -np.partition(-np.abs(c), 4095, axis=1)[:, 4095:4096]] = 0
    back = scipy.fft.idctn(c.reshape(pieces.shape), axes=(1, 2, 3), norm="ortho")
    what = "64×64×10 pieces, the 4096 largest coefficients of a cosine transform"
    rows.append({"what": what, "mae": ef.mae(pieces, back)})
    record("core", "scales", rows)


# --- 3. between the samples -----------------------------------------------------------------------


def at_samples(values, back):
    """True PSNR at the samples that were fitted."""
    return ef.psnr(thinned(values), thinned(back))


def heldout():
    rows = []
    for label, photograph in PHOTOGRAPHS.items():
        y = datasets.load(photograph)
        row = {"data": label}
        for name, order in SPLINES.items():
            row[name] = score(y, spline(y, order), **PHOTOGRAPH)
        back, field = predicted(y)
        row |= {"default": score(y, back, **PHOTOGRAPH), "at_samples": at_samples(y, back)}
        row["coefficients_per_sample"] = field.model.n_coefficients / thinned(y).size
        back, _ = predicted(y, ef.oriented())
        row |= {"oriented": score(y, back, **PHOTOGRAPH), "oriented_at": at_samples(y, back)}
        row["orders"] = {
            str(s): score(y, predicted(y, ef.smooth(order=s))[0], **PHOTOGRAPH)
            for s in (1.0, 1.1, 1.25, 1.5, 2.0)
        }
        if label in ("kodim05", "kodim20", "kodim24"):
            row["paper"] = score(y, predicted(y, ef.paper())[0], **PHOTOGRAPH)
        rows.append(row)
    record("core", "heldout", rows, **PHOTOGRAPH)


def fields():
    """Smooth data: the default, regions that choose, and every order of a list."""
    w = datasets.load("navier-stokes").astype(np.float64)
    items = [(label, datasets.load(name), BORDER) for label, name in WEATHER.items()]
    items.append(("brain T2 slice", datasets.load("mri"), BORDER))
    items += [(f"Navier-Stokes, slice {k}", w[:, :, k], BORDER) for k in (0, 49, 99)]
    items.append(("Navier-Stokes, volume", w, 8))
    items.append(("brain T1 volume", datasets.load("brain-volume"), 8))
    rows = []
    for name, y, border in items:
        row = {"data": name, "shape": list(y.shape), "border": border}
        for rival, order in SPLINES.items():
            row[rival] = score(y, spline(y, order), border=border)
        row["orders"], row["at_samples"] = {}, {}
        for label, settings in (("default", None), ("oriented", ef.oriented())):
            back, field = predicted(y, settings)
            row[label] = score(y, back, border=border)
            row["at_samples"][label] = at_samples(y, back)
        for s in ORDERS:
            back, field = predicted(y, ef.smooth(order=s))
            row["orders"][str(s)] = score(y, back, border=border)
            row["at_samples"][str(s)] = at_samples(y, back)
        row["coefficients_per_sample"] = field.model.n_coefficients / thinned(y).size
        best = max(row["orders"], key=row["orders"].get)
        print(name, f"cubic {row['cubic']:.2f}, quintic {row['quintic']:.2f},", best, row["orders"])
        rows.append(row)
    record("core", "fields", rows)


# --- memory -----------------------------------------------------------------------------


def memory():
    """Peak of what a fit allocates beside its input, by `tracemalloc` (NumPy reports to it)."""
    y = datasets.load("kodim05")
    large = np.tile(colours().astype(np.float32), (4, 4, 1))
    w = datasets.load("navier-stokes")
    rows = []
    for name, values, settings, channel_axis in (
        ("paper(), 512² float64", y, ef.paper(), None),
        ("default, 512² float64", y, None, None),
        ("paper(), 2048²×3 float32", large, ef.paper(), -1),
        ("default, 2048²×3 float32", large, None, -1),
        ("default, 128×128×100 float32", w, None, None),
    ):
        ef.cache_modes(clear=True)
        tracemalloc.start()
        field = ef.fit(values, settings, channel_axis=channel_axis)
        after_fit, fit_peak = tracemalloc.get_traced_memory()
        tracemalloc.reset_peak()
        back = field.samples()
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        rows.append(
            {
                "work": name,
                "input": values.nbytes,
                "field": after_fit,
                "fit_peak": fit_peak,
                "output": back.nbytes,
                "samples_peak": peak - after_fit,
            }
        )
    record("core", "memory", rows, dtype="as named")


SECTIONS = (paper, seeds, heldout, fields, scales, memory, navier_stokes)

if __name__ == "__main__":
    main(__doc__, {section.__name__: section for section in SECTIONS})
