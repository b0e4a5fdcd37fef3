"""Fields of uneven axes: straight lines are straight, and curves as good as splines."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.interpolate import CubicSpline, make_interp_spline

import elmfield as ef
from elmfield import observe
from elmfield.local.bases import product_modes
from elmfield.local.bases.spline_modes import spline_pieces, uneven_modes, weights_of
from support import close

PRESETS = {
    "smooth": ef.smooth(),
    "smooth of order 1.5": ef.smooth(order=1.5),
    "smooth of order 3": ef.smooth(order=3),
    "small cells": ef.smooth(order=2, cell=6, overlap=1.5),
    "oriented": ef.oriented(),
    "oriented of an order": ef.oriented(order=1.5),
    "denoised": ef.smooth(denoise=True),
    "oriented, denoised": ef.oriented(denoise=0.1),
}


def uneven(rng, n, ratio=100.0):
    """Coordinates whose distances differ by factors up to `ratio`, up or down."""
    gaps = np.exp(rng.uniform(0, math.log(ratio), n - 1))
    c = np.concatenate([[0.0], np.cumsum(gaps)]) * rng.uniform(0.1, 10) + rng.normal()
    return c if rng.random() < 0.5 else c[::-1].copy()


def plane(rng, coords):
    """Slopes and a function that is affine in the coordinates, of a range of about 1."""
    a = rng.uniform(0.3, 1, len(coords)) / [np.ptp(c) for c in coords]
    return a, lambda *x: 2 + sum(s * t for s, t in zip(a, x))


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("shape", [(2,), (7,), (150,), (12, 20), (40, 35), (9, 6, 11)])
def test_planes_are_exact(preset, shape):
    rng = np.random.default_rng(len(preset) + sum(shape))
    coords = [uneven(rng, n) for n in shape]
    a, f = plane(rng, coords)
    y = f(*np.meshgrid(*coords, indexing="ij"))
    field = ef.fit(y, PRESETS[preset], coords=coords)
    low, high = [min(c) for c in coords], [max(c) for c in coords]
    for n in (200, 5000):  # direct sums, and the blended function
        x = rng.uniform(low, high, (n, len(shape)))
        close(field(x), f(*x.T), 1e-12)
        # A distance of a thousandth of the mean has three digits less.
        close(field.gradient(x) / a, 1, 1e-7)
    fine = [np.linspace(b, t, 31) for b, t in zip(low, high)]
    close(field.grid(*fine), f(*np.meshgrid(*fine, indexing="ij")), 1e-12)
    middle = [(b + t) / 2 for b, t in zip(low, high)]
    close(field.integral(low, high) / math.prod(np.subtract(high, low)), f(*middle), 1e-12)
    some = [np.linspace(b, t, 4) for b, t in zip(low, high)]
    centres = [(e[1:] + e[:-1]) / 2 for e in some]
    close(field.means(*some), f(*np.meshgrid(*centres, indexing="ij")), 1e-12)


@given(seed=st.integers(0, 10**6), d=st.integers(1, 3), ratio=st.sampled_from([2.0, 30.0, 1000.0]))
def test_planes_are_exact_on_random_axes(seed, d, ratio):
    rng = np.random.default_rng(seed)
    coords = [uneven(rng, int(n), ratio) for n in rng.integers(2, (80, 14, 6)[d - 1], d)]
    _, f = plane(rng, coords)
    field = ef.fit(f(*np.meshgrid(*coords, indexing="ij")), coords=coords)
    x = rng.uniform([min(c) for c in coords], [max(c) for c in coords], (50, d))
    close(field(x), f(*x.T), 1e-12)


@pytest.mark.parametrize("missing", ["fill", "nan"])
def test_gaps_of_a_plane_are_filled_exactly(missing):
    rng = np.random.default_rng(0)
    coords = [uneven(rng, 20), uneven(rng, 30)]
    _, f = plane(rng, coords)
    y = f(*np.meshgrid(*coords, indexing="ij"))
    holes = np.where(rng.random(y.shape) < 0.3, np.nan, y)
    field = ef.fit(holes, coords=coords, missing=missing)
    close(field.samples(missing="fill"), y, 1e-12)


@pytest.mark.thorough
def test_a_sine_on_random_nodes_is_better_than_a_cubic_spline():
    better, above = 0, 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        x = np.sort(rng.random(60))
        q = np.linspace(x[0], x[-1], 2001)
        truth = np.sin(6 * np.pi * q)
        y = np.sin(6 * np.pi * x)
        error = np.abs(ef.fit(y, coords=[x]).grid(q) - truth).max()
        better += error <= np.abs(CubicSpline(x, y)(q) - truth).max()
        above += error > np.abs(np.interp(q, x, y) - truth).max()
    assert better >= 18
    assert above == 0


def test_derivatives_are_those_of_the_function():
    rng = np.random.default_rng(1)
    x = np.cumsum(rng.uniform(0.2, 1.8, 300)) / 300
    field = ef.fit(np.sin(9 * x), coords=[x])
    for q in (np.linspace(x[0], x[-1], 200), np.linspace(x[0], x[-1], 9000), x):
        close(field(q[:, None]), np.sin(9 * q), 1e-10)
        close(field.gradient(q[:, None])[:, 0], 9 * np.cos(9 * q), 1e-7)
        close(field.hessian(q[:, None])[:, 0, 0], -81 * np.sin(9 * q), 2e-2)
        close(field.grid(q, quantity="gradient")[:, 0], 9 * np.cos(9 * q), 1e-7)


@pytest.mark.parametrize("way", [1, -1])
def test_slopes_do_not_jump_at_samples_in_single_precision(way):
    """Rounding takes a point to either side of a sample, where distances differ a hundredfold."""
    x = way * np.cumsum(np.tile([1.0, 100.0], 40))
    f = (np.float32(0.001) * x).astype(np.float32)
    field = ef.fit(f, coords=[x])
    near = x[5:70, None] * (1 + np.array([-1e-16, -1e-9, -1e-12, 0, 1e-12, 1e-9]))
    close(field.gradient(near[..., None])[..., 0], 0.001, 1e-6)


@pytest.mark.parametrize("period", [None, 30.0])
def test_tables_keep_their_bounds(period):
    rng = np.random.default_rng(2)
    x = np.sort(rng.uniform(0, 29, 90))
    periodic = {} if period is None else {"axis0": period}
    y = np.sin(2 * np.pi * x / 30)[:, None] * np.cos(np.arange(20) / 4)
    field = ef.fit(y, coords=[x, None], periodic=periodic)
    table = field.tabulate(tolerance=1e-5)
    at = np.column_stack([rng.uniform(x[0], x[-1], 9000), rng.uniform(0, 19, 9000)])
    assert np.abs(table(at) - field(at)).max() <= table.error
    # Bounds of derivatives are by the distance of the samples around a point.
    gap = np.diff(x)[np.searchsorted(x, at[:, 0], side="right").clip(1, len(x) - 1) - 1]
    off = np.abs(table.gradient(at) - field.gradient(at))
    assert (off[:, 0] * gap).max() <= table.errors[1]
    assert off[:, 1].max() <= table.errors[1]


def test_a_periodic_uneven_axis_has_no_seam():
    rng = np.random.default_rng(3)
    x = np.sort(rng.uniform(0, 360, 200))
    f = np.sin(np.radians(3 * x))
    field = ef.fit(f, coords=[x], periodic={"axis0": 360.0})
    q = np.linspace(-400, 800, 5001)
    close(field(q[:, None]), np.sin(np.radians(3 * q)), 1e-6)
    close(field.gradient(q[:, None])[:, 0], 3 * np.cos(np.radians(3 * q)) * np.pi / 180, 1e-6)


@pytest.mark.slow
def test_means_of_uneven_cells_are_observations():
    x = np.sort(uneven(np.random.default_rng(4), 40, 8.0))
    edges = np.concatenate([[1.5 * x[0] - 0.5 * x[1]], (x[1:] + x[:-1]) / 2,
                            [1.5 * x[-1] - 0.5 * x[-2]]])  # fmt: skip
    w = 9 / (x[-1] - x[0])
    y = -np.diff(np.cos(w * edges)) / (w * np.diff(edges))  # means of sin(w x)
    own = ef.fit(y, coords=[x], samples="means")
    close(own.means(edges), y, 1e-12)
    close(own(x[:, None]), np.sin(w * x), 1e-4)
    field = ef.fit_observations([observe.means(edges[:-1, None], edges[1:, None], y)])
    close(field.means(edges), y, 1e-9)
    close(field(x[:, None]), np.sin(w * x), 1e-3)


def cells(rng, n, ratio=10.0):
    """Borders of cells of different widths, and a place somewhere in each."""
    edges = uneven(rng, n + 1, ratio)
    return edges, edges[:-1] + rng.uniform(0.05, 0.95, n) * np.diff(edges)


@pytest.mark.parametrize("preset", ["smooth", "small cells", "oriented", "oriented of an order"])
@pytest.mark.parametrize("seed", range(4))
def test_means_over_cells_with_borders_are_kept_and_planes_are_exact(seed, preset):
    rng = np.random.default_rng(seed)
    d = int(rng.integers(1, 4))
    made = [cells(rng, int(n)) for n in rng.integers(2, (80, 20, 9)[d - 1], d)]
    edges, coords = [e for e, _ in made], [c for _, c in made]
    names = tuple("abc"[:d])
    told = {"coords": coords, "dims": names, "bounds": dict(zip(names, edges)), "samples": "means"}
    _, f = plane(rng, coords)
    middle = np.meshgrid(*((e[:-1] + e[1:]) / 2 for e in edges), indexing="ij")
    straight = ef.fit(f(*middle), PRESETS[preset], **told)
    x = rng.uniform([e.min() for e in edges], [e.max() for e in edges], (60, d))
    close(straight(x), f(*x.T), 2e-11)
    y = rng.normal(size=middle[0].shape)
    field = ef.fit(y, PRESETS[preset], **told)
    close(field.means(*edges), y, 1e-9)
    assert np.array_equal(field.samples(), y)
    whole = field.means(*(e[[0, -1]] for e in edges))
    area = math.prod(np.meshgrid(*(np.abs(np.diff(e)) for e in edges), indexing="ij"))
    close(whole.reshape(()), (y * area).sum() / area.sum(), 1e-11)


def test_means_over_uneven_cells_by_quadrature_tables_files_and_torch(tmp_path):
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(8)
    (e, c), y = cells(rng, 90), rng.normal(size=(90, 8))
    told = {"coords": [c, None], "dims": ("z", "x"), "bounds": {"z": e}, "samples": "means"}
    field = ef.fit(y, ef.smooth(order=2), **told)
    t, w = np.polynomial.legendre.leggauss(40)
    at = (e[:-1, None] + e[1:, None]) / 2 + np.diff(e)[:, None] / 2 * t
    x = np.linspace(-0.5, 7.5, 97)
    x = (x[:-1] + x[1:]) / 2
    points = np.stack(np.meshgrid(at, x, indexing="ij"), axis=-1)
    values = field(points).reshape(90, 40, 8, 12)
    # The rule of 40 nodes meets a polynomial's pieces within a cell: that of the windows, too.
    means = np.einsum("kqxi,q->kx", values, w) / 24
    close(means, y, 2e-2)
    some = points.reshape(-1, 2)[::37]
    close(field.tabulate(1e-8)(some), field(some), 1e-6)
    h = np.asarray([1e-6, 0])
    slope = (field(some + h) - field(some - h)) / 2e-6
    inner = np.abs(some[:, :1] - np.concatenate([e, c])).min(axis=1) > 1e-4
    close(field.gradient(some)[inner, 0], slope[inner], 1e-5)
    ef.save(field, tmp_path / "a.elm")
    back = ef.load(tmp_path / "a.elm")
    assert np.allclose(back.domain.axes[0].borders, e, atol=0, rtol=1e-14)
    close(back(some), field(some), 1e-12)
    close(field.module()(torch.as_tensor(some)).detach().numpy(), field(some), 1e-5)
    close(ef.fit(torch.as_tensor(y), ef.smooth(order=2), **told)(torch.as_tensor(some)).numpy(),
          field(some), 1e-11)  # fmt: skip
    stream = ef.fit(y, ef.smooth(order=2), out=tmp_path / "b.elm.zarr", **told)
    close(stream.means(e, np.arange(9) - 0.5), y, 1e-9)


@pytest.mark.thorough
def test_a_sine_of_means_is_nearer_than_one_of_points():
    errors = []
    for seed in range(20):
        e = np.sort(np.random.default_rng(seed).random(61))
        c, k = (e[1:] + e[:-1]) / 2, 6 * np.pi
        y = -np.diff(np.cos(k * e)) / (k * np.diff(e))
        q = np.linspace(c[0], c[-1], 2001)
        truth = np.sin(k * q)
        own = ef.fit(y, coords=[c], bounds={"axis0": e}, samples="means")(q[:, None])
        errors.append([np.abs(v - truth).max() for v in (own, CubicSpline(c, y)(q))])
    median = np.median(errors, axis=0)
    assert median[0] < 1e-5 < 1e-2 < median[1]


@pytest.mark.parametrize(
    ("bounds", "told"),
    [
        ({"z": np.arange(5.0)}, r"got shape \(5,\) for 3 samples"),
        ({"z": [[0, 1], [1.5, 2], [2, 3]]}, "some have gaps between them, or overlap"),
        ({"z": [0, 1.0, 1.2, 3]}, "got 1.5 for a cell of 1 to 1.2"),
        ({"y": [0, 1, 2, 3]}, r"`bounds` names \['y'\]"),
        ([0, 1, 2, 3], "`bounds` must be a mapping"),
    ],
)
def test_bounds_that_are_none_are_refused(bounds, told):
    with pytest.raises((ValueError, TypeError), match=told):
        ef.fit(np.ones(3), coords=[[0.5, 1.5, 2.5]], dims=("z",), bounds=bounds, samples="means")


def test_bounds_of_points_are_refused():
    with pytest.raises(ValueError, match="`bounds` are of cells that samples are means of"):
        ef.fit(np.ones(3), bounds={"axis0": np.arange(4) - 0.5})


def test_a_sample_on_the_border_of_its_cell_as_at_a_pole():
    lat, edges = np.linspace(-90, 90, 19), np.concatenate([[-90], np.arange(-85.0, 90, 10), [90]])
    y = np.random.default_rng(0).normal(size=19)
    field = ef.fit(y, coords=[lat], dims=("latitude",), bounds={"latitude": edges}, samples="means")
    close(field.means(edges), y, 1e-11)
    assert np.array_equal(field.to_xarray().latitude, lat)


@pytest.mark.thorough
def test_files_streams_crops_and_targets_are_the_same_function(tmp_path):
    rng = np.random.default_rng(5)
    coords = [uneven(rng, 90, 10.0), uneven(rng, 50, 10.0)]
    y = np.sin(np.linspace(0, 9, 90))[:, None] * np.cos(np.linspace(0, 5, 50))
    field = ef.fit(y, ef.smooth(order=2), coords=coords)
    x = rng.uniform([min(c) for c in coords], [max(c) for c in coords], (400, 2))
    ef.save(field, tmp_path / "a.elm")
    assert np.array_equal(ef.load(tmp_path / "a.elm")(x), field(x))
    stream = ef.fit(y, ef.smooth(order=2), coords=coords, out=tmp_path / "b.elm.zarr")
    close(stream(x), field(x), 1e-12)
    low, high = np.quantile(coords[0], [0.3, 0.6]), np.quantile(coords[1], [0.2, 0.7])
    part = field.crop([low[0], high[0]], [low[1], high[1]])
    inside = rng.uniform([low[0], high[0]], [low[1], high[1]], (50, 2))
    close(part(inside), field(inside), 1e-13)
    few = ef.fit(y, ef.smooth(order=2, max_error=0.01), coords=coords)
    assert np.abs(few.samples() - y).max() <= 0.01
    kept = ef.fit(y, ef.smooth(order=2, coefficients=900), coords=coords)
    assert np.abs(kept.samples() - y).max() < 0.2
    ef.save(kept, tmp_path / "c.elm")
    close(ef.load(tmp_path / "c.elm")(x), kept(x), 1e-12)


@pytest.mark.filterwarnings("ignore::elmfield.errors.RankWarning")
def test_a_dense_layer_knows_numbers_of_samples_only():
    """paper() fits by number: its derivatives are those of its values all the same."""
    x = np.cumsum(np.linspace(1, 3, 64))
    field = ef.fit(np.sin(x / 20), ef.paper(width=32, cell=64), coords=[x])
    close(field(x[:, None]), np.sin(x / 20), 0.05)
    at = (x[1:] + x[:-1]) / 2
    h = 1e-4
    slope = (field((at + h)[:, None]) - field((at - h)[:, None])) / (2 * h)
    close(field.gradient(at[:, None])[:, 0], slope, 1e-5)


# --- the functions of an axis -----------------------------------------------------------------


@pytest.mark.parametrize("order", [1.0, 1.5, 2.0, 2.25, 3.0, 4.0, 7.0])
@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 6, 8, 9])
def test_pieces_are_splines(order, n):
    x = np.cumsum(np.random.default_rng(n).uniform(0.1, 3, n + 2))
    pieces = spline_pieces(x, order)[0]
    s = np.linspace(-1, 1, 9)
    for j in range(n + 1):
        at = (x[j] + x[j + 1]) / 2 + s * (x[j + 1] - x[j]) / 2
        expected = np.ones((9, 1))
        if n > 1:  # of 3 or 5 samples a parabola or a quartic, not a spline of lower degree
            degrees = [(min(d, n - 1), w) for d, w in weights_of(order)]
            splines = [(make_interp_spline(x[1:-1], np.eye(n), k=k), w) for k, w in degrees]
            expected = sum(w * f(at) for f, w in splines)
        close(np.vander(s, len(pieces[j]), increasing=True) @ pieces[j], expected, 1e-9)


def test_a_spline_does_not_outgrow_its_samples():
    """Two samples next to each other, and a wide gap: a high order would make thousands of one."""
    x = np.array([0.0, 1.0, 2.0, 2.0001, 3.0, 4.0, 5.0, 6.0])
    y = np.array([0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0])
    q = np.linspace(0, 6, 2001)
    for order in (1, 2, 3, 4):
        field = ef.fit(y, ef.smooth(order=order), coords=[x])
        assert np.abs(field.grid(q)).max() <= 4096
        close(field.samples(), y, 1e-12)
    assert (
        np.abs(ef.fit(y, coords=[x]).grid(q)).max() <= 1.5
    )  # as lines, which samples left out say


def test_boxes_have_their_own_functions():
    rng = np.random.default_rng(6)
    spacing = ef.fit(np.ones(30), coords=[uneven(rng, 30)]).domain.axes[0].spacing
    modes = uneven_modes(product_modes((8,), (2.0,)), [spacing]).axes[0]
    for start in (0, 5, 22):
        own = modes.at(np.asarray(start + 3.5))
        close(own(np.arange(8) - 3.5), modes.basis, 1e-11)
    u = np.linspace(-4, 4, 33)
    both = modes.at(np.array([[3.5], [8.5]]))(np.stack([u, u]))
    assert np.array_equal(both[1], modes.at(np.asarray(8.5))(u))
    assert np.abs(both[0] - both[1]).max() > 0.01


def test_times_appended_after_a_gap_lie_where_they_are(tmp_path):
    xr = pytest.importorskip("xarray")
    start, hour = np.datetime64("2020-01-01"), np.timedelta64(1, "h")

    def warming(hours):
        values = 280 + 0.1 * np.asarray(hours)[:, None] + np.arange(7.0)
        return xr.DataArray(values, dims=("time", "x"), coords={"time": start + hours * hour})

    path = tmp_path / "a.elm.zarr"
    ef.save(ef.fit(warming(np.arange(0, 60, 3)), ef.smooth(order=2)), path)
    grown = ef.append(path, warming(np.array([100, 103, 110, 111, 140])))
    asked = np.array([1, 58, 70, 95, 105, 125])
    close(grown.interp(time=start + asked * hour).values, warming(asked).values, 1e-9)


@pytest.mark.parametrize("first", [0, 1])
def test_levels_of_a_smooth_sounding_take_no_lower_order_than_the_cubic_spline(first):
    # A few wide steps high up, where the sounding bends most, must not decide for all levels.
    levels = np.r_[1, 2, 3, 5, 7, 10, 20, 30, 50, 70, 100:251:25, 300:751:50, 775:1001:25.0]
    kept, out = levels[first::2], levels[1 - first :: 2]
    out = out[(out > kept[0]) & (out < kept[-1])]

    def sounding(p):
        z = 44.3 * (1 - (p / 1013.25) ** 0.19)
        return 215 + 6 * np.logaddexp(0, 12 - z) + 25 * np.exp(-(((z - 45) / 11) ** 2))

    found = ef.fit(sounding(kept), coords=[kept]).grid(out) - sounding(out)
    spline = CubicSpline(kept, sounding(kept))(out) - sounding(out)
    assert np.sqrt(np.mean(found**2)) <= 1.001 * np.sqrt(np.mean(spline**2))
