# One word each; every target sets up what it needs, once: `make test` on a fresh clone is enough.
#
#   make test     the tests, without those that need a GPU
#   make demo     a verdict from a recording that comes with the package; needs no GPU
#   make lint     formatting, lint, types, layers, generated pages
#   make docs     the pages as a site, in build/site
#   make wheel    build the wheel into dist/ and try it in an environment of its own
#   make clean    remove everything that the targets made
#
# Another Python:            make test PYTHON=python3.12
# Arguments for pytest:      make test ARGS="tests/store -x"

VENV ?= .venv
ARGS ?=
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet

# The first Python on the path that is new enough and can make virtual environments.
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11 python3.10 python3.14; do \
  "$$p" -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 10))' 2>/dev/null && echo "$$p" && break; \
  done)

.DELETE_ON_ERROR:
.PHONY: help test demo docs lint lint-style lint-format lint-types lint-layers lint-pages wheel clean

help:
	@sed -n 's/^#   make /make /p' Makefile

test: $(VENV)/.development
	$(BIN)/python -m pytest -n auto --dist loadgroup --no-loadscope-reorder $(ARGS)

demo: $(VENV)/.package
	$(BIN)/perfzero demo $(ARGS)

docs: $(VENV)/.development
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

lint: lint-style lint-format lint-types lint-layers lint-pages

lint-style: $(VENV)/.development
	$(BIN)/ruff check .

lint-format: $(VENV)/.development
	$(BIN)/ruff format --check .

lint-types: $(VENV)/.development
	$(BIN)/mypy

lint-layers: $(VENV)/.development
	$(BIN)/lint-imports --no-logo

lint-pages: $(VENV)/.development
	$(BIN)/python tools/write_docs.py --check

wheel: $(VENV)/.development
	$(BIN)/python tools/wheel_test.py --keep dist

clean:
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
	find src tests tools zoo benchmarks -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

# Stamps: the environment is made, and what pyproject.toml asks for is installed, only when it changed.
$(VENV)/.made:
	@test -n "$(PYTHON)" || { echo "No Python 3.10 or later with the modules venv and ensurepip was found."; \
	  echo "Install one (Debian, Ubuntu: apt install python3-venv), or name it: make $(MAKECMDGOALS) PYTHON=/path/to/python3"; exit 1; }
	@echo "Making the virtual environment $(VENV) with $$($(PYTHON) --version)"
	@$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/.package: $(VENV)/.made pyproject.toml
	@echo "Installing perfzero into $(VENV)"
	@$(PIP) install --editable .
	@touch $@

$(VENV)/.development: $(VENV)/.made pyproject.toml
	@echo "Installing perfzero and its development tools into $(VENV)"
	@$(PIP) install --editable '.[dev]'
	@touch $@ $(VENV)/.package
