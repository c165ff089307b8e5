# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Replaces the parts of a graph that a program cannot represent.

These are complex (Z1) and unsigned (V1) tensors, operators that quantize (I2), and shapes that depend on values.
"""

from collections.abc import Sequence
from typing import Any

import torch.fx

from repro_mlir.frontends.torch.operators.quantization import has_quantizing, without_quantizing
from repro_mlir.frontends.torch.trace.complex_pairs import as_real, has_complex, without_complex
from repro_mlir.frontends.torch.trace.kernel_checks import refuse_arguments
from repro_mlir.frontends.torch.trace.selections import has_selections, without_selections
from repro_mlir.frontends.torch.trace.unsigned import as_signed, has_unsigned, without_unsigned


def represented(value: Any) -> Any:
    """Returns the tensor, in the same memory, that represents a tensor in a program; returns other values unchanged."""
    return as_signed(as_real(value))


def represent(graph: torch.fx.GraphModule, arguments: Sequence[Any]) -> torch.fx.GraphModule:
    """Rewrites a graph of ATen operators for tensors that programs support.

    Must be called within `tracing_environment`, so that the nodes keep their source lines.

    Args:
      arguments: tensors with the shapes and element types of the graph's arguments.
    Returns:
      a graph whose arguments and results are converted by `represented`.
    Raises:
      CaptureError: an operator is not defined for complex or unsigned numbers, or refuses its arguments.
    """
    refuse_arguments(graph)
    if has_selections(graph.graph):
        graph = without_selections(graph, arguments)
    if has_quantizing(graph.graph):
        graph = without_quantizing(graph, arguments)
    if has_complex(graph.graph):
        graph, arguments = without_complex(graph, arguments), [*map(as_real, arguments)]
    return without_unsigned(graph, arguments) if has_unsigned(graph.graph) else graph
