# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Operators of PyTorch as operators that torch-mlir lowers.

`decompositions` is the table from ATen operators to functions; the other modules hold the functions of one family each:
convolutions, pooling, factorizations, special functions, integers. To find how an operator is lowered, search this
folder for its ATen name.
"""
