"""`fit_observations`: a Field from rows of any kind."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from elmfield._array.checks import at_most_one, entries, sizes_of, wrong
from elmfield._array.typing import Floats
from elmfield.domain import Domain, Periodic, make_domain, names_of, periods_of
from elmfield.field import Field
from elmfield.field.model import Model
from elmfield.field.uncertainty.error_parts import ObservedPosterior
from elmfield.field.uncertainty.posterior import Evidence
from elmfield.field.uncertainty.priors import Terms
from elmfield.fit.encoder import Encoder
from elmfield.fit.observations.observation import Observation, Resolution
from elmfield.fit.observations.one_region import fit_one_region, rms
from elmfield.fit.observations.rows import derivative_at, matrix_map, sample_maps
from elmfield.fit.scattered.points import corners_of, even_domain, index_in
from elmfield.settings import Oriented, Settings, Smooth

MOST_ROWS, MOST_PICTURE_ROWS = 8000, 2000
"""Rows, and rows of pictures and projections, above which they are taken for samples of a grid."""

MOST_UNRESOLVED, LEAST_GRID_ROWS = 0.02, 1000
"""Part of the prior's variance that may be finer than one region, and rows that can tell more."""

MOST_SAMPLES = 1 << 16
"""Of a grid whose operators are taken for rows of one region, where slopes or laws need it."""

ROUGH_KINDS = {"values", "means", "lines", "blurred", "operator"}
"""Rows that samples of a grid are good at."""

MOST_USUAL = 1e20
"""Values beyond are divided by their size first: their squares would be too large, or 0."""

GRID_ORDER = 2.0
"""Order of fields whose samples are unknown: their energy is the spectrum's, learnt."""

MOST_CELLS = 1 << 26
"""Samples of a grid, at most."""

USUAL_SAMPLES = {1: 256, 2: 64, 3: 24}
"""Samples of an axis where neither spacing nor shape was said."""


