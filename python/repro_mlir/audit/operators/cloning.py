# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Operators of one program written into another one."""

from __future__ import annotations

from typing import Any

from repro_mlir import ir


def operations_of(module: ir.Module) -> list[Any]:
    """The operators of a canonical program: the operations of `main`, the return excepted."""
    return [operation.operation for operation in module.body.operations[0].regions[0].blocks[0].operations][:-1]


def clone(old: Any, renamed: dict[ir.Value, ir.Value]) -> list[ir.Value]:
    """Writes an operation anew at the present place; gives its results.

    Args:
      renamed: what stands for the values that it uses; gets what stands for those that it gives.
    """
    new = old.clone()
    _rename(new, renamed)
    results = list(new.results)
    renamed.update(zip(old.results, results, strict=True))
    return results


def _rename(operation: Any, renamed: dict[ir.Value, ir.Value]) -> None:
    """Replaces operands, also of the operations within; what is defined within is in no dictionary."""
    for position, operand in enumerate(operation.operands):
        if operand in renamed:
            operation.operands[position] = renamed[operand]
    for region in operation.regions:
        for block in region.blocks:
            for inner in block.operations:
                _rename(inner.operation, renamed)
