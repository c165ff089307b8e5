# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""StableHLO modules, as JAX writes them, as imported linalg; the toolchain is MLIR as jaxlib has it."""
