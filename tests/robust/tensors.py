"""Fits and questions in torch, each from a seed: modes, dtypes, presets, derivatives.

Every answer is compared with that of a field of NumPy arrays, every derivative with the rise of
such answers; what is not followed must be refused with a TypeError of ours.
"""

import contextlib
import traceback
import warnings

import numpy as np
import torch

import elmfield as ef
from robust.damage import Hung, limited

STEP = {"points": 1e-4, "samples": 1e-3}
"""Of finite differences: points in samples, samples in parts of their range."""

CLOSE = {"float64": 1e-8, "float32": 2e-4}
"""Parts of the largest answer by which torch and NumPy may differ: rounding, and what derivatives
of the modes make of it."""

WORSE = {"paper": 50, "merged": 50, "psnr": 50, "dense": 50}
"""How much more that is where output weights are large and cancel."""

ROUGH = 3e-3
"""Parts of the largest derivative by which it may differ from a finite difference, and from one in
float64."""

MODES = {
    "none": contextlib.nullcontext,
    "bfloat16": lambda: torch.autocast("cpu", dtype=torch.bfloat16),
    "float16": lambda: torch.autocast("cpu", dtype=torch.float16),
    "inference": torch.inference_mode,
    "no_grad": torch.no_grad,
}
AT_POINTS = ("value", "gradient", "hessian", "laplacian", "table", "module", "vmap", "compiled")


