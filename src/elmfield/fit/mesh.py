"""Meshes: where the samples of a curvilinear grid are, and which of them lie around a place.

The coordinates of the samples are a field too, fitted as the values are. A place is found by a
start (the nearest sample, or for many places what a table says) and Newton's steps in the numbers
of samples.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from dataclasses import field as field_of
from functools import cached_property
from typing import Any

import numpy as np

from elmfield._array.cache import Recent
from elmfield._array.checks import numbers
from elmfield._array.running import runs, spread
from elmfield._array.typing import Array, Bools, Floats, Integers
from elmfield.domain import Axis, Domain, Spacing
from elmfield.domain.sphere import cosine, unit_vectors, widest_gap
from elmfield.field import Field
from elmfield.field.tables.polynomials import Polynomials, exponents
from elmfield.fit.encoder import Encoder
from elmfield.settings import Smooth

MOST_STEPS = 12
"""Newton's steps: three are taken in smooth meshes, and the rest where cells are bent."""

FOUND_CELLS = 3e-5
"""A step, in cells, after which a place is found: what is left is its square, or less."""

TABLE_TOLERANCE, TABLE_MIN_POINTS = 1e-10, 20_000
"""What a table keeps of the places, and points, no fewer than samples, from which it pays."""

OTHER_STARTS = 6
"""Further samples from which places are looked for, where the nearest one leads nowhere."""

STARTS_PER_SAMPLE, START_CELLS = 0.5, 0.1
"""Cells of the table of starts, and how far its polynomials may be from its nodes: where rows
overlap, and at seams and folds, places are looked for from the nearest sample."""

BLOCK_POINTS = 1 << 14
"""Points whose places are found together: what they need stays in a processor's cache."""

FOLD_ROWS, FOLD_COSINE = 6, 0.9
"""Rows beyond a fold that the fit sees; how straight rows go on there, in the middle of all."""

KEPT = 3
"""Meshes that are kept for the next array, and sets of places that are kept with each."""


