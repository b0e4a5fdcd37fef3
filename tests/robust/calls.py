"""Calls that nobody would write, each from a seed: arrays, settings, options, and what follows.

A call may be refused with a sentence (ValueError, TypeError, StoreError). What it gives must be
finite, must keep what was promised, and must come back from a file as it went in.
"""

import math
import re
import traceback
import warnings
from datetime import date
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from pathlib import Path

import numpy as np

import elmfield as ef
from elmfield.field.uncertainty.posterior import why_none
from elmfield.io.napari import get_reader, layer_of, read_layers
from elmfield.io.zarr import Codec
from robust.damage import Hung, limited
from support import on_samples

DTYPES = (
    "bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64",
    "float16", "float32", "float64", "complex64", "complex128",
)  # fmt: skip
REFUSED = (ValueError, TypeError, ef.StoreError, ef.OutsideDomainError)
OURS = (ef.RankWarning, ef.ChannelWarning, UserWarning)


def array(rng):
    """Samples of one to four axes in any dtype and of any size."""
    d = int(rng.choice([1, 2, 2, 2, 3, 4]))
    most = {1: 300, 2: 30, 3: 10, 4: 6}[d]
    shape = tuple(int(n) for n in rng.integers(1, most, d))
    dtype = np.dtype(str(rng.choice(DTYPES)))
    kind = str(rng.choice(["noise", "smooth", "constant", "spike", "steps"]))
    values = {
        "noise": lambda: rng.standard_normal(shape),
        "smooth": lambda: np.sin(np.indices(shape).sum(0) / 3),
        "constant": lambda: np.full(shape, rng.standard_normal()),
        "spike": lambda: (np.arange(math.prod(shape)).reshape(shape) == 3) * 1.0,
        "steps": lambda: np.round(rng.standard_normal(shape)),
    }[kind]()
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        scale = float(info.max) * float(rng.choice([1e-9, 1e-3, 1]))
        return np.clip(values * scale, float(info.min), float(info.max) * 0.99).astype(dtype)
    if dtype.kind == "b":
        return values > 0
    most = math.log10(float(np.finfo(dtype).max)) - 1
    if rng.integers(3) == 0:
        values = values * 10.0 ** rng.uniform(-most, most)
    if rng.integers(4) == 0:
        values = values + 10.0 ** rng.uniform(0, min(15, most))
    if dtype.kind == "c":
        values = values + 1j * values[::-1]
    with np.errstate(all="ignore"):
        values = values.astype(dtype)
    if rng.integers(4) == 0:
        values[rng.random(shape) < rng.choice([0.02, 0.5, 1])] = np.nan
    if rng.integers(12) == 0:
        values.flat[0] = rng.choice([np.inf, np.finfo(dtype).max, np.finfo(dtype).tiny])
    return values


def settings(rng, values):
    """Settings, sensible or not."""
    with np.errstate(all="ignore"):
        have = values[np.isfinite(values)].astype(complex)
        span = float(np.ptp(have.real)) if have.size else 1.0
    target = {
        "none": {},
        "psnr": {"psnr": float(rng.choice([0.1, 20, 45, 90, 160, 400]))},
        "max_error": {"max_error": abs(span) * float(rng.choice([1e-9, 1e-2, 3])) or 0.1},
        "bits": {"bits": float(rng.choice([0.01, 1, 4, 80]))},
        "bytes": {"bytes": int(rng.choice([1, 100, 10**6]))},
        "coefficients": {"coefficients": int(rng.choice([1, 100, 10**5]))},
        "per_region": {"per_region": int(rng.choice([1, 9, 10**4]))},
    }
    kind = str(rng.choice(["smooth"] * 4 + ["paper", "oriented", "none"]))
    if kind == "none":
        return None, {}
    if kind == "paper":
        activation = str(rng.choice(["relu", "sin", "tanh", "gaussian"]))
        layers, solver = str(rng.choice(["shared", "own"])), str(rng.choice(["qr", "lstsq"]))
        width = int(rng.integers(1, 80))
        return ef.paper(width=width, activation=activation, layers=layers, solver=solver), {}
    order = float(rng.choice([0.5, 1, 1.7, 2, 3, 6])) if rng.integers(2) else "auto"
    if kind == "oriented":
        return ef.oriented(order=order, denoise=bool(rng.integers(8) == 0)), {}
    asked = target[str(rng.choice(list(target)))]
    more = {"denoise": True} if rng.integers(10) == 0 else {}
    if rng.integers(3) == 0:
        more["cell"] = int(rng.integers(1, 20))
    if rng.integers(4) == 0:
        more["overlap"] = float(rng.integers(0, 6))
    return ef.smooth(order=order, **asked, **more), asked


