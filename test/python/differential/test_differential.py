# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Compiled code has the bits of the reference interpreter on every CPU level, with any number of threads."""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, given, settings
from repro_mlir.execute import qemu
from support import catalogue, kit, random_programs

EXAMPLES = int(os.environ.get("REPRO_EXAMPLES", "60" if os.environ.get("REPRO_TESTS") == "all" else "30"))
GROUPS_ON_AARCH64 = ("row-chains-of-other-types", "row-chains-of-parts", "attention", "convolutions", "imported")


def group_of(case: catalogue.Case) -> str:
    return case.name.partition("/")[0]


ON_AARCH64 = [case for case in catalogue.cases() if group_of(case) in GROUPS_ON_AARCH64]


@pytest.mark.parametrize("case", catalogue.cases(), ids=lambda case: case.name)
@pytest.mark.diagonal("case")
def test_catalogue(case: catalogue.Case) -> None:
    kit.check(case.program, case.inputs)


@pytest.mark.parametrize("name", catalogue.REPRESENTATIVES)
def test_every_configuration(name: str) -> None:
    (case,) = (case for case in catalogue.cases() if case.name == name)
    kit.check(case.program, case.inputs, kit.every_configuration())


@pytest.mark.skipif(not qemu.is_available(), reason="no aarch64 compiler or emulator")
@pytest.mark.parametrize("case", ON_AARCH64, ids=lambda case: case.name)
@pytest.mark.diagonal("case")
def test_catalogue_on_aarch64(case: catalogue.Case) -> None:
    kit.check(case.program, case.inputs, [kit.Configuration("aarch64", 3)], runs=1)


def test_products_of_long_items() -> None:
    """Covers batched products whose work items are so long that each item runs several chunks, parts and blocks of rows
    in turn."""
    case = catalogue.long_items()
    kit.check(case.program, case.inputs)


@given(random_programs.programs())
@settings(max_examples=EXAMPLES, derandomize=True, deadline=None, suppress_health_check=list(HealthCheck))
def test_random_programs(case: catalogue.Case) -> None:
    kit.check(case.program, case.inputs)
