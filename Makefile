SHERD_DATA ?= $(abspath ../shared/data)
export SHERD_DATA
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test check bench clean

demo: .venv/stamp
	$(BIN)/sherd demo --out out/demo

test: check
	$(BIN)/python -m pytest -n 2

check: .venv/stamp
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: .venv/stamp
	$(BIN)/python benchmarks/search.py
	$(BIN)/sherd bench mit --sets mit20 --grid 7x10 --gap 0,2,4 --systems greedy,tabu,ga,evolve

.venv/stamp: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install -q -c constraints.txt -e '.[dev]'
	touch $@

clean:
	rm -rf .venv out build .pytest_cache .mypy_cache .ruff_cache
