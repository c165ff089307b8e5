# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The user's arrays and tensors, of NumPy and of frameworks, as tensors of a program and back."""
