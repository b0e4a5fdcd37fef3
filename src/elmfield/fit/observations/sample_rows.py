"""Rows of observations in terms of the samples of a grid: sparse, or products of axes' matrices.

A field of smooth(order=...) is linear in its samples, and its weights are products over axes.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from scipy.sparse import csr_matrix, diags

from elmfield._array.typing import Array, Floats
from elmfield.domain import Domain
from elmfield.fit.encoder import Encoder
from elmfield.fit.observations.axis_rows import AxisFunction, AxisRows
from elmfield.fit.observations.observation import Observation, OnSamples, Resolution, Term
from elmfield.settings import Smooth

NEGLIGIBLE_WEIGHT = 1e-14
"""Weights of samples below are rounding."""

BATCH_ROWS = 4096
"""Rows that are made at once."""


@dataclass(frozen=True, eq=False)
class LinearMap:
    """A linear map of samples, (N, C), to rows, (n, C), and its adjoint."""

    forward: Callable[[Floats], Floats] = field(repr=False)
    adjoint: Callable[[Floats], Floats] = field(repr=False)


def sample_maps(
    observations: list[Observation], domain: Domain, settings: Smooth
) -> list[LinearMap]:
    """What each observation sees of the samples of a field with these settings."""
    rows: AxisRows | None = None
    found = []
    for o in observations:
        if isinstance(o.functional, OnSamples):
            found.append(_matrix_map(o.functional.matrix, domain))
            continue
        rows = rows or _axis_rows(domain, settings)
        terms = o.functional.terms(rows.resolution)
        if any(t.channel is not None for t in terms):
            raise ValueError(f"{o.kind}: rows of several channels need a smooth function.")
        maps = [_product_map(rows, t) or _sparse_map(rows, t) for t in terms]
        found.append(maps[0] if len(maps) == 1 else _sum(maps))
    return found


def _sum(maps: list[LinearMap]) -> LinearMap:
    return LinearMap(
        lambda x: np.sum([m.forward(x) for m in maps], axis=0),
        lambda y: np.sum([m.adjoint(y) for m in maps], axis=0),
    )


def _matrix_map(A: Array, domain: Domain) -> LinearMap:
    """A matrix or LinearOperator on samples in array order."""
    n = int(np.prod(domain.shape))
    if A.shape[1] != n:
        raise ValueError(
            f"operator: `A` must have a column for each of the {n} samples of the grid "
            f"{domain.shape}; got shape {tuple(A.shape)}."
        )
    if hasattr(A, "rmatmat"):
        return LinearMap(A.matmat, A.rmatmat)
    T = A.T.tocsr() if hasattr(A, "tocsr") else A.T
    return LinearMap(lambda x: np.asarray(A @ x), lambda y: np.asarray(T @ y))


def _axis_rows(domain: Domain, settings: Smooth) -> AxisRows:
    """The weight of each sample of an axis in the field's values along it."""
    axes, breaks = [], []
    for k, axis in enumerate(domain.axes):
        one, order = Domain.of([axis]), np.ravel(settings.order)
        own = Smooth(
            order=float(order[min(k, len(order) - 1)]), cell=settings.cell,
            overlap=settings.overlap, context=settings.context,
        )  # fmt: skip
        encode = Encoder(shape=(axis.size, axis.size), settings=own, channel_axis=1, domain=one)
        axes.append(_weights(encode, axis.size))
        inner = encode.partition.borders(0)[1:-1]
        around = np.concatenate(
            [inner - encode.partition.overlap[0], inner + encode.partition.overlap[0]]
        )
        ends = np.concatenate([[-0.5, axis.size - 0.5], around, np.arange(0, axis.size, 1.0)])
        breaks.append(np.unique(axis.from_index(np.clip(ends, -0.5, axis.size - 0.5))))
    return AxisRows(
        domain,
        axes,
        domain.shape,
        Resolution(
            breaks, (10,) * len(axes), tuple(1.5 * n for n in domain.shape), domain.periodic
        ),
    )


