# Two commands do everything on a fresh machine: `make demo` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
RUN := runs/demo
# Packages of which little or nothing is imported; what is needed is compiled then.
RARE := ray|sklearn|sqlalchemy|OpenGL|debugpy|pip|setuptools|optuna|alembic|IPython|jedi|mypyc

.PHONY: demo test coverage slow lint types docs audit package package-empty check crosscheck bench bench-waiting \
	bench-scaling bench-data bench-acting bench-watching bench-workers clean

# Installed again only when what is to be installed has changed.
$(VENV)/.installed: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	# uv is faster; pip does it where uv cannot.
	-$(BIN)/python -m pip install --quiet --upgrade pip uv
	$(BIN)/uv pip install --quiet --python $(BIN)/python --editable '.[dev]' || \
		$(BIN)/python -m pip install --quiet --no-compile --editable '.[dev]'
	# Compiled modules start three times as fast. By all cores; some packages hold files that no Python can compile.
	-$(BIN)/python -m compileall -q -j 0 -x '/($(RARE))/' $(VENV)/lib > /dev/null 2>&1
	touch $@

demo: $(VENV)/.installed
	$(BIN)/waypost demo --out $(RUN) --resume

test: $(VENV)/.installed
	$(BIN)/python -m pytest -n auto --dist loadfile --no-loadscope-reorder --durations 20

# The same tests with branch coverage, of the processes that they start too. It takes a third longer.
coverage: $(VENV)/.installed
	$(BIN)/python -m pytest -n auto --dist loadfile --no-loadscope-reorder --cov --cov-report=term --cov-fail-under=98

slow: $(VENV)/.installed package-empty
	$(BIN)/python -m pytest -m slow

lint: $(VENV)/.installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.installed
	$(BIN)/mypy

# The site, in docs/_build/html. Pages are made of the code, so all of them are made again.
docs: $(VENV)/.installed
	$(BIN)/python -m sphinx -q -E -W --keep-going -d docs/_build/doctrees -b html docs docs/_build/html

# Known vulnerabilities of what is installed: it informs, and never fails.
audit: $(VENV)/.installed
	@$(BIN)/python .ci/audit.py

# The sdist, the wheel that is built from it, and this wheel at work outside of the checkout.
package: $(VENV)/.installed
	$(BIN)/python .ci/package.py

# The same in an empty environment, for which pip fetches everything the wheel asks for.
package-empty: $(VENV)/.installed
	$(BIN)/python .ci/package.py --empty

check: lint types docs test package

# d3rlpy, an implementation that is not ours, in an environment of its own: it needs other versions of common libraries.
.venv-d3rlpy: .venv-d3rlpy/.installed
.venv-d3rlpy/.installed:
	test -x .venv-d3rlpy/bin/python || $(PYTHON) -m venv .venv-d3rlpy
	.venv-d3rlpy/bin/python -m pip install --quiet 'torch==2.13.0' 'd3rlpy==2.8.1'
	touch $@

# Ask d3rlpy again what our updates are compared with, then compare.
crosscheck: $(VENV)/.installed .venv-d3rlpy/.installed
	$(BIN)/python benchmarks/crosscheck.py
	$(BIN)/python -m pytest tests/agents/test_d3rlpy.py

# PyTorch and d3rlpy are needed only to be measured against.
bench: $(VENV)/.installed .venv-d3rlpy/.installed
	$(BIN)/python -c 'import torch' 2>/dev/null || $(BIN)/python -m pip install --quiet 'torch==2.13.0'
	$(BIN)/python benchmarks/bench.py

# What a person waits for besides the updates: evaluating, recording, starting.
bench-waiting: $(VENV)/.installed
	$(BIN)/python benchmarks/waiting.py

# How the cost of an update grows, and how long the first training of each algorithm compiles.
bench-scaling: $(VENV)/.installed
	$(BIN)/python benchmarks/scaling.py docs/images/scaling.png
	$(BIN)/python benchmarks/compiling.py

# Reading a million transitions; learning from ten million that are not in memory.
bench-data: $(VENV)/.installed
	$(BIN)/python benchmarks/data.py
	$(BIN)/python benchmarks/stream.py

# One action by JAX, onnxruntime and NumPy; a bounded load on `waypost serve`.
bench-acting: $(VENV)/.installed
	$(BIN)/python benchmarks/acting.py

# What alarms, held-out losses and tracking cost a training.
bench-watching: $(VENV)/.installed
	$(BIN)/python benchmarks/watching.py

# The same trainings on Ray with one worker and with two.
bench-workers: $(VENV)/.installed
	$(BIN)/python benchmarks/workers.py

clean:
	rm -rf $(VENV) .venv-d3rlpy build dist docs/_build *.egg-info .pytest_cache .mypy_cache .ruff_cache
