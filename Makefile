# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

# What a developer types. Everything comes from the package registries into .venv; the build tree is build/.
#   make build | test | demo | bench | format | lint | docs | wheel | clean

PYTHON ?= python3
JOBS ?= $(shell nproc 2>/dev/null || echo 2)
# PyTorch's own index has wheels without CUDA, a tenth of the size.
TORCH_INDEX ?= https://download.pytorch.org/whl/cpu

VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: setup build test unit-test lit-test demo bench format lint docs wheel wheel-test clean

setup: $(READY)

$(READY): pyproject.toml tools/setup.py
	$(PYTHON) tools/setup.py --venv $(VENV) --torch-index $(TORCH_INDEX)
	@touch $@

build: $(READY)
	$(BIN)/python tools/build.py --jobs $(JOBS)

test: build lint lit-test unit-test

lit-test: build
	$(BIN)/lit -j$(JOBS) -q test

unit-test: build
	$(BIN)/python -m pytest -q test/python test/Codegen

demo: build
	$(BIN)/python examples/demo.py

bench: build
	$(BIN)/python benchmarks/run.py

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python tools/format.py --check
	$(BIN)/mypy

format: $(READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/python tools/format.py

# The dialect's reference, from the TableGen descriptions.
docs: build
	$(BIN)/python tools/dialect_docs.py build/docs

wheel: $(READY)
	$(BIN)/python -m pip wheel --no-deps -w dist .

wheel-test: wheel
	$(PYTHON) tools/wheel_test.py dist

clean:
	rm -rf build dist
