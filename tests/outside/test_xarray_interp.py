"""xarray's tests of `interp`, answered by `.elm.interp`."""

import sys

import pytest

pytest.importorskip("xarray", minversion="2026.9")  # the tests that are listed
pytest.importorskip("dask")

import xarray as xr
from xarray.tests import test_interp as theirs
from xarray.tests.conftest import use_dask  # noqa: F401
from xarray.tests.test_interp import *  # noqa: F403

import elmfield.io.xarray  # noqa: F401

xr.set_options(warn_for_unclosed_files=False)  # theirs is for all tests of the process

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(autouse=True)
def ours(monkeypatch):
    for owner in (xr.DataArray, xr.Dataset):
        monkeypatch.setattr(owner, "interp", answered_by_elm(owner.interp))
    monkeypatch.setattr(theirs, "assert_identical", identical_to_rounding)


def answered_by_elm(own):
    def interp(self, *args, **options):
        if sys._getframe(1).f_globals["__name__"] != "xarray.tests.test_interp":
            return own(self, *args, **options)  # xarray's and the accessor's own calls
        return self.elm.interp(*args, **{"method": "linear", "bounds": "nan"} | options)

    return interp


def identical_to_rounding(a, b):
    """Blocks are fitted one by one, the whole at once: values agree to rounding."""
    theirs.assert_allclose(a, b)
    assert a.attrs == b.attrs
    assert {k: v.attrs for k, v in a.coords.items()} == {k: v.attrs for k, v in b.coords.items()}
