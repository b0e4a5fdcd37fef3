"""Errors by region, the report, and the quality of a crop."""

import numpy as np
import pytest

import elmfield as ef
from support import L_SHAPE, close, on_grid, partition, wave


def test_the_report_counts_and_measures(rng):
    values = rng.random((64, 48)) * 255
    field = ef.fit(values, ef.paper(cell=16, width=64), dims=("y", "x"))
    report = field.report()
    assert report["samples"] == (64, 48)
    assert report["regions"] == 12
    assert report["rank of a region"] == (64,)
    assert report.texts["samples"] == "64 × 48"
    assert field.model.n_coefficients == 12 * 64
    assert "y, x" in str(report)
    assert "<table>" in report._repr_html_()
    assert repr(field) == "Field(64×48, 1 channel, 12 regions, 768 coefficients)"
    # Parseval: the residual, in the samples' own unit, is known without reconstructing.
    close(field.model.residual.sum(), np.sum((field.samples() - values) ** 2), 1e-6 * 255**2)


def region_rms(field, truth):
    """Root mean square error at each region's own samples, by brute force."""
    errors = np.abs(truth - field.samples()) ** 2
    part = field.partition
    cell = [
        np.searchsorted(e, np.arange(n), side="right") - 1 for e, n in zip(part.edges, part.shape)
    ]
    region = part.labels[np.ix_(*cell)]
    by_region = [np.sqrt(np.nanmean(errors[region == i])) for i in range(part.n_regions)]
    return np.array(by_region)[part.labels]


def test_errors_can_be_measured_by_region(rng):
    part = partition((24, 24), L_SHAPE, 2.0)
    for settings in (ef.smooth(), ef.paper(width=30)):
        values = rng.standard_normal((24, 24, 2))
        field = ef.fit(values, settings, channel_axis=-1, partition=part)
        gappy = values.copy()
        gappy[3:7, 5:9, 1] = np.nan
        for truth in (values, gappy):
            close(field.error_map(truth), region_rms(field, truth), 1e-12)
    masked = np.ma.masked_invalid(gappy)
    close(field.error_map(masked), region_rms(field, gappy), 1e-12)
    turned = ef.fit(np.moveaxis(values, -1, 0), settings, channel_axis=0, partition=part)
    close(turned.error_map(np.moveaxis(gappy, -1, 0)), region_rms(field, gappy), 1e-9)


def test_the_samples_of_a_merged_region_are_its_own(rng):
    # Boxes of the L shapes are 16 by 24 and 16 by 16 samples; the regions have 3 cells of 64 each.
    part = partition((24, 24), L_SHAPE, 0.0)
    values = rng.standard_normal((24, 24))
    for samples in (values, values + 1j * values.T):  # a complex error is a modulus
        field = ef.fit(samples, ef.paper(width=30), partition=part)
        close(field.error_map(), region_rms(field, samples), 1e-9)
        close(field.error_map(samples), region_rms(field, samples), 1e-12)


def test_what_denoising_takes_off_is_an_error(rng):
    values = on_grid(wave, (64, 64)) + 0.2 * rng.standard_normal((64, 64))
    field = ef.fit(values, ef.smooth(denoise=True))
    left = np.std(field.samples() - values)
    assert left > 0.1
    # Of models before blending, with the samples around a region.
    close(np.median(field.error_map()) / left, 1, 0.3)


def test_scattered_samples_have_no_map_of_errors(rng):
    field = ef.fit_points(rng.random((40, 2)), rng.random(40))
    with pytest.raises(ValueError, match=r"scattered. Compare their values with field\(points\)"):
        field.error_map()


def test_a_report_needs_a_sample(rng):
    field = ef.fit(rng.random((20, 20)))
    with pytest.raises(ValueError, match=r"at least one sample; all are NaN or masked"):
        field.report(np.full((20, 20), np.nan))


