# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Conversion between the arrays and tensors of the user (NumPy and frameworks) and the tensors of a program."""
