# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Compiled code gives the bits of the reference interpreter: on every CPU level, with any number of threads."""

from __future__ import annotations

import os

import catalogue
import kit
import pytest
import random_programs
from hypothesis import HealthCheck, given, settings

EXAMPLES = int(os.environ.get("REPRO_EXAMPLES", "60"))


@pytest.mark.parametrize("case", list(catalogue.cases()), ids=lambda case: case.name)
def test_catalogue(case: catalogue.Case) -> None:
    kit.check(case.program, case.inputs)


@given(random_programs.programs())
@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck), print_blob=True)
def test_random_programs(case: catalogue.Case) -> None:
    kit.check(case.program, case.inputs)
