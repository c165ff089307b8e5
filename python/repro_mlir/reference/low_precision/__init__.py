# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Tensors in blocks and accumulators of matrix units, by the rules (Q1) to (Q5) and (M1) to (M3)."""
