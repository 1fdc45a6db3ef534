# make demo     measure an embedded table with noise, estimate a model, draw records and a picture (seconds after set-up)
# make test     run all tests, with the same random examples on every machine
# make notebooks   run each notebook from top to bottom, as `.ci/run` does
# make search   run the property tests with many new random examples; prints the seed, and SEED=... repeats a run
# make docs     build guides, notebooks and reference: build/docs/index.html; fails if a link leads nowhere
# make lint     check style, prose and size; make types: check static types
# make bench    run the benchmarks; make clean: remove what these targets made
#
# make compat   run mbi's own tests on pgmest; make opendp: run OpenDP's tables with our estimator, and their notebook
# make peers    compare with dpmm and smartnoise-synth; MBI=path adds the mechanisms of a checkout of mbi
# make site     build the pages of every release: build/site; make dist: sdist and wheel; make sbom: list an installation
#
# Each target makes a virtual environment in $(VENV), or uses the one that is there, and installs what it needs.
# It needs Python 3.11 or newer with pip. Another interpreter: make demo PYTHON=python3.12

PYTHON ?= python3
VENV ?= .venv
PYTEST_FLAGS ?= -n auto --dist worksteal
BIN := $(VENV)/bin
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --editable

COMPILE_ALL := from pgmest.cli.warm_up import compile_all; compile_all()
KERNELS := $(shell grep -rlE '^@(compiled|_cached)' --include='*.py' pgmest)

.PHONY: demo test notebooks search lint types docs site bench compat opendp peers dist sbom clean
.DELETE_ON_ERROR:
.NOTPARALLEL:

demo: $(VENV)/.installed-plot $(VENV)/.kernels
	$(BIN)/python -m pgmest.cli.demo

# A worker has one core: threads of OpenBLAS that wait for work would keep the others busy.
test notebooks search: export OPENBLAS_NUM_THREADS ?= 1

# Some containers forbid bytecode: each process of a test would then compile the whole package, for 2 s.
unexport PYTHONDONTWRITEBYTECODE

test: $(VENV)/.installed-dev $(VENV)/.kernels
	$(BIN)/python -m pytest $(PYTEST_FLAGS)

notebooks: $(VENV)/.installed-dev $(VENV)/.kernels
	$(BIN)/python -m pytest -q -m runs_a_notebook tests/test_notebooks.py

search: $(VENV)/.installed-dev $(VENV)/.kernels
	@seed=$${SEED:-$$($(PYTHON) -c 'import random; print(random.SystemRandom().randrange(2 ** 32))')}; \
	echo "Random examples of seed $$seed. To repeat them: make search SEED=$$seed"; \
	HYPOTHESIS_PROFILE=search $(BIN)/python -m pytest $(PYTEST_FLAGS) -m 'hypothesis and not runs_a_notebook' --hypothesis-seed=$$seed

lint: $(VENV)/.installed-dev
	$(BIN)/python -m ruff check .
	$(BIN)/python -m ruff format --check .
	$(BIN)/python .ci/prose
	$(BIN)/python .ci/size

types: $(VENV)/.installed-dev
	$(BIN)/python -m pyright --pythonpath $(BIN)/python
	$(BIN)/python .ci/typed_pages
	PATH="$(abspath $(BIN)):$$PATH" $(BIN)/python .ci/type_completeness

docs: $(VENV)/.installed-docs
	PATH="$(abspath $(BIN)):$$PATH" NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet
	@echo 'built build/docs/index.html'

site: $(VENV)/.installed-docs
	PATH="$(abspath $(BIN)):$$PATH" NO_MKDOCS_2_WARNING=1 $(BIN)/python docs/hooks/site.py
	@echo 'built build/site/index.html'

bench: $(VENV)/.installed-bench
	$(BIN)/python -m experiments.benchmarks

# MBI=path: the tests and mechanisms of a checkout of mbi, rather than those of its source distribution.
compat: $(VENV)/.installed-compat
	$(BIN)/python -m experiments.compat $(if $(MBI),--mbi $(MBI))

OPENDP_VERSION ?= 0.16.0
OPENDP := build/compat/opendp-$(OPENDP_VERSION)
opendp: $(OPENDP)/.installed
	$(OPENDP)/bin/python -W ignore -m experiments.compat.opendp_tables
	$(OPENDP)/bin/python -W ignore -m experiments.compat.run_notebook experiments/compat/opendp.ipynb

