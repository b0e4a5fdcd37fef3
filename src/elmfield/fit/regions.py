"""Scattered samples cut into regions, each with its neighbours; one layer and one order for all.

Positions in index coordinates and values of order 1 enter; output weights of every region leave.
How a region is solved is the business of `region`.
"""

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from elmfield._array.checks import per_axis
from elmfield._array.typing import Floats, Integers, Progress
from elmfield.domain import Domain
from elmfield.fit.region import PENALTIES, Region
from elmfield.local.energies import price, squared_lengths
from elmfield.local.layers import Cosines
from elmfield.partition import Partition

CELL = {1: 16, 2: 8, 3: 4}
"""Cell size in mean sample spacings: about 64 samples a region in 2 and 3 dimensions."""

CONTEXT = {1: 4.0, 2: 4.0}
"""How far beyond its cell a region looks, in mean sample spacings; 3 in more dimensions, where the
number of neurons grows with the cube of the box and more."""

BAND = {1: 8.0}
"""Highest frequency, in cycles per spacing, 1 unless said. On a line neurons are cheap, and samples
a hundredth of a spacing apart are common."""

ORDERS = (1.1, 1.5, 2.0, 2.5, 3.0)
"""Orders tried by leave-one-out for ``order="auto"``."""

NOISY_CELL, NOISY_CONTEXT = {**CELL, 1: 64, 2: 16}, {1: 16.0, 2: 8.0}
"""The same where noise is taken out: a mean over more samples. Between 10⁴ samples with noise 0.1
of two smooth functions the error is 0.0134 and 0.0137 so; 0.0140 and 0.0134 with context 12."""

NOISY_BAND = {1: 0.5, 2: 0.25}
"""The same where noise is taken out, which hides what is faster; 1/2 unless said."""

NOISY_ORDERS = (1.1, 2.0, 3.0, 4.0)
"""Orders tried by their likelihood, with noise."""

LOOKED_AT = 6
"""Regions that settle order and noise for all."""

MET = 1e-6
"""Samples farther than this from the function, in parts of the range, are worth a warning."""

LARGEST = 4000
"""Most samples a region may have; its dense kernel is solved directly."""

NEURONS = 20_000
"""Neurons of a region in four dimensions and more, at most; 15 625 in three. All frequencies up to
one cycle per spacing would be 280 000 in four: 500 samples took 58 s, now 2. Between 150 samples of
a smooth function the error was 0.019, now 0.017."""

MANY = 1_000_000
"""Neurons a region may not have: three on every axis, from 13 dimensions on."""

