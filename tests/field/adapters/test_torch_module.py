"""Fields in torch: elsewhere, as modules, followed by points and by samples."""

import copy
import pickle

import numpy as np
import pytest

import elmfield as ef
from tests.support import close

torch = pytest.importorskip("torch")


@pytest.fixture
def y(rng):
    return rng.standard_normal((20, 17)).cumsum(0).cumsum(1) / 100


@pytest.fixture
def x(rng):
    return rng.random((5, 2)) * [18, 15] + 0.3


MADE = {
    "default": lambda y, rng: ef.fit(y),
    "oriented": lambda y, rng: ef.fit(y, ef.oriented()),
    "denoised": lambda y, rng: ef.fit(y, ef.smooth(denoise=0.05)),
    "masked": lambda y, rng: ef.fit(y, mask=torch.as_tensor(rng.random((20, 17)) < 0.2)),
    "table": lambda y, rng: ef.fit(y).tabulate(1e-6, 2),
    "scattered": lambda y, rng: ef.fit_points(
        torch.as_tensor(rng.random((60, 2)) * 20), torch.as_tensor(rng.random(60))
    ),
}


@pytest.mark.parametrize("made", MADE)
def test_torch_follows_points(made, y, rng):
    field = MADE[made](torch.as_tensor(y), rng)
    x = torch.as_tensor(rng.random((3, 2)) * 14 + 1.2).requires_grad_()
    assert torch.autograd.gradcheck(field, (x,))
    assert torch.autograd.gradgradcheck(field, (x,))


DERIVED = {
    "smooth": (ef.smooth(order=2, cell=6), {}),  # blends of several cells
    "oriented": (ef.oriented(), {}),
    "paper": (ef.paper(cell=8, width=32, activation="tanh"), {}),
    "merged": (ef.paper(width=12, activation="tanh"), {"regions": 5}),
}


@pytest.mark.parametrize("made", DERIVED)
def test_torch_follows_derivatives_at_points(made, y, rng):
    # Third derivatives ended in an IndexError in blends, and were wrong in dense layers.
    settings, merged = DERIVED[made]
    cut = ef.beam(y, cell=4, **merged) if merged else None
    field = ef.fit(torch.as_tensor(y), settings, partition=cut)
    x = torch.as_tensor(rng.random((2, 2)) * 14 + 1.2).requires_grad_()
    assert torch.autograd.gradgradcheck(field.gradient, (x,))
    assert torch.autograd.gradcheck(field.hessian, (x,))
    assert torch.autograd.gradcheck(field.laplacian, (x,))


def assert_linear(values, y, rng):
    """Values of a linear function rise by their derivatives times the way, however long."""
    samples, way = torch.as_tensor(y).requires_grad_(), rng.standard_normal(y.shape)
    found = values(samples)
    close(found.detach(), values(y), 1e-10)
    for value, rise in zip(found, values(y + way) - values(y)):
        (slope,) = torch.autograd.grad(value, samples, retain_graph=True)
        close((slope.numpy() * way).sum(), rise, 1e-9)


@pytest.mark.parametrize("samples", ["points", "means"])
@pytest.mark.parametrize("options", [{}, {"periodic": 1}, {"mask": np.eye(9, 8, dtype=bool)}])
def test_torch_follows_linear_fits(samples, options, rng):
    at, y = rng.random((2, 2)) * 6 + 0.4, rng.standard_normal((9, 8))

    def values(y):
        return ef.fit(y, ef.smooth(order=2, cell=5), samples=samples, **options)(at)

    assert_linear(values, y, rng)


@pytest.mark.parametrize("network", [{"width": 12}, {"width": 12, "frequencies": 0}])
@pytest.mark.filterwarnings("ignore::elmfield.RankWarning")
def test_torch_follows_least_squares_on_merged_regions(network, rng):
    y = rng.standard_normal((12, 12)).cumsum(0)
    cut, settings = ef.beam(y, cell=4, regions=4), ef.paper(**network)
    at = rng.random((3, 2)) * 10 + 0.2

    def values(y):
        return ef.fit(y, settings, partition=cut)(at)

    assert_linear(values, y, rng)
    assert_linear(values, y, rng)  # nothing that the first time kept belongs to its samples


