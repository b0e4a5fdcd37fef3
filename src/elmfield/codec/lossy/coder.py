"""The coders of a walk through boxes: what they choose, write and read."""

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from elmfield._array.running import pays
from elmfield.codec.ans import Bits, StreamReader, StreamWriter, pack_bits, unpack_bits
from elmfield.codec.container import damaged
from elmfield.codec.lossy import contexts
from elmfield.codec.lossy.contexts import (
    BatchCoder,
    BoxWalk,
    Counts,
    Places,
    Prior,
    Small,
    load_prior,
)
from elmfield.codec.symbol_tables import AdaptiveTables, Entries

Array = NDArray[Any]

BIT_PRICE = 0.1155
"""Squared steps a bit is worth: the slope of distortion at high rates, 2 ln 2 / 12."""
PATIENCE_SYMBOLS = 1024
"""Tables learn after so many symbols and an eighth of all before."""


# --- coders ---------------------------------------------------------------------------------------


@lru_cache(maxsize=8)
def _initial_tables(prior: Prior) -> tuple[AdaptiveTables, AdaptiveTables]:
    tokens, flags = (
        AdaptiveTables(counts, weight=16, limit=1 << 18, patience=PATIENCE_SYMBOLS)
        for counts in (prior.tokens, prior.going)
    )
    return tokens, flags


def section_tables(d: int) -> tuple[AdaptiveTables, AdaptiveTables]:
    """Return the tables of tokens and of flags that a section of d axes begins with."""
    tokens, flags = (tables.copy() for tables in _initial_tables(load_prior(d)))
    return tokens, flags