def fit_observations(
    observations: Sequence[Observation],
    settings: Settings | None = None,
    *,
    bounds: tuple[Sequence[float], Sequence[float]] | None = None,
    spacing: float | Sequence[float] | None = None,
    shape: Sequence[int] | None = None,
    like: object = None,
    background: Field | None = None,
    positive: bool = False,
    periodic: Periodic = (),
    dims: Sequence[str] | None = None,
) -> Field:
    """A Field from whatever is known of it that is linear: rows of :mod:`elmfield.observe`.

    Parameters
    ----------
    observations : list of Observation
        Values, derivatives, means, line integrals, blurred values, equations, operators: of
        several instruments, each with its own noise, known or not.
    settings : smooth(...) or oriented(...), optional
        With ``oriented()``, regions choose their energies while the rows are met; for `blurred`,
        `lines` and `operator`.
    bounds : pair of sequences, optional
        Lower and upper corner of the domain; by default the box around all rows.
    spacing : float or sequence of float, optional
        How far apart the samples of the field's grid lie; or
    shape : sequence of int
        how many there are on each axis; without `bounds` they lie at 0, 1, 2, ...; or
    like : Field or DataArray
        something on that grid, with even axes.
    background : Field, optional
        What is known already; observations correct it, and far from them it stays.
    positive : bool
        Whether no sample of the grid is below 0.
    periodic, dims : optional
        Axes that repeat over the width of `bounds`, and names of the axes.

    Notes
    -----
    A smooth function is one region of polynomials; its prior is a stationary process whose
    smoothness, scale along each axis, amplitude and unknown noise levels are those that make the
    observations likeliest. Equations without noise are conditions, no data. Anything rougher, more
    than some thousand rows, operators without slopes or laws beside them, `positive` and
    ``oriented()`` are the samples of the grid, with a spectrum by evidence. A warning says what no
    row determines, and which rows contradict each other; the field's `report` what rows are off by
    and their noise.

    Examples
    --------
    >>> import numpy as np, elmfield as ef
    >>> from elmfield import observe as ob
    >>> days = np.cumsum([0, 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31.0])
    >>> means = [1.0, 2, 5, 9, 14, 17, 19, 19, 15, 10, 5, 2]
    >>> field = ef.fit_observations([ob.means(days[:-1], days[1:], means)], spacing=1)
    >>> round(float(field.integral([0], [31])) / 31, 9)
    1.0
    """
    listed = _listed(observations)
    settings = Smooth() if settings is None else settings
    if not isinstance(settings, (Smooth, Oriented)) or settings.target is not None:
        raise wrong("settings", "be smooth() or oriented() without a target", settings, TypeError)
    C, single = _channels(listed)
    if background is not None and like is None and bounds is None and shape is None:
        like = background
    domain = _domain(listed, bounds, spacing, shape, like, periodic, dims)
    _inside(listed, domain)
    for i, o in enumerate(listed):
        size = len(o), 1 if o.kind == "divergence" else C
        listed[i] = replace(o, values=np.broadcast_to(o.values.reshape(len(o), -1), size))
    spread = None
    if background is not None:
        background = _checked(background, C)
        listed = [replace(o, values=o.values - _seen(background, o, domain)) for o in listed]
        spread = _spread(background, listed, domain)
        if spread is not None:
            listed = [o.divided(spread(domain.to_index(o.places, "nearest")[0])) for o in listed]
    largest = max(float(np.abs(o.values).max()) for o in listed)
    is_usual = 1 / MOST_USUAL < largest < MOST_USUAL or largest == 0
    unit = 1.0 if is_usual else 2.0 ** math.frexp(largest)[1]
    listed = [o.divided(unit) for o in listed]
    channel_axis = None if single else len(domain.shape)
    kinds, n_rows = {o.kind for o in listed}, sum(map(len, listed))
    pictures = sum(len(o) for o in listed if o.kind in ("lines", "blurred"))
    too_many = n_rows > MOST_ROWS or pictures > MOST_PICTURE_ROWS
    may_be_region = kinds - ROUGH_KINDS and math.prod(domain.shape) <= MOST_SAMPLES
    is_operator = "operator" in kinds and not may_be_region
    on_grid = positive or isinstance(settings, Oriented) or is_operator or too_many
    if not on_grid:
        # There has to be enough for the spectrum of samples, and no row that these are poor at.
        may = n_rows >= LEAST_GRID_ROWS and kinds <= ROUGH_KINDS
        free = background is None
        blended, sure, unresolved = fit_one_region(listed, domain, C, free, may, unit)
        on_grid = may and unresolved >= MOST_UNRESOLVED
    if on_grid:
        model = _fit_grid(listed, settings, domain, channel_axis, positive, unit)
    else:
        data = [o.values.reshape(-1) for o in listed if o.kind not in ("equation", "lines")]
        span = unit * (float(np.ptp(np.concatenate(data or [np.ones(1)]))) or 1.0)
        model = Model(
            blended=blended, domain=domain, settings=settings, channel_axis=channel_axis,
            offset=np.zeros(C), scale=np.ones(C), data_range=span, observed=sure,
        )  # fmt: skip
    field = Field(replace(model, offset=model.offset * unit, scale=model.scale * unit))
    if background is not None:
        field = _add(background, field, spread)
    model = replace(field.model, evidence=Evidence(observed=True))
    if model.observed is not None:
        own = replace(model.observed, unit=np.asarray(model.scale) / unit, spread=spread)
        model = replace(model, observed=own)
    first = next((o.like for o in listed if o.like is not None), np.empty(0))
    return Field(model if type(first) is np.ndarray else model.moved(first))


def _fit_grid(
    listed: list[Observation],
    settings: Smooth | Oriented,
    domain: Domain,
    channel_axis: int | None,
    positive: bool,
    unit: float,
) -> Model:
    """The field of the samples that the observations make likeliest."""
    from elmfield.fit.observations import grid_samples

    own = Smooth(order=GRID_ORDER, cell=6, overlap=1.0, context=1)
    if isinstance(settings, Smooth):
        said: tuple[str, ...] = () if settings.cell is None else ("cell", "overlap", "context")
        said += () if settings.order == "auto" else ("order",)
        own = replace(own, **{k: getattr(settings, k) for k in said})

    system = grid_samples.make_system(listed, sample_maps(listed, domain, own), domain)
    rows = list(zip(listed, system.maps, system.units, system.noise))
    oriented, observed = isinstance(settings, Oriented), None
    x = grid_samples.solved(system, listed, oriented=oriented, positive=positive)
    if not (oriented or positive):
        observed = DrawnPosterior(
            _encode(system.deviations(x), own, domain, len(domain.shape)),
            off=tuple(unit * rms(m.matmat(x) - o.values) for o, m, _, _ in rows),
            noise=tuple(0.0 if o.is_exact else unit * rms(u * s) for o, _, u, s in rows),
        )
    made = _encode(x, settings if oriented else own, domain, channel_axis)
    return replace(made, observed=observed)


