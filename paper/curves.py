"""PSNR against wall-clock time, and against training steps with the spread over seeds.

    python paper/curves.py [--device cuda]

Times of the iterative methods come from the logs of ``images.py``; several ELM-INR settings are timed
here, shared and region by region. Trainings for the spread use the paper's smallest network.
"""

import re
from functools import partial

import numpy as np

import elmfield as ef
from common import ITERATIVE, Run, at_samples, load, main, one_by_one
from figures import COLOURS, plt, save
from training import printed_settings, trained

TIMED = ("kodim05", "kodim08", "kodim20", "kodim24")
TRAINED = ("kodim08", "kodim20", "kodim24", "cameraman")
SETTINGS = ((16, 256), (32, 256), (32, 512), (32, 1024), (64, 4096))
"""Cells and widths of the closed-form points."""


def compute(run):
    """Closed-form points with their times; trainings with several seeds."""
    for name in TIMED[2:3] if run.toy else TIMED:
        y = load(run, name)
        for cell, width in ((16, 64), (16, 256)) if run.toy else SETTINGS:
            work = partial(at_samples, run, y, ef.paper(cell=cell, width=width))
            run.unit(f"{name}: ELM-INR, cells {cell}, m = {width}", work)
        run.unit(f"{name}: default", partial(at_samples, run, y, ef.smooth()))
        cell = 16 if run.toy else 32
        work = partial(one_by_one, run, y, ef.paper(cell=cell, width=cell**2))
        run.unit(f"{name}: region by region, cells {cell}, m = {cell**2}", work)
    settings = printed_settings(run, steps=1000, usual=True)
    for seed in range(3 if run.profile == "full" else 2):
        for name in TRAINED[1:2] if run.toy else TRAINED:
            y = load(run, name)
            if run.profile == "short":
                y = y[:128, :128]
            for method in ITERATIVE:
                label = f"{method}, seed {seed}"
                trained(run, name, label, y, settings[method], seed=seed, picture=False)


def draw(run):
    """Two figures."""
    logs = Run("images", run.device, run.profile, run.folder).found()
    draw_times(run, run.found(), logs)
    draw_steps(run, run.found(), logs)


def panels(names, height):
    """One axes per data set, PSNR on the shared axis."""
    figure, axes = plt.subplots(
        1, len(names), figsize=(3.3 * len(names), height), layout="constrained", sharey=True,
        squeeze=False,
    )  # fmt: skip
    axes[0, 0].set_ylabel("PSNR as the paper defines it, dB")
    return figure, axes[0]


def finished(run, figure, axes, name):
    """One legend for all panels."""
    handles = {t: h for ax in axes for h, t in zip(*ax.get_legend_handles_labels())}
    figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=6)
    save(figure, run.figure(name))


def draw_times(run, units, logs):
    """PSNR against seconds: trainings as lines, closed forms as marks."""
    names = [n for n in TIMED if f"{n}: SIREN" in logs or any(u.startswith(n) for u in units)]
    if not names:
        return
    figure, axes = panels(names, 3.3)
    for ax, name in zip(axes, names):
        for method in (*ITERATIVE, "hash grid"):
            for label, line in ((method, "-"), (f"{method}, tuned", ":")):
                if unit := logs.get(f"{name}: {label}"):
                    _, seconds, psnr = zip(*(r for r in unit["result"]["log"] if r[1] > 0))
                    ax.plot(seconds, psnr, line, color=COLOURS[method], lw=1.3, label=label)
        # Where no more settings were timed, those of the table.
        closed = {k: logs[k] for k in (f"{name}: ELM-INR", f"{name}: default") if k in logs} | units
        for key, unit in closed.items():
            if key.startswith(f"{name}: ") and "seed" not in key:
                what = key.split(": ")[1]
                label, mark = ("ELM-INR", "o")
                if what == "default":
                    label, mark = ("default", "D")
                elif "region" in what:
                    label, mark = ("ELM-INR, region by region", "s")
                few = re.search(r"cells (\d+), m = (\d+)", what)
                if few and int(few[2]) < int(few[1]) ** 2:
                    label += ", m < S"
                r, colour = unit["result"], COLOURS[label.split(",")[0]]
                inside = "none" if "m < S" in label else colour
                ax.plot(r["seconds"], r["paper_psnr"], mark, ms=4.5, color=colour, mfc=inside,
                        ls="none", label=label)  # fmt: skip
        ax.set(xscale="log", xlabel="seconds", title=name, ylim=(0, 84))
    finished(run, figure, axes, "time-psnr")


def draw_steps(run, units, logs):
    """PSNR against steps: mean and range over seeds, or the one training of the table."""

    def of(name, method):
        seeds = [u for k, u in units.items() if k.startswith(f"{name}: {method}, seed")]
        found = seeds or [logs[k] for k in (f"{name}: {method}",) if k in logs]
        return [u["result"]["log"] for u in found]

    names = [n for n in TRAINED if of(n, "SIREN")]
    if not names:
        return
    figure, axes = panels(names, 3.2)
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
        ax.set(xlabel="steps", title=name, ylim=(0, 84))
    finished(run, figure, axes, "training-curves")


if __name__ == "__main__":
    main(compute, draw, "curves")
