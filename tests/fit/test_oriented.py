"""oriented(): regions that choose what they believe, from samples to a Field."""

import numpy as np
import pytest

import elmfield as ef
from support import L_SHAPE, close, host, inside, on_samples, partition

SHAPES = [(1,), (2,), (5,), (22,), (23,), (40,), (6, 1), (7, 7), (20, 33), (6, 7, 9), (7, 7, 7)]


def walk(rng, shape):
    """Samples like those of a picture: rough, with slopes."""
    y = rng.standard_normal(shape)
    for k in range(len(shape)):
        y = y.cumsum(axis=k)
    return y / (np.ptp(y) or 1)


def edge(shape, turn=0.5):
    """A slanted edge and a thin line."""
    i, j = np.indices(shape) - np.array(shape)[:, None, None] / 2
    u = i * np.cos(turn) + j * np.sin(turn)
    return np.tanh(u) + np.exp(-(((u - 6) / 1.2) ** 2))


# --- at the samples -------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("wraps", [False, True])
def test_samples_are_met(shape, wraps, rng):
    y = rng.standard_normal(shape)
    field = ef.fit(y, ef.oriented(order=1.1), periodic=range(len(shape)) if wraps else ())
    close(on_samples(field), y, 1e-12)
    points = np.indices(shape).reshape(len(shape), -1).T.astype(float)
    close(field(points), y.reshape(-1), 1e-12)


def test_single_precision_meets_its_samples(rng):
    y = rng.standard_normal((40, 50)).astype(np.float32)
    field = ef.fit(y, ef.oriented())
    assert field.samples().dtype == np.float32
    close(on_samples(field), y, 3e-6)
    close(field.resize(scale=2), ef.fit(y.astype(float), field.settings).resize(scale=2), 1e-4)


# --- properties -----------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    ("shape", "order"),
    [((5,), 1.5), ((5,), 8.0), ((50,), 0.9), ((50,), 3.0), ((4, 9), 1.5), ((4, 9), 8.0)]
    + [((40, 31), order) for order in (0.9, 1.5, 3.0, 8.0)]
    + [((4, 7, 9), 1.5)],
)
def test_ramps_are_exact_half_a_sample_beyond_the_ends(shape, order, rng):
    slopes = np.array([2.0, -0.7, 1.3])[: len(shape)]
    ramp = 3 + np.tensordot(slopes, np.indices(shape), 1)
    field = ef.fit(ramp, ef.oriented(order=order))
    x = inside(rng, shape, 300)
    close(field(x), 3 + x @ slopes, 1e-12 * np.ptp(ramp))
    close(field.gradient(x), np.broadcast_to(slopes, x.shape), 1e-10)


@pytest.mark.parametrize("order", [0.9, 4.0, "auto"])
def test_constants_are_constant(order, rng):
    field = ef.fit(np.full((20, 20), 7.5), ef.oriented(order=order))
    close(field(inside(rng, (20, 20), 100)), np.full(100, 7.5), 1e-12)


@pytest.mark.parametrize("shape", [(60, 47), (12, 40)])
def test_a_turned_array_gives_the_turned_field(shape, rng):
    y = walk(rng, shape) + edge(shape)
    base = ef.fit(y, ef.oriented(order=1.1)).resize(scale=3)
    turned = {
        "mirrored": (lambda a: a[::-1], lambda a: a[::-1]),
        "transposed": (lambda a: a.T, lambda a: a.T),
        "by 90°": (np.rot90, lambda a: np.rot90(a, -1)),
    }
    for name, (there, back) in turned.items():
        field = ef.fit(np.ascontiguousarray(there(y)), ef.oriented(order=1.1))
        np.testing.assert_allclose(back(field.resize(scale=3)), base, 0, 1e-12, err_msg=name)


def test_the_order_found_is_that_of_the_turned_array(rng):
    y = walk(rng, (60, 47))
    found = {ef.fit(a, ef.oriented()).settings for a in (y, y[::-1].copy(), y.T.copy())}
    assert len(found) == 1


def test_channels_say_together_what_is_believed(rng):
    y = rng.standard_normal((20, 20, 3)).cumsum(0).cumsum(1)
    x = inside(rng, (20, 20), 100)
    field = ef.fit(y, ef.oriented(order=1.2), channel_axis=-1)
    back = ef.fit(y[..., ::-1], ef.oriented(order=1.2), channel_axis=-1)
    close(back(x)[..., ::-1], field(x), 1e-10 * np.ptp(y))
    # Equal channels say what one says; a constant one says nothing.
    one = ef.fit(y[..., 0], ef.oriented(order=1.2))(x)
    flat = np.stack([y[..., 0], np.full((20, 20), 5.0)], axis=-1)
    close(ef.fit(flat, ef.oriented(order=1.2), channel_axis=-1)(x)[:, 0], one, 1e-10 * np.ptp(y))


