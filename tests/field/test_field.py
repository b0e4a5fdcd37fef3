"""The field as a function: continuous, also across seams; its weights; bad questions."""

import itertools
import re
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import elmfield as ef
import oracles
from support import (
    L_SHAPE,
    SEEDS,
    SMOOTH_DENSE,
    close,
    hills,
    host,
    inside,
    on_given_cells,
    on_grid,
    on_samples,
    partition,
    pixels,
    wave,
)


@pytest.fixture(scope="module")
def hilly():
    return ef.fit(on_grid(lambda x: hills(x)[0], (50, 45)), ef.smooth(order=4))


def jumps(ask, part, rng, step=1e-6):
    """Largest change of ask(x) over 2 steps: across cell borders and ramp ends, and anywhere."""
    across, elsewhere = [], []
    for k in range(len(part.shape)):
        x = inside(rng, part.shape, 400) * 0.98
        shift = step * np.eye(len(part.shape))[k]
        elsewhere.append(np.abs(ask(x + shift) - ask(x - shift)).max())
        for knot in itertools.product(
            part.borders(k)[1:-1], (-part.overlap[k], 0, part.overlap[k])
        ):
            y = x.copy()
            y[:, k] = sum(knot)
            across.append(np.abs(ask(y + shift) - ask(y - shift)).max())
    return max(across), max(elsewhere)


@pytest.mark.slow
@pytest.mark.parametrize(
    "settings",
    [ef.smooth(), ef.smooth(order=3), ef.paper(width=60, overlap=2, **SMOOTH_DENSE)],
    ids=["default", "order 3", "paper with overlap"],
)
@pytest.mark.parametrize("labels", [None, L_SHAPE], ids=["cells", "L shapes"])
def test_value_and_gradient_cross_borders_as_they_move_inside(settings, labels, rng):
    shape = (36, 33)
    part = partition(shape, np.arange(9).reshape(3, 3) if labels is None else labels, 2.0)
    field = ef.fit(on_grid(wave, shape), on_given_cells(settings), partition=part)
    for ask in (field, field.gradient):
        across, elsewhere = jumps(ask, part, rng)
        assert across < 4 * elsewhere


def test_the_paper_s_own_cells_do_jump_without_overlap(rng):
    # What the tests above would see if windows did not blend.
    field = ef.fit(rng.standard_normal((32, 32)), ef.paper(cell=8, width=16, overlap=0))
    across, elsewhere = jumps(field, field.partition, rng)
    assert across > 1000 * elsewhere


def test_the_hessian_is_continuous_too(hilly, rng):
    across, elsewhere = jumps(hilly.hessian, hilly.partition, rng)
    assert across < 4 * elsewhere


def test_weights_are_the_paper_s(xp, rng):
    values = rng.standard_normal((20, 20, 2)) * 9 + 30
    network = {"width": 25, "frequencies": 3, "activation": "cos"}
    field = ef.fit(xp.asarray(values), ef.paper(cell=10, **network), channel_axis=-1)
    for region, corner in enumerate(itertools.product((0, 10), (0, 10))):
        t = rng.uniform(-1, 1, (30, 2))
        H = oracles.hidden_layer(t, **network)
        local = field(np.array(corner) + 4.5 + 4.5 * t)
        close(H @ host(field.weights(region)), local, 1e-7)


def test_weights_of_the_default_are_those_of_its_cosines(rng):
    values = rng.standard_normal((20, 7)) * 5 + 2
    field = ef.fit(values, ef.smooth(order=2, cell=(10, 7), overlap=2, context=0))
    # Lines are free at order 2; other polynomials of the layer, 7 and 3 in all, have no weight.
    lines = [[*oracles.axis_neurons(n), ("line", 0.0)] for n in (14, 7)]
    neurons = list(itertools.product(*lines))
    own = np.ix_(*map(range, map(len, lines)))
    for region, start in enumerate((0, 6)):  # boxes of 10 + 2 · 2 by 7 samples
        core = np.array([3.0 if region == 0 else 16.0, 2.7]) + rng.random((10, 2))
        u = core - [start + 6.5, 3.0]
        H = np.array(
            [
                [oracles.axis_neuron(*a, p[0]) * oracles.axis_neuron(*b, p[1]) for a, b in neurons]
                for p in u
            ]
        )
        weights = field.weights(region).reshape(len(lines[0]) + 5, len(lines[1]) + 1)
        close(H @ weights[own].reshape(-1) + field.model.offset[0], field(core), 1e-9)


