"""Means of a field over polygons: cells of projected, curvilinear and unstructured grids.

The integral over a polygon is one along its border, ``∬ f dλ dφ = ∮ ∂S/∂φ dφ``, with S the integral
of f from one corner of the domain on: a spline through its values at the borders of the samples'
cells, which the field's own means tell exactly. Two cells count a border that they share once each
way: whatever the cells, their sum is the integral over all of them. An integral is a sum of the
spline's coefficients; its weights depend on grid and polygons alone, and are kept for the next
field.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from elmfield._array.backend import to_numpy
from elmfield._array.cache import Recent
from elmfield._array.checks import numbers, share, wrong
from elmfield._array.running import runs
from elmfield._array.typing import Array, Floats, Integers
from elmfield.domain.sphere import cosine
from elmfield.field import Field
from elmfield.field.blend.means import means_over
from elmfield.field.coordinates.output_positions import shows_gaps
from elmfield.field.coordinates.parse import own_samples
from elmfield.local.bases.spline_modes import spline

DEGREES, MOST_GROWTH = (5, 3, 1), 64.0
"""Of the spline that S is, the first that grows no more than so many times between its values."""

NODES = ((0.25, 3), (0.5, 4), (np.inf, 6))
"""Of Gauss-Legendre on a piece of a border of up to so many cells of samples; none is longer than
one.

