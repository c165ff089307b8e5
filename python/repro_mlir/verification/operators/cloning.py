# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Clones operators of one program into another program."""

from __future__ import annotations

from typing import Any

from repro_mlir import ir


def operations_of(module: ir.Module) -> list[Any]:
    """Returns the operators of a canonical program: the operations of `main` without its return."""
    return [operation.operation for operation in module.body.operations[0].regions[0].blocks[0].operations][:-1]


def clone(old: Any, renamed: dict[ir.Value, ir.Value]) -> list[ir.Value]:
    """Clones an operation at the current insertion point and returns the results of the clone.

    Args:
      renamed: maps values of the original program to values of the new one; the function adds the results.
    """
    new = old.clone()
    _rename(new, renamed)
    results = list(new.results)
    renamed.update(zip(old.results, results, strict=True))
    return results


def _rename(operation: Any, renamed: dict[ir.Value, ir.Value]) -> None:
    """Replaces the operands of an operation and of its nested operations; values defined in its regions are not
    replaced."""
    for position, operand in enumerate(operation.operands):
        if operand in renamed:
            operation.operands[position] = renamed[operand]
    for region in operation.regions:
        for block in region.blocks:
            for inner in block.operations:
                _rename(inner.operation, renamed)
