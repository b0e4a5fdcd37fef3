"""Planes by compiled loops: what `encoding` and `decoding` do by NumPy, with the same bytes."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from elmfield._array.typing import Floats, Integers
from elmfield.codec.ans import LOW, Words
from elmfield.codec.lossless import loops, merging, neighbours
from elmfield.codec.lossless.encoding import Frame, Predicted
from elmfield.codec.lossless.given import Around, Blocks, Coder, Plane, Predictors, Wave
from elmfield.codec.lossless.neighbours import BINS, Run, Stencil
from elmfield.codec.lossless.plane import Model
from elmfield.codec.lossless.streams import Stream, lanes_of
from elmfield.codec.lossless.tokens import BITS, LEAST, N_TOKENS, RAW, clustered, tokens
from elmfield.codec.lossless.wavefront import ABOVE, BELOW, LEFT, Layout
from elmfield.errors import StoreError

_LIMITS = np.array([neighbours.SQUARE_LIMIT, neighbours.ERROR_LIMIT, BINS], np.float64)
_SHORT = tokens(np.arange(4096))[0].astype(np.uint8)
"""Tokens of small numbers."""
_RAW_OF_PAIRS = np.tile(RAW, 2 * BINS).astype(np.uint8)


@lru_cache(maxsize=16)
def _blocks(layout: Layout) -> Blocks:
    sizes = layout.sizes
    later = np.append(np.maximum.accumulate(sizes[::-1])[::-1][1:], 0)
    return Blocks(
        np.ascontiguousarray(layout.heights * layout.filled, np.int64),
        layout.block[2],
        layout.block[3],
        layout.skew,
        np.array([layout.lines(t) for t in range(layout.n_steps)], np.int64),
        later.astype(np.int64),
    )


def _predictors(model: Model, stencil: Stencil, gains: Integers) -> Predictors:
    last = stencil.n_neighbours - stencil.present[:, ::-1].argmax(axis=1)
    weights = model.by_row(stencil)
    weights = np.pad(weights, [(0, 0)] * 3 + [(0, -weights.shape[3] % 4)])
    return Predictors(
        float(model.top),
        weights,
        (-(-last // 4) * 4)[stencil.kinds].astype(np.int64),
        gains[stencil.kinds].astype(np.float64),
        neighbours.weights_of_levels(),
        _LIMITS,
    )


# --- encoding -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class FastFrame(Frame):
    """A frame whose samples are gone through one by one."""

    @property
    def _strides(self) -> tuple[int, int, int]:
        _, B, H, W = self.shape
        return B * H * W, H * W, W

    @property
    def _corner(self) -> int:
        return self.front + ABOVE * self.shape[3] + LEFT

    def predicted(self, model: Model) -> Predicted:  # noqa: D102
        blocks = _blocks(self.stencil.layout)
        offsets = self.offsets(self.stencil.samples)
        offsets = np.pad(offsets, (0, -len(offsets) % 4))
        n = int(blocks.rows.sum()) * blocks.width
        error = np.zeros(self.samples.size)
        z, far = np.empty(n, np.uint32), np.empty(n, np.uint8)
        none = np.zeros((self.stencil.n_kinds, 1), np.int64)
        means = _predictors(model, self.stencil, none)
        loops.predict(
            self.samples, self._corner, self._strides, offsets, blocks, means, error, z, far
        )
        return Predicted(error, z, far)

    def expected(self, error: Floats, gains: Integers) -> Floats:  # noqa: D102
        blocks = _blocks(self.stencil.layout)
        energy = np.empty(int(blocks.rows.sum()) * blocks.width)
        own = gains[self.stencil.kinds].astype(np.float64)
        offsets = self.offsets(self.stencil.errors)
        loops.expect(error, self._corner, self._strides, offsets, blocks, own, energy)
        return energy

    def counted(  # noqa: D102
        self, predicted: Predicted, energy: Floats, lowest: int, coarse: int
    ) -> tuple[NDArray[Any], Integers]:
        counts = np.zeros((2 * BINS, N_TOKENS), np.int64)
        pairs = np.empty(energy.size, np.uint16)
        z, far = predicted.z, predicted.far
        loops.count(energy, far, z, _SHORT, lowest, coarse, counts, pairs)
        return pairs, counts

    def classes(self, counts: Integers) -> Integers:  # noqa: D102
        return clustered(counts, merging.merge)

    def plane(  # noqa: D102
        self,
        header: bytes,
        halvings: int,
        pairs: NDArray[Any],
        entries: NDArray[np.uint32],
        z: NDArray[Any],
        tail: Words,
    ) -> Stream:
        layout = self.stencil.layout
        states = np.zeros(lanes_of(layout, halvings), np.int64)
        most = int(RAW[tokens(z.max(keepdims=True).astype(np.int64))[0][0]])
        room = np.empty(pairs.size * (1 + -(-most // 15)) + 4 * states.size + tail.size, np.uint16)
        room[room.size - tail.size :] = tail
        top = loops.encode(
            pairs, z, entries.astype(np.int64).ravel(), _RAW_OF_PAIRS, BITS, _blocks(layout),
            states, room, room.size - tail.size,
        )  # fmt: skip
        halves = np.stack([states & 0xFFFF, states >> 16], axis=1).ravel()
        return Stream(halvings, header, np.concatenate([halves.astype(np.uint16), room[top:]]))


# --- decoding -------------------------------------------------------------------------------------


def _around(runs: list[Run], pad: int) -> Around:
    """Neighbours one by one; those that fill up repeat the first."""
    each = [(r.back, r.dy, 2 * r.du + r.dx + j) for r in runs for j in range(r.n)]
    each += [each[0]] * (-len(each) % pad)
    back, down, on = np.array(each, np.int64).T
    return Around(*(np.ascontiguousarray(v) for v in (back, down, on)))


@lru_cache(maxsize=16)
def _around_of(layout: Layout) -> tuple[Stencil, Around, Around]:
    stencil = Stencil.of(layout)
    return stencil, _around(stencil.samples, 4), _around(stencil.errors, 1)


@lru_cache(maxsize=16)
def _places(layout: Layout) -> tuple[Integers, Integers]:
    """Where row 0 of every group's block begins in the plane, (G, B), and its columns, (B,)."""
    _, A, Z, Y, X = layout.shape
    c, a, z = (v[:, None] for v in layout.groups.T)
    corner = np.indices(layout.counts).reshape(4, -1) * np.array(layout.block)[:, None]
    place = ((c * A + a + corner[0]) * Z + z + corner[1]) * Y + corner[2]
    return np.ascontiguousarray(place * X + corner[3], np.int64), X - corner[3].astype(np.int64)


