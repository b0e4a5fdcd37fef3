"""Compiled loops that code a plane sample by sample, as `frame` and `plane_coder` do by NumPy.

The arithmetic is that of `wavefront`, whole numbers in float64: the same bytes and samples both
ways. The encoder knows all samples and predicts them row by row, the decoder step by step; guesses
and blends are found by the same loops. Every table that loops look into was checked before
(`plane_model`), and words are counted here. Imported only once compiled loops pay, because it
imports the compiler.
"""

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from elmfield._array.running import compiled
from elmfield._array.typing import Bools, Floats, Integers
from elmfield.codec.ans import RAW_BITS, StreamReader, too_short
from elmfield.codec.lossless import wavefront
from elmfield.codec.lossless.frame import Frame
from elmfield.codec.lossless.plane_coder import Plane
from elmfield.codec.lossless.plane_model import LEAST, RAW, Model
from elmfield.codec.lossless.wavefront import ABOVE, BELOW, LEFT, Layout, Stencil
from elmfield.codec.symbol_tables import TABLE_BITS, Entries

SHARES = wavefront.level_weights()


class Blocks(NamedTuple):
    """Where samples of a plane lie: group g, block b, rows of `width` samples."""

    rows: Integers  # (G, B): rows of a group's block that lie in the array
    height: int  # of a block
    width: int
    skew: Integers  # (G,): first line of every group
    spans: Integers  # (T, 2): lines of every step


class Coding(NamedTuple):
    """How tokens of a plane are coded."""

    gains: Floats  # (G, F + 1): weights of past errors
    lowest: int  # of the bins of expected errors
    coarse: int
    classes: Integers  # the table of every context
    slots: NDArray[np.uint8]
    entries: Entries


class Predictors(NamedTuple):
    """How samples of a plane are predicted, which lie in [0, top]."""

    top: float
    weights: Floats  # (3, G, 4, K), K a multiple of 4: for first, second and other rows
    used: Integers  # (G,): neighbours from here on have no weight in a group; a multiple of 4


class Neighbours(NamedTuple):
    """Where neighbours lie: groups back, rows down, columns right, steps on."""

    back: Integers
    down: Integers
    right: Integers
    on: Integers


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
    samples: Floats,
    blocks: Blocks,
    near: Neighbours,
    model: Predictors,
    error: Floats,
    z: Integers,
    far: Bools,
) -> None:
    """Run `Frame.predict`: samples and errors are framed, (G, B, rows, columns)."""
    G, B, H, W = samples.shape
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


@compiled
def _rows(t: int, g: int, blocks: Blocks) -> tuple[int, int]:
    """Return the first row of a group that has a sample at step t, and the one after the last."""
    low, high = blocks.spans[t] - blocks.skew[g]
    return max(0, low), min(blocks.height, high)


@compiled
def _predict_step(
    t: int,
    blocks: Blocks,
    near: Neighbours,
    past: Neighbours,
    predictors: Predictors,
    model: Coding,
    wave: Wave,
) -> None:
    """Find predictions and contexts of a step."""
    G, B = blocks.rows.shape
    samples, guess, blend = wave.samples, wave.guess, wave.blend
    size, at = wave.squares.shape[2], 0
    group, turn = size // G, samples.size // size - 1
    starts, ago = np.empty(near.on.size, np.int64), np.empty(past.on.size, np.int64)
    bins = wave.energy.view(np.int64)
    for g in range(G):
        low, high = _rows(t, g, blocks)
        if low >= high:
            continue
        y = low
        while y < high:
            stop = y + 1 if y < 2 else high
            for k in range(predictors.used[g]):
                place = ((t + near.on[k]) & turn) * size + max(g - near.back[k], 0) * group
                starts[k] = place + (y + 2 + near.down[k]) * B
            weights, lanes = predictors.weights[min(y, 2), g], (stop - y) * B
            _guess(samples, starts, predictors.used[g], weights, lanes, guess, at + (y - low) * B)
            y = stop
        lanes, here = (high - low) * B, g * group + (low + 2) * B
        for p in range(4):
            left, over = wave.squares[(t - 1) & 3, p, here:], here - B
            right, above = wave.squares[(t - 1) & 3, p, over:], wave.squares[(t - 2) & 3, p, over:]
            corner, row = wave.squares[(t - 3) & 3, p, over:], wave.sums[p]
            for j in range(lanes):
                row[j] = left[j] + right[j] + above[j] + corner[j] + 256.0
        _blend(guess, at, wave.sums, lanes, blend)
        for f in range(ago.size):
            place = ((t + past.on[f]) & turn) * size + max(g - past.back[f], 0) * group
            ago[f] = place + (low + 2 + past.down[f]) * B
        _expect(wave.errors, ago, model.gains[g], lanes, wave.energy)
        for j in range(lanes):
            rest = blend[at + j] - 16.0 * np.floor((blend[at + j] + 8.0) / 16.0)
            level = min(max((bins[j] >> (50 + model.coarse)) - model.lowest, 0), wavefront.BINS - 1)
            wave.context[at + j] = 2 * level + (1 if abs(rest) >= 4.0 else 0)
        at += lanes