def _weights(encode: Encoder, n: int) -> AxisFunction:
    model = encode(np.eye(n)).model  # the constant is taken off each column and put on again
    offset, scale = np.asarray(model.offset), np.asarray(model.scale)

    def weights(x: Floats, order: int) -> Floats:
        (found,) = model.blended.partials(x[:, None], [(order,)])
        return np.asarray(np.asarray(found) * scale + (offset if order == 0 else 0))

    return weights


def _sparse(rows: AxisRows, term: Term, k: int, part: slice) -> csr_matrix:
    W = rows.along(term, k, part)
    W[np.abs(W) < NEGLIGIBLE_WEIGHT] = 0
    return csr_matrix(W)


def _product_map(rows: AxisRows, term: Term) -> LinearMap | None:
    """The map of rows that lie on a grid, axis by axis; None where they do not."""
    n, d = len(term.factor), len(term.positions)
    sizes = [len(np.unique(x[:, 0])) for x in term.positions]
    if term.row is not None or int(np.prod(sizes)) != n or np.ptp(term.factor):
        return None
    matrices = []
    for k in range(d):
        for lines in (term.positions[k], term.weights[k]):
            first = lines.reshape(*sizes, -1)[
                tuple(slice(None) if j == k else slice(1) for j in range(d))
            ]
            if not np.array_equal(
                np.broadcast_to(first, (*sizes, lines.shape[1])).reshape(lines.shape), lines
            ):
                return None
        stride = int(np.prod(sizes[k + 1 :]))
        some = np.arange(sizes[k]) * stride
        one = Term(
            term.order,
            [x[some] for x in term.positions],
            [w[some] for w in term.weights],
            term.factor[some],
        )
        matrices.append(_sparse(rows, one, k, slice(None)))
    matrices[0] = matrices[0] * float(term.factor[0])
    back = [M.T.tocsr() for M in matrices]
    shape = rows.domain.shape

    def apply(matrices: list[csr_matrix], X: Floats, shape: tuple[int, ...]) -> Floats:
        X = X.reshape(*shape, -1)
        for k, M in enumerate(matrices):
            X = np.moveaxis(X, k, 0)
            X = np.moveaxis((M @ X.reshape(len(X), -1)).reshape(-1, *X.shape[1:]), 0, k)
        return X.reshape(-1, X.shape[-1])

    return LinearMap(lambda x: apply(matrices, x, shape), lambda y: apply(back, y, tuple(sizes)))


def _sparse_map(rows: AxisRows, term: Term) -> LinearMap:
    """The map of rows anywhere."""
    n = len(term.factor)
    count = n if term.row is None else int(term.row.max()) + 1
    total = csr_matrix((count, int(np.prod(rows.widths))))
    parts = []
    for i in range(0, n, BATCH_ROWS):
        part = slice(i, min(i + BATCH_ROWS, n))
        own = _sparse(rows, term, 0, part)
        for k in range(1, len(rows.widths)):
            own = _row_products(own, _sparse(rows, term, k, part))
        own = diags(term.factor[part]) @ own
        if term.row is None:
            parts.append(own)
        else:
            owner = term.row[part]
            pick = csr_matrix(
                (np.ones(len(owner)), (owner, np.arange(len(owner)))), (count, len(owner))
            )
            total = total + pick @ own
    if term.row is None:
        from scipy.sparse import vstack

        total = vstack(parts, format="csr")
    back = total.T.tocsr()
    return LinearMap(lambda x: total @ x, lambda y: back @ y)


def _row_products(A: csr_matrix, B: csr_matrix) -> csr_matrix:
    """All products of entries of equal rows: (n, p) and (n, q) to (n, p q)."""
    a, b = np.diff(A.indptr), np.diff(B.indptr)
    each = np.repeat(b, a)  # how often an entry of A is used
    first = np.repeat(np.arange(len(A.indices)), each)
    start = np.repeat(np.repeat(B.indptr[:-1], a), each)
    within = np.arange(len(first)) - np.repeat(np.cumsum(each) - each, each)
    second = start + within
    indices = A.indices[first].astype(np.int64) * B.shape[1] + B.indices[second]
    indptr = np.concatenate([[0], np.cumsum(a * b)])
    return csr_matrix(
        (A.data[first] * B.data[second], indices, indptr), (A.shape[0], A.shape[1] * B.shape[1])
    )
