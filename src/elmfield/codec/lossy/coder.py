"""The coders of a walk through boxes: what they choose, write and read."""

from functools import lru_cache, partial

import numpy as np
from numpy.typing import NDArray

from elmfield.codec.ans import StreamReader, StreamWriter
from elmfield.codec.container import damaged
from elmfield.codec.lossy import contexts
from elmfield.codec.lossy.contexts import Counts, Places, Prior, Small
from elmfield.codec.symbol_tables import AdaptiveTables

BIT_PRICE = 0.1155
"""Squared steps a bit is worth: the slope of distortion at high rates, 2 ln 2 / 12."""
PATIENCE_SYMBOLS = 1024
"""Tables learn after so many symbols and an eighth of all before."""


@lru_cache(maxsize=8)
def _initial_tables(prior: Prior) -> tuple[AdaptiveTables, AdaptiveTables]:
    """Return the tables of tokens and of flags that a section begins with."""
    make = partial(AdaptiveTables, weight=16, limit=1 << 18, patience=PATIENCE_SYMBOLS)
    return make(prior.tokens), make(prior.going)


def down(x: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return sums of columns, row after row; NumPy adds a single column in another order."""
    sums: NDArray[np.float32] = x.sum(axis=0) if x.shape[1] > 1 else x.cumsum(axis=0)[-1]
    return sums


class Coder:
    """Codes the magnitudes of boxes as symbols, with raw bits behind all of them.

    An encoder has magnitudes in steps `x`, the `last` diagonals worth coding, and finds `q`.
    """

    reader: StreamReader | None = None
    x = np.zeros((0, 0), np.float32)
    last = np.zeros(0, np.intp)
    q = np.zeros((0, 0), np.int32)

    def __init__(self, prior: Prior, n_boxes: int) -> None:
        self.prior, self.n_boxes, self.writer = prior, n_boxes, StreamWriter()
        self.tokens, self.flags = (tables.copy() for tables in _initial_tables(prior))
        # places, widths, and what goes raw (in a decoder what that is added to)
        none = np.zeros(0, np.intp), np.zeros(0, np.int32), np.zeros(0, np.int32)
        self.raw: list[tuple[Places, Counts, Counts]] = [none]

    def code_flags(self, classes: Small, boxes: Places, diagonal: int) -> NDArray[np.bool_]:
        """Return whether boxes go on: what comes is worth its bits, or as it was written."""
        if self.reader is not None:
            return self.reader.symbols(self.flags, classes).view(np.bool_)
        on = self.last.take(boxes) >= diagonal
        self.writer.symbols(self.flags, classes, on.view(np.uint8))
        return on

    def code_magnitudes(self, classes: Small, rows: slice, boxes: Places) -> Counts:
        """Write or read a batch; return its magnitudes as contexts see them."""
        if self.reader is None:
            self.q[rows][:, boxes] = q = self._choose(classes, rows, boxes)
            tokens = contexts.find_tokens(q, classes)
            self.writer.symbols(self.tokens, classes.ravel(), tokens.ravel())
        else:
            tokens = self.reader.symbols(self.tokens, classes.ravel()).reshape(classes.shape)
        if int(tokens.max()) < contexts.DIRECT and int(classes.max()) < contexts.FIRST_LOW:
            return tokens.astype(np.int32)
        where = classes.astype(np.intp) * contexts.WIDTHS.shape[1] + tokens
        widths = contexts.WIDTHS.take(where).ravel()
        if (wide := np.flatnonzero(widths)).size:
            i, j = np.divmod(wide, len(boxes))
            place = (rows.start + i) * self.n_boxes + boxes[j]
            bases = contexts.BASES.take(where.ravel()[wide])
            rest = bases if self.reader is not None else self.q.ravel()[place] - bases
            self.raw.append((place, widths[wide], rest))
        return np.asarray(contexts.SEEN.take(where))

    def _choose(self, classes: Small, rows: slice, boxes: Places) -> Counts:
        """Return magnitudes of a batch, rounded: one less where that is worth its bits."""
        x, costs = self.x[rows].take(boxes, axis=1), self.prior.costs
        q = (x + np.float32(0.5)).astype(np.int32)
        some = np.flatnonzero((q > 0) & (q < contexts.DIRECT))
        high, c = q.ravel()[some], classes.ravel()[some].astype(np.intp) * costs.shape[1]
        saved = costs.take(c + high) - costs.take(c + high - 1)
        # (x - q + 1)² - (x - q)² = 2 (x - q) + 1
        error = 2 * (x.ravel()[some] - high) + 1
        q.ravel()[some] -= error < BIT_PRICE * saved
        return q


class Quantiser(Coder):
    """Chooses magnitudes by what they cost, and writes them.

    Parameters
    ----------
    x : array, shape (M, boxes)
        Magnitudes in steps.
    last : array, shape (boxes,)
        The last diagonal worth coding.
    """

    def __init__(self, prior: Prior, x: NDArray[np.float32], last: Places) -> None:
        super().__init__(prior, x.shape[1])
        self.x, self.last, self.q = x, last, np.zeros(x.shape, np.int32)

    def finish(self, negative: NDArray[np.bool_]) -> tuple[Counts, NDArray[np.float64]]:
        """Write what goes raw: low bits, then signs of what is not 0, in the order of rows.

        Returns
        -------
        q : array, shape (M, boxes)
            Magnitudes with their signs.
        off : array, shape (3,)
            How far 1, 2, 3 and more lie above what they stand for, on average.
        """
        some = np.flatnonzero(self.q != 0)
        q, minus = self.q.ravel()[some], negative.ravel()[some]
        _, widths, rest = map(np.concatenate, zip(*self.raw))
        self.writer.numbers(rest, widths)
        self.writer.raw.append(minus.view(np.uint8))
        # multiples of 2^-25: exact in any order
        above, which = q - self.x.ravel()[some], np.minimum(q, 3)
        mean = np.bincount(which, above, 4)[1:] / np.maximum(np.bincount(which, minlength=4)[1:], 1)
        self.q.ravel()[some[minus]] = -q[minus]
        return self.q, np.asarray(mean, np.float64)


class MagnitudeReader(Coder):
    """Reads magnitudes in the order of a walk."""

    reader: StreamReader

    def __init__(self, prior: Prior, reader: StreamReader, n_boxes: int) -> None:
        super().__init__(prior, n_boxes)
        self.reader = reader

    def finish(self, A: Counts) -> Counts:
        """Return whole numbers with signs from what the walk saw, (M, boxes); changes `A`."""
        place, widths, bases = map(np.concatenate, zip(*self.raw))
        found = bases + self.reader.numbers(widths)
        self.reader.finish()
        if int(found.max(initial=0)) > contexts.LARGEST_MAGNITUDE:
            raise damaged("has impossible values")
        A.ravel()[place] = found
        A[0] = 0
        some = np.flatnonzero(A != 0)
        negative = self.reader.raw(len(some)).astype(np.int32)
        A.ravel()[some] *= 1 - 2 * negative
        return A
