"""Planes through the compiled loops of `prediction_kernels`, whose arguments are made here.

Imported only once compiled loops pay, because it imports the compiler.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from elmfield._array.typing import Floats, Integers
from elmfield.codec import ans_kernels
from elmfield.codec.ans import Entries, Words, first_states, too_short, unfinished
from elmfield.codec.lossless import predict
from elmfield.codec.lossless import prediction_kernels as kernels
from elmfield.codec.lossless.frame import Frame, Plane, Residuals
from elmfield.codec.lossless.plane_coder import state_words
from elmfield.codec.lossless.plane_model import LEAST, N_TOKENS, RAW, TOKEN_BITS, Model, find_tokens
from elmfield.codec.lossless.predict import BINS, Run, Stencil
from elmfield.codec.lossless.wavefront import ABOVE, BELOW, LEFT, Layout

_LIMITS = np.array([predict.SQUARE_LIMIT, predict.ERROR_LIMIT, BINS], np.float64)
_SHORT_TOKENS = find_tokens(np.arange(4096))[0].astype(np.uint8)
"""Tokens of small numbers."""
_RAW_OF_PAIRS = np.tile(RAW, 2 * BINS).astype(np.uint8)


@lru_cache(maxsize=16)
def _blocks(layout: Layout) -> kernels.Blocks:
    spans = np.array([layout.lines(t) for t in range(layout.n_steps)], np.int64)
    rows = np.ascontiguousarray(layout.heights * layout.filled, np.int64)
    height, width = layout.block[2:]
    return kernels.Blocks(rows, height, width, layout.skew, spans, layout.later)


def _predictors(model: Model, stencil: Stencil, gains: Integers) -> kernels.Predictors:
    weights = model.by_row(stencil)
    return kernels.Predictors(
        float(model.top),
        np.pad(weights, [(0, 0)] * 3 + [(0, -weights.shape[3] % 4)]),
        -(-stencil.used // 4) * 4,
        gains[stencil.kinds].astype(np.float64),
        predict.level_weights(),
        _LIMITS,
    )


# --- encoding -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class CompiledFrame(Frame):
    """A frame whose samples are coded one by one."""

    @property
    def _places(self) -> tuple[int, tuple[int, int, int]]:
        """The place of the first sample, and the strides of groups, blocks and rows."""
        _, B, H, W = self.shape
        return self.front + ABOVE * W + LEFT, (B * H * W, H * W, W)

    def predict(self, model: Model) -> Residuals:  # noqa: D102
        blocks = _blocks(self.stencil.layout)
        offsets = self.offsets(self.stencil.samples)
        offsets = np.pad(offsets, (0, -len(offsets) % 4))
        n = int(blocks.rows.sum()) * blocks.width
        error = np.zeros(self.samples.size)
        z, far = np.empty(n, np.uint32), np.empty(n, np.uint8)
        weights = _predictors(model, self.stencil, np.zeros((self.stencil.n_kinds, 1), np.int64))
        kernels.predict(self.samples, *self._places, offsets, blocks, weights, error, z, far)
        return Residuals(error, z, far)

    def count_tokens(  # noqa: D102
        self, found: Residuals, energy: Floats, lowest: int, coarse: int
    ) -> tuple[NDArray[Any], Integers]:
        counts = np.zeros((2 * BINS, N_TOKENS), np.int64)
        pairs = np.empty(energy.size, np.uint16)
        ans_kernels.count_tokens(
            energy, found.far, found.z, _SHORT_TOKENS, lowest, coarse, counts, pairs
        )
        return pairs, counts

    def finish_plane(  # noqa: D102
        self, plane: Plane, pairs: NDArray[Any], entries: Entries, z: NDArray[Any]
    ) -> None:
        layout, tail = plane.layout, plane.words
        states = np.zeros(layout.n_lanes(plane.halvings), np.int64)
        most = int(find_tokens(z.max(keepdims=True).astype(np.int64))[1][0])
        size = pairs.size * (1 + -(-most // 15)) + 4 * states.size
        words = np.concatenate([np.empty(size, np.uint16), tail])
        top = ans_kernels.encode_steps(
            pairs, z, entries.astype(np.int64).ravel(), _RAW_OF_PAIRS, TOKEN_BITS, _blocks(layout),
            states, words, size,
        )  # fmt: skip
        plane.words = np.concatenate([state_words(states), words[top:]])


# --- decoding -------------------------------------------------------------------------------------


def _neighbours(runs: list[Run], multiple: int) -> kernels.Neighbours:
    """Return neighbours one by one; those that fill up to a multiple repeat the first."""
    each = [(r.back, r.dy, 2 * r.du + r.dx + j) for r in runs for j in range(r.n)]
    each += [each[0]] * (-len(each) % multiple)
    return kernels.Neighbours(*np.ascontiguousarray(np.array(each, np.int64).T))


@lru_cache(maxsize=16)
def _stencil(layout: Layout) -> tuple[Stencil, kernels.Neighbours, kernels.Neighbours]:
    stencil = Stencil.of(layout)
    return stencil, _neighbours(stencil.samples, 4), _neighbours(stencil.errors, 1)


@lru_cache(maxsize=16)
def _places(layout: Layout) -> tuple[Integers, Integers]:
    """Return where row 0 of every group's block begins, (G, B), and its columns, (B,)."""
    _, A, Z, Y, X = layout.shape
    c, a, z = (v[:, None] for v in layout.groups.T)
    corner = np.indices(layout.counts).reshape(4, -1) * np.array(layout.block)[:, None]
    place = ((c * A + a + corner[0]) * Z + z + corner[1]) * Y + corner[2]
    return np.ascontiguousarray(place * X + corner[3], np.int64), X - corner[3].astype(np.int64)


def _wave(layout: Layout, farthest: int, first: int) -> kernels.Wave:
    """Return a ring of as many steps as neighbours lie back, and some that are written ahead."""
    G, B, height = layout.n_groups, layout.n_blocks, layout.block[2]
    steps = 1 << (4 + farthest).bit_length()
    size, n = G * (height + ABOVE + BELOW) * B, G * height * B
    context, token, z = np.empty((3, n), np.int64)
    return kernels.Wave(
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


def decode_plane(
    header: bytes, words: Words, layout: Layout, lanes: int
) -> tuple[NDArray[np.int32], Words]:
    """Return the plane (C, A, Z, Y, X) and the tail of a packed plane."""
    stencil, near, past = _stencil(layout)
    model = Model.unpack(header, stencil)
    tables, states = model.tables(), first_states(words, lanes)
    coder = kernels.Coder(
        model.lowest, model.coarse, TOKEN_BITS, model.classes, tables.slots,
        tables.entries.astype(np.int64), LEAST, RAW,
    )  # fmt: skip
    out, (places, ends) = np.zeros(layout.shape, np.int32), _places(layout)
    left = np.append(words, np.uint16(0))
    wave = _wave(layout, -int(min(near.on.min(), past.on.min())), model.first)
    result, word = kernels.decode(
        left, states, _blocks(layout), near, past, _predictors(model, stencil, model.gains),
        coder, wave, kernels.Output(out.ravel(), places, layout.shape[4], ends),
    )  # fmt: skip
    if result != kernels.DONE:
        raise too_short() if result == kernels.TOO_SHORT else unfinished()
    return out, left[word:-1]