Six are exact for polynomials that the spline is exact for; what fewer leave out of a shorter piece
is below 1e-9 of the range of the samples."""

WHOLE_SLACK = 1e-6
"""Cells that are covered but for so much are whole: S rounds, and areas are known."""

BATCH_PLACES, KEPT_ENTRIES = 1 << 16, 1 << 24
"""Places on borders that are looked at together, and weights that are kept: 200 MB."""

_kept = Recent[Any, tuple[Any, Floats]]()


@dataclass(frozen=True, eq=False, kw_only=True)
class PolygonMeans:
    """Means of a field, and of others on its grid, over the polygons that a caller gives.

    Parameters
    ----------
    source : Field
        The field.
    plane : pair of int
        Its two axes, y and x, or latitude and longitude.
    n_values : int
        Numbers at a place: samples of other axes, and channels.
    is_map : bool
        Whether the two are no latitude and longitude.
    splines : pair
        On each of the two axes, one of S at the borders of the samples' cells, which ascend.
    coefficients : array, shape (n_y, n_x, C)
        Of S of each, and then of what samples cover.
    """

    source: Field
    plane: tuple[int, int]
    n_values: int
    is_map: bool
    splines: tuple[Any, Any] = field(repr=False)
    coefficients: Floats = field(repr=False)

    def __call__(self, polygons: Array, *, min_coverage: float = 0.5) -> tuple[Array, Floats]:
        """Means over polygons, and what part of each the samples cover.

        Parameters
        ----------
        polygons : array, shape (..., v, 2)
            Corners of each, in order around it, on the two axes; of polygons with fewer corners the
            last is repeated. Longitudes may lie in any turn; a polygon may hold a pole.
        min_coverage : float
            Means of polygons that are covered by less are NaN.

        Returns
        -------
        means : array, shape (..., *others, C)
            `others` are samples of the field's other axes; C where it has channels.
        covered : array, shape (...)
            Between 0 and 1.
        """
        share("min_coverage", min_coverage)
        sums, area = self._sums(polygons)
        values, inside = sums[..., : self.n_values], sums[..., self.n_values :]
        means, covered = covered_means(values, inside, area[..., None], min_coverage)
        return self._shaped(means), covered.max(axis=-1)

    def integral(self, polygons: Array) -> Array:
        """Integrals over the part of polygons that samples cover, shaped as the means are.

        Values times the units of the two axes; of latitude and longitude square degrees by area.
        """
        sums, area = self._sums(polygons)
        return self._shaped(sums[..., : self.n_values] * np.sign(area)[..., None])

    def _shaped(self, found: Floats) -> Floats:
        """Numbers (..., n_values) with an axis for each of the field's other axes, and channels."""
        every = enumerate(own_samples(self.source.domain))
        others = [len(o) for k, o in every if k not in self.plane]
        channels = [] if self.source.model.channel_axis is None else [self.source.model.n_channels]
        return found.reshape((*found.shape[:-1], *others, *channels))

    def _sums(self, polygons: Array) -> tuple[Floats, Floats]:
        """Integrals (..., C) of S's channels, and areas (...); of one sign."""
        given = numbers("polygons", polygons)
        if given.ndim < 2 or given.shape[-1] != 2 or given.shape[-2] < 3:
            must = "have at least three corners of two coordinates each, shape (..., v, 2)"
            raise wrong("polygons", must, given.shape)
        lead, flat = given.shape[:-2], self.coefficients.reshape(-1, self.coefficients.shape[-1])
        corners = given.reshape(-1, *given.shape[-2:])
        sums, area = np.empty((len(corners), flat.shape[1])), np.empty(len(corners))
        around = np.abs(np.diff(corners, axis=1)).sum(axis=1).mean(axis=0) if len(corners) else 0.0
        places = NODES[-1][1] * (corners.shape[1] + float((around / self._steps).sum()))
        about = self._turn, self.is_map, *(m.t.tobytes() for m in self.splines)
        for i, j in runs(len(corners), max(1, int(BATCH_PLACES // places))):
            weights, area[i:j] = _kept.made_of(
                corners[i:j], about, self._weights, KEPT_ENTRIES, lambda kept: int(kept[0].nnz)
            )
            sums[i:j] = weights @ flat
        return sums.reshape(*lead, -1), area.reshape(lead)

    # --- borders -------------------------------------------------------------------------------

    @property
    def _turn(self) -> float | None:
        return self.source.domain.axes[self.plane[1]].period

    @property
    def _steps(self) -> Floats:
        """Of the samples, on the two axes."""
        return np.abs([self.source.domain.axes[k].step for k in self.plane])

    @property
    def _ends(self) -> Floats:
        """The lower and the upper corner of the domain of S, (2, 2)."""
        return np.stack([m.t[[0, -1]] for m in self.splines], axis=1)

    def _closed(self, corners: Floats) -> Floats:
        """Corners (n, v + 3, 2) that come back to the first; over a pole where they lie around it.

        Longitudes run on without jumps.
        """
        turn = self._turn
        closed = np.concatenate([corners, corners[:, :1]], axis=1)
        if turn is not None:
            steps = np.diff(closed[..., 1], axis=1)
            steps -= np.round(steps / turn) * turn
            closed[:, 1:, 1] = closed[:, :1, 1] + np.cumsum(steps, axis=1)
        over_pole = closed[:, -1:].copy(), closed[:, :1].copy()
        around = np.abs(closed[:, -1, 1] - closed[:, 0, 1]) > 1e-6
        if not around.any():
            return closed
        pole = np.where(closed[:, :, 0].mean(axis=1) > 0, 90.0, -90.0)
        for leg in over_pole:
            leg[around, 0, 0] = pole[around]
        return np.concatenate([closed, *over_pole, closed[:, :1]], axis=1)

    def _edges(self, closed: Floats) -> tuple[Integers, Floats, Floats]:
        """Which polygon each edge is of, and its two ends, (m, 2); cut where it crosses borders.

        What is integrated jumps at the borders of the domain: S does not change any more there, but
        it counts from one end, so that a small error of a place were a large one of the mean.
        """
        a, step = closed[:, :-1, None], np.diff(closed, axis=1)[:, :, None]  # (n, v, 1, 2)
        low, high = self._ends
        cuts = np.zeros((*step.shape[:2], 1))
        if ((closed < low) | (closed > high)).any():
            ends = self._ends[:, None] + np.zeros((2, len(closed), 2))
            if self._turn is not None:  # those of the nearest turn
                off = closed[..., 1].mean(axis=1) - ends[..., 1]
                ends[..., 1] += np.round(off / self._turn) * self._turn
            with np.errstate(invalid="ignore", divide="ignore"):
                t = np.stack([(end[:, None, None] - a) / step for end in ends], axis=-1)
            t = np.nan_to_num(t.reshape(*step.shape[:2], -1), nan=0.0).clip(0, 1)
            cuts = np.sort(np.concatenate([cuts, t], axis=-1), axis=-1)
        more = np.concatenate([cuts, np.ones_like(cuts[..., :1])], axis=-1)
        ends = a + step * more[..., None]
        first, last = ends[:, :, :-1], ends[:, :, 1:]
        is_edge = (first != last).any(axis=-1)
        return np.nonzero(is_edge)[0], first[is_edge], last[is_edge]

    def _weights(self, corners: Floats) -> tuple[Any, Floats]:
        """Integrals of polygons as sums of coefficients, sparse (n, n_y n_x); and areas (n,).

        Along an edge ``∫ ∂S/∂φ dφ`` is also what S rises by less ``∫ ∂S/∂λ dλ``: the one that has
        less to integrate is taken, and along an axis neither is left. Beyond the domain S does not
        change any more; its derivative there is left out.
        """
        owner, a, b = self._edges(self._closed(corners))
        wide = np.abs(b - a) / self._steps
        steep = wide[:, 0] > wide[:, 1]
        n = np.maximum(np.ceil(wide.max(axis=1)), 1).astype(np.int64)  # pieces of each edge
        edge = np.repeat(np.arange(len(n)), n)
        start = (np.arange(len(edge)) - np.repeat(np.cumsum(n) - n, n)) / n[edge]
        size = wide.max(axis=1)[edge] / n[edge]
        n_polygons, area = len(corners), np.zeros(len(corners))
        rises = np.flatnonzero(steep)
        weights = self._rows(b[rises], np.ones(len(rises)), owner[rises], n_polygons)
        weights -= self._rows(a[rises], np.ones(len(rises)), owner[rises], n_polygons)
        shortest = -1.0
        for longest, nodes in NODES:
            t, w = np.polynomial.legendre.leggauss(nodes)
            own = np.flatnonzero((size > shortest) & (size <= longest))
            e, shortest = edge[own, None], longest
            at = a[e] + (b - a)[e] * (start[own, None] + (t + 1) / 2 / n[e])[..., None]
            run = (b - a)[e] * (w / 2 / n[e])[..., None]  # (pieces, nodes, 2)
            scale = np.ones(()) if self.is_map else cosine(at[..., 0])
            area += np.bincount(owner[e[:, 0]], (at[..., 1] * run[..., 0] * scale).sum(axis=1),
                                minlength=n_polygons)  # fmt: skip
            for k, sign, some in ((0, 1, ~steep), (1, -1, steep)):
                place, by = at[some[e[:, 0]]], sign * run[some[e[:, 0]]][..., k]
                of = np.repeat(owner[e[some[e[:, 0]], 0]], nodes)
                weights += self._rows(place.reshape(-1, 2), by.reshape(-1), of, n_polygons, k)
        return weights, area

    def _rows(
        self, at: Floats, by: Floats, owner: Integers, n: int, along: int | None = None
    ) -> Any:
        """Sums (n, n_y n_x) of S, or of its derivative along an axis, at places, so many times."""
        from scipy.sparse import csr_array  # 0.1 s, for these alone

        low, high = self._ends
        size = self.coefficients.shape[0] * self.coefficients.shape[1]
        if not len(at):
            return csr_array((n, size))
        if self._turn is not None:  # each turn adds what S is at its end
            turns = np.floor((at[:, 1] - low[1]) / self._turn)
            at = at - np.stack([0 * turns, turns * self._turn], axis=-1)
            if along != 1 and (off := np.flatnonzero(turns)).size:
                end = np.stack([at[off, 0], np.full(len(off), high[1])], axis=-1)
                at, owner = np.concatenate([at, end]), np.concatenate([owner, owner[off]])
                by = np.concatenate([by, by[off] * turns[off]])
        if along is not None:
            by = by * ((at >= low) & (at <= high))[:, along]
        each = enumerate(zip(self.splines, np.clip(at, low, high).T))
        (iy, wy), (ix, wx) = (_basis(m, c, along == k) for k, (m, c) in each)
        columns = iy[:, :, None] * self.coefficients.shape[1] + ix[:, None]
        data = (by[:, None] * wy)[:, :, None] * wx[:, None]
        ends = np.arange(len(at) + 1) * (wy.shape[1] * wx.shape[1])
        each = csr_array((data.reshape(-1), columns.reshape(-1), ends), shape=(len(at), size))
        count = np.arange(len(at))
        return csr_array((np.ones(len(at)), (owner, count)), shape=(n, len(at))) @ each


def covered_means(
    sums: Floats, inside: Floats, area: Floats, min_coverage: float
) -> tuple[Floats, Floats]:
    """Means of cells from integrals over what is covered of them, NaN where that is too little.

    And what part of each area is `inside`.
    """
    with np.errstate(invalid="ignore", divide="ignore"):
        covered = np.clip(inside / area, 0, 1)
        whole = np.where(covered > 1 - WHOLE_SLACK, area, inside)
        return np.where(covered >= min_coverage - 1e-9, sums / whole, np.nan), covered


def _basis(made: Any, x: Floats, is_slope: bool) -> tuple[Integers, Floats]:
    """Numbers and values (n, k + 1) of the functions of a spline at places, or their slopes."""
    from scipy.interpolate import BSpline  # 0.1 s, for these alone

    t, k = made.t, made.k
    rows = BSpline.design_matrix(x, t[1:-1] if is_slope else t, k - is_slope)
    i, values = (a.reshape(len(x), -1) for a in (rows.indices, rows.data))
    if not is_slope:
        return i, values
    q = k * values / (t[i + k + 1] - t[i + 1])
    slopes = np.pad(q, ((0, 0), (1, 0))) - np.pad(q, ((0, 0), (0, 1)))
    return i[:, :1] + np.arange(k + 1), slopes


def _spline(edges: Floats, values: Floats) -> Any:
    """The spline through values (n, ...) at edges, of the highest degree that they suit."""
    sides, each = np.diff(edges), np.eye(len(edges))
    is_even = np.ptp(sides) < 1e-6 * sides.mean()
    for degree in DEGREES:
        middle = np.abs(spline(edges, each, degree)(edges[1:] - sides / 2)) if not is_even else each
        if middle.sum(axis=1).max() <= MOST_GROWTH:
            break
    return spline(edges, values, degree)


def polygon_means(of: Field, *, missing: str | None = None) -> PolygonMeans:
    """Means of a field over polygons on two of its axes; see :class:`PolygonMeans`.

    Latitude and longitude if it has these, counted by area; else its y and x, or its last two axes.
    What is made serves as many polygons as are asked, and is also for integrals over them.

    Examples
    --------
    >>> import numpy as np, elmfield as ef
    >>> y, x = np.indices((20, 30))
    >>> triangle = [[2.0, 3.0], [14.0, 3.0], [2.0, 15.0]]
    >>> over = ef.polygon_means(ef.fit(x + 2.0 * y))
    >>> mean, covered = over(triangle)
    >>> round(float(mean), 9), round(float(covered), 9), round(float(over.integral(triangle)), 9)
    (19.0, 1.0, 1368.0)
    """
    of, dims = Field(of.model.shares), of.domain.dims
    if len(dims) < 2 or of.model.is_complex:
        raise ValueError(f"means over polygons are of real fields of two axes; got {list(dims)}.")
    pair = of.labels.horizontal(dims)
    plane = pair if pair is not None else (len(dims) - 2, len(dims) - 1)
    if pair is None and {"y", "x"} <= set(dims):
        plane = dims.index("y"), dims.index("x")
    values, share, edges = _cells(of, plane, missing, is_sphere=pair is not None)
    sides = [np.diff(e) for e in edges]
    if pair is not None:
        sides[0] = np.rad2deg(np.diff(np.sin(np.deg2rad(edges[0]))))
    area = np.multiply.outer(*sides)[..., None]
    share = share[..., :1] if (share == share[..., :1]).all() else share
    whole = np.concatenate([np.nan_to_num(values) * share * area, share * area], axis=-1)
    total = np.zeros((whole.shape[0] + 1, whole.shape[1] + 1, whole.shape[2]))
    total[1:, 1:] = whole.cumsum(axis=0).cumsum(axis=1)
    first = _spline(edges[0], total)
    second = _spline(edges[1], np.moveaxis(first.c, 1, 0))
    return PolygonMeans(
        source=of, plane=plane, n_values=values.shape[-1], is_map=pair is None,
        splines=(first, second), coefficients=np.moveaxis(second.c, 0, 1),
    )  # fmt: skip


def _cells(
    of: Field, plane: tuple[int, int], missing: str | None, *, is_sphere: bool
) -> tuple[Floats, Floats, Sequence[Floats]]:
    """Means over the samples' cells (n_y, n_x, C), what is covered of each, and their edges.

    C counts the samples of other axes, and channels.
    """
    gaps, own, borders = shows_gaps(of.model, missing), own_samples(of.domain), []
    edges: list[Floats | None] = [None] * len(own)
    for k in plane:
        axis, i = of.domain.axes[k], np.append(own[k], own[k][-1] + 1) - 0.5
        edges[k] = i = np.clip(i, of.domain.low[k], of.domain.high[k])
        c = axis.from_index(i)
        if is_sphere and k == plane[0]:
            c = np.clip(c, -90, 90)
            edges[k] = axis.along(c)
        borders.append(c)
    weights = {plane[0]: cosine} if is_sphere else {}
    found, part = means_over(of.model, edges, [o.astype(float) for o in own], gaps, weights)
    values = np.moveaxis(np.asarray(to_numpy(found), np.float64), plane, (0, 1))
    share = 1.0 if part is None else np.moveaxis(part, plane, (0, 1))
    flat = [v.reshape(*v.shape[:2], -1) for v in (values, np.broadcast_to(share, values.shape))]
    for j, c in enumerate(borders):  # ascending, as integrals go
        if c[0] > c[-1]:
            flat = [np.flip(v, axis=j) for v in flat]
            borders[j] = c[::-1]
    return flat[0], flat[1], borders
