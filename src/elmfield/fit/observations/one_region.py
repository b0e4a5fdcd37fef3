"""Observations of a smooth function: one region of polynomials, its prior by evidence."""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial, reduce
from typing import Any

import numpy as np

from elmfield._array.typing import Floats
from elmfield.domain import Domain
from elmfield.errors import RankWarning
from elmfield.field import Blended, Group
from elmfield.field.coefficients.stored import Full
from elmfield.field.uncertainty.error_parts import ObservedPosterior
from elmfield.field.uncertainty.priors import Terms
from elmfield.fit.observations import evidence
from elmfield.fit.observations.evidence import Prior, ProductPrior, RowEvidence, RowGroup, Solution
from elmfield.fit.observations.observation import Observation, Resolution
from elmfield.fit.observations.rows import AxisFunction, AxisRows, diagonal, multiply_rows
from elmfield.local.bases import PolynomialModel, polynomial_model
from elmfield.partition import Partition

MOST_COEFFICIENTS = 1024
"""Of one region and channel: some 0.5 s of a processor."""

SEARCH_COEFFICIENTS, LAW_COEFFICIENTS = 300, 520
"""Of the basis in which the prior is searched, without laws and with them; it holds the lowest
degrees. Heat with seven modes, 60 sensors: 300 left an error of 0.53, 520 of 0.06."""

STARTS = {"power": (2.0, 4.0), "scale": (1.5, 4.0, 12.0), "level": (1e-4, 1e-2, 0.3)}
"""From the two likeliest of these priors the search sets out."""

MET_LEVEL = 1e-4
"""What the lowest functions may miss of rows that are kept, in parts of the prior."""

LAW_LEVEL, LAW_PATIENCE = 1e-3, 6.0
"""How well equations hold while the prior is searched, in parts of it; and how much less likely,
by -2 log p, data may be for them to hold better in the end."""


def model_of(domain: Domain, n_channels: int) -> PolynomialModel:
    """Polynomials as high as the budget and the domain's samples allow, alike on long axes."""
    d, n = len(domain.shape), np.asarray(domain.shape)
    each = round((MOST_COEFFICIENTS / n_channels) ** (1 / d))
    widths = np.minimum(min(each, 256), np.maximum(n, 8))
    for k in np.argsort(n):  # short axes leave more to long ones
        rest = widths.prod() / widths[k]
        most = int((MOST_COEFFICIENTS / n_channels / rest) + 1e-9)
        widths[k] = min(max(widths[k], most), max(int(n[k]), 8), 256)
    widths = np.where(domain.periodic, widths - (widths + 1) % 2, widths)
    return polynomial_model(domain.shape, tuple(map(int, widths)), domain.periodic)


@dataclass(frozen=True, eq=False)
class RegionPosterior(ObservedPosterior):
    """How sure a function of one region is: the posterior of its coefficients.

    Parameters
    ----------
    rows : AxisRows
        The functions.
    space : ProductPrior
        Their prior, of this amplitude.
    solution : Solution
        Coefficients deviate from their mean by ``amplitude L R⁻¹ z``, z standard normal.
    """

    rows: AxisRows
    space: ProductPrior
    solution: Solution = field(repr=False)
    amplitude: float

    @property
    def facts(self) -> Mapping[str, object]:
        """What a report says of the solve."""
        sizes = np.linalg.svd(self.solution.R, compute_uv=False)
        return {
            **super().facts,
            "rank of the rows beside the prior": int((sizes**2 > 2).sum()),
            "condition of the solve": float(sizes[0] / sizes[-1]),
        }

    def parts(self, x: Floats, terms: Terms) -> Floats:
        """Rows at places times ``R⁻¹``, (n, C, m')."""
        from scipy.linalg import solve_triangular

        total, C = np.zeros((len(x), 1)), self.space.n_channels
        for factor, order in terms or ((1.0, (0,) * x.shape[1]),):
            each = [f(x[:, k], order[k]) for k, f in enumerate(self.rows.axes)]
            total = total + factor * reduce(multiply_rows, each)
        B = self.space.apply(self.solution.factors, diagonal(total, C))
        found = solve_triangular(self.solution.R, self.amplitude * B.T, trans="T")
        return np.asarray(found.T.reshape(len(x), C, -1))


