"""Compiled loops of prediction: a plane sample by sample, as `frame` and `decode` do by NumPy.

The arithmetic is that of `predict`, whole numbers in float64, in the same order of coding: the
same bytes both ways. `decode` alone meets bytes from outside; every table it looks into was checked
before (`plane_model`), and words are counted here.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from elmfield._array.running import compiled
from elmfield._array.typing import Floats, Integers

DONE, TOO_SHORT, NO_END = 0, 1, 2
"""Results of `decode`: all samples, too few words, a lane that does not end as it should."""


class Blocks(NamedTuple):
    """Where samples of a plane lie: group g, block b, rows of `width` samples."""

    rows: Integers  # (G, B): rows of a group's block that lie in the array
    height: int  # of a block
    width: int
    skew: Integers  # (G,): first line of every group
    spans: Integers  # (T, 2): lines of every step
    later: Integers  # (T,): the largest number of samples of a later step


class Predictors(NamedTuple):
    """How a plane is predicted; samples lie in [0, top]."""

    top: float
    weights: Floats  # (6, G, 4, K), K a multiple of 4: by place of a row (`_place`)
    used: Integers  # (G,): neighbours from here on have no weight in a group; a multiple of 4
    gains: Floats  # (G, F + 1): weights of past errors
    shares: Floats  # weight of a prediction by levels of its past errors above the least
    limits: Floats  # of squares, of errors, and the number of bins


class Neighbours(NamedTuple):
    """Where neighbours lie: groups back, rows down, steps on (all 0 or less but for rows)."""

    back: Integers
    down: Integers
    on: Integers


class Coder(NamedTuple):
    """Bins of expected errors, the table of every context, tables and tokens."""

    lowest: int
    coarse: int
    bits: int
    classes: Integers
    slots: NDArray[np.uint8]
    entries: Integers
    least: Integers
    raw: Integers


class Wave(NamedTuple):
    """The last steps in a ring, each with (G, height + 3, B) places, and the step that is decoded.

    Two rows stand above a block, one below. The number of steps is a power of 2.
    """

    samples: Floats  # (steps * size,)
    errors: Floats  # (steps * size,)
    squares: Floats  # (4, 4, size): of the last four steps, by predictor
    guess: Floats  # of the samples of a step, in the order (g, y, b)
    blend: Floats
    context: Integers
    token: Integers  # only of samples in the array, as z
    z: Integers
    sums: Floats  # scratch space for the samples of one group
    energy: Floats


class Output(NamedTuple):
    """Where samples go: ``samples[places[g, b] + pitch y + x]``; if x < ``ends[b]``."""

    samples: NDArray[np.int32]
    places: Integers
    pitch: int
    ends: Integers


@compiled
def _place(y: int, height: int) -> int:
    """Return which weights a row has: neighbours above and below a block read their anchor."""
    return min(y, 2) + (3 if y == height - 1 else 0)


@compiled
def _guess(
    samples: Floats,
    starts: Integers,
    K: int,
    weights: Floats,
    n: int,
    out: Floats,
    at: int | np.int64,
) -> None:
    """Predict n samples in a row: neighbour k of the first is ``samples[starts[k]]``."""
    for p in range(4):
        row = out[p, at : at + n]
        for k in range(0, K, 4):
            w, x, y, z = weights[p, k], weights[p, k + 1], weights[p, k + 2], weights[p, k + 3]
            a, b = samples[starts[k] :][:n], samples[starts[k + 1] :][:n]
            c, d = samples[starts[k + 2] :][:n], samples[starts[k + 3] :][:n]
            if k == 0:
                for j in range(n):
                    row[j] = (w * a[j] + x * b[j]) + (y * c[j] + z * d[j])
            else:
                for j in range(n):
                    row[j] += (w * a[j] + x * b[j]) + (y * c[j] + z * d[j])
        for j in range(n):
            row[j] = np.floor(row[j])


@compiled
def _blend(
    guess: Floats, at: int | np.int64, past: Floats, shares: Floats, n: int, out: Floats
) -> None:
    """Run `predict.blend`."""
    bits, faintest = past.view(np.int64), shares.size - 1
    one, two, three, four = guess[0, at:], guess[1, at:], guess[2, at:], guess[3, at:]
    for j in range(n):
        a, b, c, d = bits[0, j] >> 49, bits[1, j] >> 49, bits[2, j] >> 49, bits[3, j] >> 49
        least = min(min(a, b), min(c, d))
        s, t = shares[min(a - least, faintest)], shares[min(b - least, faintest)]
        u, v = shares[min(c - least, faintest)], shares[min(d - least, faintest)]
        total = s * one[j] + t * two[j] + u * three[j] + v * four[j]
        out[at + j] = np.floor(total / (s + t + u + v))


@compiled
def _expect(errors: Floats, starts: Integers, gains: Floats, n: int, out: Any) -> None:
    """Add up the expected errors of n samples in a row, from past errors."""
    F = starts.size
    for j in range(n):
        out[j] = 16.0 * gains[F]
    for f in range(F):
        gain = gains[f]
        if gain:
            past = errors[starts[f] :][:n]
            for j in range(n):
                out[j] += gain * past[j]


# --- encoding -------------------------------------------------------------------------------------


@compiled
def predict(
    samples: Floats,
    corner: int,
    strides: tuple[int, int, int],
    offsets: Integers,
    blocks: Blocks,
    model: Predictors,
    error: Floats,
    z: NDArray[np.uint32],
    far: NDArray[np.uint8],
) -> None:
    """Run `frame.Frame.predict`."""
    top, width, at, none = model.top, blocks.width, 0, np.int64(0)
    starts = np.zeros(offsets.size, np.int64)
    guess, past, blend = np.empty((4, width)), np.empty((4, width)), np.empty(width)
    over, here = np.zeros((4, width + 2)), np.zeros((4, width + 2))
    G, B = blocks.rows.shape
    for g in range(G):
        for b in range(B):
            for p in range(4):
                for x in range(width + 2):
                    over[p, x] = 0.0
            for y in range(blocks.rows[g, b]):
                start = corner + g * strides[0] + b * strides[1] + y * strides[2]
                for k in range(model.used[g]):
                    starts[k] = start + offsets[k]
                weights = model.weights[_place(y, blocks.rows[g, b]), g]
                _guess(samples, starts, model.used[g], weights, width, guess, none)
                own = samples[start : start + width]
                for p in range(4):
                    mine, row, square = past[p], guess[p], here[p]
                    for x in range(width):
                        away = row[x] - 16.0 * own[x]
                        square[x + 1] = min(away * away, model.limits[0])
                    above = over[p]
                    for x in range(width):
                        mine[x] = square[x] + above[x] + above[x + 1] + above[x + 2] + 256.0
                over, here = here, over
                _blend(guess, none, past, model.shares, width, blend)
                errors = error[start : start + width]
                for x in range(width):
                    errors[x] = min(abs(blend[x] - 16.0 * own[x]), model.limits[1])
                    whole = np.floor((blend[x] + 8.0) / 16.0)
                    rest = blend[x] - 16.0 * whole
                    left = np.int64(own[x] - min(max(whole, 0.0), top))
                    left = -left if rest < 0.0 else left
                    z[at + x] = 2 * abs(left) - (1 if left > 0 else 0)
                    far[at + x] = abs(rest) >= 4.0
                at += width


# --- decoding -------------------------------------------------------------------------------------


@compiled
def _first(t: int, g: int, blocks: Blocks) -> int:
    """Return the first row of a group that has a sample at step t."""
    return max(0, int(blocks.spans[t, 0] - blocks.skew[g]))


@compiled
def _beyond(t: int, g: int, blocks: Blocks) -> int:
    """Return the first row after it that has none."""
    return min(blocks.height, int(blocks.spans[t, 1] - blocks.skew[g]))


@compiled
def _predict_step(
    t: int,
    blocks: Blocks,
    near: Neighbours,
    past: Neighbours,
    model: Predictors,
    coder: Coder,
    wave: Wave,
) -> None:
    """Find predictions and contexts of a step."""
    G, B = blocks.rows.shape
    samples, guess, blend = wave.samples, wave.guess, wave.blend
    size, at = wave.squares.shape[2], 0
    group, turn = size // G, samples.size // size - 1
    starts, ago = np.empty(near.on.size, np.int64), np.empty(past.on.size, np.int64)
    bins, most = wave.energy.view(np.int64), np.int64(model.limits[2]) - 1
    for g in range(G):
        low, high = _first(t, g, blocks), _beyond(t, g, blocks)
        if low >= high:
            continue
        y = low
        while y < high:
            stop = y + 1 if y < 2 else high
            for k in range(model.used[g]):
                place = ((t + near.on[k]) & turn) * size + max(g - near.back[k], 0) * group
                starts[k] = place + (y + 2 + near.down[k]) * B
            weights, lanes = model.weights[min(y, 2), g], (stop - y) * B
            _guess(samples, starts, model.used[g], weights, lanes, guess, at + (y - low) * B)
            y = stop
        lanes, here = (high - low) * B, g * group + (low + 2) * B
        for p in range(4):
            left, right = (
                wave.squares[(t - 1) & 3, p, here:],
                wave.squares[(t - 1) & 3, p, here - B :],
            )
            over, corner = (
                wave.squares[(t - 2) & 3, p, here - B :],
                wave.squares[(t - 3) & 3, p, here - B :],
            )
            row = wave.sums[p]
            for j in range(lanes):
                row[j] = left[j] + right[j] + over[j] + corner[j] + 256.0
        _blend(guess, at, wave.sums, model.shares, lanes, blend)
        for f in range(ago.size):
            place = ((t + past.on[f]) & turn) * size + max(g - past.back[f], 0) * group
            ago[f] = place + (low + 2 + past.down[f]) * B
        _expect(wave.errors, ago, model.gains[g], lanes, wave.energy)
        for j in range(lanes):
            rest = blend[at + j] - 16.0 * np.floor((blend[at + j] + 8.0) / 16.0)
            level = (bins[j] >> (50 + coder.coarse)) - coder.lowest
            wave.context[at + j] = 2 * min(max(level, 0), most) + (1 if abs(rest) >= 4.0 else 0)
        at += lanes


@compiled
def _read_step(
    t: int, blocks: Blocks, coder: Coder, wave: Wave, states: Integers, words: Any, word: int
) -> int:
    """Read tokens of a step, then raw bits behind them; return the next word.

    One more word stands behind the last one, for all that are missing: it saves a branch.
    """
    G, B = blocks.rows.shape
    L, mask, end = states.size, (1 << coder.bits) - 1, words.size - 1
    n = i = lane = most = 0
    for g in range(G):
        for y in range(_first(t, g, blocks), _beyond(t, g, blocks)):
            for b in range(B):
                if y < blocks.rows[g, b]:
                    x = states[lane]
                    table, slot = coder.classes[wave.context[i]], x & mask
                    symbol = coder.slots[table, slot]
                    entry = coder.entries[table, symbol]
                    x = (x >> coder.bits) * (entry & 0xFFFF) + slot - (entry >> 16)
                    small = x < 1 << 16
                    states[lane] = x << 16 | np.int64(words[min(word, end)]) if small else x
                    word += small
                    lane = lane + 1 if lane + 1 < L else 0
                    wave.token[n] = symbol
                    wave.z[n] = coder.least[symbol]
                    most = max(most, coder.raw[symbol])
                    n += 1
                i += 1
    for low in range(0, most, 15):
        lane = 0
        for i in range(n):
            some = min(max(coder.raw[wave.token[i]] - low, 0), 15)
            x = states[lane]
            wave.z[i] += (x & ((1 << some) - 1)) << low
            x >>= some
            small = x < 1 << 16
            states[lane] = x << 16 | np.int64(words[min(word, end)]) if small else x
            word += small
            lane = lane + 1 if lane + 1 < L else 0
    return word


@compiled
def _store_step(t: int, blocks: Blocks, model: Predictors, wave: Wave, plane: Output) -> None:
    """Store samples of a step, errors of predictions, and what stands around rows."""
    G, B = blocks.rows.shape
    samples, errors, squares, top = wave.samples, wave.errors, wave.squares, model.top
    size = squares.shape[2]
    group, turn = size // G, samples.size // size - 1
    now, n, i = (t & turn) * size, 0, 0
    for g in range(G):
        for y in range(_first(t, g, blocks), _beyond(t, g, blocks)):
            x = t - 2 * (y + blocks.skew[g])
            for b in range(B):
                if y < blocks.rows[g, b]:
                    blend, number, here = wave.blend[i], wave.z[n], g * group + (y + 2) * B + b
                    whole = np.floor((blend + 8.0) / 16.0)
                    left = (number + 1) >> 1 if number & 1 else -(number >> 1)
                    left = -left if blend < 16.0 * whole else left
                    value = min(max(min(max(whole, 0.0), top) + left, 0.0), top)
                    samples[now + here] = value
                    if y == blocks.rows[g, b] - 1:  # below stands the sample to the left
                        samples[((t + 3) & turn) * size + here + B] = value
                    errors[now + here] = min(abs(blend - 16.0 * value), model.limits[1])
                    for p in range(4):
                        away = wave.guess[p, i] - 16.0 * value
                        squares[t & 3, p, here] = min(away * away, model.limits[0])
                    if x < plane.ends[b]:
                        plane.samples[plane.places[g, b] + y * plane.pitch + x] = value
                    n += 1
                i += 1
        y, odd = divmod(t - blocks.width - 2 * blocks.skew[g], 2)
        if 0 <= y < blocks.height and not odd:  # right of a row stands its last sample
            row, last = g * group + (y + 2) * B, ((t - 1) & turn) * size
            for b in range(B):
                samples[now + row + b] = samples[last + row + b]
                errors[now + row + b] = 0.0
                for p in range(4):
                    squares[t & 3, p, row + b] = 0.0
        y, odd = divmod(t + 1 - 2 * blocks.skew[g], 2)
        if 0 < y < blocks.height and not odd:  # left of the row that is next: the first one above
            row, above = g * group + (y + 2) * B, ((t - 1) & turn) * size
            for b in range(B):
                value = samples[above + row - B + b]
                samples[above + row + b] = value
                samples[now + row + b] = value
                if y == blocks.rows[g, b] - 1:
                    samples[((t + 3) & turn) * size + row + B + b] = value


@compiled
def decode(
    words: NDArray[np.uint16],
    states: Integers,
    blocks: Blocks,
    near: Neighbours,
    past: Neighbours,
    model: Predictors,
    coder: Coder,
    wave: Wave,
    plane: Output,
) -> tuple[int, int]:
    """Decode one plane; return DONE or what is wrong, and the first word that is left."""
    kept, word = states.size, 2 * states.size
    for t in range(len(blocks.spans)):
        _predict_step(t, blocks, near, past, model, coder, wave)
        word = _read_step(t, blocks, coder, wave, states, words, word)
        if word >= words.size:
            return TOO_SHORT, word
        _store_step(t, blocks, model, wave, plane)
        keep = blocks.later[t]
        if keep < kept:  # lanes that are not needed any more give their last word back
            word -= kept - keep
            for lane in range(keep, kept):
                if states[lane] >= 1 << 17:
                    return NO_END, word
                words[word + lane - keep] = states[lane] - (1 << 16)
            kept = keep
    return DONE, word
