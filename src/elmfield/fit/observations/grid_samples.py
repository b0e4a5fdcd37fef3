"""Observations of anything else: the samples of a grid, with a prior of their spectrum.

Samples are stationary before they are observed: their waves have variances
``S(ω) = a² (ε² + |ω|²)^-s``. Spectrum and noise are those that make observations likely, by
expectation and maximisation with draws from the posterior; no matrix of samples is formed.
"""

import warnings
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy import fft
from scipy.ndimage import gaussian_filter
from scipy.optimize import minimize
from scipy.sparse import diags_array
from scipy.sparse.linalg import LinearOperator, aslinearoperator, lsqr

from elmfield._array.typing import Floats, Integers
from elmfield.domain import Domain
from elmfield.errors import RankWarning
from elmfield.fit.noise_model import remove_mixed_noise
from elmfield.fit.observations.observation import Observation
from elmfield.fit.observations.one_region import no_row_determines, rms

BANDS = 24
"""Of the spectrum."""

KEPT_NOISE = 1e-2
"""Noise of rows that are kept, in parts of their values' deviation, before they are corrected. With
1e-4 conjugate gradients ended when these rows alone were met: 9000 values of noise 0.1 and 40 means
that are kept left an error of 0.4 instead of 0.01."""

LEAST_NOISE = 5e-2
"""Noise of other rows, in parts of their values' deviation and of the largest such part, at least:
for the same reason."""

LEAST_LEVEL = 1e-9
"""What rows see of a constant, in parts of what they see of noise, if they determine the level."""

LEARNING_STEPS = 12
"""Times that spectrum and noise are estimated anew."""

MOST_STEPS = 400
"""Of conjugate gradients."""

DRAW_TOLERANCE = 1e-3
"""Of solutions for draws: their variances are right to 0.1 %, for an eighth of the time of 1e-4."""

MOST_CUTS = 50
"""Times that samples below 0 are cut off and rows that are kept met again."""

N_DRAWS = 64
"""Draws that tell how sure samples are: deviations to 9 %."""

AMPLITUDE_SAMPLES, SHARED_PART = 50.0, 0.3
"""Samples whose squares make the prior's local amplitude, and what the mean of all counts for in
parts of the near ones. Chosen on crops of kodim05, 12 and 20: of 50, 200 and 800 samples the first
made what was held back likeliest."""

AMPLITUDE_DRAWS = 8
"""Draws for local amplitudes of a solution; 16 change PSNR by less than 0.05 dB."""

MOST_WIDTH = 64.0
"""Samples over which local amplitudes are means, at most: a Gaussian's filter takes as long."""

LEAST_AMPLITUDE = 0.02
"""Square of the local amplitude, in parts of its mean, at least."""


@dataclass(frozen=True)
class Waves:
    """Orthonormal waves of a grid: cosines, or sines and cosines along periodic axes."""

    shape: tuple[int, ...]
    periodic: tuple[bool, ...]

    def apply(self, x: Floats, *, back: bool = False) -> Floats:
        """Coefficients of samples, (N, C) both; samples of coefficients on the way `back`."""
        X = x.reshape(*self.shape, -1)
        for k, wraps in enumerate(self.periodic):
            if wraps:  # Hartley's transform is its own inverse
                Z = fft.fft(X, axis=k, norm="ortho")
                X = Z.real - Z.imag
            else:
                X = (fft.idct if back else fft.dct)(X, axis=k, norm="ortho")
        return np.asarray(X.reshape(x.shape))

    @property
    def squares(self) -> Floats:
        """|ω|² of each wave, per sample, (N,)."""
        total = np.zeros(())
        for n, wraps in zip(self.shape, self.periodic):
            omega = 2 * np.pi * np.fft.fftfreq(n) if wraps else np.pi * np.arange(n) / n
            total = np.add.outer(total, omega**2)
        return np.asarray(total.reshape(-1))


