# Two commands on a fresh machine with Python 3.11 and make: `make demo` and `make test`.
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
# Every extra the default tests use.
EXTRAS := dev,formats,onnx,train

.PHONY: setup demo test lint format bench bench-setup catalogue constraints clean help

help:
	@echo "make demo         keypoints, a table and a picture from a real clip, in demo/"
	@echo "make test         the linters and the whole default test suite"
	@echo "make lint         the linters only"
	@echo "make format       put the sources in shape"
	@echo "make bench        every figure of docs/benchmarks.md, short form; on a quiet machine"
	@echo "                  BENCH='--only NAME', '--list', '--json', '--write' (the page's tables)"
	@echo "make catalogue    bring the Chinese words in step with the sources, and compile them"
	@echo "make constraints  write constraints.txt anew from .venv"
	@echo "make clean        remove .venv, demo/ and caches"

# A stamp older than what decides the environment means: install again.
.venv/.made:
	$(PYTHON) -m venv .venv
	touch $@

# The demo needs no extra: no torch, a few hundred megabytes less.
.venv/.base: .venv/.made pyproject.toml constraints.txt
	$(PIP) install --quiet -c constraints.txt -e .
	touch $@

.venv/.ready: .venv/.made pyproject.toml constraints.txt
	$(PIP) install --quiet -c constraints.txt -e ".[$(EXTRAS)]"
# What tests compare with. It asks for two more builds of OpenCV, which would overwrite ours.
	$(PIP) install --quiet -c constraints.txt --no-deps rtmlib
	touch .venv/.base $@

setup: .venv/.ready

demo: .venv/.base
	$(BIN)/posemill demo --out demo

test: lint
	$(BIN)/python -m pytest -q

lint: .venv/.ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check --quiet .
	$(BIN)/mypy

format: .venv/.ready
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

# What it compares with: here, and stock MediaPipe in .bench/ at the first use.
.venv/.bench: .venv/.ready
	$(PIP) install --quiet -c constraints.txt -e ".[$(EXTRAS),bench]"
	touch $@

bench-setup: .venv/.bench

bench: bench-setup
	$(BIN)/python -m benchmarks.run $(BENCH)

catalogue: .venv/.ready
	$(BIN)/python -m tools.catalogue

# A local build such as 2.13.0+cpu satisfies 2.13.0, and the other way round it does not.
constraints: .venv/.bench
	( sed -n '/^#/p' constraints.txt; \
	  $(PIP) freeze --exclude-editable | sed 's/+[a-z0-9.]*$$//' ) > constraints.tmp
	mv constraints.tmp constraints.txt

clean:
	rm -rf .venv demo .pytest_cache .mypy_cache .ruff_cache .hypothesis
