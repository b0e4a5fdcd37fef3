"""Video: frames along time."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from elmfield import read, write
from elmfield.io.gridded import Gridded


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
