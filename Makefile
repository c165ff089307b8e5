# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

# The commands of a developer. Everything comes from the package registries into .venv; the build tree is build/.
#   make build | test | test-all | fuzz | check-sanitizers | coverage-report | demo | bench
#   make format | style | lint | tidy | lock | docs | site | wheel | release | clean

PYTHON ?= python3
JOBS ?= $(shell nproc 2>/dev/null || echo 2)
# The minutes that each fuzzer runs.
MINUTES ?= 10

# Hundreds of tests start processes that import PyTorch, which takes twice as long without cached bytecode.
unexport PYTHONDONTWRITEBYTECODE

VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: setup lock build test test-all unit-test exhaustive-test lit-test coverage coverage-keras coverage-tosa coverage-tensorflow models-test tensorflow-test mpi-test microcontroller-environment microcontroller-sample microcontroller-test serve-load check-functions check-block-formats check-tensor-cores check-recipes check-vectors gfloat-test torchao-test test-versions attest-test fuzz check-sanitizers sanitizer-sample coverage-report demo bench format style lint tidy docs site wheel wheel-test release release-compare release-test release-test-arm release-verify release-verify-test clean

setup: $(READY)

$(READY): pyproject.toml requirements.lock tools/setup.py
	$(PYTHON) tools/setup.py --venv $(VENV)
	@touch $@

# Writes requirements.lock from pyproject.toml.
lock:
	$(PYTHON) tools/lock.py

build: $(READY)
	$(BIN)/python tools/build.py --jobs $(JOBS)

# The sanitizers run on main, and elsewhere if C++ files differ from SINCE: the last common commit with main.
test: SINCE ?= $(shell test "$$(git rev-parse HEAD)" = "$$(git rev-parse --verify --quiet main)" || echo main)
test: build lint lit-test sanitizer-sample tensorflow-test mpi-test microcontroller-sample unit-test

sanitizer-sample: build
	$(BIN)/python tools/sanitizers/check.py --sample --seconds 5 --programs 10 --jobs $(JOBS) $(if $(SINCE),--since $(SINCE))

lit-test: build
	$(BIN)/lit -j$(JOBS) -q test

unit-test: build
	$(BIN)/python -m pytest -q -n $(JOBS) --dist worksteal

# `make test` with exhaustive cases (test/conftest.py) and the sanitizers; see docs/contributors/testing.md.
test-all: build lint lit-test sanitizer-sample tensorflow-test mpi-test microcontroller-test exhaustive-test

exhaustive-test: build
	REPRO_TESTS=all $(BIN)/python -m pytest -q -n $(JOBS) --dist worksteal

# Every operator of PyTorch's own tests, and every backend test of ONNX; unit-test takes a sample.
coverage: build
	REPRO_COVERAGE=all REPRO_TESTS=all $(BIN)/python -m pytest -q --timeout 0 test/python/coverage

# The layers of Keras' own tests on both of its backends; fails if the results differ from expected_keras.json.
coverage-keras: build
	$(BIN)/python test/python/coverage/keras_coverage.py --jobs $(JOBS) --expect

# Conformance tests of TOSA, in an environment of its own; writes docs/coverage/tosa.md.
coverage-tosa: build
	$(BIN)/python test/environment.py test/tosa/requirements.txt build/environments/tosa
	$(BIN)/python test/tosa/coverage.py build/environments/tosa

# Models of transformers, torchvision, timm, flax and equinox, in an environment of their own; half an hour of compilation.
models-test: build
	$(BIN)/python test/environment.py test/models/requirements.txt build/environments/models --over
	build/environments/models/bin/python -m pytest -q -n $(JOBS) test/models

# Functions and SavedModels of TensorFlow, in an environment of their own; two minutes.
tensorflow-test: build
	$(BIN)/python test/environment.py test/tensorflow_frontend/requirements.txt build/environments/tensorflow --over
	build/environments/tensorflow/bin/python -m pytest -q -n $(JOBS) test/tensorflow_frontend

# Ranks of mpirun, in an environment of their own; seconds.
mpi-test: build
	$(BIN)/python test/environment.py test/mpi/requirements.txt build/environments/mpi --over
	build/environments/mpi/bin/python -m pytest -q test/mpi

