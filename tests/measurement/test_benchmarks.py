"""The scripts of ``benchmarks/``: each starts, and says what it can measure."""

import subprocess
import sys

import pytest

from support import ROOT

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    "script", ["beam", "core", "defaults", "earth", "oriented", "speed", "targets"]
)
def test_a_section_that_does_not_exist_is_refused(script):
    done = subprocess.run(
        [sys.executable, ROOT / "benchmarks" / f"{script}.py", "nonsense"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2, done.stderr
    assert "no section ['nonsense']; there are ['" in done.stderr
