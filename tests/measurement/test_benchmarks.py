"""The scripts of ``benchmarks/``: each starts, and says what it can measure."""

import subprocess
import sys
import textwrap

import pytest

from support import ROOT

SCRIPTS = ["beam", "core", "defaults", "earth", "oriented", "speed", "targets"]


@pytest.mark.slow
def test_a_section_that_does_not_exist_is_refused():
    # All in one process, as imports take longer than they do.
    code = """
        import runpy, sys
        for script in sys.argv[1:]:
            before, sys.argv = sys.argv, [script, "nonsense"]
            try:
                runpy.run_path(f"{script}.py", run_name="__main__")
            except SystemExit as ended:
                print(script, ended.code)
            sys.argv = before
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), *SCRIPTS],
        cwd=ROOT / "benchmarks", capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.splitlines() == [f"{script} 2" for script in SCRIPTS]
    assert done.stderr.count("no section ['nonsense']; there are ['") == len(SCRIPTS)
