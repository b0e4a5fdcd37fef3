"""Pictures, scans and sound beside the tools people use: turns, transparency, reslicing, rates.

    python benchmarks/images.py [section ...]     turns, transparency, reslice, speech, regions

Writes results/images.json; tables.py makes the documents' tables of it.
"""

import importlib
import sys
import time

import numpy as np
from scipy import ndimage, signal

import common
import elmfield as ef
from elmfield.field.coordinates.labels import ChannelLabels
from elmfield.io.export.rendering import Rendering
from elmfield.io.formats.media import SUITS
from elmfield.io.gridded import Gridded
from paper.research import datasets


def _grey(name):
    return np.asarray(ef.read(datasets.path(name)[0])).astype(float).mean(axis=-1)


def turns():
    """Twelve turns by 30 degrees, each from the samples of the last; dB in the inner disc."""
    rows = []
    for name, every in (("kodim23", 1), ("kodim23, every second pixel", 2)):
        picture = _grey("kodim23")[::every, ::every]
        shape = np.asarray(picture.shape)
        t, c = np.deg2rad(30), (shape - 1) / 2
        R = np.array([[np.cos(t), -np.sin(t)], [np.sin(t), np.cos(t)]])
        M = np.column_stack([R, c - R @ c])
        at = np.indices(picture.shape).reshape(2, -1).T @ R.T + M[:, 2]
        inner = np.hypot(*(np.indices(picture.shape) - c[:, None, None])) < 0.45 * min(shape)

        def spline(order, y, at=at, shape=picture.shape):
            return ndimage.map_coordinates(y, at.T, order=order, mode="mirror").reshape(shape)

        def ours(settings, y, M=M, samples="points"):
            return ef.fit(y, settings, samples=samples).warp(M, outside="nearest")

        ways = {
            "linear": lambda y: spline(1, y),
            "cubic spline": lambda y: spline(3, y),
            "quintic spline": lambda y: spline(5, y),
            "the default": lambda y: ours(None, y),
            "the default, means": lambda y: ours(None, y, samples="means"),
            "smooth(order=8)": lambda y: ours(ef.smooth(order=8), y),
            "smooth(order=8), means": lambda y: ours(ef.smooth(order=8), y, samples="means"),
        }
        row = {"data": name}
        for way, turn in ways.items():
            y = picture
            for _ in range(12):
                y = turn(y)
            row[way] = ef.psnr(picture[inner], y[inner], data_range=255)
        rows.append(row)
        print(row, flush=True)
    common.record("images", "turns", rows)


def transparency():
    """A disc whose surroundings hide another colour, twice the size; means over its rim."""
    from PIL import Image

    n, colour = 48, (230, 120, 40)
    y, x = np.mgrid[0:n, 0:n] - (n - 1) / 2
    alpha = np.clip(n / 3 - np.hypot(y, x) + 0.5, 0, 1)
    picture = np.zeros((n, n, 4), np.uint8)
    picture[..., :3] = np.where(alpha[..., None] > 0, colour, (0, 255, 0))
    picture[..., 3] = np.round(255 * alpha)
    channels = ChannelLabels(name="colour", labels=["red", "green", "blue", "alpha"])
    labels = ef.Labels(align="areas", channels=channels)
    samples = Gridded(values=picture, dims=("row", "column"), channel_axis=2, labels=labels)
    found = {
        "Pillow, bicubic": np.asarray(Image.fromarray(picture).resize((96, 96), 3)),
        "ours": ef.fit(samples).resize((96, 96), dtype="uint8"),
        "ours, channel by channel": ef.fit(picture, channel_axis=-1).resize(
            (96, 96), dtype="uint8"
        ),
    }
    rows = []
    for name, out in found.items():
        rim = (out[..., 3] > 32) & (out[..., 3] < 224)
        mean = out[rim][:, :3].astype(float).mean(axis=0)
        rows.append({"way": name, "red": mean[0], "green": mean[1], "blue": mean[2]})
    print(rows)
    common.record("images", "transparency", rows)


