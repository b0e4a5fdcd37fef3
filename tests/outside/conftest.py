"""What other projects' suites expect around them; tests that do not apply, with their reasons."""

import os
import tomllib
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

REASONS = tomllib.loads((Path(__file__).parent / "not_applicable.toml").read_text("utf-8"))
MARKS = ("skip_xp_backends", "xfail_xp_backends", "uses_xp_capabilities", "thread_unsafe")
MARKS = (*MARKS, "array_api_backends", "parallel_threads", "fail_slow", "xslow", "flaky", "network")
SLOW = ("test_numcodecs", "test_torch", "test_verde", "test_xarray_interp", "test_zarr_testing")

LONG = (
    "test_map_coordinates_large_data",
    "test_encode_decode",
    "test_backwards_compatibility",
    "test_samples[noise-gradgradcheck]",
    "test_samples[noise-gradcheck]",
)

PARTS = {"test_interpolate_chunk_1d": 3}
"""Tests with the product of many parameters, of which `make test` runs every third or so."""


def pytest_configure(config):
    for mark in MARKS:
        config.addinivalue_line("markers", f"{mark}: of another project")


def pytest_collection_modifyitems(items):
    seen = Counter()
    for item in items:
        whose = item.originalname if isinstance(item, pytest.Function) else item.name
        seen[whose] += 1
        if seen[whose] % PARTS.get(whose, 1) and "JUDGES" not in os.environ:
            item.add_marker(pytest.mark.skip(reason="one of many alike: make judges"))
        if item.path.parent == Path(__file__).parent and item.path.stem in SLOW:
            item.add_marker(pytest.mark.slow)
        if item.name in LONG and "JUDGES" not in os.environ:
            item.add_marker(pytest.mark.skip(reason="ten seconds and more: make judges"))
        suite = item.path.stem.removeprefix("test_")
        for name, reason in REASONS.get(suite, {}).items():
            if is_named(item, name):
                item.add_marker(pytest.mark.skip(reason=f"does not apply: {reason}"))
        for name, reason in REASONS.get("faults", {}).get(suite, {}).items():
            if is_named(item, name):
                item.add_marker(pytest.mark.xfail(reason=reason, strict=True))


def is_named(item, name):
    """Whether a test is meant: by its name, with all its parameters, or by how it begins."""
    if name.endswith("*"):
        return item.name.startswith(name[:-1])
    return item.name == name or item.name.startswith(f"{name}[")


@pytest.fixture
def xp():
    """The array library that SciPy's suites ask for."""
    return np
