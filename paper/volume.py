"""Navier-Stokes, 128 x 128 x 100: the volume seen from outside with a corner cut away, and slices.

    python paper/volume.py [--device cuda]

Writes ``results/<device>/volume.json`` (errors at the samples, and between them in space) and the
pictures, with the iterative methods that navier_stokes.py recorded and kept. ELM-INR
here is the reading with as many neurons as samples: each time step a picture in cells of 64.
"""

from dataclasses import replace
from functools import partial

import numpy as np
from matplotlib.colors import LogNorm
from matplotlib.transforms import Affine2D

import elmfield as ef
from common import ITERATIVE, at_hand, cold_fit, cost_of, load, main
from elmfield._array.backend import to_numpy
from figures import plt, save
from measurement.heldout import places

NAME = "navier-stokes"
TUNED = (*(f"{m}, tuned" for m in ITERATIVE), "hash grid, tuned")
EXACT, WRONG = (1e-16, 1e-5), (3e-4, 10)
"""Ranges of |error|: of the closed forms at their samples; at those left out, and of networks,
whose samples are kept in 16 bits: no finer than 4e-4."""

KEPT = {"ELM-INR": "ELM-INR, S = m"}
"""What navier_stokes.py calls a method, where it is not the same."""

HEIGHT, ACROSS, DOWN = 1.15, np.sqrt(3) / 2, 0.5
"""The projection: length of the time axis, and where x and y go."""

LINE = {"color": "#333333", "lw": 0.7, "solid_capstyle": "round"}


# --- numbers --------------------------------------------------------------------------------------


def settings(run):
    """Preset and channel axis by method."""
    cell = 8 if run.toy else 64
    return {
        "ELM-INR": (ef.paper(cell=cell, width=cell**2), -1),
        "default": (ef.smooth(), None),
        "oriented": (ef.oriented(), None),
    }


def errors(run, method):
    """One row; the samples and the errors on two slices are kept."""
    w = load(run, NAME)
    preset, channels = settings(run)[method]
    field, spent = cost_of(partial(cold_fit, run, w, preset, channels), run)
    back = to_numpy(field.resize(field.shape))
    thin = ef.fit(w[::2, ::2], preset, channel_axis=channels, device=run.place)
    grid = places(w.shape[:2])
    grid += [] if channels is not None else [np.arange(w.shape[2])]
    guess = to_numpy(thin.grid(*grid, outside="nearest"))
    left_out = np.ones(w.shape[:2], bool)
    left_out[::2, ::2] = False
    run.keep(f"volume-{method}", back)
    for k, part in enumerate(slices(back - w)):
        run.keep(f"volume-{method}-at-{k}", part)
    for k, part in enumerate(slices(guess - w)):  # only what was left out on both axes
        run.keep(f"volume-{method}-between-{k}", part[1::2, 1::2] if k == 0 else part[:, 1::2])
    return {
        "mae": ef.mae(w, back),
        "max_error": ef.max_error(w, back),
        "mae_between": float(np.abs(guess - w)[left_out].mean()),
        "coefficients_per_sample": field.model.n_coefficients / w.size,
        "seconds_fit": spent["seconds"],
    }


