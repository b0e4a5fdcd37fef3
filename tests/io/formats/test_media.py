"""Sound and video: samples and frames along time."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import elmfield as ef
from elmfield import read, write
from elmfield.io.export.rendering import Rendering
from elmfield.io.gridded import Gridded

RNG = np.random.default_rng(0)


def test_sound(tmp_path):
    for values, channel in (
        (RNG.integers(-3000, 3000, 500, np.int16), None),
        (RNG.integers(-3000, 3000, (500, 2), np.int16), 1),
        (RNG.random(500), None),
    ):
        time = np.arange(500) / 8000
        about = ef.Labels(header={"subtype": "PCM_16"})
        samples = Gridded(
            values=values,
            dims=("time",),
            coords={"time": time},
            channel_axis=channel,
            labels=about,
        )
        for suffix in (".wav", ".flac"):
            if suffix == ".flac" and values.dtype.kind == "f":
                continue
            write(samples, tmp_path / f"x{suffix}")
            back = read(tmp_path / f"x{suffix}")
            assert_array_equal(back.values, values)
            assert_allclose(back.coords["time"], time)
            assert back.channel_axis == channel


def test_sound_at_another_rate(tmp_path):
    time = np.arange(400) / 8000
    values = np.round(9000 * np.sin(2 * np.pi * 440 * time)).astype(np.int16)
    field = ef.fit(values, dims=("time",), coords={"time": time})
    write(Rendering(field=field).on(ef.OutputGrid(scale=2, align="nodes")), tmp_path / "x.wav")
    back = read(tmp_path / "x.wav")
    assert back.labels.rate == 16000
    assert_allclose(back.values[::2], values, atol=1e-6)


# --- video ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", [".mkv", ".avi", ".mp4", ".webm"])
def test_video(tmp_path, suffix):
    pytest.importorskip("av")
    y, x = np.mgrid[0:48, 0:64]
    frames = [128 + 100 * np.sin(0.1 * x + 0.2 * k) * np.cos(0.07 * y) for k in range(6)]
    values = np.stack([np.stack([f, f[::-1], 255 - f], -1) for f in frames]).astype(np.uint8)
    time = np.arange(6) / 12.5
    samples = Gridded(
        values=values, dims=("time", "row", "column"), coords={"time": time}, channel_axis=3
    )
    write(samples, tmp_path / f"x{suffix}")
    back = read(tmp_path / f"x{suffix}")
    assert back.values.shape == values.shape
    assert_allclose(back.coords["time"], time, atol=1e-3)
    gap = np.abs(back.values.astype(float) - values)
    assert gap.max() == 0 if suffix in (".mkv", ".avi") else gap.mean() < 8


@pytest.mark.parametrize(
    ("first", "second"), [(".mp4", ".mp4"), (".mp4", ".mkv"), (".mkv", ".webm")]
)
def test_sound_is_copied(tmp_path, first, second):
    av = pytest.importorskip("av")
    path = tmp_path / f"x{first}"
    tone = np.sin(2 * np.pi * 440 * np.arange(48000) / 48000).astype(np.float32)
    with av.open(str(path), "w") as file:
        video = file.add_stream("libx264", rate=25)
        video.width, video.height, video.pix_fmt = 32, 32, "yuv420p"
        audio = file.add_stream("aac", rate=48000, layout="mono")
        for k in range(25):
            shown = np.full((32, 32, 3), 8 * k, np.uint8)
            for packet in video.encode(av.VideoFrame.from_ndarray(shown, format="rgb24")):
                file.mux(packet)
        heard = av.AudioFrame.from_ndarray(tone[None], format="fltp", layout="mono")
        heard.rate, heard.pts = 48000, 0
        for stream, frame in ((audio, heard), (audio, None), (video, None)):
            for packet in stream.encode(frame):
                file.mux(packet)
    samples = read(path)
    assert samples.labels.rate == 25
    write(samples, tmp_path / f"y{second}")
    with av.open(str(tmp_path / f"y{second}")) as file:
        (track,) = file.streams.audio
        assert track.codec_context.name == ("opus" if second == ".webm" else "aac")
        found = np.concatenate([f.to_ndarray()[0] for f in file.decode(track)])
        assert track.rate == 48000
    assert abs(len(found) - 48000) < 4096
    inner = found[4000:40000].astype(float)
    power = np.abs(np.fft.rfft(inner * np.hanning(len(inner)))) ** 2
    at = np.arange(len(power)) * 48000 / len(inner)
    assert power[np.abs(at - 440) < 20].sum() > 0.99 * power.sum()
