"""Fields and tables as modules of torch: parameters, `state_dict`, `torch.compile`, `vmap`.

Imported only by `Field.module` and `Table.module`. Plain operations that torch differentiates;
where a graph is recorded or points are batched, without a branch on data. Points outside go to the
border.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from itertools import product as cartesian

import numpy as np
import torch
from torch import nn

from elmfield._array import backend
from elmfield._array.autograd import gradient_error
from elmfield._array.backend import is_abstract, is_numpy, is_torch, outside_torch_modes, to_numpy
from elmfield.field.blend.points import corners
from elmfield.field.model import Model
from elmfield.field.tables.intervals import Intervals, intervals_of
from elmfield.field.tables.polynomials import index_in_box, shaped
from elmfield.field.tables.table import Table

Tensor = torch.Tensor

BLOCK_BALANCE = 16
"""Points of a block times blocks of a region, as a part of its points: a block costs as much as
eight points more than its own, and the last one of a region is half empty."""

PREPARED_NUMBERS_PER_POINT = 16
"""Numbers a point for which the polynomials of an axis are multiplied out before points are asked.

A picture of 64 × 64 at 10⁵ points took 23 ms then and 36 ms else; a volume of 32³ 125 and 155."""

CACHE_NUMBERS = 1 << 18
"""Numbers that stay in a processor's cache between two steps."""


def _detached(x: Tensor) -> Tensor:
    """A copy in one piece of memory, under `vmap` too: torch warns of strides."""
    return x.detach() + 0.0


class PointModule(nn.Module):
    """What fields and tables share: points read, offset and scale put back."""

    offset: Tensor
    scale: Tensor

    def __init__(self, model: Model) -> None:
        super().__init__()
        ends = zip(model.domain.low, model.domain.high)
        self.borders = list(zip(model.domain.axes, ends))
        self.d, self.single = len(model.shape), model.channel_axis is None
        self.pair = torch.complex if model.is_complex else None
        for name in ("offset", "scale"):
            value = torch.as_tensor(np.array(to_numpy(getattr(model, name))))
            self.register_buffer(name, value)
        for k, a in enumerate(model.domain.axes):
            if a.spacing is not None:
                self.register_buffer(f"knots_{k}", torch.as_tensor(a.spacing.knots.copy()))

    def places(self, points: Tensor) -> list[Tensor]:
        """Index coordinates of points (..., d), moved into the box: columns (n,) in float64."""
        x = points.reshape(-1, self.d).to(torch.float64)
        return [
            index_in_box(torch, _detached, x[:, k], *border, getattr(self, f"knots_{k}", None))
            for k, border in enumerate(self.borders)
        ]

    def values(self, index: list[Tensor]) -> Tensor:
        """Values (n, C) at index coordinates, before offset and scale."""
        raise NotImplementedError

    def forward(self, points: Tensor) -> Tensor:
        """Values at points (..., d): (...,) or (..., C)."""
        values = self.values(self.places(points))
        values = values * self.scale.to(values.dtype) + self.offset.to(values.dtype)
        found: Tensor = shaped(values.to(self.offset.dtype), points, self.pair, self.single)
        return found


class TableModule(PointModule):
    """A table as a module; its polynomials are a buffer."""

    coefficients: Tensor

    def __init__(self, table: Table) -> None:
        super().__init__(table.model)
        own = table.polynomials
        rows = own.coefficients
        if is_numpy(rows):  # (C, T, cells)
            rows = torch.as_tensor(np.ascontiguousarray(rows.transpose(2, 1, 0)))
        self.register_buffer("coefficients", rows)  # (cells, T, C)
        self.polynomials = replace(own, coefficients=None, per_step=())  # a buffer, by the index

    def values(self, index: list[Tensor]) -> Tensor:
        """Horner's rule on the rows of the points' cells."""
        values: Tensor
        (values,) = self.polynomials.by_library(self.coefficients, index, [(0,) * self.d])
        return values

    def gradient(self, points: Tensor) -> Tensor:
        """First derivatives by the index coordinates, (..., d) or (..., C, d)."""
        orders = [tuple(int(l == k) for l in range(self.d)) for k in range(self.d)]
        found = self.polynomials.by_library(self.coefficients, self.places(points), orders)
        units = [(v * self.scale).to(self.offset.dtype) for v in found]
        every = [shaped(v, points, self.pair, self.single) for v in units]
        return torch.stack(every, dim=-1)