def reslice():
    """A known function on one oblique grid, resliced to another; largest errors."""
    from scans import places, truth, turned

    rows = []
    shape, small = (40, 36, 32), (16, 15, 14)
    source = turned((20, -15, 35), (1.8, 2.2, 2.4), (-12, 30, 4))
    target = turned((-10, 25, 5), (1.7, 1.6, 1.8), (0, 0, 0))
    middle = source[:3, :3] @ (np.asarray(shape) - 1) / 2 + source[:3, 3]
    target[:3, 3] = middle - target[:3, :3] @ (np.asarray(small) - 1) / 2
    values, wanted = truth(places(source, shape)), truth(places(target, small))
    at = {n: np.arange(k) for n, k in zip("ijk", shape)}
    about = ef.Labels(affine=source.tolist(), space="RAS")
    samples = Gridded(values=values, dims=("i", "j", "k"), coords=at, labels=about)
    for name, settings in (("the default", None), ("smooth(order=6)", ef.smooth(order=6))):
        found = ef.fit(samples, settings).world.reslice(target, small)
        rows.append({"way": name, "largest": float(np.abs(found - wanted).max())})
    try:
        sitk = importlib.import_module("SimpleITK")
    except ImportError:
        sitk = None
    if sitk is not None:
        flip = np.diag([-1.0, -1.0, 1.0])

        def image(A, v):
            out = sitk.GetImageFromArray(np.ascontiguousarray(v.transpose(2, 1, 0)))
            zooms = np.linalg.norm(A[:3, :3], axis=0)
            out.SetSpacing(zooms.tolist())
            out.SetDirection((flip @ A[:3, :3] / zooms).ravel().tolist())
            out.SetOrigin((flip @ A[:3, 3]).tolist())
            return out

        for name, kind in (("linear", sitk.sitkLinear), ("B-spline", sitk.sitkBSpline)):
            moved = sitk.Resample(
                image(source, values), image(target, np.zeros(small)), sitk.Transform(), kind,
                np.nan, sitk.sitkFloat64,
            )  # fmt: skip
            gap = np.abs(sitk.GetArrayFromImage(moved).transpose(2, 1, 0) - wanted).max()
            rows.append({"way": f"SimpleITK, {name}", "largest": float(gap)})
    print(rows)
    common.record("images", "reslice", rows)


def speech():
    """Speech of 16 kHz, nothing above 7.2 kHz, at other rates; dB of the range, and times."""
    import soundfile

    x, own = soundfile.read(datasets.path("speech")[0])
    spectrum = np.fft.rfft(x * signal.windows.tukey(len(x), 0.05))
    spectrum[int(0.9 * len(spectrum)) :] = 0
    x = np.fft.irfft(spectrum, len(x))
    ways = {
        "scipy's resample_poly": lambda r: signal.resample_poly(x, r // 100, own // 100),
        "the default of sound files": lambda r: _by(x, own, r, ef.smooth(**SUITS)),
        "the default of arrays": lambda r: _by(x, own, r, None),
        "smooth(order=16, context=64, mirrored=True)": lambda r: _by(
            x, own, r, ef.smooth(order=16, context=64, mirrored=True)
        ),
    }
    try:
        soxr = importlib.import_module("soxr")
        ways["soxr, HQ"] = lambda r: soxr.resample(x, own, r, "HQ")
        ways["soxr, VHQ"] = lambda r: soxr.resample(x, own, r, "VHQ")
    except ImportError:
        pass
    rows = []
    for way, resample in ways.items():
        row = {"way": way}
        for rate in (48000, 44100):
            truth = signal.resample(x, len(x) * rate // own)
            resample(rate)  # warm
            began = time.perf_counter()
            found = resample(rate)
            row[f"seconds_{rate}"] = time.perf_counter() - began
            inner = slice(4000, -4000)
            row[f"psnr_{rate}"] = ef.psnr(truth[inner], found[inner])
        rows.append(row)
        print(row, flush=True)
    common.record("images", "speech", rows)


def _by(x, own, rate, settings):
    samples = Gridded(
        values=x,
        dims=("time",),
        coords={"time": np.arange(len(x)) / own},
        labels=ef.Labels(rate=own),
    )
    return Rendering(field=ef.fit(samples, settings)).on(ef.OutputGrid(rate=rate)).values


def regions():
    """Every second pixel on BEAM's regions: dB at the pixels fitted, and at the others."""
    rows = []
    for name in ("kodim20", "kodim23"):
        whole = _grey(name)[:256, :256]
        half = whole[::2, ::2]
        beam = ef.beam(half, cell=16, regions=24)
        mesh = ef.Partition.regular(half.shape, 16)
        grid = [np.arange(255) / 2] * 2
        held = np.ones((255, 255), bool)
        held[::2, ::2] = False
        row = {"data": name}
        for way, settings, part in (
            ("paper, mesh", ef.paper(width=256), mesh),
            ("paper, BEAM", ef.paper(width=256), beam),
            ("smooth, mesh", ef.smooth(), mesh),
            ("smooth, BEAM", ef.smooth(), beam),
        ):
            field = ef.fit(half, settings, partition=part)
            found = field.grid(*grid)
            truth = whole[:255, :255]
            row[way] = {
                "fitted": ef.psnr(half, field.resize(field.shape), data_range=255),
                "between": ef.psnr(truth[held], found[held], data_range=255),
            }
        rows.append(row)
        print(row, flush=True)
    common.record("images", "regions", rows)


if __name__ == "__main__":
    sys.path.insert(0, str(common.ROOT / "tests"))  # for scans.py, a known function of the room
    sections = (turns, transparency, reslice, speech, regions)
    common.main(__doc__, {f.__name__: f for f in sections})
