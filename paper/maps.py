"""Temperature on the globe: the seasons, partitions and errors of BEAM, and a look between samples.

    python paper/maps.py [--device cuda]

Draws the reconstructions that beam.py kept, and makes those that are not there. Pixels ask for
values at their own latitude and longitude, which a Field gives anywhere: no projection library is
needed. Writes ``results/<device>/maps.json`` (the close-up) and the pictures; errors of the globes
are beam.py's numbers, since arrays are kept in 16 bits. Equal-area maps are Mollweide's.
"""

from dataclasses import replace
from functools import partial

import numpy as np
from scipy.ndimage import uniform_filter

import elmfield as ef
from beam import NATURAL, cells, fitted, kept_as, partitions, widths
from common import at_hand, cold_fit, cost_of, load, main
from elmfield._array.backend import to_numpy
from figures import plt, save
from measurement.heldout import predicted, score
from paper.research import datasets

NAME = "era5-winter"
SEASONS = {
    "spring": "era5-spring",
    "summer": "era5-summer",
    "autumn": "era5-autumn",
    "winter": NAME,
}
FIRST = {"era5-autumn": -180.0}
"""Longitude of the first column, where it is not 0."""

ROWS = {
    "regular": "regular mesh",
    "BEAM": "BEAM",
    "by need": "the default Field,\nasked at each pixel",
}
VIEW = (35.0, 15.0)
"""Latitude and longitude in the middle of the globes."""

CLOSE = (44.0, 11.0, 0.1)
"""The close-up: latitude, longitude, half its width in radii of the Earth."""


# --- where pixels lie -----------------------------------------------------------------------------


def globe(n, latitude, longitude, half=1.0):
    """Latitude and longitude of n by n pixels of the Earth seen from far away; NaN beside it."""
    x, y = np.meshgrid(half * middles(n), -half * middles(n))
    rho = np.hypot(x, y)
    with np.errstate(invalid="ignore", divide="ignore"):
        c = np.arcsin(rho)  # NaN off the disc
        f = np.where(rho > 0, np.sin(c) / rho, 1)
    p = np.radians(latitude)
    lat = np.arcsin(np.clip(np.cos(c) * np.sin(p) + y * f * np.cos(p), -1, 1))
    lon = np.arctan2(x * f, np.cos(c) * np.cos(p) - y * f * np.sin(p))
    return np.degrees(lat), np.where(np.isnan(c), np.nan, longitude + np.degrees(lon))


def mollweide(n, longitude=0.0):
    """Latitude and longitude of n by 2n pixels of an equal-area map; NaN beside it."""
    x, y = np.meshgrid(2 * middles(2 * n), -middles(n))
    theta = np.arcsin(y)
    lat = np.degrees(np.arcsin((2 * theta + np.sin(2 * theta)) / np.pi))
    lon = 90 * x / np.cos(theta)
    off = np.abs(lon) > 180
    return np.where(off, np.nan, lat), np.where(off, np.nan, longitude + lon)


def middles(n):
    """Middles of n equal parts of [-1, 1]."""
    return (2 * np.arange(n) + 1) / n - 1


def indices(name, shape, lat, lon):
    """Coordinates among the samples: rows run from 90 to -90, columns once around."""
    n0, n1 = shape
    return (90 - lat) * (n0 - 1) / 180, (lon - FIRST.get(name, 0.0)) % 360 * n1 / 360


def nearest(name, values, pixels):
    """The sample next to each pixel; NaN beside the Earth."""
    row, column = indices(name, values.shape, *pixels)
    inside = np.isfinite(row)
    i = np.rint(np.where(inside, row, 0)).astype(int)
    j = np.rint(np.where(inside, column, 0)).astype(int) % values.shape[1]
    return np.where(inside, values[i, j], np.nan)


def called(field, name, pixels):
    """A field at the pixels; NaN beside the Earth."""
    row, column = indices(name, field.shape, *pixels)
    inside = np.isfinite(row)
    out = np.full(row.shape, np.nan)
    out[inside] = to_numpy(field(np.stack([row[inside], column[inside]], axis=-1)))
    return out


def fences(partition, name, pixels):
    """Pixels where a region ends."""
    found = indices(name, partition.shape, *pixels)
    cell = [
        np.clip(np.searchsorted(partition.borders(k), i) - 1, 0, partition.labels.shape[k] - 1)
        for k, i in enumerate(found)
    ]
    label = np.where(np.isfinite(found[0]), partition.labels[cell[0], cell[1]], np.nan)
    edge = np.zeros(label.shape, bool)
    edge[:-1] |= np.abs(np.diff(label, axis=0)) > 0  # NaN, beside the Earth, is not above 0
    edge[:, :-1] |= np.abs(np.diff(label, axis=1)) > 0
    return edge


# --- numbers --------------------------------------------------------------------------------------