def one_call(seed, path):
    """ "done", "refused: ...", or what is wrong."""
    rng = np.random.default_rng(seed)
    try:
        with limited(60), warnings.catch_warnings():
            warnings.simplefilter("error", RuntimeWarning)
            for ours in OURS:
                warnings.simplefilter("ignore", ours)
            warnings.simplefilter("error", RuntimeWarning)
            return _one(rng, path)
    except REFUSED as error:
        text = str(error)
        return "refused" if text and "\n" not in text.strip() else f"wrong: no sentence: {text!r}"
    except Hung:
        return "hung"
    except Exception as error:
        return f"foreign: {type(error).__name__}: {error}"


def _one(rng, path):
    values = array(rng)
    made, asked = settings(rng, values)
    options = {}
    if values.ndim > 1 and rng.integers(3) == 0:
        options["channel_axis"] = int(rng.integers(-values.ndim, values.ndim))
    if rng.integers(5) == 0:
        options["periodic"] = int(rng.integers(0, values.ndim))
    if rng.integers(6) == 0:
        options["mask"] = rng.random(values.shape) < 0.1
    if rng.integers(5) == 0:
        options["missing"] = str(rng.choice(["nan", "fill"]))
    if rng.integers(12) == 0 and not asked:
        options["samples"] = "means"
    if rng.integers(8) == 0 and not asked:
        return _one_of_labels(rng, values, made, options)
    field = ef.fit(values, made, **options)
    wide = np.complex128 if np.iscomplexobj(values) else np.float64
    kept, got = (np.asarray(v) for v in (field.samples(missing="fill"), on_samples(field, "fill")))
    if not (np.isfinite(kept).all() and np.isfinite(got).all()):
        return "wrong: values are not finite"
    if "max_error" in asked:
        gone = np.isnan(values) | options.get("mask", False)
        gap = np.abs(kept.astype(wide) - values.astype(wide))[~gone]
        if gap.max(initial=0) > asked["max_error"]:
            return f"wrong: an error of {gap.max():g} where {asked['max_error']:g} was promised"
    what = str(rng.choice(["save", "crop", "keep", "resize", "points", "slope", "shown"]))
    if what == "save":
        dtype = [None, "float64", "float32", "float16"][int(rng.integers(4))]
        ef.save(field, path, dtype=dtype)
        back = np.asarray(on_samples(ef.load(path), "fill"))
        close = 1e-12 if str(field.model.coefficient_dtype).endswith("64") else 1e-5
        close *= float(np.abs(got).max())  # modes are made again, elsewhere perhaps
        if dtype == "float64" and str(field.model.coefficient_dtype).endswith("32"):
            close += np.nanmax(np.abs(got - values), initial=0)  # read by more digits: nearer
        if dtype in (None, "float64") and not np.abs(back - got).max() <= close:
            return f"wrong: not what was saved by {np.abs(back - got).max():g}"
        got = back
    elif what == "crop":
        ends = np.sort([rng.uniform(-0.5, n - 0.5, 2) for n in field.shape], axis=1)
        got = field.crop(ends[:, 0], ends[:, 1]).samples(missing="fill")
    elif what == "shown":
        if "<table>" not in field._repr_html_():
            return "wrong: a notebook shows no table"
    elif what == "keep":
        got = field.keep(psnr=float(rng.choice([20, 60]))).samples(missing="fill")
    elif what == "resize":
        size = [int(n) for n in rng.integers(1, 25, len(field.shape))]
        got = field.resize(size, missing="fill")
    else:
        at = np.stack([rng.uniform(-0.5, n - 0.5, 5) for n in field.shape], axis=-1)
        got = field(at, missing="fill") if what == "points" else field.gradient(at, missing="fill")
        sure, some = np.zeros(1), rng.uniform(size=field.shape) < 0.5
        if why_none(field.model) is None:
            sure = np.asarray(field.std(at, missing="fill"))
        if why_none(field.model) is None and some.any():
            own = field.means(mask=some, quantity="std", missing="fill")
            sure = np.append(sure, own)
        if not np.all(sure >= 0):
            return "wrong: a standard deviation is no number, or negative"
    return "done" if np.isfinite(np.asarray(got)).all() else f"wrong: {what} is not finite"


