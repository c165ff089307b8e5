# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""What a canonical program consists of."""

from __future__ import annotations

from typing import Any

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


def tensor_types(text: str) -> tuple[list[tuple[str, tuple[int, ...]]], int]:
    """Element type and shape of the state tensors, inputs and outputs of a program, and how many of them are state."""
    from . import ir

    def described(kind: Any) -> tuple[str, tuple[int, ...]]:
        ranked = ir.RankedTensorType(kind)
        return str(ranked.element_type), tuple(ranked.shape)

    with ir.Context():
        module = ir.Module.parse(text)
        functions = {ir.StringAttr(op.attributes["sym_name"]).value: op for op in module.body.operations}
        main = functions["main"]
        num_state = ir.IntegerAttr(main.attributes["repro.num_state"]).value
        kind = ir.FunctionType(ir.TypeAttr(main.attributes["function_type"]).value)
        return [described(each) for each in (*kind.inputs, *kind.results[num_state:])], num_state
