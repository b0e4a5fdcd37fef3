"""Two-dimensional incompressible flow on a periodic box, and the flow of the paper by its recipe.

``w_t + u · ∇w = ν Δw + f``, with the velocity ``u`` of the vorticity ``w = ∂₁u₂ - ∂₂u₁``. Fourier
modes in space, the two-thirds rule against aliasing, a Runge-Kutta method of order four in time
with the viscous term solved exactly. NumPy alone; arrays in, arrays out.
"""

import math
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.special import erfinv

from elmfield._array.progress import reporter
from elmfield._array.typing import Array, Floats, Progress

Complex = NDArray[np.complex128]
Forcing = Callable[[float], Array]

SIDE = 2 * math.pi
VISCOSITY, SPEED, PEAK, SEED = 0.01, 5.0, 4.0, 42
"""Of the paper's flow. The first two are stated; the other two were identified by the animation
that the authors of its data published."""


def vorticity(
    initial: Array,
    viscosity: float,
    times: Sequence[float],
    *,
    length: float = SIDE,
    forcing: Array | Forcing | None = None,
    refine: int = 1,
    courant: float = 0.5,
    steps: int | None = None,
    progress: Progress | bool = False,
) -> Floats:
    """Vorticity at the given times, shape (n0, n1, len(times)), float64.

    Parameters
    ----------
    initial : array, shape (n0, n1)
        Vorticity at time 0 at the points ``length · i / n``. Its mean is kept and moves nothing.
    viscosity : float
        ν.
    times : sequence of float
        Increasing, from 0 on.
    length : float
        Side of the box, the same along both axes.
    forcing : array or callable, optional
        Curl of the force, shape (n0, n1); or a function of time that returns it.
    refine : int
        The flow is solved on a grid so many times finer. The two-thirds rule keeps wavenumbers
        below a third of the grid's samples: with 1, the upper third of those in `initial` is lost;
        2 keeps them all.
    courant : float
        A step is at most so many spacings of the grid long at the highest speed, ``|u₁| + |u₂|``.
        Stable below 1.35; the error falls with its fourth power.
    steps : int, optional
        Steps between two times, instead of those that `courant` asks for.
    progress : bool or callable
        Called with ("flow", times done, times in all); True for a bar.

    Notes
    -----
    A step takes sixteen real FFTs. 256² points to time 1 at speed 5: about 500 steps.
    """
    tell = reporter(progress)
    values = np.asarray(initial, dtype=np.float64)
    _check(values, viscosity, np.asarray(times, dtype=np.float64), length, refine, courant, steps)
    times = [float(t) for t in times]
    grid = Grid((values.shape[0] * refine, values.shape[1] * refine), length)
    force = _forcing(forcing, grid, values.shape)
    w, mean = grid.padded(values) * grid.kept, values.mean()
    made = np.empty((*values.shape, len(times)))
    now = 0.0
    for k, then in enumerate(times):
        n = steps or grid.steps(w, then - now, courant)
        if then > now:
            dt = (then - now) / n
            half = np.exp(-viscosity * dt / 2 * grid.square)
            for j in range(n):
                w = _step(w, grid, half, dt, force, now + j * dt)
        made[..., k] = grid.samples(w)[::refine, ::refine] + mean
        if not np.isfinite(made[0, 0, k]):
            raise ValueError(
                f"The flow blew up before t = {then:g}. Use a smaller `courant` or more `steps`."
            )
        now = then
        tell("flow", k + 1, len(times))
    return made


