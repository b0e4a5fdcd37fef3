"""Several settings of methods on one array: the paper's search, by successive halving."""

import itertools
import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from elmfield._array.progress import reporter
from elmfield._array.typing import Array, Progress
from paper.research.baselines.fitted import Fitted
from paper.research.baselines.methods import Method, integers
from paper.research.baselines.schedule import USUAL, Schedule
from paper.research.baselines.training import Training


def search(
    array: Array,
    methods: Sequence[Method],
    schedule: Schedule = USUAL,
    *,
    rungs: Sequence[tuple[int, int]] | None = None,
    channel_axis: int | None = None,
    device: str | None = None,
    progress: Progress | bool = False,
) -> tuple[Fitted, ...]:
    """Several settings trained on one array, the best first.

    Parameters
    ----------
    array, methods
        As for :func:`fit`; ``paper_grid("siren")`` gives the paper's 18 settings of SIREN.
    schedule : Schedule
        How each is trained, without `target` and `seconds`.
    rungs : sequence of (steps, keep), optional
        Successive halving: train to so many steps, go on with the `keep` best of them only, such as
        ``((100, 6), (300, 2), (1000, 1))``. Training goes on where it stood. By default all are
        trained for the steps of `schedule`; the last rung takes their place.
    channel_axis, device, progress
        As for :func:`fit`; progress is told of settings.

    Returns
    -------
    tuple of Fitted
        One per setting (its `method`), each as far as it was trained: those that were trained
        longer first, and of these the higher PSNR.
    """
    tell = reporter(progress)
    if schedule.target is not None or schedule.seconds is not None:
        raise ValueError(
            "`schedule` must have no `target` and no `seconds` in a search, where all settings "
            "take the same steps; leave them out."
        )
    rungs = ((schedule.steps, 1),) if rungs is None else tuple(rungs)
    if not methods:
        raise ValueError("`methods` must hold at least one setting; got none.")
    if not rungs or any(np.shape(r) != (2,) for r in rungs):
        raise ValueError(f"`rungs` must be pairs (steps, keep); got {rungs!r}.")
    for until, keep in rungs:
        integers(steps=until, keep=keep)
    if any(a[0] >= b[0] or a[1] < b[1] for a, b in itertools.pairwise(rungs)):
        raise ValueError(f"`rungs` must have rising steps and falling counts; got {rungs!r}.")
    last = rungs[-1][0]
    own = replace(schedule, steps=last)
    alive = [
        Training(array, method, own, channel_axis=channel_axis, device=device) for method in methods
    ]
    out: list[Fitted] = []
    for until, keep in rungs:
        for done, training in enumerate(alive):
            training.advance(until)
            tell(f"{until} steps", done + 1, len(alive))
        alive.sort(key=lambda t: _order(t.log[-1].paper_psnr))
        if until == last:
            keep = 0
        out = [t.fitted() for t in alive[keep:]] + out
        alive = alive[:keep]
    return tuple(out)


def _order(score: float) -> float:
    """Sorts higher scores first, and what has none last."""
    return math.inf if math.isnan(score) else -score
