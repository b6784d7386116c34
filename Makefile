# Works on a fresh clone that has only make and Python 3.11-3.13: every target first brings .venv up to date.
#
#   PYTHON=python3.12 make test               choose the interpreter of a new .venv
#   EXTRAS=notebooks,test,cuda make env       add the CUDA build of JAX
#   JOBS=4 make test                          so many processes, 2 unless told (also for `make notebooks`)
#   make refresh NB=notebooks/01_*.ipynb      only these notebooks (also for `make notebooks`)

PYTHON ?=
EXTRAS ?= notebooks,test
NB ?=
JOBS ?= 2
EXHAUSTIVE ?=

VENV := .venv
RUN := $(VENV)/bin/python
STAMP := $(VENV)/.installed-$(EXTRAS)
COMPILE_FAST := --xla_backend_optimization_level=0 --xla_cpu_parallel_codegen_split_count=1 \
  --xla_cpu_use_fusion_emitters=false
SMOKE := $(or $(MILB_HOME),.)/runs/notebooks/smoke

# Compiled programs, kept for the next notebook and the next start of a kernel; `make clean` forgets them.
notebooks nbval refresh lab: export JAX_COMPILATION_CACHE_DIR := $(abspath $(or $(MILB_HOME),.)/runs/compiled)
test: export JAX_COMPILATION_CACHE_DIR := $(abspath .pytest_cache/jax)
notebooks nbval refresh lab test: export JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS := 0

.DEFAULT_GOAL := help
.PHONY: help env check test nbval test-browser notebooks html refresh study figures lab bench clean

help:  ## list the targets
	@grep -hE '^[a-z-]+:.*## ' Makefile | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 14

env: $(STAMP)  ## create .venv and install milb into it, unless that is done

check: env  ## ruff and the fast tests (under a minute)
	$(RUN) -m ruff check
	$(RUN) -m ruff format --check
	$(RUN) -m pytest -q -n $(JOBS) --dist loadfile -m "not slow"

test: env  ## the tests, then smoke copies of all notebooks (EXHAUSTIVE=1: also what repeats others)
	$(RUN) -m pytest -n $(JOBS) --dist loadfile $(if $(EXHAUSTIVE),--exhaustive)
	rm -rf $(SMOKE)
	$(RUN) -m milb.notebooks prepare smoke
	XLA_FLAGS="$(COMPILE_FAST)" $(RUN) -m pytest -n $(JOBS) --dist loadfile --nbval-lax $(SMOKE)

nbval: env  ## the committed notebooks, executed at demo scale
	$(RUN) -m pytest -n $(JOBS) --dist loadfile --nbval-lax notebooks

test-browser: env  ## move every slider in JupyterLab and Chromium; pictures go to runs/browser/
	$(RUN) -m pytest -n $(JOBS) tests/browser

notebooks: env  ## run all notebooks at demo scale into runs/notebooks/, and as pages into runs/html/
	$(RUN) -m milb.notebooks run --jobs $(JOBS) demo $(NB)
	$(RUN) -m milb.html

html: env  ## the notebooks in runs/notebooks/ as pages that need no network, into runs/html/
	$(RUN) -m milb.html

refresh: env  ## execute the committed notebooks in place
	$(RUN) -m milb.notebooks refresh $(NB)

study: env  ## the paper's study: 10 strategies, 3 benchmarks, 5 seeds, in runs/study/; goes on where it was stopped
	$(RUN) -m milb study

figures: env  ## draw figures/ from figures/data/
	$(RUN) -m milb.plots

lab: env  ## open the notebooks in JupyterLab
	$(RUN) -m jupyter lab notebooks

bench: env  ## time the main kernels on this machine
	$(RUN) tests/bench/run.py

clean:  ## remove .venv and all caches; results in runs/ stay
	rm -rf $(VENV) build dist *.egg-info .hypothesis .pytest_cache .ruff_cache $(or $(MILB_HOME),.)/runs/compiled
	find milb tests notebooks -name __pycache__ -prune -exec rm -rf {} + -o -name .ipynb_checkpoints -prune -exec rm -rf {} +

CANDIDATES := $(or $(PYTHON),python3 python3.13 python3.12 python3.11 python)
IS_SUPPORTED := import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))

$(STAMP): pyproject.toml
	@if ! $(RUN) -m pip --version >/dev/null 2>&1; then \
	  for python in $(CANDIDATES) none; do \
	    if $$python -c '$(IS_SUPPORTED)' 2>/dev/null; then break; fi; \
	  done; \
	  if [ $$python = none ]; then \
	    echo "milb needs Python 3.11, 3.12 or 3.13. Tried: $(CANDIDATES)." >&2; \
	    echo "Install one of these, or say where it is: PYTHON=... make $(MAKECMDGOALS)" >&2; \
	    exit 1; \
	  fi; \
	  echo "Creating $(VENV) with $$($$python --version)"; \
	  $$python -m venv --clear $(VENV); \
	fi
	@echo "Installing milb with the extras $(EXTRAS) into $(VENV); the first time this takes a few minutes"
	@$(RUN) -m pip install --quiet -e '.[$(EXTRAS)]'
	@touch $@
