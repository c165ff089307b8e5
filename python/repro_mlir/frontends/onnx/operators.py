# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The ONNX operators that have an implementation here, and those that may be computed before the program runs.

An operator that the standard defines as a function of other operators needs no implementation. If such an operator has
one nevertheless, its results are more accurate or its program is shorter.
"""

from __future__ import annotations

from repro_mlir.frontends.onnx.control import CONTROL
from repro_mlir.frontends.onnx.elementwise import ELEMENTWISE
from repro_mlir.frontends.onnx.indexing import INDEXING
from repro_mlir.frontends.onnx.movement import MOVEMENT
from repro_mlir.frontends.onnx.networks import NORMALIZATION
from repro_mlir.frontends.onnx.nodes import Operator
from repro_mlir.frontends.onnx.quantization import QUANTIZATION
from repro_mlir.frontends.onnx.reductions import REDUCTIONS
from repro_mlir.frontends.onnx.resampling import RESAMPLING
from repro_mlir.frontends.onnx.signals import SIGNALS
from repro_mlir.frontends.onnx.windows import WINDOWS

OPERATORS: dict[str, Operator] = {
    **CONTROL,
    **ELEMENTWISE,
    **INDEXING,
    **MOVEMENT,
    **NORMALIZATION,
    **QUANTIZATION,
    **REDUCTIONS,
    **RESAMPLING,
    **SIGNALS,
    **WINDOWS,
}

EXACT = {
    *(MOVEMENT.keys() - {"Range"}),
    *("Abs", "Add", "And", "Cast", "CastLike", "Ceil", "Clip", "Compress", "Div", "Equal", "Floor", "Gather"),
    *("GatherElements", "GatherND", "Greater", "GreaterOrEqual", "Identity", "IsInf", "IsNaN", "Less", "LessOrEqual"),
    *("Max", "Min", "Mul", "Neg", "NonZero", "Not", "OneHot", "Or", "Range", "Reciprocal", "Relu", "Round", "Sign"),
    *("Sqrt", "Sub", "Where", "Xor"),
}
"""Operators whose results are rounded at most once and therefore have the same bits everywhere."""

EXACT_FOR_INTEGERS = {
    *("ArgMax", "ArgMin", "BitShift", "BitwiseAnd", "BitwiseNot", "BitwiseOr", "BitwiseXor", "CumSum", "Mod"),
    *("ReduceMax", "ReduceMin", "ReduceProd", "ReduceSum", "ScatterElements", "ScatterND", "Sum", "TopK"),
}
"""Operators that are exact for integers only."""
