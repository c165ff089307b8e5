# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Decomposes PyTorch operators into operators that torch-mlir lowers.

`decompositions` is the table from ATen operators to functions; every other module contains one family of functions,
such as convolutions, pooling, factorizations, special functions and integers. To find how an operator is lowered,
search this folder for its ATen name.
"""
