"""Tables: within their certified error of the field, everywhere; and which way points are asked."""

import pickle
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

import elmfield as ef
from elmfield.field.tables.direct_sums import (
    DENSE_MIN_POINTS,
    DIRECT_MAX_POINTS,
    Direct,
    direct_sums,
)
from elmfield.field.tables.polynomials import Polynomials, exponents, n_terms
from elmfield.field.tables.table import _rounding_weights, dropped, expanded
from tests.support import close


def walk(rng, *shape):
    y = rng.standard_normal(shape)
    for k in range(len(shape)):
        y = np.cumsum(y, axis=k)
    return y / np.ptp(y)


KINDS = {
    "line": ((90,), None, {}),
    "plane": ((40, 33), None, {}),
    "around": ((40, 33), None, {"periodic": (1,)}),
    "volume": ((9, 8, 10), None, {}),
    "blended between samples": ((40, 33), ef.smooth(cell=16, overlap=0.5, order=1.5), {}),
    "not blended": ((40, 33), ef.smooth(cell=16, overlap=0, order=1.5), {}),
    "blended oddly": ((40, 33), ef.smooth(cell=16, overlap=0.3, order=1.5), {}),
    "around, between samples": ((33,), ef.smooth(cell=8, overlap=0.5, order=1.5), {"periodic": 0}),
    "few coefficients": ((40, 33), ef.smooth(psnr=40), {}),
    "oriented": ((20, 23), ef.oriented(), {}),
    "channels": ((30, 20, 2), None, {"channel_axis": -1}),
    "flat": ((1, 30), None, {}),
}


def anywhere(rng, field, n):
    """Points all over the domain, its borders, samples and cell borders too."""
    low, high = np.asarray(field.domain.low), np.asarray(field.domain.high)
    x = low + rng.random((n, len(low))) * (high - low)
    x[: n // 4] = np.round(2 * x[: n // 4]) / 2
    return np.clip(x, low, high)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("tolerance", "order"), [(1e-2, 0), (1e-5, 0), (1e-4, 1), (1e-2, 2)])
def test_no_point_is_farther_than_the_error(kind, tolerance, order, rng):
    shape, settings, options = KINDS[kind]
    field = ef.fit(walk(rng, *shape), settings, **options)
    table = field.tabulate(tolerance, order)
    assert len(table.errors) == order + 1
    assert max(table.errors) <= tolerance * field.model.data_range
    x = anywhere(rng, field, 600)
    for o, ask in enumerate(("__call__", "gradient", "hessian")[: order + 1]):
        inside = x if kind != "not blended" else x[150:]  # it jumps at borders
        off = np.abs(getattr(table, ask)(inside) - getattr(field, ask)(inside)).max()
        assert off <= table.errors[o] * (1 + 1e-6)


def test_the_error_is_not_far_from_what_is_true(rng):
    field = ef.fit(walk(rng, 40, 33))
    table = field.tabulate(1e-4, 0)
    x = anywhere(rng, field, 4000)
    assert np.abs(table(x) - field(x)).max() > table.error / 20


@pytest.mark.slow
@pytest.mark.parametrize("d", [1, 2, 3, 4])
def test_no_part_of_the_error_can_be_left_out(d, rng):
    """Along one axis alone the bound is nearly reached: by terms that are looked at one by one, by
    those of the last axis in sums of sizes, by those of other axes in sizes of everything."""
    for axis in {0, d - 1}:
        line = 1000 * rng.standard_normal(12).reshape([12 if k == axis else 1 for k in range(d)])
        shape = [12 if k == axis else 2 for k in range(d)]
        field = ef.fit(np.broadcast_to(line, shape), ef.smooth(cell=12, order=1.5))
        x = rng.random((300, d))
        x[:, axis] = np.linspace(-0.5, 11.5, 300)
        ratios = []
        for tolerance, order in [(10.0**-k, o) for k in (1, 2, 2.5, 3, 3.5) for o in (0, 1)]:
            table = field.tabulate(tolerance, order)
            assert max(table.errors) <= tolerance * field.model.data_range
            for o, ask in enumerate(("__call__", "gradient")[: order + 1]):
                off = np.abs(getattr(table, ask)(x) - getattr(field, ask)(x)).max()
                assert off <= table.errors[o] + 1e-12 * field.model.data_range
                ratios.append(off / table.errors[o])
        assert max(ratios) > 0.6