@compiled
def _read_step(
    t: int, blocks: Blocks, model: Coding, wave: Wave, states: Integers, words: Any, word: int
) -> int:
    """Read tokens of a step, then raw bits behind them; return the next word.

    One more word stands behind the last one, for all that are missing: it saves a branch.
    """
    G, B = blocks.rows.shape
    L, mask, end = states.size, (1 << TABLE_BITS) - 1, words.size - 1
    n = i = lane = most = 0
    for g in range(G):
        low, high = _rows(t, g, blocks)
        for y in range(low, high):
            for b in range(B):
                if y < blocks.rows[g, b]:
                    x = states[lane]
                    table, slot = model.classes[wave.context[i]], x & mask
                    symbol = model.slots[table, slot]
                    entry = model.entries[table, symbol]
                    x = (x >> TABLE_BITS) * (entry & 0xFFFF) + slot - (entry >> 16)
                    small = x < 1 << 16
                    states[lane] = x << 16 | np.int64(words[min(word, end)]) if small else x
                    word += small
                    lane = lane + 1 if lane + 1 < L else 0
                    wave.token[n] = symbol
                    wave.z[n] = LEAST[symbol]
                    most = max(most, RAW[symbol])
                    n += 1
                i += 1
    for low in range(0, most, RAW_BITS):
        lane = 0
        for i in range(n):
            if RAW[wave.token[i]] > low:
                some = min(RAW[wave.token[i]] - low, RAW_BITS)
                x, free = states[lane], TABLE_BITS - some
                wave.z[i] += ((x & mask) >> free) << low
                x = ((x >> TABLE_BITS) << free) + (x & ((1 << free) - 1))
                small = x < 1 << 16
                states[lane] = x << 16 | np.int64(words[min(word, end)]) if small else x
                word += small
                lane = lane + 1 if lane + 1 < L else 0
    return word


@compiled
def _store_step(t: int, blocks: Blocks, top: float, wave: Wave, out: NDArray[np.int32]) -> None:
    """Store samples of a step, errors of predictions, and what stands around rows."""
    G, B = blocks.rows.shape
    samples, errors, squares = wave.samples, wave.errors, wave.squares
    size = squares.shape[2]
    group, turn = size // G, samples.size // size - 1
    now, n, i = (t & turn) * size, 0, 0
    for g in range(G):
        low, high = _rows(t, g, blocks)
        for y in range(low, high):
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
                    errors[now + here] = min(abs(blend - 16.0 * value), wavefront.ERROR_LIMIT)
                    for p in range(4):
                        away = wave.guess[p, i] - 16.0 * value
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
def decode(
    words: NDArray[np.uint16],
    states: Integers,
    blocks: Blocks,
    near: Neighbours,
    past: Neighbours,
    predictors: Predictors,
    model: Coding,
    wave: Wave,
    out: NDArray[np.int32],
) -> int:
    """Decode one plane into its blocks, (G, B, height, width); return the next word."""
    word = 0
    for t in range(len(blocks.spans)):
        _predict_step(t, blocks, near, past, predictors, model, wave)
        word = _read_step(t, blocks, model, wave, states, words, word)
        if word >= words.size:
            break
        _store_step(t, blocks, predictors.top, wave, out)
    return word


