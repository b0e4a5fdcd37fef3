"""What all measurements share: rivals, held-out masks, records with their circumstances."""

import json
import os
import platform
from pathlib import Path

import numpy as np
import scipy
from scipy.interpolate import make_interp_spline
from scipy.ndimage import map_coordinates

import elmfield as ef

RESULTS = Path(__file__).parent / "results"
SPLINES = {"linear": 1, "cubic": 3, "quintic": 5}


def about(**more):
    """Under which circumstances numbers were made."""
    versions = {"python": platform.python_version(), "numpy": np.__version__}
    versions |= {"scipy": scipy.__version__, "elmfield": ef.__version__}
    return {
        "seed": 0,
        "dtype": "float64",
        "device": "cpu",
        "threads": int(os.environ.get("OPENBLAS_NUM_THREADS", len(os.sched_getaffinity(0)))),
        "versions": versions,
    } | more


def record(file, section, rows, **circumstances):
    """Put one section into a results file, leaving the others."""
    path = RESULTS / f"{file}.json"
    found = json.loads(path.read_text()) if path.exists() else {}
    found[section] = {"about": about(**circumstances), "rows": rows}
    RESULTS.mkdir(exist_ok=True)
    path.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n")
    print(f"{file}: {section}, {len(rows)} rows")


def thinned(values, d=None, step=2):
    """Every second (or third, ...) sample along the first d axes."""
    return values[(slice(None, None, step),) * (values.ndim if d is None else d)]


def held_out(shape, border, step=2):
    """Where to score: inside the border, and not among the samples that were fitted."""
    held = np.zeros(shape, bool)
    held[tuple(slice(b, n - b) for n, b in zip(shape, np.broadcast_to(border, len(shape))))] = True
    held[(slice(None, None, step),) * len(shape)] = False
    return held


def score(truth, predicted, border, data_range=None, step=2):
    """Held-out PSNR of a prediction; axes beyond those of `border` are channels."""
    d = len(border) if np.ndim(border) else truth.ndim
    held = held_out(truth.shape[:d], border, step)
    return ef.psnr(truth[held], predicted[held], data_range=data_range or float(np.ptp(truth)))


def spline(values, order, step=2):
    """All samples, predicted from every second one by `scipy.ndimage.map_coordinates`, mirror."""
    grid = np.stack(np.meshgrid(*(np.arange(n) / step for n in values.shape), indexing="ij"))
    return map_coordinates(thinned(values, step=step), grid, order=order, mode="mirror")


def spline_1d(values, order):
    """The same along axis 0 only, other axes being channels (not-a-knot ends)."""
    n = len(values)
    return make_interp_spline(np.arange(0, n, 2), values[::2], k=order)(np.arange(n))


def predicted(values, settings, channel_axis=None, step=2):
    """What the library predicts from every second sample for all of them.

    Beside it the true PSNR at the fitted samples and the number of coefficients per sample.
    """
    d = values.ndim - (channel_axis is not None)
    kept = thinned(values, d, step)
    field = ef.fit(kept, settings, channel_axis=channel_axis)
    # The last samples may lie beyond the domain of what was fitted, but never inside the border.
    grid = field.grid(*(np.arange(n) / step for n in values.shape[:d]), outside="nearest")
    return grid, ef.psnr(kept, thinned(grid, d, step)), field.n_coefficients / kept.size
