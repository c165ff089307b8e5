# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""PyTorch's operators as programs, with gradients of ours, and with its modules through torch.compile; ONNX's tests.

Each entry gets as far as the expected*.json and *_expected.json here say, no less and no further. A sample of the
entries by default, all with REPRO_COVERAGE=all (`make coverage`).
"""

import functools
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from types import ModuleType

import pytest

pytest.importorskip("torch_mlir")

import backend_coverage
import gradient_coverage
import onnx_coverage
import operator_coverage
import opinfo_capture
import torch

JOBS = int(os.environ.get("REPRO_COVERAGE_JOBS", "2"))


@dataclass(frozen=True)
class _Coverage:
    """Entries and what runs them.

    Attributes:
      every: of how many entries one is run by default.
      least_ok: how many must be `ok` in all.
      least_share: of those that have a sample.
    """

    entries: list[str]
    stages: Iterable[str]
    expected: dict[str, tuple[str, str]]
    run: Callable[[list[str]], Iterable[operator_coverage.Outcome]]
    every: int
    least_ok: int = 0
    least_share: float = 0.0


def _of_dtype(dtype: str) -> _Coverage:
    def run(names: list[str]) -> Iterable[operator_coverage.Outcome]:
        return operator_coverage.run_all(names, JOBS, functools.partial(operator_coverage.run_entry, dtype=dtype))

    entries = sorted(opinfo_capture.entries(getattr(torch, dtype)))
    expected = operator_coverage.read_expected(dtype)
    if dtype == "float32":
        return _Coverage(entries, operator_coverage.STAGES, expected, run, 10, least_ok=600)
    share = 0.7 if dtype == "complex64" else 0.9
    return _Coverage(entries, operator_coverage.STAGES, expected, run, 100, least_share=share)


def _of_gradients() -> _Coverage:
    def run(names: list[str]) -> Iterable[operator_coverage.Outcome]:
        return operator_coverage.run_all(names, JOBS, gradient_coverage.run_entry)

    entries = sorted(opinfo_capture.entries())
    return _Coverage(entries, gradient_coverage.STAGES, gradient_coverage.read_expected(), run, 40, least_ok=440)


def _of_scripts() -> dict[str, _Coverage]:
    """Of scripts that have `entries`, `STAGES`, `read_expected` and `run_all`."""
    return {
        "backend": _of(backend_coverage, every=10, least_ok=600),
        "onnx": _of(onnx_coverage, every=80, least_ok=1600),
    }


def _of(script: ModuleType, every: int, least_ok: int) -> _Coverage:
    def run(names: list[str]) -> Iterable[operator_coverage.Outcome]:
        found: Iterable[operator_coverage.Outcome] = script.run_all(names, JOBS)
        return found

    return _Coverage(sorted(script.entries()), script.STAGES, script.read_expected(), run, every, least_ok)


@pytest.fixture(params=[*operator_coverage.DTYPES, "gradients", "backend", "onnx"])
def coverage(request: pytest.FixtureRequest) -> _Coverage:
    if request.param in operator_coverage.DTYPES:
        return _of_dtype(request.param)
    return _of_gradients() if request.param == "gradients" else _of_scripts()[request.param]


def test_entries_get_as_far_as_expected(coverage: _Coverage) -> None:
    chosen = coverage.entries if os.environ.get("REPRO_COVERAGE") == "all" else coverage.entries[:: coverage.every]
    surprises = []
    for outcome in coverage.run(chosen):
        stage, _ = coverage.expected.get(outcome.name, ("ok", ""))
        if outcome.stage != stage:
            surprises.append(f"{outcome.name}: expected {stage}, got {outcome.stage} {outcome.reason}")
    assert not surprises, "\n".join(surprises)


def test_expected_failures_are_known_entries_with_reasons(coverage: _Coverage) -> None:
    stages = set(coverage.stages) - {"ok"}
    assert set(coverage.expected) <= set(coverage.entries)
    assert all(stage in stages and reason for stage, reason in coverage.expected.values())


def test_most_entries_work(coverage: _Coverage) -> None:
    missing = sum(stage == "no-sample" for stage, _ in coverage.expected.values())
    ok = len(coverage.entries) - len(coverage.expected)
    assert ok >= coverage.least_ok
    assert ok >= coverage.least_share * (len(coverage.entries) - missing)
