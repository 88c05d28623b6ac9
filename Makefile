# make demo   train on real reviews and see the result        make test    the fast tests
# make check  format, lint, types, security                   make test-all  the slow ones too
# make docs   build the documentation site in site/           make test-browser  pages in chromium
# make bench  run all benchmarks                              make test-floors  lowest dependencies
#                                                             make test-pythons  Python versions
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
EXTRAS := train,multi,ray,tune,paper,bert,minilm,hub,serve,explain,demo,baselines,docs,dev

.PHONY: setup demo check audit format test test-all coverage test-browser test-floors test-pythons test-sanitizers docs bench clean

setup: $(VENV)/.installed

# Installed again only when what is to be installed has changed.
$(VENV)/.installed: pyproject.toml constraints.txt $(wildcard src/lamatext/*/*.c src/lamatext/*/*.h)
	@echo "Setting up $(VENV): a few minutes, once."
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --disable-pip-version-check --constraint constraints.txt --editable ".[$(EXTRAS)]"
	@touch $@

demo: setup
	$(BIN)/lamatext train rotten-tomatoes --out runs/demo --force --baselines tfidf,avg --html runs/demo/examples.html
	@echo "Before you paste these commands, activate the environment: . $(BIN)/activate"

check: setup
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/bandit --quiet --recursive --configfile pyproject.toml src/lamatext

# Known vulnerabilities of the versions in constraints.txt; skipped if the advisories cannot be read.
audit: setup
	$(BIN)/python .ci/audit.py

format: setup
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

test: setup
	$(BIN)/pytest --numprocesses 2 --dist loadfile

test-all: setup
	$(BIN)/pytest -m "not browser" --numprocesses 2 --dist loadfile --durations 20

# All tests, with the lines and branches that none of them reaches; takes half as long again.
coverage: setup
	$(BIN)/pytest -m "not browser" --numprocesses 2 --dist loadfile --cov --cov-report=term:skip-covered

# Drives the pages in chromium, which Debian's package of that name brings.
test-browser: setup
	$(BIN)/pytest -m browser --numprocesses 2 --dist loadfile

# The core and the server with the lowest versions that pyproject.toml allows, and without torch.
# These tests import no training library; warnings of old versions are not errors.
FLOORS := .venv-floors
FLOOR_TESTS := tests/test_core_commands.py tests/test_errors.py tests/test_progress.py \
  tests/test_atomic_write.py tests/data tests/ngrams/test_hashing.py tests/recipes/test_loading.py \
  tests/kernels/test_kernel_threads.py tests/runtime/test_predict_table.py tests/runtime/test_predictor.py \
  tests/runtime/test_folder_export.py tests/saved/test_model_card.py tests/saved/test_network_tensors.py \
  tests/saved/test_quantization.py tests/runtime/test_onnx_file.py \
  tests/runtime/test_prediction_parts.py tests/serve tests/views/test_web_export.py
# These import scikit-learn, scipy or numba.
NEED_TRAINING := $(addprefix --ignore ,tests/data/test_validation.py tests/data/test_svd_vectors.py \
  tests/serve/test_several_labels.py)

test-floors: $(FLOORS)/.installed
	@rm -rf build $(FLOORS)/dist
	@$(FLOORS)/bin/python -m pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir $(FLOORS)/dist .
	@$(FLOORS)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --force-reinstall $(FLOORS)/dist/*.whl
	$(FLOORS)/bin/python -m pip check
	$(FLOORS)/bin/python -m pytest -q -W default $(FLOOR_TESTS) $(NEED_TRAINING)

# The core and the server with every declared Python version that is installed.
test-pythons:
	.ci/python_versions $(FLOOR_TESTS) $(NEED_TRAINING)

$(FLOORS)/.installed: pyproject.toml constraints.txt constraints-lowest.txt
	@echo "Setting up $(FLOORS)."
	@rm -rf $(FLOORS) && $(PYTHON) -m venv $(FLOORS)
	@$(FLOORS)/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints-lowest.txt ".[serve]"
	@$(FLOORS)/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt httpx hypothesis pytest
	@touch $@

# The C code under the address and undefined-behaviour sanitizers of gcc; about a minute.
test-sanitizers: setup
	.ci/sanitizers $(BIN)/python

# Regenerates the reference and the tables, then builds the site; neither needs the network.
docs: setup
	$(BIN)/python -m docs.make_reference
	$(BIN)/python -m docs.make_tables
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet

bench: setup
	$(BIN)/python -m benchmarks all

clean:
	rm -rf $(VENV) $(FLOORS) build dist .mypy_cache .pytest_cache .ruff_cache src/*.egg-info site