class Spectrum(NamedTuple):
    """``a² (ε² + |ω|²)^-s``: log a², ε², s."""

    log: float
    floor: float
    power: float

    def __call__(self, squares: Floats) -> Floats:
        """S of waves of these |ω|²."""
        return np.asarray(np.exp(self.log - self.power * np.log(self.floor + squares)))


def bands_of(squares: Floats) -> Integers:
    """Bands of |ω|, evenly by its logarithm; the mean has its own, 0."""
    omega = np.sqrt(squares)
    low, high = np.log(omega[1:].min()), np.log(omega.max())
    at = (np.log(np.maximum(omega, 1e-300)) - low) / max(high - low, 1e-9) * (BANDS - 1)
    band = 1 + np.clip(at.astype(np.int64), 0, BANDS - 1)
    band[0] = 0
    return np.asarray(band)


def fitted(middle: Floats, power: Floats, weight: Floats, before: Spectrum) -> Spectrum:
    """The spectrum nearest to means over bands, by their likelihood; power 0.6 to 6."""
    own = np.flatnonzero(weight[1:] > 0) + 1
    if len(own) < 2:
        return before
    w, P, x = weight[own], np.maximum(power[own], 1e-300), middle[own]

    def cost(t: Floats) -> float:
        log = t[0] - t[2] * np.log(np.exp(t[1]) + x)
        beyond = max(0, 0.6 - t[2]) ** 2 + max(0, t[2] - 6) ** 2 + max(0, t[1]) ** 2
        return float(w @ (log + P * np.exp(np.minimum(-log, 600))) + 1e3 * beyond * w.sum())

    start = np.asarray([before.log, np.log(before.floor), before.power])
    found = minimize(cost, start, method="Nelder-Mead", options={"maxfev": 400}).x
    return Spectrum(float(found[0]), float(np.exp(max(found[1], -600))), float(found[2]))


