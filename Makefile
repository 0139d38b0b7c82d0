SHERD_DATA ?= $(abspath ../shared/data)
export SHERD_DATA
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo studio test check browser bench clean

demo: .venv/stamp
	$(BIN)/sherd demo --out out/demo

studio: .venv/stamp
	$(BIN)/sherd studio

test: check browser
	$(BIN)/python -m pytest -n 2

check: .venv/stamp
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# The tests of the studio's page need a browser; without one they are skipped.
browser:
	@command -v chromium >/dev/null || \
	  { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && apt-get update -qq && \
	    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium \
	      >/dev/null; } || \
	  echo "no chromium: the tests of the studio's page are skipped" >&2

bench: .venv/stamp
	$(BIN)/python benchmarks/search.py
	$(BIN)/sherd bench mit --sets mit20 --grid 7x10 --gap 0,2,4 --systems greedy,tabu,ga,evolve

.venv/stamp: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install -q -c constraints.txt -e '.[dev]'
	touch $@

clean:
	rm -rf .venv out build .pytest_cache .mypy_cache .ruff_cache