PRESETS = {
    "default": None,
    "order": ef.smooth(order=2),
    "oriented": ef.oriented(),
    "paper": ef.paper(cell=10, width=60),
    "dense": ef.smooth(order=2, network=ef.Dense(300)),
}


@pytest.mark.parametrize("preset", PRESETS)
def test_autocast_changes_neither_fits_nor_what_is_asked(preset, y, x):
    samples, at = torch.as_tensor(y.astype("float32")), torch.as_tensor(x)
    asked = {
        "values": lambda f: f(at),
        "slopes": lambda f: f.gradient(at),
        "grid": lambda f: f.resize((30, 11)),
        "mean": lambda f: f.integral([1, 2], [11, 12]),
    }
    plain = ef.fit(samples, PRESETS[preset])
    learnt = samples.clone().requires_grad_()
    (slope,) = torch.autograd.grad(ef.fit(learnt, PRESETS[preset])(at).sum(), learnt)
    ef.cache_modes(clear=True)  # what is made in the block is for all that follow
    with torch.autocast("cpu", dtype=torch.bfloat16):
        cast = ef.fit(samples, PRESETS[preset])
        within = {name: ask(cast) for name, ask in asked.items()}
        total = ef.fit(learnt, PRESETS[preset])(at).sum()
    (found,) = torch.autograd.grad(total, learnt)
    for name, ask in asked.items():
        for values in (within[name], ask(cast)):
            assert torch.equal(values, ask(plain)), name
    assert torch.equal(found, slope)


@pytest.mark.parametrize("preset", PRESETS)
def test_what_inference_mode_kept_is_trained_with(preset, y, x):
    # Factors kept from it could not be saved for backward.
    samples, at = torch.as_tensor(y), torch.as_tensor(x)
    ef.cache_modes(clear=True)
    with torch.inference_mode():
        field = ef.fit(samples, PRESETS[preset])
        moved, few = field.to("cpu"), field.tabulate(1e-6) if preset == "default" else field
        field(at)
    for made in (field, moved, few):
        points = at.clone().requires_grad_()
        made(points).sum().backward()
        close(points.grad, field.gradient(x), 1e-5)
    learnt = samples.clone().requires_grad_()
    ef.fit(learnt, PRESETS[preset])(at).sum().backward()
    assert float(learnt.grad.abs().sum()) > 0
    with torch.inference_mode():
        assert not ef.fit(learnt, PRESETS[preset])(at).requires_grad


def test_points_of_torch_ask_a_field_of_numpy(y, x):
    field = ef.fit(y)
    for ask in (field, field.gradient, field.tabulate()):
        found = ask(torch.as_tensor(x))
        assert isinstance(found, np.ndarray)
        assert np.array_equal(found, ask(x))
    with pytest.raises(TypeError, match=r"not followed by a field of NumPy arrays\. Move"):
        field(torch.as_tensor(x).requires_grad_())


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
def test_tensors_without_numbers_are_refused(y, x):
    field, at = ef.fit(torch.as_tensor(y)), torch.as_tensor(x)
    for ask in (torch.func.vmap(field), torch.func.jacrev(field), torch.func.hessian(field)):
        with pytest.raises(TypeError, match=r"vmap, jacrev, \.\.\.\)\. Ask field\.module\(\)"):
            ask(at)
    with pytest.raises(TypeError, match=r"got a tensor on torch's meta device .* field\.module"):
        field(at.to("meta"))
    for fit in (ef.fit, lambda values: ef.fit_points(at.to("meta"), values[:5, 0])):
        with pytest.raises(TypeError, match="must hold numbers; got a tensor on torch's meta"):
            fit(torch.as_tensor(y).to("meta"))
    with pytest.raises(TypeError, match=r"encoder\.batch"):
        torch.func.vmap(lambda values: ef.fit(values)(at))(torch.as_tensor(y)[None])