def test_a_batch_is_measured_against_its_arrays(rng):
    values = rng.standard_normal((2, 20, 30))
    one, _ = ef.encoder((20, 30), ef.paper(cell=10, width=40)).batch(values)
    with pytest.raises(ValueError, match=r"cropped or encoded in a batch. Pass the samples"):
        one.error_map()
    close(one.error_map(values[0]), region_rms(one, values[0]), 1e-12)


def test_a_crop_counts_and_measures_its_own_samples(rng):
    values = rng.standard_normal((60, 80)).cumsum(0).cumsum(1)
    field = ef.fit(values, ef.paper(cell=20, width=100))
    crop = field.crop([50, 70], [59.5, 79.5])
    assert crop.report()["samples"] == (10, 10)
    assert crop.report()["samples of the whole"] == (60, 80)
    assert crop.report()["coefficients per sample"] == crop.model.n_coefficients / 100
    mine = crop.samples()
    expected = ef.psnr(values[50:, 70:], mine)
    for samples in (values, values[50:, 70:]):
        report = crop.report(samples)
        assert report["PSNR at the samples"] == expected
        assert report["largest error"] == np.abs(values[50:, 70:] - mine).max()
        close(crop.error_map(samples), np.sqrt(np.mean((values[50:, 70:] - mine) ** 2)), 1e-9)


@pytest.mark.parametrize("n", [91, 93, 100])
@pytest.mark.parametrize("low", [0, 50, 76])
def test_a_crop_keeps_the_quality_asked_of_it(n, low, rng):
    values = rng.standard_normal((n, 40)).cumsum(0).cumsum(1)
    crop = ef.fit(values).crop([low, 5], [low + 14, 30])
    truth = values[low : low + 15, 5:31]
    for psnr in (30, 45):
        small = crop.keep(psnr=psnr)
        assert psnr <= ef.psnr(truth, small.samples()) < psnr + 2
        assert small.n_bytes < crop.n_bytes / 2
    small = crop.keep(max_error=0.7)
    assert ef.max_error(truth, small.samples()) <= 0.7
    assert small.n_bytes < crop.n_bytes


def test_a_crop_without_samples_has_no_quality(rough):
    crop = rough.crop([3.2, 4.2], [3.8, 4.9])
    with pytest.raises(ValueError, match="holds no samples to measure errors at"):
        crop.keep(psnr=30)
    assert crop.keep(per_region=9).model.n_coefficients == 9 * crop.partition.n_regions
    assert crop.report()["samples"] == (0, 0)


def test_a_report_compares_with_what_was_fitted(rough):
    with pytest.raises(ValueError, match=r"what was fitted, shape \(37, 41\); got \(37, 40\)"):
        rough.report(np.zeros((37, 40)))
    points = np.random.default_rng(0).random((60, 2))
    scattered_ = ef.fit_points(points, points.sum(axis=1))
    with pytest.raises(ValueError, match="a field of scattered samples has no array of them"):
        scattered_.report(points.sum(axis=1))


@pytest.mark.parametrize("channel_axis", [None, 0, -1])
def test_maps_of_errors_are_made_slab_by_slab(channel_axis, rng):
    values = rng.random((60, 70) if channel_axis is None else (60, 70, 2))
    values[3:5, 6] = np.nan
    if channel_axis == 0:
        values = np.moveaxis(values, -1, 0)
    field = ef.fit(values, ef.smooth(order=1), channel_axis=channel_axis)
    other = np.roll(values, 1)
    whole = field.error_map(other)

    class Parts:
        shape, dtype, ndim, most = other.shape, other.dtype, other.ndim, 0

        def __getitem__(self, slab):
            found = other[slab]
            Parts.most = max(Parts.most, found.size)
            return found

    with ef.memory_limit(1 << 16):
        close(field.error_map(Parts()), whole, 1e-12)
    assert Parts.most < other.size / 3
    small = field.crop((10, 5), (30, 50))
    inside = other[10:31, 5:51] if channel_axis != 0 else other[:, 10:31, 5:51]
    close(small.error_map(other), small.error_map(inside), 1e-12)
