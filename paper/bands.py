"""Satellite scenes band by band, and where two closed forms are wrong: at and between the samples.

    python paper/bands.py [--device cuda]

Writes ``results/<device>/bands.json`` (a square of 256 samples per scene: all of it fitted, then
every second sample of it) and the pictures: all bands in grey, composites and error maps. The
scenes stand in for the paper's, which are commercial; satellite.py has the whole scenes' table.
"""

from functools import partial

import numpy as np
from matplotlib.colors import LogNorm

import elmfield as ef
from common import at_hand, cold_fit, cost_of, load, main
from elmfield._array.backend import to_numpy
from figures import RGB, plt, save, shown
from measurement.heldout import predicted, score
from paper.research import datasets

BANDS = {
    "worldview": (
        ("B1", "coastal", "400–450"), ("B2", "blue", "450–510"), ("B3", "green", "510–580"),
        ("B4", "yellow", "585–625"), ("B5", "red", "630–690"), ("B6", "red edge", "705–745"),
        ("B7", "NIR-1", "770–895"), ("B8", "NIR-2", "860–1040"),
    ),
    "sentinel2": (
        ("B1", "coastal aerosol", "433–453"), ("B2", "blue", "458–523"),
        ("B3", "green", "543–578"), ("B4", "red", "650–680"), ("B5", "red edge 1", "698–713"),
        ("B6", "red edge 2", "733–748"), ("B7", "red edge 3", "773–793"),
        ("B8", "NIR", "785–900"), ("B8A", "narrow NIR", "855–875"),
        ("B9", "water vapour", "935–955"), ("B11", "SWIR", "1565–1655"),
        ("B12", "SWIR", "2100–2280"),
    ),
}  # fmt: skip
"""Names and wavelengths in nm, as the paper's tables have them."""

USAGE = {
    "worldview": (
        "coastal monitoring and atmospheric correction", "aerosol/haze effects and water quality cues",
        "vegetation vigor and true-color rendering", "vegetation stress and chlorosis cues",
        "chlorophyll absorption and vegetation discrimination",
        "chlorophyll-related sensitivity and crop condition monitoring",
        "biomass estimation, soil moisture, water body delineation",
        "vegetation and moisture-related sensitivity",
    ),
    "sentinel2": (
        "atmospheric correction", "water body analysis", "vegetation monitoring",
        "vegetation and soil analysis", "vegetation monitoring", "vegetation structure analysis",
        "vegetation chlorophyll assessment", "biomass and vegetation vigor monitoring",
        "vegetation monitoring", "cloud screening and water vapour analysis",
        "cloud and snow monitoring", "soil and water content analysis",
    ),
}  # fmt: skip
"""Primary usage, as the paper's tables have it."""

PART = 96
"""Samples along a side of the error maps: pixels should be seen."""

AT, BETWEEN = "error at its samples", "error between"


def settings(run):
    """The paper's preset for scenes, and ours."""
    cell = 8 if run.toy else 64
    return {"ELM-INR": ef.paper(cell=cell, width=cell**2), "default": ef.smooth()}


