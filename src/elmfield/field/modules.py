"""Fields and tables as modules of torch: parameters, `state_dict`, `torch.compile`, `vmap`.

Opened only when somebody asks for a module. All is plain operations without branches on data, so
that it compiles in one graph and can be batched and differentiated: points outside go to the
border.
"""

import math
from itertools import product as cartesian
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import torch
from torch import nn

from elmfield._array.backend import is_numpy, to_numpy
from elmfield.domain import Domain
from elmfield.field.intervals import Intervals
from elmfield.field.polynomials import Order, Taken, horner
from elmfield.field.tables import expanded

if TYPE_CHECKING:
    from elmfield.field.pointwise import Pointwise
    from elmfield.field.tables import Table

Tensor = torch.Tensor


class Places(nn.Module):
    """Index coordinates of points, moved into the box: d columns."""

    def __init__(self, domain: Domain) -> None:
        super().__init__()
        self.axes = [
            (a.origin, a.step, a.size, a.period, a.knots is not None, low, high)
            for a, low, high in zip(domain.axes, domain.low, domain.high)
        ]
        for k, a in enumerate(domain.axes):
            if a.knots is not None and a.pieces is not None:
                self.register_buffer(f"knots_{k}", torch.as_tensor(np.array(a.knots)))
                self.register_buffer(f"pieces_{k}", torch.as_tensor(np.array(a.pieces)))

    def forward(self, points: Tensor) -> list[Tensor]:
        """Columns (n,) in float64, of points (n, d)."""
        found = []
        for k, (origin, step, size, period, is_curve, low, high) in enumerate(self.axes):
            x = points[:, k].to(torch.float64)
            if is_curve:
                if period is not None:
                    turns = torch.floor((x - origin) / period) + float(step < 0)
                    x = x - turns.detach() * period
                i = _along(x, self.get_buffer(f"knots_{k}"), self.get_buffer(f"pieces_{k}"))
            else:
                i = x if (origin, step) == (0, 1) else (x - origin) / step
            if period is not None:
                i = i - (torch.floor((i + 0.5) / size) * size).detach()
                i = torch.where((i < low) & (i + size <= high + 1e-9 * size), i + size, i)
            found.append(torch.clamp(i, low, high))
        return found


def _along(x: Tensor, knots: Tensor, pieces: Tensor) -> Tensor:
    """The curve from coordinate to index."""
    dense = x.detach() + 0.0  # in one piece of memory, under `vmap` too: torch warns of strides
    piece = torch.clamp(torch.searchsorted(knots, dense, right=True) - 1, 0, len(knots) - 2)
    a, u = pieces[:, piece], x - knots[piece]
    return ((a[0] * u + a[1]) * u + a[2]) * u + a[3]


M = TypeVar("M", bound=nn.Module)


class Answers(nn.Module):
    """What fields and tables share: points read, offset and scale put back."""

    offset: Tensor
    scale: Tensor

    def __init__(self, field: Any) -> None:
        super().__init__()
        self.places = Places(field.domain)
        self.d, self.single = len(field.shape), field.channel_axis is None
        self.is_complex = field.is_complex
        for name in ("offset", "scale"):
            value = torch.as_tensor(np.array(to_numpy(getattr(field, name))))
            self.register_buffer(name, value)

    def values(self, index: list[Tensor], order: Order) -> Tensor:
        """Mixed derivatives (n, C) at index coordinates, before offset and scale."""
        raise NotImplementedError

    def forward(self, points: Tensor) -> Tensor:
        """Values at points (..., d): (...,) or (..., C)."""
        index = self.places(points.reshape(-1, self.d))
        values = self.values(index, (0,) * self.d)
        values = values * self.scale.to(values.dtype) + self.offset.to(values.dtype)
        return self._shaped(values.to(self.offset.dtype), points)

    def _shaped(self, values: Tensor, points: Tensor) -> Tensor:
        if self.is_complex:
            half = values.shape[-1] // 2
            values = torch.complex(values[:, :half], values[:, half:])
        if self.single:
            return values[:, 0].reshape(points.shape[:-1])
        return values.reshape(*points.shape[:-1], values.shape[-1])


class TableModule(Answers):
    """A table as a module; its polynomials are a buffer."""

    coefficients: Tensor

    def __init__(self, table: "Table") -> None:
        super().__init__(table)
        own = table.polynomials
        rows = own.coefficients
        if is_numpy(rows):  # (C, T, cells)
            rows = torch.as_tensor(np.ascontiguousarray(rows.transpose(2, 1, 0)))
        self.register_buffer("coefficients", rows)  # (cells, T, C)
        self.lattice = list(zip(own.low, own.per_unit, own.counts))
        self.degree, self.terms = own.degree, dict(own.places)

    def values(self, index: list[Tensor], order: Order) -> Tensor:
        """Horner's rule on the rows of the points' cells."""
        return self._partials(index, [order])[0]

    def gradient(self, points: Tensor) -> Tensor:
        """First derivatives by the index coordinates, (..., d) or (..., C, d)."""
        index = self.places(points.reshape(-1, self.d))
        orders = [tuple(int(l == k) for l in range(self.d)) for k in range(self.d)]
        every = [
            self._shaped((values * self.scale).to(self.offset.dtype), points)
            for values in self._partials(index, orders)
        ]
        return torch.stack(every, dim=-1)

    def _partials(self, index: list[Tensor], orders: list[Order]) -> list[Tensor]:
        cell: Any = None
        s = []
        for i, (low, m, J) in zip(index, self.lattice):
            at = i - low if m == 1 else (i - low) * m
            j = torch.clamp(torch.floor(at.detach()), 0, J - 1)
            s.append((2 * (at - j) - 1).to(self.coefficients.dtype)[:, None])
            cell = j if cell is None else cell * J + j  # whole, and exact in float64
        cell = cell.to(torch.int64)
        if cell.is_cuda:
            terms: _Fused = _Columns(self.coefficients, cell)
        else:
            terms = _Fused(torch.index_select(self.coefficients, 0, cell))
        found = horner(terms, s, orders, self.degree, self.terms)
        stretch = [2.0 * m for _, m, _ in self.lattice]  # a derivative by s is one by the index
        return [
            values * math.prod([m**i for m, i in zip(stretch, a)]) if any(a) else values
            for a, values in zip(orders, found)
        ]


