"""What was asked for holds for what is stored: after fit, save, load, crop and keep."""

import numpy as np

import elmfield as ef
from robust.arrays import CHANNELS, UNITS, adversarial, as_dtype


def cases():
    """Every array in every dtype: (name, dtype)."""
    return [(name, dtype) for name in adversarial() for dtype in UNITS]


def errors(truth, got):
    """The largest error at samples that are there, and the sum of squares."""
    truth, got = (np.asarray(a).astype(np.float64) for a in (truth, got))
    gap = np.abs(truth - got)[~np.isnan(truth)]
    return float(gap.max(initial=0)), float(np.sum(gap**2))


def checked(name, dtype, path, seed=1):
    """What is exceeded, as sentences; and how many promises were looked at.

    A largest error holds for every sample, so for those of a crop. A PSNR is of the whole array:
    a crop's squares are some of those that it allows.
    """
    values = as_dtype(adversarial(seed)[name], dtype)
    if values is None:
        return [], 0
    axis = -1 if name in CHANNELS else None
    have = values[~np.isnan(values)].astype(float)
    span = float(np.ptp(have)) or 1.0
    rng, wrong, count = np.random.default_rng(seed), [], 0
    allowed = {"max_error": span / 50, "psnr": have.size * span**2 * 10**-4.5}
    for asked in ({"max_error": span / 50}, {"psnr": 45.0}):
        (kind,) = asked
        for when, truth, got in _stations(values, axis, asked, path, rng):
            largest, squares = errors(truth, got)
            count += 1
            if not {"max_error": largest, "psnr": squares}[kind] <= allowed[kind]:
                wrong.append(f"{name}, {dtype}, {asked}, {when}: {largest:g}, {squares:g}")
    return wrong, count


def _stations(values, axis, asked, path, rng):
    """What a field gives back at every station of its life, beside what it was made of."""
    try:
        field = ef.fit(values, ef.smooth(**asked), channel_axis=axis, missing="fill")
    except ValueError as error:
        if "cannot be" in str(error):
            return  # refused is kept
        raise
    yield "fit", values, field.samples(missing="fill")
    for dtype in ("float64", "float32", "float16"):
        try:
            ef.save(field, path, dtype=dtype)
        except ValueError:
            continue
        yield f"save as {dtype}", values, ef.load(path).samples(missing="fill")
    ef.save(field, path)
    field = ef.load(path)
    ends = [np.sort(rng.integers(0, n + 1, 2)) for n in field.shape]
    ends = [(a, b) if a < b else (0, n) for (a, b), n in zip(ends, field.shape)]
    part = field.crop([a - 0.5 for a, _ in ends], [b - 0.5 for _, b in ends])
    inside = np.ix_(*(np.arange(a, b) for a, b in ends))
    yield "crop", values[inside], part.samples(missing="fill")
    try:
        kept = ef.fit(values, channel_axis=axis, missing="fill").keep(**asked)
    except ValueError as error:
        if "cannot be" in str(error):
            return
        raise
    yield "keep", values, kept.samples(missing="fill")