def _one_of_labels(rng, values, made, options):
    """Classes: none but those that were given, wherever a field is asked."""
    options.pop("channel_axis", None)
    if values.dtype.kind == "f":
        values = np.where(np.isfinite(values), np.round(np.clip(values, -3, 3)), values)
    field = ef.fit(values, made, labels=True, **options)
    size = [int(n) for n in rng.integers(1, 25, len(field.shape))]
    at = np.stack([rng.uniform(-0.5, n - 0.5, 5) for n in field.shape], axis=-1)
    turn = np.eye(len(size) + 1) + 0.1 * rng.standard_normal((len(size) + 1,) * 2)
    for got in (
        field.samples(missing="fill"), field.resize(size, missing="fill"),
        field(at, missing="fill"), field.warp(turn[:-1], size, outside="nearest", missing="fill"),
    ):  # fmt: skip
        if not np.isin(got, values).all():
            return f"wrong: classes {np.setdiff1d(got, values)} were made up"
    return "done"


# --- one argument that nobody would give ----------------------------------------------------------


def odd_values():
    """Values that few arguments take."""
    return [
        None, True, math.nan, math.inf, -math.inf, -1, 0, 0.5, 3.0, 1e308, 5e-324, 1 << 62,
        -(1 << 70), 10**400, -(10**400), Fraction(10**400, 3), Decimal("1.5"), 1j, "", "x", "日本",
        "auto", b"x", [], (), {}, set(), [None], [[]], [""], {"x": 1}, {"y": []}, {"y": (1, 2, 3)},
        {"y": ("a", 3)}, {0: (1, 2)}, [1e308, 1e308], [math.nan, 1], [10**400, 1], [1, "x"],
        [[1, 2], [3]], range(2), slice(2), ..., np.float32(np.inf), np.int8(-3), np.array([]),
        np.array(3.0), np.array([np.nan, np.inf]), np.zeros((2, 0)), np.array(["a", "b"]),
        np.array([None, 1], object), np.array([1j, 2]), np.ma.masked,
        np.ma.masked_array([1.0, 2.0], [True, False]), np.datetime64("NaT"),
        np.datetime64("2020-01-01"), np.timedelta64(3, "s"), np.array(["2020"], "M8[D]"),
        date(2020, 1, 1), object(),
    ]  # fmt: skip


