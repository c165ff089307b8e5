# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""MLIR contexts of jaxlib with the dialects that StableHLO modules use."""

from __future__ import annotations

import functools

from jaxlib.mlir import ir
from jaxlib.mlir.dialects import chlo, sdy, stablehlo

from repro_mlir.frontends.stablehlo.jaxlib_internals import mlir_extension


@functools.cache
def _register_passes() -> None:
    stablehlo.register_stablehlo_passes()


def new_context() -> ir.Context:
    """Creates a context that parses and prints StableHLO and operations of unregistered dialects."""
    _register_passes()
    context = ir.Context()
    registry = ir.DialectRegistry()
    mlir_extension.register_dialects(registry)
    context.append_dialect_registry(registry)
    context.load_all_available_dialects()
    for dialect in (chlo, sdy, stablehlo):
        dialect.register_dialect(context)
    # The repro dialect and the upstream dialects without jaxlib bindings are unregistered.
    context.allow_unregistered_dialects = True
    return context
