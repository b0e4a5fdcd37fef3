"""A plane of integers to bytes: all samples are known, so everything is done for many at once."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.lib.stride_tricks import sliding_window_view as sliding
from numpy.typing import NDArray

from elmfield._array import compiled
from elmfield._array.typing import Floats, Integers
from elmfield.codec.ans import Words
from elmfield.codec.lossless import learning, neighbours
from elmfield.codec.lossless.neighbours import BINS, FRACTION, Run, Stencil
from elmfield.codec.lossless.plane import Model, anchored, default_gains, default_weights, is_exact
from elmfield.codec.lossless.streams import MOST_HALVINGS, Plane, Stream, lanes_of
from elmfield.codec.lossless.tokens import (
    BITS,
    N_TOKENS,
    RAW,
    clustered,
    levels_of,
    merged,
    tokens,
)
from elmfield.codec.lossless.wavefront import ABOVE, BELOW, LEFT, RIGHT, Layout, framed

CHUNK = 8192
LANE_BITS, LANE_SHARE = 9, 0.006
"""A lane costs about 9 bits; all of them may cost 0.6 % of the stream."""
FEW = 1500
"""Below so many samples nothing is learned: weights would cost more than they save."""


def prepared(values: NDArray[np.integer], layout: Layout, tail: Words) -> Plane | Stream:
    """What is to be written of samples 0 <= v <= MOST_RANGE, (C, A, Z, Y, X)."""
    frame = _frame(values, layout)
    top, learned, shift = int(values.max()), values.size >= FEW, 8
    if learned:
        weights, shift = frame.weights()
        learned = is_exact(weights, top, shift)
    if not learned:
        weights = anchored(default_weights(frame.stencil, shift), frame.stencil, shift)
    empty = np.zeros((0, 0), np.uint8)
    none = np.zeros(0, np.int64)
    model = Model(top, frame.first, shift, weights, none, 0, 0, none, empty, learned)
    predicted = frame.predicted(model)
    gains = frame.gains(predicted.error) if learned else default_gains(frame.stencil)
    energy = frame.expected(predicted.error, gains)
    lowest, coarse = _bins(energy)
    pairs, counts = frame.counted(predicted, energy, lowest, coarse)
    classes = frame.classes(counts)
    levels = _tables(counts, classes)
    model = Model(top, frame.first, shift, weights, gains, lowest, coarse, classes, levels, learned)
    entries = model.tables().entries[classes]  # of every context and token
    price = BITS - np.log2(np.maximum(entries & np.uint32(0xFFFF), 1)) + RAW
    bits = float((counts * price).sum()) + 16 * len(tail)
    halvings = 0
    while halvings < MOST_HALVINGS and LANE_BITS * lanes_of(layout, halvings) > LANE_SHARE * bits:
        halvings += 1
    return frame.plane(model.packed(frame.stencil), halvings, pairs, entries, predicted.z, tail)


def _frame(values: NDArray[np.integer], layout: Layout) -> "Frame":
    if compiled.pays(0):
        from elmfield.codec.lossless.fast import FastFrame

        return FastFrame.of(values, layout)
    return Frame.of(values, layout)


def _bins(energy: Floats) -> tuple[int, int]:
    """The lowest bin of expected errors, and how coarse bins are."""
    some = np.sort(energy[:: max(1, energy.size // 4096)].view(np.int64) >> 50)
    low, high = some[int(0.002 * some.size)], some[int(0.995 * (some.size - 1))]
    coarse = 0 if high - low < BINS else 1 if high - low < 2 * BINS else 2
    return int(low) >> coarse, coarse


def _tables(counts: Integers, classes: Integers) -> NDArray[np.uint8]:
    """The tables as they are written, from counts of tokens by context."""
    used = 1 + int(np.flatnonzero(counts.any(axis=0))[-1])
    merged = np.zeros((int(classes.max()) + 1, used), np.int64)
    np.add.at(merged, classes, counts[:, :used])
    return levels_of(merged)


@dataclass(frozen=True)
class Predicted:
    """Errors of the blend in sixteenths, flat and framed.

    And of all samples: z, and whether the blend is far from a whole number.
    """

    error: Floats
    z: NDArray[Any]
    far: NDArray[Any]


@dataclass(frozen=True)
class Frame:
    """Blocks with what stands around them, flat, with room before and behind.

    Parameters
    ----------
    stencil : Stencil
        Neighbours.
    samples : array
        :func:`framed` blocks between `front` numbers before and behind.
    shape : tuple of int
        (G, B, rows, columns) of the framed blocks.
    rows : array of bool, shape (G, B, hy)
        Which rows of blocks lie in the array.
    """

    stencil: Stencil
    samples: Floats
    shape: tuple[int, int, int, int]
    front: int
    rows: NDArray[np.bool_]
    first: int

    @classmethod
    def of(cls, values: NDArray[np.integer], layout: Layout) -> "Frame":
        """The frame of samples (C, A, Z, Y, X)."""
        stencil = Stencil.of(layout)
        blocks = layout.cut(values)
        first = int(blocks[0, 0, 0, 0])
        G, B, hy, hx = blocks.shape
        shape = _, _, H, W = G, B, ABOVE + hy + BELOW, LEFT + hx + RIGHT
        size, front = (
            G * B * H * W,
            1 + max(run.back * B * H * W + 3 * W for run in stencil.samples),
        )
        samples = np.zeros(size + 2 * front)
        framed(blocks, first, samples[front : front + size].reshape(shape))
        rows = np.arange(layout.block[2]) < layout.heights[:, None]
        rows = rows & layout.filled[:, :, None]
        return cls(stencil, samples, shape, front, rows, first)

    def _blocks(self, flat: NDArray[Any]) -> NDArray[Any]:
        """A view of flat framed numbers without their frames, (G, B, hy, hx)."""
        hy, hx = self.stencil.layout.block[2:]
        size = int(np.prod(self.shape))
        full = flat[self.front : self.front + size].reshape(self.shape)
        return full[:, :, ABOVE : ABOVE + hy, LEFT : LEFT + hx]

    def _samples_of(self, flat: Floats) -> Floats:
        """The numbers that belong to samples, in the order (g, b, y, x), shape (n,)."""
        return self._blocks(flat)[self.rows].ravel()

    def offsets(self, runs: list[Run]) -> Integers:
        """The flat offset of every neighbour."""
        return np.array([self._offset(r) + j for r in runs for j in range(r.n)], np.int64)

    def _offset(self, run: Run) -> int:
        """The flat offset of the first neighbour of a run."""
        _, B, H, W = self.shape
        return run.dx + run.dy * W - run.back * B * H * W

    def weights(self) -> tuple[Integers, int]:
        """Learned weights of every kind of group, and their bits."""
        stencil = self.stencil
        found, shift = [], 6
        for kind in range(stencil.n_kinds):
            windows = learning.windows(stencil, kind)
            X, target = self._within(windows, self.samples, stencil.samples)
            for row, k, anchor in stencil.outside:
                last = stencil.layout.heights[windows.block] - 1
                down = (row if row >= 0 else last) - windows.row
                n = np.flatnonzero((down >= 0) & (down < windows.shape[0]))
                X[k[:, None], n, down[n]] = X[anchor[:, None], n, down[n]]
            found.append(learning.predictors(X, target, stencil, stencil.present[kind]))
            shift = max(shift, learning.shift_for(X, target, found[-1]))
        whole = np.clip(np.rint(np.stack(found) * (1 << shift)), -32767, 32767).astype(np.int64)
        return anchored(whole, stencil, shift), shift

    def _within(
        self, windows: learning.Windows, flat: Floats, runs: list[Run]
    ) -> tuple[Floats, Floats]:
        """Numbers of windows: those of neighbours, (k, n, rows, columns), and their own."""
        _, B, H, W = self.shape
        block = windows.group * B + windows.block
        corner = (block * H + ABOVE + windows.row) * W + LEFT + windows.column + self.front
        rows, columns = windows.shape
        size = flat.size - (rows - 1) * W - columns + 1
        step = flat.itemsize
        starts = as_strided(flat, (size, rows, columns), (step, W * step, step), writeable=False)
        return starts[corner + self.offsets(runs)[:, None]], starts[corner]

    @property
    def _edges(self) -> list[tuple[NDArray[np.bool_], Integers, Integers]]:
        """Which samples lie on an edge of their block, flat, and which neighbours read anchors."""
        G, B, H, W = self.shape
        out = []
        for row, k, anchor in self.stencil.outside:
            edge = np.zeros((G, B, H, W), np.bool_)
            rows = np.full(B, ABOVE + row) if row >= 0 else ABOVE - 1 + self.stencil.layout.heights
            edge[:, np.arange(B), rows] = True
            out.append((edge.ravel(), k, anchor))
        return out

    def _chunks(self) -> list[tuple[int, int, int]]:
        """(group, first, last) flat spans that cover all groups in order."""
        size = self.shape[1] * self.shape[2] * self.shape[3]
        out = []
        for g in range(self.shape[0]):
            begin, end = self.front + g * size, self.front + (g + 1) * size
            out += [(g, a, min(a + CHUNK, end)) for a in range(begin, end, CHUNK)]
        return out

    def predicted(self, model: Model) -> Predicted:
        """Blended predictions of all samples."""
        S, W = self.samples, self.shape[3]
        matrices = model.matrices(self.stencil)
        counts = [run.n for run in self.stencil.samples]
        firsts = np.cumsum(counts) - counts
        offsets = [self._offset(run) for run in self.stencil.samples]
        runs = list(zip(firsts.tolist(), offsets, counts))
        shifted = sliding(S, S.size - max(counts) + 1)  # row i: from sample i on
        used = _last(self.stencil.present)[self.stencil.kinds]
        table = neighbours.weights_of_levels()
        outside = np.ones(S.size, np.bool_)
        self._blocks(outside)[...] = ~self.rows[..., None]
        farthest = (
            FRACTION * model.top * (1 + np.abs(model.weights).sum(axis=2).max() / 2**model.shift)
        )
        tame = farthest**2 < neighbours.SQUARE_LIMIT  # then no limit is ever met
        P, edges = matrices.shape[1], self._edges
        squares, row = np.zeros((P, W + 1 + CHUNK)), W + 1  # of a row and one before the chunk
        error, blend = np.zeros(S.size), np.zeros(S.size)
        near = np.zeros((self.stencil.n_neighbours, CHUNK))
        for g, a, b in self._chunks():
            K = int(used[g])
            for k, j, n in runs:
                if k < K:
                    near[k : k + n, : b - a] = shifted[:n, a + j : b + j]
            for edge, ks, anchor in edges:
                at = np.flatnonzero(edge[a - self.front : b - self.front])
                if at.size:
                    near[ks[:, None], at] = near[anchor[:, None], at]
            guess = np.floor(matrices[g, :, :K] @ near[:K, : b - a])
            true = FRACTION * S[a:b]
            away = guess - true
            away *= away
            if not tame:
                np.minimum(away, neighbours.SQUARE_LIMIT, out=away)
            frame = outside[a:b].nonzero()[0]
            away[:, frame] = 0.0
            squares[:, row : row + b - a] = away
            past = squares[:, W : W + b - a] + squares[:, 1 : 1 + b - a]
            past += squares[:, : b - a]
            past += squares[:, 2 : 2 + b - a]
            past += FRACTION**2
            squares[:, :row] = squares[:, b - a : b - a + row].copy()
            blend[a:b] = neighbours.blended(guess, past, table, 0)
            left = np.minimum(np.abs(blend[a:b] - true), neighbours.ERROR_LIMIT)
            left[frame] = 0.0
            error[a:b] = left
        whole, above = neighbours.rounded(self._samples_of(blend), float(model.top))
        residual = (self._samples_of(S) - whole).astype(np.int64)
        np.negative(residual, out=residual, where=above < 0)
        # 0, 1, -1, 2, -2, ... become 0, 1, 2, 3, 4, ...
        z = np.abs(residual)
        z += z
        z -= residual > 0
        return Predicted(error, z, neighbours.far(above))

    def gains(self, error: Floats) -> Integers:
        """Learned weights of past errors, one row for each kind of group."""
        out = []
        for kind in range(self.stencil.n_kinds):
            windows = learning.windows(self.stencil, kind)
            past, own = self._within(windows, error, self.stencil.errors)
            there = self.stencil.present_errors[kind][:, None]
            out.append(learning.gains(past.reshape(len(past), -1) * there, own.ravel()))
        return np.stack(out)

    def expected(self, error: Floats, gains: Integers) -> Floats:
        """The expected error of every sample."""
        offsets = self.offsets(self.stencil.errors).tolist()
        energy = np.zeros(error.size)
        per_group = gains[self.stencil.kinds].astype(np.float64)
        for g, a, b in self._chunks():
            total = np.full(b - a, FRACTION * per_group[g, -1])
            for gain, j in zip(per_group[g, :-1], offsets, strict=True):
                if gain:
                    total += gain * error[a + j : b + j]
            energy[a:b] = total
        return self._samples_of(energy)

    def counted(
        self, predicted: Predicted, energy: Floats, lowest: int, coarse: int
    ) -> tuple[NDArray[Any], Integers]:
        """``context * N_TOKENS + token`` of every sample, and how often each occurs."""
        pairs = neighbours.contexts(energy, predicted.far, lowest, coarse)
        pairs *= N_TOKENS
        pairs += tokens(predicted.z)[0]
        n = 2 * BINS * N_TOKENS
        return pairs, np.bincount(pairs, minlength=n).reshape(2 * BINS, N_TOKENS)

    def classes(self, counts: Integers) -> Integers:
        """Table of every context."""
        return clustered(counts, merged)

    def plane(
        self,
        header: bytes,
        halvings: int,
        pairs: NDArray[Any],
        entries: NDArray[np.uint32],
        z: NDArray[Any],
        tail: Words,
    ) -> Plane | Stream:
        """What is to be written; `entries` are those of every context and token."""
        raw = np.tile(RAW, 2 * BINS).take(pairs)
        return Plane(
            self.stencil.layout,
            halvings,
            header,
            _by_steps(self, entries.ravel().take(pairs)),
            _pieces(self, raw, z),
            tail,
        )


def _last(present: NDArray[np.bool_]) -> Integers:
    """How many neighbours every kind of group has to look at: up to the last it has."""
    return np.asarray(present.shape[1] - present[:, ::-1].argmax(axis=1), np.int64)


def _pieces(frame: Frame, raw: Integers, z: Integers) -> list[NDArray[np.uint32]]:
    """Raw bits of all samples in the order of coding, 15 at a time, and how many there are."""
    out = []
    for low in range(0, int(raw.max(initial=0)), 15):
        some = np.clip(raw - low, 0, 15)
        value = (z >> low) & ((1 << some) - 1)
        out.append(_by_steps(frame, (value << 16 | some << 8 | 1).astype(np.uint32)))
    return out


def _by_steps(frame: Frame, numbers: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """Numbers above 0 of samples, put into the order in which they are coded."""
    layout = frame.stencil.layout
    G, B = frame.shape[:2]
    hy, hx = layout.block[2:]
    full = np.zeros((G, B, hy, hx), np.uint32)
    full[frame.rows] = numbers.reshape(-1, hx)
    steps = np.zeros((layout.n_steps, G, layout.n_lines, B), np.uint32)
    for g in range(G):
        layout.slanted(steps, g)[...] = full[g].transpose(1, 2, 0)
    flat = steps.ravel()
    return flat[flat > 0]