@pytest.mark.parametrize(
    "made",
    [
        "default",
        "oriented",
        "masked",
        pytest.param("denoised", marks=pytest.mark.slow),
        pytest.param("of a level", marks=pytest.mark.slow),
    ],
)
def test_torch_follows_samples(made, y, x, rng):
    mask = torch.as_tensor(rng.random((20, 17)) < 0.2) if made == "masked" else None
    settings = {
        "oriented": ef.oriented(),
        "denoised": ef.smooth(denoise=True),
        "of a level": ef.smooth(denoise=0.2),
    }.get(made)
    at, way = torch.as_tensor(x[:2]), torch.as_tensor(rng.standard_normal(y.shape))

    def values(samples):
        return ef.fit(samples, settings, mask=mask)(at)

    samples, step = torch.as_tensor(y).requires_grad_(), 1e-6
    found = values(samples)
    ahead, behind = (values(samples + s * way).detach() for s in (step, -step))
    for i in range(len(at)):
        (slope,) = torch.autograd.grad(found[i], samples, retain_graph=True)
        assert abs(float(slope.sum()) - 1) < 1e-9  # a constant comes back
        close((ahead[i] - behind[i]) / (2 * step), (slope * way).sum(), 2e-6)


def test_what_cannot_be_followed_is_refused(y):
    samples = torch.as_tensor(y).requires_grad_()
    with pytest.raises(TypeError, match="error target"):
        ef.fit(samples, ef.smooth(psnr=30))
    places = torch.as_tensor(np.random.default_rng(0).random((9, 2)))
    with pytest.raises(TypeError, match="denoising"):
        ef.fit_points(places, samples[0, :9], denoise=True)
    field = ef.fit(samples, ef.smooth(order=2))
    for made, what in ((field.tabulate, "a table"), (field.module, "a module, whose coeff")):
        with pytest.raises(TypeError, match=f"cannot be followed through {what}"):
            made()
    with pytest.raises(TypeError, match="positions that require gradients"):
        ef.fit_points(places.requires_grad_(), y[0, :9])


@pytest.mark.parametrize("d", [1, 2, 3])
def test_torch_follows_scattered_values(d, rng):
    places = rng.random((20, d))
    places[7] = places[3]  # averaged
    at, order = torch.as_tensor(rng.random((4, d)) * 0.8 + 0.1), ef.smooth(order=2)
    places, bounds = torch.as_tensor(places), ([0] * d, [1] * d)

    def values(y):
        return ef.fit_points(places, y, order, bounds=bounds)(at)

    y = torch.as_tensor(rng.standard_normal((20, 2)))
    # Linear in the values: a large step rounds least.
    assert torch.autograd.gradcheck(values, (y.clone().requires_grad_(),), eps=0.1)
    y[11, 0] = float("nan")  # left out
    found = values(y.requires_grad_())
    for i in range(len(at)):
        (slope,) = torch.autograd.grad(found[i, 1], y, retain_graph=True)
        close(slope.sum(0), [0, 1], 1e-9)  # a constant comes back, in its channel
        assert not slope[11].any()


@pytest.mark.parametrize(
    "settings", [None, ef.oriented(), ef.smooth(psnr=40), ef.paper(cell=8, width=32)]
)
def test_a_field_elsewhere_is_the_same(settings, y, x, tmp_path):
    field = ef.fit(y, settings)
    there = field.to("cpu")
    assert isinstance(there.model.offset, torch.Tensor)
    close(there(torch.as_tensor(x)), field(x), 1e-10)
    close(there.to("numpy")(x), field(x), 1e-12)
    close(field.to(there.model.offset)(torch.as_tensor(x)), field(x), 1e-10)
    ef.save(field, tmp_path / "a.elm")
    loaded = ef.load(tmp_path / "a.elm", device="cpu")
    assert isinstance(loaded.model.offset, torch.Tensor)
    close(loaded(torch.as_tensor(x)), field(x), 1e-10)