@pytest.mark.slow
@pytest.mark.parametrize(
    ("settings", "options"),
    [
        (ef.smooth(order=1.5), {}),
        (ef.smooth(order=1.5, cell=3, overlap=0.5), {"periodic": (0,)}),
        (ef.oriented(), {}),  # of more than three axes it is smooth
    ],
)
def test_four_axes_and_their_windows(settings, options, rng):
    field = ef.fit(walk(rng, 6, 5, 4, 5), settings, **options)
    window = {"axis0": (2.49, 5.5), "axis1": (0.0, 2.01), "axis3": (-0.5, 1.26)}
    ends = [window.get(f"axis{k}", (-0.5, n - 0.5)) for k, n in enumerate(field.shape)]
    low, high = np.transpose(ends)
    x = low + (high - low) * np.clip(rng.random((300, 4)) * 1.2 - 0.1, 0, 1)
    for tolerance, order in [(1e-1, 0), (1e-2, 0), (1e-1, 1)]:
        table = field.tabulate(tolerance, order, window=window)
        assert max(table.errors) <= tolerance * field.model.data_range
        for o, ask in enumerate(("__call__", "gradient")[: order + 1]):
            off = np.abs(getattr(table, ask)(x) - getattr(field, ask)(x)).max()
            assert off <= table.errors[o] * (1 + 1e-9)


def test_a_tight_error_holds_wherever_blends_end(rng):
    """Places on axes were known to nine decimals: thirds of a sample were 1e-9 of the range off."""
    for overlap in (0.3, 1 / 3, 3 / 14, 0.5):
        field = ef.fit(walk(rng, 40), ef.smooth(cell=8, overlap=overlap, order=1.5))
        x = anywhere(rng, field, 400)
        truth = field.model.finish(field.model.blended.partials(x, [(0,)])[0], True)[:, 0]
        close(field(x), truth, 1e-13)
        for tolerance in (1e-9, 1e-11):
            table = field.tabulate(tolerance, 0)
            assert np.abs(table(x) - truth).max() <= table.error


@pytest.mark.parametrize("d", [1, 2, 3, 4])
def test_rounding_is_at_most_what_is_counted(d, rng):
    """Few points and many, of numbers of like sizes, and of one beside many that are lost to it."""
    degree = {1: 16, 2: 12, 3: 9, 4: 8}[d]
    T, unit = n_terms(d, degree), 2.0**-24
    small = np.full(T, 0.49 * 2 * unit)
    small[0] = 1
    for c in (rng.standard_normal(T), rng.random(T), small):
        c = c.astype("float32").reshape(1, T, 1)
        exact, own = (
            Polynomials(low=(0.0,) * d, per_unit=(2,) * d, counts=(1,) * d, degree=degree,
                        coefficients=c.astype(dtype))
            for dtype in ("float64", "float32")
        )  # fmt: skip
        narrow, _ = _rounding_weights(d, degree, 2, 1)
        x = np.concatenate([np.full((1, d), 0.5), rng.random((299, d)) / 2])
        orders = [a for a in exponents(d, 2) if max(a) < 3]
        for some in (x[:40], x):
            found = zip(orders, own.partials(some, orders), exact.partials(some, orders))
            for a, values, truth in found:
                off = np.abs(values - truth).max()
                assert off <= unit * (narrow[sum(a)] @ np.abs(c[0, :, 0]))


def test_places_are_rounded_too():
    """x less the beginning of the lattice has a digit less than x where it reaches a power of 2."""
    J = 4096
    own = Polynomials(low=(-0.5,), per_unit=(1,), counts=(J + 1,), degree=1,
                      coefficients=np.tile([[0.0], [1.0]], (1, J + 1))[None])  # fmt: skip
    x = np.nextafter(J - 0.25, J)
    exact = 2 * (Fraction(x) - J + Fraction(1, 2)) - 1
    off = abs(Fraction(float(own.partials(np.array([[x]]), [(0,)])[0][0, 0])) - exact)
    narrow, wide = (w[0, 1] for w in _rounding_weights(1, 1, 1, J + 1))
    assert 2.0**-53 * narrow < off <= 2.0**-53 * (narrow + wide)


