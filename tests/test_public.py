import inspect
import subprocess
import sys

import elmfield as ef

NAMES = [
    "Dense",
    "Encoder",
    "Field",
    "Gridded",
    "OutsideDomainError",
    "Partition",
    "RankWarning",
    "StoreError",
    "StoreVersionError",
    "barron_norm",
    "beam",
    "cache_modes",
    "encoder",
    "fit",
    "fit_points",
    "heldout_score",
    "load",
    "mae",
    "max_error",
    "memory_limit",
    "paper",
    "paper_psnr",
    "psnr",
    "psnr_by_width",
    "read",
    "save",
    "smooth",
    "write",
]


def test_the_public_names():
    # Adding one is a decision: about a dozen verbs and nouns, no more.
    assert list(ef.__all__) == sorted(NAMES)


def test_every_public_name_exists_and_says_what_it_is():
    for name in ef.__all__:
        assert inspect.getdoc(getattr(ef, name)), name


def test_options_are_keyword_only():
    allowed = {
        "fit": ["values", "settings"],
        "encoder": ["shape", "settings"],
        "fit_points": ["points", "values", "settings"],
        "heldout_score": ["values", "settings"],
        "read": ["path"],
        "write": ["values", "path"],
        "paper": [],
        "smooth": [],
    }
    for name, positional in allowed.items():
        parameters = inspect.signature(getattr(ef, name)).parameters.values()
        found = [p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD]
        assert found == positional, name


def test_importing_needs_no_optional_library():
    code = "import sys, elmfield; print(*{'torch', 'skimage', 'matplotlib'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""
    assert done.stderr == ""


def test_the_example_of_fit_runs():
    import doctest

    finder, runner = doctest.DocTestFinder(recurse=False), doctest.DocTestRunner(verbose=False)
    (example,) = finder.find(ef.fit, "fit", globs={})
    assert runner.run(example) == doctest.TestResults(failed=0, attempted=4)
