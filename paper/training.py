"""The iterative methods: with which settings they are trained here, and the row of one training.

*As printed*: Adam, constant rate, the paper's number of steps, hidden width, layers and rate from its
search (``search.py``). *Tuned*: the strongest settings we found for about the same time. Short and
toy runs train small networks for few steps, and their records say so.
"""

import numpy as np

from common import ITERATIVE, Run, cost_of, errors, halves, heldout
from elmfield import baselines

MAKE = {
    "SIREN": baselines.siren,
    "FFN": baselines.ffn,
    "GaussNet": baselines.gaussnet,
    "WIRE": baselines.wire,
    "hash grid": baselines.hashgrid,
}
USUAL = {"hidden": 256, "layers": 3, "rate": 1e-4}
"""The smallest network of the paper's search, where no search has been run."""


def winners(run):
    """Hidden width, layers and rate per method, as the search on this device left them."""
    found = Run("search", run.device, run.profile, run.folder).found()
    return {m: found[m]["result"]["best"] if m in found else USUAL for m in ITERATIVE}


def printed_settings(run, steps, batch=None):
    """Per method: how to make its network, and how to train it as the paper does."""
    if run.profile != "full":
        small = {"hidden": 16, "layers": 2} if run.toy else {"hidden": 128, "layers": 3}
        few = {"steps": 8, "batch": 256} if run.toy else {"steps": 150, "batch": 4096}
        return {m: {"network": small, "train": {"rate": 1e-3} | few} for m in ITERATIVE}
    rows = {}
    for method, best in winners(run).items():
        network = {"hidden": best["hidden"], "layers": best["layers"]}
        train = {"rate": best["rate"], "steps": steps, "batch": batch, "precision": "high"}
        rows[method] = {"network": network, "train": train}
    return rows


TUNED = {
    "SIREN": ({"hidden": 512, "layers": 4}, {"rate": 3e-4, "steps": 2000}),
    "FFN": ({"hidden": 512, "layers": 4, "scale": 30.0}, {"rate": 1e-3, "steps": 2000}),
    "GaussNet": ({"hidden": 512, "layers": 3}, {"rate": 1e-3, "steps": 2000}),
    "WIRE": ({"hidden": 512, "layers": 3}, {"rate": 1e-3, "steps": 2000}),
    "hash grid": ({}, {"rate": 1e-2, "steps": 2000}),
}


def tuned_settings(run, methods=tuple(TUNED), batch=None):
    """Per method, the hash grid among them: the strongest settings, rate going down by a cosine."""
    rows = {}
    for method in methods:
        network, train = TUNED[method]
        if run.profile != "full":
            if method != "hash grid":
                continue
            network = {"levels": 4, "table": 2**8} if run.toy else {}
            train = {"rate": 1e-2, "steps": 8 if run.toy else 150}
            train["batch"] = 256 if run.toy else 4096
        else:
            train = train | {"batch": batch, "precision": "high"}
        rows[method] = {"network": network, "train": train | {"schedule": "cosine"}}
    return rows


def trained(run, name, label, values, settings, channels=None, seed=0, between=True):
    """Train one method on one array, unless that is recorded; the row, and its log of errors."""
    method = label.split(",")[0]

    def work():
        network = MAKE[method](**settings["network"])
        options = settings["train"] | {"channel_axis": channels, "seed": seed, "device": run.device}
        options.setdefault("every", max(1, options["steps"] // 100))

        def fit(y):
            n = y.size // (y.shape[channels] if channels is not None else 1)
            if options.get("batch") and options["batch"] >= n:
                options["batch"] = None  # all samples at once
            return baselines.fit(y.astype("float32"), network, **options)

        model, spent = cost_of(lambda: fit(values), run)
        back = model.samples()
        if seed == 0:
            run.keep(f"{name}-{label}", back)
        row = errors(values, back, channels)
        if between:
            thin, grid = halves(values, channels)
            points = np.stack(np.meshgrid(*grid, indexing="ij"), axis=-1)
            row["heldout"] = heldout(values, fit(thin)(points), channels)
        row["coefficients_per_sample"] = model.n_parameters / values.size
        log = [[r.step, r.seconds, r.paper_psnr] for r in model.log]
        part = log[-1][1] / spent["seconds"]  # training alone: no start, no evaluation
        spent |= {k: part * spent[k] for k in ("seconds", "joules", "grams_co2")}
        return row | spent | {"steps": log[-1][0], "log": log}

    return run.unit(f"{name}: {label}", work, **settings, seed=seed)
