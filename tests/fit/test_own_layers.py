"""`paper(layers=, solver=, ridge=, dtype=, width=[...])`: fits that keep their output weights."""

import numpy as np
import pytest

import elmfield as ef
import oracles
from support import close, host, inside

NETWORK = {"frequencies": 3, "activation": "cos"}


def by_hand(values, settings, x, *, cell, ridge=0.0, widths=None):
    """Equations 1 and 2 at points x of a mesh without overlap: loops, one region at a time."""
    out = np.empty(len(x))
    n = np.asarray(values.shape) // cell
    for i, corner in enumerate(np.ndindex(*n)):
        start = np.asarray(corner) * cell
        box = tuple(slice(a, a + cell) for a in start)
        grid = np.stack(np.indices((cell, cell)), -1).reshape(-1, 2) + start
        centre, radius = start + (cell - 1) / 2, (cell - 1) / 2
        network = {"width": settings.network.width, **NETWORK}
        if settings.layers == "own":
            network["seed"] = settings.network.of_region(i).seed
        H = oracles.hidden_layer((grid - centre) / radius, **network)
        m = H.shape[1] if widths is None else widths[i]
        A = np.concatenate([H[:, :m], np.sqrt(ridge) * np.eye(m)])
        y = np.concatenate([values[box].reshape(-1), np.zeros(m)])
        alpha = np.linalg.lstsq(A, y, rcond=1e-12)[0]
        mine = ((x >= start - 0.5) & (x < start + cell - 0.5)).all(axis=1)
        there = oracles.hidden_layer((x[mine] - centre) / radius, **network)
        out[mine] = there[:, :m] @ alpha
    return out


@pytest.mark.parametrize(
    "options",
    [
        {"layers": "own"},
        {"layers": "own", "solver": "normal"},
        {"solver": "lstsq"},
        {"solver": "normal"},
        {"ridge": 0.3},
        {"ridge": 0.3, "layers": "own", "solver": "lstsq"},
        {"ridge": 0.3, "solver": "normal"},
    ],
    ids=str,
)
def test_it_is_the_equations_of_the_paper(xp, options, rng):
    values = rng.standard_normal((24, 16))
    settings = ef.paper(cell=8, width=20, overlap=0, **NETWORK, **options)
    field = ef.fit(xp.asarray(values), settings)
    x = inside(rng, values.shape, 80)
    expected = by_hand(values, settings, x, cell=8, ridge=options.get("ridge", 0.0))
    close(field(xp.asarray(x)), expected, 1e-6)
    assert host(field.weights(3)).shape[0] == 20


def test_widths_by_region_take_the_first_neurons(rng):
    values, widths = rng.standard_normal((24, 16)), (20, 3, 12, 1, 7, 20)
    settings = ef.paper(cell=8, width=widths, overlap=0, **NETWORK)
    field = ef.fit(values, settings)
    x = inside(rng, values.shape, 80)
    close(field(x), by_hand(values, settings, x, cell=8, widths=widths), 1e-7)
    assert field.model.n_coefficients == sum(widths)
    with pytest.raises(ValueError, match="one for each of 6 regions; got 2"):
        ef.fit(values, ef.paper(cell=8, width=[3, 4]))
    with pytest.raises(ValueError, match="`width` must be a whole number of at least 1; got 0"):
        ef.paper(width=[3, 0])


def test_regions_draw_different_layers_and_the_same_again():
    layer = ef.Dense(16)
    drawn = [layer.of_region(i) for i in range(50)]
    assert len({d.seed for d in drawn}) == 50
    assert drawn[3] == layer.of_region(3)
    assert ef.Dense(16, seed=1).of_region(3) != drawn[3]
    t = np.linspace(-1, 1, 12).reshape(2, 3, 2)
    for order in ((0, 0), (1, 0), (0, 2), (1, 1)):
        both = layer.each(t, order, np.asarray([4, 9]))
        for g, i in enumerate((4, 9)):
            close(both[g], layer.of_region(i)(t[g], order), 1e-12)


@pytest.mark.thorough
def test_the_default_blends_between_samples_and_meets_them(rng):
    values = rng.random((64, 64))
    field = ef.fit(values, ef.paper(cell=32, width=1024))
    assert field.partition.overlap == (0.5, 0.5)
    assert ef.paper_psnr(values, field.samples()) == pytest.approx(80, abs=1e-6)
    y = np.linspace(0, 63, 301)
    for border, step in ((31.5, 1e-13),):
        for k in (0, 1):
            ends = []
            for s in (-step, step):
                at = np.stack([np.full_like(y, border + s), y], -1)
                ends.append(field(at if k == 0 else at[:, ::-1].copy()))
            assert np.abs(ends[0] - ends[1]).max() < 1e-9 * np.ptp(values)
    jumps = ef.fit(values, ef.paper(cell=32, width=1024, overlap=0))
    close(jumps.samples(), field.samples(), 1e-9)


