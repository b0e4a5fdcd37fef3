"""Observations of a smooth function: one region of polynomials, its prior by evidence."""

import math
import warnings
from dataclasses import dataclass, field

import numpy as np

from elmfield._array.typing import Floats
from elmfield.domain import Domain
from elmfield.errors import RankWarning
from elmfield.field import Blended, Group
from elmfield.field.coefficients.stored import Full
from elmfield.fit.observations.axis_rows import AxisRows
from elmfield.fit.observations.evidence import (
    KEPT_LEVEL,
    LEAST_LEVEL,
    Evidence,
    Prior,
    RowGroup,
    Solution,
    solve,
)
from elmfield.fit.observations.observation import Observation, Resolution
from elmfield.local.bases import PolynomialModel, polynomial_model
from elmfield.partition import Partition

MOST_COEFFICIENTS = 1024
"""Of one region and channel: some 0.5 s of a processor."""

SEARCH_COEFFICIENTS = 400
"""Of the basis in which the prior is searched; it holds the lowest degrees."""

START = (3.0, 3.0, 1e-2)
"""Power, scale and noise from which the search sets out."""


def model_of(domain: Domain, n_channels: int) -> PolynomialModel:
    """Polynomials as high as the budget and the domain's samples allow, alike on long axes."""
    d, n = len(domain.shape), np.asarray(domain.shape)
    each = int(round((MOST_COEFFICIENTS / n_channels) ** (1 / d)))
    widths = np.minimum(min(each, 256), np.maximum(n, 8))
    for k in np.argsort(n):  # short axes leave more to long ones
        rest = widths.prod() / widths[k]
        most = int((MOST_COEFFICIENTS / n_channels / rest) + 1e-9)
        widths[k] = min(max(widths[k], most), max(int(n[k]), 8), 256)
    widths = np.where(domain.periodic, widths - (widths + 1) % 2, widths)
    return polynomial_model(domain.shape, tuple(map(int, widths)), domain.periodic)


@dataclass(frozen=True, eq=False)
class Posterior:
    """How sure a function of one region is: the posterior of its coefficients.

    Parameters
    ----------
    rows : AxisRows
        The functions.
    factor : array, shape (m, m)
        R: coefficients deviate from their mean by ``deviations R⁻¹ z``, z standard normal.
    deviations : array, shape (m,)
        The prior's.
    """

    rows: AxisRows
    factor: Floats = field(repr=False)
    deviations: Floats = field(repr=False)

    def variance(self, observation: Observation) -> Floats:
        """The variance of what an observation would see of the function, (n,)."""
        from scipy.linalg import solve_triangular

        A = self.rows.matrix(observation, 1, coupled=False) * self.deviations
        return np.asarray((solve_triangular(self.factor, A.T, trans="T") ** 2).sum(axis=0))

    def draws(self, n: int, seed: int) -> Floats:
        """Deviations of coefficients from their mean, (n, m)."""
        from scipy.linalg import solve_triangular

        z = np.random.default_rng(seed).standard_normal((len(self.factor), n))
        return np.asarray((self.deviations[:, None] * solve_triangular(self.factor, z)).T)


@dataclass(frozen=True, eq=False)
class OneRegion:
    """A function of one region through, or near, observations.

    Parameters
    ----------
    blended : Blended
        The function, in index coordinates, without the offset.
    posterior : Posterior
        How sure it is.
    prior : Prior
        What the evidence chose.
    residuals : list of arrays
        What is left of each observation, in units of its noise.
    condition : float
        Of the system with its prior.
    """

    blended: Blended
    posterior: Posterior
    prior: Prior
    residuals: list[Floats] = field(repr=False)
    condition: float


