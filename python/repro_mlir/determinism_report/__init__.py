# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Reports which results of a step are defined bit by bit: here by rules, in PyTorch by the kernels of each operator
([determinism.md](../../../docs/guides/determinism.md))."""
