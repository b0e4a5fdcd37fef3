"""The contract of settings, over every preset; and what they refuse."""

from dataclasses import fields, replace

import numpy as np
import pytest

import elmfield as ef
from elmfield.field.coefficients.from_samples import FromSamples
from elmfield.field.coefficients.sample_boxes import SampleBoxes
from elmfield.samples import Samples, read
from elmfield.settings import Settings
from support import L_SHAPE, close, on_grid, partition, wave

PRESETS = {
    "default": ef.smooth(),
    "one order": ef.smooth(order=1.1),
    "orders": ef.smooth(order=(1.2, 2.0)),
    "target": ef.smooth(psnr=30),
    "denoise": ef.smooth(denoise=0.1),
    "dense": ef.smooth(network=ef.Dense(width=300, activation="cos")),
    "paper": ef.paper(width=40, cell=8),
    "own layers": ef.paper(width=40, cell=8, layers="own"),
    "ridge": ef.paper(width=40, cell=8, ridge=0.1, solver="normal", dtype="float32"),
    "oriented": ef.oriented(),
    "oriented at an order": ef.oriented(order=1.3),
}


def samples_of(settings):
    values = on_grid(wave, (40, 40))
    return read(values, shape=values.shape, channel_axis=None, centred=settings.centred)


@pytest.mark.parametrize("settings", PRESETS.values(), ids=PRESETS)
class TestEveryPreset:
    def test_has_all_that_fit_asks_for(self, settings):
        assert isinstance(settings, Settings)
        assert settings.centred in (True, False)
        assert settings.own_samples in (True, False)
        assert settings.is_linear in (True, False)
        assert settings.clip in (True, False)
        assert settings.fill_order is None or settings.fill_order > 0
        assert settings.target is None or settings.target.value > 0
        assert hash(replace(settings)) == hash(settings)

    def test_is_settled_once_and_for_all(self, settings):
        samples = samples_of(settings)
        resolved = settings.resolve(samples)
        assert resolved.is_resolved
        assert resolved.resolve(samples) is resolved
        assert settings.is_resolved == (resolved is settings)

    def test_says_what_it_looks_at(self, settings):
        samples, asked = samples_of(settings), []

        class Watched(Samples):
            def on(self, grid):
                asked.append(grid)
                return super().on(grid)

        settings.resolve(Watched(**{f.name: getattr(samples, f.name) for f in fields(samples)}))
        said = [[p.tolist() for p in grid] for grid in settings.probe_grids(samples.raw.shape)]
        assert all([p.tolist() for p in grid] in said for grid in asked)
        assert bool(said) != settings.is_resolved

    def test_cuts_an_array_and_fits_its_boxes(self, settings):
        samples = samples_of(settings)
        resolved = settings.resolve(samples)
        part = resolved.partition((40, 40), (False, True))
        assert part.shape == (40, 40)
        assert part.periodic == (False, True)
        box, regions = next(iter(part))
        model = resolved.model(box, None, np.empty(0))
        assert model.box == box
        done = []
        boxes = SampleBoxes.of_fit(samples)
        made = FromSamples(boxes=boxes, partition=part, regions=regions, model=model)
        c, left = made.project(np.arange(len(regions)), None, done.append)
        assert sum(done) == len(regions)
        assert c.shape == made.shape == (len(regions), model.n_modes, 1)
        assert left.shape == (len(regions), 1)
        assert (left >= 0).all()

    def test_refuses_what_a_partition_settles(self, settings):
        part = partition((24, 24), L_SHAPE, 2.0)
        if isinstance(settings, ef.Oriented):
            with pytest.raises(ValueError, match="cannot be given with oriented"):
                settings.adopt(part)
        elif settings.cell is None:
            assert settings.adopt(part) is part
        else:
            with pytest.raises(ValueError, match=r"settles the cells .* got cell=8 in the"):
                settings.adopt(part)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (ef.smooth(cell=8), "cell=8"),
        (ef.smooth(overlap=1), "overlap=1"),
        (ef.smooth(context=1), "context=1"),
        (ef.smooth(cell=8, context=0), "cell=8, context=0"),
        (ef.paper(cell=8, width=9), "cell=8"),
        (ef.paper(overlap=1, width=9), "overlap=1"),
    ],
)
def test_settings_that_a_partition_would_not_honour_raise(settings, said):
    with pytest.raises(ValueError, match=f"got {said} in the settings as well. Drop one"):
        ef.fit(np.zeros((24, 24)), settings, partition=partition((24, 24), L_SHAPE, 2.0))


def test_a_smooth_fit_on_regions_without_overlap_does_not_jump(rng):
    values = rng.standard_normal((32, 32)).cumsum(0).cumsum(1)
    merged = ef.beam(values, cell=8, regions=6)
    assert merged.overlap == (0.0, 0.0)
    field = ef.fit(values, partition=merged)
    assert field.partition.overlap == (2.0, 2.0)
    border = np.linspace(0, 31, 400)
    for x in (7.5, 15.5, 23.5):
        below, above = (np.stack([border * 0 + x + s, border], -1) for s in (-1e-9, 1e-9))
        close(field(below), field(above), 1e-6 * np.ptp(values))
    blends = ef.fit(values, ef.paper(width=20), partition=merged)
    assert blends.partition.overlap == (0.5, 0.5)
    jumps = ef.fit(values, ef.paper(width=20, overlap=0), partition=merged)
    assert jumps.partition.overlap == (0.0, 0.0)
    close(blends.samples(), jumps.samples(), 1e-9)
