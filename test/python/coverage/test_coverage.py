# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""PyTorch's operators as programs, with gradients of ours, and with its modules through torch.compile.

Each entry gets as far as expected.json, gradient_expected.json and backend_expected.json say, no less and no further.
A sample of the entries by default, all of them with REPRO_COVERAGE=all (`make coverage`).
"""

import os
from dataclasses import dataclass
from types import ModuleType

import pytest

pytest.importorskip("torch_mlir")

import backend_coverage
import gradient_coverage
import operator_coverage
import opinfo_capture

JOBS = int(os.environ.get("REPRO_COVERAGE_JOBS", "2"))


@dataclass(frozen=True)
class _Coverage:
    """Entries and the script that runs them.

    Attributes:
      every: the sample has one of so many.
      least_ok: how many must be `ok` in all.
    """

    script: ModuleType
    entries: list[str]
    every: int
    least_ok: int


@pytest.fixture(params=["operators", "gradients", "backend"])
def coverage(request: pytest.FixtureRequest) -> _Coverage:
    if request.param == "operators":
        return _Coverage(operator_coverage, sorted(opinfo_capture.entries()), 10, 540)
    if request.param == "gradients":
        return _Coverage(gradient_coverage, sorted(opinfo_capture.entries()), 40, 430)
    return _Coverage(backend_coverage, sorted(backend_coverage.entries()), 10, 600)


def test_entries_get_as_far_as_expected(coverage: _Coverage) -> None:
    expected = coverage.script.read_expected()
    chosen = coverage.entries if os.environ.get("REPRO_COVERAGE") == "all" else coverage.entries[:: coverage.every]
    surprises = []
    for outcome in coverage.script.run_all(chosen, JOBS):
        stage, _ = expected.get(outcome.name, ("ok", ""))
        if outcome.stage != stage:
            surprises.append(f"{outcome.name}: expected {stage}, got {outcome.stage} {outcome.reason}")
    assert not surprises, "\n".join(surprises)


def test_expected_failures_are_known_entries_with_reasons(coverage: _Coverage) -> None:
    expected = coverage.script.read_expected()
    stages = set(coverage.script.STAGES) - {"ok"}
    assert set(expected) <= set(coverage.entries)
    assert all(stage in stages and reason for stage, reason in expected.values())


def test_most_entries_work(coverage: _Coverage) -> None:
    assert len(coverage.entries) - len(coverage.script.read_expected()) >= coverage.least_ok
