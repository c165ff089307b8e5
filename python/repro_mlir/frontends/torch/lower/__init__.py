# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Lowers a functional ATen graph to an imported linalg module with torch-mlir, which runs in a child process.

`lowering` is the entry point. `graph_hash` computes the cache key of the result.
"""
