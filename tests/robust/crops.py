"""Crops and windows from seeds, against the field that they are part of; tables against `errors`.

A crop is the same function: values, derivatives and grids agree to rounding, wherever it ends.
What a table leaves out is at most what it says.
"""

import warnings

import numpy as np

import elmfield as ef

EACH = 10
"""Crops of one field in a long run."""

STEEP = 400
"""How much more derivatives are rounded, by order: a polynomial of 20 terms that is off by 1 on an
interval is off by at most 20² in its slope there (Markov)."""

OVERLAPS = (0.25, 0.3, 1 / 3, 0.5, 0.5, 0.75, 1.0, 1.5, 2.0)
SIZES = {1: (20, 120), 2: (8, 33), 3: (5, 10), 4: (4, 6)}


def walk(rng, shape):
    """Noise, summed up along some axes."""
    y = rng.standard_normal(shape)
    for k in np.flatnonzero(rng.random(len(shape)) < 0.6):
        y = np.cumsum(y, axis=k)
    return y


def fitted(rng):
    """A field of any preset, of one to four axes, and how it was made."""
    d = int(rng.choice([1, 2, 2, 2, 3, 3, 4]))
    shape = tuple(int(n) for n in rng.integers(*SIZES[d], d))
    values = walk(rng, shape)
    kind = str(rng.choice(["smooth"] * 6 + ["plain", "few", "coded", "paper", "beam", "oriented"]))
    if kind == "oriented" and d > 2:
        kind = "plain"
    cell = int(rng.integers(3, 10))
    overlap = min(float(rng.choice(OVERLAPS)), cell / 2 - 0.5)
    settings = {
        "smooth": ef.smooth(cell=cell, overlap=overlap, order=float(rng.choice([1.1, 1.5, 2]))),
        "plain": None,
        "few": ef.smooth(cell=cell, overlap=overlap, per_region=int(rng.integers(2, 9))),
        "coded": ef.smooth(psnr=30),
        "paper": ef.paper(
            cell=cell,
            overlap=overlap,
            width=int(rng.integers(5, 40)),
            layers=str(rng.choice(["shared", "own"])),
        ),
        "beam": ef.smooth(order=1.5),
        "oriented": ef.oriented(),
    }[kind]
    options = {"periodic": tuple(map(int, np.flatnonzero(rng.random(d) < 0.3)))}
    if rng.random() < 0.3:
        options["coords"] = [
            None if k in options["periodic"] else places(rng, n) for k, n in enumerate(shape)
        ]
    if kind == "beam":
        options["partition"] = ef.beam(
            values, cell=2, overlap=min(overlap, 1.0), periodic=options["periodic"],
            regions=max(1, values.size // 2 ** (d + 2)),
        )  # fmt: skip
    if rng.random() < 0.25:
        values = np.stack([values, values[::-1]], axis=-1)
        options["channel_axis"] = -1
    elif rng.random() < 0.2:
        values = values + 1j * values[::-1]
    if rng.random() < 0.2:
        values = values.astype(np.complex64 if values.dtype.kind == "c" else np.float32)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # ranks, short axes
        field = ef.fit(values, settings, **options)
    return field, f"{kind} {shape} {overlap:g} {cell} {options.get('periodic')} {field.dtype}"


def places(rng, n):
    """Coordinates of n samples: their numbers, even, falling, or uneven."""
    kind = int(rng.integers(4))
    even = 3.7 + np.arange(n) * 0.3
    return (None, even, -even, np.cumsum(rng.uniform(0.5, 1.5, n)))[kind]


def ends(rng, field):
    """Corners of a box; many lie just inside or beyond the end of a blend, or at a border.

    In index coordinates, as `inside`.
    """
    low, high = (list(c) for c in (field.domain.low, field.domain.high))
    part = field.model.blended.partition
    for k in range(len(low)):
        if rng.random() < 0.2:
            continue
        borders, delta = part.borders(k), part.overlap[k]
        found = []
        for _ in range(2):
            near = rng.choice(borders) + rng.choice([-delta, 0, delta])
            off = rng.choice([0, 1e-12, 1e-9, 1e-6, 0.01, 0.03, 0.1, 0.24, 0.26, 0.5])
            close = near + rng.choice([-1, 1]) * off
            found.append(close if rng.random() < 0.7 else rng.uniform(low[k], high[k]))
        a, b = np.clip(np.sort(found), low[k], high[k])
        if b - a > 1e-3:
            low[k], high[k] = float(a), float(b)
    return low, high


def inside(rng, low, high, n):
    """Points in a box: corners, points near its ends, and any."""
    low, high = np.asarray(low), np.asarray(high)
    u = rng.random((n, len(low)))
    u[: n // 3] = np.round(u[: n // 3])
    near = u[n // 3 : 2 * n // 3]
    near[...] = np.where(near < 0.5, 0.02 * near, 1 - 0.02 * near)
    return np.clip(low + u * (high - low), low, high)


def own_units(field, x):
    """Index coordinates (..., d) in the axes' own units."""
    axes = field.domain.axes
    return np.stack([a.from_index(np.asarray(x)[..., k]) for k, a in enumerate(axes)], axis=-1)


def corners(field, low, high):
    """Corners of a box in the axes' own units."""
    both = own_units(field, [low, high])
    return both.min(axis=0), both.max(axis=0)


def outcomes(seed, n=EACH):
    """What became of n crops of one field."""
    rng = np.random.default_rng(seed)
    field, made = fitted(rng)
    size = float(field.model.data_range + np.abs(field.model.offset).max())
    eps = float(np.finfo(field.model.coefficient_dtype).eps)
    if made.startswith("paper"):  # least squares: weights are large, and cancel
        eps *= 1e4
    for _ in range(n):
        low, high = ends(rng, field)
        wrong = looked_at(rng, field, low, high, 200 * eps * size)
        yield f"{made}, {low} to {high}", "the same" if not wrong else f"wrong: {wrong}"


def looked_at(rng, field, low, high, close):
    """What differs between a field and its part by more than rounding, `close`; or nothing."""
    outer_low, outer_high = ends(rng, field)
    index, outer = inside(rng, low, high, 12), field
    if rng.random() < 0.3:
        outer_low, outer_high = np.minimum(low, outer_low), np.maximum(high, outer_high)
        outer = field.crop(*corners(field, outer_low, outer_high))
    x, (low, high) = own_units(field, index), corners(field, low, high)
    x = np.clip(x, low, high)
    crop = outer.crop(low, high)
    d, truth = x.shape[1], {}
    for o, ask in enumerate(("__call__", "gradient", "hessian")):
        truth[o] = getattr(field, ask)(x)
        off = np.abs(getattr(crop, ask)(x) - truth[o]).max()
        if not off <= close * STEEP**o:
            return f"{ask} {off / close:.1f}"
    one_by_one = field.model.finish(field.model.blended.partials(index, [(0,) * d])[0], True)
    one_by_one = one_by_one if field.model.channel_axis is not None else one_by_one[:, 0]
    off = np.abs(one_by_one - truth[0]).max()
    if not off <= (1 if is_plain(field) else STEEP) * close:  # places are rounded, too
        return f"one by one {off / close:.1f}"
    off = np.abs(np.stack([crop(p) for p in x[:3]]) - truth[0][:3]).max()
    if not off <= close:
        return f"a point {off / close:.1f}"
    axes = [np.unique(c) for c in x[:4].T]
    off = np.abs(crop.grid(*axes) - field.grid(*axes)).max()
    if not off <= close:
        return f"a grid {off / close:.1f}"
    window = {n: (a, b) for n, a, b in zip(field.domain.dims, low, high)}
    shape = [int(n) for n in rng.integers(1, 6, d)]
    means = field.model.blended.axes is not None  # else summed at places, which the box chooses
    shown = (f.resize(shape, window=w, antialias=means) for f, w in ((crop, None), (field, window)))
    off = np.abs(np.subtract(*shown)).max()
    if not off <= close:
        return f"a window {off / close:.1f}"
    return tabulated(rng, field, crop, window, x, truth, close)


def is_plain(field):
    """Whether coordinates are numbers of samples."""
    return all(a.coords is None for a in field.domain.axes)


def tabulated(rng, field, crop, window, x, truth, close):
    """What a table exceeds."""
    d = x.shape[1]
    order = int(rng.integers(3 if d < 3 else 2)) if is_plain(field) else 0
    tolerance = 10.0 ** rng.uniform({1: -10, 2: -8, 3: -4, 4: -2}[d], -1)
    try:
        if rng.random() < 0.5:
            table = crop.tabulate(tolerance, order)
        else:
            table = field.tabulate(tolerance, order, window=window)
    except TypeError as error:
        return "" if "only fields of product modes" in str(error) else str(error)
    except ValueError as error:
        told = ("cannot be met", "too small")
        return "" if any(t in str(error) for t in told) else str(error)
    both = 2**0.5 if field.model.is_complex else 1.0  # each part may be off
    for o, ask in enumerate(("__call__", "gradient", "hessian")[: order + 1]):
        off = np.abs(getattr(table, ask)(x) - truth[o]).max()
        if not off <= both * table.errors[o] + close * STEEP**o:
            return f"a table's {ask} {off / table.errors[o]:.2f}"
        if not table.errors[o] <= tolerance * field.model.data_range * (1 + 1e-9):
            return (
                f"a table's tolerance {table.errors[o] / (tolerance * field.model.data_range):.2f}"
            )
    return ""
