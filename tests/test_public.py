import doctest
import inspect
import subprocess
import sys

import numpy as np
import pytest

import elmfield as ef

NAMES = [
    "Axis",
    "ChannelWarning",
    "Dense",
    "Domain",
    "Encoder",
    "Field",
    "Gridded",
    "Labels",
    "Oriented",
    "OutputGrid",
    "OutsideDomainError",
    "Paper",
    "Partition",
    "NoiseWarning",
    "RankWarning",
    "Report",
    "Smooth",
    "StoreError",
    "StoreVersionError",
    "Target",
    "append",
    "barron_norm",
    "beam",
    "cache_modes",
    "curvilinear",
    "encoder",
    "fit",
    "fit_observations",
    "fit_points",
    "heldout_score",
    "load",
    "mae",
    "max_error",
    "memory_limit",
    "oriented",
    "paper",
    "paper_psnr",
    "polygon_means",
    "psnr",
    "over_seeds",
    "psnr_by_width",
    "read",
    "regrid",
    "save",
    "smooth",
    "sphere",
    "view",
    "write",
]


def test_the_public_names():
    # Adding one is a decision: verbs, the nouns they take and give, and what reprs show.
    assert list(ef.__all__) == sorted(NAMES)


def test_every_public_name_exists_and_says_what_it_is():
    for name in ef.__all__:
        assert inspect.getdoc(getattr(ef, name)), name


def test_options_are_keyword_only():
    allowed = {
        "append": ["path", "values"],
        "fit": ["values", "settings"],
        "encoder": ["shape", "settings"],
        "fit_points": ["points", "values", "settings"],
        "heldout_score": ["values", "settings"],
        "read": ["path"],
        "view": ["values", "settings"],
        "write": ["values", "path"],
        "oriented": [],
        "paper": [],
        "smooth": [],
    }
    for name, positional in allowed.items():
        parameters = inspect.signature(getattr(ef, name)).parameters.values()
        found = [p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD]
        assert found == positional, name


def test_what_reprs_show_can_be_evaluated():
    field = ef.fit(np.eye(20), ef.smooth(psnr=40))
    words = {name: getattr(ef, name) for name in ef.__all__}
    for shown in (
        field.settings,
        field.domain,
        ef.oriented(denoise=3.0),
        ef.paper(width=20),
        ef.Dense(20),
    ):
        assert eval(repr(shown), words) == shown


def test_importing_needs_no_optional_library():
    heavy = {
        *("torch", "skimage", "matplotlib", "xarray", "dask", "pandas", "zarr", "numcodecs"),
        *("elmfield.codec.lossy", "elmfield.codec.lossless"),  # opened when samples are coded
        *("rich", "click", "PIL", "scipy.interpolate", "scipy.linalg", "scipy.spatial"),
    }
    code = f"import sys, elmfield; print(*{heavy!r} & set(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == ""
    assert done.stderr == ""


METHODS = [
    *("__call__", "crop", "gradient", "grid", "integral", "keep", "means", "resize", "samples"),
    *("tabulate", "warp"),
]
NO_EXAMPLE = {
    "ChannelWarning",
    "NoiseWarning",
    "RankWarning",
    "StoreVersionError",
}  # docs/errors.md has them


def test_the_example_of_a_field_calls_its_methods():
    for method in METHODS:
        called = "field(" if method == "__call__" else f".{method}("
        assert called in ef.Field.__doc__, method


@pytest.mark.parametrize("name", ["", *(n for n in NAMES if n not in NO_EXAMPLE)])
def test_examples_run(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # some of them write files
    thing = ef
    for part in filter(None, name.split(".")):
        thing = getattr(thing, part)
    if name == "regrid":
        pytest.importorskip("xarray")
    if name == "view":
        pytest.importorskip("starlette")
    finder, runner = doctest.DocTestFinder(recurse=False), doctest.DocTestRunner(verbose=False)
    (example,) = finder.find(thing, name or "elmfield", globs={})
    assert runner.run(example).failed == 0
    assert runner.tries > 0
