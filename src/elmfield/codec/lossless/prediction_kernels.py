"""Compiled loops that code a plane sample by sample, as `frame` and `plane_coder` do by NumPy.

The arithmetic is that of `wavefront`, whole numbers in float64: the same bytes and samples both
ways. The encoder knows all samples and predicts them row by row, the decoder step by step; guesses
and blends are found by the same loops. Every table that loops look into was checked before
(`plane_model`), and words are counted here. Imported only once compiled loops pay, because it
imports the compiler.
"""

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from elmfield._array.running import compiled
from elmfield._array.typing import Bools, Floats, Integers
from elmfield.codec.ans import (
    RAW_BITS,
    TABLE_BITS,
    Entries,
    StreamReader,
    Symbols,
    Words,
)
from elmfield.codec.lossless import wavefront
from elmfield.codec.lossless.frame import Frame
from elmfield.codec.lossless.plane_model import LEAST, RAW, Model
from elmfield.codec.lossless.wavefront import ABOVE, BELOW, LEFT, SHARES, Layout, Neighbours


class Geometry(NamedTuple):
    """Where samples of a plane lie: group g, block b, rows of `width` samples."""

    rows: Integers  # (G, B): rows of a group's block that lie in the array
    height: int  # of a block
    width: int
    skew: Integers  # (G,): first line of every group
    spans: Integers  # (T, 2): lines of every step
    near: Neighbours  # those that predict a sample
    past: Neighbours  # those whose errors say how large its own will be


class Predictors(NamedTuple):
    """How samples of a plane are predicted, which lie in [0, top]; tables are for the decoder."""

    top: float
    first: float  # stands for the samples before the first
    weights: Floats  # (3, G, 4, K), K a multiple of 4: for first, second and other rows
    used: Integers  # (G,): neighbours from here on have no weight in a group; a multiple of 4
    gains: Floats  # (G, F + 1): weights of past errors
    lowest: int  # of the bins of expected errors
    coarse: int
    classes: Integers  # the table of every context


Stream = tuple[Integers, Words, Entries, Symbols]
"""States and words; entries and slots of tables."""
Wave = tuple[Floats, Floats, Floats, Floats, Floats, Integers, Integers, Integers, Floats]
"""The last steps in a ring, each with (G, height + 3, B) places: samples (steps * size,), errors
(steps * size,), and squares of the last four by predictor (4, 4, size). Then of the step that is
decoded guesses (4, n) and blends in the order (g, y, b), and contexts; only of samples in the array
tokens and numbers z; and scratch space for the samples of one group, (5, height * B).

Two rows stand above a block, one below. The number of steps is a power of 2.
"""


