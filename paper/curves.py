"""PSNR against wall-clock time, and against training steps with the spread over seeds.

    python paper/curves.py [--device cuda]

Times of the iterative methods come from the logs of ``images.py``; several ELM-INR settings are timed
here, shared and region by region. Trainings for the spread use the paper's smallest network.
"""

import re
from functools import partial

import numpy as np
from matplotlib.lines import Line2D

import elmfield as ef
from common import ITERATIVE, Run, at_hand, at_samples, load, main, one_by_one
from figures import COLOURS, plt, save
from training import printed_settings, trained

TIMED = ("kodim05", "kodim08", "kodim20", "kodim24")
TRAINED = ("kodim08", "kodim20", "kodim24", "cameraman")
SETTINGS = ((16, 256), (32, 256), (32, 512), (32, 1024), (64, 4096))
"""Cells and widths of the closed-form points."""

LEGEND = (
    *((m, f"{m}, tuned") for m in (*ITERATIVE, "hash grid")),
    ("ELM-INR, m = S", "ELM-INR, m < S"),
    ("ELM-INR, region by region", "default"),
)
"""Columns of the legend of the times."""


def compute(run):
    """Closed-form points with their times; trainings with several seeds."""
    for name in at_hand(run, TIMED[2:3] if run.toy else TIMED):
        y = load(run, name)
        for cell, width in ((16, 64), (16, 256)) if run.toy else SETTINGS:
            work = partial(at_samples, run, y, ef.paper(cell=cell, width=width))
            run.unit(f"{name}: ELM-INR, cells {cell}, m = {width}", work)
        run.unit(
            f"{name}: default", partial(at_samples, run, y, ef.smooth()), preset=repr(ef.smooth())
        )
        cell = 16 if run.toy else 32
        work = partial(one_by_one, run, y, ef.paper(cell=cell, width=cell**2))
        run.unit(f"{name}: region by region, cells {cell}, m = {cell**2}", work)
    settings = printed_settings(run, steps=1000, usual=True)
    for seed in range(3 if run.profile == "full" else 2):
        for name in at_hand(run, TRAINED[1:2] if run.toy else TRAINED):
            y = load(run, name)
            own = settings
            if run.profile == "short":  # two cores have minutes
                y = y[:128, :128]
                own = {m: s | {"train": s["train"] | {"steps": 50}} for m, s in settings.items()}
            for method in ITERATIVE:
                label = f"{method}, seed {seed}"
                trained(run, name, label, y, own[method], seed=seed, picture=False)


def draw(run):
    """Two figures."""
    logs = Run("images", run.device, run.profile, run.folder).found()
    draw_times(run, run.found(), logs)
    draw_steps(run, run.found(), logs)