def square(run, name):
    """The 256 x 256 samples in the middle, all bands."""
    values = load(run, name)
    size = min(256, *values.shape[:2])
    a, b = ((n - size) // 2 for n in values.shape[:2])
    return values[a : a + size, b : b + size]


def errors(run, name, method, preset):
    """One row; the composite from every second sample and both error maps are kept."""
    values = square(run, name)
    field, spent = cost_of(partial(cold_fit, run, values, preset, -1), run)
    back = to_numpy(field.resize(field.shape))
    guess, _ = predicted(values, preset, channels=-1, device=run.place)
    rgb, span = list(RGB[values.shape[-1]]), float(np.ptp(values))
    run.keep(f"bands-{name}-{method}-{AT}", np.abs(back - values)[..., rgb].mean(-1) / span)
    off = np.abs(guess - values)[1::2, 1::2, rgb]  # the samples farthest from those fitted
    run.keep(f"bands-{name}-{method}-{BETWEEN}", off.mean(-1) / span)
    run.keep(f"bands-{name}-{method}", guess[..., rgb])
    return {
        "paper_psnr": ef.paper_psnr(values, back, channel_axis=-1),
        "psnr": ef.psnr(values, back),
        "max_error": ef.max_error(values, back),
        "heldout": score(values, guess, channels=-1),
        "range": span,
        "coefficients_per_sample": field.model.n_coefficients / values.size,
        "seconds_fit": spent["seconds"],
    }


def compute(run):
    """Both presets on a square of each scene."""
    for name in at_hand(run, BANDS):
        for method, preset in settings(run).items():
            work = partial(errors, run, name, method, preset)
            status = datasets.about(name).status
            run.unit(f"{name}: {method}", work, preset=repr(preset), status=status)


# --- pictures -------------------------------------------------------------------------------------


def bare(ax, title=""):
    """No ticks, no frame."""
    ax.set_axis_off()
    ax.set_title(title)


def all_bands(run, name):
    """Every band in grey."""
    values = load(run, name)
    rows = len(BANDS[name]) // 4
    figure, axes = plt.subplots(rows, 4, figsize=(7.4, 2.1 * rows), layout="constrained")
    for k, (ax, (band, words, nm)) in enumerate(zip(axes.flat, BANDS[name])):
        ax.imshow(shown(values[..., k])[0], cmap="gray", vmin=0, vmax=1)
        bare(ax, f"{band}  {words}\n{nm} nm")
        ax.title.set_fontsize(8)
    save(figure, run.figure(f"bands-{name}"))


def error_maps(run, name):
    """By method: error where it was fitted; then every second sample fitted, seen everywhere."""
    found, kept = run.found(), {}
    for method in settings(run):
        if f"{name}: {method}" in found:
            ends = (f"-{AT}", "", f"-{BETWEEN}")
            kept[method] = [run.kept(f"bands-{name}-{method}{end}") for end in ends]
    if not kept or any(k is None for parts in kept.values() for k in parts):
        return
    truth, limits = shown(square(run, name), -1)
    n = min(PART, len(truth))
    a = (len(truth) - n) // 4 * 2  # even: among the samples that stay
    part, thin = (slice(a, a + n),) * 2, (slice(a // 2, (a + n) // 2),) * 2
    truth = truth[part]
    figure, axes = plt.subplots(2, 4, figsize=(7.4, 4.3), layout="constrained")
    axes[0, 0].imshow(truth, interpolation="nearest")
    bare(axes[0, 0], "truth\n")
    axes[1, 0].imshow(truth[::2, ::2], interpolation="nearest")
    bare(axes[1, 0], "every second sample\nper axis")
    look = {"cmap": "magma", "norm": LogNorm(1e-16, 1), "interpolation": "nearest"}
    for ax in axes[:, 1:].flat:
        bare(ax)
    for line, (method, (at, picture, off)) in zip(axes[:, 1:], kept.items()):
        r = found[f"{name}: {method}"]["result"]
        drawn = line[0].imshow(np.maximum(at[part], 1e-16), **look)
        bare(line[0], f"{method}, all fitted:\nerror, {r['psnr']:.0f} dB")
        line[1].imshow(shown(picture[part], -1, limits)[0], interpolation="nearest")
        bare(line[1], f"{method},\nevery second fitted")
        line[2].imshow(np.maximum(off[thin], 1e-16), **look)
        bare(line[2], f"its error, {r['heldout']:.1f} dB\nat samples left out")
    bar = figure.colorbar(drawn, ax=axes, shrink=0.8, aspect=28, pad=0.02)
    bar.set_label("error, part of the range")
    save(figure, run.figure(f"bands-{name}-errors"))


def draw(run):
    """Bands and error maps of each scene."""
    for name in at_hand(run, BANDS):
        all_bands(run, name)
        error_maps(run, name)


if __name__ == "__main__":
    main(compute, draw, "bands")
