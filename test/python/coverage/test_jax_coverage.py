# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""JAX's primitives as programs.

Each harness gets as far as jax_expected.json says, no less and no further. Every fiftieth by default, all of them with
REPRO_COVERAGE=all (`make coverage`).
"""

import os

import pytest

pytest.importorskip("jax")

import jax_coverage

JOBS = int(os.environ.get("REPRO_COVERAGE_JOBS", "2"))


def test_harnesses_get_as_far_as_expected() -> None:
    expected = jax_coverage.read_expected()
    entries = jax_coverage.entries()
    chosen = entries if os.environ.get("REPRO_COVERAGE") == "all" else entries[::50]
    surprises = []
    for outcome in jax_coverage.run_all(chosen, JOBS):
        stage, _ = expected.get(outcome.name, ("ok", ""))
        if outcome.stage != stage:
            surprises.append(f"{outcome.name}: expected {stage}, got {outcome.stage} {outcome.reason}")
    assert not surprises, "\n".join(surprises)


def test_expected_failures_are_known_harnesses_with_reasons() -> None:
    expected = jax_coverage.read_expected()
    stages = set(jax_coverage.STAGES) - {"ok"}
    assert set(expected) <= set(jax_coverage.entries())
    assert all(stage in stages and reason for stage, reason in expected.values())


def test_most_harnesses_work() -> None:
    assert len(jax_coverage.entries()) - len(jax_coverage.read_expected()) >= 1080