def test_a_periodic_axis_has_no_seam(rng):
    i, j = np.indices((24, 30))
    y = np.cos(2 * np.pi * i / 24) * np.sin(2 * np.pi * j / 30)
    field = ef.fit(y, ef.oriented(order=3.0), periodic=(0, 1))
    x = np.linspace(-0.5, 23.5, 50)
    wanted = np.cos(2 * np.pi * x / 24)[:, None] * np.sin(2 * np.pi * np.arange(30) / 30)
    close(field.grid(x, np.arange(30.0)), wanted, 2e-3)
    side = np.column_stack([np.full(50, -0.5), np.linspace(0, 29, 50)])
    close(field(side), field(side + np.array([24, 0])), 1e-12)


# --- between the samples --------------------------------------------------------------------------


def test_a_slanted_edge_is_better_between_its_samples():
    y = edge((80, 80))
    i, j = np.meshgrid(np.arange(20, 60, 0.5), np.arange(20, 60, 0.5), indexing="ij")
    u = (i - 40) * np.cos(0.5) + (j - 40) * np.sin(0.5)
    wanted = np.tanh(u) + np.exp(-(((u - 6) / 1.2) ** 2))
    errors = [
        np.abs(ef.fit(y, s).grid(i[:, 0], j[0]) - wanted).max()
        for s in (ef.oriented(order=2.0), ef.smooth(order=2.0))
    ]
    assert errors[0] < 0.6 * errors[1]


@pytest.mark.thorough
@pytest.mark.parametrize(("name", "least"), [("kodim05", 24.7), ("kodim23", 33.1)])
def test_photographs_held_out(name, least, data):
    from paper.research import datasets

    values = datasets.load(name)
    thin = ef.fit(values[::2, ::2], ef.oriented())
    found = thin.grid(*(np.arange(n) / 2 for n in values.shape), outside="nearest")
    held = np.ones(values.shape, bool)
    held[::2, ::2] = False
    held[:16], held[-16:], held[:, :16], held[:, -16:] = False, False, False, False
    assert ef.psnr(values[held], found[held], data_range=255) > least


def test_very_smooth_arrays_get_large_boxes(rng):
    i, j = np.indices((64, 64))
    y = np.exp(-((i - 30) ** 2 + (j - 35) ** 2) / 50)
    field = ef.fit(y, ef.oriented())
    assert type(field.settings) is ef.Smooth
    assert field.partition.n_regions < 16
    close(on_samples(field), y, 1e-7)


def test_more_than_three_axes_get_large_boxes(rng):
    y = rng.standard_normal((5, 4, 6, 5))
    assert type(ef.fit(y, ef.oriented()).settings) is ef.Smooth
    with pytest.raises(ValueError, match="at most three axes"):
        ef.fit(y, ef.oriented(order=1.1))


# --- a Field like any other -----------------------------------------------------------------------


@pytest.fixture(scope="module")
def field():
    y = walk(np.random.default_rng(1), (31, 40, 2)) + edge((31, 40))[..., None]
    return ef.fit(y, ef.oriented(order=1.3), channel_axis=-1)


def test_a_crop_keeps_what_it_needs(field):
    crop = field.crop((4.2, 10.0), (17.0, 31.5))
    assert crop.partition.n_regions <= field.partition.n_regions / 2
    assert crop.model.n_coefficients < field.model.n_coefficients / 2
    again = crop.crop((6.0, 12.0), (9.0, 15.0))
    close(again([[7.5, 13.5]]), field([[7.5, 13.5]]), 1e-13)


def test_it_is_its_samples(field):
    assert field.model.n_coefficients == 31 * 40 * 2
    alpha = field.weights(5)
    assert alpha.shape == (22 * 22, 2)
    y = field.samples()
    assert field.report(y)["PSNR at the samples"] > 140
    assert field.report()["rms error by region, largest"] == 0
    assert field.error_map(y).max() < 1e-12
    assert field.to_xarray().shape == (31, 40, 2)


def test_all_its_coefficients_are_kept(field):
    with pytest.raises(TypeError, match=r"is its samples, and keeps all .* keep\(psnr"):
        field.keep(per_region=30)


def test_its_samples_can_be_coded(field):
    y = field.samples()
    small = field.keep(psnr=40)
    assert ef.psnr(y, small.samples()) >= 40
    assert small.n_bytes < field.n_bytes / 4
    squares, part = np.sum((y - small.samples()) ** 2, axis=-1), field.partition
    for left, start, size in zip(small.model.residual, *part.boxes, strict=True):
        at = [part.within(k, start[k] + np.arange(size[k])) for k in range(2)]
        assert left == pytest.approx(squares[np.ix_(*at)].sum(), rel=1e-6)