def test_rounding_is_part_of_the_error(rng):
    """Of a ramp, whose polynomials leave nothing out."""
    field = ef.fit(np.add.outer(np.linspace(0, 1, 20), np.zeros(15)).astype("float32"))
    rough, exact = field.tabulate(1e-3, 1), field.tabulate(1e-9, 1)
    assert rough.polynomials.coefficients.dtype == np.float32
    x = anywhere(rng, field, 500)
    for a in ((0, 0), (1, 0), (0, 1)):
        one, other = (t.polynomials.partials(x, [a])[0] for t in (rough, exact))
        off = np.abs(one - other).max() * float(field.model.scale[0])
        assert exact.errors[sum(a)] < off <= rough.errors[sum(a)]


@pytest.mark.parametrize("kind", ["line", "around", "volume"])
def test_what_expansions_leave_over_is_counted(kind, rng):
    """Functions of the axes that are off by so much, here in their first terms."""
    shape, settings, options = KINDS[kind]
    expansion = expanded(ef.fit(walk(rng, *shape), settings, **options).model)
    plain = replace(expansion, axes=tuple(replace(a, left_over=0.0) for a in expansion.axes))
    assert np.all(plain.beyond[:, -1] == 0)
    x = rng.random((200, len(shape))) * np.subtract(shape, 1)
    (truth,) = Direct(plain.blended, plain.axes).partials(x, [(0,) * len(shape)])
    for k, own in enumerate(expansion.axes):
        rows = own.rows.copy()
        rows[:, 0] += 1e-6 * np.sign(rng.standard_normal(rows[:, 0].shape))
        axes = [replace(own, rows=rows) if j == k else a for j, a in enumerate(plain.axes)]
        (off,) = Direct(plain.blended, tuple(axes)).partials(x, [(0,) * len(shape)]) - truth
        axes = [replace(own, left_over=1e-6) if j == k else a for j, a in enumerate(plain.axes)]
        said = replace(plain, axes=tuple(axes)).beyond[:, -1]
        assert np.abs(off * expansion.scale).max() <= said[0] < said[1] < said[2]


def test_many_points_are_few_points_one_by_one(rng):
    field = ef.fit(walk(rng, 40, 33, 2), channel_axis=-1)
    table = field.tabulate(1e-6, 1)
    x = anywhere(rng, field, 1500)
    close(table(x)[:20], table(x[:20]), 1e-13)
    close(table.gradient(x)[:20], table.gradient(x[:20]), 1e-12)
    assert table(x[0]).shape == (2,)
    assert table(x.reshape(3, 500, 2)).shape == (3, 500, 2)


def test_derivatives_of_all_orders_at_once_are_those_one_by_one(rng):
    field = ef.fit(walk(rng, 9, 8, 10))
    own, x = field.tabulate(1e-4, 2).polynomials, rng.random((400, 3)) * 7
    orders = [(0, 0, 0), (2, 0, 0), (1, 0, 1), (0, 1, 0), (0, 2, 1), (1, 1, 1), (own.degree, 1, 0)]
    together = own.partials(x, orders)
    for a, found in zip(orders, together):
        close(found, own.partials(x, [a])[0], 1e-12)
        few = np.concatenate([own.partials(x[i : i + 100], [a])[0] for i in range(0, 400, 100)])
        close(found, few, 1e-11)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["line", "plane", "around", "volume", "channels"])
def test_terms_beyond_a_degree_add_no_more_than_is_said(kind, rng):
    """Bounds from sizes of everything against all terms, one by one."""
    shape, settings, options = KINDS[kind]
    expansion = expanded(ef.fit(walk(rng, *shape), settings, **options).model)
    full = len(expansion.axes) * (expansion.n_terms - 1)
    for _, block in expansion.blocks(full, range(len(expansion.runs))):
        for degree in (1, 3, 6):
            true = dropped(expansion, block, full, [degree], 2)[:, 0]
            assert np.all(true <= expansion.beyond[:, degree])


def test_products_of_polynomials_rise_no_faster_than_is_said(rng):
    """Mixed derivatives too, which at the corners of a cell exceed the others."""
    expansion = expanded(ef.fit(rng.random((20, 20))).model)
    s = np.linspace(-1, 1, 201)
    for t in ((3, 3), (2, 5), (4, 0)):
        one = [[T.deriv(i)(s) for i in range(3)] for T in map(np.polynomial.Chebyshev.basis, t)]
        for order in range(3):
            said = expansion.slopes(order, np.asarray([t])).max()
            both = [np.abs(np.outer(one[0][i], one[1][order - i])).max() for i in range(order + 1)]
            close(said, 2.0**order * max(both), 1e-12)  # s crosses a cell of one sample in two