# Steps of programs and plans of many cores on Cortex-M4s in Unicorn, and images on QEMU if qemu-system-arm is installed,
# in an environment of their own; minutes.
microcontroller-test: microcontroller-environment
	build/environments/microcontroller/bin/python -m pytest -q -n $(JOBS) test/microcontroller

# These tests without training steps of the examples, which take most of the time.
microcontroller-sample: microcontroller-environment
	build/environments/microcontroller/bin/python -m pytest -q -n $(JOBS) test/microcontroller -k "not test_a_training_step and not test_the_image_trains"

microcontroller-environment: build
	$(BIN)/python test/environment.py test/microcontroller/requirements.txt build/environments/microcontroller --over

# Operations of TensorFlow; fails if the results differ from expected_tensorflow.json.
coverage-tensorflow: build
	$(BIN)/python test/environment.py test/tensorflow_frontend/requirements.txt build/environments/tensorflow --over
	build/environments/tensorflow/bin/python test/python/coverage/tensorflow_coverage.py --jobs $(JOBS) --expect

# repro serve under 10,000 requests at 8 concurrent, with faults; see docs/guides/serving.md.
serve-load: build
	$(BIN)/python test/load/serving.py

# All 2^32 inputs of each function of f32 on the levels of this machine; resumes where it stopped (slow on x86-64-v2,
# which has no fma). Then random inputs and hard cases of those of f64.
check-functions: build
	$(BIN)/python tools/functions/check.py
	$(BIN)/python tools/functions/check_double.py

# Quantized tensors of other projects, from the folder VECTORS; see docs/guides/low-precision.md.
check-block-formats: build
	REPRO_BLOCK_FORMATS=$(VECTORS) $(BIN)/python -m pytest -q test/python/reference/low_precision/test_recorded_block_formats.py

# Results of tensor cores in the folder VECTORS, likewise.
check-tensor-cores: build
	REPRO_TENSOR_CORES=$(VECTORS) $(BIN)/python -m pytest -q test/python/reference/low_precision/test_recorded_tensor_cores.py test/python/reference/low_precision/test_compiled_tensor_cores.py

# A GPT under each precision recipe on every target of this machine, 300 steps; see docs/guides/precision.md.
check-recipes: build
	$(BIN)/python test/targets/recipes.py

# Codes and roundings of low precision against gfloat, in an environment of its own; seconds.
gfloat-test: build
	$(BIN)/python test/environment.py test/gfloat/requirements.txt build/environments/gfloat --over
	build/environments/gfloat/bin/python -m pytest -q test/gfloat

# The score of torchao by the conformance vectors, likewise.
torchao-test: build
	$(BIN)/python test/environment.py test/torchao/requirements.txt build/environments/torchao --over
	build/environments/torchao/bin/python -m pytest -q test/torchao

# Exports of receipts against the packages of their formats, likewise.
attest-test: build
	$(BIN)/python test/environment.py test/attest/requirements.txt build/environments/attest --over
	build/environments/attest/bin/python -m pytest -q test/attest

# Other versions of PyTorch, JAX, transformers, Keras and onnx, each in an environment that is deleted again; an hour and
# gigabytes of downloads. TRIALS="torch jax==0.8.3" tries a part; see docs/guides/versions.md.
test-versions: build
	$(BIN)/python test/versions/trials.py $(TRIALS)

# Scores of the recorded outputs in the folder VECTORS and its folders; see docs/guides/vectors.md.
check-vectors: build
	REPRO_VECTORS=$(VECTORS) $(BIN)/python -m pytest -q test/python/conformance/test_recorded_scores.py

# Random programs on all targets, functions of PyTorch, then damaged files and messages; see docs/contributors/fuzzing.md.
fuzz: build
	$(BIN)/python test/fuzz/semantic.py --count 1000000 --minutes $(MINUTES) --journal build/fuzz/semantic.jsonl
	$(BIN)/python test/fuzz/semantic.py --near --count 1000000 --minutes $(MINUTES) --journal build/fuzz/near.jsonl
	$(BIN)/python test/fuzz/core_plans.py --count 1000000 --minutes $(MINUTES) --journal build/fuzz/core-plans.jsonl
	$(BIN)/python test/fuzz/core_mutations.py --count 1000000 --minutes $(MINUTES) --journal build/fuzz/core-mutations.jsonl
	$(BIN)/python test/fuzz/core_mutations.py --of bytes --count 1000000 --minutes $(MINUTES) --journal build/fuzz/core-bytes.jsonl
	$(BIN)/python test/fuzz/torch_modules.py --count 1000000 --minutes $(MINUTES) --journal build/fuzz/torch.jsonl
	$(BIN)/python test/fuzz/readers.py --count 1000000 --minutes $(MINUTES)
	$(BIN)/python test/fuzz/changes.py --journal build/fuzz/changes.jsonl