@dataclass(frozen=True, eq=False)
class Mesh:
    """Where the samples of a curvilinear grid are; kept for the next array on it.

    Parameters
    ----------
    given : array, shape (n, m, 2)
        Latitudes and longitudes, or y and x; NaN where they are not known.
    axes : pair of Axis
        Rows and columns.
    radius : float or None
        Of the sphere, in metres; None on a map.
    fold : Fold or None
        How rows go on beyond the last one.
    """

    given: Floats
    axes: Sequence[Axis]
    radius: float | None
    fold: "Fold | None"
    _found: Recent[Any, tuple[Floats, Bools]] = field_of(default_factory=Recent)

    @cached_property
    def _vectors(self) -> Floats:
        """Where the samples are, (n, m, C): unit vectors on the sphere, or y and x."""
        return self._as_vectors(self.given)

    @cached_property
    def places(self) -> Field:
        """The same, between the samples too; channels last. Splines along even axes as well."""
        y, fold = self._vectors, self.fold
        whole = y if fold is None else fold.beyond(y, 0, 1)
        even = (Spacing(np.arange(a.size, dtype=float), a.period and a.size) for a in self.axes)
        domain = Domain.of([replace(a, spacing=a.spacing or s) for a, s in zip(self.axes, even)])
        own = Smooth(order=4.0)
        encode = Encoder(shape=whole.shape, settings=own, channel_axis=2, domain=domain)
        made = encode(whole, missing="nan")
        return made if fold is None else fold.crop(made, len(y))

    @cached_property
    def tree(self) -> Any:
        """A cKDTree of those that are known."""
        from scipy.spatial import cKDTree  # 0.1 s, for these alone

        return cKDTree(self._vectors[np.isfinite(self._vectors).all(axis=-1)])

    def locate(self, places: Array) -> tuple[Floats, Bools]:
        """Numbers of samples (..., 2) at places (..., 2), and which lie on the mesh."""
        given = numbers("places", places)
        i, found = self._found.made_of(given.reshape(-1, 2), (), self._search, KEPT)
        return i.reshape(given.shape), found.reshape(given.shape[:-1])

    def _search(self, given: Floats) -> tuple[Floats, Bools]:
        i, off = np.zeros((len(given), 2)), np.full(len(given), np.inf)
        good = np.flatnonzero(np.isfinite(given).all(axis=1))
        is_many = len(good) > max(TABLE_MIN_POINTS, len(self._samples))
        if is_many and (starts := self._starts) is not None:
            x = given.take(good, axis=0)
            if self.radius is not None:
                x[:, 1] = starts.low[1] + (x[:, 1] - starts.low[1]) % 360
            order = starts.by_cell(x)
            order = np.arange(len(x)) if order is None else order
            high = [low + n / m for low, n, m in zip(starts.low, starts.counts, starts.per_unit)]

            def work(span: tuple[int, int]) -> None:
                some = order[slice(*span)]
                own, place = x.take(some, axis=0), good.take(some)
                start = np.stack([v for (v,) in starts.by_channel(own, [(0, 0)])], axis=-1)
                start[((own < starts.low) | (own > high)).any(axis=1)] = np.nan
                i[place], off[place] = self._newton(self._as_vectors(own), start)

            spread(work, runs(len(order), BLOCK_POINTS))
            good = good[off[good] > FOUND_CELLS]
        at = self._as_vectors(given[good])
        away, near = self.tree.query(at, eps=1.0)
        i[good], off[good] = self._newton(at, self._samples[near])
        # Beside seams, and where rows overlap, the nearest sample may be the wrong one.
        lost = np.flatnonzero(off[good] > FOUND_CELLS)
        wide, others = self._around(self.tree.data[near[lost]])
        close = away[lost] <= 2 * wide[:, -1]
        lost, others = lost[close], others[close]
        for k in range(1, wide.shape[1]):
            j, left = self._newton(at[lost], self._samples[others[:, k]])
            better = left < off[good[lost]]
            i[good[lost[better]]], off[good[lost[better]]] = j[better], left[better]
            still = off[good[lost]] > FOUND_CELLS
            lost, others = lost[still], others[still]
        return i, off <= FOUND_CELLS

    def _around(self, at: Floats, eps: float = 0.0) -> tuple[Floats, Integers]:
        """Distances (n, k) and numbers of the samples nearest to vectors."""
        most = min(OTHER_STARTS + 1, self.tree.n)
        away, near = self.tree.query(at, k=np.arange(1, most + 1), eps=eps)
        return away, near

    def _as_vectors(self, given: Floats) -> Floats:
        """Unit vectors (..., 3) of places on the sphere; y and x of a map themselves."""
        return given if self.radius is None else unit_vectors(given[..., 0], given[..., 1])

    def _newton(self, at: Floats, start: Floats) -> tuple[Floats, Floats]:
        """Numbers of samples (n, 2) at vectors (n, C), from a start; and the last steps (n,)."""
        i, off = start.copy(), np.full(len(at), np.inf)
        domain, todo = self.places.domain, np.flatnonzero(np.isfinite(start[:, 0]))
        for _ in range(MOST_STEPS if len(todo) else 0):
            x = i[todo]
            P, Jy, Jx = self._partials(x)
            lacks = [v - p for v, p in zip(at[todo].T, P)]
            pairs = (Jy, Jy), (Jy, Jx), (Jx, Jx), (Jy, lacks), (Jx, lacks)
            a, b, c, y, x_ = (sum(u * v for u, v in zip(*both)) for both in pairs)
            by = 1 / (a * c - b * b + 1e-300)
            step = (c * y - b * x_) * by, (a * x_ - b * y) * by
            for k, own in enumerate(step):
                i[todo, k], _ = domain.settle(k, x[:, k] + np.clip(own, -2, 2), "nearest")
            off[todo] = np.maximum(*map(np.abs, step))
            todo = todo[off[todo] > FOUND_CELLS]
            if not len(todo):
                break
        return i, off

    def _partials(self, x: Floats) -> Any:
        """Vectors and their slopes along rows and columns, each by component."""
        orders: list[tuple[int, ...]] = [(0, 0), (1, 0), (0, 1)]
        if (table := vars(self).get("_table")) is not None:
            return zip(*table.by_channel(x, orders))
        model = self.places.model
        P, *J = model.partials(x, orders)
        return model.finish(P, True).T, *((v * np.asarray(model.scale)).T for v in J)

    @cached_property
    def _samples(self) -> Floats:
        """Numbers (n, 2) of the samples that the tree holds."""
        return np.argwhere(np.isfinite(self.given).all(axis=-1)).astype(np.float64)

    @cached_property
    def _table(self) -> Polynomials | None:
        """The places at lookup speed, where that fits in memory."""
        try:
            own = self.places.tabulate(TABLE_TOLERANCE, 0).polynomials
        except MemoryError:
            return None
        offset, scale = (np.asarray(v) for v in (self.places.model.offset, self.places.model.scale))
        c = own.coefficients * scale[:, None, None]
        c[:, 0] += offset[:, None]
        return replace(own, coefficients=c)

    @cached_property
    def _starts(self) -> Polynomials | None:
        """Numbers of samples as cubic polynomials of the coordinates: where Newton's steps begin.

        For many points; NaN off the mesh, and where samples next to each other are rows apart. None
        where no table fits in memory.
        """
        if self._table is None:
            return None
        flat = self.given[np.isfinite(self.given).all(axis=-1)]
        low, size = flat.min(axis=0), np.ptp(flat, axis=0)
        wide = size.copy()
        if self.radius is not None:
            low[1], gap = widest_gap(flat[:, 1])
            size[1] = 360 - gap
            wide[:] = size[0], size[1] * cosine(flat[:, 0].mean())
        counts = np.ceil(wide * np.sqrt(STARTS_PER_SAMPLE * len(flat) / wide.prod())).astype(int)
        step = size / counts
        nodes = np.moveaxis(np.indices(counts + 3), 0, -1).reshape(-1, 2) - 1.0
        at = self._as_vectors(low + nodes * step)
        own = self._samples[self._around(at, 1.0)[1]]
        i, off = self._newton(at, own[:, 0])
        far = np.abs(own - own[:, :1]).max(axis=2).argmax(axis=1)
        other, _ = self._newton(at, own[np.arange(len(at)), far])
        i[(off > FOUND_CELLS) | (np.abs(i - other) > START_CELLS).any(axis=1)] = np.nan
        grid = i.reshape(*counts + 3, 2)
        windows = np.lib.stride_tricks.sliding_window_view(grid, (4, 4), (0, 1)).reshape(-1, 2, 16)
        t = np.arange(-3, 5, 2)  # nodes of a window; its cell, in the middle, is from -1 to 1
        V = np.stack([np.outer(t**p, t**q).ravel() for p, q in exponents(2, 3)], axis=-1)
        c = windows @ np.linalg.pinv(V).T
        c[~(np.abs(c @ V.T - windows).max(axis=(1, 2)) < START_CELLS)] = np.nan
        return Polynomials(
            low=tuple(low), per_unit=tuple(1 / step), counts=tuple(counts.tolist()), degree=3,
            coefficients=np.ascontiguousarray(c.transpose(1, 2, 0)),
        )  # fmt: skip


