# `make demo` and `make test` need nothing but Python 3.11 or newer.

PYTHON ?= $(shell for p in python3.11 python3.12 python3.13 python3.14 python3; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { echo $$p; break; }; done)
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
NATIVE := $(VENV)/.native
JOBS ?= 2
ON_BOTH_LANES := $(addprefix tests/,interaction paper property unit live/test_transport.py)

.DEFAULT_GOAL := help
.PHONY: help setup redis lane demo test lint bench clean

help:
	@echo 'make demo    a server in three replicas, its primary killed again and again under load'
	@echo 'make test    lint and all tests'
	@echo 'make lint    ruff and mypy'
	@echo 'make bench   the figures, one program each'
	@echo 'make setup   the virtual environment in $(VENV) (the others do this by themselves)'
	@echo 'make clean   remove what the others made'

setup: $(STAMP) $(NATIVE) lane redis

# The stamp makes every later run free; a changed pyproject.toml makes it stale.
$(STAMP): pyproject.toml
	@test -n '$(PYTHON)' || { echo 'Python 3.11 or newer is needed; set PYTHON=/path/to/it'; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev,pipeline]'
	@touch $@

# The native parts, if there is a C compiler; without one it says what is lost, and all else works.
$(NATIVE): $(STAMP) $(wildcard llft/runtime/native/*.[ch]) llft/runtime/native/build.py
	$(BIN)/python -m llft.runtime.native.build
	@touch $@

# The compiled lane: the hot path made into C. It looks itself whether a source has changed.
lane: $(STAMP)
	$(BIN)/python -m llft.lane.build --jobs $(JOBS)

# Debian's Redis, for the test of three tiers: installed where that is possible, else left out.
redis:
	@command -v redis-server >/dev/null || { test "$$(id -u)" = 0 && command -v apt-get >/dev/null && \
		DEBIAN_FRONTEND=noninteractive apt-get install --quiet --yes redis-server; } || \
		echo 'no redis-server, so one test is left out; as root: apt-get install redis-server'

demo: $(STAMP) $(NATIVE) lane
	@$(BIN)/llft demo

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy --strict -p llft

# What is compiled and what is checked take a processor each.
# Live tests have the machine to themselves: replicas that wait for a processor are replicas that are suspected.
# Tests of the pipeline share Spark sessions, one for each process. They audit what the live tests left.
test: export LLFT_KEPT_JOURNALS := $(CURDIR)/$(VENV)/live-journals
test: $(STAMP)
	@$(MAKE) --no-print-directory --output-sync -j $(JOBS) setup lint
	$(BIN)/python -m pytest -q -n $(JOBS) --ignore=tests/live --ignore=tests/pipeline
	LLFT_LANE=compiled $(BIN)/python -m pytest -q -n $(JOBS) $(ON_BOTH_LANES)
	rm -rf $$LLFT_KEPT_JOURNALS
	$(BIN)/python -m pytest -q tests/live
	$(BIN)/python -m pytest -q -n $(JOBS) --dist loadfile --no-loadscope-reorder tests/pipeline

bench: setup
	@set -e; for figure in bench/*.py; do \
		test -e "$$figure" || { echo 'no figures yet'; break; }; \
		echo "== $$figure"; $(BIN)/python "$$figure"; done

clean:
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .coverage htmlcov
	rm -f llft/runtime/native/*.so
	rm -rf llft/lane/compiled
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
