"""Fields on curvilinear grids.

The coordinates of the samples are a field too, fitted as the values are. A place is found by a
start at the nearest sample and Newton's steps in the numbers of samples.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from dataclasses import field as field_of
from functools import cached_property, partial
from typing import Any

import numpy as np

from elmfield._array.backend import to_numpy
from elmfield._array.cache import Recent
from elmfield._array.checks import by_name, numbers
from elmfield._array.running import runs, spread
from elmfield._array.typing import Array, Bools, Floats, Integers
from elmfield.domain import Axis, Domain
from elmfield.domain.sphere import EARTH, cosine, polygon_areas, unit_vectors, widest_gap
from elmfield.field import Field
from elmfield.field.adapters.labelled_arrays import coordinates_like, evaluate_at_labels
from elmfield.field.coordinates.labels import AxisLabels, multiply_units
from elmfield.field.coordinates.parse import own_samples
from elmfield.field.field import Coords
from elmfield.field.point_values import Missing, query
from elmfield.field.tables.polynomials import Polynomials, exponents
from elmfield.fit.encoder import encoder
from elmfield.fit.polygon_means import PolygonMeans, polygon_means, spline_encoder

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

FLAT_SINE, MOST_FLAT = 1e-9, 0.5
"""Sine of the angle between rows and columns below which a cell has no area, and what part of the
cells may have none: some meshes repeat rows."""

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
        """The same, between the samples too; channels last."""
        y, fold = self._vectors, self.fold
        whole = y if fold is None else fold.beyond(y, 0, 1)
        made = spline_encoder(whole.shape, self.axes, order=4.0)(whole, missing="nan")
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
            if len(lost):
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
        n, wraps = self.places.shape, self.places.domain.periodic
        todo: Any = np.flatnonzero(np.isfinite(start[:, 0]))
        for _ in range(MOST_STEPS if len(todo) else 0):
            x = i[todo]
            P, Jy, Jx = self._partials(x)
            lacks = [v - p for v, p in zip(at[todo].T, P)]
            a, b, c, y, x_ = (
                sum(u * v for u, v in zip(*both))
                for both in ((Jy, Jy), (Jy, Jx), (Jx, Jx), (Jy, lacks), (Jx, lacks))
            )
            by = 1 / (a * c - b * b + 1e-300)
            step = (c * y - b * x_) * by, (a * x_ - b * y) * by
            for k, own in enumerate(step):
                moved = x[:, k] + np.clip(own, -2, 2)
                if wraps[k]:
                    moved = (moved + 0.5) % n[k] - 0.5
                else:
                    moved = np.clip(moved, self.places.domain.low[k], self.places.domain.high[k])
                i[todo, k] = moved
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
        P, *J = model.function_for(len(x)).partials(x, orders)
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
        windows = np.lib.stride_tricks.sliding_window_view(
            i.reshape(*counts + 3, 2), (4, 4), (0, 1)
        )
        windows = windows.reshape(-1, 2, 16)
        t = np.arange(-3, 5, 2)  # nodes of a window; its cell, in the middle, is from -1 to 1
        V = np.stack([np.outer(t**p, t**q).ravel() for p, q in exponents(2, 3)], axis=-1)
        c = windows @ np.linalg.pinv(V).T
        c[~(np.abs(c @ V.T - windows).max(axis=(1, 2)) < START_CELLS)] = np.nan
        return Polynomials(
            low=tuple(low), per_unit=tuple(1 / step), counts=tuple(counts.tolist()), degree=3,
            coefficients=np.ascontiguousarray(c.transpose(1, 2, 0)),
        )  # fmt: skip


_meshes = Recent[Any, Mesh]()


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


@dataclass(frozen=True, eq=False, repr=False)
class Curvilinear(Field):
    """A field whose samples lie at places of two coordinates each, on its last two axes.

    Points, polygons and `interp` go by these coordinates, with NaN off the mesh; a `gradient`,
    (..., 2) or (..., C, 2), is northward and eastward, per metre, or along y and x of a map.
    `samples`, `grid`, `resize`, `crop`, `integral`, `tabulate` and files are those of the field on
    numbers of samples.

    Parameters
    ----------
    mesh : Mesh
        Where the samples are.
    names : pair of str
        Of the two coordinates.
    corners : array, shape (n, m, v, 2), optional
        Of the cells that samples are means over, where they are known: what each counts in means.
    """

    mesh: Mesh
    names: tuple[str, str]
    corners: Floats | None = None

    def _query(self, quantity: str, points: Array, outside: str, missing: Missing) -> Array:
        index, places = self._indexed(points, outside)
        if quantity in ("value", "std", "std value"):
            return query(self.model, quantity, index, "nan", missing)
        if quantity not in ("gradient", "gradient_magnitude"):
            raise ValueError(f"a curvilinear grid has values and gradients; got {quantity!r}.")
        slopes = query(self.model, "gradient", index, "nan", missing)
        J = self.mesh.places.gradient(index[..., -2:], outside="nearest") * (
            self.mesh.radius or 1.0
        )
        if self.mesh.radius is not None:
            lat, lon = places[..., 0], places[..., 1]
            ways = unit_vectors(lat + 90, lon), unit_vectors(0 * lat, lon + 90)
            J = np.stack(ways, -2) @ J  # (..., 2, 2): metres north and east per sample
        if self.model.channel_axis is not None:
            J = J[..., None, :, :]
        slopes = np.asarray(to_numpy(slopes))[..., None, -2:]
        found = np.asarray((slopes @ np.linalg.inv(J))[..., 0, :])
        return found if quantity == "gradient" else np.linalg.norm(found, axis=-1)

    def interp(
        self, coords: Coords | None = None, method: str | None = None, assume_sorted: bool = False,
        kwargs: Mapping[str, Any] | None = None, *, quantity: str = "value", outside: str = "nan",
        bounds: str = "domain", missing: Missing = None, std: bool = False, chunks: Any = None,
        **coords_by_name: Any,
    ) -> Any:  # fmt: skip
        """As :meth:`Field.interp`, by the names of the two coordinates or by the field's dims."""
        given = set(getattr(coords, "coords", ()))
        names = self.names if set(self.names) <= given else self.domain.dims[-2:]
        coords = coordinates_like([*self.domain.dims[:-2], *names], coords)
        both = {**by_name("coords", coords), **coords_by_name}
        if not set(both) & set(self.names):
            found = Field(self.model).interp(
                both, method, assume_sorted, kwargs, quantity=quantity, outside=outside,
                bounds=bounds, missing=missing, std=std, chunks=chunks,
            )  # fmt: skip
            return found if both else self.with_places(found)
        if std or chunks is not None or method is not None or not set(self.names) <= set(both):
            raise ValueError(
                f"places on a curvilinear grid need both {' and '.join(self.names)}, without `std`,"
                " `method` and `chunks`; ask for quantity='std'."
            )
        ask = partial(self._query, quantity, outside=outside, missing=missing)
        return evaluate_at_labels(
            self.frame.model, both, quantity, ask, directions=self.names,
            units=lambda u: u and multiply_units((u, 1), ("m", -1)),
        )  # fmt: skip

    to_xarray = interp

    def with_places(self, found: Any) -> Any:
        """A DataArray or Dataset at the samples, with the places of these."""
        dims, at = list(self.domain.dims[-2:]), np.moveaxis(self.mesh.given, -1, 0)
        about = [dict(self.labels.axis(n).attrs) for n in self.names]
        both = {n: (dims, *rest) for n, *rest in zip(self.names, at, about)}
        return found.drop_vars(dims, errors="ignore").assign_coords(both)

    def __getitem__(self, key: str | int | slice) -> "Curvilinear":
        """The field of one variable of a Dataset, by name; or of some channels, by number."""
        return replace(self, model=self.model[key])

    @cached_property
    def frame(self) -> Field:
        """A field with even axes around the mesh, for those who ask for axes, not for values."""
        axes, about = list(self.domain.axes[:-2]), dict(self.labels.axes)
        for k, (name, n) in enumerate(zip(self.names, self.shape[-2:])):
            c = self.mesh.given[..., k][np.isfinite(self.mesh.given).all(axis=-1)]
            low, high, period = c.min(), c.max(), None
            if k == 1 and self.mesh.radius is not None:  # around the circle, but for the widest gap
                start, gap = widest_gap(c)
                low = start - 360 * (start > high)
                high, period = low + 360 - gap, 360.0 if gap < 720 / n else None
            last = low + 360 * (n - 1) / n if period else high
            axes.append(Axis.through(name, np.linspace(low, last, n), period))
            told = {"units": ("degrees_north", "degrees_east")[k]} if self.mesh.radius else {}
            about[name] = AxisLabels(attrs={**told, **self.labels.axis(name).attrs})
        kept = self.labels.coords_off(self.domain.dims[-2:])
        labels = replace(self.labels, axes=about, coords=kept, align="areas")
        return Field(replace(self.model, domain=Domain.of(axes), labels=labels))

    def locate(self, places: Array) -> tuple[Floats, Bools]:
        """Numbers of samples (..., 2) at places (..., 2), and which lie on the mesh."""
        return self.mesh.locate(places)

    def means(  # type: ignore[override]
        self, polygons: Array, *, missing: Missing = None, min_coverage: float = 0.5
    ) -> tuple[Array, Floats]:
        """Means over polygons (..., v, 2) by area, as :class:`PolygonMeans` has them.

        NaN where one does not lie on the mesh as a whole.
        """
        corners, on_mesh = self.locate(polygons)
        whole = np.asarray(on_mesh.all(axis=-1))
        parts = self._over_cells(missing)
        (means, covered), (size, _) = (
            part(np.nan_to_num(corners), min_coverage=min_coverage) for part in parts
        )
        more = (...,) + (None,) * (means.ndim - whole.ndim)
        with np.errstate(invalid="ignore", divide="ignore"):  # 0 by 0 where nothing is covered
            return np.where(whole[more], means / size, np.nan), np.where(whole, covered, 0.0)

    def _over_cells(self, missing: Missing) -> list[PolygonMeans]:
        """Integrals of the field times the areas of its cells, and of these."""
        dims = [np.arange(n, dtype=np.float64) for n in self.mesh.given.shape[:2]]
        J = self.mesh.places.grid(*dims, quantity="gradient", missing="fill")
        size = np.sqrt(np.abs(np.linalg.det(np.einsum("...kj,...kl->...jl", J, J))))
        if self.corners is not None and self.labels.samples == "means":
            size = polygon_areas(self.corners, is_map=self.mesh.radius is None)
        values, k = np.asarray(self.samples(missing=missing), np.float64), self.model.channel_axis
        if k is not None and (after := len(self.shape) - k) < 2:
            size = np.expand_dims(size, 2 - after)
        wide, periodic = np.where(np.isnan(values), np.nan, size), self.domain.periodic
        make = encoder(
            values.shape, self.settings, channel_axis=k, periodic=np.flatnonzero(periodic).tolist()
        )
        return [polygon_means(make(y, missing="nan")) for y in (values * wide, wide)]

    def _indexed(self, points: Array, outside: str) -> tuple[Floats, Floats]:
        """Points with numbers of samples for places, NaN off the mesh; and these places."""
        given = np.array(numbers("points", points), np.float64)
        d = len(self.shape)
        if given.ndim == 0 or given.shape[-1] != d:
            raise ValueError(f"`points` must have {d} coordinates each; got shape {given.shape}.")
        places = given[..., -2:].copy()
        index, on_mesh = self.locate(places)
        shown = on_mesh[..., None] | (outside == "nearest")
        given[..., -2:] = np.where(shown, index, np.nan)
        return given, places