def slices(w):
    """The plane of the middle time, and a plane near the middle of y whose samples are left out."""
    return w[:, :, w.shape[2] // 2 - 1].T, w[:, w.shape[1] // 2 + 1].T


def compute(run):
    """The closed forms: every sample fitted, and every second one in space."""
    if not at_hand(run, [NAME]):
        return
    for method, (preset, channels) in settings(run).items():
        work = partial(errors, run, method)
        run.unit(f"{NAME}: {method}", work, preset=repr(preset), channels=channels)


# --- the volume -----------------------------------------------------------------------------------


def projected(x, y, t):
    """Where a point of the unit cube is drawn: x to the lower right, y to the lower left, t up."""
    return ACROSS * (x - y), HEIGHT * t - DOWN * (x + y)


def face(ax, picture, origin, first, second, shade, **look):
    """A rectangle in space with `picture` (rows along `second`) on it; darker by `shade`."""
    o, a, b = (np.array(projected(*p)) for p in (origin, first, second))
    to = Affine2D(np.array([[*c] for c in ((a[0], b[0], o[0]), (a[1], b[1], o[1]), (0, 0, 1))]))
    place = {"extent": (0, 1, 0, 1), "origin": "lower", "transform": to + ax.transData}
    drawn = ax.imshow(picture, **place, **look)
    veil = np.where(np.isnan(picture), 0.0, shade)
    black = np.stack([np.zeros_like(veil)] * 3 + [veil], axis=-1)
    ax.imshow(black, **place, interpolation="nearest")
    corners = np.array([o, o + a, o + a + b, o + b, o])
    if not np.isnan(picture).any():
        ax.plot(*corners.T, **LINE)
    return drawn


def cut_box(ax, w, limits, cmap="RdBu_r"):
    """The volume from outside, without the half of each axis that is nearest to the reader."""
    look = {"cmap": cmap, "vmin": limits[0], "vmax": limits[1], "interpolation": "nearest"}
    h = [n // 2 for n in w.shape]
    outer = [w[:, :, -1].T.copy(), w[-1].T.copy(), w[:, -1].T.copy()]  # rows y, t, t
    outer[0][h[1] :, h[0] :] = np.nan
    outer[1][h[2] :, h[1] :] = np.nan
    outer[2][h[2] :, h[0] :] = np.nan
    q = [k / n for k, n in zip(h, w.shape)]
    r = [1 - v for v in q]
    ex, ey, et = np.eye(3)
    drawn = face(ax, outer[0], et, ex, ey, 0.0, **look)
    face(ax, outer[1], ex, ey, et, 0.12, **look)
    face(ax, outer[2], ey, ex, et, 0.22, **look)
    face(ax, w[h[0] :, h[1] :, h[2]].T, q, r[0] * ex, r[1] * ey, 0.0, **look)
    face(ax, w[h[0], h[1] :, h[2] :].T, q, r[1] * ey, r[2] * et, 0.12, **look)
    face(ax, w[h[0] :, h[1], h[2] :].T, q, r[0] * ex, r[2] * et, 0.22, **look)
    for line in outline(q):
        ax.plot(*np.array([projected(*p) for p in line]).T, **LINE)
    ax.set(xlim=(-1.0, 1.0), ylim=(-1.12, HEIGHT + 0.1), aspect="equal")
    ax.set_axis_off()
    return drawn


def outline(q):
    """Edges of the cube with a corner missing that its faces do not draw."""
    x, y, t = q
    yield (0, 0, 1), (1, 0, 1), (1, 0, 0), (1, 1, 0), (0, 1, 0), (0, 1, 1), (0, 0, 1)
    yield (1, 0, 1), (1, y, 1), (1, y, t), (1, 1, t), (1, 1, 0)
    yield (0, 1, 1), (x, 1, 1), (x, 1, t), (1, 1, t)
    yield (x, 1, 1), (x, y, 1), (1, y, 1)


def name_axes(ax):
    """x, y and t beside the edges they run along."""
    places = {"x": (0.5, 1.0, 0), "y": (1.0, 0.5, 0), "t": (0, 1, 0.5)}
    shift = {"x": (-5, -9), "y": (5, -9), "t": (-8, 0)}
    for name, at in places.items():
        ax.annotate(name, projected(*at), shift[name], textcoords="offset points", ha="center",
                    va="center", style="italic", annotation_clip=False)  # fmt: skip


def reconstructions(run):
    """Samples and MAE of every method recorded; nothing where some of the samples are not kept."""
    w, made = load(run, NAME), {}
    found = replace(run, script="navier_stokes").found() | run.found()
    for method in (*settings(run), *ITERATIVE, *TUNED):
        unit = found.get(f"{NAME}: {method}")
        back = run.kept(f"volume-{method}") if method in settings(run) else None
        back = run.kept(f"{NAME}-{KEPT.get(method, method)}") if back is None else back
        if unit is not None:
            if back is None or back.shape != w.shape:
                return {}
            # The MAE never from the array: it is kept in 16 bits.
            made[method] = back, unit["result"]["mae"]
    return made


def volumes(run, made):
    """The truth and every method, from outside."""
    w = load(run, NAME)
    made = {m: a for m, a in made.items() if m != "oriented"}  # to the eye the default
    top = float(np.percentile(np.abs(w), 99.8))
    columns = min(len(made) + 1, 4)
    rows = -(-(len(made) + 1) // columns)
    figure, axes = plt.subplots(rows, columns, figsize=(1.95 * columns + 0.7, 2.6 * rows),
                                layout="constrained", squeeze=False)  # fmt: skip
    for ax in axes.flat:
        ax.set_axis_off()
    drawn = cut_box(axes.flat[0], w, (-top, top))
    axes.flat[0].set_title("truth\n")
    name_axes(axes.flat[0])
    for ax, (method, (back, mae)) in zip(axes.flat[1:], made.items()):
        cut_box(ax, back, (-top, top))
        ax.set_title(f"{method}\nMAE {mae:.1e}")
    bar = figure.colorbar(drawn, ax=axes, shrink=0.6, aspect=25, extend="both", pad=0.02)
    bar.set_label("vorticity")
    save(figure, run.figure("volume"))


# --- slices ---------------------------------------------------------------------------------------


def closed_blocks(run):
    """Errors of the closed forms by panel title: at the samples, and at those left out."""
    at, between = {}, {}
    for method in settings(run):
        if unit := run.found().get(f"{NAME}: {method}"):
            for block, words, key in ((at, "at", "mae"), (between, "between", "mae_between")):
                parts = [run.kept(f"volume-{method}-{words}-{k}") for k in (0, 1)]
                block[f"{method}\nMAE {unit['result'][key]:.1e}"] = parts
    return {"at samples": at, "left out": between}


def network_blocks(run, made):
    """Errors of the networks at the samples by panel title: as printed, and tuned."""
    w, blocks = load(run, NAME), []
    for names in (ITERATIVE, TUNED):
        here = {m: made[m] for m in names if m in made}
        blocks.append({
            f"{m}\nMAE {mae:.1e}": slices(back - w) for m, (back, mae) in here.items()
        })  # fmt: skip
    if sum(map(len, blocks)) <= len(TUNED):  # room for all in one line
        return {"at samples": blocks[0] | blocks[1]}
    return dict(zip(("as printed", "tuned"), blocks))


def pair(above, below, parts, **look):
    """The two planes of a panel, one above the other."""
    for ax, part in zip((above, below), parts):
        ax.set_visible(True)
        drawn = ax.imshow(part, origin="lower", interpolation="nearest", aspect="auto", **look)
        ax.set(xticks=[], yticks=[])
        for spine in ax.spines.values():
            spine.set_visible(False)
    return drawn


def panel_grid(figure, blocks, columns, ranges):
    """Lines of panels, a colour bar beside each line; the axes of the planes by line and column."""
    axes = figure.subplots(2 * len(blocks), columns, squeeze=False,
                           gridspec_kw={"height_ratios": (1, 0.6) * len(blocks)})  # fmt: skip
    for ax in axes.flat:
        ax.set_visible(False)
    start = columns - max(map(len, blocks.values()))
    for k, (words, block) in enumerate(blocks.items()):
        lines = axes[2 * k : 2 * k + 2]
        for j, (title, parts) in enumerate(block.items(), start):
            off = [np.maximum(np.abs(p), ranges[words][0]) for p in parts]
            drawn = pair(*lines[:, j], off, cmap="magma", norm=LogNorm(*ranges[words]))
            lines[0, j].set_title(title)
        bar = figure.colorbar(drawn, ax=lines, aspect=18, pad=0.01, extend="both")
        bar.set_label(f"|error|, {words}")
    return axes


def error_slices(run, made):
    """Errors on two planes: closed forms at and between the samples, networks at the samples."""
    closed, networks = closed_blocks(run), network_blocks(run, made)
    parts = [p for block in closed.values() for both in block.values() for p in both]
    if not parts or any(p is None for p in parts):
        return
    groups = [(closed, 1 + len(closed["at samples"]), {"at samples": EXACT, "left out": WRONG})]
    if any(networks.values()):
        networks = {words: block for words, block in networks.items() if block}
        groups.append((networks, max(map(len, networks.values())), dict.fromkeys(networks, WRONG)))
    lines = [len(blocks) for blocks, *_ in groups]
    figure = plt.figure(figsize=(7.4, 2.5 * sum(lines)), layout="constrained")
    figures = figure.subfigures(len(groups), 1, height_ratios=lines, squeeze=False)[:, 0]
    for sub, group in zip(figures, groups):
        axes = panel_grid(sub, *group)
        if group is groups[0]:
            truth = axes[:2, 0]
            w = load(run, NAME)
            top = float(np.percentile(np.abs(w), 99.8))
            pair(*truth, slices(w), cmap="RdBu_r", vmin=-top, vmax=top)
            truth[0].set(title="truth\n", ylabel="y   (t = 0.5)")
            truth[1].set(xlabel="x", ylabel="t   (y ≈ π)")
    save(figure, run.figure("volume-slices"))


def draw(run):
    """The volume by every method, and errors on slices."""
    if at_hand(run, [NAME]) and (made := reconstructions(run)):
        volumes(run, made)
        error_slices(run, made)


if __name__ == "__main__":
    main(compute, draw, "volume")
