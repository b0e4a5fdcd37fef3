"""Tables: within their certified error of the field, everywhere; and which way points are asked."""

import pickle

import numpy as np
import pytest

import elmfield as ef
from elmfield._array import compiled
from elmfield.field import lookup, sweeps
from elmfield.field.blended import Blended
from elmfield.field.polynomials import Polynomials
from elmfield.field.sweeps import Sweep
from elmfield.field.tables import expanded
from elmfield.field.tabulating import dropped
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
    assert max(table.errors) <= tolerance * field.data_range
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


@pytest.mark.parametrize("kind", ["line", "plane", "around", "volume", "channels"])
def test_terms_beyond_a_degree_add_no_more_than_is_said(kind, rng):
    """Sums of sizes along the last axis against all terms, one by one, and sizes of everything."""
    shape, settings, options = KINDS[kind]
    expansion = expanded(ef.fit(walk(rng, *shape), settings, **options))
    full = len(expansion.axes) * (expansion.n_terms - 1)
    every = list(expansion.blocks(full, full, 2))
    for degree in (1, 3, 6):
        for (_, all_terms, _), (_, block, said) in zip(every, expansion.blocks(degree, full, 2)):
            assert block.shape[-2] < all_terms.shape[-2]
            true = dropped(expansion, all_terms, full, [degree], 2)[:, 0]
            assert np.all(true <= said * (1 + 1e-9))
            assert np.all(said <= expansion.beyond[:, degree])


def test_products_of_polynomials_rise_no_faster_than_is_said(rng):
    """Mixed derivatives too, which at the corners of a cell exceed the others."""
    expansion = expanded(ef.fit(rng.random((20, 20))))
    s = np.linspace(-1, 1, 201)
    for t in ((3, 3), (2, 5), (4, 0)):
        one = [[T.deriv(i)(s) for i in range(3)] for T in map(np.polynomial.Chebyshev.basis, t)]
        for order in range(3):
            said = expansion.slopes(order, np.asarray([t])).max()
            both = [np.abs(np.outer(one[0][i], one[1][order - i])).max() for i in range(order + 1)]
            close(said, 2.0**order * max(both), 1e-12)  # s crosses a cell of one sample in two


def test_cells_that_are_alike_are_multiplied_together(rng):
    """Work per row of regions does not grow with their number, but for the sizes of matrices."""
    calls = [
        len(expanded(ef.fit(rng.random((40, n))))._stacks(1, slice(0, n), np.zeros(1)))
        for n in (320, 1280)
    ]
    assert calls[0] == calls[1] < 10


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
    with pytest.raises(ValueError, match="`order` must be 0, 1 or 2"):
        field.tabulate(1e-3, 3)
    with pytest.raises(TypeError, match="only fields of product modes"):
        ef.fit(y, ef.paper(cell=16, width=32)).tabulate()


# --- which way ------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [k for k in KINDS if k != "oriented"])
def test_a_few_points_are_asked_as_many(kind, rng, way):
    shape, settings, options = KINDS[kind]
    field = ef.fit(walk(rng, *shape), settings, **options)
    direct = field._lookup.direct(field)
    x = anywhere(rng, field, 60)
    d, C = x.shape[1], field.blended.n_channels
    for a in [(0,) * d, (1,) + (0,) * (d - 1), (0,) * (d - 1) + (2,)]:
        (few,), (many,) = (f.partials(x, [a]) for f in (direct, field.blended))
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


@pytest.mark.parametrize(
    "kind", [k for k in KINDS if k not in ("oriented", "line", "around, between samples")]
)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_many_points_are_swept(kind, dtype, rng, monkeypatch):
    if not compiled.installed():
        pytest.skip("numba is not installed")
    monkeypatch.setattr(compiled, "pays", lambda work: True)
    monkeypatch.setattr(lookup, "MANY", 100)
    shape, settings, options = KINDS[kind]
    field = ef.fit(walk(rng, *shape).astype(dtype), settings, **options)
    x = anywhere(rng, field, 3001)
    x[1000:1900] = x[1000]  # a row of many points, others of few or none
    sweep, d = field.function_for(100), x.shape[1]
    assert isinstance(sweep, Sweep)
    if kind == "blended oddly":  # five cells of the lattice a sample
        monkeypatch.setattr(sweeps, "DENSE", 0.05)
    assert sweeps.Places.make(sweep.expansion, x) is not None
    orders = [(0,) * d, (1,) + (0,) * (d - 1), (0,) * (d - 1) + (2,), (1,) + (0,) * (d - 2) + (1,)]
    for a, found in zip(orders, sweep.partials(x, orders)):
        assert found.dtype == dtype
        loose = (1e-9 if dtype == "float64" else 3e-5) * 10 ** sum(a)
        close(found, field.blended.partials(x, [a])[0], loose)
    few = x[:: 3001 // 20]  # too few for the rows they lie in
    close(sweep.partials(few, orders[:1])[0], sweep.partials(x, orders[:1])[0][:: 3001 // 20], 1e-5)


def test_what_has_no_bound_is_not_swept(rng, monkeypatch):
    if not compiled.installed():
        pytest.skip("numba is not installed")
    monkeypatch.setattr(compiled, "pays", lambda work: True)
    field = ef.fit(walk(rng, 20, 15))
    direct = field._lookup.direct(field)
    x = anywhere(rng, field, 2000)
    for allowed, orders in [(1e-30, [(0, 0)]), (1.0, [(2, 1)])]:
        swept = Sweep(expanded(field), allowed, direct).partials(x, orders)[0]
        assert np.array_equal(swept, direct.partials(x, orders)[0])


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_a_table_comes_when_it_pays(dtype, rng, monkeypatch, way):
    monkeypatch.setattr(lookup, "MANY", 100)
    field = ef.fit(walk(rng, 20, 15).astype(dtype))
    pays = lookup.PAYS_COMPILED if way == "compiled" else lookup.PAYS[dtype]
    x = anywhere(rng, field, pays * 300 // 2)  # half of what it takes
    first = field(x)
    assert isinstance(field.function_for(100), Sweep if way == "compiled" else Blended)
    field(x)
    assert isinstance(field.function_for(100), Polynomials)
    close(field(x), first, (1e-9 if dtype == "float64" else 1e-5) * field.data_range)
    assert field.function_for(99) is not field.function_for(100)
    again = pickle.loads(pickle.dumps(field))
    assert "_lookup" not in again.__dict__
    close(again(x[:5]), first[:5], 1e-9 if dtype == "float64" else 1e-5)


def test_a_table_too_large_to_keep_does_not_come(rng, monkeypatch, way):
    monkeypatch.setattr(lookup, "MANY", 500)
    monkeypatch.setattr(lookup.CACHE, "max_bytes", 1000)
    field = ef.fit(walk(rng, 20, 15))
    x = anywhere(rng, field, 4000)
    for _ in range(2):
        field(x)
    assert not isinstance(field.function_for(1000), Polynomials)


def test_long_lines_are_what_their_points_are(rng):
    field = ef.fit(walk(rng, 9000, 2), channel_axis=-1)
    (x,) = field.places(7777)
    values = field.resize(7777, antialias=False)
    some = rng.integers(0, 7777, 300)
    close(values[some], field(x[some, None]), 1e-12)
    long = ef.fit(walk(rng, 2, 9000))
    close(long.samples(), long(np.argwhere(np.ones((2, 9000))).astype(float)).reshape(2, -1), 1e-9)
