# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Makes every dialect and pass of the compiler known to each new Context. The MLIR bindings run this module on
import."""

from repro_mlir._mlir_libs import _repro

_repro.register_passes()


def register_dialects(registry) -> None:
    """Adds the compiler's dialects to a registry. The bindings call it with the registry of all new Contexts."""
    _repro.register_dialects(registry)