def rows_of(domain: Domain, model: PolynomialModel) -> AxisRows:
    """The rows of a region that is all of the domain."""
    resolution = Resolution(
        [np.sort(a.from_index(np.asarray([-0.5, a.size - 0.5]))) for a in domain.axes],
        tuple(w // 2 + 2 for w in model.shape),
    )
    centre = [(n - 1) / 2 for n in domain.shape]
    axes = [
        lambda x, order, a=a, c=c: np.asarray(a(x - c, order)) for a, c in zip(model.axes, centre)
    ]
    return AxisRows(domain, axes, model.shape, resolution)


def fit_one_region(
    observations: list[Observation], values: list[Floats], domain: Domain, n_channels: int
) -> OneRegion:
    """The function of one region that the observations make likeliest.

    `values` are those of the observations, (n, C), without an offset.
    """
    coupled = any(o.kind == "divergence" for o in observations)
    model = model_of(domain, n_channels if coupled else 1)
    rows, degrees = rows_of(domain, model), model.degrees
    if coupled:
        degrees = np.tile(degrees, (n_channels, 1))
    start = Prior(START[0], np.full(degrees.shape[1], START[1]), 1.0, np.full(len(values), START[2]))
    deviations = start.deviations(degrees)
    groups = []
    for o, y in zip(observations, values):
        A = rows.matrix(o, n_channels, coupled=coupled)
        if coupled:
            y = y.reshape(-1, 1) if o.kind != "divergence" else y[:, :1]
        groups.append(_group(o, A, y, deviations))
    prior = _choose(groups, degrees, start)
    found = solve(groups, degrees, prior)
    _tell(observations, groups, found, degrees)
    c = found.c.reshape(n_channels, -1).T if coupled else found.c
    partition = Partition.regular(
        domain.shape, domain.shape, 0, periodic=np.flatnonzero(domain.periodic)
    )
    group = Group(model=model, regions=np.zeros(1, np.int64), coefficients=Full(c[None]))
    centre = (np.asarray(domain.shape, float) - 1)[None] / 2
    blended = Blended(
        partition=partition, groups=(group,), centres=centre, radii=np.ones_like(centre)
    )
    size = np.abs(np.diag(found.R))
    posterior = Posterior(rows, found.R, found.deviations)
    return OneRegion(blended, posterior, prior, found.residuals, float(size.max() / size.min()))


def _group(o: Observation, A: Floats, y: Floats, deviations: Floats) -> RowGroup:
    """Rows and values in units of their noise, or of what the prior says of the rows' size."""
    size = np.sqrt(((A * np.minimum(deviations, 1.0)) ** 2).sum(axis=1))
    if not size.all():
        raise ValueError(f"{o.kind}: {int((size == 0).sum())} of {len(A)} rows say nothing.")
    known = o.noise is not None and not o.is_exact
    if known:
        unit = np.broadcast_to(np.asarray(o.noise, float), (len(o),))
        unit = np.repeat(unit, len(A) // len(o))
    else:
        unit = size if o.is_exact else np.full(len(A), float(np.sqrt(np.mean(size**2))))
    return RowGroup(A / unit[:, None], y / unit[:, None], unit, known, o.is_exact, o.is_law)


def _choose(groups: list[RowGroup], degrees: Floats, start: Prior) -> Prior:
    """The prior and the noise that the evidence chooses; rows that are kept have next to none."""
    exact = np.asarray([g.is_exact for g in groups])
    n_exact = sum(len(g.A) for g in groups if g.is_exact)
    kept = np.where(exact, KEPT_LEVEL, start.levels)
    square = sum(float((g.y**2).sum()) for g in groups) / sum(g.y.size for g in groups)
    amplitude = max(
        [float(np.sqrt(np.mean((g.y * g.unit[:, None]) ** 2))) for g in groups if g.is_known]
        or [math.sqrt(square)]
    )
    start = start._replace(amplitude=amplitude or 1.0)
    if exact.all() and n_exact >= 1.05 * len(degrees):  # the prior has no say
        return start._replace(levels=kept / 10)
    order = np.argsort(((degrees) ** 2).sum(axis=1), kind="stable")
    few = np.sort(order[:SEARCH_COEFFICIENTS])
    search = Evidence([g.columns(few) for g in groups], degrees[few])
    prior = search.search(start)
    law = np.asarray([g.is_law and g.is_exact for g in groups])
    if law.any():  # how well all functions can keep an equation, not only the lowest
        every = Evidence(groups, degrees)
        tried = np.geomspace(LEAST_LEVEL / 10, 1e-1, 7)
        each = [prior._replace(levels=np.where(law, t, prior.levels)) for t in tried]
        prior = min(each, key=lambda p: every.score(p)[0])
        prior = prior._replace(amplitude=every.score(prior)[1])
    return prior._replace(levels=np.where(exact & ~law, kept, prior.levels))


def _tell(
    observations: list[Observation], groups: list[RowGroup], found: Solution, degrees: Floats
) -> None:
    """Warn of rows that are not kept, and of what no row determines."""
    for o, g, r in zip(observations, groups, found.residuals):
        worst = float(np.abs(r).max())
        size = float(np.abs(g.y).max()) or 1.0
        if g.is_exact and worst > (1e-3 if g.is_law else 1e-8) * size:
            left = float(np.abs(r * g.unit[:, None]).max())
            warnings.warn(
                f"{o.kind}: rows that should hold exactly are missed by up to {left:.3g}: they "
                "contradict each other or other rows, or ask for more detail than the basis has. "
                "Give them a `noise`.",
                RankWarning,
                stacklevel=5,
            )
    low = np.flatnonzero(degrees.sum(axis=1) <= 1)
    spread = np.linalg.norm(np.linalg.solve(found.R, np.eye(len(degrees))[:, low]), axis=0)
    own = np.linalg.inv(found.R[: low.max() + 1, : low.max() + 1]) if False else spread
    loose = [k for k, s in zip(low, own) if s > 0.5]
    if loose:
        what = ["the level" if not degrees[k].any() else f"the slope along axis {int(np.argmax(degrees[k]))}" for k in loose]
        warnings.warn(
            f"no row determines {', '.join(dict.fromkeys(what))} of the function: taken to be 0. "
            "Add a value or a mean.",
            RankWarning,
            stacklevel=5,
        )
