# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Names of jaxlib that are not public; a new version of jaxlib may rename or remove each of them."""

from typing import Any

from jaxlib.mlir import ir

from repro_mlir.frontends.base.tried_versions import private_names

with private_names("jaxlib"):
    from jaxlib import _jax as jax_extension
    from jaxlib.mlir._mlir_libs import _jax_mlir_ext as mlir_extension


def inline_call(call: ir.Operation, callee: ir.Operation) -> list[ir.Value]:
    """Copies the operations of a function to the place of a call; returns the values that the function returns."""
    # The parameters differ between the versions of jaxlib, and so do the stubs.
    inline: Any = mlir_extension.inlined_func_call
    operands = list(call.operands)
    if "block:" not in (inline.__doc__ or ""):
        with ir.InsertionPoint(call):
            return list(inline(callee, operands, call.location))
    # Before JAX 0.10, the function appends to a block.
    block = call.block
    count = len(block.operations)
    values = list(inline(callee, operands, block, call.location))
    for each in list(block.operations)[count:]:
        each.operation.move_before(call)
    return values
