"""Fields on grids, each from a seed: through maps, and their derivatives, as at points."""

import numpy as np

import elmfield as ef

SIZES = {1: 40, 2: 18, 3: 11, 4: 6}
"""Samples on an axis at most, by the number of axes."""

FULL = ("value", "gradient", "gradient_magnitude", "hessian", "laplacian")


def library(name):
    """A way from NumPy to a library."""
    if name == "torch":
        import torch

        return torch.as_tensor
    return np.asarray


def field_of(rng, d, presets):
    """A field of noise with `d` axes: any preset, masks, channels, periods, uneven axes, dtypes."""
    shape = tuple(int(n) for n in rng.integers(3, SIZES[d] + 1, d))
    values = rng.standard_normal(shape)
    channels = int(rng.choice([0, 0, 1, 3]))
    options = {}
    if channels:
        options["channel_axis"] = int(rng.integers(0, d + 1))
        values = np.stack([values + k for k in range(channels)], axis=options["channel_axis"])
    kind = str(rng.choice(["float64", "float64", "float32", "complex128"]))
    values = (values + 1j * values[::-1]) if kind == "complex128" else values.astype(kind)
    if rng.integers(3):
        gone = rng.random(shape) < rng.choice([0.05, 0.4])
        gone.flat[0] = False
        options |= {"mask": gone, "missing": "nan"}
    if rng.integers(3) == 0:
        options["periodic"] = int(rng.integers(0, d))
    elif rng.integers(3) == 0:
        edges = [np.cumsum(0.3 + rng.random(n + 1)) for n in shape]
        options["coords"] = [e[:-1] + rng.uniform(0.2, 0.8, len(e) - 1) * np.diff(e) for e in edges]
        if "mask" not in options and rng.integers(2) and "paper" not in presets:
            bounds = {f"axis{k}": e for k, e in enumerate(edges)}
            options |= {"samples": "means", "bounds": bounds}
    preset = str(rng.choice(presets))
    order = float(rng.choice([1.5, 2.0, 3.0]))
    settings = {
        "smooth": lambda: ef.smooth(order=order),
        "small cells": lambda: ef.smooth(order=order, cell=4, overlap=1),
        "no overlap": lambda: ef.smooth(order=order, cell=5, overlap=0),
        "paper": lambda: ef.paper(width=20, activation="sin"),
        "oriented": lambda: ef.oriented() if d == 2 else ef.smooth(),
        "coded": lambda: ef.smooth(psnr=40) if kind != "complex128" else ef.smooth(),
    }[preset]()
    brought = library(rng.choice(["numpy", "torch"]))
    if "mask" in options:
        options["mask"] = brought(options["mask"])
    return ef.fit(brought(values), settings, **options)


def map_of(rng, field, kind):
    """A transform and its result's shape; the same places by NumPy, from sample numbers (n, d)."""
    d, shape = len(field.shape), field.shape
    new = tuple(int(n) for n in rng.integers(1, max(shape) + 4, d))
    linear = np.diag(rng.uniform(0.3, 0.95, d) * rng.choice([-1, 1], d))
    shift = np.where(np.diag(linear) < 0, shape, 0) + rng.uniform(-2, 2, d)
    if kind == "swapped":
        linear = linear[rng.permutation(d)]
    if kind in ("oblique", "function", "projective"):
        turn, _ = np.linalg.qr(rng.standard_normal((d, d)))
        linear = turn @ np.abs(linear)
        shift = np.asarray(shape) / 2 - linear @ (np.asarray(new) / 2) + rng.uniform(-1, 1, d)
    bend = rng.uniform(0, 0.2, d) / max(new) if kind == "projective" else np.zeros(d)
    by = rng.uniform(-3, 3, (*new, d))

    def places(x):
        if kind == "displacements":
            return x + by[tuple(x.astype(int).T)]
        return (x @ linear.T + shift) / (x @ bend + 1)[:, None]

    if kind == "function":
        brought = library("numpy" if isinstance(field.model.offset, np.ndarray) else "torch")
        A, b = brought(linear), brought(shift)
        return (lambda x: x @ A.T + b), new, places
    if kind == "displacements":
        return by, None, places
    matrix = np.column_stack([linear, shift])
    if kind == "projective" or rng.integers(2):
        matrix = np.vstack([matrix, [*bend, 1.0]])
    return matrix, new, places