@lru_cache(maxsize=1)
def entry_points(folder):
    """Public functions and methods: name, function, and arguments that it takes."""
    folder = Path(folder)
    y, x = np.mgrid[0:12, 0:14]
    values = np.sin(0.4 * y) * np.cos(0.3 * x)
    coords = {"y": 10 + 2.0 * np.arange(12), "x": np.arange(14.0)}
    field = ef.fit(values, dims=("y", "x"), coords=coords)
    colours = ef.fit(np.stack([values, -values], -1), channel_axis=-1)
    paper = ef.fit(values, ef.paper(width=20))
    table = field.tabulate(1e-2)
    world = ef.fit(ef.Gridded(values=np.stack([values] * 4), dims=("z", "y", "x"),
                              labels=ef.Labels(affine=np.eye(4))))  # fmt: skip
    degrees = {"latitude": 5.0 * np.arange(12), "longitude": 25.0 * np.arange(14)}
    round_ = ef.fit(values, dims=tuple(degrees), coords=degrees)
    np.save(folder / "b.npy", values)
    ef.save(ef.fit(values), folder / "b.elm")
    points = np.random.default_rng(0).random((30, 2))
    at = {"points": [[14.0, 3.0], [15, 4]], "outside": "raise", "missing": None}
    grid = {"shape": (5, 6), "window": None, "align": "areas", "missing": None}
    scaled = {"scale": 2, "window": {"y": (12, 20)}}
    targets = [{"psnr": 30}, {"max_error": 0.1}, {"bits": 5}, {"bytes": 500}, {"coefficients": 30}]
    fitted = {"channel_axis": None, "mask": None, "dims": None, "coords": None, "periodic": None}
    found = [
        ("fit", ef.fit, {"values": values, "settings": None, **fitted, "partition": None,
                         "samples": "points", "labels": False, "missing": None, "device": None,
                         "memory_limit": None, "progress": False, "variable": None}),
        ("smooth", lambda **o: ef.fit(values, ef.smooth(**o)),
         {"order": 2, "cell": 6, "overlap": 1, "denoise": False, "context": None, "network": None,
          "layer": None, "mirrored": False}),
        ("paper", lambda **o: ef.fit(values, ef.paper(**o)),
         {"cell": 6, "width": 20, "frequencies": 4, "scale": 1.0, "activation": "sin", "overlap": 1,
          "draw": "normal", "seed": 0, "layers": "own", "solver": "lstsq", "ridge": 0.0,
          "dtype": "float64"}),
        ("oriented", lambda **o: ef.fit(values, ef.oriented(**o)),
         {"order": 2, "denoise": False, "clip": False}),
        ("beam", ef.beam, {"values": values, "cell": 4, "regions": 4, "channel_axis": None,
                           "periodic": (), "overlap": 0, "mask": None, "shapes": "any",
                           "normalisation": "forward", "outside": "zero", "energy": None,
                           "window": None}),
        ("beam by energy", ef.beam, {"values": values, "cell": 4, "threshold": 1.0}),
        ("barron_norm", ef.barron_norm, {"values": values, "mask": None, "partition": None,
                                         "channel_axis": None, "normalisation": "forward"}),
        ("encoder", lambda **o: ef.encoder(**o)(values),
         {"shape": (12, 14), "settings": None, "channel_axis": None, "dims": None, "coords": None,
          "periodic": (), "partition": None}),
        ("batch", ef.encoder((12, 14)).batch, {"frames": [values], "mask": None}),
        ("fit_points", ef.fit_points,
         {"points": points, "values": points[:, 0], "settings": None, "bounds": ([0, 0], [1, 1]),
          "dims": None, "periodic": (), "spacing": None, "denoise": False}),
        ("heldout_score", ef.heldout_score, {"values": values, "border": 0, "channel_axis": None,
                                             "data_range": None}),
        ("psnr", ef.psnr, {"truth": values, "estimate": values, "data_range": None}),
        ("paper_psnr", ef.paper_psnr, {"truth": values, "estimate": values, "channel_axis": None}),
        ("mae", ef.mae, {"truth": values, "estimate": values}),
        ("max_error", ef.max_error, {"truth": values, "estimate": values}),
        ("psnr_by_width", ef.psnr_by_width,
         {"values": values, "settings": ef.paper(width=20), "widths": [10], "partition": None}),
        ("over_seeds", ef.over_seeds,
         {"values": values, "settings": ef.paper(width=20), "seeds": 2, "partition": None}),
        ("regrid", ef.regrid, {"values": field, "step": (3, 2), "mean": False, "align": None,
                               "quantity": "value", "missing": None, "crs": None, "like": None}),
        ("Partition.regular", ef.Partition.regular,
         {"shape": (12, 14), "cell": 5, "overlap": 1, "periodic": (), "context": 0}),
        ("Partition.of", ef.Partition.of,
         {"shape": (4, 4), "edges": ([0, 2, 4], [0, 4]), "labels": [[0], [1]], "overlap": 0}),
        ("Axis.through", ef.Axis.through, {"name": "t", "coords": [1.0, 2, 4], "period": None}),
        ("Axis.even", ef.Axis.even, {"name": "t", "size": 4, "origin": 0.0, "step": 1.0}),
        ("memory_limit", ef.memory_limit, {"n_bytes": None}),
        ("Dense", ef.Dense, {"width": 8, "frequencies": 3, "scale": 1.0, "activation": "sin"}),
        ("weights", paper.weights, {"region": 0}),
        ("weights of all", field.weights, {"new": field.weights()}),
        ("labels", lambda **o: ef.fit(np.round(values), labels=True).warp(**o),
         {"transform": np.eye(3), "shape": (4, 5), "fill": 0, "outside": "nan", "dtype": None}),
        ("integral of a mask", field.integral, {"mask": values > 0}),
        ("means of a mask", field.means, {"mask": values > 0, "missing": None}),
        ("integral of outlines", ef.polygon_means(field).integral,
         {"polygons": [[12.0, 3], [12, 9], [20, 9]]}),
        ("means of outlines", ef.polygon_means(field),
         {"polygons": [[12.0, 3], [12, 9], [20, 9]], "min_coverage": 0.5}),
        ("resize by spacing", field.resize, {"spacing": 1.5, "window": None, "align": "areas"}),
        ("channels", colours, {"points": [[1.0, 2.0]], "outside": "raise"}),
        ("crop", field.crop, {"low": [12, 3], "high": [20, 9]}),
        ("integral", field.integral, {"low": [12, 3], "high": [20, 9]}),
        ("interp", field.interp,
         {"y": [12.0, 14], "x": 3.0, "quantity": "value", "outside": "nan"}),
        ("to_xarray", field.to_xarray, {"coords": {"y": [12.0], "x": [3.0]}, "quantity": "value"}),
        ("resize, lazy", field.resize, {"chunks": {}, "dtype": None, **grid}),
        ("resize", field.resize, {"quantity": "value", "dtype": None, "antialias": True, **grid}),
        ("resize by scale", field.resize, {"align": "areas", **scaled}),
        ("resize to nodes", field.resize, {"align": "nodes", **scaled}),
        ("samples", field.samples, {"dtype": None, "missing": None}),
        ("tabulate", field.tabulate, {"tolerance": 1e-2, "order": 1, "window": None}),
        ("warp", field.warp, {"transform": np.eye(3), "shape": (4, 5), "outside": "nan",
                              "fill": None, "antialias": True, "dtype": None}),
        ("report", field.report, {"samples": values, "heldout": None}),
        ("error_map", field.error_map, {"samples": values}),
        ("to", field.to, {"where": "cpu"}),
        ("means", lambda edges, **o: field.means(edges, **o),
         {"edges": {"y": [10, 20]}, "covered": False, "missing": None}),
        ("grid", lambda a, b, **o: field.grid(a, b, **o),
         {"a": [12.0, 14], "b": [3.0], "quantity": "value", "outside": "raise", "dtype": None}),
        ("world", world.world, {"points": [[1.0, 2, 3]], "outside": "raise"}),
        ("reslice", world.world.reslice, {"shape": (2, 3, 4), "affine": np.eye(4)}),
        ("save", lambda **o: ef.save(field, folder / "a.elm", **o),
         {"dtype": None, "compress": True, "progress": False}),
        ("load", ef.load, {"path": folder / "b.elm", "lazy": True, "device": None}),
        ("write", lambda **o: ef.write(field, folder / "a.npy", **o),
         {"channel_axis": None, "mean": False, "quantity": "value", "antialias": True,
          "align": None, "missing": None, "dtype": None, **grid}),
        ("write by step", lambda **o: ef.write(field, folder / "a.npy", **o),
         {"step": 2, "crs": None, "grid": None, "like": None, "rate": None, "affine": None}),
        ("read", ef.read, {"path": folder / "b.npy", "variable": None, "max_pixels": None}),
        ("append", lambda **o: ef.append(_copy(folder), **o),
         {"values": values[:2], "axis": 0, "coords": None, "memory_limit": None}),
        ("cache_modes", ef.cache_modes, {"max_bytes": 1 << 24}),
        ("Codec", Codec, {"max_error": None, "psnr": 30, "channel_axis": None}),
        ("napari", read_layers, {"path": folder / "b.elm"}),
        ("napari's reader", get_reader, {"path": folder / "b.elm"}),
        ("layer_of", layer_of, {"field": field, "name": "waves"}),
        ("Target", ef.Target, {"kind": "psnr", "value": 30}),
        ("sphere", ef.sphere, {"field": round_, "radius": 1.0, "components": None}),
    ]  # fmt: skip
    for name in ("__call__", "gradient", "hessian", "laplacian"):
        found += [
            (f"field.{name}", getattr(field, name), at),
            (f"table.{name}", getattr(table, name), at),
        ]
    for asked in targets:
        (kind,) = asked
        found += [
            (f"keep {kind}", paper.keep, asked),
            (f"smooth {kind}", lambda **o: ef.fit(values, ef.smooth(**o)), asked),
        ]
    return found


