"""numcodecs' tests of a compressor, and its common checks, answered by our codec."""

import numpy as np
import pytest

pytest.importorskip("zarr")
pytest.importorskip("numcodecs.tests", reason="numcodecs has its tests in the wheel up to 0.16")

from numcodecs.tests import common
from numcodecs.tests import test_zlib as theirs
from numcodecs.tests.test_zlib import *  # noqa: F403

from elmfield.io.zarr import NumcodecsCodec

NUMBERS = [np.arange(60).reshape(3, 4, 5).astype(t) for t in "?bBhHiIlLqQefdFD"]
LAYOUTS = {
    "C": np.asarray,
    "F": np.asfortranarray,
    "swapped": lambda a: a.astype(a.dtype.newbyteorder()),
}


class Zlib(NumcodecsCodec):
    """Effort for `level`."""

    def __init__(self, level=5):
        super().__init__(effort=level)


@pytest.fixture(autouse=True)
def ours(monkeypatch, tmp_path):
    monkeypatch.setattr(theirs, "codecs", [NumcodecsCodec(), NumcodecsCodec(channel_axis=-1)])
    monkeypatch.setattr(theirs, "Zlib", Zlib)
    monkeypatch.setattr(common, "NumcodecsCodec", NumcodecsCodec, raising=False)
    monkeypatch.chdir(tmp_path)  # they write what they compare with


@pytest.mark.parametrize(
    ("values", "layout", "axis"),
    [(a, list(LAYOUTS)[i % 3], [None, 1][i % 2]) for i, a in enumerate(NUMBERS)]
    + [(NUMBERS[-4], layout, axis) for layout in LAYOUTS for axis in (None, 1)],
    ids=lambda a: a.dtype.str if isinstance(a, np.ndarray) else None,
)
def test_numeric_dtypes(values, layout, axis):
    arr, codec = LAYOUTS[layout](values), NumcodecsCodec(channel_axis=axis)
    common.check_encode_decode(arr, codec)
    common.check_encode_decode_array(arr, codec)


@pytest.mark.parametrize(
    "values", [a for a in NUMBERS if a.dtype.kind in "fc"], ids=lambda a: a.dtype.str
)
def test_to_within_an_error(values):
    arr = np.sin(values / 9).astype(values.dtype)
    for decimals in (1, 2):
        common.check_encode_decode(arr, NumcodecsCodec(max_error=10.0**-decimals), decimals)


def test_repr_of_ours():
    common.check_repr("NumcodecsCodec(max_error=0.5, channel_axis=0, effort=3)")
    common.check_repr("NumcodecsCodec()")


@pytest.mark.parametrize("asked", [{}, {"max_error": 0.5}, {"psnr": 40.0, "effort": 9}])
def test_config_of_ours(asked):
    common.check_config(NumcodecsCodec(**asked))
