# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The ground floor: errors, limits, text for terminals, child processes. These modules import nothing but each other.

The folders stand one above the other: `numerics` (element types, hashes, random numbers), `files` (formats and limits
of files), `tensors` (the user's arrays as tensors of a program).
"""