@dataclass(frozen=True, eq=False)
class GridSystem:
    """Samples x near observations: ``(Σ Aᵀ A / σ² + S⁻¹) x = Σ Aᵀ y / σ²``.

    Parameters
    ----------
    maps : list of LinearOperator
        A of each observation.
    values : list of arrays, shape (n, C)
        y.
    units : list of arrays, shape (n, 1)
        The noise of each row in parts of `noise`.
    noise : array, shape (G,)
        σ of each observation.
    waves : Waves
        In which the prior is diagonal.
    spectrum : Spectrum
        The prior.
    level : float
        About the square of the mean's wave: it costs nothing, however small the prior is.
    """

    maps: list[LinearOperator]
    values: list[Floats]
    units: list[Floats]
    noise: Floats
    waves: Waves
    spectrum: Spectrum
    level: float

    def normal(self, x: Floats) -> Floats:
        """``Σ Aᵀ A x / σ²``."""
        return self.right([m.matmat(x) for m in self.maps])

    def right(self, values: list[Floats]) -> Floats:
        """``Σ Aᵀ y / σ²``."""
        parts = zip(self.maps, values, self.units, self.noise)
        return np.asarray(sum(m.rmatmat(y / (u * s) ** 2) for m, y, u, s in parts))

    @property
    def prior(self) -> Floats:
        """S of each wave, (N, 1); the mean costs next to nothing."""
        S = self.spectrum(self.waves.squares)
        S[0] = 1e4 * max(S.max(), self.level)
        return S[:, None]

    @cached_property
    def diagonal(self) -> Floats:
        """About the diagonal of ``Σ Aᵀ A / σ²`` in waves, (N, 1): means over bands, by probing."""
        n = len(self.waves.squares)
        signs = np.sign(np.random.default_rng(0).standard_normal((n, 4)))
        seen = self.normal(self.waves.apply(signs, back=True))
        found = (self.waves.apply(seen) * signs).mean(axis=1)
        band = bands_of(self.waves.squares)
        mean = np.bincount(band, found) / np.maximum(np.bincount(band), 1)
        return np.maximum(mean[band], 0)[:, None]

    def solve(
        self,
        right: Floats,
        *,
        extra: float = 0.0,
        prior: bool = True,
        start: Floats | None = None,
        tolerance: float = 1e-6,
        most: int = MOST_STEPS,
    ) -> Floats:
        """Conjugate gradients, preconditioned in waves; `extra` is added to the diagonal."""
        inverse = 1 / self.prior if prior else 0.0
        scale = 1 / (self.diagonal + inverse + extra + 1e-300)

        def in_waves(weights: Floats | float, x: Floats) -> Floats:
            return self.waves.apply(weights * self.waves.apply(x), back=True)

        def apply(x: Floats) -> Floats:
            own = in_waves(inverse, x) if prior else 0.0
            return self.normal(x) + own + extra * x

        x = np.zeros_like(right) if start is None else start
        r = right - apply(x) if start is not None else right
        z = in_waves(scale, r)
        p, rz = z, float((r * z).sum())
        goal = tolerance**2 * float((right * in_waves(scale, right)).sum())
        for _ in range(most):
            if rz <= goal:
                break
            q = apply(p)
            step = rz / float((p * q).sum())
            x, r = x + step * p, r - step * q
            z = in_waves(scale, r)
            rz, before = float((r * z).sum()), rz
            p = z + rz / before * p
        return x

    def errors(self, rng: np.random.Generator, n: int) -> tuple[Floats, Floats, Floats]:
        """Draws of samples by the prior; what fits to these and to noise alone are off, (N, n)."""
        S = self.prior
        S[0] = S[1:].max(initial=0)
        x = self.waves.apply(np.sqrt(S) * rng.standard_normal((len(S), n)), back=True)
        noise = [u * s * rng.standard_normal((len(u), n)) for u, s in zip(self.units, self.noise)]
        both = [np.hstack([m.matmat(x), e]) for m, e in zip(self.maps, noise)]
        fits = self.solve(self.right(both), tolerance=DRAW_TOLERANCE)
        return x, x - fits[:, :n], -fits[:, n:]

    def amplitudes(
        self, x: Floats, prior: Floats, noise: Floats, least_width: float = 0.0
    ) -> Floats:
        """Local amplitudes of the prior, (N, 1): white squares of fits x are then as expected.

        Those to expect come of `prior` and `noise`, fits to draws of either, (N, n). They are means
        over AMPLITUDE_SAMPLES, and over a Gaussian of `least_width`.
        """

        def squares(x: Floats) -> Floats:
            white = self.waves.apply(self.waves.apply(x) / np.sqrt(self.prior), back=True)
            return np.asarray((white**2).mean(axis=1))

        sizes = [n for n in self.waves.shape if n > 1]
        width = max(AMPLITUDE_SAMPLES ** (1 / len(sizes)) / (2 * np.sqrt(np.pi)), least_width)
        own, seen, chance = map(squares, (x, prior, noise))
        mean = max(float((own - chance).mean() / seen.mean()), LEAST_AMPLITUDE)
        rest = SHARED_PART * seen.mean()
        maps = (z.reshape(self.waves.shape) for z in (own - chance, seen))
        near, expected = (gaussian_filter(z, width).reshape(-1, 1) for z in maps)
        found = (near + mean * rest) / (expected + rest)
        return np.asarray(np.sqrt(np.maximum(found, LEAST_AMPLITUDE * mean)))

    def deviations(self, x: Floats) -> Floats:
        """Draws of what samples x, (N, C), may be off by, (N, N_DRAWS), at local amplitudes."""
        drawn, prior, noise = self.errors(np.random.default_rng(0), N_DRAWS)
        return np.asarray(self.amplitudes(x, drawn - prior, noise) * prior + noise)

    def learnt(self, unknown: list[bool]) -> "GridSystem":
        """The same with the spectrum and unknown noise that make the observations likely."""
        rng, squares, system = np.random.default_rng(0), self.waves.squares, self
        band = bands_of(squares)
        count = np.maximum(np.bincount(band), 1)
        middle = np.bincount(band, squares) / count
        C, x = self.values[0].shape[1], None
        for _ in range(LEARNING_STEPS):
            x = system.solve(system.right(self.values), start=x, tolerance=1e-4)
            e = np.add(*system.errors(rng, 1)[1:])
            mean = (self.waves.apply(x) ** 2).mean(axis=1)
            spread = (self.waves.apply(e) ** 2).mean(axis=1)
            noise = system.noise.copy()
            for g in np.flatnonzero(unknown):
                both = self.values[g] - self.maps[g].matmat(x), self.maps[g].matmat(e)
                noise[g] = np.sqrt(sum(((r / self.units[g]) ** 2).mean() for r in both))
            known = np.clip(1 - np.bincount(band, spread / system.spectrum(squares)) / count, 0, 1)
            power = np.bincount(band, mean + spread) / count
            own = fitted(middle, power, count * C * known, system.spectrum)
            system = replace(system, noise=noise, spectrum=own)
        return system