def test_torch_gives_what_numpy_gives(rng):
    torch = pytest.importorskip("torch")
    y = walk(rng, (30, 26))
    x = inside(rng, (30, 26), 80)
    here, there = ef.fit(y, ef.oriented()), ef.fit(torch.asarray(y), ef.oriented())
    assert here.settings == there.settings
    for ask in (lambda f: f(x), lambda f: f.gradient(x), lambda f: f.resize((50, 31))):
        found = ask(there)
        assert isinstance(found, torch.Tensor)
        close(host(found), ask(here), 1e-9)


@pytest.mark.gpu
def test_the_gpu_gives_what_the_host_gives(rng):
    y = walk(rng, (50, 41))
    x = inside(rng, (50, 41), 64)
    here, there = ef.fit(y, ef.oriented()), ef.fit(y, ef.oriented(), device="cuda")
    for ask in (lambda f: f(x), lambda f: f.hessian(x), lambda f: f.resize((33, 70))):
        found = ask(there)
        assert found.is_cuda
        wanted = ask(here)
        close(found.cpu().numpy(), wanted, 1e-8 * max(1, np.abs(wanted).max()))


def test_complex_samples(rng):
    y = walk(rng, (20, 20)) + 1j * walk(rng, (20, 20))
    close(on_samples(ef.fit(y, ef.oriented())), y, 1e-13)


def test_an_encoder_keeps_its_order_and_gives_each_frame_its_own_beliefs(rng):
    frames = np.stack([walk(rng, (24, 24)) + edge((24, 24), t) for t in (0.2, 1.0, 2.0)])
    encode = ef.encoder((24, 24), ef.oriented())
    fields = encode.batch(frames)
    x = inside(rng, (24, 24), 50)
    for field, frame in zip(fields, frames):
        close(field(x), ef.fit(frame, fields[0].settings)(x), 1e-12)


@pytest.mark.thorough
def test_little_memory_changes_nothing(rng):
    y = walk(rng, (60, 60))
    wanted = ef.fit(y, ef.oriented()).resize(scale=2)
    with ef.memory_limit(1 << 18):
        close(ef.fit(y, ef.oriented()).resize(scale=2), wanted, 1e-11)


# --- bad input ------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", ["smooth", 0, -1, 17, None, (1.0, 2.0)])
def test_orders_that_are_none(order):
    with pytest.raises(ValueError, match="`order` must be 'auto' or a number above 0"):
        ef.oriented(order=order)


@pytest.mark.parametrize("level", [0, -1.0, "some", np.nan])
def test_levels_that_are_none(level):
    with pytest.raises(ValueError, match="standard deviation, above 0: a number"):
        ef.oriented(denoise=level)


def test_clip_is_yes_or_no():
    with pytest.raises(ValueError, match="`clip` must be True or False; got 3"):
        ef.oriented(clip=3)


def test_a_partition_is_refused():
    with pytest.raises(ValueError, match=r"`partition` cannot be given with oriented\(\)"):
        ef.fit(np.zeros((24, 24)), ef.oriented(), partition=partition((24, 24), L_SHAPE, 2.0))


def test_all_masked_is_refused():
    with pytest.raises(ValueError, match="at least one sample that is present"):
        ef.fit(np.full((10, 10), np.nan), ef.oriented())


# --- gaps -----------------------------------------------------------------------------------------


@pytest.mark.thorough
def test_gaps_are_filled_and_what_is_present_is_met(rng):
    y = edge((48, 60))
    missing = rng.random(y.shape) < 0.5
    field = ef.fit(np.where(missing, np.nan, y), ef.oriented())
    close(on_samples(field)[~missing], y[~missing], 1e-12)
    error = np.abs(on_samples(field) - y)[missing]
    plain = np.abs(on_samples(ef.fit(y, ef.smooth(order=1.1), mask=missing)) - y)[missing]
    assert np.mean(error**2) < np.mean(plain**2) / 2


@pytest.mark.parametrize("share", [0.3, 0.7])
def test_ramps_are_exact_through_gaps(share, rng):
    i, j = np.indices((40, 31))
    ramp = 3 + 2.0 * i - 0.7 * j
    field = ef.fit(ramp, ef.oriented(), mask=rng.random(ramp.shape) < share)
    x = inside(rng, ramp.shape, 200)
    close(field(x), 3 + x @ [2.0, -0.7], 1e-9 * np.ptp(ramp))


def test_channels_may_miss_different_samples(rng):
    y = np.stack([edge((30, 30)), edge((30, 30), 1.5)], axis=-1)
    missing = rng.random(y.shape) < 0.3
    field = ef.fit(y, ef.oriented(), mask=missing, channel_axis=-1)
    close(on_samples(field)[~missing], y[~missing], 1e-12)
    assert np.sqrt(np.mean((on_samples(field) - y)[missing] ** 2)) < 0.1