MODULES = {
    "picture": ((40, 37), {}),
    "line": ((150,), {}),
    "volume": ((14, 13, 12), {"settings": ef.smooth(cell=8)}),
    "colours": ((20, 17, 3), {"channel_axis": -1}),
    "periodic": ((20, 17), {"periodic": 1}),
    "uneven": ((20, 17), {"coords": [np.arange(20) ** 1.2, None]}),
    "oriented": ((20, 17), {"settings": ef.oriented()}),
}


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
@pytest.mark.parametrize("kind", MODULES)
def test_modules_are_the_field(kind, rng):
    shape, options = MODULES[kind]
    field = ef.fit(rng.standard_normal(shape).cumsum(0) / 10, **options)
    ends = np.asarray([a.from_index(np.asarray([0, a.size - 1.0])) for a in field.domain.axes])
    x = ends[:, 0] + rng.random((20000, len(ends))) * (ends[:, 1] - ends[:, 0])
    at = torch.as_tensor(x)
    for module, tolerance in ((field.module(), 1e-10), (field.tabulate(1e-8).module(), 1e-7)):
        for n in (0, 1, 9, 300, 20000):  # one by one, by region, by interval of some axes or all
            assert module(at[:n]).shape == field(x[:n]).shape
            close(module(at[:n]).detach(), field(x[:n]), tolerance)
        slopes = torch.func.vmap(torch.func.jacrev(module))(at[:9])
        close(slopes.detach(), field.gradient(x[:9]), 30 * tolerance)
        assert "coefficients" in module.state_dict()
    outside = field(x[:9] + 100.0, outside="nearest")
    close(field.module()(at[:9] + 100.0).detach(), outside, 1e-10)


@pytest.mark.parametrize("n", [3, 3000])
def test_modules_are_followed_by_points_and_parameters(n, rng):
    field = ef.fit(rng.standard_normal((9, 8)))
    module, x = field.module(), rng.random((n, 2)) * [8, 7]
    at = torch.as_tensor(x).requires_grad_()
    (slope,) = torch.autograd.grad(module(at).sum(), at, create_graph=True)
    close(slope.detach(), field.gradient(x), 1e-10)
    (bend,) = torch.autograd.grad(slope.sum(), at)
    close(bend, field.hessian(x).sum(axis=-1), 1e-9)
    # Linear in the parameter: a long way is as good as a short one.
    before, way = module(at).detach(), torch.as_tensor(rng.standard_normal(n))
    (rise,) = torch.autograd.grad((module(at) * way).sum(), module.coefficients)
    with torch.no_grad():
        step = torch.as_tensor(rng.standard_normal(module.coefficients.shape))
        module.coefficients += step
    close(((module(at) - before) * way).sum().detach(), (rise * step).sum(), 1e-9 * n)


def test_modules_keep_their_precision_and_can_be_copied(y, x):
    field, at = ef.fit(y.astype("float32")), torch.as_tensor(x)
    module, values = field.module(), field(x)
    for other in (copy.deepcopy(module), pickle.loads(pickle.dumps(module)), module.double()):
        close(other(at).detach(), values, 1e-6)
    close(copy.deepcopy(module).half()(at).detach().double(), values, 1e-2)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        close(module(at).detach(), values, 1e-6)
    with torch.inference_mode():
        made = field.module()
        close(made(at), values, 1e-6)
    made(at).sum().backward()


def test_a_module_learns(y, x):
    module = ef.fit(y).module()
    (weights,) = module.parameters()
    module(torch.as_tensor(x)).sum().backward()
    assert float(weights.grad.abs().sum()) > 0
    with pytest.raises(TypeError, match="become modules"):
        ef.fit(y, ef.paper(cell=8, width=32)).module()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
