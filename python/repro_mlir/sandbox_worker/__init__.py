# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""What children of the sandbox do with programs of strangers: read, import, compile, interpret.

It stands above the rooms that it calls; `sandbox`, below them, starts `python -m repro_mlir.sandbox_worker`.
"""