def _wave(layout: Layout, near: Around, past: Around, first: int) -> Wave:
    """Room for the last steps: as many as neighbours lie back, and some that are written ahead."""
    G, B, height = layout.n_groups, layout.n_blocks, layout.block[2]
    steps = 1 << int(4 - min(near.on.min(), past.on.min())).bit_length()
    size, n = G * (height + ABOVE + BELOW) * B, G * height * B
    return Wave(
        np.full(steps * size, float(first)),
        np.zeros(steps * size),
        np.zeros((4, 4, size)),
        np.empty((4, n)),
        np.empty(n),
        np.empty(n, np.int64),
        np.empty(n, np.int64),
        np.empty(n, np.int64),
        np.empty((4, height * B)),
        np.empty(height * B),
    )


def decoded(
    header: bytes, words: Words, layout: Layout, lanes: int
) -> tuple[NDArray[np.int32], Words]:
    """The plane (C, A, Z, Y, X) and the tail of a packed plane."""
    stencil, near, past = _around_of(layout)
    model = Model.unpacked(header, stencil)
    tables = model.tables()
    if len(words) < 2 * lanes:
        raise StoreError(
            "A coded stream is too short for its lanes: the data are cut off or damaged."
        )
    states = words[: 2 * lanes : 2] + (words[1 : 2 * lanes : 2].astype(np.int64) << 16)
    if int(states.min()) < LOW:
        raise StoreError("A coded stream begins with an impossible state: the data are damaged.")
    coder = Coder(
        model.lowest, model.coarse, BITS, model.classes, tables.slots,
        tables.entries.astype(np.int64), LEAST, RAW,
    )  # fmt: skip
    places, ends = _places(layout)
    out = np.zeros(layout.shape, np.int32)
    left = np.append(words, np.uint16(0))
    plane = Plane(out.ravel(), places, layout.shape[4], ends)
    means, wave = _predictors(model, stencil, model.gains), _wave(layout, near, past, model.first)
    found, word = loops.decode(left, states, _blocks(layout), near, past, means, coder, wave, plane)
    if found == loops.TOO_SHORT:
        raise StoreError(
            "A coded stream ends before its last symbol: the data are cut off or damaged."
        )
    if found == loops.NO_END:
        raise StoreError("A coded stream does not end as it should: the data are damaged.")
    return out, left[word:-1]
