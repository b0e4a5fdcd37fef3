"""What every field has, whichever preset made it and by whichever way it came to be.

A preset is a function of samples on one grid, or of that grid's samples as scattered points; a way
is what happens to the field before it is asked. Each claim runs over every preset fresh and saved,
and over every way of those that keep samples, beliefs and coefficients.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np
import pytest

import elmfield as ef
from support import SMOOTH_DENSE, close, host

SHAPE = (26, 31)
COORDS = {"y": 100 + 0.5 * np.arange(26), "x": -0.25 * np.arange(31)}
"""One axis rises, the other falls, neither counts from 0."""

LOW, HIGH = (102.3, -6.1), (110.2, -1.4)
"""A box inside: what is cropped, and where everybody is asked."""


def wavy(y, x):
    """A smooth function of coordinates with slopes of about 1."""
    return np.sin(0.9 * y + 0.4) * np.cos(1.1 * x) + 0.2 * y


def plane(y, x):
    return 3 - 0.25 * y + 0.5 * x


def level(y, x):
    return 7.25 + 0 * y * x


def sampled(function):
    return function(*np.meshgrid(*COORDS.values(), indexing="ij"))


@dataclass(frozen=True)
class Preset:
    """How samples become a field, and what it promises.

    `planes`: planes are exact, and constants are; `shifts`: what is added to samples is added to
    the field; `meets`: samples are met; `gaps`: it takes missing samples;
    `keeps_samples`: coefficients are computed from them when asked for.
    """

    fit: Callable
    planes: bool = True
    shifts: bool = True
    gaps: bool = True
    keeps_samples: bool = True
    meets: bool = True


def on_grid(settings, **options):
    return lambda values, **more: ef.fit(
        values, settings, dims=("y", "x"), coords=COORDS, **options, **more
    )


def merged(values, **more):
    partition = ef.beam(np.nan_to_num(values), cell=6, regions=9, overlap=1.5)
    settings = ef.paper(width=30, **SMOOTH_DENSE)
    return on_grid(settings, partition=partition)(values, **more)


def scattered(values, **more):
    at = np.stack(np.meshgrid(*COORDS.values(), indexing="ij"), axis=-1).reshape(-1, 2)
    bounds = [(c.min() - 0.25, c.max() + 0.25) for c in COORDS.values()]
    low, high = zip(*bounds)
    return ef.fit_points(at, values.reshape(-1), dims=("y", "x"), bounds=(low, high), **more)


SLOW_WAVES = SMOOTH_DENSE | {"scale": 0.3}
"""Of layers that every region draws: the fastest of many is integrated by quadrature too."""


def scattered_paper(values, **more):
    at = np.stack(np.meshgrid(*COORDS.values(), indexing="ij"), axis=-1).reshape(-1, 2)
    bounds = [(c.min() - 0.25, c.max() + 0.25) for c in COORDS.values()]
    settings = ef.paper(cell=12, width=30, layers="own", overlap=2, **SLOW_WAVES)
    options = {"dims": ("y", "x"), "bounds": tuple(zip(*bounds)), "spacing": (0.5, 0.25)}
    return ef.fit_points(at, values.reshape(-1), settings, **options, **more)


DENSE = ef.Dense(100, **SMOOTH_DENSE)

LEAST_SQUARES = {"keeps_samples": False, "planes": False, "shifts": False, "meets": False}

PRESETS = {
    "smooth": Preset(on_grid(ef.smooth(order=1.6, cell=9))),
    "automatic order": Preset(on_grid(None)),
    "dense": Preset(
        on_grid(ef.smooth(order=1.5, cell=5, overlap=1, network=DENSE)), keeps_samples=False
    ),
    "oriented": Preset(on_grid(ef.oriented(order=1.6))),
    "paper": Preset(
        on_grid(ef.paper(cell=9, width=40, overlap=2, **SMOOTH_DENSE)), **LEAST_SQUARES
    ),
    "merged": Preset(merged, **LEAST_SQUARES),
    "own layers": Preset(
        on_grid(ef.paper(cell=9, width=40, overlap=2, layers="own", **SLOW_WAVES)),
        **LEAST_SQUARES,
    ),
    "ridge": Preset(
        on_grid(ef.paper(cell=9, width=40, overlap=2, ridge=1e-3, solver="lstsq", **SMOOTH_DENSE)),
        **LEAST_SQUARES,
    ),
    "points by least squares": Preset(scattered_paper, gaps=False, **LEAST_SQUARES),
    "fewer": Preset(on_grid(ef.smooth(coefficients=300)), planes=False, meets=False),
    "coded": Preset(on_grid(ef.smooth(max_error=1e-3)), planes=False, shifts=False, meets=False),
    "means": Preset(on_grid(None, samples="means"), meets=False),
    "points": Preset(scattered, gaps=False),
}


def fresh(fit, values, folder, **options):
    return fit(values, **options)


def saved(fit, values, folder, **options):
    ef.save(fit(values, **options), folder / "field.elm")
    return ef.load(folder / "field.elm")


def streamed(fit, values, folder, **options):
    return fit(values, out=folder / "field.elm", **options)


def cropped(fit, values, folder, **options):
    return fit(values, **options).crop(LOW, HIGH)


def on_torch(fit, values, folder, **options):
    pytest.importorskip("torch")
    return fit(values, **options).to("cpu")


WAYS = {f.__name__: f for f in (fresh, saved, streamed, cropped, on_torch)}

SLOW = pytest.mark.slow

PAIRS = [
    pytest.param(
        preset, way, id=f"{name}-{kind}", marks=() if way is fresh or name == "smooth" else SLOW
    )
    for name, preset in PRESETS.items()
    for kind, way in WAYS.items()
    if way in (fresh, saved)
    or name in ("smooth", "oriented", "paper", "own layers")
    or (name, kind) in {("coded", "streamed"), ("merged", "on_torch"), ("points", "cropped")}
]


def points(rng, n=60, margin=0.0):
    """Places in the box, so that a crop knows them all."""
    low, high = np.asarray(LOW) + margin, np.asarray(HIGH) - margin
    return low + rng.random((n, 2)) * (high - low)


def asked(field, what, at, **options):
    """Values or derivatives as NumPy, of a field on any library."""
    call = field if what == "value" else getattr(field, what)
    return host(call(at, **options))


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A field of a preset, by a way, of a function; each made once."""

    @cache
    def make(preset, way, function, scale=1.0, shift=0.0, holes=False):
        values, options = scale * sampled(function) + shift, {}
        if holes:
            values[8:14, 10:17] = np.nan
            options["missing"] = "nan"
        return way(preset.fit, values, tmp_path_factory.mktemp("field"), **options)

    return make


