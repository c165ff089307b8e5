# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Passes on tensors keep every bit: the interpreter runs the program before and after."""

from __future__ import annotations

import dataclasses

import catalogue
import kit
import pytest
import random_programs
from hypothesis import HealthCheck, given, settings
from repro_mlir import ir, passmanager
from repro_mlir.reference.program import Body, Operation, Program, read_program

EXPAND = "func.func(repro-expand-functions)"
# The check of the step is an assertion from then on.
RANDOM = "func.func(repro-expand-checks,repro-decompose-random)"
# Fusion writes positions as affine.apply, which lower-affine makes integer arithmetic.
FUSE = "func.func(repro-fuse-elementwise),lower-affine"


def after(text: str, pipeline: str) -> Program:
    """The program that the passes make, without scf.if."""
    with ir.Context():
        module = ir.Module.parse(text)
        passmanager.PassManager.parse(f"builtin.module({pipeline})").run(module.operation)
        program = read_program(module)
    return dataclasses.replace(program, body=_flat(program.body))


def _flat(body: Body) -> Body:
    """The body with both branches of each scf.if evaluated and its results selected: branches have no effects."""
    operations: list[Operation] = []
    for op in body.operations:
        regions = tuple(_flat(region) for region in op.regions)
        if op.name != "scf.if":
            operations.append(dataclasses.replace(op, regions=regions))
            continue
        for region in regions:
            operations += region.operations
        condition = op.operand_types[0]
        for result, kind, pair in zip(
            op.results, op.result_types, zip(*(r.yields for r in regions), strict=True), strict=True
        ):
            operations.append(
                Operation(
                    "arith.select",
                    (op.operands[0], *pair),
                    (condition, kind, kind),
                    (result,),
                    (kind,),
                    {},
                    (),
                    op.location,
                )
            )
    return dataclasses.replace(body, operations=tuple(operations))


def check(case: catalogue.Case, pipeline: str) -> None:
    want = kit.reference(case.program, case.inputs)
    got = kit.reference(after(case.program, pipeline), case.inputs)
    kit.compare(read_program(case.program), want, got, f"{case.name} after {pipeline}")


@pytest.mark.parametrize("case", list(catalogue.float_functions()), ids=lambda case: case.name)
def test_expanded_functions_S5(case: catalogue.Case) -> None:
    check(case, EXPAND)


@pytest.mark.parametrize("case", list(catalogue.random_numbers()), ids=lambda case: case.name)
def test_decomposed_random_R1_R2(case: catalogue.Case) -> None:
    check(case, RANDOM)


@pytest.mark.parametrize("group", ["generics", "movements", "contractions", "reductions", "whole-programs"])
def test_fused_catalogue(group: str) -> None:
    for case in catalogue.GROUPS[group]():
        check(case, FUSE)


@given(random_programs.programs())
@settings(max_examples=150, derandomize=True, deadline=None, suppress_health_check=list(HealthCheck))
def test_fused_random_programs(case: catalogue.Case) -> None:
    check(case, FUSE)
