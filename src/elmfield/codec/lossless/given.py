"""What compiled loops are given: numbers and arrays under their names."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from elmfield._array.typing import Floats, Integers


class Blocks(NamedTuple):
    """Where samples of a plane lie: group g, block b, rows of `width` samples.

    Parameters
    ----------
    rows : array, shape (G, B)
        Rows of a group's block that lie in the array.
    height, width : int
        Rows and columns of a block.
    skew, spans, later : arrays
        Of the wavefront: first line of every group (G,), lines of every step (T, 2), the largest
        number of samples of a later step (T,).
    """

    rows: Integers
    height: int
    width: int
    skew: Integers
    spans: Integers
    later: Integers


class Predictors(NamedTuple):
    """How a plane is predicted.

    Parameters
    ----------
    top : float
        Samples lie in [0, top].
    weights : array, shape (6, G, 4, K)
        By place of a row (`_place`): first, second, other; then the same for a block's last row.
        K is a multiple of 4; neighbours from `used` on have no weight in a group.
    used : array, shape (G,)
        A multiple of 4.
    gains : array, shape (G, F + 1)
        Of past errors.
    shares : array
        Weight of a prediction by levels of its past errors above the least.
    limits : array
        Of squares, of errors, and the number of bins.
    """

    top: float
    weights: Floats
    used: Integers
    gains: Floats
    shares: Floats
    limits: Floats


class Around(NamedTuple):
    """Neighbours: groups back, rows down, steps on (all 0 or less but for rows)."""

    back: Integers
    down: Integers
    on: Integers


class Coder(NamedTuple):
    """Contexts, tables and tokens.

    Parameters
    ----------
    lowest, coarse : int
        Of the bins of expected errors.
    classes : array
        Table of every context.
    slots, entries : arrays, shape (tables, 2^bits), (tables, tokens)
        Of :class:`elmfield.codec.ans.Tables`.
    least, raw : arrays
        Least number and raw bits of every token.
    """

    lowest: int
    coarse: int
    bits: int
    classes: Integers
    slots: NDArray[np.uint8]
    entries: Integers
    least: Integers
    raw: Integers


class Wave(NamedTuple):
    """What later samples may ask for, and what is known of those of one step.

    Parameters
    ----------
    samples, errors : arrays, shape (steps * size,)
        The last steps in a ring, each with (G, height + 3, B) places: two rows stand above a
        block, one below. The number of steps is a power of 2.
    squares : array, shape (4, 4, size)
        Of the last four steps, by predictor.
    guess, blend, context, token, z : arrays
        Of the samples of a step, in the order (g, y, b); tokens and z only of those in the array.
    sums, energy : arrays
        Room for what the samples of one group need.
    """

    samples: Floats
    errors: Floats
    squares: Floats
    guess: Floats
    blend: Floats
    context: Integers
    token: Integers
    z: Integers
    sums: Floats
    energy: Floats


class Plane(NamedTuple):
    """Where samples go: ``samples[places[g, b] + pitch y + x]``; if x < ``ends[b]``."""

    samples: NDArray[np.int32]
    places: Integers
    pitch: int
    ends: Integers
