# Two commands from a clone: `make demo` and `make test`. Each sets up what it needs in .venv first.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# One more process than cores: tests that start others wait for them.
JOBS ?= $(shell $(PYTHON) -c 'import os; print(len(os.sched_getaffinity(0)) + 1 if hasattr(os, "sched_getaffinity") else os.cpu_count() + 1)')

.PHONY: install demo test quick test-slow test-long browser cluster lint docs wheel matrix sanitize gpu bench clean

install: $(VENV)/.installed

# With the developers' tools and the paper; the demo needs a user's packages only. Python compiles what is imported, pip all there is.
$(VENV)/.installed: WHAT := -e '.[dev]' -e ./paper
$(VENV)/.demo: WHAT := -e '.[figures]'
$(VENV)/.installed: paper/pyproject.toml
$(VENV)/.installed $(VENV)/.demo: pyproject.toml CMakeLists.txt $(wildcard src/trajens/kernels/csrc/*)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "trajens needs Python 3.11 or newer; try make PYTHON=python3.12"; exit 2; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile $(WHAT)
	@touch $@

demo: $(or $(wildcard $(VENV)/.installed),$(VENV)/.demo)
	rm -rf demo/run
	$(BIN)/trajens train --config examples/mnist_demo.toml --out demo/run
	$(BIN)/trajens evaluate demo/run
	$(BIN)/trajens picture demo/run --out demo/mnist.png
	$(BIN)/trajens report demo/run --out demo/report.html

# The checks of lint beside the tests: mypy has one process.
test: install
	@$(MAKE) --no-print-directory -j 2 lint quick

quick: install
	$(BIN)/python -m pytest -n $(JOBS) --dist worksteal -m "not slow and not long and not browser and not cluster"

# What takes longer: biases to a tenth of a per cent, damaged files, many kills.
test-slow: install
	$(BIN)/python -m pytest -n $(JOBS) --dist worksteal -m slow

# The figures at their quick scale and the longest laws, some twenty minutes: before a release, or when one was changed.
test-long: install
	$(BIN)/python -m pytest -n $(JOBS) --dist worksteal -m long

# The page of `trajens report` in a real browser; skipped where there is no Chromium.
browser: install
	$(BIN)/python -m pytest -m browser -rs

# Sweeps on a SLURM of one node, which tests/cluster/slurm.sh brings up on the loopback interface and takes down again;
# needs Linux and root, and installs Debian's packages of SLURM where they are missing.
cluster: install
	tests/cluster/slurm.sh $(BIN)/python -m pytest -m cluster -rs --durations=0 tests/app/sweeps/test_slurm.py

lint: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python tests/structure.py --check

# The documentation, into build/site. Notebooks are run for it, and any warning or broken link is an error.
docs: $(VENV)/.docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict
	@echo "open build/site/index.html; to search, which needs a server: $(BIN)/mkdocs serve"

$(VENV)/.docs: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[docs]'
	@touch $@

# Wheels and sdist, into dist/; each wheel is tried in a bare environment without a compiler.
wheel: $(VENV)/.build
	tests/release/wheel.sh $(CURDIR)/$(BIN)/python

$(VENV)/.build: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check 'build>=1.2'
	@touch $@

# The tests on every pair of Python and JAX that can be installed, with environments and logs in build/matrix. For a look:
#   make matrix PYTHONS=python3.13 JAXES=0.12 TESTS='tests/kernels/test_cpu.py tests/sampling/test_sampler.py'
PYTHONS ?= python3.11 python3.12 python3.13 python3.14
JAXES ?= 0.10 0.11 0.12
TESTS ?=
matrix:
	JOBS=$(JOBS) tests/release/matrix.sh "$(PYTHONS)" "$(JAXES)" $(TESTS)

# The kernel under the address and undefined-behaviour sanitizers, on the kernel's own tests.
sanitize: install
	cmake -S . -B build/sanitize -DTRAJENS_SANITIZE=ON -DPython_EXECUTABLE=$(CURDIR)/$(BIN)/python
	cmake --build build/sanitize
	TRAJENS_CPU_LIBRARY=$(CURDIR)/build/sanitize/trajens_cpu.so ASAN_OPTIONS=detect_leaks=0 \
	  LD_PRELOAD="$$($(CXX) -print-file-name=libasan.so) $$($(CXX) -print-file-name=libubsan.so)" \
	  $(BIN)/python -m pytest tests/kernels/test_cpu.py

# All that needs an NVIDIA GPU: the tests marked gpu, and the kernel under compute-sanitizer's memcheck and racecheck.
# JAX must see the GPU, which that of .venv does after `.venv/bin/pip install 'jax[cuda13]'` (or cuda12, with an older
# driver). PYTHON_RUN is another interpreter to use in its place, for instance with a source tree that is not installed:
#   cmake -S . -B build/gpu && cmake --build build/gpu && PYTHONPATH=src make gpu PYTHON_RUN=python3
PYTHON_RUN ?= $(BIN)/python
gpu: $(if $(filter $(BIN)/python,$(PYTHON_RUN)),install)
	@for tool in nvcc compute-sanitizer; do command -v $$tool >/dev/null || \
	  { echo "make gpu needs $$tool of the CUDA toolkit (12 or newer) on the path."; exit 2; }; done
	@$(PYTHON_RUN) -c 'import jax, sys; sys.exit(jax.default_backend() != "gpu")' || \
	  { echo "make gpu needs an NVIDIA GPU, and JAX in $(PYTHON_RUN) with CUDA (jax[cuda13] or jax[cuda12]) to see it."; exit 2; }
	@$(PYTHON_RUN) -c 'import sys; from trajens.kernels import library; sys.exit(not library("cuda").is_loaded)' || \
	  { echo "make gpu needs the CUDA kernel; install trajens again, with nvcc on the path."; exit 2; }
	$(PYTHON_RUN) -m pytest -m gpu tests/kernels/test_cuda.py
	mkdir -p build
	nvcc -O3 -std=c++17 -lineinfo -arch=native -Isrc/trajens/kernels/csrc -o build/kernel_alone benchmarks/cuda/kernel_alone.cu
	compute-sanitizer --tool memcheck --error-exitcode 1 build/kernel_alone
	compute-sanitizer --tool racecheck --error-exitcode 1 build/kernel_alone

bench: install
	$(BIN)/python benchmarks/perceptron.py
	$(BIN)/python benchmarks/kernel.py
	$(BIN)/python benchmarks/full_batch.py

clean:
	rm -rf $(VENV) build dist demo