def make_system(
    observations: list[Observation], maps: list[LinearOperator], domain: Domain
) -> GridSystem:
    """The system, with its spectrum and noise learnt."""
    values = [o.values for o in observations]
    waves = Waves(domain.shape, domain.periodic)
    units = [np.ones((len(o), 1)) if o.sigma is None else o.sigma[:, None] for o in observations]
    sizes = [float(np.std(y)) or float(np.abs(y).max()) or 1.0 for y in values]
    parts = [rms(u) / size for u, size in zip(units, sizes)]
    largest = max((p for o, p in zip(observations, parts) if o.sigma is not None), default=0.0)
    noise = [
        size * (KEPT_NOISE if o.is_exact else 0.1)
        if o.sigma is None
        else max(1.0, LEAST_NOISE * largest / part)
        for o, size, part in zip(observations, sizes, parts)
    ]
    signs = np.sign(np.random.default_rng(0).standard_normal(int(np.prod(domain.shape))))
    both = np.stack([np.ones_like(signs), signs], axis=1)
    levels, details = np.transpose([np.abs(m.matmat(both)).mean(axis=0) for m in maps])
    for o, detail in zip(observations, details):
        if not (np.isfinite(detail) and detail > 0):
            raise ValueError(f"{o.kind}: rows must be finite and see some of the samples.")
    sees_level = levels > LEAST_LEVEL * details
    if not sees_level.any():
        warnings.warn(no_row_determines(["the level"]), RankWarning, stacklevel=4)
    gain = np.where(sees_level, levels, details)
    size = max(float(np.std(y)) / g for y, g in zip(values, gain)) or 1.0
    start = Spectrum(2 * np.log(size) + np.log(0.01), 0.01, 1.5)
    mean = max(float(np.abs(y).mean()) / g for y, g in zip(values, gain))
    level = float(np.prod(domain.shape)) * mean**2
    system = GridSystem(maps, values, units, np.asarray(noise), waves, start, level)
    return system.learnt([o.noise is None for o in observations])


