# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Statistics of a canonical program."""

from __future__ import annotations

from repro_mlir.program.canonical import read_module


def count_operations(data: bytes) -> dict[str, int]:
    """Returns, by name, the number of operations directly in `main` of a canonical program, without nested
    operations."""
    from repro_mlir import ir

    counts: dict[str, int] = {}
    with ir.Context():
        module = read_module(data)
        for function in module.body.operations:
            for operation in function.regions[0].blocks[0].operations:
                name = operation.operation.name
                counts[name] = counts.get(name, 0) + 1
    return counts
