"""Navier-Stokes, 128 x 128 x 100: MAE of the vorticity, two readings of the paper's cells.

``python paper/navier_stokes.py [--device cuda]``
"""

import warnings
from functools import partial

import numpy as np

import elmfield as ef
from common import at_hand, closed_form, load, main, rivals
from training import left_out, printed_settings, trained, tuned_settings

PRINTED = {
    "SIREN": 4.22e-3,
    "FFN": 7.02e-2,
    "GaussNet": 2.36e-2,
    "WIRE": 2.09e-2,
    "ELM-INR": 5.68e-5,
}
NAME = "navier-stokes"
BATCH = 65536
"""Samples per training step; the paper does not give any. Its smallest network is trained here."""


def compute(run):
    """Both readings, ours, rivals, training."""
    if not at_hand(run, [NAME]):
        return
    w = load(run, NAME)
    rows = printed_settings(run, steps=3000, batch=BATCH, usual=True)
    tuned = tuned_settings(run, steps=3000, batch=BATCH, flow=True)
    rows |= {f"{m}, tuned": s for m, s in tuned.items()}
    for label, settings in rows.items():
        trained(run, NAME, label, w, settings)
    wide, side = (256, 16) if run.toy else (4096, 64)
    small = (5, 5) if run.toy else (20, 20)  # S = 4000 for m = 4096: both sentences hold
    readings = {
        "ELM-INR, S = m": (ef.paper(cell=(side, side), width=wide), -1),
        "ELM-INR, 20 × 20 × 10": (ef.paper(cell=(*small, 10), width=wide), None),
        "ELM-INR, 10 steps a piece": (ef.paper(cell=(side, side, 10), width=wide), None),
        "default": (ef.smooth(), None),
        "oriented": (ef.oriented(), None),
        "error target, as many coefficients": (ef.smooth(coefficients=w.size), None),
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ef.RankWarning)  # 40960 samples, ranks in docs/results.md
        for method, (settings, channels) in readings.items():
            keep = f"{NAME}-{method}" if method != "oriented" else None
            work = partial(closed_form, run, w, settings, channels, np.float64, keep)
            run.unit(f"{NAME}: {method}", work, preset=repr(settings), channels=channels)
    rivals(run, NAME, w)
    for label, settings in rows.items() if run.profile != "short" else ():
        left_out(run, NAME, label, w, settings)


def draw(run):
    """Drawn by volume.py, which reads what is kept here."""


if __name__ == "__main__":
    main(compute, draw, "navier_stokes")