def reconstruct(run, variant, width):
    """Keep samples of winter's temperature, where beam.py did not."""
    key = kept_as(NAME, variant, width)
    if run.kept(key) is not None:
        return
    values = load(run, NAME)
    made = partitions(run, NAME, values)
    if variant == "by need":
        total = made["regular"][0].n_regions * width
        field, _ = fitted(run, values, ef.smooth(coefficients=total))
    else:
        field, _ = fitted(run, values, ef.paper(width=width), made[variant][0])
    run.keep(key, to_numpy(field.resize(field.shape)))


def window(run):
    """Two by two cells of samples around the close-up; and where they begin."""
    values = load(run, NAME)
    size = 16 if run.toy else 128
    row, column = indices(NAME, values.shape, *CLOSE[:2])
    start = [
        int(np.clip(round(i) - size // 2, 0, n - size)) for i, n in zip((row, column), values.shape)
    ]
    return values[start[0] : start[0] + size, start[1] : start[1] + size], start


def settings(run):
    """The two fields of the close-up."""
    cell = 8 if run.toy else 64
    return {"ELM-INR, m = S": ef.paper(cell=cell, width=cell**2), "default": ef.smooth()}


def close_up(run, method):
    """Errors at the samples, and between them when every second one is fitted; pixels are kept."""
    values, start = window(run)
    field, spent = cost_of(partial(cold_fit, run, values, settings(run)[method]), run)
    row, column = indices(NAME, load(run, NAME).shape, *globe(close_pixels(run), *CLOSE))
    at = np.stack([row - start[0], column - start[1]], axis=-1)
    run.keep(f"maps-close-{method}", to_numpy(field(at, outside="nearest")))
    between, _ = predicted(values, settings(run)[method], device=run.place)
    left_out = np.ones(values.shape, bool)
    left_out[::2, ::2] = False
    return {
        "mae": ef.mae(values, to_numpy(field.resize(field.shape))),
        "mae_between": float(np.abs(between - values)[left_out].mean()),
        "heldout": score(values, between),
        "coefficients_per_sample": field.model.n_coefficients / values.size,
        "seconds_fit": spent["seconds"],
    }


def close_pixels(run):
    """Pixels along a side of the close-up."""
    return 24 if run.toy else 320


def compute(run):
    """The close-up, and reconstructions that beam.py did not keep."""
    if not at_hand(run, [NAME]):
        return
    for method, preset in settings(run).items():
        work = partial(close_up, run, method)
        run.unit(f"{NAME}: close-up, {method}", work, preset=repr(preset), view=CLOSE)
    for variant in ROWS:
        for width in widths(run, NAME):
            reconstruct(run, variant, width)


# --- pictures -------------------------------------------------------------------------------------


def seasons(run):
    """The four data sets on equal-area maps."""
    if not at_hand(run, SEASONS.values()):
        return
    figure, axes = plt.subplots(2, 2, figsize=(7.4, 4.3), layout="constrained")
    pixels = mollweide(60 if run.toy else 330)
    for ax, (season, name) in zip(axes.flat, SEASONS.items()):
        if not at_hand(run, [name]):
            ax.set_axis_off()
            continue
        drawn = show(
            ax, nearest(name, load(run, name), pixels) - 273.15, "RdYlBu_r", (-45, 45), (2, 1)
        )
        data = datasets.about(name)
        title = data.title.replace(" 2 m temperature", "")
        ax.set_title(f"{season}: {title}\n({data.status})", fontsize=8)
    bar = figure.colorbar(drawn, ax=axes, shrink=0.55, aspect=25, extend="both", pad=0.02)
    bar.set_label("temperature at 2 m, °C")
    save(figure, run.figure("maps-seasons"))


def show(ax, picture, cmap, limits, half=(1, 1)):
    """Pixels of a globe or map, with its outline; nothing around it."""
    from matplotlib.patches import Ellipse

    a, b = half
    drawn = ax.imshow(picture, cmap=cmap, vmin=limits[0], vmax=limits[1], extent=(-a, a, -b, b),
                      interpolation="nearest")  # fmt: skip
    ax.add_patch(Ellipse((0, 0), 2 * a, 2 * b, fill=False, lw=0.8, ec="#444444", clip_on=False))
    ax.set_axis_off()
    return drawn


def globes(run):
    """Partitions over the temperature, and the errors at both widths, in kelvin."""
    values, found = load(run, NAME), replace(run, script="beam").found()
    backs = {(v, m): run.kept(kept_as(NAME, v, m)) for v in ROWS for m in widths(run, NAME)}
    if any(back is None for back in backs.values()):
        return
    made = partitions(run, NAME, values)
    pixels = globe(80 if run.toy else 300, *VIEW)
    field = ef.fit(values, periodic=(1,))
    truth = called(field, NAME, pixels) - 273.15
    figure, axes = plt.subplots(len(ROWS), 3, figsize=(6.6, 7.2), layout="constrained")
    for line, (variant, words) in zip(axes, ROWS.items()):
        warm = show(line[0], truth, "RdYlBu_r", (-40, 40))
        N = made["regular"][0].n_regions
        line[0].set_title(f"{words}, N = {N}" if variant in made else words)
        if variant in made:
            edge = np.where(fences(made[variant][0], NAME, pixels), 1.0, np.nan)
            line[0].imshow(edge, cmap="gray_r", vmin=0, vmax=1, extent=(-1, 1, -1, 1))
        for ax, width in zip(line[1:], widths(run, NAME)):
            off = np.abs(backs[variant, width] - values)
            local = uniform_filter(off, 5, mode=("nearest", "wrap"))
            drawn = show(ax, nearest(NAME, local, pixels), "magma_r", (0, 1))
            unit = found.get(f"{NAME}: {variant}, m = {width}")
            many = f"m = {width}" if variant in made else f"ours, N m = {N * width}"
            mae = "" if unit is None else f"MAE {unit['result']['mae']:.3f} K"
            ax.set_title(f"{many}: {mae}" if variant in made else f"{many} numbers:\n{mae}")
    below = {"location": "bottom", "shrink": 0.8, "aspect": 25, "pad": 0.02, "extend": "both"}
    figure.colorbar(warm, ax=axes[:, 0], **below).set_label("temperature at 2 m, °C")
    below |= {"shrink": 0.5, "aspect": 32, "extend": "max"}
    figure.colorbar(drawn, ax=axes[:, 1:], **below).set_label(
        "mean absolute error over 5 × 5 samples, K"
    )
    save(figure, run.figure("maps-beam"))


def closer(run):
    """The samples as they are, and two functions through them, between the samples."""
    found, panels = run.found(), {}
    pixels = globe(close_pixels(run), *CLOSE)
    for method in settings(run):
        if unit := found.get(f"{NAME}: close-up, {method}"):
            error = unit["result"]["mae_between"]
            title = f"{method}\nleft-out samples: MAE {error:.2f} K"
            panels[title] = run.kept(f"maps-close-{method}")
    if not panels or any(p is None for p in panels.values()):
        return
    samples = nearest(NAME, load(run, NAME), pixels)
    panels = {"samples, 0.25° apart": samples} | panels
    truth = samples - 273.15
    low, high = np.floor(truth.min()), np.ceil(truth.max())
    figure, axes = plt.subplots(
        1, len(panels), figsize=(7.4, 2.9), layout="constrained", squeeze=False
    )
    for ax, (title, picture) in zip(axes[0], panels.items()):
        drawn = ax.imshow(
            picture - 273.15, cmap="RdYlBu_r", vmin=low, vmax=high, interpolation="nearest"
        )
        ax.set_title(title)
        ax.set_axis_off()
    bar = figure.colorbar(drawn, ax=axes, shrink=0.75, aspect=18, extend="both", pad=0.02)
    bar.set_label("temperature at 2 m, °C")
    save(figure, run.figure("maps-close"))


def every_season(run):
    """BEAM's partition of every season, and the errors of both partitions at the smaller width."""
    names = at_hand(run, SEASONS.values())
    width = widths(run, NAME)[0]
    backs = {(n, v): run.kept(kept_as(n, v, width)) for n in names for v in ("regular", NATURAL)}
    names = [n for n in names if all(backs[n, v] is not None for v in ("regular", NATURAL))]
    if not names:
        return
    found = replace(run, script="beam").found()
    figure, axes = plt.subplots(
        len(names), 3, figsize=(7.4, 1.5 * len(names) + 0.5), layout="constrained", squeeze=False
    )
    pixels = mollweide(60 if run.toy else 330)
    for line, name in zip(axes, names):
        values, atom = load(run, name), cells(run, name)[1]
        N = ef.Partition.regular(values.shape, cells(run, name)[0]).n_regions
        partition = ef.beam(values, cell=atom, regions=N, normalisation="backward")
        show(line[0], nearest(name, values, pixels) - 273.15, "RdYlBu_r", (-45, 45), (2, 1))
        edge = np.where(fences(partition, name, pixels), 1.0, np.nan)
        line[0].imshow(edge, cmap="gray_r", vmin=0, vmax=1, extent=(-2, 2, -1, 1))
        line[0].set_title(f"{name}: BEAM, N = {N}", fontsize=8)
        for ax, variant in zip(line[1:], ("regular", NATURAL)):
            local = uniform_filter(np.abs(backs[name, variant] - values), 5, mode="nearest")
            drawn = show(ax, nearest(name, local, pixels), "magma_r", (0, 1), (2, 1))
            unit = found.get(f"{name}: {variant}, m = {width}")
            mae = "" if unit is None else f": MAE {unit['result']['mae']:.3f} K"
            ax.set_title(f"{variant}, m = {width}{mae}", fontsize=8)
    bar = figure.colorbar(drawn, ax=axes[:, 1:], shrink=0.6, aspect=25, extend="max", pad=0.02)
    bar.set_label("mean absolute error over 5 × 5 samples, K")
    save(figure, run.figure("maps-seasons-beam"))


def draw(run):
    """Seasons, partitions with errors, the close-up."""
    seasons(run)
    every_season(run)
    if at_hand(run, [NAME]):
        globes(run)
        closer(run)


if __name__ == "__main__":
    main(compute, draw, "maps")
