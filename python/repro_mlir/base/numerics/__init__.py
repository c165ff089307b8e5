# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""What a bit means: element types and their formats, tensors, Philox, hashes. NumPy alone; no compiler, no MLIR."""
