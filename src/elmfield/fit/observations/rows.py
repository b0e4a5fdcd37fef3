"""Rows of observations in a basis of products: a matrix per axis, multiplied row by row.

Dense in polynomials of one region. Sparse in the samples of a grid: a field of smooth(order=...) is
linear in them, and its weights are products over axes.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial, reduce
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix, vstack
from scipy.sparse.linalg import LinearOperator, aslinearoperator

from elmfield._array.checks import wrong
from elmfield._array.running import runs
from elmfield._array.typing import Array, Floats
from elmfield.domain import Domain
from elmfield.field.model import Model
from elmfield.fit.encoder import Encoder
from elmfield.fit.observations.observation import Observation, Resolution, Term
from elmfield.settings import Smooth

AxisFunction = Callable[[Floats, int], Floats]
"""Functions of one axis, (m, width), at index coordinates (m,), differentiated so many times."""

BATCH_NUMBERS = 1 << 22
"""Numbers of a matrix that are held at once."""

NEGLIGIBLE_WEIGHT = 1e-14
"""Weights of samples below are rounding."""


@dataclass(frozen=True, eq=False)
class AxisRows:
    """What rows are made of: the domain, and functions of each of its axes.

    Parameters
    ----------
    domain : Domain
        Whose axes have even spacing.
    axes : list of callables
        The functions of each axis; a basis has all their products, in array order.
    widths : tuple of int
        How many there are.
    resolution : Resolution
        What quadrature has to resolve.
    is_sparse : bool
        Whether most functions are 0 at a place: matrices are then sparse.
    """

    domain: Domain
    axes: list[AxisFunction] = field(repr=False)
    widths: tuple[int, ...]
    resolution: Resolution = field(repr=False)
    is_sparse: bool = False

    def along(self, term: Term, k: int, part: Array | slice) -> Any:
        """Rows of axis k, (n, width): weighted sums over the nodes of a term."""
        axis, order = self.domain.axes[k], term.order[k]
        x, w = term.positions[k][part], term.weights[k][part]
        n, q = x.shape
        index = self.domain.settle(k, np.asarray(axis.to_index(x.reshape(-1))), "nearest")[0]
        F = np.asarray(self.axes[k](index, order)).reshape(n, q, -1)
        found = F[:, 0] * w[:, :1] if q == 1 else np.einsum("nqm,nq->nm", F, w)
        found = np.asarray(found / axis.step**order)
        if not self.is_sparse:
            return found
        found[np.abs(found) < NEGLIGIBLE_WEIGHT] = 0
        return csr_matrix(found)

    def of_term(self, term: Term) -> Any:
        """Rows of a term in all products, (n, m), summed where several make one."""
        owner = np.arange(len(term.factor)) if term.row is None else term.row
        n, multiply = int(owner[-1]) + 1, _multiply_sparse if self.is_sparse else multiply_rows
        widest = max(x.shape[1] * w for x, w in zip(term.positions, self.widths))
        most = widest if self.is_sparse else max(widest, int(np.prod(self.widths)))
        parts = []
        for i, j in runs(n, max(1, BATCH_NUMBERS // most * n // len(owner))):
            part = slice(*np.searchsorted(owner, (i, j)))
            own = reduce(multiply, [self.along(term, k, part) for k in range(len(self.axes))])
            at = owner[part] - i
            pick = csr_matrix((term.factor[part], (at, np.arange(len(at)))), (j - i, len(at)))
            parts.append(pick @ own)
        return vstack(parts, format="csr") if self.is_sparse else np.concatenate(parts)

    def matrix(self, observation: Observation, n_channels: int) -> Floats:
        """Rows of an observation in the coefficients of channels that are fitted together.

        (n C, C m) and (n, C m) for rows of one channel each and of several.
        """
        if observation.kind == "operator":
            samples: Floats = np.ones((1, 1))
            for f, n in zip(self.axes, self.domain.shape):
                samples = np.asarray(np.kron(samples, f(np.arange(float(n)), 0)), float)
            A = matrix_map(observation.terms, self.domain.shape)
            return diagonal(A.matmat(samples), n_channels)
        terms = observation.terms(self.resolution)
        if terms[0].channel is None:
            return diagonal(np.asarray(sum(self.of_term(t) for t in terms)), n_channels)
        out = np.zeros((len(observation), n_channels, int(np.prod(self.widths))))
        for t in terms:
            out[:, t.channel] += self.of_term(t)
        return out.reshape(len(out), -1)


def diagonal(rows: Floats, n_channels: int) -> Floats:
    """The same rows for each channel's own coefficients, (n C, C m); channels vary fastest."""
    every = np.einsum("nm,cd->ncdm", rows, np.eye(n_channels))
    return np.asarray(every.reshape(len(rows) * n_channels, -1))


def multiply_rows(A: Floats, B: Floats) -> Floats:
    """All products of entries of equal rows: (n, p) and (n, q) to (n, p q)."""
    return (A[:, :, None] * B[:, None, :]).reshape(len(A), -1)


