# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The operators of a step: the individual operations of a canonical program, and the values between them."""

from repro_mlir.verification.operators.graph import Extraction, Operator, OperatorGraph, Value
from repro_mlir.verification.operators.tracing import Tracer

__all__ = ["Extraction", "Operator", "OperatorGraph", "Tracer", "Value"]