def _copy(folder):
    """A model that may be appended to."""
    path = folder / "c.elm.zarr"
    ef.fit(np.eye(9, 14), out=path)
    return path


def bad_call(seed, folder):
    """A call in which one argument or two are odd: "done", "refused", or what is wrong."""
    rng = np.random.default_rng(seed)
    name, function, good = entry_points(folder)[int(rng.integers(len(entry_points(folder))))]
    odd = odd_values()
    some = rng.choice(list(good), min(len(good), int(rng.choice([1, 1, 1, 2]))), replace=False)
    given = {str(k): odd[int(rng.integers(len(odd)))] for k in some}
    told = ", ".join(f"{k}={str(v)[:60]}" for k, v in given.items())
    try:
        with limited(60), warnings.catch_warnings():
            warnings.simplefilter("error", RuntimeWarning)
            for ours in OURS:
                warnings.simplefilter("ignore", ours)
            warnings.simplefilter("error", RuntimeWarning)
            function(**good | given)
        return "done"
    except (*REFUSED, OSError) as error:
        text, frame = str(error), traceback.extract_tb(error.__traceback__)[-1]
        is_ours = "elmfield" in frame.filename and frame.line.startswith("raise")
        if text and is_ours:
            return "refused"
        return f"wrong: {name}({told}): {type(error).__name__} of others: {text}"
    except Hung:
        return f"hung: {name}({told})"
    except Exception as error:
        return f"foreign: {name}({told}): {type(error).__name__}: {error}"


