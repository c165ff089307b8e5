# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Passes on tensors do not change any bit: the interpreter runs each program before and after the pass."""

from __future__ import annotations

import struct

import pytest
from hypothesis import HealthCheck, given, settings
from repro_mlir import ir, passmanager
from repro_mlir.reference.program import ParsedProgram
from repro_mlir.reference.stored import read_program
from support import catalogue, kit, random_programs
from support.identity_bytes import ProgramBytes

EXPAND = "func.func(repro-expand-functions)"
# repro-expand-checks turns the check of the step number into an assertion, which the interpreter runs.
RANDOM = "func.func(repro-expand-checks,repro-decompose-random)"
# Fusion computes indices with affine.apply, which the interpreter does not run; lower-affine makes them integer
# arithmetic.
FUSE = "func.func(repro-fuse-elementwise),lower-affine"


def after(text: str, pipeline: str) -> ParsedProgram:
    """Runs the passes on a program and returns the result without scf.if, parsed for the interpreter. The result need
    not be canonical."""
    with ir.Context(), ir.Location.unknown():
        module = ir.Module.parse(text)
        passmanager.PassManager.parse(f"builtin.module({pipeline})").run(module.operation)
        _flatten(module.body)
        text = module.operation.get_asm(print_generic_op_form=True)
    body, checks = ProgramBytes().program(text), text.count('"cf.assert"(')
    data = b"\x89repro-mlir\r\n\x1a\n\0" + struct.pack("<IIQ", 1, 0, len(body)) + body
    if checks:
        data += struct.pack("<IQQ", 2, 8 + 8 * checks, checks) + bytes(8 * checks)
    return read_program(data)


def _flatten(block: ir.Block) -> None:
    """Replaces each scf.if in a block by both of its branches and an arith.select for each result. This is correct
    because branches have no side effects."""
    for view in list(block.operations):
        op = view.operation
        for region in op.regions:
            for inner in region.blocks:
                _flatten(inner)
        if op.name != "scf.if":
            continue
        yielded = []
        for region in op.regions:
            *operations, terminator = region.blocks[0].operations
            for each in operations:
                each.operation.move_before(op)
            yielded.append(list(terminator.operation.operands))
        for result, *pair in zip(op.results, *yielded, strict=True):
            with ir.InsertionPoint(op):
                select = ir.Operation.create("arith.select", [result.type], [op.operands[0], *pair])
            result.replace_all_uses_with(select.result)
        op.erase()


def check(case: catalogue.Case, pipeline: str) -> None:
    want = kit.reference(case.program, case.inputs)
    got = kit.reference(after(case.program, pipeline), case.inputs)
    kit.compare(kit.read(case.program), want, got, f"{case.name} after {pipeline}")


@pytest.mark.parametrize(
    "case", [*catalogue.float_functions(), *catalogue.double_functions()], ids=lambda case: case.name
)
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
