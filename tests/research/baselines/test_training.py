"""The loop: logs, seeds, clocks, targets, rates; on a GPU too."""

import dataclasses
import re

import numpy as np
import pytest

import elmfield as ef
from paper.research import baselines
from paper.research.baselines import Schedule
from support import ROOT, close

torch = pytest.importorskip("torch", reason="the baselines need torch")

from paper.research.baselines import activations  # noqa: E402
from paper.research.baselines import training as training_module  # noqa: E402
from paper.research.baselines.training import Training  # noqa: E402
from research.baselines.small import SMALL, every_method  # noqa: E402


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "steps", "least"),
    [
        (baselines.siren(hidden=64, layers=3, rate=1e-3), 150, 30),
        (baselines.ffn(hidden=64, layers=2, rate=3e-3, n_frequencies=64, scale=5), 150, 30),
        (baselines.gaussnet(hidden=64, layers=3, rate=3e-3), 150, 30),
        (baselines.wire(hidden=64, layers=2), 150, 30),
        (baselines.hashgrid(), 150, 50),
    ],
    ids=list(SMALL),
)
def test_each_learns_a_small_picture(camera, method, steps, least):
    model = baselines.fit(camera, method, Schedule(steps=steps))
    assert ef.paper_psnr(camera, model.samples()) >= least
    assert model.log[0].paper_psnr < 15


@every_method
@pytest.mark.parametrize("batch", [None, 40])
def test_a_row_of_the_log_is_the_network_after_so_many_steps(small, method, batch):
    long = baselines.fit(small, method, Schedule(steps=5, every=2, batch=batch, rate=3e-3))
    assert [row.step for row in long.log] == [0, 2, 4, 5]
    for row in long.log[1:]:
        short = baselines.fit(small, method, Schedule(steps=row.step, batch=batch, rate=3e-3))
        # float32 errors, summed in another order
        assert row.paper_psnr == pytest.approx(short.log[-1].paper_psnr, abs=1e-4)
        assert row.paper_psnr == pytest.approx(ef.paper_psnr(small, short.samples()), abs=1e-4)
    assert long.log[0].paper_psnr < long.log[-1].paper_psnr
    seconds = [row.seconds for row in long.log]
    assert seconds == sorted(seconds)
    assert seconds[0] >= 0
    assert seconds[-1] > 0


@every_method
@pytest.mark.parametrize("batch", [None, 40])
def test_one_seed_one_result(small, method, batch):
    a, b, c = (
        baselines.fit(small, method, Schedule(steps=4, every=1, batch=batch, seed=s))
        for s in (1, 1, 2)
    )
    assert [r.paper_psnr for r in a.log] == [r.paper_psnr for r in b.log]
    assert all(torch.equal(p, q) for p, q in zip(a.network.parameters, b.network.parameters))
    assert a.log[-1].paper_psnr != c.log[-1].paper_psnr
    assert np.array_equal(a.samples(), b.samples())


@pytest.mark.parametrize("seed", [4, np.int64(4)])
def test_first_weights_are_those_of_the_seed(small, seed):
    training = Training(small, SMALL["siren"], Schedule(seed=seed))
    again = SMALL["siren"].network(small.shape, 1, np.random.default_rng(4))
    assert all(torch.equal(p, q) for p, q in zip(training.network.parameters, again.parameters))


class Clock:
    """A clock for training: it moves by `step` whenever it is looked at."""

    def __init__(self, monkeypatch, step=0.0):
        self.now, self.step = 0.0, step
        monkeypatch.setattr(training_module, "time", self)

    def perf_counter(self):
        self.now += self.step
        return self.now


def test_the_clock_stops_training(small, monkeypatch):
    Clock(monkeypatch, step=0.01)  # looked at once a step, and where training begins and ends
    model = baselines.fit(small, SMALL["siren"], Schedule(steps=10**6, seconds=0.3, every=10**6))
    assert 25 < model.log[-1].step < 35
    assert 0.3 <= model.log[-1].seconds < 0.35
    assert model.log[-1].paper_psnr == pytest.approx(
        ef.paper_psnr(small, model.samples()), abs=1e-4
    )


@pytest.mark.parametrize("batch", [None, 40])
def test_the_target_stops_training(small, batch):
    options = {"rate": 3e-3, "batch": batch, "every": 5}
    model = baselines.fit(small, SMALL["siren"], Schedule(steps=1000, target=30, **options))
    *before, last = model.log
    assert last.paper_psnr >= 30 > before[-1].paper_psnr
    assert last.step % 5 == 0
    assert last.step < 1000
    # No step was taken beyond the row that met it.
    assert ef.paper_psnr(small, model.samples()) == pytest.approx(last.paper_psnr, abs=1e-4)


def test_evaluation_is_not_on_the_clock(small, monkeypatch):
    clock, whole = Clock(monkeypatch), Training._whole

    def slow(self):
        clock.now += 100
        return whole(self)

    monkeypatch.setattr(Training, "_whole", slow)
    model = baselines.fit(small, SMALL["ffn"], Schedule(steps=4, every=1, batch=10))
    assert len(model.log) == 5
    assert clock.now == 500
    assert model.log[-1].seconds == 0


