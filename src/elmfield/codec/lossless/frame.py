"""All samples of a plane with what surrounds them, predicted at once by NumPy."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.lib.stride_tricks import sliding_window_view as sliding
from numpy.typing import NDArray

from elmfield._array.typing import Floats, Integers
from elmfield.codec.ans import Entries, Words
from elmfield.codec.lossless import predict
from elmfield.codec.lossless.plane_model import (
    N_TOKENS,
    RAW,
    Model,
    find_tokens,
    set_anchors,
)
from elmfield.codec.lossless.predict import BINS, FRACTION, Run, Stencil
from elmfield.codec.lossless.wavefront import ABOVE, BELOW, LEFT, RIGHT, Layout, put_in_frame

CHUNK_SAMPLES = 8192


@dataclass
class Plane:
    """A plane that only has to be written.

    Parameters
    ----------
    layout : Layout
        Its steps.
    halvings : int
        How often the number of lanes is halved.
    header : bytes
        What a decoder must know first.
    words : array of uint16
        The stream; its tail only, while there are entries to encode.
    entries : array of uint32, shape (n,), optional
        Those of every token, in the order of coding.
    pieces : list of arrays of uint32, shape (n,)
        Raw bits behind tokens, 15 at a time: ``value * 2^16 + bits``.
    """

    layout: Layout
    halvings: int
    header: bytes
    words: Words
    entries: Entries | None = None
    pieces: list[Entries] = field(default_factory=list)


@dataclass(frozen=True)
class Residuals:
    """What prediction left.

    Parameters
    ----------
    error : array
        Errors of the blend in sixteenths, flat and framed.
    z, far : arrays, shape (n,)
        Residuals as numbers from 0, and whether the blend is far from a whole number.
    """

    error: Floats
    z: NDArray[Any]
    far: NDArray[Any]


@dataclass(frozen=True)
class Frame:
    """Blocks with what stands around them, flat, with `front` more numbers before and behind.

    Parameters
    ----------
    stencil : Stencil
        Neighbours.
    samples : array
        Blocks in their frames (:func:`put_in_frame`).
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
        """Return the frame of samples (C, A, Z, Y, X)."""
        stencil = Stencil.of(layout)
        blocks = layout.cut(values)
        first = int(blocks[0, 0, 0, 0])
        G, B, hy, hx = blocks.shape
        shape = _, _, H, W = G, B, ABOVE + hy + BELOW, LEFT + hx + RIGHT
        size = G * B * H * W
        front = 1 + max(run.back * B * H * W + 3 * W for run in stencil.samples)
        samples = np.zeros(size + 2 * front)
        put_in_frame(blocks, first, samples[front : front + size].reshape(shape))
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

    def learn_weights(self) -> tuple[Integers, int]:
        """Return learned weights of every kind of group, and their bits."""
        stencil = self.stencil
        found, shift = [], 6
        for kind in range(stencil.n_kinds):
            windows = predict.choose_windows(stencil, kind)
            X, target = self._within(windows, self.samples, stencil.samples)
            for row, k, anchor in stencil.outside:
                last = stencil.layout.heights[windows.block] - 1
                down = (row if row >= 0 else last) - windows.row
                n = np.flatnonzero((down >= 0) & (down < windows.shape[0]))
                X[k[:, None], n, down[n]] = X[anchor[:, None], n, down[n]]
            found.append(predict.learn_predictors(X, target, stencil, stencil.present[kind]))
            shift = max(shift, predict.choose_shift(X, target, found[-1]))
        whole = np.clip(np.rint(np.stack(found) * (1 << shift)), -32767, 32767).astype(np.int64)
        return set_anchors(whole, stencil, shift), shift

    def _within(
        self, windows: predict.Windows, flat: Floats, runs: list[Run]
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
            out += [(g, a, min(a + CHUNK_SAMPLES, end)) for a in range(begin, end, CHUNK_SAMPLES)]
        return out

    def predict(self, model: Model) -> Residuals:
        """Predict all samples."""
        S, W = self.samples, self.shape[3]
        matrices = model.matrices(self.stencil)
        counts = [run.n for run in self.stencil.samples]
        firsts = np.cumsum(counts) - counts
        offsets = [self._offset(run) for run in self.stencil.samples]
        runs = list(zip(firsts.tolist(), offsets, counts))
        shifted = sliding(S, S.size - max(counts) + 1)  # row i: from sample i on
        used = self.stencil.used
        table = predict.level_weights()
        outside = np.ones(S.size, np.bool_)
        self._blocks(outside)[...] = ~self.rows[..., None]
        farthest = (
            FRACTION * model.top * (1 + np.abs(model.weights).sum(axis=2).max() / 2**model.shift)
        )
        tame = farthest**2 < predict.SQUARE_LIMIT  # then no limit is ever met
        P, edges = matrices.shape[1], self._edges
        row = W + 1
        squares = np.zeros((P, row + CHUNK_SAMPLES))  # from a row before
        error, blend = np.zeros(S.size), np.zeros(S.size)
        near = np.zeros((self.stencil.n_neighbours, CHUNK_SAMPLES))
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
                np.minimum(away, predict.SQUARE_LIMIT, out=away)
            frame = outside[a:b].nonzero()[0]
            away[:, frame] = 0.0
            squares[:, row : row + b - a] = away
            past = squares[:, W : W + b - a] + squares[:, 1 : 1 + b - a]
            past += squares[:, : b - a]
            past += squares[:, 2 : 2 + b - a]
            past += FRACTION**2
            squares[:, :row] = squares[:, b - a : b - a + row].copy()
            blend[a:b] = predict.blend(guess, past, table, 0)
            left = np.minimum(np.abs(blend[a:b] - true), predict.ERROR_LIMIT)
            left[frame] = 0.0
            error[a:b] = left
        whole, above = predict.round_blend(self._samples_of(blend), float(model.top))
        residual = (self._samples_of(S) - whole).astype(np.int64)
        np.negative(residual, out=residual, where=above < 0)
        # 0, 1, -1, 2, -2, ... become 0, 1, 2, 3, 4, ...
        z = np.abs(residual)
        z += z
        z -= residual > 0
        return Residuals(error, z, predict.is_far(above))

    def learn_gains(self, error: Floats) -> Integers:
        """Return learned weights of past errors, one row for each kind of group."""
        out = []
        for kind in range(self.stencil.n_kinds):
            windows = predict.choose_windows(self.stencil, kind)
            past, own = self._within(windows, error, self.stencil.errors)
            there = self.stencil.present_errors[kind][:, None]
            out.append(predict.learn_gains(past.reshape(len(past), -1) * there, own.ravel()))
        return np.stack(out)

    def expect(self, error: Floats, gains: Integers) -> Floats:
        """Return the expected error of every sample."""
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

    def count_tokens(
        self, found: Residuals, energy: Floats, lowest: int, coarse: int
    ) -> tuple[NDArray[Any], Integers]:
        """Return ``context * N_TOKENS + token`` of every sample, and how often each occurs."""
        pairs = predict.find_contexts(energy, found.far, lowest, coarse)
        pairs *= N_TOKENS
        pairs += find_tokens(found.z)[0]
        n = 2 * BINS * N_TOKENS
        return pairs, np.bincount(pairs, minlength=n).reshape(2 * BINS, N_TOKENS)

    def finish_plane(
        self, plane: Plane, pairs: NDArray[Any], entries: Entries, z: NDArray[Any]
    ) -> None:
        """Add tokens and raw bits to a plane; `entries` are those of every context and token."""
        order = self._coding_order()
        pairs, z = pairs.take(order), z.take(order)
        plane.entries = entries.ravel().take(pairs)
        raw = np.tile(RAW, 2 * BINS).take(pairs)
        for low in range(0, int(raw.max(initial=0)), 15):
            some = np.clip(raw - low, 0, 15)
            value = (z >> low) & ((1 << some) - 1)
            plane.pieces.append((value << 16 | some).astype(np.uint32))

    def _coding_order(self) -> NDArray[np.intp]:
        """Return the numbers of samples, counted as (g, b, y, x), in the order of coding."""
        layout = self.stencil.layout
        G, B = self.shape[:2]
        hy, hx = layout.block[2:]
        full = np.zeros((G, B, hy, hx), np.intp)
        n_rows = int(np.count_nonzero(self.rows))
        full[self.rows] = 1 + np.arange(n_rows * hx).reshape(-1, hx)
        steps = np.zeros((layout.n_steps, G, layout.n_lines, B), np.intp)
        for g in range(G):
            layout.slant(steps, g)[...] = full[g].transpose(1, 2, 0)
        flat = steps.ravel()
        return flat[flat > 0] - 1
