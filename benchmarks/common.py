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
        "threads": len(os.sched_getaffinity(0)),
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


def every_second(values, d=None):
    """Every second sample along the first d axes."""
    return values[(slice(None, None, 2),) * (values.ndim if d is None else d)]


def held_out(shape, border):
    """Where to score: inside the border, and not among every second sample."""
    held = np.zeros(shape, bool)
    held[tuple(slice(b, n - b) for n, b in zip(shape, np.broadcast_to(border, len(shape))))] = True
    held[(slice(None, None, 2),) * len(shape)] = False
    return held


def score(truth, predicted, border, data_range=None):
    """Held-out PSNR of a prediction; axes beyond those of `border` are channels."""
    d = len(border) if np.ndim(border) else truth.ndim
    held = held_out(truth.shape[:d], border)
    return ef.psnr(truth[held], predicted[held], data_range=data_range or float(np.ptp(truth)))


def spline(values, order):
    """All samples, predicted from every second one by `scipy.ndimage.map_coordinates`, mirror."""
    grid = np.stack(np.meshgrid(*(np.arange(n) / 2 for n in values.shape), indexing="ij"))
    return map_coordinates(every_second(values), grid, order=order, mode="mirror")


def spline_1d(values, order):
    """The same along axis 0 only, other axes being channels (not-a-knot ends)."""
    n = len(values)
    return make_interp_spline(np.arange(0, n, 2), values[::2], k=order)(np.arange(n))


def predicted(values, settings, channel_axis=None, **options):
    """All samples, predicted by the library from every second one; and the fit's own errors."""
    d = values.ndim - (channel_axis is not None)
    kept = every_second(values, d)
    field = ef.fit(kept, settings, channel_axis=channel_axis, **options)
    # An even number of samples ends half a step beyond the last one that was fitted: inside Ω.
    grid = field.grid(*(np.arange(n) / 2 for n in values.shape[:d]))
    own = grid[(slice(None, None, 2),) * d]
    return grid, ef.psnr(kept, own), field.n_coefficients / kept.size


def peak_of(values, is_picture):
    """255 for 8-bit pictures, else the range of the data."""
    return 255.0 if is_picture else float(np.ptp(values))
