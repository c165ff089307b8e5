# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The base layer: errors, limits, terminal output, child processes and other shared code. Its modules import only each
other. Its folders are `numerics` (element types, hashes, random numbers), `files` (file formats and their limits) and
`tensors` (conversion between the user's arrays and tensors of a program). Each folder may import those before it.
"""
