"""The pictures: kodim05, 08, 20, 24, cameraman and an MRI slice, every method beside the paper's.

    python paper/images.py                     closed form, and a hundred steps of training
    python paper/images.py --device cuda       the paper's 1000 steps, and tuned settings

Writes ``results/<device>/images.json`` and one picture per data set. Settings of the iterative
methods are those that won the search on kodim05 (``search.py``).
"""

from functools import partial

import numpy as np

import elmfield as ef
from common import at_hand, channel_axis, closed_form, load, main, rivals
from elmfield._array.backend import to_numpy
from figures import comparison, plt, save
from measurement.heldout import predicted, score, thinned
from measurement.rivals import spline
from paper.research import datasets
from paper.research.datasets.prepare import halved
from training import left_out, printed_settings, trained, tuned_settings

PRINTED = {  # SIREN, FFN, GaussNet, WIRE, ELM-INR; the paper's PSNR in dB
    "kodim05": (30.5, 25.5, 23.6, 28.9, 78.4),
    "kodim08": (27.3, 23.3, 20.4, 25.7, 77.1),
    "kodim20": (39.4, 34.2, 32.1, 41.0, 78.4),
    "kodim24": (27.9, 26.3, 24.2, 28.4, 79.0),
    "cameraman": (26.1, 24.5, 27.1, 27.2, 77.8),
    "mri": (33.7, 33.4, 29.2, 34.0, 79.8),
}

ORDER = ("kodim05", "kodim20", "cameraman", "kodim24", "kodim08", "mri")

LONG = ("kodim05", "kodim20", "cameraman")
"""Where tuned networks are trained for 1000 steps: where they were tuned, and 256 x 256. Else 500."""


def without_training(run, name, values, paper, channels=None):
    """The closed-form rows of one data set: the paper's preset, ours, splines, block cosines."""
    presets = {
        "ELM-INR": (paper, np.float64),
        "ELM-INR, float32": (paper, np.float32),
        "default": (ef.smooth(), np.float64),
        "oriented": (ef.oriented(), np.float64),
        "error target, as many coefficients": (ef.smooth(coefficients=values.size), np.float64),
    }
    for method, (settings, dtype) in presets.items():
        work = partial(
            closed_form, run, values, settings, channels, dtype,
            picture=f"{name}-{method}" if method in ("ELM-INR", "default") else None,
        )  # fmt: skip
        run.unit(f"{name}: {method}", work, preset=repr(settings), dtype=np.dtype(dtype).name)
    rivals(run, name, values, channels)


def load_camera():
    """The picture that comes with scikit-image, halved: what anybody can repeat."""
    return np.asarray(halved(np.asarray(datasets.load("camera"), np.float64)))


def load_magnitude():
    """The magnitude picture of raw k-space, in thousandths."""
    return 1e3 * np.asarray(datasets.load("kspace", prepare="magnitude"))


def coils(run, settings):
    """Raw k-space itself, complex, all coils as channels: what a fit leaves over at its samples."""
    k = np.asarray(datasets.load("kspace"), np.complex128)
    field = ef.fit(k, settings, channel_axis=-1)
    back = to_numpy(field.samples())
    return {"psnr": ef.psnr(k, back), "max_error": ef.max_error(k, back)}


def compute(run):
    """Fit and train on all pictures, the most telling first."""
    names = ("kodim05", "cameraman") if run.toy else sorted(PRINTED, key=ORDER.index)
    names = at_hand(run, names)
    cell = 16 if run.toy else 32
    for name in names:
        without_training(run, name, load(run, name), ef.paper(cell=cell, width=cell**2))
    more = {"camera": load_camera, "kspace": load_magnitude}
    for name in at_hand(run, () if run.toy else more):
        without_training(run, name, more[name](), ef.paper(cell=cell, width=cell**2))
    if at_hand(run, () if run.toy else ["kspace"]):
        run.unit("kspace: coils, ELM-INR", partial(coils, run, ef.paper(cell=cell, width=cell**2)))
    jobs = []
    for name in names:
        tuned = tuned_settings(run, steps=1000 if name in LONG else 500)
        rows = printed_settings(run, steps=1000) | {f"{m}, tuned": s for m, s in tuned.items()}
        jobs += [(name, label, load(run, name), settings) for label, settings in rows.items()]
    for job in jobs:
        trained(run, *job)
    for job in jobs:
        if run.profile == "full" or job[0] in LONG:
            left_out(run, *job)


def between_the_samples(run, name="kodim05"):
    """Every second sample fitted, all drawn: the printed setting, a cubic spline, our default."""
    values = load(run, name)
    cell = 16 if run.toy else 32
    shown = {"every second sample": np.kron(thinned(values), np.ones((2, 2)))}
    for word, settings in (("ELM-INR", ef.paper(cell=cell, width=cell**2)), ("default", None)):
        shown[word], _ = predicted(values, settings)
    shown["cubic spline"] = spline(values, 3)
    size = min(160, *values.shape)
    part = tuple(slice((n - size) // 2, (n - size) // 2 + size) for n in values.shape)
    figure, axes = plt.subplots(1, 5, figsize=(11, 2.6), layout="constrained")
    shown = {"truth": values} | shown
    for ax, (word, picture) in zip(axes, shown.items()):
        ax.imshow(picture[part], cmap="gray", vmin=0, vmax=255, interpolation="nearest")
        held = "" if word == "truth" else f"\n{score(values, picture):.1f} dB held out"
        ax.set_title(word + held)
        ax.set_axis_off()
    save(figure, run.figure("between"))


def draw(run):
    """Each picture by every method, with its error; and what lies between the samples."""
    if at_hand(run, ["kodim05"]):
        between_the_samples(run)
    for name in at_hand(run, PRINTED):
        comparison(run, name, channels=channel_axis(name))


if __name__ == "__main__":
    main(compute, draw, "images")
