"""Parts of the caller's own: an activation, a window, BEAM's energy; coefficients as an array."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import elmfield as ef
from elmfield._array.backend import namespace
from elmfield.local.layers.dense import ACTIVATIONS

RNG = np.random.default_rng(0)
VALUES, POINTS = RNG.random((40, 44)), RNG.uniform(0, 39, (50, 2))


def bell(z, order):
    """The activation "gaussian" once more."""
    y = namespace(z).exp(-z * z / 2)
    return (y, -z * y, (z * z - 1) * y)[order]


def quintic(t, order):
    """The usual window once more."""
    rest = 1 - t
    return (
        t**3 * (10 - t * (15 - 6 * t)), 30 * (t * rest) ** 2, 60 * t * rest * (rest - t),
        60 * (1 - 6 * t * rest),
    )[order]  # fmt: skip


def cosine(t, order):
    """Half a wave."""
    xp, w = namespace(t), np.pi
    c, s = xp.cos(w * t), xp.sin(w * t)
    return ((1 - c) / 2, w / 2 * s, w**2 / 2 * c, -(w**3) / 2 * s)[order]


def mesh(window=None):
    return ef.Partition.regular((40, 44), (10, 11), 2, equal_boxes=True, window=window)


class TestActivation:
    """``activation=`` as a function."""

    @pytest.mark.parametrize("layers", ["shared", "own"])
    def test_a_function_is_what_its_name_is(self, layers):
        own, named = (
            ef.fit(VALUES, ef.paper(width=200, activation=a, layers=layers))
            for a in (bell, "gaussian")
        )
        assert_allclose(own(POINTS), named(POINTS))
        assert_allclose(own.hessian(POINTS), named.hessian(POINTS))

    def test_torch_too(self):
        torch = pytest.importorskip("torch")
        field = ef.fit(torch.tensor(VALUES), ef.paper(width=200, activation=bell))
        named = ef.fit(VALUES, ef.paper(width=200, activation="gaussian"))
        assert_allclose(field(POINTS), named(POINTS), rtol=1e-6)

    def test_a_file_takes_names_only(self, tmp_path, monkeypatch):
        with pytest.raises(TypeError, match="Give it a name first"):
            ef.save(ef.fit(VALUES, ef.paper(width=50, activation=bell)), tmp_path / "a.elm")
        monkeypatch.setitem(ACTIVATIONS, "bell", bell)
        field = ef.fit(VALUES, ef.paper(width=50, activation="bell"))
        ef.save(field, tmp_path / "a.elm")
        assert_allclose(ef.load(tmp_path / "a.elm")(POINTS), field(POINTS), rtol=1e-9)


@pytest.mark.parametrize("settings", [ef.paper(width=200), ef.smooth(), ef.smooth(order=3)])
class TestWindow:
    """``window=`` as a function."""

    def test_the_usual_one_is_as_usual(self, settings):
        own, usual = (ef.fit(VALUES, settings, partition=mesh(w)) for w in (quintic, None))
        for ask in ("__call__", "gradient", "hessian"):
            want = getattr(usual, ask)(POINTS)
            assert_allclose(getattr(own, ask)(POINTS), want, atol=1e-9 * np.abs(want).max())

    def test_another_one_is_one_function_however_it_is_asked(self, settings):
        own, usual = (ef.fit(VALUES, settings, partition=mesh(w)) for w in (cosine, None))
        found, h = own(POINTS), 1e-5
        assert np.abs(found - usual(POINTS)).max() > 1e-5
        many = np.tile(POINTS, (60, 1))  # beyond what direct sums are for
        assert_allclose(own(many)[:50], found, atol=1e-12)
        assert_allclose(np.diag(own.grid(POINTS[:, 0], POINTS[:, 1])), found, atol=1e-12)
        slopes = [(own(POINTS + h * e) - own(POINTS - h * e)) / (2 * h) for e in np.eye(2)]
        assert_allclose(own.gradient(POINTS), np.stack(slopes, axis=-1), atol=1e-6)
        assert_allclose(own.crop([5, 5], [39, 40])([[20.5, 20.25]]), own([[20.5, 20.25]]))

    def test_torch_too(self, settings):
        torch = pytest.importorskip("torch")
        field = ef.fit(torch.tensor(VALUES), settings, partition=mesh(cosine))
        own = ef.fit(VALUES, settings, partition=mesh(cosine))
        assert_allclose(field(POINTS), own(POINTS), atol=1e-10)

    def test_a_file_does_not_take_it(self, settings, tmp_path):
        with pytest.raises(TypeError, match="`window`"):
            ef.save(ef.fit(VALUES, settings, partition=mesh(cosine)), tmp_path / "a.elm")


def test_tables_and_means_of_samples_with_another_window():
    field = ef.fit(VALUES, partition=mesh(cosine))
    table = field.tabulate(1e-6)
    assert np.abs(table(POINTS) - field(POINTS)).max() <= table.error
    means = ef.fit(VALUES, samples="means", partition=mesh(cosine))
    cells = means.means(np.arange(41) - 0.5, np.arange(45) - 0.5)
    assert_allclose(cells, VALUES, atol=1e-6)


@pytest.mark.parametrize("wrong", [3, "x", lambda t, order: 0 * t, lambda t, order: 1.0])
def test_what_is_no_window(wrong):
    with pytest.raises(ValueError, match="`window` must be a function"):
        mesh(wrong)


class TestEnergy:
    """BEAM's ``energy=`` as a function."""

    def test_regions_balance_it(self):
        def count(boxes):  # samples that are not 0
            return (boxes != 0).sum(axis=tuple(range(1, boxes.ndim))).astype(float)

        made = ef.beam(VALUES + 1, cell=(10, 11), threshold=220, energy=count, shapes="boxes")
        assert made.n_regions == 8
        assert_allclose(made.energies, 220)
        assert "own energy" in repr(made)

    def test_what_is_zero_has_an_energy_too(self):
        made = ef.beam(
            np.zeros((32, 32)), cell=8, threshold=130, shapes="boxes",
            energy=lambda boxes: np.full(len(boxes), float(boxes[0].size)),
        )  # fmt: skip
        assert_allclose(made.energies, 128)

    def test_roughness_is_not_where_the_norm_is(self):
        def variation(boxes):
            steps = [np.abs(np.diff(boxes, axis=k)) for k in (2, 3)]
            return sum(s.sum(axis=(1, 2, 3)) for s in steps)

        own = ef.beam(VALUES, cell=8, regions=10, energy=variation)
        assert own.n_regions == 10
        assert (own.labels != ef.beam(VALUES, cell=8, regions=10).labels).any()
        assert np.isfinite(ef.fit(VALUES, ef.paper(width=64), partition=own)(POINTS)).all()

    @pytest.mark.parametrize("wrong", [3, lambda y: y, lambda y: -np.ones(len(y)), lambda y: None])
    def test_what_is_none(self, wrong):
        with pytest.raises((TypeError, ValueError), match="`energy` must"):
            ef.beam(VALUES, cell=8, regions=10, energy=wrong)