class _Fused(Taken):
    """Terms of points; a step of Horner's rule is one kernel."""

    def joined(
        self, total: Tensor | None, part: Tensor, s: Tensor, factor: int, name: Order
    ) -> Tensor:
        """``total s + factor part``."""
        part = part if factor == 1 else part * factor
        return part if total is None else torch.addcmul(part, total, s)


class _Columns(_Fused):
    """Terms looked up when it is their turn: a GPU gathers columns four times as fast as rows."""

    def __init__(self, rows: Tensor, cell: Tensor) -> None:
        super().__init__(rows)
        self.cell = cell

    def added(self, total: Tensor | None, i: int, s: Tensor, name: Order) -> Tensor:
        """``total s + c_i``, (n, C)."""
        return self.joined(total, self.rows[:, i][self.cell], s, 1, name)

    def zeros(self, s: Tensor) -> Tensor:
        """Nothing, at every point."""
        return s.new_zeros((len(self.cell), self.rows.shape[2]))


class FieldModule(Answers):
    """A field as a module: coefficients of all regions are its parameter."""

    def __init__(self, field: "Pointwise", axes: tuple[Intervals, ...]) -> None:
        super().__init__(field)
        group = field.blended.groups[0]
        part = field.blended.partition
        rows = field.blended.group_of[1][part.labels.reshape(-1)]
        c = group.model.expand(group.coefficients.take(rows))  # by cell, in array order
        own = torch.as_tensor(np.array(to_numpy(c)))
        self.coefficients = nn.Parameter(own.contiguous())  # (N, q_1, ..., q_d, C)
        self.lattice = [(a.low, a.per_unit, a.count) for a in axes]
        self.n_cells = part.n_cells
        for k, a in enumerate(axes):
            table = np.concatenate([a.pieces.coefficients, 0 * a.pieces.coefficients[:1]])
            self.register_buffer(f"table_{k}", torch.as_tensor(table))  # (U + 1, K, q)
            piece = np.where(a.piece < 0, len(table) - 1, a.piece)
            self.register_buffer(f"piece_{k}", torch.as_tensor(piece))
            cells = np.stack([a.lower, a.upper], axis=1)
            self.register_buffer(f"cells_{k}", torch.as_tensor(cells))

    def values(self, index: list[Tensor], order: Order) -> Tensor:
        """``Σ F[q] Π rows`` over all that may speak: who does not has rows of zeros."""
        sides = []
        for k, (i, (low, m, J)) in enumerate(zip(index, self.lattice)):
            at = (i - low) * m
            j = torch.clamp(torch.floor(at.detach()), 0, J - 1)
            s, j = 2 * (at - j) - 1, j.to(torch.int64)
            table = self.get_buffer(f"table_{k}")
            powers = s[:, None] ** torch.arange(table.shape[1], device=s.device)
            pieces, cells = self.get_buffer(f"piece_{k}")[j], self.get_buffer(f"cells_{k}")[j]
            rows = [(powers[:, :, None] * table[pieces[:, side]]).sum(dim=1) for side in (0, 1)]
            sides.append([(r, cells[:, side]) for side, r in enumerate(rows)])
        total: Any = 0.0
        for corner in cartesian(*sides):
            cell: Any = 0
            for (_, c), n in zip(corner, self.n_cells):
                cell = cell * n + c
            X = self.coefficients[cell]
            for r, _ in corner:
                shape = (r.shape[0], r.shape[1], *(1,) * (X.ndim - 2))
                X = (r.to(X.dtype).reshape(shape) * X).sum(dim=1)
            total = total + X
        found: Tensor = total
        return found


def table_module(table: "Table") -> TableModule:
    """A table as a module of torch."""
    return _beside(TableModule(table), table.offset)


def field_module(field: "Pointwise") -> FieldModule:
    """A field as a module of torch."""
    expansion = expanded(field)
    if expansion is None:
        raise TypeError(
            "only fields of product modes on a regular partition become modules, as smooth() and "
            "oriented() make them. Ask the field itself, which torch can follow too."
        )
    return _beside(FieldModule(field, expansion.axes), field.offset)


def _beside(module: M, like: Any) -> M:
    """A module on the device of an array of torch; where it is for other libraries' arrays."""
    return module.to(like.device) if isinstance(like, torch.Tensor) else module
