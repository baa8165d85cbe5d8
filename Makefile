# Every target works from a fresh clone: it creates .venv, installs what it needs and compiles the modules that have a .pxd.
# The second time there is nothing to do. Requirements: one Python of 3.11-3.13 with its headers, a C compiler and, for
# `make check`, node.

.DEFAULT_GOAL := help
SHELL := /bin/sh
PY := .venv/bin/python
CODE := $(wildcard src tests bench tools examples setup.py)

# The first Python that works, can create environments and has headers. `make PYTHON=/path/to/python ...` overrides it.
PYTHON ?= $(shell for p in python3.11 python3.12 python3.13 python3 \
	$(wildcard $(HOME)/.pyenv/versions/3.11.*/bin/python) \
	$(wildcard $(HOME)/.pyenv/versions/3.12.*/bin/python) \
	$(wildcard $(HOME)/.pyenv/versions/3.13.*/bin/python); do \
	"$$p" -c 'import ensurepip, os, sys, sysconfig, venv; \
	sys.exit(not ((3, 11) <= sys.version_info[:2] <= (3, 13) and \
	os.path.exists(os.path.join(sysconfig.get_path("include"), "Python.h"))))' \
	>/dev/null 2>&1 && { echo "$$p"; break; }; done)

.PHONY: help python ready run tour test test-all check bench bench-full counts docs look pictures spec soak clean

help: ## list the targets
	@echo "bandstand: supervised actors for Python"
	@echo
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' Makefile

python:
	@test -n "$(PYTHON)" || { echo "No usable Python found: bandstand needs 3.11, 3.12 or 3.13 with venv and headers" \
		"(on Debian: apt-get install python3.11-venv python3.11-dev)." >&2; exit 1; }

ready: python
	@$(PYTHON) tools/environment.py

# Running needs no type checkers and other development tools, and it does not wait for the compiler: the first time it is interpreted.
RUNNABLE = pure=$$($(PYTHON) tools/environment.py --run) && export BANDSTAND_PURE=$$pure

run: python ## start a node with a small shop on it, and print commands to try
	@$(RUNNABLE) && mkdir -p build && exec .venv/bin/bandstand serve examples/orders.py --journal build/journal

tour: python ## show what is installed, then a supervision tree that restarts its children
	@$(RUNNABLE) && .venv/bin/bandstand doctor && echo && $(PY) examples/healing.py

test: ready ## run the suite twice: compiled on uvloop in full, and interpreted on asyncio without the longest proofs
	@$(PY) tools/lanes.py $(LANES)

test-all: ready ## run every lane: compiled and interpreted, uvloop and asyncio, every Python found
	@$(PY) tools/lanes.py --all

check: ready ## check format, lint, layers and types
	@echo "-- ruff format"
	@.venv/bin/ruff format --check --quiet $(CODE) || { echo "Not formatted: run .venv/bin/ruff format ." >&2; exit 1; }
	@echo "-- ruff check"
	@.venv/bin/ruff check --quiet $(CODE)
	@echo "-- import-linter"
	@mkdir -p build
	@.venv/bin/lint-imports --no-cache >build/layers.txt 2>&1 || { cat build/layers.txt; exit 1; }
	@echo "-- mypy"
	@.venv/bin/mypy --no-error-summary $(CODE)
	@echo "-- pyright"
	@command -v node >/dev/null || { echo "pyright needs node: install nodejs, then run make check again" >&2; exit 1; }
	@PYRIGHT_PYTHON_IGNORE_WARNINGS=1 .venv/bin/pyright --warnings
	@echo "check: no problems"

bench: ready ## compare the most important cases with other libraries, in 15 minutes; writes build/bench.json
	@$(PY) tools/environment.py --peers
	@mkdir -p build
	@$(PY) -m bench --brief --json build/bench.json

bench-full: ready ## the same for all cases and libraries, with more rounds: an hour or more
	@$(PY) tools/environment.py --peers-full
	@mkdir -p build
	@$(PY) -m bench --json build/bench.json

counts: ready ## count the instructions of fixed workloads, and compare them with the record
	@$(PY) -m bench.instructions

docs: ready ## build the documentation into site/
	@# Not --quiet: --strict counts only the warnings that are logged.
	@mkdir -p build
	@DISABLE_MKDOCS_2_WARNING=true NO_MKDOCS_2_WARNING=1 .venv/bin/mkdocs build --strict >build/docs.txt 2>&1 \
		|| { cat build/docs.txt; exit 1; }
	@echo "docs: site/index.html"

look: ready ## open every page of the documentation in a browser, and write screenshots to build/screenshots
	@$(PY) -m tools.browser

pictures: ready ## draw the pictures of the documentation from their texts
	@$(PY) -m tools.pictures

spec: ready ## print every requirement and guarantee with its tests
	@$(PY) tools/spec.py

COMMANDS ?= 1000000
soak: ready ## long runs under load: loops, nodes and pods; flooded, killed and fuzzed nodes; journals after power cuts
	@$(PY) -m tests.soak
	@$(PY) -m tests.soak.node_run
	@$(PY) -m tests.soak.kill_run
	@$(PY) -m tests.soak.durable_run --commands $(COMMANDS)
	@$(PY) -m tests.fuzz
	@$(PY) -m tests.soak.journal_run

clean: ## remove everything the other targets created
	rm -rf .venv .venvs build dist site .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	rm -rf src/*.egg-info
	find src \( -name '*.so' -o -name _stamp.json \) -delete
	find src tests tools bench examples -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true
