# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Interpreters that run a graph node by node to trace a rewritten graph."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
import torch.fx
from torch.fx.experimental.proxy_tensor import make_fx

from repro_mlir.frontends.torch.base.errors import CaptureError, located
from repro_mlir.frontends.torch.base.source_lines import origin_of_node
from repro_mlir.frontends.torch.base.torch_internals import pytree
from repro_mlir.frontends.torch.base.value_requests import reason_of


class NodeInterpreter(torch.fx.Interpreter):
    """Runs a graph; `current` is the node that is running.

    An error of a node becomes a CaptureError with the node's origin.
    """

    module: torch.fx.GraphModule
    current: torch.fx.Node

    def __init__(self, module: torch.fx.GraphModule) -> None:
        super().__init__(module)
        # Otherwise PyTorch would append its traceback to messages, but a message of CaptureError has only one line.
        self.extra_traceback = False

    def run_node(self, node: torch.fx.Node) -> Any:
        """Runs a node; raises a CaptureError with the node's origin if the node fails."""
        self.current = node
        try:
            return super().run_node(node)
        except Exception as error:
            if isinstance(error, CaptureError) and error.is_located:
                raise
            raise located(origin_of_node(node), reason_of(error)) from None


TypeAndShape = tuple[torch.dtype, tuple[Any, ...]]
"""The element type and shape of a tensor."""


def form_of(value: Any) -> TypeAndShape | None:
    """Returns the element type and shape of a tensor; None for any other value."""
    return (value.dtype, tuple(value.shape)) if isinstance(value, torch.Tensor) else None


def require_declared(
    operator: Any, result: Any, expected: Any, form: Callable[[Any], TypeAndShape | None] = form_of
) -> None:
    """Checks that the replacement of an operator returns PyTorch's element types and shapes.

    A difference is an error because memory is allocated for the types and shapes that PyTorch traced.

    Args:
      result: a tree of tensors, or of other values that `form` accepts.
      expected: the results as PyTorch has traced them.
      form: returns the element type and shape of a leaf of either tree.
    Raises:
      CaptureError: an element type or a known shape differs.
    """
    for found, wanted in zip(
        map(form, pytree.tree_leaves(result)), map(form, pytree.tree_leaves(expected)), strict=False
    ):
        if found is None or wanted is None:
            continue
        is_known = all(isinstance(extent, int) for extent in (*found[1], *wanted[1]))
        if found[0] != wanted[0] or (is_known and found[1] != wanted[1]):
            name = str(operator).removesuffix(".default")
            raise CaptureError(f"{name} returns {_shown(found)}, expected {_shown(wanted)} as in PyTorch")


def _shown(form: TypeAndShape) -> str:
    return f"{str(form[0]).removeprefix('torch.')} of shape {list(form[1])}"


def functional(
    graph: torch.fx.GraphModule,
    arguments: Sequence[Any],
    decompositions: Mapping[Any, Callable[..., Any]] | None = None,
) -> torch.fx.GraphModule:
    """Retraces a graph. Returns a graph of ATen operators, none of which writes to a tensor.

    Must be called within `tracing_environment` (trace/tracing.py), so that the new nodes keep their source lines.

    Args:
      arguments: tensors with the shapes and element types of the graph's arguments.
      decompositions: for an operator, the function that is traced instead.
    """
    run = torch.func.functionalize(NodeInterpreter(graph).run)
    found = _traced(run, arguments, dict(decompositions or {}))
    found.meta.update(graph.meta)
    found.graph.eliminate_dead_code()
    return found


def retraced(interpreter: NodeInterpreter, arguments: Sequence[Any]) -> torch.fx.GraphModule:
    """Returns the graph of the operators that `interpreter` calls when it runs its own graph on `arguments`."""
    found = _traced(interpreter.run, arguments, {})
    found.meta.update(interpreter.module.meta)
    return found


def _traced(
    run: Callable[..., Any], arguments: Sequence[Any], decompositions: dict[Any, Callable[..., Any]]
) -> torch.fx.GraphModule:
    with torch.no_grad():
        return make_fx(run, decomposition_table=decompositions, tracing_mode="fake", _allow_non_fake_inputs=True)(
            *arguments
        )