def _encode(x: Floats, settings: Settings, domain: Domain, channel_axis: int | None) -> Model:
    """The model of samples on the grid of a domain, in array order."""
    shape = domain.shape if channel_axis is None else (*domain.shape, x.shape[-1])
    encode = Encoder(shape=shape, settings=settings, channel_axis=channel_axis, domain=domain)
    return encode(x.reshape(shape)).model


@dataclass(frozen=True, eq=False)
class DrawnPosterior(ObservedPosterior):
    """How sure a field of samples is: by draws of what they deviate by.

    Parameters
    ----------
    deviations : Model
        The function with a channel for each draw.
    """

    deviations: Model = field(repr=False)

    def parts(self, x: Floats, terms: Terms) -> Floats:
        """Draws at index coordinates x, (n, 1, number of draws)."""
        parts = terms or ((1.0, (0,) * x.shape[1]),)
        total = sum(c * derivative_at(self.deviations, x, order) for c, order in parts)
        return np.asarray(total / np.sqrt(self.deviations.n_channels))[:, None, :]

    def on_grid(self, x: Sequence[Floats]) -> Floats:
        """Variances (..., 1) of values on the grid of index coordinates x."""
        if self.spread is not None:
            return super().on_grid(x)
        own = self.deviations
        found = np.asarray(own.blended.on_grid(list(x))) * own.scale + own.offset
        return np.asarray((found**2).mean(axis=-1, keepdims=True) / self.unit**2)


def _checked(background: Field, C: int) -> Field:
    """The background in NumPy's arrays, if it can be corrected."""
    if not isinstance(background, Field) or background.model.is_complex:
        raise wrong("background", "be a Field of real values", background, TypeError)
    if background.model.n_channels != C:
        must = f"have as many channels as observations, {C}"
        raise wrong("background", must, background.model.n_channels)
    return Field(background.model.moved("numpy"))


def _samples(background: Field, domain: Domain) -> Floats:
    """Values at the samples of a domain's grid, beyond the field's own domain those at its end."""
    at = [a.from_index(np.arange(float(a.size))) for a in domain.axes]
    points = np.stack(np.meshgrid(*at, indexing="ij"), axis=-1)
    return np.asarray(background(points, outside="nearest"))


def _seen(background: Field, o: Observation, grid: Domain) -> Floats:
    """What an observation sees of a field: its terms, node by node."""
    domain, model = background.domain, background.model
    if o.kind == "operator":
        samples = _samples(background, grid).reshape(-1, model.n_channels)
        return np.asarray(matrix_map(o.terms, grid.shape).matmat(samples))
    breaks = [np.sort(a.from_index(np.arange(-0.5, a.size))) for a in domain.axes]
    waves = tuple(2.0 * n for n in domain.shape)
    fine = Resolution(breaks, (4,) * len(breaks), waves, domain.periodic)
    total = np.zeros((len(o), 1 if o.kind == "divergence" else model.n_channels))
    for t in o.terms(fine):
        for node in np.ndindex(*(x.shape[1] for x in t.positions)):
            x = np.stack([p[:, i] for p, i in zip(t.positions, node)], axis=1)
            w = t.factor * np.prod([w[:, i] for w, i in zip(t.weights, node)], axis=0)
            w = w * np.prod(np.power(domain.per_unit, t.order))
            f = derivative_at(model, domain.to_index(x, "nearest")[0], t.order) * w[:, None]
            one = slice(None) if t.channel is None else [t.channel]
            np.add.at(total, np.arange(len(o)) if t.row is None else t.row, f[:, one])
    return total


def _spread(
    background: Field, listed: list[Observation], domain: Domain
) -> Callable[[Floats], Floats] | None:
    """How unsure a background is at index coordinates of a domain, in parts of its mean.

    Corrections are larger in proportion. None where it was not fitted to observations, and where
    rows are other than values of known noise.
    """
    known = all(o.kind == "values" and o.sigma is not None for o in listed)
    if background.model.observed is None or not known:
        return None

    def unsure(points: Floats) -> Floats:
        found = np.asarray(background.std(points, outside="nearest"))
        return np.asarray(found.reshape(len(points), -1).mean(axis=1))

    typical = float(unsure(_places(listed)).mean()) or 1.0

    def spread(x: Floats) -> Floats:
        points = np.stack([a.from_index(c) for a, c in zip(domain.axes, x.T)], axis=1)
        return np.asarray(np.maximum(unsure(points) / typical, 1e-2))

    return spread


