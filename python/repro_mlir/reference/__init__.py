# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The reference interpreter: docs/reference/numerics.md implemented literally in NumPy, without the compiler's code."""
