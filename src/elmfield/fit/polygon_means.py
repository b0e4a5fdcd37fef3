"""Means of a field over polygons: cells of projected, curvilinear and unstructured grids.

The integral over a polygon is one along its border, ``∬ f dλ dφ = ∮ ∂S/∂φ dφ``, with S the integral
of f from one corner of the domain on. S is fitted to its values at the borders of the samples'
cells, which the field's own means tell exactly. Two cells count a border that they share once each
way: whatever the cells, their sum is the integral over all of them.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache

import numpy as np

from elmfield._array.backend import to_numpy
from elmfield._array.checks import numbers, positive
from elmfield._array.running import runs
from elmfield._array.typing import Array, Floats
from elmfield.domain import Axis, Domain, Spacing
from elmfield.domain.sphere import cosine
from elmfield.field import Field
from elmfield.field.blend.means import averaged, over
from elmfield.field.coordinates.output_positions import shows_gaps
from elmfield.field.coordinates.parse import own_samples
from elmfield.fit.encoder import Encoder
from elmfield.settings import Smooth

NODES = 6
"""Of Gauss-Legendre on each piece of a border, which is as long as a sample's cell at most."""

WHOLE_SLACK = 1e-6
"""Cells that are covered but for so much are whole: S rounds, and areas are known."""

MOST_PIECES = 64
"""Pieces that an edge is cut into at most."""

BATCH_POINTS = 1 << 18
"""Places on borders that are looked at together."""


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
    total : Field
        S of each, and then of what samples cover.
    """

    source: Field
    plane: tuple[int, int]
    n_values: int
    total: Field = field(repr=False)

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
        positive("min_coverage", min_coverage + 1e-300)
        sums, area = self._sums(polygons)
        values, inside = sums[..., : self.n_values], sums[..., self.n_values :]
        with np.errstate(invalid="ignore", divide="ignore"):
            covered = np.clip(inside / area[..., None], 0, 1)
            whole = np.where(covered > 1 - WHOLE_SLACK, area[..., None], inside)
            means = np.where(covered >= min_coverage - 1e-9, values / whole, np.nan)
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
            raise ValueError(
                "`polygons` must have at least three corners of two coordinates each, shape "
                f"(..., v, 2); got {given.shape}."
            )
        lead = given.shape[:-2]
        corners = self._closed(given.reshape(-1, *given.shape[-2:]))
        pieces, leaves = self._pieces(corners), self._leaves(corners)
        sums, area = np.empty((len(corners), self.total.model.n_channels)), np.empty(len(corners))
        for own in (np.flatnonzero(~leaves), np.flatnonzero(leaves)):
            some = self._cut(corners[own]) if leaves[own].any() else corners[own]
            each = max(1, BATCH_POINTS // (some.shape[1] * pieces * NODES))
            for i, j in runs(len(own), each):
                sums[own[i:j]], area[own[i:j]] = self._integrals(some[i:j], pieces)
        return sums.reshape(*lead, -1), area.reshape(lead)

    # --- borders -------------------------------------------------------------------------------

    @property
    def _turn(self) -> float | None:
        return self.source.domain.axes[self.plane[1]].period

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

    @cached_property
    def _ends(self) -> tuple[Floats, Floats]:
        """The lower and the upper corner of the domain of S, (2,) each."""
        ends = [a.from_index(np.asarray([0.0, a.size - 1.0])) for a in self.total.domain.axes]
        return np.min(ends, axis=1), np.max(ends, axis=1)

    def _leaves(self, corners: Floats) -> Array:
        """Which polygons reach beyond the domain, (n,), or lie in another turn."""
        low, high = self._ends
        return ((corners < low) | (corners > high)).any(axis=(1, 2))

    def _cut(self, corners: Floats) -> Floats:
        """Polygons with further corners where they cross borders: what is integrated jumps there.

        S counts from one end of the domain: without them, a small error of a place were a large one
        of the mean.
        """
        a, step = corners[:, :-1, None], np.diff(corners, axis=1)[:, :, None]  # (n, v, 1, 2)
        ends = np.stack(self._ends)[:, None] + np.zeros((2, len(corners), 2))
        if self._turn is not None:  # those of the nearest turn
            off = corners[..., 1].mean(axis=1) - ends[..., 1]
            ends[..., 1] += np.round(off / self._turn) * self._turn
        with np.errstate(invalid="ignore", divide="ignore"):
            t = np.stack([(end[:, None, None] - a) / step for end in ends], axis=-1)
        t = np.nan_to_num(t.reshape(*step.shape[:2], -1), nan=0.0).clip(0, 1)
        t = np.sort(np.concatenate([np.zeros_like(t[..., :1]), t], axis=-1), axis=-1)
        more = (a + step * t[..., None]).reshape(len(corners), -1, 2)
        return np.concatenate([more, corners[:, -1:]], axis=1)

    def _pieces(self, corners: Floats) -> int:
        """Pieces of an edge: none longer than a sample's cell, or as many as there may be."""
        longest = 1.0
        for j, k in enumerate(self.plane):
            step = abs(self.source.domain.axes[k].step)
            longest = max(longest, float(np.abs(np.diff(corners[..., j], axis=1)).max()) / step)
        return min(MOST_PIECES, math.ceil(longest))

    def _integrals(self, corners: Floats, pieces: int) -> tuple[Floats, Floats]:
        """Integrals (n, C) of S's channels over polygons, and areas (n,), both of one sign.

        Along an edge ``∫ ∂S/∂φ dφ`` is also what S rises by less ``∫ ∂S/∂λ dλ``: the one that has
        less to integrate is taken, and along an axis neither is left. Beyond the domain S does not
        change any more; its gradient there is left out.
        """
        t, w = _nodes(pieces)
        a, b = corners[:, :-1, None], corners[:, 1:, None]
        at, run = a + (b - a) * t[:, None], (b - a) * w[:, None]  # (n, v, nodes, 2)
        is_map = self.source.labels.horizontal(self.source.domain.dims) is None
        scale = np.ones(()) if is_map else cosine(at[..., 0])
        area = (at[..., 1] * run[..., 0] * scale).sum(axis=(1, 2))
        steps = [abs(self.source.domain.axes[k].step) for k in self.plane]
        size = np.abs((b - a)[:, :, 0] / steps)  # (n, v, 2)
        steep = size[..., 0] > size[..., 1]
        place, turns, inside = self._inside(at)
        run = run * inside
        S = self._function(place, turns, "gradient")  # (n, v, nodes, C, 2)
        along = np.where(
            steep[..., None, None], -S[..., 1] * run[..., 1:], S[..., 0] * run[..., :1]
        )
        ends, turns, _ = self._inside(corners)
        rise = np.diff(self._function(ends, turns, "value"), axis=1)
        return along.sum(axis=(1, 2)) + (rise * steep[..., None]).sum(axis=1), area

    def _inside(self, at: Floats) -> tuple[Floats, Floats, Array]:
        """Places moved into the domain of S, whole turns that they lay off, and what was inside."""
        low, high = self._ends
        turns: Floats = np.zeros(at.shape[:-1])
        if self._turn is not None:
            turns = np.asarray(np.floor((at[..., 1] - low[1]) / self._turn))
            at = at - np.stack([0 * turns, turns * self._turn], axis=-1)
        return np.clip(at, low, high), turns, (at >= low) & (at <= high)

    def _function(self, place: Floats, turns: Floats, quantity: str) -> Floats:
        """S, or its gradient, at places so many turns further: (..., C) or (..., C, 2)."""
        ask = self.total if quantity == "value" else self.total.gradient
        found = np.asarray(ask(place, outside="nearest"))
        if np.any(turns):
            end = place.copy()
            end[..., 1] = self._ends[1][1]
            more = np.asarray(ask(end, outside="nearest"))
            if quantity != "value":
                more[..., 1] = 0
            found = found + turns.reshape(*turns.shape, *(1,) * (more.ndim - turns.ndim)) * more
        return found