def test_units_names_and_what_lies_outside(rng):
    lat, lon = np.linspace(60, -30, 40), 360 / 32 * np.arange(32)
    field = ef.fit(walk(rng, 40, 32), dims=("lat", "lon"), coords=[lat, lon], periodic={"lon": 360})
    table = field.tabulate(1e-7)
    x = np.column_stack([rng.uniform(-30, 60, 50), rng.uniform(-400, 800, 50)])
    close(table(x), field(x), 1e-7)
    close(table.gradient(x), field.gradient(x), 1e-6)
    with pytest.raises(ef.OutsideDomainError, match="'lat'"):
        table([[80.0, 0.0]])
    assert np.isnan(table([[80.0, 0.0]], outside="nan")[0])
    part = field.tabulate(1e-7, window={"lat": (0.0, 40.0)})
    assert part.n_bytes < table.n_bytes / 1.5
    close(part([[10.0, 33.0]]), field([[10.0, 33.0]]), 1e-7)
    with pytest.raises(ValueError, match="`window` names"):
        field.tabulate(window={"depth": (0, 1)})
    for ends in ((350, 10), (-10, 10)):  # not from 10 to 350
        with pytest.raises(ValueError, match="not reach over the seam"):
            field.tabulate(window={"lon": ends})


def test_single_precision_is_kept_where_it_is_enough(rng):
    field = ef.fit(walk(rng, 40, 33).astype("float32"))
    rough, fine = field.tabulate(1e-4, 0), field.tabulate(1e-7, 0)
    assert rough.polynomials.coefficients.dtype == np.float32
    assert fine.polynomials.coefficients.dtype == np.float64
    assert fine([[3.0, 4.0]]).dtype == np.float32


def test_complex_numbers(rng):
    field = ef.fit(walk(rng, 20, 20) + 1j * walk(rng, 20, 20))
    x = anywhere(rng, field, 300)
    table = field.tabulate(1e-6, 0)
    assert np.abs(table(x) - field(x)).max() <= 2**0.5 * table.error


def test_what_cannot_be_is_said(rng):
    y = walk(rng, 40, 33)
    field = ef.fit(y)
    with ef.memory_limit(1 << 17), pytest.raises(MemoryError, match=r"MiB .* numbers for each"):
        field.tabulate()
    with pytest.raises(ValueError, match=r"`tolerance` .* too small|cannot be met"):
        field.tabulate(1e-18)
    with pytest.raises(ValueError, match="`tolerance` must be a positive"):
        field.tabulate(0)
    with pytest.raises(ValueError, match=r"`order` must be one of \[0, 1, 2\]"):
        field.tabulate(1e-3, 3)
    with pytest.raises(TypeError, match="only fields of product modes"):
        ef.fit(y, ef.paper(cell=16, width=32)).tabulate()


# --- which way ------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [k for k in KINDS if k != "oriented"])
def test_a_few_points_are_asked_as_many(kind, rng):
    shape, settings, options = KINDS[kind]
    field = ef.fit(walk(rng, *shape), settings, **options)
    direct = direct_sums(field.model)
    x = anywhere(rng, field, 60)
    d, C = x.shape[1], field.model.blended.n_channels
    for a in [(0,) * d, (1,) + (0,) * (d - 1), (0,) * (d - 1) + (2,)]:
        (few,), (many,) = (f.partials(x, [a]) for f in (direct, field.model.blended))
        assert few.shape == (60, C)
        close(few, many, 1e-10 * 100 ** sum(a))


def test_one_point_is_any_other(rng):
    field = ef.fit(walk(rng, 40, 33, 2), channel_axis=-1)
    x = anywhere(rng, field, 30)
    close(np.stack([field(p) for p in x]), field(x), 1e-13)
    assert field(x[:1]).shape == (1, 2)
    single = ef.fit(walk(rng, 40, 33))
    assert np.shape(single(x[0])) == ()
    with pytest.raises(ef.OutsideDomainError):
        single(np.array([50.0, 0.0]))
    with pytest.raises(ef.OutsideDomainError):
        single(np.array([np.nan, 0.0]))
    with pytest.raises(ValueError, match="`outside` must be"):
        single(x[0], outside="here")


