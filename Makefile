# Two commands on a fresh machine with Python 3.11 and make: `make demo` and `make test`.
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
# Every extra the default tests use.
EXTRAS := cloud,dev,docs,formats,onnx,openvino,ray,train,web
# The formatter of the page's scripts; npx fetches it at the first use.
PRETTIER := npx --yes prettier@3.6.2 --print-width 100 --quote-props consistent --log-level warn
PAGE := src/posemill/web/static/*.js

.PHONY: browser setup demo test durations lint format bench bench-setup catalogue constraints docs docs-serve screenshots clean help

help:
	@echo "make demo         keypoints, a table and a picture from a real clip, in demo/"
	@echo "make test         the linters and the whole default test suite"
	@echo "make lint         the linters only"
	@echo "make durations    the tests, and how long each file took: tests/durations.json"
	@echo "make format       put the sources in shape"
	@echo "make bench        every figure of docs/all_benchmarks.md, short form; on a quiet machine"
	@echo "                  BENCH='--only NAME', '--list', '--json', '--write' (the page's tables)"
	@echo "make catalogue    bring the Chinese words in step with the sources, and compile them"
	@echo "make browser      Chromium for the tests of the page, on Debian; skipped where it is there"
	@echo "make docs         docs/ and the reference as a site, in site/: open site/index.html"
	@echo "make docs-serve   the same at http://127.0.0.1:8000, renewed at every change"
	@echo "make screenshots  the pictures of the page in README and docs, taken anew"
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

# What most shards of the tests load: loaded once, and copied with the process.
PRELOAD := torch,torch.utils.tensorboard,matplotlib.figure,pandas,av,cv2,pyarrow.parquet,posemill.jobs.extract.run,posemill.training.launch.start,posemill.commands.line

# The linters run beside the tests. Not pytest-xdist: where one of its workers ends, the others wait
# for ever.
test: .venv/.ready
	$(BIN)/python -m tools.shards --preload $(PRELOAD) --beside "$(MAKE) --no-print-directory lint"

# After tests have become slower or quicker.
durations: .venv/.ready
	$(BIN)/python -m tools.shards --preload $(PRELOAD) --record --slowest 100

lint: .venv/.ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check --quiet .
	@if $(PRETTIER) --version >/dev/null 2>&1; then $(PRETTIER) --check $(PAGE); \
	  else echo "prettier cannot be started by npx (no node, no network): the page's JavaScript is not checked"; fi
	$(BIN)/mypy

format: .venv/.ready
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .
	$(PRETTIER) --write $(PAGE)

# What it compares with: here, and stock MediaPipe in .bench/ at the first use.
.venv/.bench: .venv/.ready
	$(PIP) install --quiet -c constraints.txt -e ".[$(EXTRAS),bench]"
	touch $@

bench-setup: .venv/.bench

bench: bench-setup
	$(BIN)/python -m benchmarks.run $(BENCH)

# Fonts too: without one for Chinese the pages' screenshots show boxes.
browser:
	command -v chromium >/dev/null || { [ "$$(id -u)" = 0 ] && apt-get update -qq && \
	  apt-get install -y -qq chromium fonts-noto-cjk; } || \
	  echo "no chromium, and it cannot be installed here: the browser tests will be skipped"

catalogue: .venv/.ready
	$(BIN)/python -m tools.catalogue

# The pictures of the page in README and docs.
screenshots: .venv/.ready
	$(BIN)/python -m tools.moving_picture
	$(BIN)/python -m tools.screenshots --out docs/images/web --looks "" --pages home clips compare training

# Strict (mkdocs.yml): a broken link fails. The variable spares a notice of the theme's makers.
docs docs-serve: export NO_MKDOCS_2_WARNING := 1
docs: .venv/.ready
	$(BIN)/python -m mkdocs build --quiet --clean

docs-serve: .venv/.ready
	$(BIN)/python -m mkdocs serve --watch src --watch tools

# A local build such as 2.13.0+cpu satisfies 2.13.0, and the other way round it does not.
constraints: .venv/.bench
	( sed -n '/^#/p' constraints.txt; \
	  $(PIP) freeze --exclude-editable | sed 's/+[a-z0-9.]*$$//' ) > constraints.tmp
	mv constraints.tmp constraints.txt

clean:
	rm -rf .venv demo site .pytest_cache .mypy_cache .ruff_cache .hypothesis
