# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Lowers StableHLO modules, such as those of JAX, to linalg with jaxlib's build of MLIR. The compiler imports the
result."""
