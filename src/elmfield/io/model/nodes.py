"""Places of kernels in a model file: all of them once, and which of them each region has."""

from collections.abc import Sequence

import numpy as np

from elmfield._array.backend import to_numpy
from elmfield._array.typing import Floats, Integers
from elmfield.field.nodes import Nodes
from elmfield.local.bases import Polyharmonic
from elmfield.local.model import LocalModel


def said_nodes(
    nodes: Sequence[Nodes | None], order: Integers, which: Integers, row: Integers
) -> tuple[Floats, Integers] | None:
    """Positions and members of all groups, one-dimensional, in file order; None without any."""
    firsts: dict[int, int] = {}
    positions, total = [], 0
    for own in nodes:
        if own is not None and id(own.positions) not in firsts:
            firsts[id(own.positions)] = total
            positions.append(to_numpy(own.positions))
            total += len(positions[-1])
    if not positions:
        return None
    members = []
    for region in order:
        own = nodes[which[region]]
        if own is not None:
            first, last = own.starts[row[region]], own.starts[row[region] + 1]
            members.append(own.members[first:last] + firsts[id(own.positions)])
    flat = np.concatenate(positions).astype(np.float64).reshape(-1)
    return flat, np.concatenate(members)


def node_counts(
    models: Sequence[LocalModel | None],
    d: int,
    which: Integers,
    order: Integers,
    kept: Integers | None,
) -> Integers:
    """Places of each region, (N,), from how many coefficients, (N, C), it keeps."""
    free = np.zeros(len(models), np.int64)
    for g, model in enumerate(models):
        if isinstance(model, Polyharmonic):
            if model.n_axes != d:
                raise ValueError(f"kernels of {model.n_axes} axes, not {d}")
            free[g] = model.n_modes - model.n_nodes
    if kept is None or (kept[order] != kept[order, :1]).any():
        raise ValueError("kernels that channels do not share")
    counts = np.zeros(len(which), np.int64)
    counts[order] = kept[order, 0] - free[which[order]]
    if (counts[order] < 1).any():
        raise ValueError("a region without kernels")
    return counts


def nodes_of(
    models: Sequence[LocalModel | None],
    which: Integers,
    order: Integers,
    counts: Integers,
    positions: Floats,
    members: Integers,
) -> list[Nodes | None]:
    """The places of each group, from what a file says of all."""
    if not np.isfinite(positions).all() or int(members.max()) >= len(positions):
        raise ValueError("kernels that sit nowhere")
    starts = np.zeros(len(which), np.int64)
    starts[order] = np.cumsum(counts[order]) - counts[order]
    found: list[Nodes | None] = []
    for g, model in enumerate(models):
        if not isinstance(model, Polyharmonic):
            found.append(None)
            continue
        own = np.flatnonzero(which == g)
        runs = [members[starts[i] : starts[i] + counts[i]] for i in own]
        ends = np.concatenate([[0], np.cumsum(counts[own])]).astype(np.int64)
        found.append(
            Nodes(model=model, positions=positions, members=np.concatenate(runs), starts=ends)
        )
    return found
