"""PSNR against wall-clock time, and against training steps with the spread over seeds.

    python paper/curves.py [--device cuda]

Times of the iterative methods come from the logs of ``images.py``; several ELM-INR settings are timed
here, shared and region by region. Trainings for the spread use the paper's smallest network.
"""

import numpy as np

import elmfield as ef
from common import ITERATIVE, Run, cost, errors, forget, host, load, main
from elmfield.baselines.printed import region_by_region
from figures import COLOURS, plt, save
from training import printed_settings, trained

TIMED = ("kodim05", "kodim08", "kodim20", "kodim24")
TRAINED = ("kodim08", "kodim20", "kodim24", "cameraman")
SETTINGS = ((16, 256), (32, 256), (32, 512), (32, 1024), (64, 4096))
"""Cells and widths of the closed-form points."""


def compute(run):
    """Closed-form points with their times; trainings with several seeds."""
    place = None if run.device == "cpu" else run.device
    for name in TIMED[2:3] if run.toy else TIMED:
        y = load(run, name)
        for cell, width in ((16, 64), (16, 256)) if run.toy else SETTINGS:

            def shared(y=y, cell=cell, width=width):
                def cold():
                    forget()
                    return ef.fit(y, ef.paper(cell=cell, width=width), device=place)

                return errors(y, host(cold().samples())) | cost(cold, run)

            run.unit(f"{name}: ELM-INR, cells {cell}, m = {width}", shared)

        def default(y=y):
            def cold():
                forget()
                return ef.fit(y, device=place)

            return errors(y, host(cold().samples())) | cost(cold, run)

        run.unit(f"{name}: default", default)
        cell = 16 if run.toy else 32

        def printed(y=y, cell=cell):
            def solve():
                return region_by_region(y, ef.paper(cell=cell, width=cell**2), device=run.device)

            return errors(y, solve()) | cost(solve, run)

        run.unit(f"{name}: region by region, cells {cell}, m = {cell**2}", printed)
    for name in TRAINED[1:2] if run.toy else TRAINED:
        y = load(run, name)
        if run.profile == "short":
            y = y[:128, :128]
        for method, settings in printed_settings(run, steps=1000, usual=True).items():
            for seed in range(2):
                trained(run, name, f"{method}, seed {seed}", y, settings, seed=seed, between=False)


def draw(run):
    """Two figures."""
    units = run.found()
    logs = Run("images", run.device, run.profile, run.folder).found()
    names = [n for n in TIMED if any(u.startswith(n) for u in units)]
    if not names:
        return
    figure, axes = plt.subplots(
        1,
        len(names),
        figsize=(3.3 * len(names), 3.3),
        layout="constrained",
        sharey=True,
        squeeze=False,
    )
    for ax, name in zip(axes[0], names):
        for method in (*ITERATIVE, "hash grid"):
            for label, line in ((method, "-"), (f"{method}, tuned", ":")):
                unit = logs.get(f"{name}: {label}")
                if unit:
                    log = [r for r in unit["result"]["log"] if r[1] > 0]
                    ax.plot(
                        [r[1] for r in log],
                        [r[2] for r in log],
                        line,
                        color=COLOURS[method],
                        lw=1.3,
                        label=label,
                    )
        for key, unit in units.items():
            if key.startswith(f"{name}: ") and "seed" not in key:
                what = key.split(": ")[1]
                mark = "s" if "region" in what else "D" if what == "default" else "o"
                colour = COLOURS["default" if what == "default" else "ELM-INR"]
                label = (
                    "default"
                    if mark == "D"
                    else "ELM-INR, region by region"
                    if mark == "s"
                    else "ELM-INR"
                )
                ax.plot(
                    unit["result"]["seconds"],
                    unit["result"]["paper_psnr"],
                    mark,
                    ms=4.5,
                    color=colour,
                    label=label,
                )
        ax.set(xscale="log", xlabel="seconds", title=name, ylim=(0, 84))
    axes[0, 0].set_ylabel("PSNR as the paper defines it, dB")
    handles = {l: h for ax in axes[0] for h, l in zip(*ax.get_legend_handles_labels())}
    figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=6)
    save(figure, run.figure("time-psnr"))

    names = [n for n in TRAINED if any(u.startswith(f"{n}: ") and "seed" in u for u in units)]
    figure, axes = plt.subplots(
        1,
        len(names),
        figsize=(3.3 * len(names), 3.2),
        layout="constrained",
        sharey=True,
        squeeze=False,
    )
    for ax, name in zip(axes[0], names):
        for method in ITERATIVE:
            found = [
                u["result"]["log"]
                for k, u in units.items()
                if k.startswith(f"{name}: {method}, seed")
            ]
            steps = [r[0] for r in found[0]]
            psnr = np.array([[r[2] for r in log] for log in found])
            ax.plot(steps, psnr.mean(0), color=COLOURS[method], label=method)
            ax.fill_between(
                steps, psnr.min(0), psnr.max(0), color=COLOURS[method], alpha=0.25, lw=0
            )
        closed = logs.get(f"{name}: ELM-INR")
        if closed:  # no steps: a line, as in the paper
            level = closed["result"]["paper_psnr"]
            ax.axhline(level, color=COLOURS["ELM-INR"], lw=1.2, label="ELM-INR (closed form)")
        ax.set(xlabel="steps", title=name, ylim=(0, 84))
    axes[0, 0].set_ylabel("PSNR as the paper defines it, dB")
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=5)
    save(figure, run.figure("training-curves"))


if __name__ == "__main__":
    main(compute, draw, "curves")
