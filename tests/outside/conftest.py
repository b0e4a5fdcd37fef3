"""What other projects' suites expect around them; tests that do not apply, with their reasons."""

import os
import tomllib
from pathlib import Path

import numpy as np
import pytest

REASONS = tomllib.loads((Path(__file__).parent / "not_applicable.toml").read_text("utf-8"))
MARKS = ("skip_xp_backends", "xfail_xp_backends", "uses_xp_capabilities", "thread_unsafe")
MARKS = (*MARKS, "array_api_backends", "parallel_threads", "fail_slow", "xslow")


def pytest_configure(config):
    for mark in MARKS:
        config.addinivalue_line("markers", f"{mark}: of another project")


def pytest_collection_modifyitems(items):
    for item in items:
        if item.name == "test_map_coordinates_large_data":
            asked = "JUDGES" in os.environ
            item.add_marker(pytest.mark.skipif(not asked, reason="a minute, and 5 GB"))
        suite = REASONS.get(item.path.stem.removeprefix("test_"), {})
        for name, reason in suite.items():
            if item.name == name or item.name.startswith(f"{name}["):
                item.add_marker(pytest.mark.skip(reason=f"does not apply: {reason}"))


@pytest.fixture
def xp():
    """The array library that SciPy's suites ask for."""
    return np
