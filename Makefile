# make demo   train on real reviews and see the result        make test    the fast tests
# make check  format, lint, types                             make test-all  the slow ones too
# make docs   build the documentation site in site/           make test-browser  pages in chromium
# make bench  run all benchmarks
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
EXTRAS := train,paper,bert,minilm,hub,serve,explain,demo,baselines,docs,dev

.PHONY: setup demo check format test test-all test-browser docs bench clean

setup: $(VENV)/.installed

# Installed again only when what is to be installed has changed.
$(VENV)/.installed: pyproject.toml constraints.txt src/lamatext/runtime/gru.c
	@echo "Setting up $(VENV): a few minutes, once."
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable ".[$(EXTRAS)]"
	@touch $@

demo: setup
	$(BIN)/lamatext train rotten-tomatoes --out runs/demo --baselines tfidf,avg --html runs/demo/examples.html

check: setup
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

format: setup
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

test: setup
	$(BIN)/pytest

test-all: setup
	$(BIN)/pytest -m "not browser" --cov --cov-report=term:skip-covered

# Drives the pages in chromium, which Debian's package of that name brings.
test-browser: setup
	$(BIN)/pytest -m browser

# Regenerates the reference and the tables, then builds the site; neither needs the network.
docs: setup
	$(BIN)/python -m docs.make_reference
	$(BIN)/python -m docs.make_tables
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet

bench: setup
	$(BIN)/python -m benchmarks all

clean:
	rm -rf $(VENV) build dist .mypy_cache .pytest_cache .ruff_cache src/*.egg-info site