def test_modules_compile_in_one_graph(y, x):
    field = ef.fit(y)
    at = torch.as_tensor(x)
    for module in (field.module(), field.tabulate(1e-4, 0).module()):
        found = torch.compile(module, fullgraph=True, backend="aot_eager")(at)
        close(found.detach(), module(at).detach(), 1e-12)
        n = torch.export.Dim("n")
        exported = torch.export.export(module, (at,), dynamic_shapes=({0: n},)).module()
        traced = torch.jit.trace(module, at)
        for other in (exported, traced):  # asked as many points as it was not made with
            close(other(at[:2]).detach(), module(at[:2]).detach(), 1e-12)


class Asked(torch.utils.data.Dataset):
    """A field in a file, opened before the workers start: item i is its values at some points."""

    def __init__(self, path):
        self.field = ef.load(path)  # reads regions when they are asked for

    def __len__(self):
        return 48

    def __getitem__(self, i):
        return i, self.field(places(i))


def places(i):
    return np.random.default_rng(i).random((20, 2)) * 150


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:This DataLoader will create 4 worker")
@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
def test_workers_read_one_file_and_get_right_values(rng, tmp_path):
    field = ef.fit(rng.standard_normal((160, 160)))
    ef.save(field, tmp_path / "a.elm")
    data = Asked(tmp_path / "a.elm")
    data[0]  # the file has been read from, and its place in it moved
    loader = torch.utils.data.DataLoader(
        data, batch_size=None, num_workers=4, multiprocessing_context="fork"
    )
    found = dict(loader)
    assert sorted(found) == list(range(48))
    for i, values in found.items():
        close(values, field(places(i)), 1e-12)


@pytest.mark.parametrize(
    "dtype", ["uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64", "bool"]
)
@pytest.mark.parametrize("settings", [None, ef.oriented()], ids=["default", "oriented"])
def test_tensors_come_back_in_their_dtype(dtype, settings, y):
    kind = getattr(torch, dtype)
    given = torch.as_tensor(y * 40 > 2) if dtype == "bool" else torch.as_tensor(y * 40).to(kind)
    found = ef.fit(given, settings).samples()
    assert found.dtype == kind
    assert torch.equal(found, given)
    found[0, 0] = 1 - found[0, 0] if dtype != "bool" else ~found[0, 0]  # a copy
    assert torch.equal(ef.fit(given, settings).samples(), given)


@pytest.mark.parametrize("dtype", ["int64", "uint64"])
@pytest.mark.parametrize("settings", [None, ef.oriented()], ids=["default", "oriented"])
def test_large_whole_numbers_of_tensors(dtype, settings, y):
    given = (2**60 + torch.as_tensor(y * 1e6).to(torch.int64)).to(getattr(torch, dtype))
    with pytest.warns(UserWarning, match="more than float64 holds"):
        field = ef.fit(given, settings)
    assert torch.equal(field.samples(), given)
    close(field([[3.0, 4.0]]) / 2**60, [1], 1e-9)


def test_complex_tensors_come_back_to_the_last_bit():
    given = torch.complex(torch.randn(9, 8), torch.randn(9, 8))
    given[0, 0] = complex(-0.0, 1.0)
    found = ef.fit(given).samples()
    assert found.dtype == torch.complex64
    assert torch.equal(torch.signbit(found.real), torch.signbit(given.real))
    assert torch.equal(found, given)


@pytest.mark.parametrize("settings", [None, ef.oriented()], ids=["default", "oriented"])
def test_samples_are_followed_to_where_they_came_from(settings, y):
    given = torch.as_tensor(y).requires_grad_()
    found = ef.fit(given, settings).samples()
    close(found.detach(), y, 1e-12)
    (slope,) = torch.autograd.grad((found**2).sum(), given)
    close(slope, 2 * y, 1e-11)
