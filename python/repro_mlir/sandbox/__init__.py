# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Programs of strangers: read, compiled and interpreted in child processes with limits (docs/security.md).

Whatever a program does to the reader or the compiler happens to a child: the end of the child is one ReproError here.
"""

from repro_mlir.sandbox.requests import (
    NoProgram,
    admit,
    admit_text,
    analyze_native,
    compile_device,
    compile_native,
    import_module,
    interpret,
)

__all__ = [
    "NoProgram",
    "admit",
    "admit_text",
    "analyze_native",
    "compile_device",
    "compile_native",
    "import_module",
    "interpret",
]
