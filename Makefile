# Two commands on a fresh machine with Python 3.10+ and make: `make demo` and `make test`.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: setup demo test lint format clean

# The stamp is newer than what decides the environment, or the environment is made again.
.venv/.ready: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dev]"
	touch $@

setup: .venv/.ready

test: .venv/.ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check --quiet .
	$(BIN)/mypy
	$(BIN)/python -m pytest -q

lint: .venv/.ready
	$(BIN)/ruff check .
	$(BIN)/mypy

format: .venv/.ready
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

demo: .venv/.ready
	$(BIN)/posemill demo --out demo

clean:
	rm -rf .venv demo .pytest_cache .mypy_cache .ruff_cache
