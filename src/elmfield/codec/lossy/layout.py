"""Arrays that compiled walks take and fill, by name; see `walking` and `walk_loops`."""

from typing import Any, NamedTuple

from numpy.typing import NDArray

Array = NDArray[Any]


class Ground(NamedTuple):
    """The boxes of a walk: which modes lie below which, and who lies beside whom.

    Modes that are not there have number M.
    """

    starts: Array  # (diagonals + 1,) int64
    checkpoints: Array  # (diagonals,) int64: number of the checkpoint, or -1
    lower1: Array  # (M, d) int64
    lower2: Array  # (M, d) int64
    lower11: Array  # (M, pairs) int64
    position: Array  # (M,) int64, that of even boxes
    beside: Array  # (axes with several boxes, 2, boxes) uint32
    high: Array  # (axes with several boxes, M) bool: whether a mode's index is its largest there


class Trained(NamedTuple):
    """Tables of the format."""

    levels: Array  # (2^18,) uint8
    weights: Array  # (24, 10) int32
    classes: Array  # (4 positions, LEVELS^2) uint8
    flags: Array  # (checkpoints, 2, COARSE, COARSE, EDGES) uint8
    coarse: Array  # (COARSE - 1,) int64
    low_bits: Array  # (classes,) int32
    first_long: Array  # (classes,) int32
    tokens: Array  # (1025,) uint8; the last one is the escape
    widths: Array  # (classes, tokens) int32
    bases: Array  # (classes, tokens) int32
    seen: Array  # (classes, tokens) int32


class Learning(NamedTuple):
    """Adaptive tables, and what was seen since they learned."""

    counts: Array  # (K, A) int64
    fresh: Array  # (K,) int64
    seen: Array  # (K, A) int64
    n: Array  # (2,) int64: symbols that were learned, and that wait
    entries: Array  # (K, A) uint32
    slots: Array  # (K, 2^bits) uint8
    weight: int
    limit: int
    bits: int


class Asked(NamedTuple):
    """What is priced or written."""

    x: Array  # (M, boxes) float32
    last: Array  # (boxes,) int64
    costs: Array  # (classes, tokens) float32
    flag_costs: Array  # (flags, 2) float32
    left: Array  # (checkpoints, boxes) float32
    bits: Array  # (boxes,) float32, is filled
    error: Array  # (boxes,) float32, is filled
    q: Array  # (M, boxes) int32, is filled


class Made(NamedTuple):
    """What a walk writes: symbols batch by batch, and values with raw bits in their order."""

    entries: Array  # (symbols,) uint32
    ends: Array  # (batches,) int64
    places: Array  # (wide,) int64: row times boxes + box
    values: Array  # (wide,) int32: what the raw bits say in writing, the base in reading
    widths: Array  # (wide,) int32
    sizes: Array  # (3,) int64: symbols, batches, wide


class Lanes(NamedTuple):
    """A coded stream that is read."""

    states: Array  # (lanes,) uint32
    words: Array  # (words,) uint32
    place: Array  # (2,) int64: the next word, the end
