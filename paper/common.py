"""What the scripts share: runs that can be resumed, rows every table has, rivals without training.

A *run* is a script on a device with a profile: ``full`` (the paper's settings, for a GPU), ``short``
(the same pictures and closed-form rows, few training steps) or ``toy`` (seconds, for tests). It keeps
``results/<device>/<script>.json``: one entry per finished unit of work. What this checkout has done
(``kept/`` knows) is not done again while its settings are the same; a fresh clone does everything.
"""

import argparse
import json
import sys
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
import scipy
from scipy.fft import dctn

import elmfield as ef
from elmfield._array.backend import to_numpy

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))  # for measurement/, which benchmarks/ uses too

from measurement.heldout import axes, halves, predicted, score  # noqa: E402
from measurement.records import (  # noqa: E402
    LIBRARY,
    NETWORKS,
    circumstances,
    code,
    kind,
    plain,
    read,
    write,
)
from measurement.rivals import SPLINES, cosines_at, spline_at  # noqa: E402
from paper.research import baselines, datasets, joules  # noqa: E402

ITERATIVE = ("SIREN", "FFN", "GaussNet", "WIRE")
PROFILES = ("full", "short", "toy")
PRIVATE = ("cameraman", "worldview")
"""Their terms (`datasets.about(name).terms`) do not allow pictures of them to be passed on."""


# --- runs -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Run:
    """One script on one device: where its numbers and pictures go, and which are there already."""

    script: str
    device: str = "cpu"
    profile: str = "short"
    folder: Path = HERE
    again: bool = False
    recorded: bool = False
    closed: bool = False
    names: tuple = ()

    @property
    def toy(self):
        return self.profile == "toy"

    @property
    def place(self):
        """The device a fit is to move its array to; None for where it is."""
        return None if kind(self.device) == "cpu" else self.device

    @property
    def path(self):
        return self.folder / "results" / kind(self.device) / f"{self.script}.json"

    def found(self):
        """All units recorded so far, by name."""
        return read(self.path).get("units", {})

    def unit(self, name, work, **settings):
        """The recorded result of `work` under these settings, or a new one, recorded at once."""
        settings = json.loads(json.dumps({"profile": self.profile} | settings, default=str))
        done = self.folder / "kept" / kind(self.device) / f"{self.script}.done"
        own = done.read_text().splitlines() if done.exists() else []
        kept = self.found().get(name)
        same = kept is not None and kept["settings"] == settings
        if same and not self.again and (self.recorded or name in own):
            return kept["result"]
        result = json.loads(json.dumps(work(), default=plain))
        about = circumstances(self.device, code=code_of(settings))
        units = self.found() | {name: {"settings": settings, "result": result, "about": about}}
        write(self.path, {"script": self.script, "units": units})
        done.parent.mkdir(parents=True, exist_ok=True)
        done.write_text("\n".join(dict.fromkeys([*own, name])) + "\n")
        told = (
            {k: v for k, v in result.items() if np.ndim(v) == 0} if isinstance(result, dict) else {}
        )
        show = ", ".join(
            f"{k} {v:.4g}" if isinstance(v, float) else f"{k} {v}" for k, v in told.items()
        )
        print(f"[{self.script}] {name}: {show}", flush=True)
        return result

    def keep(self, name, values):
        """Put an array aside for pictures; never committed."""
        path = self.folder / "kept" / kind(self.device) / f"{name}.npz"
        path.parent.mkdir(parents=True, exist_ok=True)
        low, span = float(np.min(values)), float(np.ptp(values)) or 1.0
        codes = np.round((np.asarray(values) - low) * (65535 / span)).astype(np.uint16)
        np.savez_compressed(path, codes=codes, low=low, span=span)

    def kept(self, name):
        """An array put aside, or None."""
        path = self.folder / "kept" / kind(self.device) / f"{name}.npz"
        if not path.exists():
            return None
        with np.load(path) as f:
            return f["low"] + f["codes"] * (f["span"] / 65535)

    def figure(self, name):
        """Where a picture goes: those of data that may not be published stay out of the report."""
        folder = "private" if any(word in name for word in PRIVATE) else "figures"
        path = self.folder / folder / kind(self.device) / f"{name}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        return path


