# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Where two runs part: the first step, operator, tensor and element, and by how much."""

from ..elements import ElementDifference
from .report import Difference, OperatorDifference, TensorDifference

__all__ = ["Difference", "ElementDifference", "OperatorDifference", "TensorDifference"]
