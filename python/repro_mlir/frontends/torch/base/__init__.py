# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Code that all packages of the PyTorch frontend share.

The code covers errors and the user's source lines (`errors`, `source_lines`), the leaves of a batch (`batch_leaves`),
dynamic sizes as symbols (`open_sizes`, `symbolic_extents`), operations of the repro dialect in a graph
(`repro_operations`), checks of the user's objects (hooks, modes, classes of Python objects), and PyTorch's private
names (`torch_internals`) and those of torch-mlir (`torch_mlir_names`).
"""