def code_of(settings):
    """The digest of the code that a unit of these settings is measured with."""
    return code(*(NETWORKS if "train" in settings or "rungs" in settings else LIBRARY))


def is_current(unit):
    """Whether a unit was measured with the code there is now, whatever else was committed since."""
    return unit["about"].get("code") == code_of(unit["settings"])


def at_hand(run, names):
    """Those of some data sets that can be had; the others are named once, and marked in the report."""
    found = []
    for name in names:
        if (not run.names or name in run.names) and missing(run, name) is None:
            found.append(name)
    return found


def missing(run, name):
    """Why a data set cannot be had, None if it can; asked once a run, as servers may not answer."""
    path = run.folder / "kept" / "missing.json"
    known = read(path)
    if name not in known:
        try:
            datasets.path(name)
            why = None
        except datasets.MissingDataError as error:
            why = str(error)
            if run.script != "run":  # which lists them all
                print(f"[{run.script}] skipped, data not at hand: {name}. {why}", flush=True)
        write(path, read(path) | {name: why})
        return why
    return known[name]


def main(compute, draw, script):
    """The command line of one script."""
    parser = argparse.ArgumentParser(description=compute.__doc__)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--profile", choices=PROFILES, help="by default full on a GPU, else short")
    parser.add_argument("--folder", type=Path, default=HERE, help="for results/ and figures/")
    parser.add_argument("--again", action="store_true", help="also what was done here already")
    parser.add_argument("--recorded", action="store_true", help="not what is recorded, by anybody")
    parser.add_argument("--closed", action="store_true", help="closed forms only, no training")
    parser.add_argument("--names", nargs="+", default=(), help="only these data sets")
    parser.add_argument("--draw", action="store_true", help="only the pictures, from the record")
    a = parser.parse_args()
    profile = a.profile or ("full" if kind(a.device) == "cuda" else "short")
    run = Run(script, a.device, profile, a.folder, a.again, a.recorded, a.closed, tuple(a.names))
    if not a.draw:
        compute(run)
    draw(run)


# --- data -----------------------------------------------------------------------------------------


def load(run, name, **prepare):
    """A data set's samples; a corner of them in a toy run."""
    values = np.asarray(datasets.load(name, **prepare), dtype=np.float64)
    if run.toy:
        d = values.ndim - (channel_axis(name) is not None)
        values = values[tuple(slice(0, 32 if k < 2 else 12) for k in range(d))]
    return values


def channel_axis(name):
    """Where a data set has its channels; they are last."""
    return datasets.about(name).channel_axis


# --- what is measured -----------------------------------------------------------------------------


def errors(truth, back, channels=None):
    """The paper's PSNR, and what it does not show."""
    return {
        "paper_psnr": ef.paper_psnr(truth, back, channel_axis=channels),
        "psnr": finite(ef.psnr(truth, back)),
        "mae": ef.mae(truth, back),
        "mae_of_max": ef.mae(truth, back) / float(np.max(truth)),
        "max_error": ef.max_error(truth, back),
    }


def finite(x):
    """A number JSON has; None for an exact fit's infinity."""
    return x if np.isfinite(x) else None


def cost(work, run):
    """Seconds, joules and grams of CO2 of `work`; short work is repeated, but not in a toy run."""
    spent = cost_of(work, run)[1]
    if spent["seconds"] < 2 and not run.toy:
        spent = _of(joules.of(work, least_seconds=0.3, device=run.device))
    return spent


def cost_of(work, run):
    """What `work` gives, run once, and its cost."""
    with joules.meter(run.device) as m:
        result = work()
    return result, _of(m)


