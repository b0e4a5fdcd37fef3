"""Sound and video at other rates."""

from fractions import Fraction

import numpy as np
import pytest
from numpy.testing import assert_allclose

import elmfield as ef
from elmfield.cli import cli
from elmfield.io.export.rendering import Rendering
from elmfield.io.formats.media import SUITS
from elmfield.io.gridded import Gridded

soundfile = pytest.importorskip("soundfile")


def tones(t, top):
    """Five tones below `top`, in Hz."""
    waves = [np.sin(2 * np.pi * top * f * t + k) for k, f in enumerate((0.05, 0.2, 0.4, 0.6, 0.8))]
    return np.sum(waves, axis=0) / 6


def recording(tmp_path, rate=16000, n=4000, top=8000, voices=1):
    t = np.arange(n) / rate
    values = np.stack([tones(t + 0.001 * v, top) for v in range(voices)], axis=-1)
    soundfile.write(tmp_path / "x.wav", values, rate, subtype="DOUBLE")
    return tmp_path / "x.wav"


def snr(truth, found, edge):
    truth, found = truth[edge:-edge], found[edge:-edge]
    return 10 * np.log10(np.mean(truth**2) / np.mean((truth - found) ** 2))


@pytest.mark.parametrize(("rate", "voices"), [(48000, 1), (44100, 2), (16001, 1)])
def test_a_higher_rate_is_band_limited(tmp_path, rate, voices):
    field = ef.fit(recording(tmp_path, voices=voices))
    ef.write(field, tmp_path / "y.wav", rate=rate)
    found, its_rate = soundfile.read(tmp_path / "y.wav", always_2d=True)
    assert its_rate == rate
    assert len(found) == -(-4000 * rate // 16000)  # as many as soxr gives
    t = np.arange(len(found)) / rate
    for v in range(voices):
        assert snr(tones(t + 0.001 * v, 8000), found[:, v], 400) > 70


@pytest.mark.parametrize("rate", [8000, 11025, 5000])
def test_a_lower_rate_is_filtered_first(tmp_path, rate):
    field = ef.fit(recording(tmp_path, n=8000))
    found = Rendering(field=field).on(ef.OutputGrid(rate=rate)).values
    t = np.arange(len(found)) / rate
    keep = [f for f in (0.05, 0.2, 0.4, 0.6, 0.8) if 8000 * f < 0.9 * rate / 2]
    waves = {0.05: 0, 0.2: 1, 0.4: 2, 0.6: 3, 0.8: 4}
    wanted = sum(np.sin(2 * np.pi * 8000 * f * t + waves[f]) for f in keep) / 6
    assert len(found) == -(-8000 * rate // 16000)
    assert snr(wanted, found, 200) > 70  # and nothing folded back


def test_nothing_is_louder_near_the_ends(tmp_path):
    field = ef.fit(recording(tmp_path))
    found = Rendering(field=field).on(ef.OutputGrid(rate=48000)).values
    assert np.abs(found).max() < 1.2 * np.abs(field.samples()).max()
    t = np.arange(len(found)) / 48000
    assert np.abs(found - tones(t, 8000))[:-3].max() < 0.1  # half the first interval is a guess


def test_rates_are_exact(tmp_path):
    field = ef.fit(recording(tmp_path, n=16000))
    samples = Rendering(field=field).on(ef.OutputGrid(rate=Fraction(48000000, 1001)))
    assert samples.labels.rate == "48000000/1001"
    with pytest.raises(ValueError, match="a whole number of samples per second; got 47952"):
        ef.write(samples, tmp_path / "y.wav")
    ef.write(field, tmp_path / "y.wav", shape=44100)  # 16000 samples at 16 kHz: one second
    assert soundfile.info(tmp_path / "y.wav").samplerate == 44100
    ef.write(field, tmp_path / "y.wav", scale=0.5)
    assert soundfile.info(tmp_path / "y.wav").samplerate == 8000


@pytest.mark.thorough
def test_the_command_line(tmp_path):
    recording(tmp_path)
    model = tmp_path / "x.elm"
    cli.main(["fit", str(tmp_path / "x.wav"), "-o", str(model), "-q"], standalone_mode=False)
    assert ef.load(model).settings == ef.smooth(order=16.0, context=32, mirrored=True)
    out = tmp_path / "y.wav"
    words = ["render", str(model), "-o", str(out), "--rate", "44100", "-q"]
    cli.main(words, standalone_mode=False)
    assert soundfile.info(out).samplerate == 44100
    own = tmp_path / "own.elm"
    words = ["fit", str(tmp_path / "x.wav"), "-o", str(own), "--order", "2", "-q"]
    cli.main(words, standalone_mode=False)
    assert ef.load(own).settings.order == 2  # what is said counts


@pytest.mark.parametrize("rate", [0, -3, "x", float("nan"), "1/0", None])
def test_rates_that_are_none(tmp_path, rate):
    field = ef.fit(recording(tmp_path))
    if rate is None:
        with pytest.raises(
            ValueError, match="`rate` is for an axis of time; got axes axis0, axis1"
        ):
            ef.write(ef.fit(np.random.default_rng(0).random((8, 9))), tmp_path / "x.png", rate=5)
        return
    with pytest.raises(ValueError, match="`rate` must be samples per second, above 0"):
        ef.write(field, tmp_path / "y.wav", rate=rate)


def test_frames_at_another_rate():
    t, y, x = np.meshgrid(np.arange(12), np.arange(20), np.arange(24), indexing="ij")
    values = np.sin(0.3 * t + 0.2 * x) * np.cos(0.1 * y)
    field = ef.fit(
        Gridded(
            values=values,
            dims=("time", "row", "column"),
            coords={"time": np.arange(12) / 25},
            labels=ef.Labels(rate=25, align="areas"),
        )
    )
    samples = Rendering(field=field).on(ef.OutputGrid(rate=50))
    assert samples.values.shape == (24, 20, 24)
    assert_allclose(samples.values[::2], values, atol=1e-9)
    assert_allclose(samples.coords["time"], np.arange(24) / 50)
    between = np.sin(0.3 * (5.5) + 0.2 * x[0]) * np.cos(0.1 * y[0])
    assert_allclose(samples.values[11], between, atol=5e-3)


@pytest.mark.slow
@pytest.mark.parametrize("rate", [48000, 44100])
def test_speech_beside_other_resamplers(data, rate):
    """At least 70 dB of the range by default; resample_poly has less, soxr more."""
    signal = pytest.importorskip("scipy.signal")
    x, own = soundfile.read(data / "audio" / "voices_speech_16k.wav")
    spectrum = np.fft.rfft(x * signal.windows.tukey(len(x), 0.05))
    spectrum[int(0.9 * len(spectrum)) :] = 0
    x = np.fft.irfft(spectrum, len(x))
    truth = signal.resample(x, len(x) * rate // own)
    field = ef.fit(
        Gridded(
            values=x,
            dims=("time",),
            coords={"time": np.arange(len(x)) / own},
            labels=ef.Labels(rate=own, suits=SUITS),
        )
    )
    found = Rendering(field=field).on(ef.OutputGrid(rate=rate)).values
    theirs = signal.resample_poly(x, rate // 100, own // 100)
    inner = slice(4000, -4000)
    ours = ef.psnr(truth[inner], found[inner])
    assert ours > 100  # as noise against what is heard some 20 dB less
    assert snr(truth, found, 4000) > 70
    assert ours > ef.psnr(truth[inner], theirs[inner]) + 20