@compiled
def _guess(
    samples: Floats, starts: Integers, K: int, weights: Floats, n: int, out: Floats, at: int
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
def _blend(guess: Floats, at: int, past: Floats, n: int, out: Floats) -> None:
    """Run `wavefront.blend`."""
    bits, faintest = past.view(np.int64), SHARES.size - 1
    one, two, three, four = guess[0, at:], guess[1, at:], guess[2, at:], guess[3, at:]
    for j in range(n):
        a, b, c, d = bits[0, j] >> 49, bits[1, j] >> 49, bits[2, j] >> 49, bits[3, j] >> 49
        least = min(min(a, b), min(c, d))
        s, t = SHARES[min(a - least, faintest)], SHARES[min(b - least, faintest)]
        u, v = SHARES[min(c - least, faintest)], SHARES[min(d - least, faintest)]
        total = s * one[j] + t * two[j] + u * three[j] + v * four[j]
        out[at + j] = np.floor(total / (s + t + u + v))


@compiled
def predict_rows(
    samples: Floats, blocks: Geometry, model: Predictors, error: Floats, z: Integers, far: Bools
) -> None:
    """Run `Frame.predict`: samples and errors are framed, (G, B, rows, columns)."""
    (G, B, H, W), near = samples.shape, blocks.near
    numbers, errors, n, at = samples.reshape(-1), error.reshape(-1), blocks.width, 0
    guess, past, blend = np.empty((4, n)), np.empty((4, n)), np.empty(n)
    starts = np.empty(near.back.size, np.int64)
    for g in range(G):
        for b in range(B):
            squares = np.zeros((2, 4, n + 2))  # of this row and the one above, with 0 at both ends
            for y in range(blocks.rows[g, b]):
                for k in range(model.used[g]):
                    row = (max(g - near.back[k], 0) * B + b) * H + ABOVE + y + near.down[k]
                    starts[k] = row * W + LEFT + near.right[k]
                first = ((g * B + b) * H + ABOVE + y) * W + LEFT
                _guess(numbers, starts, model.used[g], model.weights[min(y, 2), g], n, guess, 0)
                true, left = numbers[first:][:n], errors[first:][:n]
                for p in range(4):
                    own, above = squares[y & 1, p], squares[1 - (y & 1), p]
                    for j in range(n):
                        away = guess[p, j] - 16.0 * true[j]
                        own[j + 1] = min(away * away, wavefront.SQUARE_LIMIT)
                    for j in range(n):
                        past[p, j] = own[j] + above[j + 2] + above[j + 1] + above[j] + 256.0
                _blend(guess, 0, past, n, blend)
                for j in range(n):
                    whole = np.floor((blend[j] + 8.0) / 16.0)
                    rest = blend[j] - 16.0 * whole
                    left[j] = min(abs(blend[j] - 16.0 * true[j]), wavefront.ERROR_LIMIT)
                    residual = int(true[j] - min(max(whole, 0.0), model.top))
                    residual = -residual if rest < 0.0 else residual
                    z[at + j] = 2 * abs(residual) - (residual > 0)
                    far[at + j] = abs(rest) >= 4.0
                at += n


@compiled
def _rows(t: int, g: int, blocks: Geometry) -> tuple[int, int]:
    """Return the first row of a group that has a sample at step t, and the one after the last."""
    low, high = blocks.spans[t] - blocks.skew[g]
    return max(0, low), min(blocks.height, high)


@compiled
def _predict_step(t: int, blocks: Geometry, model: Predictors, wave: Wave) -> None:
    """Find predictions and contexts of a step."""
    (G, B), near, past = blocks.rows.shape, blocks.near, blocks.past
    samples, errors, squares, guess, blend, context, _, _, scratch = wave
    size, at = squares.shape[2], 0
    group, turn = size // G, samples.size // size - 1
    starts, gains = np.empty(near.steps.size, np.int64), model.gains
    sums, energy = scratch[:4], scratch[4]
    bins = energy.view(np.int64)
    for g in range(G):
        low, high = _rows(t, g, blocks)
        if low >= high:
            continue
        y = low
        while y < high:
            stop = y + 1 if y < 2 else high
            for k in range(model.used[g]):
                place = ((t + near.steps[k]) & turn) * size + max(g - near.back[k], 0) * group
                starts[k] = place + (y + 2 + near.down[k]) * B
            weights, lanes = model.weights[min(y, 2), g], (stop - y) * B
            _guess(samples, starts, model.used[g], weights, lanes, guess, at + (y - low) * B)
            y = stop
        lanes, here = (high - low) * B, g * group + (low + 2) * B
        over = here - B
        for p in range(4):
            left, right = squares[(t - 1) & 3, p, here:], squares[(t - 1) & 3, p, over:]
            above, corner = squares[(t - 2) & 3, p, over:], squares[(t - 3) & 3, p, over:]
            row = sums[p]
            for j in range(lanes):
                row[j] = left[j] + right[j] + above[j] + corner[j] + 256.0
        _blend(guess, at, sums, lanes, blend)
        energy[:lanes] = 16.0 * gains[g, past.steps.size]
        for f in range(past.steps.size):
            gain = gains[g, f]
            if gain:
                place = ((t + past.steps[f]) & turn) * size + max(g - past.back[f], 0) * group
                known = errors[place + (low + 2 + past.down[f]) * B :][:lanes]
                for j in range(lanes):
                    energy[j] += gain * known[j]
        for j in range(lanes):
            rest = blend[at + j] - 16.0 * np.floor((blend[at + j] + 8.0) / 16.0)
            level = min(max((bins[j] >> (50 + model.coarse)) - model.lowest, 0), wavefront.BINS - 1)
            context[at + j] = 2 * level + (1 if abs(rest) >= 4.0 else 0)
        at += lanes


@compiled
def _read_step(
    t: int, blocks: Geometry, classes: Integers, wave: Wave, stream: Stream, word: int
) -> int:
    """Read tokens of a step, then raw bits behind them; return the next word.

    One more word stands behind the last one, for all that are missing: it saves a branch.
    """
    _, _, _, _, _, context, token, z, _ = wave
    states, words, entries, slots = stream
    G, B = blocks.rows.shape
    L, mask, end = states.size, (1 << TABLE_BITS) - 1, words.size - 1
    n = i = lane = most = 0
    for g in range(G):
        low, high = _rows(t, g, blocks)
        for y in range(low, high):
            for b in range(B):
                if y < blocks.rows[g, b]:
                    x = states[lane]
                    table, slot = classes[context[i]], x & mask
                    symbol = slots[table, slot]
                    entry = entries[table, symbol]
                    x = (x >> TABLE_BITS) * (entry & 0xFFFF) + slot - (entry >> 16)
                    small = x < 1 << 16
                    states[lane] = x << 16 | np.int64(words[min(word, end)]) if small else x
                    word += small
                    lane = lane + 1 if lane + 1 < L else 0
                    token[n] = symbol
                    z[n] = LEAST[symbol]
                    most = max(most, RAW[symbol])
                    n += 1
                i += 1
    for low in range(0, most, RAW_BITS):
        lane = 0
        for i in range(n):
            if RAW[token[i]] > low:
                some = min(RAW[token[i]] - low, RAW_BITS)
                x, free = states[lane], TABLE_BITS - some
                z[i] += ((x & mask) >> free) << low
                x = ((x >> TABLE_BITS) << free) + (x & ((1 << free) - 1))
                small = x < 1 << 16
                states[lane] = x << 16 | np.int64(words[min(word, end)]) if small else x
                word += small
                lane = lane + 1 if lane + 1 < L else 0
    return word


@compiled
def _store_step(t: int, blocks: Geometry, top: float, wave: Wave, out: NDArray[np.int32]) -> None:
    """Store samples of a step, errors of predictions, and what stands around rows."""
    G, B = blocks.rows.shape
    samples, errors, squares, guesses, blends, _, _, z, _ = wave
    size = squares.shape[2]
    group, turn = size // G, samples.size // size - 1
    now, n, i = (t & turn) * size, 0, 0
    for g in range(G):
        low, high = _rows(t, g, blocks)
        for y in range(low, high):
            x = t - 2 * (y + blocks.skew[g])
            for b in range(B):
                if y < blocks.rows[g, b]:
                    blend, number, here = blends[i], z[n], g * group + (y + 2) * B + b
                    whole = np.floor((blend + 8.0) / 16.0)
                    left = (number + 1) >> 1 if number & 1 else -(number >> 1)
                    left = -left if blend < 16.0 * whole else left
                    value = min(max(min(max(whole, 0.0), top) + left, 0.0), top)
                    samples[now + here] = value
                    if y == blocks.rows[g, b] - 1:  # below stands the sample to the left
                        samples[((t + 3) & turn) * size + here + B] = value
                    errors[now + here] = min(abs(blend - 16.0 * value), wavefront.ERROR_LIMIT)
                    for p in range(4):
                        away = guesses[p, i] - 16.0 * value
                        squares[t & 3, p, here] = min(away * away, wavefront.SQUARE_LIMIT)
                    out[g, b, y, x] = value
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
def decode(stream: Stream, blocks: Geometry, model: Predictors, out: NDArray[np.int32]) -> int:
    """Decode one plane into its blocks, (G, B, height, width); return the next word."""
    (G, B), height, word, steps = blocks.rows.shape, blocks.height, 0, 1
    while steps <= 4 - min(
        blocks.near.steps.min(), blocks.past.steps.min()
    ):  # some are written ahead
        steps *= 2
    size, n = G * (height + ABOVE + BELOW) * B, G * height * B
    ring = np.full(steps * size, model.first), np.zeros(steps * size), np.zeros((4, 4, size))
    context, token, z = np.empty(n, np.int64), np.empty(n, np.int64), np.empty(n, np.int64)
    scratch = np.empty((5, height * B))
    wave = (*ring, np.empty((4, n)), np.empty(n), context, token, z, scratch)
    for t in range(len(blocks.spans)):
        _predict_step(t, blocks, model, wave)
        word = _read_step(t, blocks, model.classes, wave, stream, word)
        if word >= stream[1].size:
            break
        _store_step(t, blocks, model.top, wave, out)
    return word


# --- their arguments ------------------------------------------------------------------------------


@lru_cache(maxsize=16)
def _geometry(layout: Layout) -> Geometry:
    """Return where samples lie, and their neighbours one by one.

    Neighbours that fill up to a multiple of four repeat the first.
    """
    near = Neighbours(*(np.append(x, x[:1].repeat(-x.size % 4)) for x in layout.near))
    height, width = layout.block[2:]
    return Geometry(layout.rows, height, width, layout.skew, layout.spans, near, layout.past)


def _predictors(model: Model, layout: Layout) -> Predictors:
    """Return predictors: those of the first two rows look at anchors instead of above a block."""
    inner = model.matrices(layout)
    weights = np.stack([inner] * 3)
    for row, ks, anchors in layout.outside[:2]:
        weights[row][:, :, ks] = 0.0
        for k, anchor in zip(ks, anchors, strict=True):
            weights[row, :, :, anchor] += inner[:, :, k]
    weights = np.pad(weights, [(0, 0)] * 3 + [(0, -weights.shape[3] % 4)])
    used, gains = -(-layout.used // 4) * 4, model.gains[layout.kinds].astype(np.float64)
    ends, bins = (float(model.top), float(model.first)), (model.lowest, model.coarse)
    return Predictors(*ends, weights, used, gains, *bins, model.classes)


def predict_frame(frame: Frame, model: Model) -> tuple[Floats, Integers, Bools]:
    """Return what `Frame.predict` does."""
    blocks = _geometry(frame.layout)
    error, n = np.zeros(frame.samples.shape), int(blocks.rows.sum()) * blocks.width
    z, far = np.empty(n, np.int64), np.empty(n, np.bool_)
    predict_rows(frame.samples, blocks, _predictors(model, frame.layout), error, z, far)
    return error, z, far


def decode_plane(layout: Layout, model: Model, stream: StreamReader) -> NDArray[np.integer]:
    """Return the samples of a plane, (C, A, Z, Y, X)."""
    out = np.zeros((layout.n_groups, layout.n_blocks, *layout.block[2:]), np.int32)
    known, tables = _predictors(model, layout), model.tables()
    coded = stream.x, stream.words, tables.entries, tables.slots
    stream.at = decode(coded, _geometry(layout), known, out)
    stream.check()
    return layout.join(out)
