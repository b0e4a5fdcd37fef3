"""Energy budgets on cameraman: what the iterative methods reach with 1, 5 and 10 times ELM-INR's.

    python paper/co2.py [--device cuda]

Energy is measured by `paper.research.joules` (its source is in the record). The budget is that of ELM-INR
as the paper writes it, solved region by region; the shared factorisation of this library needs a
small part of it, and its own row says how much. The paper's PSNRs of its figure and of its table
disagree; both are in the report.
"""

from dataclasses import replace
from functools import partial

import elmfield as ef
from common import ITERATIVE, at_hand, at_samples, cost_of, load, main, one_by_one
from figures import COLOURS, plt, save
from paper.research import baselines
from training import MAKE, printed_settings, schedule

PRINTED = {  # PSNR at 1, 5 and 10 times; steps; seconds
    "FFN": ((11.5, 13.1, 14.9), (20, 92, 178), (0.36, 1.55, 2.99)),
    "GaussNet": ((11.7, 16.0, 19.4), (11, 48, 93), (0.38, 1.63, 3.15)),
    "SIREN": ((20.2, 25.1, 27.1), (34, 79, 135), (1.01, 2.18, 3.62)),
    "WIRE": ((5.8, 9.1, 13.4), (5, 28, 54), (0.37, 1.70, 3.20)),
}
PRINTED_KG = {
    "FFN": (1.18e-5, 5.69e-5, 1.13e-4),
    "GaussNet": (1.15e-5, 5.80e-5, 1.15e-4),
    "SIREN": (1.21e-5, 5.70e-5, 1.13e-4),
    "WIRE": (1.14e-5, 5.87e-5, 1.15e-4),
}
"""Kilograms of CO2; ELM-INR: 1.13e-5."""

TIMES = (1, 5, 10)


def compute(run):
    """ELM-INR both ways, then every method's error per joule."""
    if not at_hand(run, ["cameraman"]):
        return
    y = load(run, "cameraman")
    cell = 16 if run.toy else 32
    width = cell**2
    paper = ef.paper(cell=cell, width=width)
    kept = {"cell": cell, "width": width}
    budget = run.unit("ELM-INR, region by region", partial(one_by_one, run, y, paper), **kept)
    run.unit("ELM-INR, shared factorisation", partial(at_samples, run, y, paper), **kept)
    for method, settings in () if run.closed else printed_settings(run, steps=1000).items():
        steps = {"toy": 8, "short": 60, "full": 300}[run.profile]

        def work(method=method, settings=settings, steps=steps):
            network = MAKE[method](**settings["network"])
            every = 4 if run.profile == "short" else 1
            train = schedule(settings["train"] | {"steps": steps, "every": every})
            fit = partial(baselines.fit, y.astype("float32"), network, device=run.device)
            if run.profile == "full":  # the first training on a card pays for its start
                fit(replace(train, steps=5))
            model, spent = cost_of(partial(fit, train), run)
            log = [[r.step, r.seconds, r.paper_psnr] for r in model.log]
            watts = spent["joules"] / spent["seconds"]
            rows = []
            for times in TIMES:
                affordable = [r for r in log if r[1] * watts <= times * budget["joules"]]
                step, seconds, psnr = affordable[-1] if affordable else log[0]
                rows.append({"times": times, "steps": step, "seconds": seconds, "paper_psnr": psnr,
                             "joules": seconds * watts, "enough": log[-1][1] * watts >= times * budget["joules"]})  # fmt: skip
            return {
                "rows": rows,
                "watts": watts,
                "energy_source": spent["energy_source"],
                "log": log[:: max(1, len(log) // 100)],
            }

        run.unit(method, work, **settings, steps=steps, budget=budget["joules"])


def draw(run):
    """PSNR against energy."""
    units = run.found()
    if not all(m in units for m in ITERATIVE):
        return
    figure, ax = plt.subplots(figsize=(6.4, 3.4), layout="constrained")
    for method in ITERATIVE:
        r = units[method]["result"]
        ax.plot(
            [max(s, 1e-6) * r["watts"] for _, s, _ in r["log"]],
            [p for *_, p in r["log"]],
            color=COLOURS[method],
            label=method,
        )
    for name, mark in (("ELM-INR, region by region", "s"), ("ELM-INR, shared factorisation", "o")):
        r = units[name]["result"]
        ax.plot(r["joules"], r["paper_psnr"], mark, color=COLOURS["ELM-INR"], label=name)
    budget = units["ELM-INR, region by region"]["result"]["joules"]
    for times in TIMES:
        ax.axvline(times * budget, color="#999999", lw=0.7, zorder=0)
        ax.text(times * budget, 1.0, f"{times}×", transform=ax.get_xaxis_transform(), ha="center",
                va="bottom", fontsize=7, color="#555555")  # fmt: skip
    ax.plot([], [], color="#999999", lw=0.7, label="1, 5 and 10 times the budget")
    ax.set(
        xscale="log", xlabel="energy, J", ylabel="PSNR as the paper defines it, dB", ylim=(0, 84)
    )
    ax.legend(loc="center left", bbox_to_anchor=(1, 0.5))
    ax.set_title("cameraman 256 × 256", pad=16)
    save(figure, run.figure("co2"))


if __name__ == "__main__":
    main(compute, draw, "co2")
