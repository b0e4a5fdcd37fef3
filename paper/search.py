"""The paper's hyper-parameter search, by successive halving on kodim05.

    python paper/search.py --device cuda
    python paper/search.py --device cuda --all      every setting, all steps (hours)

Hidden width {256, 512, 1024}, hidden layers {3, 4, 5}, rate {5e-5, 1e-4}: 18 settings a method. All
are trained a little, the better third on, and so forth; what was trained is not trained again. The
winners serve all pictures, which the report says.
"""

import sys

from common import ITERATIVE, load, main
from elmfield import baselines

RUNGS = ((100, 6), (300, 2), (1000, 1))
"""Steps after which only so many settings of a method go on."""


def compute(run):
    """Search for each method; units `<method>` hold the ranking and the best."""
    values = load(run, "kodim05").astype("float32")
    if run.profile == "short":  # on two cores a corner of the picture, and small steps
        values = values[:128, :128]
    rungs = {"full": RUNGS, "short": ((5, 2), (10, 1)), "toy": ((2, 1),)}[run.profile]
    if "--all" in sys.argv:
        rungs = ((1000, 1),)
    for method in ITERATIVE:
        grid = baselines.paper_grid(method.lower())
        if run.toy:
            grid = grid[:2]
        elif run.profile == "short":
            grid = [g for g in grid if g.hidden == 256]

        def work(grid=grid):
            ranked = baselines.search(
                values, grid, rungs=rungs, device=run.device,
                precision="high" if run.profile == "full" else "highest",
            )  # fmt: skip
            rows = [
                {"hidden": f.method.hidden, "layers": f.method.layers, "rate": f.method.rate,
                 "steps": f.log[-1].step, "seconds": f.log[-1].seconds,
                 "paper_psnr": f.log[-1].paper_psnr}
                for f in ranked
            ]  # fmt: skip
            return {"best": rows[0], "ranking": rows}

        run.unit(method, work, rungs=rungs, settings=len(grid), samples=values.shape)


def draw(run):
    """The search has no picture."""


if __name__ == "__main__":
    main(compute, draw, "search")