WORTH_A_WORD = 2e9, 5e12
"""Bytes, and multiplications (a minute or so), above which a fit is announced."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Regions:
    """Samples by region, and the product layer they share.

    Parameters
    ----------
    x, y : arrays, shapes (n, d) and (n, C)
        Positions in index coordinates, and values.
    used : list of integer arrays
        The samples each region is fitted to.
    centres, radii : arrays, shape (N, d)
        Local coordinates of a region are (x - centre) / radius.
    waves : Cosines
        Of a local coordinate, the same for each.
    lengths : array, shape (m,)
        |ω|² of the product neurons, per squared sample.
    period : array, shape (d,)
        In samples; infinite where an axis does not repeat.
    """

    x: Floats
    y: Floats
    used: list[Integers]
    centres: Floats
    radii: Floats
    waves: Cosines
    lengths: Floats
    period: Floats

    @property
    def layers(self) -> tuple[Cosines, ...]:
        """The layer of each axis: waves, and the line that a plane is made of."""
        return (replace(self.waves, lines=True),) * len(self.period)

    def region(self, i: int) -> Region:
        """The samples of region i, and the features there."""
        u = self.x[self.used[i]] - self.centres[i]
        for k, period in enumerate(self.period.tolist()):
            if math.isfinite(period):
                u[:, k] -= np.round(u[:, k] / period) * period
        H, t = np.ones((len(u), 1)), u / self.radii[i]
        for k in range(t.shape[1]):
            H = (H[:, :, None] * self.waves(t[:, k])[:, None, :]).reshape(len(u), -1)
        return Region(H, np.column_stack([np.ones(len(u)), t]), self.y[self.used[i]])

    def prices(self, order: float) -> Floats:
        """E of the product neurons, (m,).

        On a line through it, a field of d axes is smoother by (d - 1) / 2 than as a whole.
        """
        return price(self.lengths, order + (len(self.period) - 1) / 2)

    def _few(self) -> list[Region]:
        return [self.region(i) for i in range(0, len(self.used), -(-len(self.used) // LOOKED_AT))]

    def suited_order(self) -> float:
        """The order that predicts left-out samples best, in a few regions."""
        few = self._few()
        scores = [sum(r.left_out(self.prices(s)) for r in few) for s in ORDERS]
        return ORDERS[int(np.argmin(scores))]

    def likeliest(self, orders: Sequence[float], level: Floats | None) -> tuple[float, float]:
        """Order and variance of the noise, in units of the kernel's, that make samples likeliest.

        ``z = Vᵀ y`` in the kernel's eigenvectors has variances ``a (g + λ)``, where ``a λ`` is the
        noise's. Its `level`, (C,), settles a; otherwise a is the likeliest. One λ serves all
        regions.
        """
        few, best, found = self._few(), -np.inf, (orders[0], float(PENALTIES[0]))
        for s in orders:
            E = self.prices(s)
            logs, squares, n = np.sum([r.likelihood(E, level) for r in few], axis=0)
            n = np.maximum(n, 1)
            a = np.maximum(squares / n if level is None else 1 / PENALTIES, 1e-300)
            score = -0.5 * (logs + n * np.log(a) + squares / a)
            if score.max() > best:
                best, found = score.max(), (s, float(PENALTIES[int(np.argmax(score))]))
        return found

    def through(self, order: float, progress: Progress) -> tuple[Floats, Floats]:
        """Output weights of all regions, (N, m + d, C), and how far samples are missed, (n, C)."""
        alpha, missed, E = self._none(), np.zeros_like(self.y), self.prices(order)
        for i, near in enumerate(self.used):
            one = self.region(i)
            weights, plane = one.meet(E)
            off = np.abs(one.H @ weights + one.X @ plane - one.y)
            missed[near] = np.maximum(missed[near], off)
            alpha[i] = _with_plane(weights, plane)
            progress("fit", i + 1, len(self.used))
        return alpha, missed

    def near(self, order: float, penalty: float, progress: Progress) -> Floats:
        """Output weights of all regions, (N, m + d, C), near samples with noise."""
        alpha, E = self._none(), self.prices(order)
        for i in range(len(self.used)):
            alpha[i] = _with_plane(*self.region(i).smooth(E, penalty))
            progress("fit", i + 1, len(self.used))
        return alpha

    def _none(self) -> Floats:
        m, d = len(self.lengths), len(self.period)
        return np.zeros((len(self.centres), m + d, self.y.shape[1]))


def _with_plane(weights: Floats, plane: Floats) -> Floats:
    """Weights of waves, the first of which is 1, and then of each t_k: (m + d, C)."""
    return np.concatenate([weights[:1] + plane[:1], weights[1:], plane[1:]])


def cut(
    x: Floats,
    y: Floats,
    domain: Domain,
    *,
    cell: float | tuple[float, ...] | None,
    overlap: float | tuple[float, ...] | None,
    noisy: bool,
) -> tuple[Partition, Regions]:
    """Cells, and what is fitted in each; `noisy` looks farther, and at slower waves."""
    d = x.shape[1]
    if cell is None:
        cell = (NOISY_CELL if noisy else CELL).get(d, 3)
    if overlap is None:
        overlap = tuple(c / 4 for c in per_axis("cell", cell, d))
    context = (NOISY_CONTEXT if noisy else CONTEXT).get(d, 3.0)
    wraps = np.flatnonzero(domain.periodic)
    part = Partition.regular(domain.shape, cell, overlap, periodic=wraps)
    low = np.stack(np.meshgrid(*(part.borders(k)[:-1] for k in range(d)), indexing="ij"), -1)
    high = np.stack(np.meshgrid(*(part.borders(k)[1:] for k in range(d)), indexing="ij"), -1)
    centres, half = (low + high).reshape(-1, d) / 2, (high - low).reshape(-1, d) / 2
    used, radii = _neighbours(x, centres, half + context, domain)
    span = 2 * float(np.max(half)) + 2 * context
    band = NOISY_BAND.get(d, 0.5) if noisy else BAND.get(d, 1.0)
    layer = Cosines.lattice(span, band=band, lines=False)
    count = layer.count if d <= 3 else min(layer.count, max(1, int(NEURONS ** (1 / d) - 1) // 2))
    _announce((1 + 2 * count) ** d, y.shape[1], used)
    waves = Cosines(count, layer.fundamental * span / 2)  # per unit of t in [-1, 1]
    return part, Regions(
        x=x,
        y=y,
        used=used,
        centres=centres,
        radii=radii,
        waves=waves,
        lengths=squared_lengths([waves.angular / (span / 2)] * d).reshape(-1),
        period=np.where(domain.periodic, domain.shape, np.inf),
    )


def _announce(m: int, C: int, used: list[Integers]) -> None:
    """Refuse what cannot be done, and say what will take long, before it begins."""
    sizes = np.asarray([len(u) for u in used], float)
    size = (
        f"{len(used)} regions of up to {int(sizes.max())} samples and {m} neurons each, "
        f"{len(used) * m * C} coefficients"
    )
    if m > MANY:
        raise ValueError(
            f"`points` have too many axes, or `cell` is too large: this fit has {size}. Use "
            "fewer axes or a smaller cell."
        )
    memory, work = 8.0 * m * (len(used) * C + 3 * sizes.max()), float(m * np.sum(sizes**2))
    if memory > WORTH_A_WORD[0] or work > WORTH_A_WORD[1]:
        warnings.warn(
            f"this fit has {size}: about {memory / 1e9:.1f} GB and {work:.0e} multiplications. A "
            "larger `spacing` or fewer samples make it cheaper.",
            UserWarning,
            stacklevel=4,
        )


def _neighbours(
    x: Floats,
    centres: Floats,
    reach: Floats,
    domain: Domain,
) -> tuple[list[Integers], Floats]:
    """Samples each region is fitted to, and the radius of the box that holds them, (N, d)."""
    n, d = x.shape
    from scipy.spatial import cKDTree  # 0.1 s, for scattered samples only

    shape = np.asarray(domain.shape, dtype=float)
    boxsize = np.where(domain.periodic, shape, 0.0)
    at, seats = x.copy(), centres.copy()
    for k in np.flatnonzero(domain.periodic):
        at[:, k] = (at[:, k] + 0.5) % shape[k]
        seats[:, k] = (seats[:, k] + 0.5) % shape[k]
    tree = cKDTree(at, boxsize=boxsize if any(domain.periodic) else None)
    least = min(n, 4 * (d + 1))
    used, radii = [], reach.copy()
    for i, near in enumerate(tree.query_ball_point(seats, reach.max(), p=np.inf)):
        if len(near) < least:
            distance, near = tree.query(seats[i], k=least, p=np.inf)
            radii[i] = np.maximum(radii[i], np.max(distance))
            near = np.atleast_1d(near)
        if len(near) > LARGEST:
            raise ValueError(
                f"a region holds {len(near)} samples, more than {LARGEST} can be solved at once: "
                "the samples are far denser there than on average. Pass a smaller `spacing`."
            )
        used.append(np.sort(np.asarray(near, dtype=np.int64)))
    return used, radii
