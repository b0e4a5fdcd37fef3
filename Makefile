# Commands for a fresh machine; Python 3.11 or newer with venv and pip is all they need.
#
#   make demo    fit a picture, print a table, write demo/index.html with pages to zoom into
#   make quick   lint, types, layers of imports, the library's fast tests on NumPy alone
#   make test    the same with all tests
#   make fuzz    tries to break it: damaged files, odd calls, kills (SEED=7: again; SEEDS=5: five new ones)
#   make coverage  which lines and branches the tests run, build/coverage/index.html
#   make mutants  formulas and bounds changed one by one; fails if the tests do not notice one
#   make judges  other projects' tests, unchanged, and how many apply
#   make test-oldest  the tests on the oldest versions of all dependencies
#   make test-view  the page in the browser alone (needs a Chromium)
#   make docs    the site: build/site/index.html (warnings are errors)
#   make release-check  build, check, install and try what would be released
#   make paper   every table and figure of the paper, paper/report.html (DEVICE=cuda: in full)
#   make bench   times and memory, benchmarks/results/speed-*.md (DEVICE=cuda: on a GPU)
#
# All set up a private environment in .venv and leave it there for the next time.

VENV := .venv
PY := $(VENV)/bin/python
PIP := $(PY) -m pip install --quiet --disable-pip-version-check
# The first interpreter on the path that is new enough; `make PYTHON=... ` overrides.
PYTHON ?= $(shell for p in python3.11 python3.12 python3.13 python3.14 python3 python; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)

CODE := src tests benchmarks paper measurement changes/gather.py docs/conf.py docs/links.py docs/cards.py docs/listing.py docs/tutorials docs/gallery release

# Python keeps the modules that it has compiled, whatever the environment says: else each process
# that tests start compiles all of them again, a third of the time of `make quick`.
export PYTHONDONTWRITEBYTECODE :=

# Where `paper` and `bench` work.
DEVICE ?= cpu

.PHONY: help demo quick test coverage mutants fuzz judges test-oldest lint types layers fast pytest test-view docs changelog release-check paper bench tables clean
help:
	@sed -n '3,15s/^# *//p' Makefile

demo: $(VENV)/.demo
	$(VENV)/bin/elmfield demo --output demo

quick: lint
	@$(MAKE) --no-print-directory -j 2 fast types layers

# Types and layers are checked while the tests run: alone they would leave a core idle.
test: lint
	@$(MAKE) --no-print-directory -j 2 pytest types layers

lint: $(VENV)/.test
	$(PY) -m ruff check $(CODE)
	$(PY) -m ruff format --check $(CODE)

types: $(VENV)/.test
	$(PY) -m mypy

layers: $(VENV)/.test
	$(VENV)/bin/lint-imports

# Without what takes long, what tries to break it, other projects' tests, and the scripts of paper/
# and benchmarks/; of parametrised tests two cases, of generated inputs five.
fast: $(VENV)/.test
	ELMFIELD_LIBRARIES=numpy ELMFIELD_HYPOTHESIS=few ELMFIELD_CASES=2 \
		$(PY) -m pytest -m 'not slow and not thorough' \
		$(addprefix --ignore tests/,research robust outside measurement)

pytest: $(VENV)/.test
	$(PY) -m pytest

# About twice as long as the tests alone. Processes that tests start are measured too; compiled
# loops are left out (pyproject.toml).
coverage: $(VENV)/.test
	$(PY) -m pytest --cov --cov-report=html --cov-report=term:skip-covered

# A few minutes; MUTANT=name tries one.
mutants: $(VENV)/.test
	$(PY) tests/mutants.py $(MUTANT)

# Ten minutes and more a seed; prints the seeds. WRITE=1 records the table of docs/reliability.md,
# SHARE=0.2 makes a fifth of the usual attempts from each seed.
fuzz: $(VENV)/.test
	$(PY) tests/robust/fuzz.py $(if $(SEED),--seed $(SEED)) $(if $(SEEDS),--seeds $(SEEDS)) \
		$(if $(SHARE),--share $(SHARE)) $(if $(WRITE),--write)

# Those that do not apply are listed with their reasons in tests/outside/not_applicable.toml.
# WRITE=1 records the table of docs/judges.md.
judges: $(VENV)/.test
	$(PY) tests/outside/count.py $(if $(WRITE),--write)

# An environment of its own, with every dependency as old as pyproject.toml allows.
OLDEST := .venv-oldest
test-oldest: $(OLDEST)/.made
	ELMFIELD_LIBRARIES=numpy $(OLDEST)/bin/python -m pytest -m 'not slow' --ignore tests/research

$(OLDEST)/.made: pyproject.toml benchmarks/oldest.py
	@test -n "$(PYTHON)" || { echo "Python 3.11 or newer is needed, and none was found." >&2; exit 1; }
	$(PYTHON) -m venv $(OLDEST)
	$(PYTHON) benchmarks/oldest.py > $(OLDEST)/oldest.txt
	$(OLDEST)/bin/python -m pip install --quiet --disable-pip-version-check --editable '.[test]' \
		--constraint $(OLDEST)/oldest.txt
	@touch $@

# Skips what needs a browser, with the reason, where there is none.
test-view: $(VENV)/.test
	$(PY) -m pytest -n 0 tests/show/view tests/cli/test_looking.py

# No network but what pip needs: tutorials run on what they make or what scikit-image brings.
docs: $(VENV)/.docs
	$(PY) -m sphinx -W --keep-going -q -b html -d build/doctrees docs build/site
	$(PY) docs/links.py build/site
	@echo "build/site/index.html"

changelog:
	$(PYTHON) changes/gather.py

# Every Python of 3.11 to 3.14 that there is; minutes, and pip needs its index.
release-check:
	$(PYTHON) release/check.py

# Measures what the data at hand allow, and marks the rest: paper/README.md.
paper: $(VENV)/.test
	$(PY) paper/run.py --device $(DEVICE)

bench: $(VENV)/.test
	$(PY) benchmarks/speed.py --device $(DEVICE)

# The measured tables of README.md and docs/ (needs the data folder; see benchmarks/README.md).
tables: $(VENV)/.test
	$(PY) benchmarks/core.py
	$(PY) benchmarks/defaults.py
	$(PY) benchmarks/tables.py

clean:
	rm -rf $(VENV) $(OLDEST) demo build dist

# --- environments: stamps, so that a second run costs nothing -------------------------------------

$(PY):
	@test -n "$(PYTHON)" || { echo "Python 3.11 or newer is needed, and none was found." >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/.demo: pyproject.toml | $(PY)
	$(PIP) --editable '.[demo]'
	@touch $@

$(VENV)/.docs: pyproject.toml requirements-dev.txt | $(PY)
	$(PIP) --requirement requirements-dev.txt
	$(PIP) --editable '.[docs]'
	@touch $@

# Pinned packages first: torch must be the pinned one before anything else may ask for it.
$(VENV)/.test: pyproject.toml requirements-dev.txt | $(PY)
	$(PIP) --requirement requirements-dev.txt
	$(PIP) --editable '.[test]'
	@touch $@