def down(x: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return sums of columns, row after row; NumPy adds a single column in another order."""
    sums: NDArray[np.float32] = x.sum(axis=0) if x.shape[1] > 1 else x.cumsum(axis=0)[-1]
    return sums


Singles = NDArray[np.float32]


class Coder(BatchCoder):
    """What compiled loops are given of a coder, and give it back."""

    tables: tuple[AdaptiveTables, AdaptiveTables]
    reader: StreamReader | None = None
    x = np.zeros((0, 0), np.float32)
    last = np.zeros(0, np.intp)
    q = np.zeros((0, 0), np.int32)

    def keep(
        self, entries: Entries, ends: Places, place: Places, value: Counts, width: Small
    ) -> None:
        """Take entries of symbols, ends of their batches; places, values and widths of raw bits."""


def code_boxes(walk: BoxWalk, prior: Prior, coder: Coder) -> None:
    """Run a walk through boxes: by compiled loops where these pay."""
    if pays(0):
        from elmfield.codec.lossy import box_loops

        box_loops.run(walk, prior, coder)
    else:
        walk.run(prior, coder)


class Quantiser(Coder):
    """Chooses magnitudes by what they cost, and writes them.

    Parameters
    ----------
    x : array, shape (M, boxes)
        Magnitudes in steps.
    last : array, shape (boxes,)
        The last diagonal worth coding.
    """

    def __init__(
        self,
        prior: Prior,
        x: Singles,
        last: Places,
        tables: tuple[AdaptiveTables, AdaptiveTables],
        writer: StreamWriter,
    ) -> None:
        self.x, self.last, self.costs = x, last, prior.costs
        self.tables, self.writer = tables, writer
        (self.tokens, self.flags) = tables
        self.q = np.zeros(x.shape, np.int32)
        self._raw: list[Bits] = []

    def choose(self, classes: Small, rows: slice, boxes: Places) -> tuple[Array, Counts]:
        """Return magnitudes of a batch in steps, and rounded: one less where that is worth it."""
        x = self.x[rows].take(boxes, axis=1)
        q = (x + np.float32(0.5)).astype(np.int32)
        some = np.flatnonzero((q > 0) & (q < contexts.DIRECT))
        high, c = q.ravel()[some], classes.ravel()[some].astype(np.intp) * self.costs.shape[1]
        saved = self.costs.take(c + high) - self.costs.take(c + high - 1)
        # (x - q + 1)² - (x - q)² = 2 (x - q) + 1
        error = 2 * (x.ravel()[some] - high) + 1
        q.ravel()[some] -= error < BIT_PRICE * saved
        return x, q

    def code_flags(self, classes: Small, boxes: Places, diagonal: int) -> NDArray[np.bool_]:
        """Return whether boxes go on: what comes is worth its bits."""
        on = self.last.take(boxes) >= diagonal
        self.writer.symbols(self.flags, classes, on.view(np.uint8))
        return on

    def code_magnitudes(self, classes: Small, rows: slice, boxes: Places) -> Counts:
        """Write the best magnitudes of a batch."""
        _, q = self.choose(classes, rows, boxes)
        self.q[rows][:, boxes] = q
        tokens = contexts.find_tokens(q, classes)
        self.writer.symbols(self.tokens, classes.ravel(), tokens.ravel())
        wide, widths, bases, seen = _find_wide(classes, tokens)
        if wide.size:
            self._raw.append(pack_bits(q.ravel()[wide] - bases, widths))
        return seen

    def keep(
        self, entries: Entries, ends: Places, place: Places, value: Counts, width: Small
    ) -> None:
        """Take the entries of symbols, and raw bits."""
        self.writer.append(entries, np.diff(ends, prepend=0))
        self._raw.append(pack_bits(value, width))

    def finish(self, negative: NDArray[np.bool_]) -> tuple[Counts, NDArray[np.float64]]:
        """Write raw bits: low bits, then signs of what is not 0, in the order of rows.

        Returns
        -------
        q : array, shape (M, boxes)
            Magnitudes with their signs.
        off : array, shape (3,)
            How far 1, 2, 3 and more lie above what they stand for, on average.
        """
        self.writer.raw += self._raw
        some = np.flatnonzero(self.q)
        q, minus = self.q.ravel()[some], negative.ravel()[some]
        self.writer.raw.append(minus.view(np.uint8))
        # multiples of 2^-25: exact in any order
        above, which = q - self.x.ravel()[some], np.minimum(q, 3)
        mean = np.bincount(which, above, 4)[1:] / np.maximum(np.bincount(which, minlength=4)[1:], 1)
        self.q.ravel()[some[minus]] = -q[minus]
        return self.q, np.asarray(mean, np.float64)


class MagnitudeReader(Coder):
    """Reads magnitudes in the order of a walk."""

    reader: StreamReader

    def __init__(
        self, tables: tuple[AdaptiveTables, AdaptiveTables], reader: StreamReader, n_boxes: int
    ) -> None:
        self.tables, self.reader, self.n_boxes = tables, reader, n_boxes
        (self.tokens, self.flags) = tables
        self._wide: list[tuple[Places, NDArray[np.integer], Counts]] = []

    def code_flags(self, classes: Small, boxes: Places, diagonal: int) -> NDArray[np.bool_]:
        """Return whether boxes go on, as it was written."""
        return self.reader.symbols(self.flags, classes).view(np.bool_)

    def code_magnitudes(self, classes: Small, rows: slice, boxes: Places) -> Counts:
        """Return magnitudes of a batch, but for their raw bits."""
        tokens = self.reader.symbols(self.tokens, classes.ravel()).reshape(classes.shape)
        wide, widths, bases, seen = _find_wide(classes, tokens)
        if wide.size:
            i, j = np.divmod(wide, len(boxes))
            self._wide.append(((rows.start + i) * self.n_boxes + boxes[j], widths, bases))
        return seen

    def keep(
        self, entries: Entries, ends: Places, place: Places, value: Counts, width: Small
    ) -> None:
        """Take where raw bits follow, and what they are added to."""
        self._wide.append((place, width, value))

    def finish(self, A: Counts) -> Counts:
        """Return whole numbers with signs from what the walk saw, (M, boxes); changes `A`."""
        for place, widths, bases in self._wide:
            found = bases + unpack_bits(self.reader.raw(int(widths.sum())), widths)
            if int(found.max(initial=0)) > contexts.LARGEST_MAGNITUDE:
                raise damaged("has impossible values")
            A.ravel()[place] = found
        A[0] = 0
        some = np.flatnonzero(A)
        negative = self.reader.raw(len(some)).astype(np.int32)
        A.ravel()[some] *= 1 - 2 * negative
        return A


def _find_wide(classes: Small, tokens: Small) -> tuple[Places, Counts, Counts, Counts]:
    """Return where raw bits follow tokens, their widths and bases; magnitudes contexts see."""
    if int(tokens.max()) < contexts.DIRECT and int(classes.max()) < contexts.FIRST_LOW:
        none = np.zeros(0, np.int32)
        return np.zeros(0, np.intp), none, none, tokens.astype(np.int32)
    where = classes.astype(np.intp) * contexts.WIDTHS.shape[1] + tokens
    widths = contexts.WIDTHS.take(where)
    wide = np.flatnonzero(widths)
    bases, seen = contexts.BASES.take(where.ravel()[wide]), contexts.SEEN.take(where)
    return wide, widths.ravel()[wide], bases, seen