class Trial:
    """One combination: samples, settings, what is asked, in which modes, followed by what."""

    def __init__(self, rng):
        def any_of(*choices):
            return choices[int(rng.integers(len(choices)))]

        self.d = d = any_of(1, 2, 2, 3)
        self.preset = any_of("smooth", "auto", "oriented", "paper", "merged", "dense", "psnr")
        self.preset = "paper" if d == 3 and self.preset == "dense" else self.preset
        most = {1: 40, 2: 16, 3: 9}[d]
        self.shape = tuple(int(n) for n in rng.integers(most // 2, most + 1, d))
        self.channels = any_of(None, None, 1, 2)
        shape = self.shape if self.channels is None else (*self.shape, self.channels)
        self.dtype = any_of("float32", "float64")
        self.values = rng.standard_normal(shape).cumsum(0).astype(self.dtype)
        self.options = {} if self.channels is None else {"channel_axis": -1}
        self.fit_mode, self.ask_mode = any_of(*MODES, "none"), any_of(*MODES, "none")
        self.asked = any_of(*AT_POINTS[:7], *AT_POINTS[:2], "integral", "means", "resize")
        if rng.integers(30) == 0:
            self.asked = "compiled"
        self.by = any_of((), ("points",), ("samples",), ("points", "samples"))
        self.x = rng.uniform(0.1, 0.9, (3, d)) * [n - 1 for n in self.shape]
        if rng.integers(3) == 0:
            self.options["mask"] = rng.random(shape) < 0.15
        if rng.integers(4) == 0 and self.preset != "merged":
            self.options["periodic"] = int(rng.integers(d))
        if rng.integers(6) == 0 and self.preset in ("smooth", "oriented"):
            self.options["samples"] = "means"
        noise = rng.integers(5) == 0 and self.preset in ("smooth", "oriented")
        self.denoise = {"denoise": 0.3} if noise and "samples" not in self.options else {}
        cell = any_of(None, max(3, most // 3))
        self.settings = {
            "smooth": lambda: ef.smooth(order=2, cell=cell, **self.denoise),
            "auto": lambda: ef.smooth(cell=cell),
            "oriented": lambda: ef.oriented(**self.denoise),
            "paper": lambda: ef.paper(cell=8, width=24, activation="tanh", overlap=any_of(0, 1)),
            "merged": lambda: ef.paper(width=any_of(6, 40), activation="tanh"),
            "dense": lambda: ef.smooth(order=2, network=ef.Dense(200, activation="tanh")),
            "psnr": lambda: ef.smooth(order=2, psnr=40.0),
        }[self.preset]()
        if self.preset == "merged":
            mask = self.options.get("mask")
            cut = {"channel_axis": -1} if self.channels is not None else {}
            self.options["partition"] = ef.beam(self.values, cell=4, regions=2, mask=mask, **cut)
        self.way = {
            "points": rng.standard_normal(self.x.shape),
            "samples": rng.standard_normal(shape) * float(np.ptp(self.values)),
        }
        self.weigh = np.random.default_rng(int(rng.integers(1 << 30)))

    def __str__(self):
        told = {k: v for k, v in self.options.items() if k not in ("mask", "partition")}
        mask = "mask" if "mask" in self.options else ""
        return (
            f"{self.preset} {self.shape} {self.channels} {self.dtype} {told} {mask} {self.denoise} "
            f"fit {self.fit_mode}, {self.asked} {self.ask_mode}, by {self.by}"
        )

    def fit(self, values):
        """The field of samples of either library."""
        return ef.fit(values, self.settings, **self.options)

    def fits(self, values):
        """The same of several arrays, of which the first has decided what depends on samples."""
        if "samples" in self.options:
            return self.fit
        own = {k: v for k, v in self.options.items() if k != "mask"}
        encode = ef.encoder(values.shape, self.settings, **own)
        encode(values, mask=self.options.get("mask"))
        return lambda values: encode(values, mask=self.options.get("mask"))

    def ask(self, field, x):
        """What is asked, of a field of either library."""
        ends = [0.2 * n for n in self.shape], [0.7 * n for n in self.shape]
        return {
            "value": lambda: field(x),
            "gradient": lambda: field.gradient(x),
            "hessian": lambda: field.hessian(x),
            "laplacian": lambda: field.laplacian(x),
            "integral": lambda: field.integral(*ends),
            "means": lambda: field.means(*([a, b] for a, b in zip(*ends))),
            "resize": lambda: field.resize([n + 2 for n in self.shape]),
            "table": lambda: field.tabulate(1e-6)(x),
            "module": lambda: field.module()(x),
            "vmap": lambda: torch.func.vmap(field.module())(x),
            "compiled": lambda: torch.compile(field.module(), fullgraph=True, backend="eager")(x),
        }[self.asked]()

    def plainly(self, field, x):
        """The same of a field of NumPy arrays, by its own ways."""
        if self.asked in ("table", "module", "vmap", "compiled"):
            return field(x)
        return self.ask(field, x)


def one_trial(seed):
    """ "done", "refused", or what is wrong."""
    rng, trial = np.random.default_rng(seed), None
    try:
        with limited(120), warnings.catch_warnings():
            warnings.simplefilter("error")
            for ours in (ef.RankWarning, ef.ChannelWarning):
                warnings.simplefilter("ignore", ours)
            warnings.filterwarnings("ignore", "`torch.jit", DeprecationWarning)
            warnings.filterwarnings("ignore", "nothing was merged", UserWarning)
            found = _one(trial := Trial(rng))
            return found if found == "done" else f"{found} ({trial})"
    except Hung:
        return "hung"
    except TypeError as error:
        last, text = traceback.extract_tb(error.__traceback__)[-1], str(error)
        ours = "elmfield" in last.filename and text.endswith(".") and "\n" not in text
        return "refused" if ours else f"foreign: TypeError: {text} ({trial})"
    except Exception as error:
        return f"foreign: {type(error).__name__}: {error} ({trial})"


def _one(trial):
    values, x = torch.as_tensor(trial.values.copy()), torch.as_tensor(trial.x.copy())
    values.requires_grad_("samples" in trial.by)
    x.requires_grad_("points" in trial.by)
    with MODES[trial.fit_mode]():
        field = trial.fit(values)
    with MODES[trial.ask_mode]():
        found = trial.ask(field, x)
    if trial.preset == "dense":  # NumPy factors its matrices of next to no rank otherwise
        own, at = torch.as_tensor(trial.values.copy()), torch.as_tensor(trial.x.copy())
        expected = trial.plainly(trial.fit(own), at).numpy()
    else:
        expected = np.asarray(trial.plainly(trial.fit(trial.values), trial.x))
    size = float(np.abs(expected).max(initial=0)) or 1.0
    off = float(np.abs(found.detach().numpy() - expected).max(initial=0)) / size
    close = CLOSE[trial.dtype] * WORSE.get(trial.preset, 1)
    close = max(close, 3e-6 if trial.asked == "table" else 0) * (30 if trial.denoise else 1)
    if not off <= close or found.dtype != field.model.offset.dtype:
        return f"wrong: off by {off:.1e}, {found.dtype}"
    quiet = {"inference", "no_grad"}
    followed = {
        "points": "points" in trial.by and trial.asked in AT_POINTS,
        "samples": "samples" in trial.by and trial.fit_mode not in quiet,
    }
    trains = trial.asked in ("module", "vmap", "compiled")
    wanted = (any(followed.values()) or trains) and trial.ask_mode not in quiet
    if found.requires_grad != wanted:
        return f"wrong: followed {found.requires_grad}, wanted {wanted}"
    if wanted:
        return _slopes(trial, found, {"points": x, "samples": values}, followed)
    return "done"


def _slopes(trial, found, leaves, followed):
    """Derivatives of a sum with random weights along a random way, beside finite differences."""
    weights = trial.weigh.standard_normal(tuple(found.shape))
    names = [name for name, is_so in followed.items() if is_so]
    if not names:
        found.sum().backward()
        return "done"
    total = (found * torch.as_tensor(weights, dtype=found.dtype)).sum()
    slopes = torch.autograd.grad(total, [leaves[name] for name in names], allow_unused=True)
    values = trial.values.astype(np.float64)
    fits, rough = trial.fits(values), ROUGH * (10 if trial.preset == "dense" else 1)
    fine = fits(values)

    def sums(name, step):
        if name == "points":
            return weights * trial.plainly(fine, trial.x + step * trial.way["points"])
        there = fits(values + step * trial.way["samples"])
        return weights * trial.plainly(there, trial.x)

    for name, slope in zip(names, slopes):
        step = STEP[name]
        rise = (sums(name, step) - sums(name, -step)) / (2 * step)
        size = np.abs(rise).sum()
        along = 0.0 if slope is None else float((slope.numpy() * trial.way[name]).sum())
        if not np.isfinite(along) or abs(along - rise.sum()) > rough * size:
            return f"wrong: slope by {name} {along:.6g}, rise {rise.sum():.6g} of {size:.3g}"
    return "done"