def test_regions_are_counted_from_zero(rough):
    N = rough.partition.n_regions
    for region in (-1, N, 0.5):
        with pytest.raises(
            ValueError, match=f"`region` must lie between 0 and {N - 1}; got {region}"
        ):
            rough.weights(region)


@given(cells=st.integers(2, 5), shift=st.integers(-4, 4), seed=SEEDS)
def test_turning_a_periodic_array_by_whole_cells_turns_its_field(cells, shift, seed):
    rng = np.random.default_rng(seed)
    n = 16 * cells
    values = rng.standard_normal((n, 10))
    x = inside(rng, (n, 10), 30)
    field = ef.fit(values, ef.smooth(cell=16), periodic=[0])
    turned = ef.fit(np.roll(values, 16 * shift, axis=0), ef.smooth(cell=16), periodic=[0])
    close(turned(x + np.array([16 * shift, 0])), field(x), 1e-11)


@pytest.mark.thorough
@given(n=st.integers(2, 70), seed=SEEDS)
def test_there_is_no_seam(n, seed):
    rng = np.random.default_rng(seed)
    field = ef.fit(rng.standard_normal(n), periodic=[0])
    h = 1e-7
    for seam in (-0.5, n - 0.5, 0.0):
        before, after = field([[seam - h], [seam + h]])
        size = np.abs(field.gradient([[seam - h], [seam + h]])).max()
        close(after - before, 0, 4 * h * (size + 1e-6))
        slope = np.diff(field.gradient([[seam - h], [seam + h]])[:, 0])
        bend = np.abs(field.hessian([[seam - h], [seam + h]])).max()
        close(slope, 0, 4 * h * (bend + 1e-4))


@pytest.mark.parametrize("n", [1, 2, 3, 5, 17, 33])
@pytest.mark.parametrize("settings", [ef.smooth(), ef.paper(cell=4, width=3)])
@pytest.mark.filterwarnings("ignore::elmfield.RankWarning")
def test_short_periodic_axes(n, settings, rng):
    values = rng.standard_normal((n, 6))
    field = ef.fit(values, settings, periodic=[0, 1])
    x = inside(rng, (n, 6), 20)
    close(field(x + np.array([3 * n, -6])), field(x), 1e-8)
    new = (2 * n, 5)
    close(field.resize(new, antialias=False), field(pixels((n, 6), new)), 1e-8)
    if isinstance(settings, type(ef.smooth())):
        close(on_samples(field), values, 1e-9)


def test_a_periodic_wave_is_known_across_the_seam():
    n = 96
    wave_ = lambda x: np.sin(2 * np.pi * x / n + 1)  # noqa: E731
    error = lambda field, x: np.abs(field(x[:, None]) - wave_(x)).max()  # noqa: E731
    seam = n - 0.5 + np.linspace(-4, 4, 81)
    field = ef.fit(wave_(np.arange(n)), ef.smooth(order=2), periodic=[0])
    # No worse than at the other border, but for where the points fall.
    assert error(field, seam) <= 1.1 * error(field, np.linspace(4, n - 5, 2000))
    open_ended = ef.fit(wave_(np.arange(n)), ef.smooth(order=2))
    last = np.array([n - 0.5])
    assert error(open_ended, last) > 4 * error(field, last)  # without the period, a guess