# --- scattered samples ----------------------------------------------------------------------------


def scattered(rng):
    """Positions (n, d) and values (n,): few, many, close, far, on a line, at one place."""
    d, n = int(rng.integers(1, 4)), int(rng.choice([1, 2, 3, 5, 20, 80]))
    x = rng.random((n, d))
    kind = str(rng.choice(["plain", "close", "far", "line", "one place", "grid", "offset"]))
    if kind == "close":
        x[: n // 2] = x[-1] + 10.0 ** rng.uniform(-14, -2) * x[: n // 2]
    elif kind == "far":
        x[0] *= 10.0 ** rng.uniform(1, 12)
    elif kind == "line":
        x[:, 1:] = x[:, :1] * 2 - 1
    elif kind == "one place":
        x[:] = x[0]
    elif kind == "grid":
        x = np.round(4 * x)
    elif kind == "offset":
        x += 10.0 ** rng.uniform(0, 15)
    y = rng.standard_normal(n) if rng.integers(2) else np.round(x[:, 0] - x[:, 0].min(), 3)
    x = x * 10.0 ** float(rng.choice([0, rng.uniform(-280, 280)]))
    return x, y * 10.0 ** float(rng.choice([0, rng.uniform(-300, 290)]))


def one_fit_of_points(seed):
    """ "done", "refused", or what is wrong: samples are met to within what was told."""
    rng = np.random.default_rng(seed)
    x, y = scattered(rng)
    options = {}
    if rng.integers(3) == 0:
        options["settings"] = ef.smooth(order=float(rng.choice([0.6, 1.1, 2, 3, 5])))
    if rng.integers(4) == 0:
        options["denoise"] = bool(rng.integers(2)) or float(np.ptp(y)) or 1.0
    if rng.integers(4) == 0:
        options["spacing"] = 10.0 ** float(rng.uniform(-12, 3))
    told = f"{x.shape}, {options}"
    try:
        with limited(60), warnings.catch_warnings(record=True) as heard:
            warnings.simplefilter("always")
            field = ef.fit_points(x, y, **options)
            got, sure = np.asarray(field(x)), np.asarray(field.std(x[:5]))
    except REFUSED as error:
        ours = traceback.extract_tb(error.__traceback__)[-1]
        is_ours = "elmfield" in ours.filename and ours.line.startswith("raise")
        return "refused" if is_ours else f"wrong: {told}: {type(error).__name__}: {error}"
    except Hung:
        return f"hung: {told}"
    except Exception as error:
        return f"foreign: {told}: {type(error).__name__}: {error}"
    if not np.isfinite(got).all() or not (np.isfinite(sure) & (sure >= 0)).all():
        return f"wrong: {told}: values or their deviations are not finite"
    if foreign := [w for w in heard if issubclass(w.category, RuntimeWarning)]:
        return f"wrong: {told}: {foreign[0].message} at {foreign[0].filename}:{foreign[0].lineno}"
    bounds = [re.search(r"off by up to (\S+) of", str(w.message)) for w in heard]
    bound = max([float(b[1]) for b in bounds if b], default=1e-6)
    unit = np.abs(y).max() or 1.0
    _, place, count = np.unique(x, axis=0, return_inverse=True, return_counts=True)
    means = np.bincount(place.ravel(), y / unit) / count
    off = np.abs(got / unit - means[place.ravel()]).max() / (np.ptp(means) or 1.0)
    if "denoise" not in options and off > bound + 1e-9:
        return f"wrong: {told}: samples are off by {off:g}, and {bound:g} was told"
    return "done"


def one_fit_of_observations(seed):
    """ "done", "refused", or what is wrong: a few rows of several kinds, values of any size."""
    from elmfield import observe as ob

    rng = np.random.default_rng(seed)
    d, n = int(rng.integers(1, 3)), int(rng.choice([1, 2, 5, 30]))
    size = 10.0 ** float(rng.choice([0, rng.uniform(-100, 100)]))
    noise = rng.choice([None, 0.0, 0.1 * size, 10 * size])
    x, y = rng.random((n, d)), size * rng.standard_normal(n)
    rows = [ob.values(x, y, noise=noise)]
    if rng.integers(2):
        rows.append(ob.means(0.5 * x, 0.5 * x + 0.3, y, noise=noise))
    if rng.integers(3) == 0:
        order = [int(k == 0) for k in range(d)]
        rows.append(ob.derivatives(x, y, order=order, noise=noise))
    if rng.integers(3) == 0:
        rows.append(ob.equation(x, {(2,) * d: 1.0, (0,) * d: 1.0}))
    options = {"bounds": ([0] * d, [1] * d), "shape": [int(rng.integers(1, 12))] * d}
    if rng.integers(3) == 0:
        coords = [(np.arange(9) + 0.5) / 9] * d
        options["background"] = ef.fit(size * rng.standard_normal((9,) * d), coords=coords)
    told = f"{d} axes, {n} rows, size {size:g}, noise {noise}, {options}"
    try:
        with limited(60), warnings.catch_warnings(record=True) as heard:
            warnings.simplefilter("always")
            field = ef.fit_observations(rows, **options)
            got, spread = np.asarray(field(x)), np.asarray(field.std(x))
    except REFUSED as error:
        ours = traceback.extract_tb(error.__traceback__)[-1]
        is_ours = "elmfield" in ours.filename and ours.line.startswith("raise")
        return "refused" if is_ours else f"wrong: {told}: {type(error).__name__}: {error}"
    except Hung:
        return f"hung: {told}"
    except Exception as error:
        return f"foreign: {told}: {type(error).__name__}: {error}"
    if foreign := [w for w in heard if issubclass(w.category, RuntimeWarning)]:
        return f"wrong: {told}: {foreign[0].message} at {foreign[0].filename}:{foreign[0].lineno}"
    if not np.isfinite(got).all() or not (spread >= 0).all():
        return f"wrong: {told}: values or deviations are not finite"
    # A field with a background goes through the samples of its grid, not through rows between.
    if noise == 0.0 and not heard and "background" not in options:
        off = np.abs(got - y).max() / np.abs(y).max()
        return "done" if off < 1e-8 else f"wrong: {told}: rows are missed by {off:g}, and not told"
    return "done"
