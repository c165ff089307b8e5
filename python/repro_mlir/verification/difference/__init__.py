# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Finds where two runs diverge: the first step, operator, tensor and element, and by how much."""

from repro_mlir.verification.difference.report import Difference, OperatorDifference, TensorDifference
from repro_mlir.verification.elements import ElementDifference

__all__ = ["Difference", "ElementDifference", "OperatorDifference", "TensorDifference"]
