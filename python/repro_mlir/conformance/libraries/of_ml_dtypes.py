# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Operations of conformance vectors by casts of NumPy arrays to the types of ml_dtypes."""

from __future__ import annotations

import ml_dtypes
import numpy as np

from repro_mlir.base.numerics.elements import ELEMENTS
from repro_mlir.conformance.group import Arrays, Compute, Parameters


def library() -> Compute:
    """Returns the function that computes operations."""
    return _compute


def _compute(operation: str, inputs: Arrays, parameters: Parameters) -> Arrays | None:
    element = ELEMENTS.get(str(parameters.get("format")))
    named = None if element is None else getattr(ml_dtypes, element.library, None)
    if element is None or element.format is None or named is None:
        return None
    if operation == "decode":
        return {"values": inputs["codes"].view(named).astype(np.float32)}
    # A cast rounds to nearest even and does not saturate; formats without NaN always saturate.
    casts = parameters.get("rounding") == "rne" and (not parameters.get("saturate") or element.format.nan is None)
    if operation != "round" or not casts:
        return None
    return {"codes": inputs["x"].astype(named).view(element.dtype)}