def _check_places(given: Floats, radius: float | None) -> None:
    """Refuse places that span no area: all on one line, or none known."""
    down, across = given[1:, :-1] - given[:-1, :-1], given[:-1, 1:] - given[:-1, :-1]
    if radius is not None:
        for step in (down, across):
            step[..., 1] -= 360 * np.round(step[..., 1] / 360)
    area = np.abs(down[..., 0] * across[..., 1] - down[..., 1] * across[..., 0])
    sides = np.linalg.norm(down, axis=-1) * np.linalg.norm(across, axis=-1)
    known = np.isfinite(area)
    if (area <= FLAT_SINE * sides)[known].sum() >= MOST_FLAT * known.sum():
        seen: Any = {"axis": (0, 1), "where": np.isfinite(given)}
        low, high = given.min(initial=np.inf, **seen), given.max(initial=-np.inf, **seen)
        names = ("y", "x") if radius is None else ("latitude", "longitude")
        told = [f"{name} {x:g} to {y:g}" for name, x, y in zip(names, low, high)]
        raise ValueError(
            "a curvilinear grid needs places whose rows and columns span an area; most cells of "
            f"these have none: {', '.join(told)}. Are both coordinates along the same axis?"
        )


def curvilinear(
    of: Field, latitude: Array, longitude: Array, *, is_map: bool = False, radius: float = EARTH,
    fold: Fold | None = None, corners: Array | None = None,
) -> Curvilinear:  # fmt: skip
    """A field whose last two axes number the rows and columns of a curvilinear grid.

    :func:`elmfield.fit` makes one of a DataArray that has such coordinates.

    Parameters
    ----------
    of : Field
        The field on numbers of samples; an axis that goes round is periodic in it.
    latitude, longitude : arrays, shape of its last two axes
        Where its samples are, in degrees; NaN where that is not known.
    is_map : bool
        Whether these are y and x of a map instead.
    radius : float
        Of the sphere, in metres.
    fold : Fold, optional
        How rows go on beyond the last one: :func:`elmfield.fit` finds it, and gives a field that
        was fitted with them.
    corners : array, shape (..., v, 2), optional
        Corners of the samples' cells, in order around each; :func:`elmfield.fit` takes those of CF
        bounds. Of samples that are means over cells, `means` count each by the area of its cell.

    Examples
    --------
    >>> import numpy as np, elmfield as ef
    >>> j, i = np.indices((30, 40))
    >>> latitude, longitude = 40 + 0.2 * j + 0.05 * i, 10 + 0.3 * i - 0.1 * j
    >>> mesh = ef.curvilinear(ef.fit(latitude + longitude), latitude, longitude)
    >>> bool(abs(mesh([43.0, 14.0]) - 57) < 1e-6)
    True
    """
    both = [numbers(n, v) for n, v in (("latitude", latitude), ("longitude", longitude))]
    axes = of.domain.axes[-2:]
    shape = tuple(map(len, own_samples(of.domain)[-2:]))
    if any(b.shape != shape for b in both) or any(a.coords is not None for a in axes):
        raise ValueError(
            "`latitude` and `longitude` must have the shape of the field's last two axes, "
            f"{shape}, which number samples; got {both[0].shape} and {both[1].shape}."
        )
    if not is_map and (most := float(np.nanmax(np.abs(both[0]), initial=0.0))) > 90 + 1e-6:
        raise ValueError(f"`latitude` must lie between -90 and 90 degrees; got {most:g}.")
    about = None if is_map else radius
    periods, given = [a.period for a in axes], np.stack(both, axis=-1)
    _check_places(given, None if is_map else radius)
    told = *periods, about, fold is None
    mesh = _meshes.made_of(given, told, lambda c: Mesh(c, axes, about, fold), KEPT)
    cells = None if corners is None else numbers("corners", corners)
    if cells is not None and (cells.ndim != 4 or (*cells.shape[:2], cells.shape[3]) != (*shape, 2)):
        raise ValueError(f"`corners` must have shape {(*shape, 'v', 2)}; got {cells.shape}.")
    names = ("y", "x") if is_map else ("latitude", "longitude")
    return Curvilinear(of.model, mesh, names, cells)