# --- their arguments ------------------------------------------------------------------------------


@lru_cache(maxsize=16)
def _geometry(layout: Layout) -> tuple[Blocks, Neighbours, Neighbours]:
    """Return where samples lie, and their neighbours one by one.

    Neighbours that fill up to a multiple of four repeat the first.
    """
    spans = np.array([layout.lines(t) for t in range(layout.n_steps)], np.int64)
    rows = np.ascontiguousarray(layout.heights * layout.filled, np.int64)
    found = []
    for runs, multiple in ((Stencil.of(layout).samples, 4), (Stencil.of(layout).errors, 1)):
        each = [(r.back, r.dy, r.dx + j, 2 * r.du + r.dx + j) for r in runs for j in range(r.n)]
        each += [each[0]] * (-len(each) % multiple)
        found.append(Neighbours(*np.ascontiguousarray(np.array(each, np.int64).T)))
    height, width = layout.block[2:]
    return Blocks(rows, height, width, layout.skew, spans), found[0], found[1]


def _predictors(model: Model, stencil: Stencil) -> Predictors:
    """Return predictors: those of the first two rows look at anchors instead of above a block."""
    inner = model.matrices(stencil)
    weights = np.stack([inner] * 3)
    for row, ks, anchors in stencil.outside[:2]:
        weights[row][:, :, ks] = 0.0
        for k, anchor in zip(ks, anchors, strict=True):
            weights[row, :, :, anchor] += inner[:, :, k]
    weights = np.pad(weights, [(0, 0)] * 3 + [(0, -weights.shape[3] % 4)])
    return Predictors(float(model.top), weights, -(-stencil.used // 4) * 4)


def _wave(layout: Layout, farthest: int, first: int) -> Wave:
    """Return a ring of as many steps as neighbours lie back, and some that are written ahead."""
    G, B, height = layout.n_groups, layout.n_blocks, layout.block[2]
    steps = 1 << (4 + farthest).bit_length()
    size, n = G * (height + ABOVE + BELOW) * B, G * height * B
    context, token, z = np.empty((3, n), np.int64)
    return Wave(
        np.full(steps * size, float(first)),
        np.zeros(steps * size),
        np.zeros((4, 4, size)),
        np.empty((4, n)),
        np.empty(n),
        context,
        token,
        z,
        np.empty((4, height * B)),
        np.empty(height * B),
    )


def predict_frame(frame: Frame, model: Model) -> tuple[Floats, Integers, Bools]:
    """Return what `Frame.predict` does."""
    stencil = frame.stencil
    blocks, near, _ = _geometry(stencil.layout)
    error, n = np.zeros(frame.samples.shape), int(blocks.rows.sum()) * blocks.width
    z, far = np.empty(n, np.int64), np.empty(n, np.bool_)
    predict_rows(frame.samples, blocks, near, _predictors(model, stencil), error, z, far)
    return error, z, far


def decode_plane(plane: Plane) -> None:
    """Find the samples and the tail of a plane."""
    layout, stencil = plane.layout, Stencil.of(plane.layout)
    blocks, near, past = _geometry(layout)
    model = Model.unpack(plane.header, stencil)
    tables, stream = model.tables(), StreamReader(plane.stream)
    known = Coding(
        model.gains[stencil.kinds].astype(np.float64),
        model.lowest,
        model.coarse,
        model.classes,
        tables.slots,
        tables.entries,
    )
    out = np.zeros((layout.n_groups, layout.n_blocks, *layout.block[2:]), np.int32)
    wave = _wave(layout, -int(min(near.on.min(), past.on.min())), model.first)
    predictors = _predictors(model, stencil)
    stream.at = decode(stream.words, stream.x, blocks, near, past, predictors, known, wave, out)
    if stream.at >= stream.words.size:
        raise too_short()
    plane.samples, plane.tail = layout.join(out), stream.finish()