@pytest.mark.parametrize(
    ("decay", "half", "end"), [(None, 1, 1), ("cosine", 0.5, 0), ("exponential", 0.1**0.5, 0.1)]
)
def test_the_rate_falls_as_the_schedule_says(small, decay, half, end):
    schedule = Schedule(steps=10, rate=2e-3, decay=decay)
    assert [schedule.factor(k) for k in (0, 5, 10)] == pytest.approx([1, half, end])
    training = Training(small, SMALL["siren"], schedule)
    training.advance(6)
    assert training.optimiser.param_groups[0]["lr"] == pytest.approx(2e-3 * half)


def test_each_method_has_its_own_adam(small):
    grid = Training(small, SMALL["hashgrid"], Schedule()).optimiser.param_groups[0]
    sine = Training(small, SMALL["siren"], Schedule()).optimiser.param_groups[0]
    assert (grid["lr"], grid["betas"], grid["eps"]) == (1e-2, (0.9, 0.99), 1e-15)
    assert (sine["lr"], sine["betas"], sine["eps"]) == (1e-4, (0.9, 0.999), 1e-8)
    assert sine["weight_decay"] == 0
    assert (
        Training(small, SMALL["siren"], Schedule(rate=3e-4)).optimiser.param_groups[0]["lr"] == 3e-4
    )


def test_only_the_first_layer_keeps_full_precision(small, monkeypatch):
    seen, product = [], torch.addmm

    def spy(*args):
        seen.append(torch.get_float32_matmul_precision())
        return product(*args)

    monkeypatch.setattr(torch, "addmm", spy)
    baselines.fit(small, SMALL["siren"], Schedule(steps=1, precision="high"))
    assert seen == ["highest", "high", "high"] * 2
    assert torch.get_float32_matmul_precision() == "highest"


def test_progress_is_told(small):
    told = []
    baselines.fit(
        small, SMALL["siren"], Schedule(steps=5, every=2), progress=lambda *a: told.append(a)
    )
    assert told == [("train", k, 5) for k in (0, 2, 4, 5)]


def test_the_page_of_the_manual_runs(tmp_path, monkeypatch):
    page = (ROOT / "paper" / "baselines.md").read_text()
    monkeypatch.chdir(tmp_path)
    names = {}
    for block in re.findall(r"```python\n(.*?)```", page, re.DOTALL):
        exec(compile(block, "paper/baselines.md", "exec"), names)
    assert names["model"].log[-1].paper_psnr > 40
    assert names["own"].log[-1].paper_psnr > 40
    assert (tmp_path / "sine.npz").stat().st_size > 4 * names["own"].n_parameters / 2


@pytest.mark.gpu
@every_method
def test_the_gpu_trains_the_same_network(small, method):
    here, there = (
        baselines.fit(small, method, Schedule(steps=3, every=1, rate=1e-4), device=d)
        for d in ("cpu", "cuda")
    )
    for a, b in zip(here.log, there.log):
        assert a.paper_psnr == pytest.approx(b.paper_psnr, abs=0.02)
    assert isinstance(there.samples(), np.ndarray)
    close(there.samples(), here.samples(), 0.02)
    tensor = baselines.fit(torch.as_tensor(small).cuda(), method, Schedule(steps=1))
    assert tensor.samples().device.type == "cuda"


@pytest.mark.gpu
def test_tf32_does_not_touch_the_first_layer(rng):
    x, W, b = rng.uniform(-1, 1, (500, 2)), rng.uniform(-1, 1, (2, 64)), np.zeros(64)
    with activations.matmul_precision("high"):
        z = activations.exactly(
            *(torch.as_tensor(t, dtype=torch.float32).cuda() for t in (x, W, b))
        )
    close(z.cpu(), x @ W, 1e-6)


@pytest.mark.gpu
@every_method
def test_compiled_activations_train_the_same_network(small, method):
    usual = Schedule(steps=3, every=1, rate=1e-4)
    plain, compiled = (
        baselines.fit(small, method, dataclasses.replace(usual, compiled=c), device="cuda")
        for c in (False, True)
    )
    for a, b in zip(plain.log, compiled.log):
        assert a.paper_psnr == pytest.approx(b.paper_psnr, abs=1e-3)


def test_compiled_activations_are_asked_for_only_where_wanted(small, monkeypatch):
    asked = []
    monkeypatch.setattr(activations, "_compiled", lambda work: asked.append(work.__name__) or work)
    baselines.fit(small, SMALL["wire"], Schedule(steps=1))
    assert not asked
    baselines.fit(small, SMALL["wire"], Schedule(steps=1, compiled=True))
    assert {"_gabor", "_gabor_slope"} <= set(asked)
    assert not activations.fused.on


def test_a_training_that_diverges_says_so(small):
    with pytest.warns(RuntimeWarning, match=r"training diverged within 30 steps at rate=1e\+20"):
        baselines.fit(small, SMALL["ffn"], Schedule(steps=30, rate=1e20))
