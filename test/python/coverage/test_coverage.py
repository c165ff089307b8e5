# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tests how far PyTorch's operators (alone, with our gradients and through torch.compile) and the tests of ONNX, JAX
and Keras get.

Each entry must get exactly as far as the expected*.json files here record. By default a sample of the entries and of
the dtypes other than float32 runs; with REPRO_COVERAGE=all (`make coverage`) all run.
"""

import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import pytest

pytest.importorskip("torch_mlir")

import backend_coverage
import gradient_coverage
import jax_coverage
import keras_coverage
import onnx_coverage
import operator_coverage
import opinfo_capture
import torch
from suite import Outcome, Suite
from support.forked_python import run_python

JOBS = int(os.environ.get("REPRO_COVERAGE_JOBS", "2"))


@dataclass(frozen=True)
class _Coverage:
    """A suite, its entries, and how many of them run and must succeed.

    Attributes:
      every: by default, one in `every` entries runs.
      least_ok: the least number of entries that must be `ok`.
      least_share: of the entries that have a sample, the least share that must be `ok`.
      options: options of the script.
    """

    suite: Suite
    entries: list[str]
    every: int
    least_ok: int = 0
    least_share: float = 0.0
    options: tuple[str, ...] = ()

    def run(self, names: list[str], out: Path) -> Iterator[Outcome]:
        """Runs the script on `names` in another process and yields its outcomes. The script forks. Forking would be
        unsafe in this process, because this process may have threads."""
        script = Path(__file__).with_name(self.suite.script)
        command = [str(script), "--jobs", str(JOBS), "--out", str(out), *self.options, *names]
        done = run_python(command, timeout=None)
        assert done.returncode == 0, done.stderr[-2000:]
        for line in out.read_text().splitlines():
            yield Outcome(**json.loads(line))


def _of_dtype(dtype: str) -> _Coverage:
    entries = sorted(opinfo_capture.entries(getattr(torch, dtype)))
    suite = operator_coverage.suite(dtype)
    if dtype == "float32":
        return _Coverage(suite, entries, 240, least_ok=600)
    share = 0.7 if dtype == "complex64" else 0.9
    return _Coverage(suite, entries, 800, least_share=share, options=("--dtype", dtype))


def _of(script: ModuleType, every: int, least_ok: int) -> _Coverage:
    """Returns the coverage of the suite `SUITE` of a script, with the names that its function `entries` returns."""
    return _Coverage(script.SUITE, sorted(script.entries()), every, least_ok)


_SCRIPTS: dict[str, Callable[[], _Coverage]] = {
    "gradients": lambda: _of(gradient_coverage, every=400, least_ok=450),
    "backend": lambda: _of(backend_coverage, every=300, least_ok=600),
    "onnx": lambda: _of(onnx_coverage, every=640, least_ok=1740),
    "jax": lambda: _of(jax_coverage, every=300, least_ok=1080),
    "keras": lambda: _Coverage(keras_coverage.SUITE, sorted(keras_coverage.entries()), every=200, least_share=0.9),
}


@pytest.fixture(params=[*operator_coverage.DTYPES, *_SCRIPTS])
def coverage(request: pytest.FixtureRequest) -> _Coverage:
    return _SCRIPTS[request.param]() if request.param in _SCRIPTS else _of_dtype(request.param)


@pytest.mark.diagonal(coverage=["float32", *_SCRIPTS])
def test_entries_get_as_far_as_expected(coverage: _Coverage, tmp_path: Path) -> None:
    chosen = coverage.entries if os.environ.get("REPRO_COVERAGE") == "all" else coverage.entries[:: coverage.every]
    expected, surprises = coverage.suite.read_expected(), []
    for outcome in coverage.run(chosen, tmp_path / "outcomes"):
        stage, _ = expected.get(outcome.name, ("ok", ""))
        if outcome.stage != stage:
            surprises.append(f"{outcome.name}: expected {stage}, got {outcome.stage} {outcome.reason}")
    assert not surprises, "\n".join(surprises)


def test_expected_failures_are_known_entries_with_reasons(coverage: _Coverage) -> None:
    expected, stages = coverage.suite.read_expected(), {*coverage.suite.stages} - {"ok"}
    assert set(expected) <= set(coverage.entries)
    assert all(stage in stages and reason for stage, reason in expected.values())


def test_most_entries_work(coverage: _Coverage) -> None:
    expected = coverage.suite.read_expected()
    missing = sum(stage == "no-sample" for stage, _ in expected.values())
    ok = len(coverage.entries) - len(expected)
    assert ok >= coverage.least_ok
    assert ok >= coverage.least_share * (len(coverage.entries) - missing)