def test_regions_that_reach_over_the_seam_do_not_jump(rng):
    # Cells 0 and 3 are neighbours on a periodic axis; their region has no border at the seam.
    part = partition((40, 20), np.array([[0, 0], [1, 2], [1, 2], [0, 3]]), 2.0, (True, False))
    assert part.boxes[0][0].tolist() == [-12, 0]
    assert part.boxes[1][0].tolist() == [24, 20]
    field = ef.fit(on_grid(wave, (40, 20)), ef.smooth(), partition=part, periodic=[0])
    y, x = np.linspace(-0.5, 39.5, 321), inside(rng, (20,), 20)
    points = np.stack(np.meshgrid(y, x, indexing="ij"), axis=-1)
    h = 1e-6
    jump = field(points + np.array([h, 0])) - field(points - np.array([h, 0]))
    assert np.abs(jump).max() < 4 * h * np.abs(field.gradient(points)).max()


@pytest.mark.parametrize("cells", [1, 2, 4])
def test_a_region_all_around_a_periodic_axis_does_not_jump(rng, cells):
    part = partition((40, 20), np.array([[0, 1]] * cells), 2.0, (True, False))
    field = ef.fit(on_grid(wave, (40, 20)), ef.smooth(), partition=part, periodic=[0])
    y = np.linspace(-0.5, 39.5, 321)
    x = np.stack([y, np.full(321, 5.0)], axis=-1)
    step = np.array([1e-6, 0])
    assert np.abs(field(x + step) - field(x - step)).max() < 1e-4
    assert field.partition.n_regions == 4  # each ring in two halves


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda f: f.resize((5,)), "`shape` must be 2 whole numbers of at least 1, one per axis"),
        (lambda f: f.resize((5, 0)), "`shape` must be 2 whole numbers"),
        (lambda f: f.resize((5, 2.5)), "`shape` must be 2 whole numbers"),
        (lambda f: f.resize(5), "`shape` must be 2 whole numbers"),
        (lambda f: f.grid([1.0]), "one array of coordinates per axis, 2; got 1"),
        (lambda f: f.crop((1, 2), (3,)), "corners with one coordinate per axis, 2"),
        (lambda f: f.integral((0, 0), (5, 99)), "must span a box inside the domain"),
        (lambda f: f.integral((0, 0), (0, 5)), "must span a box inside the domain"),
        (lambda f: f.integral(0, 5), "corners with one coordinate per axis, 2"),
        (lambda f: f.crop((0, np.nan), (5, 6)), "must span a box inside the domain"),
    ],
)
def test_bad_questions_say_what_is_wrong(rough, ask, message):
    with pytest.raises(ValueError, match=message):
        ask(rough)


def test_a_field_is_no_array(hilly):
    for function in (hilly, hilly.tabulate(1e-4)):
        with pytest.raises(TypeError, match=r"is a function, not an array\. Ask for its values"):
            np.asarray(function)
        with pytest.raises(TypeError, match="not an array"):
            np.add(function, 1)


def test_every_public_member_is_in_the_reference():
    """And they are few: what other packages need beside them is `field.model`."""
    page = (Path(__file__).parents[2] / "docs" / "reference" / "fields.rst").read_text()
    listed = set(re.findall(r"^\.\. auto(?:method|attribute):: Field\.(\w+)$", page, re.M))
    own = {f.name for f in fields(ef.Field)} | {n for n in dir(ef.Field) if n[0] != "_"}
    assert listed - {"__call__"} == own
    assert len(own) <= 32


def test_channels_are_fields(rng):
    values = rng.standard_normal((20, 15, 3))
    field, x = ef.fit(values, channel_axis=-1), inside(rng, (20, 15), 20)
    close(field[1](x), field(x)[:, 1], 1e-12)
    close(field[1:](x), field(x)[:, 1:], 1e-12)
    with pytest.raises(IndexError):
        field[3]
    with pytest.raises(IndexError, match="several real channels"):
        ef.fit(values[..., 0])[0]