# Each peer pins its dependencies, so each has a separate environment.
peers: $(VENV)/.installed-dev build/peers/dpmm/.installed build/peers/smartnoise-synth/.installed build/peers/mbi/.installed
	$(BIN)/python -m experiments.peers $(foreach peer,dpmm smartnoise-synth mbi,--python $(peer)=build/peers/$(peer)/bin/python) \
	  $(if $(MBI),--mbi $(MBI))

dist: $(VENV)/.installed-dist
	PYTHON=$(abspath $(BIN))/python .ci/distributions dist

sbom: $(VENV)/.installed-dist
	rm -rf build/sbom && $(PYTHON) -m venv build/sbom
	build/sbom/bin/python -m pip install --quiet --disable-pip-version-check .
	$(BIN)/python -m cyclonedx_py environment --output-reproducible --pyproject pyproject.toml \
	  --output-file build/sbom.json build/sbom/bin/python
	@echo 'wrote build/sbom.json'

clean:
	rm -rf demo-output build dist .pytest_cache .ruff_cache .hypothesis $(VENV)/.kernels
	find pgmest tests experiments -name __pycache__ -prune -exec rm -rf {} + 2>/dev/null || true

# The stamp files make an extra install again when pyproject.toml changes.
$(VENV)/.installed-plot: pyproject.toml | $(VENV)/.pip
	$(INSTALL) '.[plot]'
	@touch $@

$(VENV)/.installed-dev: pyproject.toml | $(VENV)/.pip
	$(INSTALL) '.[dev]'
	@touch $@ $(VENV)/.installed-plot

# Otherwise the first calls would compile them, and each process of pytest for itself.
$(VENV)/.kernels: $(KERNELS) | $(VENV)/.installed-plot
	@echo 'compiling kernels: a minute on two cores, once'
	@$(BIN)/python -c '$(COMPILE_ALL)'
	@touch $@

$(VENV)/.installed-docs: pyproject.toml | $(VENV)/.pip
	$(INSTALL) '.[docs]'
	@touch $@

$(VENV)/.installed-compat: pyproject.toml | $(VENV)/.pip
	$(INSTALL) '.[compat]'
	@touch $@

$(VENV)/.installed-dist: pyproject.toml | $(VENV)/.pip
	$(BIN)/python -m pip install --quiet --disable-pip-version-check build cyclonedx-bom
	@touch $@

# OpenDP pins mbi and polars, so it has a separate environment.
$(OPENDP)/.installed: pyproject.toml
	$(PYTHON) -m venv $(OPENDP)
	$(OPENDP)/bin/python -m pip install --quiet --disable-pip-version-check 'opendp[mbi]==$(OPENDP_VERSION)' matplotlib nbclient \
	  ipykernel --editable .
	@touch $@

build/peers/dpmm/.installed build/peers/smartnoise-synth/.installed:
	$(PYTHON) -m venv $(@D)
	$(@D)/bin/python -m pip install --quiet --disable-pip-version-check $(notdir $(@D))
	@touch $@

build/peers/mbi/.installed: pyproject.toml
	$(PYTHON) -m venv $(@D)
	$(@D)/bin/python -m pip install --quiet --disable-pip-version-check 'mbi==1.1.0' matplotlib --editable .
	@touch $@

$(VENV)/.installed-bench: pyproject.toml | $(VENV)/.pip
	$(INSTALL) '.[bench]'
	@touch $@ $(VENV)/.installed-plot

# Some systems ship Python without ensurepip, and some tools make environments without pip. Then $(PYTHON) installs pip.
$(VENV)/.pip: | $(BIN)/python
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || $(BIN)/python -m ensurepip --default-pip >/dev/null 2>&1 \
	  || $(PYTHON) -m pip --python $(BIN)/python install --quiet pip \
	  || { echo 'No pip for $(VENV). Install pip for $(PYTHON) (on Debian and Ubuntu: apt install python3-pip).' >&2; exit 1; }
	@touch $@

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo 'pgmest needs Python 3.11 or newer, as $(PYTHON). Name another: make $(MAKECMDGOALS) PYTHON=python3.12' >&2; exit 1; }
	@$(PYTHON) -m venv --without-pip $(VENV) || { \
	  echo '$(PYTHON) cannot make virtual environments. Install its venv module (on Debian and Ubuntu: apt install' >&2; \
	  echo 'python3-venv), or make $(VENV) with another tool, and run make again.' >&2; exit 1; }
