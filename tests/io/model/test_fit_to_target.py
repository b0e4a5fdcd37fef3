"""Targets hold for what a reader of the file gets, rounding included."""

from dataclasses import replace

import pytest

import elmfield as ef
from elmfield.io.gridded import Gridded
from elmfield.io.model.fit_to_target import fit_stored
from elmfield.io.model.save import as_stored
from elmfield.settings import Target


def gridded(rng, shape=(64, 48), offset=500.0):
    values = offset + rng.standard_normal(shape).cumsum(0).cumsum(1)
    return Gridded(values=values, dims=("y", "x"))


PSNR = ef.smooth(psnr=72, network=ef.Dense(700, activation="cos", frequencies=4, scale=0.5))
"""A field that keeps coefficients."""


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("settings", "holds"),
    [
        (PSNR, lambda truth, got: ef.psnr(truth, got) >= 72),
        (replace(PSNR, target=Target("max_error", 0.03)), lambda a, b: ef.max_error(a, b) <= 0.03),
    ],
    ids=["psnr", "max_error"],
)
def test_a_target_holds_for_stored_coefficients(settings, holds, rng):
    samples = gridded(rng)
    once = as_stored(ef.fit(samples, settings), "float16")
    assert not holds(samples.values, once.samples())  # what rounding does to it
    field, dtype = fit_stored(samples, settings, dtype="float16")
    assert dtype == "float16"
    assert holds(samples.values, as_stored(field, dtype).samples())
    assert field.settings.target == settings.target  # what was asked for, not what was fitted


@pytest.mark.parametrize("dtype", [None, "float32", "float16"])
@pytest.mark.parametrize("offset", [500.0, 1e8])
def test_a_target_holds_for_coded_samples(dtype, offset, rng):
    samples = gridded(rng, offset=offset)
    for kind, value in (("psnr", 72), ("max_error", 0.1)):
        field, name = fit_stored(samples, ef.smooth(**{kind: value}), dtype=dtype)
        back = as_stored(field, name).samples()
        if kind == "psnr":
            assert ef.psnr(samples.values, back) >= 72
        else:
            assert ef.max_error(samples.values, back) <= 0.1
        assert field.settings.target == Target(kind, value)


@pytest.mark.thorough
def test_where_no_dtype_can_the_target_is_refused_with_what_was_reached(rng):
    with pytest.raises(ValueError, match=r"`max_error` cannot be kept: stored as float16 the"):
        fit_stored(gridded(rng), replace(PSNR, target=Target("max_error", 1e-3)), dtype="float16")


@pytest.mark.thorough
def test_save_rounds_nothing_that_was_promised(rng, tmp_path):
    samples = gridded(rng)
    field = ef.fit(samples, PSNR)
    with pytest.raises(ValueError, match=r"`psnr` was met with coefficients in float64"):
        ef.save(field, tmp_path / "x.elm", dtype="float32")
    ef.save(field, tmp_path / "x.elm")
    coded = ef.fit(samples, ef.smooth(max_error=1e-6))
    ef.save(coded, tmp_path / "x.elm", dtype="float16")
    assert ef.max_error(samples.values, ef.load(tmp_path / "x.elm").samples()) <= 1e-6


def test_without_an_error_to_keep_the_dtype_is_the_callers_or_the_fields(rng):
    samples = gridded(rng)
    for settings in (None, ef.smooth(), ef.smooth(coefficients=900), ef.smooth(per_region=9)):
        assert fit_stored(samples, settings, dtype="float16")[1] == "float16"
        assert fit_stored(samples, settings)[1] == "float64"
    whole = replace(samples, values=samples.values.astype("uint8"))
    assert fit_stored(whole, ef.smooth(per_region=9))[1] == "float32"  # half the bytes
    assert fit_stored(whole, None)[1] == "float64"  # as many


@pytest.mark.parametrize("room", [4000, 6000])
def test_a_file_has_no_more_bytes_than_asked_for(room, rng, tmp_path):
    samples = gridded(rng)
    field, dtype = fit_stored(samples, ef.smooth(bytes=room))
    ef.save(field, tmp_path / "x.elm", dtype=dtype)
    size = (tmp_path / "x.elm").stat().st_size
    assert 0.75 * room < size <= room
    assert field.settings.target == Target("bytes", room)
    with pytest.raises(ValueError, match=r"`bytes` cannot be kept: a file takes about \d+ bytes"):
        fit_stored(samples, ef.smooth(bytes=1000))