class TestCoefficients:
    """``field.weights()``: one array, and back."""

    @pytest.mark.parametrize(
        "settings",
        [ef.smooth(order=2), ef.oriented(), ef.paper(cell=(20, 22), width=90), None],
    )
    def test_there_and_back(self, settings, tmp_path):
        field = ef.fit(VALUES, settings)
        c = field.weights()
        assert c.shape[0] == field.partition.n_regions
        back = field.weights(new=c)
        assert_allclose(back(POINTS), field(POINTS), atol=1e-12)
        ef.save(back, tmp_path / "a.elm")
        assert_allclose(ef.load(tmp_path / "a.elm")(POINTS), field(POINTS), atol=1e-9)

    def test_they_are_linear(self):
        one, two = (ef.fit(v, ef.smooth(order=2)) for v in (VALUES, VALUES**2))
        mean = one.weights(new=(one.weights() + two.weights()) / 2)
        off = (one.model.offset - two.model.offset) / 2  # constants that were taken off
        assert_allclose(mean(POINTS) - off, (one(POINTS) + two(POINTS)) / 2, atol=1e-9)

    def test_torch_follows_them(self):
        torch = pytest.importorskip("torch")
        field = ef.fit(torch.tensor(VALUES), ef.smooth(order=2))
        c = field.weights().clone().requires_grad_()
        field.weights(new=c)(POINTS).sum().backward()
        assert_allclose((c.grad * c).sum().detach(), (field(POINTS) - field.model.offset).sum())

    def test_what_is_refused(self):
        with pytest.raises(ValueError, match="kinds of boxes"):
            ef.fit(VALUES, ef.paper(cell=17, width=50)).weights()
        with pytest.raises(ValueError, match="`new` must have shape"):
            ef.fit(VALUES).weights(new=np.ones(3))
        with pytest.raises(ValueError, match="be left out"):
            ef.fit(VALUES).weights(0, new=np.ones(3))


def test_one_module_for_many_pictures():
    torch = pytest.importorskip("torch")
    batch = torch.tensor(np.stack([VALUES, VALUES**2, -VALUES]))
    module = ef.fit(batch, ef.smooth(order=2), channel_axis=0).module()
    each = torch.stack([ef.fit(b, ef.smooth(order=2))(POINTS) for b in batch], dim=-1)
    assert_allclose(module(torch.tensor(POINTS)).detach(), each, atol=1e-9)
