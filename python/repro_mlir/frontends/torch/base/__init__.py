# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""What every room of the PyTorch frontend uses.

Errors and the user's source lines (`errors`, `source_lines`), tensors as arrays (`tensors`), the leaves of a batch
(`batch_leaves`), open sizes as symbols (`open_sizes`, `symbolic_extents`), operations of the repro dialect in a graph
(`repro_operations`), and what may be asked of the user's objects: hooks, modes, kinds of Python objects.
"""
