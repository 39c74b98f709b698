# Two commands do everything on a fresh machine: `make demo` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
RUN := runs/demo

.PHONY: demo test slow lint types check bench bench-data clean

# Installed again only when what is to be installed has changed.
$(VENV)/.installed: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	touch $@

demo: $(VENV)/.installed
	$(BIN)/waypost demo --out $(RUN) --resume

test: $(VENV)/.installed
	$(BIN)/python -m pytest -n auto

slow: $(VENV)/.installed
	$(BIN)/python -m pytest -m slow

lint: $(VENV)/.installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.installed
	$(BIN)/mypy

check: lint types test

# PyTorch is needed only to be measured against.
bench: $(VENV)/.installed
	$(BIN)/python -c 'import torch' 2>/dev/null || $(BIN)/python -m pip install --quiet 'torch==2.13.0'
	$(BIN)/python benchmarks/bench.py

# Reading a million transitions; learning from ten million that are not in memory.
bench-data: $(VENV)/.installed
	$(BIN)/python benchmarks/data.py
	$(BIN)/python benchmarks/stream.py

clean:
	rm -rf $(VENV) build *.egg-info .pytest_cache .mypy_cache .ruff_cache
