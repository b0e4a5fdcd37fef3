"""A walk by a coder: through compiled loops where they pay, else batch by batch."""

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from elmfield._array import compiled
from elmfield.codec.ans import too_short
from elmfield.codec.lossy import magnitudes
from elmfield.codec.lossy.boxes import Modes, modes
from elmfield.codec.lossy.contexts import (
    CHECKPOINTS,
    COARSE_STEPS,
    LEVELS,
    Contexts,
    Walk,
    levels,
    neighbours,
    places,
)
from elmfield.codec.lossy.layout import Asked, Ground, Lanes, Learning, Made, Trained
from elmfield.codec.lossy.streams import Chooser, Follower, Patient, Pricer


def walked(walk: Walk, contexts: Contexts, coder: Pricer | Chooser | Follower) -> None:
    """Walk through all batches; bytes and prices are the same either way."""
    if not compiled.pays(0):
        walk.run(contexts, coder)
    elif isinstance(coder, Pricer):
        _priced(walk, contexts, coder)
    elif isinstance(coder, Chooser):
        _chosen(walk, contexts, coder)
    else:
        _followed(walk, contexts, coder)


def _priced(walk: Walk, contexts: Contexts, coder: Pricer) -> None:
    from elmfield.codec.lossy import walk_loops as loops

    _run(loops.PRICE, walk, contexts, coder.price, asked=_asked(coder))


def _chosen(walk: Walk, contexts: Contexts, coder: Chooser) -> None:
    from elmfield.codec.lossy import walk_loops as loops

    M, n = coder.x.shape[0], len(walk.boxes)
    made = _made(n * (M + len(CHECKPOINTS)), 2 * (walk.modes.n_diagonals + len(CHECKPOINTS)), n * M)
    tables = _learning(coder.learned.tokens), _learning(coder.learned.flags)
    _run(loops.WRITE, walk, contexts, coder.price, _asked(coder), *tables, made=made)
    _, batches, wide = made.sizes.tolist()
    for a, b in zip([0, *made.ends[: batches - 1].tolist()], made.ends[:batches].tolist()):
        coder.writer.batch(made.entries[a:b], coder.learned.tokens.tables.bits)
    coder.wide(made.values[:wide], made.widths[:wide])


def _followed(walk: Walk, contexts: Contexts, coder: Follower) -> None:
    from elmfield.codec.lossy import walk_loops as loops

    made = _made(0, 0, len(walk.boxes) * len(walk.A))
    tables = _learning(coder.learned.tokens), _learning(coder.learned.flags)
    lanes = Lanes(*coder.reader.decoder.lone)
    if not _run(loops.READ, walk, contexts, 0.0, None, *tables, made=made, lanes=lanes):
        raise too_short()
    coder.reader.decoder.go_on(lanes.place)
    wide = int(made.sizes[2])
    i, j = np.divmod(made.places[:wide], walk.A.shape[1])
    coder.wide((i, j), made.widths[:wide], made.values[:wide])


def _run(
    role: int,
    walk: Walk,
    contexts: Contexts,
    price: float,
    asked: Asked | None = None,
    tokens: Learning | None = None,
    flags: Learning | None = None,
    made: Made | None = None,
    lanes: Lanes | None = None,
) -> bool:
    """The loop; what a role has no use for is empty."""
    from elmfield.codec.lossy import walk_loops as loops

    return loops.walk(
        role,
        _ground(walk.modes.B, walk.grid),
        _trained(contexts),
        walk.large,
        walk.A,
        walk.boxes.astype(np.uint32),
        walk.n_even,
        float(price),
        _no_asked() if asked is None else asked,
        _no_learning() if tokens is None else tokens,
        _no_learning() if flags is None else flags,
        _made(0, 0, 0) if made is None else made,
        _no_lanes() if lanes is None else lanes,
    )


def _asked(coder: Pricer | Chooser) -> Asked:
    last, none = coder.last.astype(np.int64), _no_asked()
    if isinstance(coder, Chooser):
        return none._replace(x=coder.x, last=last, costs=coder.costs, q=coder.q)
    prices = coder.flag_costs, coder.left, coder.bits, coder.error
    return Asked(coder.x, last, coder.costs, *prices, none.q)


def _learning(tables: Patient) -> Learning:
    of, now = tables.adaptive, tables.tables
    seen = (tables.seen, tables.n)
    return Learning(
        of.counts, of.fresh, *seen, now.entries, now.slots, of.weight, of.limit, now.bits
    )


@lru_cache(maxsize=1)
def _no_asked() -> Asked:
    flat, line = np.zeros((0, 0), np.float32), np.zeros(0, np.float32)
    return Asked(
        flat, np.zeros(0, np.int64), flat, flat, flat, line, line, np.zeros((0, 0), np.int32)
    )


@lru_cache(maxsize=1)
def _no_learning() -> Learning:
    return _learning(Patient(np.ones((1, 2), np.int64)))


@lru_cache(maxsize=1)
def _no_lanes() -> Lanes:
    return Lanes(np.zeros(0, np.uint32), np.zeros(0, np.uint32), np.zeros(2, np.int64))


def _made(symbols: int, batches: int, wide: int) -> Made:
    """Room for what a walk writes: no more of it is touched than is written."""
    return Made(
        np.empty(symbols, np.uint32),
        np.empty(batches, np.int64),
        np.empty(wide, np.int64),
        np.empty(wide, np.int32),
        np.empty(wide, np.int32),
        np.zeros(3, np.int64),
    )


@lru_cache(maxsize=16)
def _ground(B: int, grid: tuple[int, ...]) -> Ground:
    """What is known of boxes of one size on a grid."""
    d = len(grid) - 1
    m, of = modes(B, d), places(B, d)
    checkpoints = np.full(m.n_diagonals, -1, np.int64)
    first = [s for s in CHECKPOINTS if s < m.n_diagonals]
    checkpoints[first] = np.arange(len(first))
    beside = neighbours(grid)
    pairs = [pair for _, pair in beside]
    return Ground(
        np.array(m.starts, np.int64),
        checkpoints,
        _rows(m, m.lower1, 1),
        _rows(m, m.lower2, 2),
        _rows(m, m.lower11, 2),
        of.position.astype(np.int64),
        np.array(pairs, np.uint32).reshape(len(pairs), 2, math.prod(grid)),
        np.array([of.high[k][:, 0] for k, _ in beside], bool).reshape(len(pairs), len(m.rows)),
    )


def _rows(m: Modes, lower: list[list[NDArray[np.intp]]], down: int) -> NDArray[np.int64]:
    """Rows of the lower modes of every mode, (M, lists); M where there is none."""
    M, n = len(m.rows), len(lower[0])
    out = np.full((M, n), M, np.int64)
    for s in range(down, m.n_diagonals):
        first, end = m.starts[s - down], m.starts[s - down + 1]
        for k, at in enumerate(lower[s]):
            out[m.starts[s] : m.starts[s + 1], k] = np.where(at < end - first, first + at, M)
    return out


@lru_cache(maxsize=8)
def _trained(contexts: Contexts) -> Trained:
    return Trained(
        levels(),
        np.ascontiguousarray(contexts.weights),
        contexts.classes.reshape(-1, LEVELS * LEVELS),
        np.ascontiguousarray(contexts.flags),
        COARSE_STEPS,
        magnitudes.LOW_BITS,
        magnitudes.FIRST_LONG,
        magnitudes.TOKENS,
        magnitudes.WIDTHS,
        magnitudes.BASES,
        magnitudes.SEEN,
    )
