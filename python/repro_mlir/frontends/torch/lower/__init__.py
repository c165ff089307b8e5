# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""A functional ATen graph as an imported module of linalg, by torch-mlir in a process of its own.

`lowering` is the way in. `graph_hash` is the key under which the result is cached.
"""
