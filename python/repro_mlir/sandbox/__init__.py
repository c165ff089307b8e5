# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Reads, compiles and interprets untrusted programs in child processes with resource limits.

docs/verification/security.md lists the limits. If a program crashes the reader or the compiler, only a child process
ends, and the calling process raises a ReproError.
"""

from repro_mlir.sandbox.requests import (
    NoProgram,
    admit,
    analyze_native,
    compile_cores,
    compile_device,
    compile_native,
    compile_step,
    describe_cores,
    import_module,
    interpret,
)

__all__ = [
    "NoProgram",
    "admit",
    "analyze_native",
    "compile_cores",
    "compile_device",
    "compile_native",
    "compile_step",
    "describe_cores",
    "import_module",
    "interpret",
]
