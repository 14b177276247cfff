# Every target sets up what it needs: a fresh clone with Python 3.11+, pip and make is enough.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: help setup demo test lint format test-fast test-slow test-sql test-spark test-min test-mid coverage fuzz mutants bench bench-scale reproduction docs test-browser dist clean

help:
	@echo "make demo       fit on embedded data and print the comparison with plain PCA"
	@echo "make test       lint and the quick test suite"
	@echo "make test-slow  statistical tests, killed workers, whole products of inputs and cases, new examples; minutes"
	@echo "make test-sql   databases on real servers, ONNX and skops; installs their extras"
	@echo "make test-spark the tests on a local Spark session; installs pyspark, needs Java 17 or 21"
	@echo "make test-min   the quick tests with the lowest versions that pyproject.toml promises"
	@echo "make test-mid   the quick tests with versions in between: scikit-learn 1.7, scipy 1.16, pandas 2.3"
	@echo "make fuzz       10,000 random tries against oracles; TRIES= and SEED= choose others"
	@echo "make mutants    faults drawn at random (N=200 SEED=…), one at a time, that the tests must find"
	@echo "make coverage   which lines the quick tests reach, as build/coverage/index.html"
	@echo "make bench      the solver benchmark table"
	@echo "make bench-scale  Parquet, Dask and Spark on millions of rows, minutes and 3 GB of disk"
	@echo "make reproduction  tables and figures of the paper and docs/reproduction.md, about 20 minutes on two cores; needs FAIRPCA_DATA"
	@echo "make docs       the documentation with its gallery, as build/site/index.html, minutes and no network"
	@echo "make test-browser  pages in a headless Chromium, and the links of the site that make docs built"
	@echo "make dist       wheel and source archive; runs the wheel, and the quick tests from the unpacked archive"
	@echo "make lint | format | setup | clean"

# uv is quicker; where it cannot be had, a pip that knows dependency groups does the same. Compiled once
# here, as pip does: else each process of the tests may compile scikit-learn and pandas again.
install = $(BIN)/uv pip install --quiet --compile-bytecode --python $(BIN)/python -c constraints.txt $(1) \
  || { $(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade 'pip>=25.1' \
       && $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt $(1); }
DEV := -e '.[cli,dask]' --group dev
SQL := -e '.[cli,dask,sql,onnx,skops]'
SPARK := -e '.[cli,dask,spark]'
BROWSER := -e '.[cli,dask]' --group browser
DOCS := -e '.[cli,dask]' --group docs

$(STAMP): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check uv
	$(call install,$(DEV))
	@touch $(STAMP)

setup: $(STAMP)

demo: setup
	@$(BIN)/fairpca fit

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: setup
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

# One BLAS thread a process: the matrices are small and pytest already uses both cores. Stealing work keeps
# the tests of a file in one process, which shares their fixtures.
test-fast: setup
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -q -n auto --dist worksteal

test: lint test-fast

test-slow: setup
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -q -n auto --dist worksteal -m slow
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 FAIRPCA_RANDOM=1 $(BIN)/python -m pytest -q -n auto --dist worksteal tests/property

# Databases, ONNX and skops: extras that the quick tests do without.
test-sql: setup
	$(call install,$(SQL))
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -q -m sql tests

# pyspark is half a gigabyte, so it is installed here and nowhere else.
test-spark: setup
	$(call install,$(SPARK))
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -q -m spark tests

# An environment of its own, where every requirement has the lowest version that it allows.
MIN := .venv-min
test-min: setup
	test -x $(MIN)/bin/python || $(PYTHON) -m venv $(MIN)
	$(BIN)/uv pip install --quiet --compile-bytecode --python $(MIN)/bin/python --resolution lowest-direct -e '.[cli,dask]' --group test
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(MIN)/bin/python -m pytest -q -n auto --dist worksteal -p no:cacheprovider

# The same with versions that many people have: before callbacks of scikit-learn and strings of pandas 3.
MID := .venv-mid
test-mid: setup
	test -x $(MID)/bin/python || $(PYTHON) -m venv $(MID)
	$(BIN)/uv pip install --quiet --compile-bytecode --python $(MID)/bin/python -e '.[cli,dask]' --group test \
	  'scikit-learn==1.7.*' 'scipy==1.16.*' 'numpy==2.3.*' 'pandas==2.3.*' 'matplotlib==3.10.*' 'polars<2'
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(MID)/bin/python -m pytest -q -n auto --dist worksteal -p no:cacheprovider

TRIES ?= 10000
SEED ?= $(shell date +%s)
fuzz: setup
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -W ignore tests/fuzz --tries $(TRIES) --seed $(SEED)

N ?= 200
mutants: setup
	$(BIN)/python tests/mutants --count $(N) --seed $(SEED)

coverage: setup
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -q -n auto --dist worksteal \
	  --cov=fairpca --cov-report=html:build/coverage --cov-report=term:skip-covered

bench: setup
	$(BIN)/python benchmarks/solvers.py

bench-scale: setup
	$(BIN)/python benchmarks/scale.py

reproduction: setup
	$(BIN)/python -m reproduction all --splits 5 --out build/reproduction --report docs/reproduction.md

# What a release would hold: the wheel runs in an environment that has nothing else of fairpca (-I: not
# this directory either), then the unpacked archive is tested in one of its own.
WHEEL := build/wheel/bin
dist: setup
	rm -rf dist build/dist build/wheel
	$(BIN)/uv build --quiet --out-dir dist
	$(PYTHON) -m venv build/wheel
	$(BIN)/uv pip install --quiet --python $(WHEEL)/python -c constraints.txt "$$(ls dist/*.whl)[cli]"
	$(WHEEL)/python -I -c "import fairpca as f; assert 'site-packages' in f.__file__; [getattr(f, name) for name in f.__all__]"
	test "$$($(WHEEL)/fairpca --version)" = "fairpca $$($(WHEEL)/python -I -c 'import fairpca; print(fairpca.__version__)')"
	$(WHEEL)/fairpca fit
	$(WHEEL)/fairpca report --effort quick --out build/wheel/report.html
	mkdir -p build/dist && tar -xzf dist/*.tar.gz -C build/dist --strip-components 1
	$(MAKE) -C build/dist test-fast

# The browser itself comes from the system: apt-get install chromium.
test-browser: setup
	$(call install,$(BROWSER))
	mkdir -p build/tools
	test -f build/tools/node_modules/axe-core/axe.min.js \
	  || npm install --silent --no-audit --no-fund --prefix build/tools axe-core
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -q -m browser tests/browser

# Warnings are errors: a link that leads nowhere or a docstring that does not parse stops the build.
docs: setup
	$(call install,$(DOCS))
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m sphinx -W --keep-going -q -b html -d build/doctrees docs build/site

clean:
	rm -rf docs/api docs/changelog.md docs/contributing.md docs/gallery $(VENV) $(MIN) $(MID) .coverage .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