def solved(
    system: GridSystem, observations: list[Observation], *, oriented: bool, positive: bool
) -> Floats:
    """The samples, (N, C); rows that are kept are corrected until they are."""
    x = system.solve(system.right(system.values), tolerance=1e-8)
    if oriented:
        x = alternate(system, x, positive=positive)
    elif positive:
        x = nonnegative(system, x)
    exact = [g for g, o in enumerate(observations) if o.is_exact]
    if not exact:
        return x
    root, waves = np.sqrt(system.prior), system.waves
    y = np.concatenate([system.values[g] for g in exact])

    def seen(x: Floats) -> Floats:
        return np.concatenate([system.maps[g].matmat(x) for g in exact])

    def samples(v: Floats) -> Floats:
        return waves.apply(root * v.reshape(-1, 1), back=True)

    def adjoint(u: Floats) -> Floats:
        parts = np.split(u.reshape(-1, 1), np.cumsum([len(system.values[g]) for g in exact])[:-1])
        back = sum(system.maps[g].rmatmat(p) for g, p in zip(exact, parts))
        return np.asarray(root * waves.apply(np.asarray(back)))

    A = LinearOperator((len(y), len(x)), lambda v: seen(samples(v)), adjoint, dtype=np.float64)
    left, size = y - seen(x), float(np.ptp(y)) or 1.0
    # The least change, by the prior, that meets them; again for its last digits, or for samples
    # below 0, which are cut off in between.
    for _ in range(MOST_CUTS if positive else 3):
        for c in range(left.shape[1] if left.any() else 0):
            v = lsqr(A, left[:, c], atol=1e-15, btol=1e-12, conlim=0, iter_lim=MOST_STEPS)[0]
            x[:, c : c + 1] += samples(v)
        x = np.maximum(x, 0) if positive else x
        left = y - seen(x)
        if positive and np.abs(left).max() < 1e-12 * size:
            break
    worst = float(np.abs(left).max() / size)
    if worst > 1e-6:
        warnings.warn(
            f"rows that should hold exactly are missed by up to {worst:.1e} of their range: "
            "they contradict each other, or need a finer grid. Give them a `noise`.",
            RankWarning,
            stacklevel=4,
        )
    return x


def nonnegative(system: GridSystem, x: Floats) -> Floats:
    """The samples of least cost, none below 0, at local amplitudes of the prior.

    These are those of a first solution, over widths that the spectrum correlates: narrower ones
    would leave their own detail in smooth functions.
    """
    z = _cut_off(system, x)
    drawn, prior, noise = system.errors(np.random.default_rng(0), AMPLITUDE_DRAWS)
    width = min(system.spectrum.floor**-0.5, MOST_WIDTH)
    d = system.amplitudes(z, drawn - prior, noise, least_width=width)
    own = [m @ aslinearoperator(diags_array(d[:, 0])) for m in system.maps]
    return d * _cut_off(replace(system, maps=own), z / d)


def _cut_off(system: GridSystem, x: Floats) -> Floats:
    """The samples of least cost, none below 0: alternating directions."""
    right, rho = system.right(system.values), float(np.median(1 / system.prior[1:]))
    z, u = np.maximum(x, 0), np.zeros_like(x)
    for _ in range(80):
        x = system.solve(right + rho * (z - u), extra=rho, start=x, tolerance=1e-5, most=20)
        z = np.maximum(x + u, 0)
        u = u + x - z
    return z


def alternate(system: GridSystem, x: Floats, *, positive: bool) -> Floats:
    """Samples near the rows that a denoiser leaves alone, its level falling from step to step."""
    right, z, waves = system.right(system.values), x, system.waves
    noise = [rms(u * s) for u, s in zip(system.units, system.noise)]
    last = max(float(min(noise)), 1e-6)
    # Opposite borders of a picture differ: blurred into each other they leave an edge there.
    borders = (False,) * len(waves.shape)
    for level in np.geomspace(max(float(np.std(x)), 4 * last), last, LEVELS):
        y, levels = x.reshape(*waves.shape, -1), np.full(x.shape[1], level)
        # Where rows see little, x has more noise than elsewhere: it is not white.
        z = remove_mixed_noise(y, levels, borders, is_white=False)[0].reshape(x.shape)
        weight = WEIGHT / level**2
        x = system.solve(right + weight * z, extra=weight, prior=False, start=z, most=60)
        x = np.maximum(x, 0) if positive else x
    return z


LEVELS = 12
"""Of a denoiser, from the deviation of samples to the noise of rows."""

WEIGHT = 0.3
"""Of a denoiser's answer, in parts of the inverse of its level's square. Of 0.23, 0.3, 0.4 and 0.55
the best on the whole of four of scikit-image's pictures, blurred by 1.6 pixels with noise 2."""