def measured(work, run):
    """What `work` gives, and its cost: not of the first run on a card, which pays for libraries."""
    result, spent = cost_of(work, run)
    is_long = spent["seconds"] > 2 and run.place is None
    return result, spent if is_long or run.toy else cost(work, run)


def _of(m):
    spent = {"seconds": m.seconds, "joules": m.joules, "grams_co2": m.grams_co2}
    return spent | {"energy_source": m.source}


def cold_fit(run, values, settings, channels=None):
    """A field, nothing being kept from before."""
    ef.cache_modes(clear=True)
    return ef.fit(values, settings, channel_axis=channels, device=run.place)


def at_samples(run, values, settings, channels=None):
    """Errors at the samples and cold cost of a preset."""
    field, spent = measured(partial(cold_fit, run, values, settings, channels), run)
    numbers = {"coefficients_per_sample": field.model.n_coefficients / values.size}
    return errors(values, to_numpy(field.resize(field.shape)), channels) | numbers | spent


def one_by_one(run, values, settings):
    """The same for the paper's preset, each region solved by itself."""
    solve = partial(baselines.region_by_region, values, settings, device=run.device)
    found, spent = measured(solve, run)
    return errors(values, found) | spent


def rivals(run, name, values, channels=None):
    """Rows of splines and block cosines for one data set."""
    for word, order in SPLINES.items():
        run.unit(f"{name}: {word} spline", partial(spline, run, values, order, channels))
    run.unit(f"{name}: block cosines", partial(block_cosines, run, values, channels))


def closed_form(run, values, settings, channels=None, dtype=np.float64, picture=None):
    """One row for a preset: errors at and between the samples, size, cold cost."""
    y = values.astype(dtype)
    field, spent = measured(partial(cold_fit, run, y, settings, channels), run)
    back = to_numpy(field.resize(field.shape))
    if picture:
        run.keep(picture, back)
    between, _ = predicted(y, settings, channels=channels, device=run.place)
    return {
        **errors(y, back, channels),
        "heldout": score(y, between, channels=channels),
        "coefficients_per_sample": field.model.n_coefficients / y.size,
        **spent,
    }


def interpolated(values, at, channels=None):
    """Errors of ``at(values, grid)``, which goes through its samples, at and between them."""
    d = axes(values, channels)
    back = at(values, [np.arange(n, dtype=float) for n in values.shape[:d]])
    return {
        **errors(values, back, channels),
        "heldout": score(values, at(*halves(values, channels)), channels=channels),
        "coefficients_per_sample": 1.0,
    }


def spline(run, values, order, channels=None):
    """The same row for an interpolating spline of `scipy.ndimage`, mirrored at the edges."""
    planes = values[..., None] if channels is None else values

    def filtered():
        for c in range(planes.shape[-1]):
            scipy.ndimage.spline_filter(planes[..., c], order, mode="mirror")

    # A linear spline's samples are its coefficients.
    nothing = {"seconds": 0.0, "joules": 0.0, "grams_co2": 0.0, "energy_source": "nothing to do"}
    return {
        **interpolated(planes, lambda y, grid: spline_at(y, order, grid, -1), -1),
        **(cost(filtered, replace(run, device="cpu")) if order > 1 else nothing),
        "note": "seconds of the filter",
    }


def block_cosines(run, values, channels=None, cell=8):
    """The same row for cosines in blocks of 8 (JPEG's), all kept, read between the samples."""
    d = axes(values, channels)
    whole = [n // cell for n in values.shape[:d]]
    blocks = values[tuple(slice(0, n * cell) for n in whole)]
    blocks = blocks.reshape([m for n in whole for m in (n, cell)] + [-1])

    def transform():
        dctn(blocks, axes=range(1, 2 * d, 2), norm="ortho")

    return {
        **interpolated(values, lambda y, grid: cosines_at(y, grid, cell), channels),
        **cost(transform, replace(run, device="cpu")),
    }
