# With Python 3.11 or later and make:
#   make demo   install, compare two bandit policies, show the result
#   make test   install the requirements of the tests, check style, types and imports, run all tests
#   make check  the same without the slow tests, in less than a minute
#   make docs   write the generated pages of the documentation
#   make bench  run all benchmarks
PYTHON ?= python3
BIN := .venv/bin
# There is one worker more than there are cores, so linear algebra gets one thread per worker. A file's tests share
# fixtures and compiled loops, so one worker runs a file; the files keep the order of tests/conftest.py.
PYTEST = OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --dist loadfile --no-loadscope-reorder

# The tests start hundreds of Python processes, each of which would compile the sources again.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help demo test check lint fast-tests format bench pictures docs clean

help:
	@sed -n 's/^#   //p' Makefile

demo: .venv/.for-demo
	@$(BIN)/sameluck demo

test: lint
	$(PYTEST)

check: .venv/.for-test
	@$(MAKE) --no-print-directory -j2 lint fast-tests

fast-tests: .venv/.for-test
	$(PYTEST) -m "not slow"

lint: .venv/.for-test
	$(BIN)/ruff check --quiet .
	$(BIN)/ruff format --check --quiet .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache > .venv/imports.log || (cat .venv/imports.log; exit 1)

format: .venv/.for-test
	$(BIN)/ruff check --fix --quiet . ; $(BIN)/ruff format .

bench: .venv/.for-test
	$(BIN)/python benchmarks/contexts.py
	$(BIN)/python benchmarks/core.py
	$(BIN)/python benchmarks/live.py
	$(BIN)/python benchmarks/losses.py
	$(BIN)/python benchmarks/memory.py
	$(BIN)/python benchmarks/on_call.py
	$(BIN)/python benchmarks/peers.py
	$(BIN)/python benchmarks/plans.py
	$(BIN)/python benchmarks/promises.py
	$(BIN)/python benchmarks/scaling.py
	$(BIN)/python benchmarks/seed_checks.py
	$(BIN)/python benchmarks/soak.py
	$(BIN)/python benchmarks/service.py
	$(BIN)/python benchmarks/stated_means.py
	$(BIN)/python benchmarks/tails.py
	$(BIN)/python benchmarks/twin.py --minutes 20
	$(BIN)/python benchmarks/variance.py

# The README's picture, as the tests draw it.
pictures: .venv/.for-test
	$(BIN)/python -m pytest -q tests/service/dashboard/test_browser.py -k readme
	cp build/screenshots/dashboard.png docs/dashboard.png

docs: .venv/.for-test
	$(BIN)/python scripts/cli_docs.py > docs/cli.md
	$(BIN)/python scripts/glossary_docs.py
	$(BIN)/python scripts/policies_docs.py

clean:
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis sameluck-demo

.venv/.for-demo: pyproject.toml constraints.txt scripts/install
	@scripts/install "$(PYTHON)" demo

.venv/.for-test: pyproject.toml constraints.txt scripts/install
	@scripts/install "$(PYTHON)" test