@pytest.mark.parametrize(("preset", "way"), [p for p in PAIRS if p.values[1] is not fresh])
def test_it_is_the_same_function_by_every_way(preset, way, made, rng):
    field, first = made(preset, way, wavy), made(preset, fresh, wavy)
    at = points(rng)
    for what in ("value", "gradient", "hessian"):
        expected = asked(first, what, at)
        digits = 1e-7 if what == "hessian" else 1e-10
        close(asked(field, what, at), expected, digits * np.abs(expected).max())


# What a file gives back is the same function: its other ways to be asked, for some presets.
OFTEN_READ = [
    PRESETS[name] for name in ("smooth", "oriented", "paper", "merged", "coded", "points")
]


@pytest.mark.parametrize(
    ("preset", "way"),
    [p for p in PAIRS if p.values[1] is not saved or p.values[0] in OFTEN_READ],
)
class TestEveryField:
    def test_grids_are_their_points(self, preset, way, made, rng):
        field = made(preset, way, wavy)
        y, x = (np.sort(c) for c in points(rng, 12).T)
        at = np.stack(np.meshgrid(y, x, indexing="ij"), axis=-1)
        for what in ("value", "gradient", "laplacian"):
            expected = asked(field, what, at)
            found = host(field.grid(y, x, quantity=what, antialias=False))
            # Second derivatives of a steep energy cancel by six digits.
            digits = 1e-7 if what == "laplacian" else 1e-10
            close(found, expected, digits * np.abs(expected).max())

    @pytest.mark.slow
    def test_many_points_are_few_points(self, preset, way, made, rng):
        field = made(preset, way, wavy)
        at = points(rng, 5_000)
        for what in ("value", "gradient"):
            some, many = asked(field, what, at[:40]), asked(field, what, at)
            close(many[:40], some, 1e-8 * np.abs(some).max())
            assert asked(field, what, at[:0]).shape == (0, *some.shape[1:])

    def test_derivatives_are_those_of_the_values(self, preset, way, made, rng):
        field, h = made(preset, way, wavy), 1e-4
        at = points(rng, margin=2 * h)
        for one, other in (("value", "gradient"), ("gradient", "hessian")):
            steps = h * np.eye(2)
            slopes = [
                (asked(field, one, at + s) - asked(field, one, at - s)) / (2 * h) for s in steps
            ]
            expected = np.stack(slopes, axis=-1)
            # Differences are off by h²/6 of a third derivative, with 12 cycles to a unit at most.
            digits = 1e-6 if other == "gradient" else 1e-4
            close(asked(field, other, at), expected, digits * max(1.0, np.abs(expected).max()))
        trace = np.trace(asked(field, "hessian", at), axis1=-2, axis2=-1)
        close(asked(field, "laplacian", at), trace, 1e-9 * max(1, np.abs(trace).max()))

    def test_constants_and_planes_are_exact_where_that_is_promised(self, preset, way, made, rng):
        at = points(rng)
        for function in (level, plane)[: preset.shifts + preset.planes]:
            field = made(preset, way, function)
            close(asked(field, "value", at), function(*at.T), 1e-8)
            slope = [0, 0] if function is level else [-0.25, 0.5]
            close(asked(field, "gradient", at), np.broadcast_to(slope, (60, 2)), 1e-6)

    def test_samples_are_met(self, preset, way, made):
        if not preset.meets:
            pytest.skip("it does not promise its samples")
        field = made(preset, way, wavy)
        inside = [(c >= lo) & (c <= hi) for c, lo, hi in zip(COORDS.values(), LOW, HIGH)]
        y, x = (c[i] for c, i in zip(COORDS.values(), inside))
        at = np.stack(np.meshgrid(y, x, indexing="ij"), axis=-1)
        close(asked(field, "value", at), wavy(at[..., 0], at[..., 1]), 1e-8 * 24)

    @pytest.mark.slow
    def test_there_is_no_seam(self, preset, way, made, rng):
        field, step = made(preset, way, wavy), 1e-6
        part, axes = field.partition, field.domain.axes
        low, high = field.domain.low, field.domain.high
        for k, axis in enumerate(axes):
            knots = [
                b + o for b in part.borders(k)[1:-1] for o in (-part.overlap[k], 0, part.overlap[k])
            ]
            knots = [b for b in knots if low[k] + 0.1 < b < high[k] - 0.1]
            shift = step * np.eye(2)[k]
            for what in ("value", "gradient"):
                at = points(rng, 40, margin=0.05)
                usual = np.abs(asked(field, what, at + shift) - asked(field, what, at - shift))
                places = axis.from_index(np.asarray(knots))
                at = points(rng, 20 * len(places), margin=0.05)
                at[:, k] = np.repeat(places, 20)
                jump = np.abs(asked(field, what, at + shift) - asked(field, what, at - shift))
                assert jump.max(initial=0) < 4 * usual.max() + 1e-9

    def test_what_is_scaled_and_shifted_is_scaled_and_shifted(self, preset, way, made, rng):
        if preset is PRESETS["coded"]:
            pytest.skip("samples are rounded to the target")
        scale, shift = -3e4, 7e6 if preset.shifts else 0.0
        at, field = points(rng), made(preset, way, wavy)
        other = made(preset, way, wavy, scale, shift)
        close((asked(other, "value", at) - shift) / scale, asked(field, "value", at), 1e-7)
        close(asked(other, "gradient", at) / scale, asked(field, "gradient", at), 1e-6)

    @pytest.mark.slow
    def test_an_integral_is_the_sum_of_means(self, preset, way, made):
        field = made(preset, way, wavy)
        edges = [np.linspace(lo, hi, n) for lo, hi, n in zip(LOW, HIGH, (4, 3))]
        means = host(field.means(*edges))
        total, sizes = host(field.integral(LOW, HIGH)), [np.diff(e) for e in edges]
        # Dense layers are integrated by quadrature.
        close(sizes[0] @ means @ sizes[1], total, 1e-7 * np.abs(total))
        nodes, weights = np.polynomial.legendre.leggauss(30)
        at = [(e[:-1, None] + np.diff(e)[:, None] * (nodes + 1) / 2).reshape(-1) for e in edges]
        values = host(field.grid(*at)).reshape(3, 30, 2, 30)
        sums = np.einsum("iajb,a,b->ij", values, weights / 2, weights / 2)
        close(means, sums, 1e-4 * np.abs(sums).max())

    def test_gaps_stay_gaps(self, preset, way, made):
        if not preset.gaps:
            pytest.skip("points that are missing are not there")
        if way is streamed and not preset.keeps_samples:
            with pytest.raises(ValueError, match="cannot be fitted in parts with gaps"):
                made(preset, way, wavy, holes=True)
            return
        field = made(preset, way, wavy, holes=True)
        hole = np.asarray([[COORDS["y"][10], COORDS["x"][13]]])
        beside = np.asarray([[COORDS["y"][6], COORDS["x"][20]]])
        assert np.isnan(asked(field, "value", hole)).all()
        assert np.isnan(asked(field, "gradient", hole)).all()
        filled = asked(field, "value", hole, missing="fill")
        assert np.isfinite(filled).all()
        if preset.shifts:  # least squares promise nothing where there are no samples
            close(filled, wavy(*hole.T), 1.0)
        close(asked(field, "value", beside), wavy(*beside.T), 0.2 if preset.shifts else 2.0)
        mean = host(field.means([104.0, 106.6], [-4.0, -2.6]))
        assert np.isnan(mean).all()
