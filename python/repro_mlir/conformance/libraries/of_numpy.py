# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Operations of conformance vectors by NumPy: casts to float16, and its elementary functions."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from repro_mlir.conformance.group import Arrays, Compute, Parameters

_FUNCTIONS: dict[str, Callable[..., np.ndarray]] = {
    "acos": np.arccos,
    "acosh": np.arccosh,
    "asin": np.arcsin,
    "asinh": np.arcsinh,
    "atan": np.arctan,
    "atan2": np.arctan2,
    "atanh": np.arctanh,
    "cbrt": np.cbrt,
    "cos": np.cos,
    "cosh": np.cosh,
    "exp": np.exp,
    "exp2": np.exp2,
    "expm1": np.expm1,
    "hypot": np.hypot,
    "log": np.log,
    "log10": np.log10,
    "log1p": np.log1p,
    "log2": np.log2,
    "pow": np.power,
    "sin": np.sin,
    "sinh": np.sinh,
    "tan": np.tan,
    "tanh": np.tanh,
}


def library() -> Compute:
    """Returns the function that computes operations."""
    return _compute


def _compute(operation: str, inputs: Arrays, parameters: Parameters) -> Arrays | None:
    is_half = parameters.get("format") == "f16"
    if operation == "function":
        function = _FUNCTIONS.get(str(parameters["function"]))
        return None if function is None else {"values": function(*inputs.values())}
    if operation == "decode" and is_half:
        return {"values": inputs["codes"].view(np.float16).astype(np.float32)}
    if operation == "round" and is_half and parameters["rounding"] == "rne" and not parameters["saturate"]:
        return {"codes": inputs["x"].astype(np.float16).view(np.uint16)}
    return None
