# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Device code has the bits of the reference interpreter, on old and new architectures and in any order of threads."""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, given, settings
from support import block_programs, catalogue, device_kit, random_programs

EXAMPLES = int(os.environ.get("REPRO_EXAMPLES", "60")) // 3
CASES = catalogue.cases()
BLOCKS = [case for group in block_programs.GROUPS.values() for case in group()]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
@pytest.mark.diagonal("case")
def test_catalogue_oldest(case: catalogue.Case) -> None:
    device_kit.check(case.program, case.inputs, "sm_75")


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
@pytest.mark.diagonal(case=catalogue.REPRESENTATIVES)
def test_catalogue_newer(case: catalogue.Case) -> None:
    device_kit.check(case.program, case.inputs, "sm_90", order="descending")


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
@pytest.mark.diagonal(case=catalogue.REPRESENTATIVES)
def test_no_race(case: catalogue.Case) -> None:
    device_kit.check(case.program, case.inputs, "sm_75", checked=True)


@pytest.mark.parametrize("case", BLOCKS, ids=lambda case: case.name)
@pytest.mark.diagonal("case")
def test_tensors_in_blocks_Q1_Q2_Q3(case: catalogue.Case) -> None:
    device_kit.check(case.program, case.inputs, "sm_75")


@pytest.mark.parametrize("number", range(40))
@pytest.mark.diagonal(number=range(10))
def test_contractions_in_blocks_Q4(number: int) -> None:
    """Covers code with matrix instructions on bytes (sm_80) and code without them (sm_75)."""
    case = block_programs.contraction(number)
    for arch in ("sm_75", "sm_80"):
        device_kit.check(case.program, case.inputs, arch)


@pytest.mark.parametrize("arch", ["sm_75", "sm_90"])
def test_stride_phases_K2(arch: str) -> None:
    """Covers a convolution's input gradient with stride 2: flipped kernels, and results written with a stride of
    two."""
    (case,) = [case for case in CASES if case.name.endswith("stride-phases")]
    device_kit.check(case.program, case.inputs, arch)


@pytest.mark.parametrize("case", list(catalogue.imported_operations()), ids=lambda case: case.name)
def test_imported_operations(case: catalogue.Case) -> None:
    device_kit.check(case.program, case.inputs, "sm_75")


@given(random_programs.programs())
@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck), print_blob=True)
def test_random_programs(case: catalogue.Case) -> None:
    device_kit.check(case.program, case.inputs, "sm_75")
