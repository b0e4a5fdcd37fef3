"""The iterative methods: with which settings they are trained here, and the row of one training.

*As printed*: Adam, constant rate, the paper's number of steps, and the hidden width, layers and rate
that its search prefers. *Tuned*: the strongest settings of a small search of ours, the rate going
down by a cosine. Both searches are ``search.py``'s. Short and toy runs train small networks for few
steps, and their records say so.
"""

from dataclasses import replace

import numpy as np

from common import ITERATIVE, Run, cost_of, errors
from measurement.heldout import halves, score
from paper.research import baselines

MAKE = {
    "SIREN": baselines.siren,
    "FFN": baselines.ffn,
    "GaussNet": baselines.gaussnet,
    "WIRE": baselines.wire,
    "hash grid": baselines.hashgrid,
}
USUAL = {"hidden": 256, "layers": 3, "rate": 1e-4}
"""The smallest network of the paper's search: where no search was run, and for long trainings."""

HELD_OUT = "held out"
"""What the record calls the second training of a row."""


def chosen(run, label, otherwise):
    """The settings a search on this device preferred."""
    found = Run("search", run.device, run.profile, run.folder).found()
    return found[label]["result"]["best"]["network"] if label in found else otherwise


def reduced(run):
    """Network and training of short and toy runs."""
    if run.toy:
        return {"hidden": 16, "layers": 2}, {"steps": 8, "batch": 256}
    return {"hidden": 128, "layers": 3}, {"steps": 100, "batch": 4096}


def printed_settings(run, steps, batch=None, usual=False):
    """Per method: its network, and how to train it as the paper does."""
    if run.profile != "full":
        network, train = reduced(run)
        return {m: {"network": network | {"rate": 1e-3}, "train": train} for m in ITERATIVE}
    train = {"steps": steps, "batch": batch, "precision": "high", "compiled": True}
    return {
        m: {"network": USUAL if usual else chosen(run, m, USUAL), "train": train} for m in ITERATIVE
    }


def tuned_settings(run, steps=1000, batch=None, flow=False):
    """The same, the hash grid among them, with the strongest settings we found."""
    if run.profile != "full":
        network = {"levels": 4, "table": 2**8} if run.toy else {}
        train = reduced(run)[1] | {"schedule": "cosine"}
        return {"hash grid": {"network": network, "train": train}}
    train = {"steps": steps, "batch": batch, "precision": "high", "compiled": True}
    train["schedule"] = "cosine"
    label = "{}, tuned, navier-stokes" if flow else "{}, tuned"
    return {m: {"network": chosen(run, label.format(m), {}), "train": train} for m in MAKE}


def schedule(train):
    """How to train, from what is recorded of it."""
    words = {"schedule": "decay"}  # as the records had it from the first
    return baselines.Schedule(**{words.get(k, k): v for k, v in train.items()})


def fitter(run, label, values, settings, channels=None, seed=0):
    """A function that trains the method of this label on an array like `values`."""
    network = MAKE[label.split(",")[0]](**settings["network"])
    # With batches every row of the log costs an evaluation of the whole array.
    size = values.size
    few = 10 if size < 2**17 else 4 if size < 2**20 else 1
    rows = 100 if run.profile == "full" else few
    usual = replace(schedule(settings["train"]), seed=seed)
    usual = replace(usual, every=max(1, usual.steps // rows))

    def fit(y, **other):
        n = y.size // (1 if channels is None else y.shape[channels])
        batch = usual.batch if usual.batch and usual.batch < n else None
        own = replace(usual, **{"batch": batch} | other)
        y = y.astype(np.float32)
        return baselines.fit(y, network, own, channel_axis=channels, device=run.device)

    return fit


def trained(run, name, label, values, settings, channels=None, seed=0, picture=True):
    """Train one method on one array, unless that is recorded; the row, and its log of errors."""
    if run.closed:
        return None

    def work():
        fit = fitter(run, label, values, settings, channels, seed)
        if run.profile == "full":
            fit(values, steps=3)  # compiles
        model, spent = cost_of(lambda: fit(values), run)
        back = model.samples()
        if picture:
            run.keep(f"{name}-{label}", back)
        log = [[r.step, r.seconds, r.paper_psnr] for r in model.log]
        part = log[-1][1] / spent["seconds"]  # training alone: no start, no evaluation
        return {
            **errors(values, back, channels),
            "coefficients_per_sample": model.n_parameters / values.size,
            **spent | {k: part * spent[k] for k in ("seconds", "joules", "grams_co2")},
            "steps": log[-1][0],
            "log": log,
        }

    return run.unit(f"{name}: {label}", work, **settings, seed=seed)


def left_out(run, name, label, values, settings, channels=None):
    """The same training on every second sample per axis, scored at the others."""
    if run.closed:
        return None

    def work():
        fit = fitter(run, label, values, settings, channels)
        thin, grid = halves(values, channels)
        points = np.stack(np.meshgrid(*grid, indexing="ij"), axis=-1)
        model = fit(thin, every=settings["train"]["steps"])
        return {"heldout": score(values, model(points), channels=channels)}

    return run.unit(f"{name}: {label}, {HELD_OUT}", work, **settings, seed=0)
