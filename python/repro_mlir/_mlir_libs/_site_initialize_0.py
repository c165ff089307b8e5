# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Run by the MLIR bindings on import: a fresh Context knows every dialect and pass of the compiler."""

from repro_mlir._mlir_libs import _repro

_repro.register_passes()


def register_dialects(registry) -> None:
    """Called with the registry that every new Context gets."""
    _repro.register_dialects(registry)
