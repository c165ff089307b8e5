# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Every program of the differential suites is canonical, and the reference interpreter runs it or, where a check must
fail, stops with that failure."""

from __future__ import annotations

import re

import pytest
from hypothesis import HealthCheck, given, settings
from repro_mlir import ir, passmanager
from repro_mlir.base.errors import StepFailed
from support import block_programs, catalogue, kit, random_programs

_VERIFY = "builtin.module(repro-verify-canonical)"
_FAIL = re.compile(r"outside|step-|assert-False|assert-(in-body|alone).*-True")
# Names of cases in which a check must fail: the indices 5 and -1 are outside of 0 to 4, and cases with 3 rows access an
# element that does not exist.
_FAILING_CHECKS = re.compile(r"(-5|--1)(-in-4-rows)?$|(element|assertion-of)-3$|4294967296$")


def _run(case: catalogue.Case) -> kit.Outcome:
    with ir.Context():
        passmanager.PassManager.parse(_VERIFY).run(ir.Module.parse(case.program).operation)
    return kit.reference(case.program, case.inputs)


@pytest.mark.parametrize("group", catalogue.GROUPS)
@pytest.mark.diagonal(group=["checks", "whole-programs"])
def test_catalogue(group: str) -> None:
    for case in catalogue.GROUPS[group]():
        fails = (_FAILING_CHECKS if group == "checks" else _FAIL).search(case.name)
        assert isinstance(_run(case), StepFailed) == bool(fails), case.name


@pytest.mark.parametrize("group", block_programs.GROUPS)
def test_tensors_in_blocks(group: str) -> None:
    for case in block_programs.GROUPS[group]():
        assert isinstance(_run(case), StepFailed) == ("step" in case.name), case.name


@given(random_programs.programs())
@settings(max_examples=100, derandomize=True, deadline=None, suppress_health_check=list(HealthCheck))
def test_random_programs(case: catalogue.Case) -> None:
    assert not isinstance(_run(case), StepFailed)