def _add(background: Field, correction: Field, spread: Callable[[Floats], Floats] | None) -> Field:
    """The field through the sums of both fields' samples, on the correction's grid."""
    domain = correction.domain
    more = _samples(correction, domain)
    if spread is not None:
        a = spread(np.indices(domain.shape, float).reshape(len(domain.shape), -1).T)
        more = more * a.reshape(*domain.shape, *[1] * (more.ndim - len(domain.shape)))
    total = _samples(background, domain) + more
    settings = background.settings if isinstance(background.settings, Smooth) else Smooth()
    model = _encode(total, settings, domain, correction.model.channel_axis)
    return Field(replace(model, observed=correction.model.observed, labels=background.labels))


def _listed(observations: object) -> list[Observation]:
    listed = [observations] if isinstance(observations, Observation) else entries(observations)
    if not listed or not all(isinstance(o, Observation) for o in listed):
        must = "be a list of what elmfield.observe makes, one at least"
        raise wrong("observations", must, observations, TypeError)
    d = {o.places.shape[1] for o in listed if o.places.size}
    if len(d) > 1:
        raise ValueError(f"all observations must have as many axes; got {sorted(d)}.")
    return list(listed)


def _places(listed: list[Observation]) -> Floats:
    """Where all rows look; operators do not tell."""
    return np.concatenate([o.places for o in listed if o.places.size] or [np.zeros((0, 0))])


def _channels(listed: list[Observation]) -> tuple[int, bool]:
    """How many channels there are, and whether values had no axis for them."""
    d = max((o.places.shape[1] for o in listed), default=0)
    counts = {o.values.shape[1] for o in listed if o.values.ndim == 2}
    if any(o.kind == "divergence" for o in listed):
        counts.add(d)
    if len(counts) > 1:
        raise ValueError(f"all observations must have as many channels; got {sorted(counts)}.")
    return (counts.pop(), False) if counts else (1, True)


def _inside(listed: list[Observation], domain: Domain) -> None:
    d = len(domain.shape)
    for o in (o for o in listed if o.places.size):
        x = o.places
        if x.shape[1] != d:
            raise ValueError(f"{o.kind}: positions have {x.shape[1]} axes, the domain has {d}.")
        out = index_in(x, domain, slack=1e-6)[1]
        if out.any():
            told = f"{o.kind}: {int(out.sum())} of {len(x)} positions lie outside the domain"
            first = f"for instance {x[out][0].tolist()}"
            raise ValueError(f"{told}, {first}. Widen `bounds`, or leave them out.")


def _domain(
    listed: list[Observation],
    bounds: object,
    spacing: float | Sequence[float] | None,
    shape: Sequence[int] | None,
    like: object,
    periodic: Periodic,
    dims: Sequence[str] | None,
) -> Domain:
    """The box, cut into cells of the size of `spacing`, with a sample in the middle of each."""
    at_most_one(shape=shape, spacing=spacing, like=like)
    if like is not None:
        at_most_one(bounds=bounds, like=like)
        return _domain_like(like, periodic)
    places = _places(listed)
    if bounds is None and shape is not None:
        sizes = sizes_of("shape", shape)
        return make_domain(sizes, dims=dims, coords=None, periodic=periodic)
    if bounds is None:
        if not len(places):
            raise ValueError("say `shape`, `like` or `bounds`: an operator does not tell them.")
        low, high = places.min(axis=0), places.max(axis=0)
    else:
        low, high = corners_of(bounds)
    d, extent = len(low), high - low
    if not np.all(extent > 0):
        raise ValueError("observations lie on a line or in a plane; say `bounds`.")
    if spacing is None:
        usual = USUAL_SAMPLES.get(d, 12)
        spacing = (extent / (usual if shape is None else sizes_of("shape", shape, d))).tolist()
    names = names_of(dims, d)
    return even_domain(names, low, extent, spacing, periods_of(periodic, names), MOST_CELLS)


def _domain_like(like: object, periodic: Periodic) -> Domain:
    if isinstance(like, Field):
        domain = like.domain
    elif hasattr(like, "dims") and hasattr(like, "coords"):
        names = tuple(map(str, like.dims))
        coords = [np.asarray(like.coords[n]) for n in names]
        domain = make_domain(tuple(map(len, coords)), dims=names, coords=coords, periodic=periodic)
    else:
        raise wrong("like", "be a Field or a DataArray", like, TypeError)
    if any(a.spacing is not None for a in domain.axes):
        raise ValueError("`like` must have axes of even spacing.")
    return domain