@dataclass(frozen=True, eq=False)
class Fold:
    """How a mesh goes on beyond its last row: with rows that it has, in another order of columns.

    Parameters
    ----------
    first : int
        The row that comes after the last one; those before it follow.
    columns : integer array, shape (m,)
        Where each column goes on.
    """

    first: int
    columns: Integers

    def beyond(self, values: Array, rows: int, columns: int) -> Array:
        """Values with some more rows at the end, on axes of rows and columns."""
        after = np.arange(self.first, max(self.first - FOLD_ROWS, -1), -1)
        more = np.take(np.take(values, after, axis=rows), self.columns, axis=columns)
        return np.concatenate([values, more], axis=rows)

    def crop(self, of: Field, n: int) -> Field:
        """A field of such values without the further rows of its last axes but one."""
        high = (*of.domain.high[:-2], n - 0.5, of.domain.high[-1])
        return Field(replace(of.model, domain=replace(of.domain, high=high)))


def fold_of(latitude: Floats, longitude: Floats) -> Fold | None:
    """How a mesh around the Earth goes on in the north; None where that is not known.

    NEMO's meshes are folded there between two poles, at a row or half a cell beyond the last one;
    others end at the pole, and go on half a turn further.
    """
    p = unit_vectors(latitude, longitude)
    n, m, _ = p.shape
    ahead = p[-1] - p[-2]
    wide, i = np.linalg.norm(ahead, axis=-1), np.arange(m)
    ways = [(c - i) % m for c in range(m - 3, m + 4)] + [(i + m // 2) % m] * (m % 2 == 0)
    found = list[tuple[float, Fold]]()
    for columns in ways if n > 4 and np.isfinite(p[-3:]).all() else ():
        for first in (n - 1, n - 2):
            step = p[first, columns] - p[-1]
            far = np.linalg.norm(step, axis=-1)
            straight = (step * ahead).sum(axis=-1) / np.maximum(far * wide, 1e-300)
            if np.median(far / wide) < 2:
                found.append((float(np.median(straight)), Fold(first, columns)))
    best = max(found, key=lambda f: f[0], default=None)
    return best[1] if best is not None and best[0] > FOLD_COSINE else None
