# Two commands from a clone: `make demo` and `make test`. Each sets up what it needs in .venv first.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
JOBS ?= auto

.PHONY: install demo test lint sanitize bench clean

install: $(VENV)/.installed

$(VENV)/.installed: pyproject.toml CMakeLists.txt $(wildcard src/trajens/kernels/csrc/*)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "trajens needs Python 3.11 or newer; try make PYTHON=python3.12"; exit 2; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	@touch $@

demo: install
	rm -rf demo/run
	$(BIN)/trajens train --config examples/mnist_demo.toml --out demo/run
	$(BIN)/trajens evaluate demo/run
	$(BIN)/trajens picture demo/run --out demo/mnist.png

test: lint
	$(BIN)/python -m pytest -n $(JOBS)

lint: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# The kernel under the address and undefined-behaviour sanitizers, on the kernel's own tests.
sanitize: install
	cmake -S . -B build/sanitize -DTRAJENS_SANITIZE=ON -DPython_EXECUTABLE=$(CURDIR)/$(BIN)/python
	cmake --build build/sanitize
	TRAJENS_CPU_LIBRARY=$(CURDIR)/build/sanitize/trajens_cpu.so ASAN_OPTIONS=detect_leaks=0 \
	  LD_PRELOAD="$$($(CXX) -print-file-name=libasan.so) $$($(CXX) -print-file-name=libubsan.so)" \
	  $(BIN)/python -m pytest tests/test_kernels.py

bench: install
	$(BIN)/python benchmarks/perceptron.py
	$(BIN)/trajens bench kernel
	$(BIN)/python benchmarks/full_batch.py

clean:
	rm -rf $(VENV) build dist demo
