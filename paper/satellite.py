"""Satellite scenes: cells of 64, m = 4096; 10000 steps for the iterative methods.

    python paper/satellite.py [--device cuda]

The paper's scenes (WorldView-3 over CDG and LAX, Sentinel-2 over the Galapagos, 2048 x 2048) are not
to be had. WorldView-2 and Sentinel-2 scenes stand in; their status is in the record.
"""

import resource
from functools import partial

import numpy as np

import elmfield as ef
from common import at_hand, at_samples, channel_axis, cost_of, errors, load, main
from elmfield._array.backend import to_device, to_numpy
from figures import comparison
from images import without_training
from paper.research import datasets
from training import left_out, printed_settings, trained, tuned_settings

PRINTED = {  # SIREN, FFN, GaussNet, WIRE, ELM-INR; dB, mean over bands
    "WorldView-3 CDG": (33.06, 38.60, 30.61, 30.89, 79.19),
    "WorldView-3 LAX": (30.56, 35.08, 28.87, 29.20, 78.49),
    "Sentinel-2 L2A": (44.20, 42.54, 38.41, 37.40, 79.51),
}
CHIPS = tuple(f"sentinel2-l2a-{place}" for place in ("brazil", "chile", "ontario", "tanzania"))
"""The paper's own product, 224 x 224: whole cells of 64 are the first 192 x 192 of them."""

SCENES = {"worldview": ("WorldView-3 CDG", "WorldView-3 LAX"), "sentinel2": ("Sentinel-2 L2A",)}
"""Which data stands in for which scenes."""

BATCH = 16384
"""Samples per training step; the paper does not give any. Its smallest network is trained here."""


LARGE = ("blue-marble", "sdo")


def large(run):
    """2048 x 2048 samples in 8 bands, m = 4096: both halves of the Earth in three, the Sun in two."""
    earth, sun = (np.asarray(datasets.load(name), np.float64) for name in LARGE)
    bands = [
        earth[:, :2048],
        earth[:, 2048:],
        sun[1024:3072, :2048, None],
        sun[1024:3072, 2048:, None],
    ]
    values = np.concatenate(bands, axis=-1)
    paper = ef.paper(cell=64, width=4096)
    encode = ef.encoder(values.shape, paper, channel_axis=-1)
    values = values if run.place is None else to_device(values, run.place)
    field, cold = cost_of(lambda: encode(values), run)
    kept = cost_of(lambda: encode(values), run)[1]
    back = to_numpy(field.samples())
    peak = 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return errors(to_numpy(values), back, -1) | cold | {
        "seconds_kept": kept["seconds"], "peak_bytes": peak, "numbers": field.model.n_coefficients,
        "bands": "six of Blue Marble, two of SDO's Sun",
    }  # fmt: skip


def compute(run):
    """Train and fit on every scene."""
    rows = printed_settings(run, steps=10000, batch=BATCH, usual=True)
    tuned = tuned_settings(run, steps=2000, batch=BATCH)
    rows |= {f"{m}, tuned": s for m, s in tuned.items()}
    jobs = [
        (name, label, load(run, name), settings, channel_axis(name))
        for name in at_hand(run, SCENES)
        for label, settings in rows.items()
    ]
    for job in jobs:
        trained(run, *job)
    cell = 16 if run.toy else 64
    for name in at_hand(run, SCENES):
        values = load(run, name)
        channels = channel_axis(name)
        without_training(run, name, values, ef.paper(cell=cell, width=cell**2), channels)
        run.unit(f"{name}: data", lambda n=name: {"status": datasets.about(n).status})
    for name in at_hand(run, CHIPS[:1] if run.toy else CHIPS):
        side = 32 if run.toy else 192
        chip = load(run, name)[:side, :side]
        paper = ef.paper(cell=cell, width=cell**2)
        run.unit(f"{name}: ELM-INR", partial(at_samples, run, chip, paper, -1), preset=repr(paper))
    if not run.toy and len(at_hand(run, LARGE)) == len(LARGE):
        run.unit("paper's size: ELM-INR", partial(large, run), shape=[2048, 2048, 8], width=4096)
    for job in jobs if run.profile != "short" else ():
        left_out(run, *job)


def draw(run):
    """RGB composites by every method, with errors."""
    for name in at_hand(run, SCENES):
        comparison(run, name, channels=channel_axis(name))


if __name__ == "__main__":
    main(compute, draw, "satellite")