def one_map(seed):
    """ "done", or what is wrong: values through a map are those at its places, gaps too."""
    rng = np.random.default_rng(seed)
    d = int(rng.choice([1, 2, 2, 3, 4]))
    field = field_of(rng, d, ["smooth", "small cells", "oriented", "paper"])
    kinds = ["along the axes", "swapped", "oblique", "projective", "function", "displacements"]
    kind = str(rng.choice(kinds))
    transform, new, places = map_of(rng, field, kind)
    outside = str(rng.choice(["nan", "nearest"]))
    missing = str(rng.choice(["nan", "fill"]))
    found = field.warp(transform, new, antialias=False, outside=outside, missing=missing)
    found = np.asarray(found)
    sizes = transform.shape[:-1] if new is None else new
    x = np.stack(np.unravel_index(np.arange(int(np.prod(sizes))), sizes), axis=-1).astype(float)
    at, inside = places(x), np.ones(len(x), bool)
    for k, axis in enumerate(field.domain.axes):
        if axis.period is None:
            moved = np.clip(at[:, k], field.domain.low[k], field.domain.high[k])
            inside &= np.abs(moved - at[:, k]) < 1e-9
            at[:, k] = moved
    own = np.stack([a.from_index(at[:, k]) for k, a in enumerate(field.domain.axes)], axis=-1)
    wanted = np.asarray(field(own, outside="nearest", missing=missing)).copy()
    if outside == "nan":
        wanted[~inside] = np.nan
    wanted = wanted.reshape(*sizes, *wanted.shape[1:])
    if field.model.channel_axis is not None:
        wanted = np.moveaxis(wanted, -1, field.model.channel_axis)
    if found.shape != wanted.shape:
        return f"wrong: {kind} gives shape {found.shape}"
    if not np.array_equal(np.isnan(found), np.isnan(wanted)):
        return f"wrong: {kind} has {np.isnan(found).sum()} NaN, not {np.isnan(wanted).sum()}"
    close = 1e-3 if "32" in str(field.dtype) else 1e-7
    off = np.abs(np.nan_to_num(found) - np.nan_to_num(wanted)).max(initial=0)
    span = np.abs(np.nan_to_num(wanted)).max(initial=1)
    return "done" if off <= close * span else f"wrong: {kind} is off by {off:g} of {span:g}"


def one_derivative(seed):
    """ "done", or what is wrong: on a grid every quantity is what it is at points."""
    rng = np.random.default_rng(seed)
    d = int(rng.choice([1, 2, 2, 3, 4]))
    presets = ["smooth", "small cells", "no overlap", "paper", "oriented", "coded"]
    field = field_of(rng, d, presets)
    quantity = str(rng.choice(FULL))
    ends = zip(field.domain.axes, field.domain.low, field.domain.high)
    at = []
    for axis, low, high in ends:
        own = rng.uniform(low + 1e-3, high - 1e-3, int(rng.integers(1, 7)))
        at.append(axis.from_index(np.sort(own) if rng.integers(2) else own))
    points = np.stack(np.meshgrid(*at, indexing="ij"), axis=-1)
    name = {"value": "__call__", "gradient_magnitude": "gradient"}.get(quantity, quantity)
    wanted = np.asarray(getattr(field, name)(points))
    if quantity == "gradient_magnitude":
        wanted = np.linalg.norm(wanted, axis=-1)
    if field.model.channel_axis is not None:
        wanted = np.moveaxis(wanted, d, field.model.channel_axis)
    found = np.asarray(field.grid(*at, quantity=quantity))
    if found.shape != wanted.shape:
        return f"wrong: {quantity} has shape {found.shape}, not {wanted.shape}"
    if not np.array_equal(np.isnan(found), np.isnan(wanted)):
        return f"wrong: {quantity} has {np.isnan(found).sum()} NaN, not {np.isnan(wanted).sum()}"
    # Sums of the same terms in another order: rounding, and twice a wave number of up to 2π a step.
    close = 1e-3 if "32" in str(field.dtype) else 1e-8
    off = np.abs(np.nan_to_num(found) - np.nan_to_num(wanted)).max(initial=0)
    span = max(np.abs(np.nan_to_num(wanted)).max(initial=0), field.model.data_range)
    return "done" if off <= close * span else f"wrong: {quantity} is off by {off:g} of {span:g}"