def test_single_precision_is_worse_and_normal_equations_most(rng):
    values = rng.random((32, 32))
    scores = {
        (solver, dtype): ef.psnr(
            values,
            ef.fit(values, ef.paper(cell=16, width=256, solver=solver, dtype=dtype)).samples(),
        )
        for solver in ("qr", "normal")
        for dtype in ("float64", "float32")
    }
    assert scores["qr", "float64"] > 200
    assert 80 < scores["qr", "float32"] < 150
    assert scores["normal", "float64"] > 120
    assert scores["normal", "float32"] < scores["qr", "float32"] - 20


def test_gaps_are_left_out_of_the_least_squares(rng):
    values = rng.standard_normal((16, 16))
    holes = np.where(rng.random(values.shape) < 0.2, np.nan, values)
    settings = ef.paper(cell=8, width=10, layers="own", overlap=0, **NETWORK)
    field = ef.fit(holes, settings)
    t = np.stack(np.indices((8, 8)), -1).reshape(-1, 2) / 3.5 - 1
    for i, (a, b) in enumerate(np.ndindex(2, 2)):
        part = holes[8 * a : 8 * a + 8, 8 * b : 8 * b + 8].reshape(-1)
        have = ~np.isnan(part)
        H = oracles.hidden_layer(t, width=10, seed=settings.network.of_region(i).seed, **NETWORK)
        alpha = np.linalg.lstsq(H[have], part[have], rcond=None)[0]
        close(field.weights(i), alpha, 1e-7)


def test_a_file_keeps_the_draws_of_a_crop(tmp_path, rng):
    values = rng.standard_normal((32, 32))
    field = ef.fit(values, ef.paper(cell=8, width=12, layers="own")).crop((12, 12), (28, 28))
    ef.save(field, tmp_path / "field.elm")
    x = 12 + 16 * rng.random((40, 2))
    close(ef.load(tmp_path / "field.elm")(x), field(x), 1e-12)
    with pytest.raises(ValueError, match=r"must be 'float64' for .* output weights"):
        ef.save(field, tmp_path / "narrow.elm", dtype="float32")


def test_draws_that_make_no_sense_are_refused(tmp_path, rng):
    field = ef.fit(rng.standard_normal((16, 16)), ef.paper(cell=8, width=12, layers="own"))
    ef.save(field, tmp_path / "field.elm.zarr")
    meta = tmp_path / "field.elm.zarr" / "zarr.json"
    text = meta.read_text()
    assert '"draws"' in text.replace(" ", "")
    compact = text.replace(" ", "").replace("\n", "")
    meta.write_text(compact.replace('"draws":[0,1,2,3]', '"draws":[0,1,-2,3]'))
    with pytest.raises(ef.StoreError):
        ef.load(tmp_path / "field.elm.zarr")(np.asarray([3.0, 3.0]))


def test_errors_by_region_and_refusals(rng):
    values = rng.standard_normal((16, 16))
    field = ef.fit(values, ef.paper(cell=8, width=12, layers="own"))
    off = (field.samples() - values) ** 2
    close(field.error_map()[0, 1], np.sqrt(off[:8, 8:].mean()), 1e-9)
    with pytest.raises(TypeError, match="keeps output weights as they were solved for"):
        field.keep(coefficients=10)
    with pytest.raises(ValueError, match=r"normal equations .* cannot be solved .*64 samples"):
        ef.fit(values, ef.paper(cell=8, width=70, solver="normal"))
    for bad in ({"layers": "mine"}, {"solver": "svd"}, {"dtype": "float16"}, {"ridge": -1}):
        with pytest.raises(ValueError, match=f"`{next(iter(bad))}` must be"):
            ef.paper(**bad)


def test_more_neurons_than_samples_give_the_least_weights(rng):
    values = rng.standard_normal((16, 16))
    field = ef.fit(values, ef.paper(cell=8, width=90, layers="own"))
    close(field.samples(), values, 1e-9)
    H = ef.paper(width=90).network.of_region(0)(
        np.stack(np.indices((8, 8)), -1).reshape(-1, 2) / 3.5 - 1
    )
    expected = np.linalg.pinv(H) @ values[:8, :8].reshape(-1)
    close(field.weights(0), expected, 1e-6 * np.abs(expected).max())


def test_gradients_reach_the_samples():
    torch = pytest.importorskip("torch")
    y = torch.rand(16, 16, dtype=torch.float64, requires_grad=True)
    settings = ef.paper(cell=8, width=20, layers="own", **NETWORK)
    at = torch.rand(5, 2, dtype=torch.float64) * 15
    ef.fit(y, settings)(at).sum().backward()
    step = torch.zeros_like(y)
    step[3, 4] = 1e-4
    up, down = (ef.fit((y + s).detach(), settings)(at).sum() for s in (step, -step))
    assert float(y.grad[3, 4]) == pytest.approx(float(up - down) / 2e-4, abs=1e-6)
