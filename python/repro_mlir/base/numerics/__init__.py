# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The definition of bits: element types and formats, tensors, Philox, hashes. Depends on NumPy only, not on MLIR."""
