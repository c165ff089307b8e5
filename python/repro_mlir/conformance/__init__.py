# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Conformance vectors: operands and results of the rules of low precision, random numbers, functions and sums, as files
that other projects can read, and the comparison of other libraries with these results (docs/guides/vectors.md).

`operations` computes the results with the reference interpreter, `catalogue` lists the groups of vectors, the modules
`..._operands` make their operands from Philox and from the edges of the formats, `folder` writes and reads the files,
`score` compares a library, and `libraries` holds the functions that answer for other projects' libraries.
"""