def rows_of(domain: Domain, model: PolynomialModel) -> AxisRows:
    """The rows of a region that is all of the domain."""
    resolution = Resolution(
        [np.sort(a.from_index(np.asarray([-0.5, a.size - 0.5]))) for a in domain.axes],
        tuple(w // 2 + 2 for w in model.shape),
        tuple(w + 8.0 for w in model.shape),
        domain.periodic,
    )
    each = zip(model.axes, domain.shape)
    axes: list[AxisFunction] = [partial(_centred, own, (n - 1) / 2) for own, n in each]
    return AxisRows(domain, axes, model.shape, resolution)


def _centred(own: Any, centre: float, x: Floats, order: int) -> Floats:
    return np.asarray(own(x - centre, order))


def fit_one_region(
    observations: list[Observation],
    domain: Domain,
    n_channels: int,
    free: bool,
    may_be_grid: bool,
    unit: float,
) -> tuple[Blended, RegionPosterior, float]:
    """The function of one region that the observations make likeliest.

    Planes are `free`, unless it corrects another: then axes share their scale, and known noise may
    have more beside it, detail that no row resolves.

    In index coordinates, values in a `unit` that warnings tell; how sure it is; and the part of its
    prior's variance that is finer than the basis: all, where rows that are to be kept are missed
    and samples of a grid may keep them.
    """
    together = n_channels if any(o.kind == "divergence" for o in observations) else 1
    model = model_of(domain, together)
    rows, d = rows_of(domain, model), len(domain.shape)
    tied = () if free else tuple((np.asarray(domain.shape) / np.mean(domain.shape)).tolist())
    space = ProductPrior(model.shape, domain.periodic, together, tied)
    start = Prior(3.0, np.full(d, 3.0), 1.0, np.full(len(observations), 1e-2))
    factors, groups = space.factors(start), []
    for o in observations:
        A = rows.matrix(o, together)
        groups.append(_group(o, A, o.values.reshape(len(A), -1), space.apply(factors, A)))
    rest, c = _without_sources(groups, space, start)
    prior = _choose(rest, space, start)
    found = evidence.solve(rest, space, prior)
    c, missed = c + found.c, _missed(groups, found, unit)
    if not (missed and may_be_grid):
        for message in [*missed, *_undetermined(found, space)]:
            warnings.warn(message, RankWarning, stacklevel=4)
    c = c.reshape(n_channels, -1).T if together > 1 else c
    wraps = np.flatnonzero(domain.periodic)
    one = Partition.regular(domain.shape, domain.shape, periodic=wraps)
    group = Group(model=model, regions=np.zeros(1, np.int64), coefficients=Full(c[None]))
    centre = (np.asarray(domain.shape, float) - 1)[None] / 2
    blended = Blended(partition=one, groups=(group,), centres=centre, radii=np.ones_like(centre))
    each = list(zip(groups, prior.noise(groups), found.residuals))
    beside = [
        (t**2 - 1) * rms(g.unit) ** 2 for g, t, _ in each if g.is_known and g.kind == "values"
    ]
    posterior = RegionPosterior(
        rows, space, found, prior.amplitude, detail=min(beside, default=0.0),
        off=tuple(unit * rms(r * g.unit[:, None]) for g, _, r in each),
        noise=tuple(0.0 if g.is_exact else unit * t * rms(g.unit) for g, t, _ in each),
    )  # fmt: skip
    return blended, posterior, 1.0 if missed else space.unresolved(prior)


def rms(x: Floats) -> float:
    """Root of the mean square."""
    return float(np.sqrt(np.mean(x**2)))


def _group(o: Observation, A: Floats, y: Floats, B: Floats) -> RowGroup:
    """Rows and values in units of their noise, or of what the prior says of the rows' size.

    B has the rows in terms of the prior.
    """
    m = A.shape[1]
    planes = np.linalg.norm(B[:, m:], axis=1) / evidence.FREE_DEVIATION
    size = np.hypot(np.linalg.norm(B[:, :m], axis=1), planes)
    if not size.all():
        raise ValueError(f"{o.kind}: {int((size == 0).sum())} of {len(A)} rows say nothing.")
    unit = size if o.is_exact else np.full(len(A), rms(size))
    known = o.sigma is not None
    if o.sigma is not None:
        unit = np.repeat(o.sigma, len(A) // len(o))
    # Zeros that hold exactly are conditions too: as data they would make the function small.
    is_law = o.is_exact and (o.kind in ("equation", "divergence") or not y.any())
    return RowGroup(A / unit[:, None], y / unit[:, None], unit, known, o.is_exact, is_law, o.kind)


def _without_sources(
    groups: list[RowGroup], space: ProductPrior, start: Prior
) -> tuple[list[RowGroup], Floats]:
    """The rows less what the likeliest solution of laws with right-hand sides says; it.

    What is left obeys laws without sources. These are no data: the evidence is that of the others,
    given them, and would have no digits with large right-hand sides on both sides.
    """
    laws = [g for g in groups if g.is_law]
    if not any(g.y.any() for g in laws) or len(laws) == len(groups):
        return groups, np.zeros(())
    c = evidence.solve(laws, space, _choose(laws, space, start)).c
    return [replace(g, y=0 * g.y if g in laws else g.y - g.A @ c) for g in groups], c


def _choose(groups: list[RowGroup], space: ProductPrior, start: Prior) -> Prior:
    """The prior and the noise that the evidence chooses; rows that are kept have next to none."""
    exact = np.asarray([g.is_exact for g in groups])
    law = np.asarray([g.is_law for g in groups])
    n_exact = sum(len(g.A) for g in groups if g.is_exact)
    sizes = [rms(g.y * (g.unit[:, None] if g.is_known else 1.0)) for g in groups]
    start = start._replace(amplitude=max(sizes) or 1.0)
    if exact.all() and n_exact >= 1.05 * space.n_functions * space.n_channels:
        # No prior has a say.
        return start._replace(levels=np.full(len(groups), evidence.KEPT_LEVEL / 10))
    small, few = space.lowest(LAW_COEFFICIENTS if law.any() else SEARCH_COEFFICIENTS)
    # Rows that can be kept are; where there are more than functions, what these miss is noise.
    known = np.asarray([g.is_known for g in groups])
    fixed = law | (exact & (n_exact < len(few) / 2)) | (known & (not space.tied))
    least = np.where(law, LAW_LEVEL, evidence.LEAST_LEVEL)
    search = RowEvidence([replace(g, A=g.A[:, few]) for g in groups], small, list(fixed))
    starts = [
        start._replace(
            power=p,
            scales=w * np.asarray(space.tied or np.ones(len(start.scales))),
            levels=np.where(known, 1.0, np.where(exact, least, t)),
        )
        for p in STARTS["power"] for w in STARTS["scale"]
        for t in STARTS["level"][: None if np.any(~known & ~exact) else 1]
    ]  # fmt: skip
    if search.known:
        starts = [p._replace(amplitude=start.amplitude * f) for p in starts for f in (0.3, 1.0)]
    prior = search.likeliest(starts)
    if np.any(prior.levels[exact & ~law] > MET_LEVEL) and n_exact <= space.n_functions:
        # No noise, but detail that the lowest functions have not: all of them, fewer trials.
        tight = [_tight(g) if k else g for g, k in zip(groups, exact & ~law)]
        rough = [p._replace(scales=5 * p.scales, amplitude=start.amplitude) for p in starts[::3]]
        prior = RowEvidence(tight, space, list(fixed)).likeliest(rough, 10)
    if law.any():  # how well all functions can keep an equation, not only the lowest
        every = RowEvidence(groups, space, list(fixed))
        tried = np.geomspace(evidence.LEAST_LEVEL / 10, 1e-1, 7)
        each = [prior._replace(levels=np.where(law, t, prior.levels)) for t in tried]
        scores = np.asarray([every.score(p)[0] for p in each])
        # The strictest that the data do not speak against.
        prior = each[int(np.argmax(scores <= scores.min() + LAW_PATIENCE))]
        prior = prior._replace(amplitude=every.score(prior)[1])
    kept = exact & np.asarray([g.kind != "equation" for g in groups])
    return prior._replace(levels=np.where(kept, evidence.KEPT_LEVEL, prior.levels))


def _tight(g: RowGroup) -> RowGroup:
    """Rows that are kept with a known, small noise: no prior's amplitude can raise it."""
    unit = MET_LEVEL * rms(g.y)
    return replace(g, A=g.A / unit, y=g.y / unit, is_known=True)


def _missed(groups: list[RowGroup], found: Solution, unit: float) -> list[str]:
    """What to say of rows that are not kept; in the caller's unit."""
    said = []
    for g, r in zip(groups, found.residuals):
        worst, size = float(np.abs(r).max()), float(np.abs(g.y).max()) or 1.0
        if g.is_exact and worst > (1e-3 if g.kind == "equation" else 1e-8) * size:
            left = unit * float(np.abs(r * g.unit[:, None]).max())
            said.append(
                f"{g.kind}: rows that should hold exactly are missed by up to {left:.3g}: they "
                "contradict each other or other rows, or ask for more detail than the basis has. "
                "Give them a `noise`."
            )
    return said


def _undetermined(found: Solution, space: ProductPrior) -> list[str]:
    """What to say of levels and slopes that no row determines."""
    q = len(space.planes) * space.n_channels
    free = np.linalg.norm(np.linalg.inv(found.R[-q:, -q:]), axis=1) if q else np.zeros(0)
    names = ["the level", *(f"the slope along axis {k}" for k in space.slopes)]
    loose = np.any(free.reshape(space.n_channels, -1) > 0.5, axis=0).tolist()
    said = [name for name, is_loose in zip(names, loose) if is_loose]
    return [no_row_determines(said)] if said else []


def no_row_determines(names: list[str]) -> str:
    """What to say of these parts of a function."""
    loose = " or ".join(names)
    return f"no row determines {loose} of the function: taken to be 0. Add a value or a mean."
