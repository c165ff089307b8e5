# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""What a canonical program consists of."""

from __future__ import annotations

from .errors import ReproError


def count_operations(text: str) -> dict[str, int]:
    """How often each operation occurs directly in `main`. ReproError for text that does not parse."""
    from . import ir

    counts: dict[str, int] = {}
    with ir.Context():
        try:
            module = ir.Module.parse(text)
        except ir.MLIRError as error:
            raise ReproError(f"the program does not parse: {str(error).splitlines()[0]}") from None
        for function in module.body.operations:
            for operation in function.regions[0].blocks[0].operations:
                name = operation.operation.name
                counts[name] = counts.get(name, 0) + 1
    return counts
