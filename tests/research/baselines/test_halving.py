"""Several settings on one array."""

import numpy as np
import pytest

from paper.research import baselines
from paper.research.baselines import Schedule

torch = pytest.importorskip("torch", reason="the baselines need torch")

from research.baselines.small import SMALL  # noqa: E402


@pytest.mark.parametrize("batch", [None, 40])
def test_halving_goes_on_where_it_stood(small, batch):
    rates = (1e-5, 1e-2, 1e-3, 1e-4)
    methods = [baselines.siren(hidden=16, layers=2, rate=r) for r in rates]
    ranked = baselines.search(
        small, methods, Schedule(every=3, batch=batch), rungs=((4, 2), (9, 1))
    )
    assert [m.log[-1].step for m in ranked] == [9, 9, 4, 4]
    assert {m.method.rate for m in ranked} == set(rates)
    early = [
        baselines.fit(small, m, Schedule(steps=4, batch=batch)).log[-1].paper_psnr for m in methods
    ]
    assert {m.method.rate for m in ranked[:2]} == {rates[k] for k in np.argsort(early)[-2:]}
    scores = [m.log[-1].paper_psnr for m in ranked]
    assert scores[0] > scores[1]
    assert scores[2] > scores[3]
    straight = {
        r: baselines.fit(small, m, Schedule(steps=9, batch=batch)) for r, m in zip(rates, methods)
    }
    best = ranked[0]
    assert best.log[-1].paper_psnr == straight[best.method.rate].log[-1].paper_psnr
    assert [r.step for r in best.log] == [0, 3, 4, 6, 9]
    assert best.log[-1].seconds >= best.log[2].seconds


def test_a_search_without_rungs_trains_all(small):
    methods = [baselines.siren(hidden=8, layers=1, rate=r) for r in (1e-6, 1e-2)]
    ranked = baselines.search(small, methods, Schedule(steps=20))
    assert [m.method.rate for m in ranked] == [1e-2, 1e-6]
    assert [m.log[-1].step for m in ranked] == [20, 20]


@pytest.mark.parametrize("stop", ["seconds", "target"])
def test_a_search_does_not_stop_early(small, stop):
    with pytest.raises(ValueError, match="no `target` and no `seconds` in a search"):
        baselines.search(small, [SMALL["siren"]], Schedule(**{stop: 30}))


def test_a_search_tells_how_many_settings_are_done(small):
    told = []
    methods = [SMALL["siren"], SMALL["ffn"]]
    baselines.search(
        small, methods, rungs=((1, 1), (2, 1)), progress=lambda *report: told.append(report)
    )
    assert told == [("1 steps", 1, 2), ("1 steps", 2, 2), ("2 steps", 1, 1)]
