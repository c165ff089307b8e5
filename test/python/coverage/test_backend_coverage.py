# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""PyTorch's operators and modules through torch.compile: each gets as far as backend_expected.json says.

Every tenth entry by default, all of them with REPRO_COVERAGE=all.
"""

import os

import pytest

pytest.importorskip("torch_mlir")

import backend_coverage as coverage

ENTRIES = sorted(coverage.entries())
CHOSEN = ENTRIES if os.environ.get("REPRO_COVERAGE") == "all" else ENTRIES[::10]
JOBS = int(os.environ.get("REPRO_COVERAGE_JOBS", "2"))
LEAST_OK = 600
"""How many entries must be `ok` in all."""


def test_entries_get_as_far_as_expected() -> None:
    expected = coverage.read_expected()
    surprises = []
    for outcome in coverage.run_all(CHOSEN, JOBS):
        stage, _ = expected.get(outcome.name, ("ok", ""))
        if outcome.stage != stage:
            surprises.append(f"{outcome.name}: expected {stage}, got {outcome.stage} {outcome.reason}")
    assert not surprises, "\n".join(surprises)


def test_expected_failures_are_known_entries_with_reasons() -> None:
    expected = coverage.read_expected()
    assert set(expected) <= set(ENTRIES)
    assert all(stage in coverage.STAGES and reason for stage, reason in expected.values())


def test_most_entries_work() -> None:
    assert len(ENTRIES) - len(coverage.read_expected()) >= LEAST_OK
