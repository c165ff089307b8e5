# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Short names for the project's commands. PYTHON is an interpreter with the requirements of pyproject.toml.

PYTHON ?= $(if $(wildcard .venv/bin/python),.venv/bin/python,python3)
JOBS ?= 2
export PYTHONPATH := $(CURDIR)/build/python_packages:$(PYTHONPATH)

.PHONY: build lit pytest test docs lint format

build: ## the compiler library, its Python bindings and the tools, in build/
	$(PYTHON) -m ninja -j$(JOBS) -C build ReproPythonModules

lit: ## text tests of repro-opt
	$(PYTHON) -m lit.main -j$(JOBS) -q test

pytest: ## tests in Python
	$(PYTHON) -m pytest -q test/python

test: lit pytest

docs: ## docs/reference/ from the TableGen descriptions
	$(PYTHON) tools/docs/generate.py

lint: ## formats, license headers, types
	$(PYTHON) tools/style/check.py
	$(PYTHON) -m mypy

format: ## rewrite what formatters can
	$(PYTHON) tools/style/check.py --fix
