"""Algorithm 1 as a compiled loop: the turns of `merge.merge`, until an energy is missing.

Regions are numbers: the cells first, then unions in the order of merging. See
:mod:`elmfield._array.compiled`; `quick` is who calls it and finds energies.
"""

from typing import Any, NamedTuple

import numpy as np

from elmfield._array.compiled import compiled
from elmfield._array.typing import Floats, Integers

EXACT, BOUND, ASKED = 1, 2, 3
"""What a table knows of a union: its energy, a lower bound, that it was asked for."""

DONE, ENERGIES, BOUNDS, LARGE = range(4)
"""Why `advance` comes back: what is to be found for the pairs in `asked`."""

THERE, CHANGED, QUEUED, BORN = 1, 2, 4, 8
"""What is the case with a region: bits of `marks`."""

FORMED, LEFT, WAITING, MERGED, TURN, USED, WANTED = range(7)
"""Numbers of regions formed, there, in the queue; of merges; whose turn; ends of pools."""


class Table(NamedTuple):
    """Energies of unions, a hash table with open places."""

    key: Any  # (slots, 2) uint64
    value: Floats  # (slots,)
    kind: Any  # (slots,) uint8, 0 where a place is free
    used: Integers  # (1,)


class Run(NamedTuple):
    """A run of the algorithm on its way; every array has a place for each region to come."""

    key: Any  # (2n, 2) uint64
    energy: Floats
    first: Integers  # the least cell
    cells: Integers  # how many
    parts: Integers  # (2n, 2): what a union was made of
    box: Integers  # (2n, 4): first cell and number of cells on both axes
    lit: Integers  # whether a sample is not 0
    marks: Integers
    stamp: Integers
    near_at: Integers  # (2n, 2): where neighbours begin, and how many there are
    near: Integers
    queue: Integers  # a heap of regions by energy and first cell
    merged: Integers  # (n, 2)
    asked: Integers  # (m, 3): two regions and their union's place in the table
    counts: Integers
    blocked: Floats  # (1,): the least energy that kept two regions from merging


@compiled
def place(table: Table, a: int, b: int) -> int:
    """Where the union of two keys is in the table, or belongs."""
    last = len(table.kind) - 1
    slot = np.int64(a & np.uint64(last))
    while table.kind[slot] and (table.key[slot, 0] != a or table.key[slot, 1] != b):
        slot = slot + 1 & last
    return int(slot)


@compiled
def refill(old: Table, new: Table) -> None:
    """Everything that one table holds into another."""
    for i in range(len(old.kind)):
        if old.kind[i]:
            slot = place(new, old.key[i, 0], old.key[i, 1])
            new.key[slot, 0], new.key[slot, 1] = old.key[i, 0], old.key[i, 1]
            new.value[slot], new.kind[slot] = old.value[i], old.kind[i]
    new.used[0] = old.used[0]


@compiled
def boxes_of(run: Run, mesh: Integers, low: Integers, size: Integers, begins: Integers) -> None:
    """Boxes of the unions asked for, and where the cells of each begin in a row of all."""
    for w in range(run.counts[WANTED]):
        a, b = run.asked[w, 0], run.asked[w, 1]
        low[w, 0], size[w, 0], low[w, 1], size[w, 1] = _box(run, a, b, mesh)
        begins[w + 1] = begins[w] + run.cells[a] + run.cells[b]


@compiled
def cells_of(run: Run, begins: Integers, cells: Integers) -> None:
    """The cells of the unions asked for, as their parts lead there."""
    for w in range(run.counts[WANTED]):
        todo = cells[begins[w] : begins[w + 1]]
        size, depth, at = len(todo), 2, 0
        todo[size - 1], todo[size - 2] = run.asked[w, 1], run.asked[w, 0]
        while depth:  # a stack that grows down from the end, while cells fill the front
            region = todo[size - depth]
            depth -= 1
            while run.parts[region, 0] >= 0:
                depth += 1
                todo[size - depth] = run.parts[region, 1]
                region = run.parts[region, 0]
            todo[at] = region
            at += 1


@compiled
def _before(run: Run, a: int, b: int) -> bool:
    """Whether a has its turn before b."""
    if run.energy[a] == run.energy[b]:
        return bool(run.first[a] < run.first[b])
    return bool(run.energy[a] < run.energy[b])