class FieldModule(PointModule):
    """A field as a module: coefficients of all regions are its parameter.

    A value is the sum of ``Σ F[q] Π rows`` over the regions that contribute: F are a region's
    coefficients, and rows the functions of the axes, windows included, by polynomials on short
    intervals. Points of one region are evaluated together, rows of one interval made together.
    Where points are many, the polynomials of the last axes are multiplied out first, for all
    regions: F is then by interval, and powers are the rows.
    """

    def __init__(self, model: Model, axes: tuple[Intervals, ...]) -> None:
        super().__init__(model)
        group = model.blended.groups[0]
        part = model.blended.partition
        rows = model.blended.group_of[1][part.labels.reshape(-1)]
        c = group.model.expand(group.coefficients.take(rows))  # by cell, in array order
        own = torch.as_tensor(np.array(to_numpy(c)))
        self.coefficients = nn.Parameter(own.contiguous())  # (N, q_1, ..., q_d, C)
        self.lattice = [(a.low, a.per_unit, a.count) for a in axes]
        self.n_cells = part.n_cells
        # Torch may differentiate twice.
        axes = tuple(a.within_rounding(own.numpy().dtype, 2) for a in axes)
        self.terms = [a.rows.shape[1] for a in axes]
        for k, a in enumerate(axes):
            table = np.concatenate([a.pieces.coefficients, 0 * a.pieces.coefficients[:1]])
            piece = np.where(a.piece < 0, len(table) - 1, a.piece)
            cells = np.stack([a.lower, a.upper], axis=1)
            held = {"table": table, "piece": piece, "cells": cells}  # (U + 1, K, q), (J, 2) twice
            for name, array in held.items():
                self.register_buffer(f"{name}_{k}", torch.as_tensor(array))
            for name, array in _spans(a, self.n_cells[k], len(table) - 1).items():
                self.register_buffer(f"{name}_{k}", torch.as_tensor(array), persistent=False)

    def values(self, index: list[Tensor]) -> Tensor:
        """``Σ F[q] Π rows`` over all that contribute at each point."""
        s, j = [], []
        for i, (low, m, J) in zip(index, self.lattice):
            at = (i - low) * m
            j.append(torch.clamp(torch.floor(at.detach()), 0, J - 1).to(torch.int64))
            s.append((2 * (at - j[-1]) - 1).to(self.coefficients.dtype))
        if _is_traced(index[0], self.coefficients) or index[0].shape[0] == 0:
            every = cartesian((0, 1), repeat=len(s))
            return torch.stack([self._corner(s, j, corner) for corner in every]).sum(dim=0)
        return self._grouped(s, j)

    # --- without looking at the points: what can be compiled, exported and batched ---------------

    def _corner(self, s: list[Tensor], j: list[Tensor], corner: tuple[int, ...]) -> Tensor:
        """Values of the lower or upper cells at all points, (n, C): 0 outside their windows."""
        rows, key = [], None
        for k, side in enumerate(corner):
            piece, cell = (self.get_buffer(f"{a}_{k}")[:, side][j[k]] for a in ("piece", "cells"))
            rows.append((powers(s[k], self.terms[k]).T[:, :, None] * self._table(k)[piece]).sum(1))
            key = cell if key is None else key * self.n_cells[k] + cell
        X = self.coefficients[key]
        for r in rows:
            X = (r.reshape(*r.shape, *(1,) * (X.ndim - 2)) * X).sum(dim=1)
        return X

    # --- points in groups ------------------------------------------------------------------------

    @outside_torch_modes()
    def _grouped(self, s: list[Tensor], j: list[Tensor]) -> Tensor:
        """The same, (n, C), only from cells that contribute."""
        n, d = len(s[0]), len(s)
        F, ready = self._prepared(PREPARED_NUMBERS_PER_POINT * n)
        at, key, pieces = self._asked(j, F.shape[:d], ready)
        group = _Groups(key, math.prod(F.shape[:d]))
        at_slot, (b, B) = at[group.source], (len(group.key), group.size)
        rows = []  # (blocks, q, points of a block) each
        for k in range(d):
            x = s[k].index_select(0, at_slot)
            if ready[k]:
                rows.append(powers(x, self.terms[k]).reshape(-1, b, B).transpose(0, 1))
            else:
                r = self._rows(k, x, pieces[k][group.source])
                rows.append(r.reshape(b, B, -1).transpose(1, 2).contiguous())
        (*_, C), q = F.shape, F.shape[d] if d > 1 else 1
        rows = rows if d > 1 else [torch.ones_like(rows[0][:, :1]), *rows]
        # (blocks, q_1 C, q_2 ... q_d), times the products of all axes' rows but the first's
        F = F.movedim(-1, d + 1 if d > 1 else d).reshape(math.prod(F.shape[:d]), q * C, -1)
        F = F.index_select(0, group.key)
        found, step = [], max(1, CACHE_NUMBERS // (B * F.shape[2]))
        for X, r, *others in zip(*(torch.split(t, step) for t in (F, *rows))):
            X = X @ reduce(lambda Z, o: (Z[:, :, None] * o[:, None]).flatten(1, 2), others)
            found.append((X.reshape(-1, q, C, B) * r[:, :, None]).sum(dim=1))
        answers = torch.cat(found).transpose(1, 2).reshape(-1, C).index_select(0, group.slot)
        return answers[:n].index_add(0, at[n:], answers[n:])

    def _asked(
        self, j: list[Tensor], counts: Sequence[int], ready: list[bool]
    ) -> tuple[Tensor, Tensor, list[Tensor]]:
        """Pairs of a point and a contributing cell: points, keys of F, pieces on each axis; (m,).

        First all points with their lower cells, then blended ones with the others.
        """
        two = [self.get_buffer(f"two_{k}")[i] & (not r) for k, (i, r) in enumerate(zip(j, ready))]
        points, sides = corners(two)
        at, key = torch.cat(points), torch.zeros((), dtype=torch.int64)
        pieces = []
        for k, count in enumerate(counts):
            i, side = j[k][at], torch.as_tensor(1 * sides[:, k], device=at.device)
            key = key * count + (i if ready[k] else self.get_buffer(f"cells_{k}")[i, side])
            pieces.append(self.get_buffer(f"piece_{k}")[i, side])
        return at, key, pieces

    def _rows(self, k: int, s: Tensor, piece: Tensor) -> Tensor:
        """The functions of axis k, (m, q), at s on these pieces."""
        table = self._table(k)
        group = _Groups(piece, len(table))
        P = powers(s.index_select(0, group.source), self.terms[k])
        P = P.reshape(-1, len(group.key), group.size).permute(1, 2, 0)
        found = (P @ table.index_select(0, group.key)).reshape(-1, table.shape[2])
        return found.index_select(0, group.slot)

    def _prepared(self, max_numbers: int) -> tuple[Tensor, list[bool]]:
        """F by cell or interval of each axis, (n_1, ..., n_d, q_1, ..., q_d, C), and which it is.

        The last axes are multiplied out as far as that takes no more than `max_numbers`.
        """
        d = len(self.n_cells)
        F: Tensor = self.coefficients
        F, ready = F.reshape(*self.n_cells, *F.shape[1:]), [False] * d
        for k in reversed(range(d)):
            J, K = self.lattice[k][2], self.terms[k]
            if F.numel() // (F.shape[k] * F.shape[d + k]) * J * K > max_numbers:
                break
            X = F.movedim((k, d + k), (0, 1))
            N, q, *rest = X.shape
            table = self._table(k)[self.get_buffer(f"span_{k}")].reshape(N, -1, q)
            Y = (table @ X.reshape(N, q, -1)).reshape(-1, K, math.prod(rest))
            low, up, at = (self.get_buffer(f"{name}_{k}") for name in ("low", "up", "at"))
            Y = Y.index_select(0, low).index_add(0, at, Y.index_select(0, up))
            F = Y.reshape(J, K, *rest).movedim((0, 1), (k, d + k))
            ready[k] = True
        return F, ready

    def _table(self, k: int) -> Tensor:
        """Polynomials of axis k, (U + 1, K, q), in the coefficients' dtype."""
        return self.get_buffer(f"table_{k}").to(self.coefficients.dtype)


def _spans(axis: Intervals, n_cells: int, nothing: int) -> dict[str, np.ndarray]:
    """On which intervals each cell contributes, one after the other, and where these are found.

    `span`, (N, L), is the piece of each, or `nothing` after the last; `low`, (J,), says where the
    lower cell's is found among them, `up` where the upper cell's is on the intervals `at`; `two`,
    (J,), says on which these are.
    """
    two = axis.piece[:, 1] >= 0
    cell = np.concatenate([axis.lower, axis.upper[two]])
    piece = np.concatenate([axis.piece[:, 0], axis.piece[two, 1]])
    order = np.argsort(cell, kind="stable")
    counts = np.bincount(cell, minlength=n_cells)
    place = np.empty(len(cell), np.int64)
    place[order] = np.arange(len(cell)) - (np.cumsum(counts) - counts)[cell[order]]
    span = np.full((n_cells, counts.max()), nothing)
    span[cell, place] = piece
    where = cell * span.shape[1] + place
    J = axis.count
    return {"span": span, "low": where[:J], "up": where[J:], "at": np.flatnonzero(two), "two": two}


class _Groups:
    """Pairs of one key in blocks of one size, the last of each key filled up with any others.

    Parameters
    ----------
    key : tensor, shape (m,)
        Of each pair of a point and a cell, below `bound`.

    Attributes
    ----------
    size : int
        Pairs of a block.
    key : tensor, shape (blocks,)
        Of each block.
    source : tensor, shape (blocks size,)
        The pair in each place of the blocks, one after the other.
    slot : tensor, shape (m,)
        The place of each pair.
    """

    def __init__(self, key: Tensor, bound: int) -> None:
        order, where = backend.sort_order(key, bound), key.device
        counts = torch.bincount(key, minlength=bound)
        each = len(key) / int(torch.count_nonzero(counts))
        self.size = B = int(min(each, math.sqrt(BLOCK_BALANCE * each)))
        blocks = (counts + (B - 1)) // B
        self.key = torch.repeat_interleave(torch.arange(bound, device=where), blocks)
        # How far the places of a key are behind its pairs in sorted order.
        gap = (torch.cumsum(blocks, 0) - blocks) * B - (torch.cumsum(counts, 0) - counts)
        slot = torch.arange(len(key), device=where) + gap[key[order]]
        self.slot = torch.empty_like(slot).index_copy_(0, order, slot)
        self.source = torch.zeros(len(self.key) * B, dtype=torch.int64, device=where)
        self.source.index_copy_(0, slot, order)


def powers(s: Tensor, count: int) -> Tensor:
    """``s⁰, s¹, ...``, (count, n), of s (n,): each step doubles how many there are."""
    P, high, have = torch.stack([torch.ones_like(s), s]), s * s, 2
    while have < count:
        P, high, have = torch.cat([P, P[: count - have] * high]), high * high, 2 * have
    return P[:count]


def _is_traced(*tensors: Tensor) -> bool:
    """Whether a graph is made, or tensors are batched: then no step may depend on numbers."""
    recorded = torch.compiler.is_compiling() or torch.jit.is_tracing()  # type: ignore[attr-defined, no-untyped-call]
    return recorded or any(not isinstance(x, Tensor) or is_abstract(x) for x in tensors)


@outside_torch_modes()
def table_module(table: Table) -> TableModule:
    """A table as a module of torch."""
    module, like = TableModule(table), table.model.offset
    return module.to(like.device) if is_torch(like) else module


@outside_torch_modes()
def field_module(model: Model) -> FieldModule:
    """A field as a module of torch."""
    if backend.requires_grad(model.blended.like):
        raise gradient_error("a module, whose coefficients are a parameter of its own")
    axes = intervals_of(model)
    if axes is None:
        raise TypeError(
            "only fields of product modes on a regular partition become modules, as smooth() and "
            "oriented() make them. Ask the field itself, which torch can follow too."
        )
    module, like = FieldModule(model, axes), model.offset
    return module.to(like.device) if is_torch(like) else module
