"""Networks of one's own: trained, scored, kept."""

from functools import partial

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose

import elmfield as ef
from elmfield.errors import StoreError
from paper.research import baselines
from paper.research.baselines import Schedule
from research.baselines.small import SMALL, every_method


class Sine(torch.nn.Module):
    """A SIREN in a few lines."""

    def __init__(self, d, channels, hidden=32, omega=20.0):
        super().__init__()
        self.layers = torch.nn.ModuleList(
            [torch.nn.Linear(d, hidden), torch.nn.Linear(hidden, hidden)]
        )
        self.last, self.omega = torch.nn.Linear(hidden, channels), omega
        with torch.no_grad():
            self.layers[0].weight.uniform_(-1 / d, 1 / d)
            for layer in (self.layers[1], self.last):
                bound = (6 / hidden) ** 0.5 / omega
                layer.weight.uniform_(-bound, bound)

    def forward(self, x):
        for layer in self.layers:
            x = torch.sin(self.omega * layer(x))
        return self.last(x)


def picture():
    y, x = np.mgrid[0:18, 0:22] / 20
    return 1 + np.sin(5 * x * y) * np.cos(3 * y)


@pytest.mark.parametrize("given", [Sine, lambda d, C: Sine(d, C), Sine(2, 1)])
def test_any_module_trains(given):
    model = baselines.fit(picture(), given, Schedule(steps=150, rate=3e-3))
    assert model.log[-1].paper_psnr > model.log[0].paper_psnr + 10
    assert ef.psnr(picture(), model.samples()) > 25
    assert model.n_parameters == sum(p.numel() for p in Sine(2, 1).parameters())


def test_its_settings_and_channels():
    values = np.stack([picture(), 2 - picture()])
    method = baselines.own(Sine, rate=3e-3, interval=(0.0, 1.0))
    model = baselines.fit(values, method, Schedule(steps=60), channel_axis=0)
    assert model.samples().shape == values.shape
    again = baselines.fit(values, method, Schedule(steps=60), channel_axis=0)
    assert_allclose(again.samples(), model.samples())  # one seed, one result
    ranked = baselines.search(picture(), [method, SMALL["siren"]], Schedule(steps=20))
    assert len(ranked) == 2


@every_method
def test_gradients_are_the_slopes(method):
    model = baselines.fit(picture(), method, Schedule(steps=20, rate=1e-3))
    at, h = np.random.default_rng(0).uniform(1, 16, (60, 2)), 0.02
    found = model.gradient(at)
    assert found.shape == (60, 2)
    for k in range(2):
        step = h * np.eye(2)[k]
        slope = (model(at + step) - model(at - step)) / (2 * h)
        gap = np.abs(found[:, k] - slope)
        assert np.median(gap) < 0.02 * np.abs(found).max()  # the others straddle a kink
    assert np.isnan(model.gradient([[99.0, 0.0]], outside="nan")).all()


def test_gradients_of_channels_and_a_known_plane():
    class Plane(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.w = torch.nn.Parameter(torch.tensor([[1.0, 0.5], [0.25, -1.0]]))

        def forward(self, x):
            return x @ self.w

    values = np.stack([picture(), picture()], axis=-1)
    still = Schedule(steps=1, rate=1e-12)
    model = baselines.fit(values, Plane(), still, channel_axis=-1)
    scale = np.ptp(picture()) / 2
    wanted = scale * np.array([[1.0, 0.25], [0.5, -1.0]]) * [2 / 18, 2 / 22]
    assert_allclose(model.gradient([[3.0, 4.0]])[0], [wanted[0], wanted[1]], rtol=1e-5)


def test_held_out_scores_of_any_way_to_fit():
    train = partial(baselines.fit, method=Sine, schedule=Schedule(steps=150, rate=3e-3))
    theirs = ef.heldout_score(picture(), train)
    assert 15 < theirs < ef.heldout_score(picture())
    with pytest.raises(TypeError, match="or be a way to fit, a function of an array; got 3"):
        ef.heldout_score(picture(), 3)
    with pytest.raises(TypeError, match="leave them out with your own fit"):
        ef.heldout_score(picture(), train, periodic=[0])


@every_method
def test_published_ones_in_files(tmp_path, method):
    model = baselines.fit(picture(), method, Schedule(steps=5, rate=1e-3))
    baselines.save(model, tmp_path / "x.npz")
    back = baselines.load(tmp_path / "x.npz")
    assert back.method == method
    assert back.log == model.log
    assert_allclose(back.samples(), model.samples(), atol=1e-6)


def test_ones_own_in_files(tmp_path):
    model = baselines.fit(picture(), Sine, Schedule(steps=5))
    baselines.save(model, tmp_path / "x.npz")
    with pytest.raises(ValueError, match="a network of somebody's own; say how it is made"):
        baselines.load(tmp_path / "x.npz")
    assert_allclose(baselines.load(tmp_path / "x.npz", Sine).samples(), model.samples(), atol=1e-6)
    with pytest.raises(ValueError, match="was written for another network"):
        baselines.load(tmp_path / "x.npz", lambda d, C: Sine(d, C, hidden=8))
    with pytest.raises(ValueError, match=r"ends in \.npz; got 'x\.pt'"):
        baselines.save(model, tmp_path / "x.pt")
    (tmp_path / "bad.npz").write_bytes(b"nothing")
    with pytest.raises(StoreError, match=r"bad\.npz is no file of a trained network"):
        baselines.load(tmp_path / "bad.npz")


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        (lambda d, C: torch.nn.Linear(d + 1, C), RuntimeError, "shapes cannot be multiplied"),
        (lambda d, C: torch.nn.Linear(d, C + 1), ValueError, r"to values of shape \(n, 1\)"),
        (lambda d, C: 3, TypeError, "must make a torch.nn.Module; got a int"),
        (lambda d, C: torch.nn.Flatten(), ValueError, "must map points of shape"),
        (3, ValueError, r"such as baselines.siren\(\); got 3"),
    ],
)
def test_what_is_no_network(given, error, message):
    with pytest.raises(error, match=message):
        baselines.fit(picture(), given, Schedule(steps=1))
