# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The operators of a step: the operations of a canonical program one by one, with every value between them."""

from .extraction import Extraction, Extractor
from .graph import Operator, OperatorGraph, Value
from .tracing import Tracer

__all__ = ["Extraction", "Extractor", "Operator", "OperatorGraph", "Tracer", "Value"]