@compiled
def _push(run: Run, region: int) -> None:
    queue, at = run.queue, run.counts[WAITING]
    run.counts[WAITING] += 1
    while at > 0 and _before(run, region, queue[(at - 1) // 2]):
        queue[at] = queue[(at - 1) // 2]
        at = (at - 1) // 2
    queue[at] = region


@compiled
def _pop(run: Run) -> int:
    queue = run.queue
    top, n = queue[0], run.counts[WAITING] - 1
    run.counts[WAITING] = n
    last, at = queue[n], 0
    while 2 * at + 1 < n:
        child = 2 * at + 1
        if child + 1 < n and _before(run, queue[child + 1], queue[child]):
            child += 1
        if not _before(run, queue[child], last):
            break
        queue[at] = queue[child]
        at = child
    queue[at] = last
    return int(top)


@compiled
def _arc(a: int, la: int, b: int, lb: int, n: int, wraps: bool) -> tuple[int, int]:
    """First cell and number of cells that two overlapping or adjoining stretches cover."""
    if not wraps:
        low = min(a, b)
        return low, max(a + la, b + lb) - low
    ahead, back = (b - a) % n, (a - b) % n
    if ahead <= la and ahead + lb < n and (back > lb or ahead == 0):
        return a, max(la, ahead + lb)
    if back <= lb and back + la < n and ahead > la:
        return b, max(lb, back + la)
    return 0, n


@compiled
def _box(run: Run, a: int, b: int, mesh: Integers) -> tuple[int, int, int, int]:
    """First cell and number of cells of the box around two regions, on both axes."""
    i, m = _arc(run.box[a, 0], run.box[a, 1], run.box[b, 0], run.box[b, 1], mesh[0], mesh[2] > 0)
    j, n = _arc(run.box[a, 2], run.box[a, 3], run.box[b, 2], run.box[b, 3], mesh[1], mesh[3] > 0)
    return i, m, j, n


@compiled
def _known(run: Run, table: Table, a: int, b: int, mesh: Integers) -> tuple[int, float, int, bool]:
    """What is known of a union: kind, value, its place in the table, and whether its box is large.

    What needs no transform is known: of what is black, and of what is no box where it should be.
    """
    if not run.lit[a] and not run.lit[b] and not mesh[4]:
        return EXACT, 0.0, -1, False
    slot = place(table, run.key[a, 0] ^ run.key[b, 0], run.key[a, 1] ^ run.key[b, 1])
    kind = table.kind[slot]
    if kind == EXACT:
        return EXACT, table.value[slot], slot, False
    _, m, _, n = _box(run, a, b, mesh)
    if mesh[4] and run.cells[a] + run.cells[b] < m * n:
        return EXACT, np.inf, -1, False
    if not run.lit[a] and not run.lit[b]:
        return EXACT, 0.0, -1, False
    return kind, table.value[slot], slot, m * n > mesh[5]


@compiled
def _ask(run: Run, table: Table, a: int, b: int, slot: int) -> None:
    """Note that something is to be found for a union."""
    if table.kind[slot] == 0:
        table.key[slot, 0] = run.key[a, 0] ^ run.key[b, 0]
        table.key[slot, 1] = run.key[a, 1] ^ run.key[b, 1]
        table.used[0] += 1
    table.kind[slot] = ASKED
    w = run.counts[WANTED]
    run.asked[w, 0], run.asked[w, 1], run.asked[w, 2] = a, b, slot
    run.counts[WANTED] = w + 1


@compiled
def _ask_all(run: Run, table: Table, a: int, mesh: Integers, large: bool) -> None:
    """Ask for all that is not known of the unions with neighbours, as long as there is room."""
    for e in range(run.near_at[a, 0], run.near_at[a, 0] + run.near_at[a, 1]):
        kind, _, slot, is_large = _known(run, table, a, run.near[e], mesh)
        if kind == 0 and is_large == large and run.counts[WANTED] < len(run.asked):
            _ask(run, table, a, run.near[e], slot)


@compiled
def advance(run: Run, table: Table, mesh: Integers, tau: float, stop: int, ahead: int) -> int:
    """Go on until the run ends or something is to be found; why it came back.

    `mesh` holds the cells on both axes, whether these wrap, whether regions must be boxes, and the
    cells of the largest box that is measured unasked. `ahead` is how many regions that come next
    are looked at when an energy is missing. There must be room in the table for all of `asked`.
    """
    run.counts[WANTED] = 0
    while True:
        if run.counts[TURN] < 0:
            if run.counts[LEFT] <= stop:
                return DONE
            if not run.counts[WAITING] or run.energy[run.queue[0]] >= tau:
                _next_pass(run)
                if not run.counts[WAITING] or run.energy[run.queue[0]] >= tau:
                    return DONE
            region = _pop(run)
            if not run.marks[region] & THERE or not run.near_at[region, 1]:
                continue
            run.marks[region] &= ~QUEUED
            run.counts[TURN] = region
        a = run.counts[TURN]
        best, least = np.inf, np.inf
        other = nearest = large = a
        missing = boundless = False
        for e in range(run.near_at[a, 0], run.near_at[a, 0] + run.near_at[a, 1]):
            b = run.near[e]
            kind, value, slot, is_large = _known(run, table, a, b, mesh)
            if kind == EXACT:
                if value < best or (value == best < np.inf and run.first[b] < run.first[other]):
                    best, other = value, b
            elif not is_large:
                missing = True
            elif kind == BOUND:
                tied = value == least and _less(table, slot, large)
                if value < least or tied:
                    least, large, nearest = value, slot, b
            else:
                boundless = True
        if missing or boundless:
            for w in range(-1, min(ahead, run.counts[WAITING]) if missing else 0):
                soon = a if w < 0 else run.queue[w]
                if run.marks[soon] & THERE and run.energy[soon] < tau:
                    _ask_all(run, table, soon, mesh, not missing)
            return ENERGIES if missing else BOUNDS
        if least <= min(best, tau):
            _ask(run, table, a, nearest, large)
            return LARGE
        run.blocked[0] = min(run.blocked[0], least)
        run.counts[TURN] = -1
        if best > tau or best == np.inf:
            run.blocked[0] = min(run.blocked[0], best)
        else:
            _unite(run, a, other, best, mesh)


@compiled
def _less(table: Table, a: int, b: int) -> bool:
    if table.key[a, 0] == table.key[b, 0]:
        return bool(table.key[a, 1] < table.key[b, 1])
    return bool(table.key[a, 0] < table.key[b, 0])


@compiled
def _next_pass(run: Run) -> None:
    """Whose neighbourhood has changed has a turn."""
    run.counts[WAITING] = 0
    for region in range(run.counts[FORMED]):
        mark = run.marks[region]
        run.marks[region] = mark & THERE
        if mark & THERE and mark & CHANGED:
            run.marks[region] |= QUEUED
            _push(run, region)


@compiled
def _unite(run: Run, a: int, b: int, energy: float, mesh: Integers) -> None:
    """Merge two neighbours; who among the others is still to come in this pass has a turn."""
    run.merged[run.counts[MERGED], 0], run.merged[run.counts[MERGED], 1] = a, b
    run.counts[MERGED] += 1
    new = run.counts[FORMED]
    run.counts[FORMED] += 1
    run.counts[LEFT] -= 1
    run.key[new, 0], run.key[new, 1] = run.key[a, 0] ^ run.key[b, 0], run.key[a, 1] ^ run.key[b, 1]
    run.energy[new], run.first[new] = energy, min(run.first[a], run.first[b])
    run.cells[new], run.lit[new] = run.cells[a] + run.cells[b], run.lit[a] | run.lit[b]
    run.parts[new, 0], run.parts[new, 1] = a, b
    box = _box(run, a, b, mesh)
    for k in range(4):
        run.box[new, k] = box[k]
    run.marks[a] &= ~THERE
    run.marks[b] &= ~THERE
    run.marks[new] = THERE | CHANGED | BORN
    if run.counts[USED] + run.near_at[a, 1] + run.near_at[b, 1] > len(run.near):
        _tidy(run, a, b)
    begin = end = run.counts[USED]
    run.stamp[a] = run.stamp[b] = new
    for part in (a, b):
        for e in range(run.near_at[part, 0], run.near_at[part, 0] + run.near_at[part, 1]):
            other = run.near[e]
            if run.stamp[other] != new:
                run.stamp[other] = new
                run.near[end] = other
                end += 1
    run.near_at[new, 0], run.near_at[new, 1] = begin, end - begin
    run.counts[USED] = end
    for e in range(begin, end):
        other = run.near[e]
        low, kept = run.near_at[other, 0], 0
        for f in range(low, low + run.near_at[other, 1]):
            if run.near[f] != a and run.near[f] != b:
                run.near[low + kept] = run.near[f]
                kept += 1
        run.near[low + kept] = new
        run.near_at[other, 1] = kept + 1
        mark = run.marks[other]
        if mark & BORN or not _before(run, a, other):
            run.marks[other] = mark | CHANGED
        elif not mark & QUEUED:  # still to come in this pass
            run.marks[other] = mark | QUEUED
            _push(run, other)


@compiled
def _tidy(run: Run, a: int, b: int) -> None:
    """Move the neighbours of those that are left, and of two others, to the front."""
    end = 0
    old = run.near.copy()
    for region in range(run.counts[FORMED]):
        if run.marks[region] & THERE or region in (a, b):
            begin, many = run.near_at[region, 0], run.near_at[region, 1]
            run.near_at[region, 0] = end
            for e in range(begin, begin + many):
                run.near[end] = old[e]
                end += 1
    run.counts[USED] = end
