"""The paper's hyper-parameter search on kodim05 and small ones of ours, by successive halving.

    python paper/search.py --device cuda
    ALL=1 python paper/search.py --device cuda      every setting on every picture to the end (hours)

The paper's: hidden width {256, 512, 1024}, hidden layers {3, 4, 5}, rate {5e-5, 1e-4}, 18 settings a
method, constant rate. Ours: higher rates that go down by a cosine, and each method's own scales.
All are trained a little, the better ones on, and so forth; what was trained is not trained again. The
winners serve all pictures, which the report says. A flow in three dimensions is smoother than a
photograph and wants other scales, so ours is made on Navier-Stokes too.
"""

import os
from dataclasses import asdict, replace

from common import ITERATIVE, at_hand, load, main
from paper.research import baselines
from training import schedule, trained

PICTURES = ("kodim05", "kodim08", "kodim20", "kodim24", "cameraman")
ALL = "full_search"
"""Where the whole search is recorded, a unit for every setting."""

RUNGS = ((40, 6), (120, 2), (300, 1))
"""Steps after which only so many settings of a method go on."""

OURS = {
    "SIREN": [
        baselines.siren(hidden=512, layers=4, rate=rate, first_omega=omega)
        for rate, omega in ((1e-3, 30), (1e-3, 60), (7e-4, 90), (2e-3, 30))
    ],
    "FFN": [
        baselines.ffn(hidden=hidden, layers=4, rate=rate, scale=scale, n_frequencies=512)
        for hidden, rate, scale in (
            (512, 3e-4, 20), (512, 1e-3, 20), (512, 3e-4, 30), (512, 6e-4, 30), (1024, 3e-4, 30),
        )
    ],
    "GaussNet": [
        baselines.gaussnet(hidden=512, layers=layers, rate=1e-3, scale=scale)
        for layers, scale in ((3, 0.025), (4, 0.025), (3, 0.018), (4, 0.035))
    ],
    "WIRE": [
        baselines.wire(hidden=512, layers=3, rate=rate, first_omega=omega, omega=omega, scale=scale)
        for rate, omega, scale in ((1e-3, 20, 30), (2e-3, 20, 30), (1e-3, 20, 10), (1e-3, 30, 20))
    ],
    "hash grid": [
        baselines.hashgrid(rate=rate, finest=finest)
        for rate, finest in ((1e-2, None), (1e-2, 1024), (5e-3, 1024), (1e-2, 2048))
    ],
}  # fmt: skip
OUR_RUNGS = ((100, 2), (400, 1))
FLOW = {
    "SIREN": [
        baselines.siren(hidden=512, layers=4, rate=rate, first_omega=omega)
        for rate, omega in ((1e-3, 10), (1e-3, 30), (5e-4, 30))
    ],
    "FFN": [
        baselines.ffn(hidden=512, layers=4, rate=1e-3, scale=scale, n_frequencies=512)
        for scale in (1, 2, 4)
    ],
    "GaussNet": [
        baselines.gaussnet(hidden=512, layers=layers, rate=1e-3, scale=scale)
        for layers, scale in ((3, 0.05), (3, 0.09), (4, 0.09), (3, 0.2))
    ],
    "WIRE": [  # 10 and 40 are its authors' for volumes (`wire_occupancy.py`)
        baselines.wire(hidden=512, layers=3, rate=1e-3, first_omega=omega, omega=omega, scale=scale)
        for omega, scale in ((10, 40), (10, 10), (10, 5), (5, 5))
    ],
    "hash grid": [
        baselines.hashgrid(rate=rate, finest=finest)
        for rate, finest in ((1e-2, None), (1e-2, 64), (5e-3, None), (1e-2, 256))
    ],
}
FLOW_RUNGS = ((200, 2), (800, 1))
FLOW_BATCH = 65536


def everything(run):
    """The paper's search as it stands: 18 settings a method and picture, each trained to the end."""
    run = replace(run, script=ALL)
    train = {"steps": 1000, "precision": "high", "compiled": True}
    if run.profile != "full":
        train = {"steps": 2 if run.toy else 10, "batch": 256}
    for name in at_hand(run, PICTURES[:1] if run.toy else PICTURES):
        values = load(run, name)
        for method in ITERATIVE:
            grid = baselines.paper_grid(method.lower())
            for network in grid[:2] if run.toy else grid:
                words = f"{network.hidden} x {network.layers}, rate {network.rate:g}"
                settings = {"network": asdict(network), "train": train}
                trained(run, name, f"{method}, {words}", values, settings, picture=False)


def compute(run):
    """Units `<method>`, `<method>, tuned` and `..., navier-stokes`: the ranking, the best network."""
    if os.environ.get("ALL"):
        return everything(run)
    if run.closed or not at_hand(run, ["kodim05"]):
        return None
    values = load(run, "kodim05")
    if run.profile == "short":  # on two cores a corner of the picture, and few steps
        values = values[:96, :96]
    full = run.profile == "full"
    usual = {"precision": "high", "compiled": True} if full else {}
    jobs = []
    for method in ITERATIVE:
        grid = baselines.paper_grid(method.lower())
        rungs = {"full": RUNGS, "short": ((5, 2), (10, 1)), "toy": ((2, 1),)}[run.profile]
        grid = grid if full else [g for g in grid if g.hidden == 256][: 2 if run.toy else 6]
        jobs.append((method, values, grid, rungs, {}))
    if full:
        ours = {"schedule": "cosine"}
        jobs += [(f"{m}, tuned", values, g, OUR_RUNGS, ours) for m, g in OURS.items()]
        flow = load(run, "navier-stokes")
        ours = ours | {"batch": FLOW_BATCH, "every": FLOW_RUNGS[-1][0]}
        jobs += [(f"{m}, tuned, navier-stokes", flow, g, FLOW_RUNGS, ours) for m, g in FLOW.items()]
    for label, y, grid, rungs, more in jobs:

        def work(y=y, grid=grid, rungs=rungs, more=usual | more):
            y, train = y.astype("float32"), schedule(more)
            if full:
                baselines.fit(y, grid[0], replace(train, steps=3), device=run.device)  # compiles
            ranked = baselines.search(y, grid, train, rungs=rungs, device=run.device)
            rows = [
                {"network": asdict(f.method), "steps": f.log[-1].step,
                 "seconds": f.log[-1].seconds, "paper_psnr": f.log[-1].paper_psnr}
                for f in ranked
            ]  # fmt: skip
            return {"best": rows[0], "ranking": rows}

        grid = [asdict(network) for network in grid]
        run.unit(label, work, rungs=rungs, grid=grid, samples=y.shape, **more)


def draw(run):
    """The search has no picture."""


if __name__ == "__main__":
    main(compute, draw, "search")
