# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Reads, compiles and interprets untrusted programs in child processes with resource limits.

docs/verification/security.md lists the limits. A program that crashes the reader or the compiler ends only a child
process, which becomes a ReproError here.
"""

from repro_mlir.sandbox.requests import (
    NoProgram,
    admit,
    analyze_native,
    compile_device,
    compile_native,
    import_module,
    interpret,
)

__all__ = [
    "NoProgram",
    "admit",
    "analyze_native",
    "compile_device",
    "compile_native",
    "import_module",
    "interpret",
]
