"""Satellite scenes: cells of 64, m = 4096; 10000 steps for the iterative methods.

    python paper/satellite.py [--device cuda]

The paper's scenes (WorldView-3 over CDG and LAX, Sentinel-2 over the Galapagos, 2048 x 2048) are not
to be had. WorldView-2 and Sentinel-2 scenes stand in; their status is in the record.
"""

import elmfield as ef
from common import channel_axis, load, main
from figures import comparison
from images import without_training
from paper.research import datasets
from training import left_out, printed_settings, trained, tuned_settings

PRINTED = {  # SIREN, FFN, GaussNet, WIRE, ELM-INR; dB, mean over bands
    "WorldView-3 CDG": (33.06, 38.60, 30.61, 30.89, 79.19),
    "WorldView-3 LAX": (30.56, 35.08, 28.87, 29.20, 78.49),
    "Sentinel-2 L2A": (44.20, 42.54, 38.41, 37.40, 79.51),
}
SCENES = {"worldview": ("WorldView-3 CDG", "WorldView-3 LAX"), "sentinel2": ("Sentinel-2 L2A",)}
"""Which data stands in for which scenes."""

BATCH = 16384
"""Samples per training step; the paper does not give any. Its smallest network is trained here."""


def compute(run):
    """Train and fit on every scene."""
    rows = printed_settings(run, steps=10000, batch=BATCH, usual=True)
    tuned = tuned_settings(run, steps=2000, batch=BATCH)
    rows |= {f"{m}, tuned": s for m, s in tuned.items()}
    jobs = [
        (name, label, load(run, name), settings, channel_axis(name))
        for name in SCENES
        for label, settings in rows.items()
    ]
    for job in jobs:
        trained(run, *job)
    cell = 16 if run.toy else 64
    for name in SCENES:
        values = load(run, name)
        channels = channel_axis(name)
        without_training(run, name, values, ef.paper(cell=cell, width=cell**2), channels)
        run.unit(f"{name}: data", lambda n=name: {"status": datasets.about(n).status})
    for job in jobs if run.profile != "short" else ():
        left_out(run, *job)


def draw(run):
    """RGB composites by every method, with errors."""
    for name in SCENES:
        comparison(run, name, channels=channel_axis(name))


if __name__ == "__main__":
    main(compute, draw, "satellite")