def _multiply_sparse(A: csr_matrix, B: csr_matrix) -> csr_matrix:
    """The same of sparse rows."""
    a, b = np.diff(A.indptr), np.diff(B.indptr)
    each = np.repeat(b, a)  # how often an entry of A is used
    first = np.repeat(np.arange(len(A.indices)), each)
    start = np.repeat(np.repeat(B.indptr[:-1], a), each)
    second = start + np.arange(len(first)) - np.repeat(np.cumsum(each) - each, each)
    indices = A.indices[first].astype(np.int64) * B.shape[1] + B.indices[second]
    indptr = np.concatenate([[0], np.cumsum(a * b)])
    shape = A.shape[0], A.shape[1] * B.shape[1]
    return csr_matrix((A.data[first] * B.data[second], indices, indptr), shape)


# --- samples of a grid ----------------------------------------------------------------------------


def sample_maps(
    observations: list[Observation], domain: Domain, settings: Smooth
) -> list[LinearOperator]:
    """What each observation sees of the samples, (N, C), of a field with these settings."""
    rows: AxisRows | None = None
    found = []
    for o in observations:
        if o.kind == "operator":
            found.append(matrix_map(o.terms, domain.shape))
            continue
        rows = rows or _sample_rows(domain, settings)
        terms = o.terms(rows.resolution)
        if any(t.channel is not None for t in terms):
            raise ValueError(
                f"{o.kind}: rows of several channels are those of one smooth region. Leave out "
                "`positive` and oriented(), and give fewer rows."
            )
        maps = [_grid_map(rows, t) or aslinearoperator(rows.of_term(t)) for t in terms]
        found.append(sum(maps[1:], maps[0]))
    return found


def matrix_map(A: Any, shape: tuple[int, ...]) -> LinearOperator:
    """A matrix or LinearOperator on samples in array order."""
    if A.shape[1] != (n := int(np.prod(shape))):
        must = f"have a column for each of the {n} samples of the grid {shape}"
        raise wrong("A", must, tuple(A.shape))
    is_ready = hasattr(A, "rmatvec") or hasattr(A, "tocsr")
    return aslinearoperator(A if is_ready else np.asarray(A))


def _sample_rows(domain: Domain, settings: Smooth) -> AxisRows:
    """The weight of each sample of an axis in the field's values along it."""
    axes, breaks, order = list[AxisFunction](), [], np.ravel(settings.order)
    for k, axis in enumerate(domain.axes):
        own = replace(settings, order=float(order[min(k, len(order) - 1)]))
        one, shape = Domain.of([axis]), (axis.size, axis.size)
        encode = Encoder(shape=shape, settings=own, channel_axis=1, domain=one)
        axes.append(partial(_along_axis, encode(np.eye(axis.size)).model))
        inner, overlap = encode.partition.borders(0)[1:-1], encode.partition.overlap[0]
        own_breaks = inner - overlap, inner + overlap, np.arange(-1.0, axis.size + 1)
        at = np.clip(np.concatenate(own_breaks), -0.5, axis.size - 0.5)
        breaks.append(np.unique(axis.from_index(at)))
    waves = tuple(1.5 * n for n in domain.shape)
    resolution = Resolution(breaks, (10,) * len(axes), waves, domain.periodic)
    return AxisRows(domain, axes, domain.shape, resolution, is_sparse=True)


def _along_axis(model: Model, x: Floats, order: int) -> Floats:
    return derivative_at(model, x[:, None], (order,))


def derivative_at(model: Model, x: Floats, order: tuple[int, ...]) -> Floats:
    """A derivative of a field at index coordinates x, (n, d), per sample; (n, C)."""
    (found,) = model.blended.partials(x, [order])
    found = np.asarray(found) * np.asarray(model.scale)
    return np.asarray(found if any(order) else found + np.asarray(model.offset))


def _grid_map(rows: AxisRows, term: Term) -> LinearOperator | None:
    """The map of rows that lie on a grid, axis by axis; None where they do not."""
    n, d = len(term.factor), len(term.positions)
    sizes = tuple(len(np.unique(x[:, 0])) for x in term.positions)
    if term.row is not None or int(np.prod(sizes)) != n or np.ptp(term.factor):
        return None
    matrices = []
    for k in range(d):
        order = np.moveaxis(np.arange(n).reshape(sizes), k, 0).reshape(sizes[k], -1)
        for lines in (term.positions[k], term.weights[k]):
            if (lines[order] != lines[order[:, :1]]).any():
                return None
        matrices.append(rows.along(term, k, order[:, 0]))
    matrices[0] = matrices[0] * float(term.factor[0])
    back = [M.T.tocsr() for M in matrices]

    def apply(matrices: list[csr_matrix], X: Floats, shape: tuple[int, ...]) -> Floats:
        X = X.reshape(*shape, -1)
        for k, M in enumerate(matrices):
            X = np.moveaxis(X, k, 0)
            X = np.moveaxis((M @ X.reshape(len(X), -1)).reshape(-1, *X.shape[1:]), 0, k)
        return X.reshape(-1, X.shape[-1])

    def forward(x: Floats) -> Floats:
        return apply(matrices, x, rows.domain.shape)

    def adjoint(y: Floats) -> Floats:
        return apply(back, y, sizes)

    whole = (n, int(np.prod(rows.widths)))
    return LinearOperator(whole, forward, adjoint, forward, np.float64, adjoint)