@lru_cache(maxsize=32)
def _nodes(pieces: int) -> tuple[Floats, Floats]:
    """Nodes and weights between 0 and 1 of Gauss-Legendre on so many equal pieces."""
    x, w = np.polynomial.legendre.leggauss(NODES)
    t = (np.arange(pieces)[:, None] + (x + 1) / 2) / pieces
    return t.reshape(-1), np.tile(w / (2 * pieces), pieces)


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
    axes = [Axis.through(name, e) for name, e in zip("yx", edges)]
    made = spline_encoder(total.shape, axes)(total)
    return PolygonMeans(source=of, plane=plane, n_values=values.shape[-1], total=made)


def spline_encoder(shape: tuple[int, ...], axes: Sequence[Axis], order: float = 3.0) -> Encoder:
    """An Encoder whose fields are splines along all axes, even ones too; channels last.

    They are exact for polynomials, quintic ones at order 3.
    """
    even = [Spacing(np.arange(a.size, dtype=float), a.period and float(a.size)) for a in axes]
    axes = [replace(a, spacing=a.spacing or s) for a, s in zip(axes, even)]
    return Encoder(
        shape=shape, settings=Smooth(order=order), channel_axis=2, domain=Domain.of(axes)
    )


def _cells(
    of: Field, plane: tuple[int, int], missing: str | None, *, is_sphere: bool
) -> tuple[Floats, Floats, Sequence[Floats]]:
    """Means over the samples' cells (n_y, n_x, C), what is covered of each, and their edges.

    C counts the samples of other axes, and channels.
    """
    gaps, edges, borders = shows_gaps(of.model, missing), list[Floats | None](), []
    own = own_samples(of.domain)
    for k, axis in enumerate(of.domain.axes):
        if k not in plane:
            edges.append(None)
            continue
        e = np.clip(np.append(own[k], own[k][-1] + 1) - 0.5, of.domain.low[k], of.domain.high[k])
        c = axis.from_index(e)
        if is_sphere and k == plane[0]:
            c = np.clip(c, -90, 90)
            e = axis.along(c)
        edges.append(e)
        borders.append(c)
    weights = {plane[0]: cosine} if is_sphere else {}
    x = [o.astype(float) for o in own]
    found, covered = averaged(of.model, over(of.model, edges, x, split=gaps, weights=weights), gaps)
    values = np.moveaxis(np.asarray(to_numpy(found), np.float64), plane, (0, 1))
    share = np.ones(values.shape) if covered is None else np.moveaxis(covered, plane, (0, 1))
    share = np.broadcast_to(share, values.shape)
    flat = [v.reshape(*v.shape[:2], -1) for v in (values, share)]
    borders = borders if plane[0] < plane[1] else borders[::-1]
    for j, c in enumerate(borders):  # ascending, as integrals go
        if c[0] > c[-1]:
            flat = [np.flip(v, axis=j) for v in flat]
            borders[j] = c[::-1]
    return flat[0], flat[1], borders
