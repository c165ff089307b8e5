# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Kernels read and write views of other tensors: views with any strides, dropped dimensions and permuted dimensions."""

from __future__ import annotations

import pytest
from support import accumulated_blocks, block_programs, catalogue, kit, views

CASES = [*catalogue.cases(), *(case for group in block_programs.GROUPS.values() for case in group())]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
@pytest.mark.diagonal(case=catalogue.REPRESENTATIVES)
def test_catalogue_of_views(case: catalogue.Case) -> None:
    made = views.of_views(case, 0)
    kit.check(made.program, made.inputs, runs=1)


@pytest.mark.parametrize("number", range(20))
@pytest.mark.diagonal(number=range(6))
def test_contractions_in_blocks_of_views_Q4(number: int) -> None:
    for seed in range(2):
        made = views.of_views(block_programs.contraction(number), seed)
        kit.check(made.program, made.inputs, runs=1)


@pytest.mark.parametrize("number", range(10))
def test_contractions_in_accumulators_of_views_M5(number: int) -> None:
    made = views.of_views(accumulated_blocks.contraction(number), number)
    kit.check(made.program, made.inputs, runs=1)