def panels(names, height):
    """One axes per data set, two in a line; their scales are shared."""
    columns = min(len(names), 2)
    rows = -(-len(names) // columns)
    figure, axes = plt.subplots(
        rows, columns, figsize=(4.1 * columns, height * rows), layout="constrained", sharex=True,
        sharey=True, squeeze=False,
    )  # fmt: skip
    for ax in axes[:, 0]:
        ax.set_ylabel("PSNR as the paper defines it, dB")
    for ax in axes.flat[len(names) :]:
        ax.set_axis_off()
    return figure, axes.flat[: len(names)]


def finished(run, figure, axes, name, along, order=(), title=None):
    """One legend for all panels: in pairs where an `order` is given, a gap for what is not there."""
    for ax in axes[-2:]:
        ax.set_xlabel(along)
    handles = {t: h for ax in axes for h, t in zip(*ax.get_legend_handles_labels())}
    gap = figure.add_artist(Line2D([], [], ls="none"))
    pairs = [[t if t in handles else "" for t in pair] for pair in order if {*pair} & {*handles}]
    words = [t for pair in pairs for t in pair] or list(handles)
    made = [handles.get(t, gap) for t in words]
    figure.legend(made, words, loc="outside lower center", ncols=len(pairs) or 6,
                  columnspacing=1.0, handlelength=1.4, handletextpad=0.5, title=title,
                  title_fontsize=8)  # fmt: skip
    save(figure, run.figure(name))


def draw_times(run, units, logs):
    """PSNR against seconds: trainings as lines, closed forms as marks."""
    names = [n for n in TIMED if f"{n}: SIREN" in logs or any(u.startswith(n) for u in units)]
    if not names:
        return
    figure, axes = panels(names, 2.9)
    for ax, name in zip(axes, names):
        for method in (*ITERATIVE, "hash grid"):
            for label, line in ((method, "-"), (f"{method}, tuned", ":")):
                if unit := logs.get(f"{name}: {label}"):
                    _, seconds, psnr = zip(*(r for r in unit["result"]["log"] if r[1] > 0))
                    ax.plot(seconds, psnr, line, color=COLOURS[method], lw=1.3, label=label)
        closed = {k: u for k, u in units.items() if k.startswith(f"{name}: ") and "seed" not in k}
        if not closed:  # where no settings were timed, those of the table
            closed = {k: logs[k] for k in (f"{name}: ELM-INR", f"{name}: default") if k in logs}
        for key, unit in closed.items():
            mark_closed(ax, key.split(": ")[1], unit["result"])
        ax.set(xscale="log", title=name, ylim=(0, 107), yticks=range(0, 81, 20))
    title = "beside the marks of ELM-INR: samples S of a region / neurons m"
    finished(run, figure, axes, "time-psnr", "seconds", LEGEND, title)


def mark_closed(ax, what, result):
    """A mark for a closed form, with its cell and width beside it; PSNR ends at 80, words may not."""
    label, mark, (cell, m) = "ELM-INR, m = S", "o", re.findall(r"\d+", what) or (0, 0)
    if what == "default":
        label, mark = "default", "D"
    elif "region" in what:
        label, mark = "ELM-INR, region by region", "s"
    elif int(m) < int(cell) ** 2:
        label = "ELM-INR, m < S"
    colour, at = COLOURS[label.split(",")[0]], (result["seconds"], result["paper_psnr"])
    inside = "none" if "m < S" in label else colour
    ax.plot(*at, mark, ms=4.5, color=colour, mfc=inside, ls="none", label=label)
    look = {"textcoords": "offset points", "fontsize": 7, "va": "center"}
    if "m < S" in label:  # two marks close together: the words away from each other
        left = 4 * int(m) <= int(cell) ** 2
        ax.annotate(
            f"{cell}²/{m}", at, (-5 if left else 5, 0), ha="right" if left else "left", **look
        )
    elif m:
        look |= {"rotation": 65, "rotation_mode": "anchor"}
        ax.annotate(f"{cell}²/{m}", at, (1, 5), **look)


def draw_steps(run, units, logs):
    """PSNR against steps: mean and range over seeds, or the one training of the table."""

    def of(name, method):
        seeds = [u for k, u in units.items() if k.startswith(f"{name}: {method}, seed")]
        found = seeds or [logs[k] for k in (f"{name}: {method}",) if k in logs]
        return [u["result"]["log"] for u in found]

    names = [n for n in TRAINED if of(n, "SIREN")]
    if not names:
        return
    figure, axes = panels(names, 2.5)
    for ax, name in zip(axes, names):
        for method in ITERATIVE:
            if found := of(name, method):
                steps = [r[0] for r in found[0]]
                psnr = np.array([[r[2] for r in log] for log in found])
                colour = COLOURS[method]
                ax.plot(steps, psnr.mean(0), color=colour, label=method)
                ax.fill_between(steps, psnr.min(0), psnr.max(0), color=colour, alpha=0.25, lw=0)
        if closed := logs.get(f"{name}: ELM-INR"):  # no steps: a line, as in the paper
            level = closed["result"]["paper_psnr"]
            ax.axhline(level, color=COLOURS["ELM-INR"], lw=1.2, label="ELM-INR (closed form)")
        ax.set(title=name, ylim=(0, 84))
    finished(run, figure, axes, "training-curves", "steps")


if __name__ == "__main__":
    main(compute, draw, "curves")