class Grid:
    """Wavenumbers of a periodic grid, and what is made of them.

    Parameters
    ----------
    shape : pair of int
        Points along each axis.
    length : float
        Side of the box.
    """

    def __init__(self, shape: tuple[int, int], length: float) -> None:
        n0, n1 = self.shape = shape
        self.length = length
        j0, j1 = np.fft.fftfreq(n0, 1 / n0)[:, None], np.fft.rfftfreq(n1, 1 / n1)[None, :]
        self.k0, self.k1 = 2 * np.pi / length * j0, 2 * np.pi / length * j1
        self.square, self.split = self.k0**2 + self.k1**2, self.k0**2 - self.k1**2
        # Products of two kept modes fold back to wavenumbers of at least n/3, which are not kept.
        self.kept = (3 * np.abs(j0) < n0) & (3 * j1 < n1)
        self.kept[0, 0] = False  # the mean of w, which no product changes
        safe = np.where(self.square > 0, self.square, 1)
        self.u0, self.u1 = 1j * self.k1 / safe, -1j * self.k0 / safe

    def samples(self, modes: Complex) -> Floats:
        """Values of modes at the points."""
        made: Floats = np.fft.irfft2(modes, s=self.shape)
        return made

    def velocity(self, w: Complex) -> tuple[Floats, Floats]:
        """u₁ and u₂ at the points, of the vorticity's modes."""
        return self.samples(self.u0 * w), self.samples(self.u1 * w)

    def advection(self, w: Complex) -> Complex:
        """Modes of ``-u · ∇w``, from products of velocities: four transforms where others use five.

        ``u · ∇w = (∂₁² - ∂₂²)(u₁u₂) + ∂₁∂₂(u₂² - u₁²)`` because u has no divergence.
        """
        a, b = self.velocity(w)
        cross, diff = np.fft.rfft2(a * b), np.fft.rfft2(b * b - a * a)
        made: Complex = self.kept * (self.split * cross + self.k0 * self.k1 * diff)
        return made

    def steps(self, w: Complex, time: float, courant: float) -> int:
        """Steps for some time at the speeds of now."""
        a, b = self.velocity(w)
        spacing = self.length / max(self.shape)
        return max(1, math.ceil(time * float(np.max(np.abs(a) + np.abs(b))) / (courant * spacing)))

    def padded(self, values: Floats) -> Complex:
        """Modes on this grid of values on another: what both know; the rest is zero."""
        (n0, n1), (m0, m1) = values.shape, self.shape
        old: Complex = np.fft.rfft2(values)
        if values.shape == self.shape:
            return old
        made = np.zeros((m0, m1 // 2 + 1), np.complex128)
        half, columns = (min(n0, m0) - 1) // 2, (min(n1, m1) - 1) // 2 + 1
        made[: half + 1, :columns] = old[: half + 1, :columns]
        made[-half:, :columns] = old[-half:, :columns]
        made *= m0 * m1 / (n0 * n1)
        return made


def _step(
    w: Complex, grid: Grid, half: Floats, dt: float, force: Callable[[float], Complex], t: float
) -> Complex:
    """One step of classical Runge-Kutta for ``exp(νk²t) w``: decay is exact, whatever dt.

    `half` is ``exp(-νk² dt/2)``.
    """
    whole = half * half
    k1 = grid.advection(w) + force(t)
    k2 = grid.advection(half * (w + dt / 2 * k1)) + force(t + dt / 2)
    k3 = grid.advection(half * w + dt / 2 * k2) + force(t + dt / 2)
    k4 = grid.advection(whole * w + dt * half * k3) + force(t + dt)
    made: Complex = whole * (w + dt / 6 * k1) + dt / 3 * half * (k2 + k3) + dt / 6 * k4
    return made


def _forcing(
    forcing: Array | Forcing | None, grid: Grid, shape: tuple[int, ...]
) -> Callable[[float], Complex]:
    def modes(values: Array) -> Complex:
        if np.shape(values) != shape:
            raise ValueError(f"`forcing` must have the shape {shape}; got {np.shape(values)}.")
        made: Complex = grid.padded(np.asarray(values, dtype=np.float64)) * grid.kept
        return made

    if forcing is None:
        nothing = np.zeros(grid.kept.shape, np.complex128)
        return lambda t: nothing
    if callable(forcing):
        return lambda t: modes(forcing(t))
    steady = modes(forcing)
    return lambda t: steady


def _check(
    values: Floats,
    viscosity: float,
    times: Floats,
    length: float,
    refine: int,
    courant: float,
    steps: int | None,
) -> None:
    if values.ndim != 2 or min(values.shape) < 4 or not np.isfinite(values).all():
        raise ValueError(
            f"`initial` must be a plane of at least 4 by 4 finite samples; got {values.shape}."
        )
    if not 0 <= viscosity < math.inf:
        raise ValueError(f"`viscosity` must be a finite number of at least 0; got {viscosity}.")
    rising = times.ndim == 1 and times.size and times[0] >= 0 and np.all(np.diff(times) > 0)
    if not rising or not np.isfinite(times).all():
        raise ValueError(f"`times` must be finite numbers that increase, from 0 on; got {times}.")
    for name, value in {"length": length, "courant": courant}.items():
        if not 0 < value < math.inf:
            raise ValueError(f"`{name}` must be a finite number above 0; got {value}.")
    for name, count in {"refine": refine, "steps": 1 if steps is None else steps}.items():
        if isinstance(count, bool) or not isinstance(count, (int, np.integer)) or count < 1:
            raise ValueError(f"`{name}` must be a whole number of at least 1; got {count!r}.")


# --- the paper's flow ----------------------------------------------------------------------------


def generated(
    n: int = 128,
    *,
    frames: int = 100,
    refine: int = 3,
    courant: float = 1.0,
    progress: Progress | bool = False,
) -> dict[str, Array]:
    """The paper's flow by our solver: ``w``, shape (n, n, frames), and what goes with it.

    Single precision. ``w0`` is the vorticity at time 0; ``t`` the times 0.01, 0.02, ..., 1; ``x``
    and ``y`` the points; ``viscosity``.

    Notes
    -----
    With n = 128 it meets the flow in the data folder, which JAX-CFD made on 512² points, to 4e-5
    everywhere and 4e-6 rms, of values up to 27: single precision. With refine = 2, 4e-3, as 256²
    points are too few for a moment; with 4, no better. Seven seconds on one core.
    """
    grid = Grid((n, n), SIDE)
    start, x = grid.samples(grid.padded(initial_vorticity())), SIDE / n * np.arange(n)
    t = np.arange(1, frames + 1) / 100
    options = {"refine": refine, "courant": courant, "progress": progress}
    w = vorticity(start, VISCOSITY, list(t), **options)  # type: ignore[arg-type]
    single = {"w": w.astype(np.float32), "w0": start.astype(np.float32)}
    return {**single, "x": x, "y": x, "t": t, "viscosity": np.asarray(VISCOSITY)}


def write(path: Path, progress: Progress | bool = False) -> None:
    """Write :func:`generated` to an NPZ file."""
    with path.open("wb") as out:
        np.savez(out, **generated(progress=progress))


def initial_vorticity(
    n: int = 1024, *, seed: int = SEED, speed: float = SPEED, peak: float = PEAK
) -> Floats:
    """The random vorticity at time 0 of the recipe that the paper's data were made by.

    White noise for each velocity component, filtered to a log-normal spectrum; freed of its
    divergence on a staggered grid; scaled to a highest speed; its curl by differences.

    Parameters
    ----------
    n : int
        Points along each axis. The noise is one number per point, so another n is another flow.
    seed : int
        Of the noise.
    speed : float
        The highest.
    peak : float
        Wavenumber of the most energetic modes.

    Notes
    -----
    JAX-CFD's ``filtered_velocity_field`` and ``curl_2d``, after the published facts: threefry with
    20 rounds, counters cut in halves; standard normals by the inverse error function of 23-bit
    uniforms; spectrum ``exp(-(log k - log peak - 1/4)² / (1/2)) / k²``.
    """
    j = np.fft.fftfreq(n, 1 / n)
    k = np.hypot(j[:, None], j[None, :])
    k[0, 0] = 1
    spectrum = np.exp(-2 * (np.log(k) - math.log(peak) - 0.25) ** 2) / k**2
    spectrum[0, 0] = 0
    keys = threefry((0, seed), np.arange(4, dtype=np.uint32)).reshape(2, 2)
    a, b = (np.fft.fft2(normals(key, n * n).reshape(n, n)) * spectrum for key in keys)
    # Forward differences d and backward ones -d̄: u - grad Δ⁻¹ div u, with Δ of five points.
    h = SIDE / n
    d = (np.exp(2j * np.pi * j / n) - 1) / h
    d0, d1 = d[:, None], d[None, :]
    laplacian = -(np.abs(d0) ** 2 + np.abs(d1) ** 2)
    laplacian[0, 0] = 1
    pressure = -(np.conj(d0) * a + np.conj(d1) * b) / laplacian
    a, b = a - d0 * pressure, b - d1 * pressure
    u, v = np.fft.ifft2(a).real, np.fft.ifft2(b).real
    made: Floats = np.fft.ifft2(d0 * b - d1 * a).real * (speed / float(np.hypot(u, v).max()))
    return made


def normals(key: Array, n: int) -> Floats:
    """Standard normal numbers, n of them and n even, as JAX draws them in single precision."""
    bits = threefry(key, np.arange(n, dtype=np.uint32))
    ones = ((bits >> np.uint32(9)) | np.uint32(0x3F800000)).view(np.float32)
    low = np.nextafter(np.float32(-1), np.float32(0))
    uniform = np.maximum(low, (ones - np.float32(1)) * (np.float32(1) - low) + low)
    made: Floats = math.sqrt(2) * erfinv(uniform.astype(np.float64))
    return made


def threefry(key: Array, counts: Array) -> NDArray[np.uint32]:
    """Threefry-2x32 of an even number of counters: the first half paired with the second.

    Salmon, Moraes, Dror, Shaw 2011: "Parallel random numbers: as easy as 1, 2, 3".
    """
    a, b = int(key[0]), int(key[1])
    schedule = [np.uint32(v) for v in (a, b, a ^ b ^ 0x1BD11BDA)]
    x, y = (half.astype(np.uint32) for half in np.split(counts, 2))
    x, y = x + schedule[0], y + schedule[1]
    turns = ((13, 15, 26, 6), (17, 29, 16, 24))
    for i in range(5):
        for turn in turns[i % 2]:
            x = x + y
            y = ((y << np.uint32(turn)) | (y >> np.uint32(32 - turn))) ^ x
        x = x + schedule[(i + 1) % 3]
        y = y + schedule[(i + 2) % 3] + np.uint32(i + 1)
    return np.concatenate([x, y])
