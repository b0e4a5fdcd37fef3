"""What was asked for holds for what is stored: after fit, save, load, crop and keep."""

import numpy as np

import elmfield as ef
from robust.arrays import CHANNELS, UNITS, adversarial, as_dtype


def cases():
    """Every array in every dtype: (name, dtype)."""
    return [(name, dtype) for name in adversarial() for dtype in UNITS]


def errors(truth, got):
    """The largest error at samples that are there, and the mean of squares over the range²."""
    truth, got = (np.asarray(a).astype(np.float64) for a in (truth, got))
    have = ~np.isnan(truth)
    gap = np.abs(truth - got)[have]
    span = float(np.ptp(truth[have])) or 1.0
    return float(gap.max()), float(np.mean((gap / span) ** 2))


def checked(name, dtype, path):
    """What is exceeded, as sentences; and how many promises were looked at."""
    values = as_dtype(adversarial()[name], dtype)
    if values is None:
        return [], 0
    axis = -1 if name in CHANNELS else None
    span = float(np.nanmax(values.astype(float)) - np.nanmin(values.astype(float))) or 1.0
    wrong, count = [], 0
    for asked in ({"max_error": span / 50}, {"psnr": 45.0}):
        for when, truth, got in _stations(values, axis, asked, path):
            largest, mean = errors(truth, got)
            count += 1
            if "psnr" in asked and when == "crop":
                continue  # a mean over all says nothing about a part
            if not (
                largest <= asked["max_error"]
                if "max_error" in asked
                else mean <= 10 ** (-asked["psnr"] / 10)
            ):
                wrong.append(f"{name}, {dtype}, {asked}, {when}: {largest:g}, {mean:g}")
    return wrong, count


def _stations(values, axis, asked, path):
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
    first = field.domain.axes[0]
    n = max(1, first.size // 2)
    if first.size > 1:
        low = [-0.5] * len(field.shape)
        part = field.crop(low, [n - 0.5, *(m - 0.5 for m in field.shape[1:])])
        yield "crop", values[:n], part.samples(missing="fill")
    try:
        kept = ef.fit(values, channel_axis=axis, missing="fill").keep(**asked)
    except ValueError as error:
        if "cannot be" in str(error):
            return
        raise
    yield "keep", values, kept.samples(missing="fill")
