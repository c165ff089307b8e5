# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Tests whether the tensor cores of a GPU follow the accumulation rule of their class (M3)."""

from repro_mlir.certification.certify import certify, class_of, make_cases

__all__ = ["certify", "class_of", "make_cases"]
