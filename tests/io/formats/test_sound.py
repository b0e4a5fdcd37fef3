"""Sound: samples along time."""

import numpy as np
from numpy.testing import assert_allclose, assert_array_equal

import elmfield as ef
from elmfield import read, write
from elmfield.io.gridded import Gridded
from elmfield.io.rendered import rendered

RNG = np.random.default_rng(0)


def test_sound(tmp_path):
    for values, channel in (
        (RNG.integers(-3000, 3000, 500, np.int16), None),
        (RNG.integers(-3000, 3000, (500, 2), np.int16), 1),
        (RNG.random(500), None),
    ):
        time = np.arange(500) / 8000
        about = {"header": {"subtype": "PCM_16"}}
        samples = Gridded(
            values=values,
            dims=("time",),
            coords={"time": time},
            channel_axis=channel,
            attributes=about,
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
    write(rendered(field, scale=2, align="nodes"), tmp_path / "x.wav")
    back = read(tmp_path / "x.wav")
    assert back.attributes["rate"] == 16000
    assert_allclose(back.values[::2], values, atol=1e-6)
