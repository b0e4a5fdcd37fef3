"""Fields in torch: elsewhere, as modules, followed by points and by samples."""

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
    at, way = torch.as_tensor(x), torch.as_tensor(rng.standard_normal(y.shape))

    def values(samples):
        return ef.fit(samples, settings, mask=mask)(at)

    samples, step = torch.as_tensor(y).requires_grad_(), 1e-6
    found = values(samples)
    ahead, behind = (values(samples + s * way).detach() for s in (step, -step))
    for i in range(len(x)):
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
    assert isinstance(there.offset, torch.Tensor)
    close(there(torch.as_tensor(x)), field(x), 1e-10)
    close(there.to("numpy")(x), field(x), 1e-12)
    close(field.to(there.offset)(torch.as_tensor(x)), field(x), 1e-10)
    ef.save(field, tmp_path / "a.elm")
    loaded = ef.load(tmp_path / "a.elm", device="cpu")
    assert isinstance(loaded.offset, torch.Tensor)
    close(loaded(torch.as_tensor(x)), field(x), 1e-10)


@pytest.mark.parametrize("options", [{}, {"periodic": 1}, {"coords": [np.arange(20) ** 1.2, None]}])
def test_modules_are_the_field(options, y, rng):
    field = ef.fit(y, **options)
    x = np.column_stack([rng.random(9) * 18, rng.random(9) * 15])
    at = torch.as_tensor(x)
    for module, tolerance in ((field.module(), 1e-11), (field.tabulate(1e-8).module(), 1e-7)):
        close(module(at).detach(), field(x), tolerance)
        slopes = torch.func.vmap(torch.func.jacrev(module))(at)
        close(slopes.detach(), field.gradient(x), 30 * tolerance)
        other = type(module).__name__
        assert "coefficients" in module.state_dict(), other
    close(field.module()(at + 100.0).detach(), field(x + 100.0, outside="nearest"), 1e-11)


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
        found = torch.compile(module, fullgraph=True)(at)
        close(found.detach(), module(at).detach(), 1e-12)


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
@pytest.mark.filterwarnings("ignore:This DataLoader will create 8 worker")
@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
@pytest.mark.parametrize(("start", "workers"), [("fork", 8), ("spawn", 1)])
def test_workers_read_one_file_and_get_right_values(start, workers, rng, tmp_path):
    field = ef.fit(rng.standard_normal((160, 160)))
    ef.save(field, tmp_path / "a.elm")
    data = Asked(tmp_path / "a.elm")
    data[0]  # the file has been read from, and its place in it moved
    loader = torch.utils.data.DataLoader(
        data, batch_size=None, num_workers=workers, multiprocessing_context=start
    )
    found = dict(loader)
    assert sorted(found) == list(range(48))
    for i, values in found.items():
        close(values, field(places(i)), 1e-12)
