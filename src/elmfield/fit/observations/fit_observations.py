"""`fit_observations`: a Field from rows of any kind."""

import math
from collections.abc import Sequence

import numpy as np

from elmfield._array.backend import move, namespace
from elmfield._array.checks import entries, is_number, per_axis, positive, shown, sizes_of
from elmfield._array.typing import Array, Floats
from elmfield.domain import Axis, Domain, Periodic, make_domain, names_of, periods_of
from elmfield.field import Field
from elmfield.field.model import Model
from elmfield.fit.observations.observation import Observation
from elmfield.fit.observations.one_region import fit_one_region
from elmfield.settings import Settings, Smooth

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
    """A Field from whatever is linear in it."""
    listed = _listed(observations)
    C, single = _channels(listed)
    domain = _domain(listed, bounds, spacing, shape, like, periodic, dims)
    _inside(listed, domain)
    values = [np.broadcast_to(o.values.reshape(len(o), -1), (len(o), C if o.kind != "divergence" else 1)) for o in listed]
    made = fit_one_region(listed, values, domain, C)
    first = next((o.like for o in listed if o.like is not None), np.empty(0))
    xp = namespace(first)
    blended = made.blended
    data = np.concatenate([v.reshape(-1) for o, v in zip(listed, values) if o.kind in ("values", "means", "blurred")] or [np.ones(1)])
    zero = move(np.zeros(C), first, xp.float64)
    return Field(
        Model(
            domain=domain,
            blended=blended,
            offset=zero,
            scale=zero + 1,
            channel_axis=None if single else len(domain.shape),
            data_range=float(np.ptp(data)) or 1.0,
            settings=settings or Smooth(),
        )
    )


def _listed(observations: object) -> list[Observation]:
    listed = [observations] if isinstance(observations, Observation) else entries(observations)
    if not listed or not all(isinstance(o, Observation) for o in listed):
        raise TypeError(
            "`observations` must be a list of what elmfield.observe makes, one at least; got "
            f"{shown(observations)}."
        )
    d = {o.functional.places.shape[1] for o in listed if o.functional.places.size}
    if len(d) > 1:
        raise ValueError(f"all observations must have as many axes; got {sorted(d)}.")
    return list(listed)


def _channels(listed: list[Observation]) -> tuple[int, bool]:
    """How many channels there are, and whether values had no axis for them."""
    d = max((o.functional.places.shape[1] for o in listed), default=0)
    counts = {o.values.shape[1] for o in listed if o.values.ndim == 2}
    if any(o.kind == "divergence" for o in listed):
        counts.add(d)
    if len(counts) > 1:
        raise ValueError(f"all observations must have as many channels; got {sorted(counts)}.")
    return (counts.pop(), False) if counts else (1, True)


def _inside(listed: list[Observation], domain: Domain) -> None:
    d = len(domain.shape)
    for o in listed:
        x = o.functional.places
        if not x.size:
            continue
        if x.shape[1] != d:
            raise ValueError(f"{o.kind}: positions have {x.shape[1]} axes, the domain has {d}.")
        i = np.stack([a.to_index(x[:, k])[0] for k, a in enumerate(domain.axes)], axis=1)
        n = np.asarray(domain.shape)
        out = ((i < -0.5 - 1e-6) | (i > n - 0.5 + 1e-6)) & ~np.asarray(domain.periodic)
        if out.any():
            raise ValueError(
                f"{o.kind}: {int(out.any(axis=1).sum())} of {len(x)} positions lie outside the "
                f"domain, for instance {x[out.any(axis=1)][0].tolist()}. Widen `bounds`, or leave "
                "them out."
            )


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
    if like is not None:
        return _domain_like(like, periodic)
    places = np.concatenate([o.functional.places for o in listed if o.functional.places.size] or [np.zeros((0, 0))])
    if bounds is None and shape is not None:
        sizes = sizes_of("shape", shape)
        return make_domain(sizes, dims=dims, coords=None, periodic=periodic)
    if bounds is None:
        if not len(places):
            raise ValueError("say `shape`, `like` or `bounds`: an operator does not tell them.")
        low, high = places.min(axis=0), places.max(axis=0)
    else:
        corners = [entries(c) if entries(c) is not None else (c,) for c in entries(bounds) or ()]
        fits = len(corners) == 2 and len(corners[0]) == len(corners[1])
        if not fits or not all(is_number(a) and is_number(b) and a < b for a, b in zip(*corners)):
            raise ValueError(f"`bounds` must be two corners, lower ones first; got {shown(bounds)}.")
        low, high = np.asarray(corners, np.float64)
    d, extent = len(low), high - low
    if not np.all(extent > 0):
        raise ValueError("observations lie on a line or in a plane; say `bounds`.")
    if shape is not None:
        n = np.asarray(sizes_of("shape", shape, d))
    elif spacing is not None:
        step = [positive("spacing", s) for s in per_axis("spacing", spacing, d)]
        n = np.maximum(1, np.ceil(extent / step - 1e-9)).astype(int)
    else:
        n = np.full(d, USUAL_SAMPLES.get(d, 12))
    if math.prod(map(int, n)) > 1 << 26:
        raise ValueError(f"`spacing` makes a grid of {tuple(map(int, n))} samples; use a larger one.")
    names = names_of(dims, d)
    periods = periods_of(periodic, names)
    axes = [
        Axis.even(names[k], int(n[k]), low[k] + h / 2, h, extent[k] if k in periods else None)
        for k, h in enumerate(extent / n)
    ]
    return Domain.of(axes)


def _domain_like(like: object, periodic: Periodic) -> Domain:
    if isinstance(like, Field):
        domain = like.domain
    elif hasattr(like, "dims") and hasattr(like, "coords"):
        names = tuple(map(str, like.dims))
        coords = [np.asarray(like[n]) for n in names]  # type: ignore[index]
        domain = make_domain(tuple(map(len, coords)), dims=names, coords=coords, periodic=periodic)
    else:
        raise TypeError(f"`like` must be a Field or a DataArray; got {shown(like)}.")
    if any(a.knots is not None for a in domain.axes):
        raise ValueError("`like` must have axes of even spacing.")
    return domain