# All of our C++ with sanitizers: lit, fuzzers, tests of Python; see docs/contributors/fuzzing.md.
check-sanitizers: build
	$(BIN)/python tools/sanitizers/check.py --jobs $(JOBS)

# Coverage of our Python and C++ by TESTS, all by default; builds with counters into build-coverage/.
coverage-report: build
	$(BIN)/python tools/coverage/report.py --jobs $(JOBS) $(TESTS)

demo: build
	$(BIN)/python examples/demo.py

bench: build
	$(BIN)/python benchmarks/run.py

# Formats, license headers, names and language, which need no build.
style: $(READY)
	$(BIN)/python tools/style/check.py

lint: style build
	$(BIN)/mypy

# clang-tidy on all of our C++, or with SINCE=main on what was changed since; minutes, so that lint does without it.
tidy: build
	$(BIN)/python tools/style/tidy.py --jobs $(JOBS) $(if $(SINCE),--since $(SINCE))

format: $(READY)
	$(BIN)/python tools/style/check.py --fix

# The generated pages of docs/reference, from the TableGen descriptions, the parsers and the docstrings.
docs: $(READY)
	$(BIN)/python tools/docs/generate.py
	$(BIN)/python tools/docs/commands.py
	$(BIN)/python tools/docs/api.py

# The documentation as a site in build/site, in an environment of its own; a minute.
site:
	$(PYTHON) test/environment.py docs/requirements.txt build/environments/site
	build/environments/site/bin/python tools/docs/site.py build/site

# `pip wheel .` makes the same. The build tree is the wheel's own, so tests and users of build/ are not disturbed.
wheel: $(READY)
	PATH=$(abspath $(BIN)):$$PATH $(BIN)/python -m pip wheel --quiet --no-build-isolation --no-deps -C build-dir=build/wheel -w dist .

wheel-test: wheel
	$(PYTHON) tools/wheel_test.py dist

# What users install (docs/contributors/release.md): the wheels of repro-mlir for each Python of PYTHONS and machine of
# MACHINES, and the wheel of repro-mlir-verify.
release release-compare: PYTHONS ?= python3.11 python3.12 python3.13
release release-compare: MACHINES ?= x86_64
release: release-verify
	JOBS=$(JOBS) $(PYTHON) tools/release/compiler.py dist $(PYTHONS:%=--python %) $(MACHINES:%=--machine %)

# Builds the wheels in dist again, elsewhere, and compares the bytes.
release-compare:
	JOBS=$(JOBS) $(PYTHON) tools/release/compare.py dist $(PYTHONS:%=--python %) $(MACHINES:%=--machine %)

# Installs, uses and uninstalls the wheels in dist, in new environments of PYTHONS.
release-test: PYTHONS ?= $(PYTHON)
release-test:
	$(PYTHON) tools/release/install_test.py dist $(PYTHONS)
	$(PYTHON) tools/release/install_test.py --torch dist $(firstword $(PYTHONS))

# The same for the wheels for aarch64, in Debian's systems for aarch64, which QEMU emulates.
release-test-arm:
	$(PYTHON) tools/release/emulated.py bookworm /usr/bin/python3 $(CURDIR)/tools/release/install_test.py $(CURDIR)/dist /usr/bin/python3
	$(PYTHON) tools/release/emulated.py trixie /usr/bin/python3 $(CURDIR)/tools/release/install_test.py $(CURDIR)/dist /usr/bin/python3

# The pure-Python wheel of repro-mlir-verify, whose bytes are the same in each build.
release-verify:
	$(PYTHON) tools/release/verifier.py dist

# Installs that wheel in new environments of PYTHONS and verifies a receipt of examples/digits_cnn.py there; a minute.
release-verify-test: PYTHONS ?= $(PYTHON)
release-verify-test: build
	$(BIN)/python tools/release/verifier_test.py $(PYTHONS)

clean:
	rm -rf build build-coverage build-sanitizers dist
