"""What is refused at the door, and torch, which is only needed by a fit."""

import subprocess
import sys

import numpy as np
import pytest

from paper.research import baselines
from paper.research.baselines import Schedule

torch = pytest.importorskip("torch", reason="the baselines need torch")

from research.baselines.small import SMALL  # noqa: E402


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"precision": "low"}, "`precision` must be 'highest' or 'high'; got 'low'"),
        ({"device": "nowhere"}, "`device` 'nowhere' cannot be used here"),
        ({"device": "cuda:99"}, "`device` 'cuda:99' cannot be used here"),
        ({"batch": 109}, "`batch` must not exceed the number of samples, 108; got 109"),
        ({"batch": 0}, "`batch` must be a whole number of at least 1; got 0"),
        ({"steps": 0}, "`steps` must be a whole number of at least 1; got 0"),
        ({"every": 1.5}, "`every` must be a whole number of at least 1; got 1.5"),
        ({"rate": -1.0}, "`rate` must be a positive number; got -1.0"),
        ({"rate": float("nan")}, "`rate` must be a positive number; got nan"),
        ({"seconds": 0}, "`seconds` must be a positive number; got 0"),
        ({"decay": "linear"}, "`decay` must be None, 'cosine' or 'exponential'"),
        ({"channel_axis": 2}, "`channel_axis` must be an axis of the array.* got 2"),
        ({"channel_axis": -3}, "`channel_axis` must be an axis of the array.* got -3"),
        ({"channel_axis": 0.5}, "`channel_axis` must be an axis of the array.* got 0.5"),
        ({"channel_axis": True}, "`channel_axis` must be an axis of the array.* got True"),
        ({"device": "meta"}, "`device` must be a name such as .* got 'meta'"),
        ({"device": 1.5}, "`device` must be a name such as .* got 1.5"),
        ({"seed": -1}, r"`seed` must be a whole number from 0 to 2\*\*64 - 1; got -1"),
        ({"seed": 2**64}, "`seed` must be a whole number from 0 to"),
        ({"seed": None}, "`seed` must be a whole number from 0 to .* got None"),
    ],
)
def test_bad_options_are_named(small, options, message):
    own = {k: v for k, v in options.items() if k in ("device", "channel_axis")}
    rest = {k: v for k, v in options.items() if k not in own}
    with pytest.raises(ValueError, match=message):
        baselines.fit(small, SMALL["siren"], Schedule(**rest), **own)


@pytest.mark.parametrize("schedule", [300, None, {"steps": 3}])
def test_a_schedule_must_be_one(small, schedule):
    with pytest.raises(TypeError, match=r"such as baselines.Schedule\(steps=300\); got"):
        baselines.fit(small, SMALL["siren"], schedule)


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.array([[1.0, np.nan], [np.inf, 2.0]]), "got 2 that are NaN or infinite. Fill them"),
        (np.ones((2, 2), complex), "`array` must hold real numbers; got dtype complex128"),
        (np.ones((0, 3)), "one sample; got shape"),
        (np.float64(3), "at least one axis besides channels"),
    ],
)
def test_bad_arrays_are_named(array, message):
    with pytest.raises(ValueError, match=message):
        baselines.fit(array, SMALL["siren"])


def python(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


def test_torch_is_imported_by_a_fit_only():
    code = "import sys; from paper.research import baselines as b; b.paper_grid('wire'); b.siren()"
    done = python(code + "; print('torch' in sys.modules)")
    assert (done.stdout.strip(), done.stderr) == ("False", "")


def test_without_torch_the_extra_is_named():
    code = "import sys; sys.modules['torch'] = None; import numpy\n"
    code += "from paper.research import baselines"
    done = python(code + "; baselines.fit(numpy.ones((3, 3)), baselines.siren())")
    assert done.returncode == 1
    assert "ImportError: `paper.research.baselines` needs PyTorch" in done.stderr
    assert "pip install 'elmfield[torch]'" in done.stderr


def test_masked_samples_are_refused(small):
    hidden = np.ma.array(small, mask=np.eye(*small.shape, dtype=bool))
    with pytest.raises(ValueError, match="`array` must have no masked samples"):
        baselines.fit(hidden, SMALL["siren"], Schedule(steps=1))
    shown = np.ma.array(small, mask=False)
    assert baselines.fit(shown, SMALL["siren"], Schedule(steps=1)).shape == small.shape


@pytest.mark.parametrize("method", ["siren", None, baselines.siren, 3])
def test_a_method_must_be_one(small, method):
    with pytest.raises(ValueError, match=r"such as baselines.siren\(\); got"):
        baselines.fit(small, method)
