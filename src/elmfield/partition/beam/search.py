"""The threshold τ that leaves a given number of regions."""

import math

import numpy as np

from elmfield.partition.beam.boxing import boxed
from elmfield.partition.beam.merge import Merged, Start, merge


def search(start: Start, n_regions: int) -> Merged:
    """Algorithm 1 with a threshold that leaves `n_regions` regions.

    The number of regions falls with τ, but not strictly, and in steps. A bracket is narrowed as if
    log N were a straight line in log τ; when it is as narrow as rounding allows, the run with its
    upper end is broken off in time. Runs that lead too far are broken off, too.
    """
    beta = np.sort([start.known[c.key] for c in start.cells])
    N, n = n_regions, len(beta)
    if n == N:
        return Merged([], n, float(beta[0]))
    positive = beta[beta > 0]
    least = float(positive[0]) if len(positive) else 1.0
    stop = N - 1 - N // 50
    low, high, above, below = 0.0, math.inf, n, 0
    # Energies of texture grow with the area, and the average region gets n / N cells.
    tau = max(float(np.quantile(beta, 1 - N / n)) * n / N, least)
    while True:
        run = merge(start, tau, stop)
        if run.n_regions == N:
            return run
        if run.n_regions < N:
            high, below = tau, run.n_regions
        elif run.next_energy < math.inf:
            low, above = tau, run.n_regions
        else:
            return boxed(start, run, N)  # boxes in each other's way
        start.forget(low, high)
        if high == math.inf:
            tau = max(1.4 * low, run.next_energy)
        elif low == 0 and high > least / 2:
            tau = high / 1.4
        elif high > low * (1 + 1e-6) and low > 0:
            known = below > stop  # else the run was broken off, and would have led further
            part = math.log(above / N) / math.log(above / below) if known else 0.5
            tau = low * (high / low) ** min(max(part, 0.1), 0.9)
        else:
            return merge(start, high, N)