ASKED = {
    "value": lambda field, x: field(x),
    "gradient": lambda field, x: field.gradient(x),
    "hessian": lambda field, x: field.hessian(x),
}


UNEVEN = np.cumsum(1 + 0.5 * np.sin(np.arange(40)))
PLANES = {k: v for k, v in KINDS.items() if k != "oriented" and len(v[0]) > 1} | {
    "uneven": ((40, 33), None, {"coords": [UNEVEN, np.arange(33.0)]}),
}


@pytest.mark.parametrize("kind", PLANES)
def test_dense_points_are_summed_to_the_same(kind, rng):
    """Along the first axis first, for all points of an interval: against sums over regions."""
    shape, settings, options = PLANES[kind]
    model = ef.fit(walk(rng, *shape), settings, **options).model
    direct, N = model.direct, model.blended.partition.n_cells
    n = max(DENSE_MIN_POINTS * N[0] * direct.axes[-1].count, DIRECT_MAX_POINTS + 1)
    assert direct.is_dense(n) == (len(N) == 2)
    assert not direct.is_dense(DIRECT_MAX_POINTS)
    assert (kind == "uneven") == (direct.axes[0].per_step is not None)
    if len(N) != 2:
        return
    x = rng.random((n, 2)) * np.subtract(model.shape, 1)
    x[: n // 2, 0] *= 0.1  # most of them in one corner, and none in some cells
    orders = [(0, 0), (1, 0), (0, 1), (1, 1), (0, 2)]
    for a, one, other in zip(orders, direct.partials(x, orders), model.blended.partials(x, orders)):
        close(one, other, 1e-12 * 100 ** sum(a))


@pytest.mark.parametrize("order", [0, 1, 2])
def test_terms_are_left_out_that_a_dtype_does_not_hold(order, rng):
    own = ef.fit(walk(rng, 40, 33)).model.direct.axes[0]
    short, last = own.within_rounding(np.dtype(np.float32), order), np.finfo(np.float32).eps / 16
    assert own.within_rounding(np.dtype(np.float64), order).rows.shape == own.rows.shape
    assert short.rows.shape[1] < own.rows.shape[1]
    left = own.rows.copy()
    left[:, : short.rows.shape[1]] = 0
    slopes = np.polynomial.chebyshev.chebder(left, order, scl=2 * own.per_unit, axis=1)
    off = np.polynomial.chebyshev.chebval(np.linspace(-1, 1, 101), np.moveaxis(slopes, 1, 0))
    assert np.abs(off).max() <= last * np.abs(own.rows).max()


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_answers_depend_on_the_point_alone(kind, dtype, rng):
    """On no other point of the call, nor on their number, nor on what was asked before."""
    shape, settings, options = KINDS[kind]
    field = ef.fit(walk(rng, *shape).astype(dtype), settings, **options)
    fresh = pickle.loads(pickle.dumps(field))
    x = anywhere(rng, field, DIRECT_MAX_POINTS + 500)
    some = rng.permutation(len(x))[:40]
    for order, (name, ask) in enumerate(ASKED.items()):
        # Rounding alone: derivatives of the highest of some 40 functions are 6 and 40 times as
        # large, and what polynomials of 12 terms round more than that.
        loose = (1e-12 if dtype == "float64" else 1e-4) * 100**order
        many = ask(field, x)
        close(ask(field, x[some]), many[some], loose)
        close(np.stack([ask(field, x[i]) for i in some[:5]]), many[some[:5]], loose)
        assert np.array_equal(ask(fresh, x), many), name
        assert np.array_equal(ask(field, x), many), name


def test_long_lines_are_what_their_points_are(rng):
    field = ef.fit(walk(rng, 9000, 2), channel_axis=-1)
    (x,) = field.model.coordinates.positions(7777)
    values = field.resize(7777, antialias=False)
    some = rng.integers(0, 7777, 300)
    close(values[some], field(x[some, None]), 1e-12)
    long = ef.fit(walk(rng, 2, 9000))
    close(long.samples(), long(np.argwhere(np.ones((2, 9000))).astype(float)).reshape(2, -1), 1e-9)
