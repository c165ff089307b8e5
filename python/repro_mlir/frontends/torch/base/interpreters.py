# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""What runs graphs node by node in another form."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
import torch.fx
import torch.utils._pytree as pytree
from torch.fx.experimental.proxy_tensor import make_fx

from repro_mlir.frontends.torch.base.errors import CaptureError, located
from repro_mlir.frontends.torch.base.source_lines import origin_of_node
from repro_mlir.frontends.torch.base.value_requests import reason_of


class NodeInterpreter(torch.fx.Interpreter):
    """Runs a graph, and knows which node it is at: `current`. An error is a CaptureError that says where it is from."""

    module: torch.fx.GraphModule
    current: torch.fx.Node

    def __init__(self, module: torch.fx.GraphModule) -> None:
        super().__init__(module)
        # Messages are one line.
        self.extra_traceback = False

    def run_node(self, node: torch.fx.Node) -> Any:
        self.current = node
        try:
            return super().run_node(node)
        except Exception as error:
            if isinstance(error, CaptureError) and error.is_located:
                raise
            raise located(origin_of_node(node), reason_of(error)) from None


Form = tuple[torch.dtype, tuple[Any, ...]]
"""Element type and shape."""


def form_of(value: Any) -> Form | None:
    """The form of a tensor; None of anything else."""
    return (value.dtype, tuple(value.shape)) if isinstance(value, torch.Tensor) else None


def require_declared(operator: Any, result: Any, expected: Any, form: Callable[[Any], Form | None] = form_of) -> None:
    """CaptureError where what stands for an operator gives other forms than PyTorch: memory is allocated by those.

    Args:
      result: a tree of tensors, or of what `form` knows the form of.
      expected: the results as PyTorch has traced them.
    """
    for found, wanted in zip(
        map(form, pytree.tree_leaves(result)), map(form, pytree.tree_leaves(expected)), strict=False
    ):
        if found is None or wanted is None:
            continue
        is_known = all(isinstance(extent, int) for extent in (*found[1], *wanted[1]))
        if found[0] != wanted[0] or (is_known and found[1] != wanted[1]):
            name = str(operator).removesuffix(".default")
            raise CaptureError(f"{name} gives {_shown(found)}, expected {_shown(wanted)} as in PyTorch")


def _shown(form: Form) -> str:
    return f"{str(form[0]).removeprefix('torch.')} of shape {list(form[1])}"


def functional(
    graph: torch.fx.GraphModule,
    arguments: Sequence[Any],
    decompositions: Mapping[Any, Callable[..., Any]] | None = None,
) -> torch.fx.GraphModule:
    """A graph of ATen operators without writes to tensors; the caller's trace environment keeps the lines of its nodes.

    Args:
      arguments: tensors that give shapes and element types, as the graph has them.
      decompositions: what is called instead of operators.
    """
    run = torch.func.functionalize(NodeInterpreter(graph).run)
    found = _traced(run, arguments, dict(decompositions or {}))
    found.meta.update(graph.meta)
    found.graph.eliminate_dead_code()
    return found


def retraced(interpreter: NodeInterpreter, arguments: Sequence[Any]) -> torch.fx.GraphModule:
    """The graph of what an interpreter of another one calls, given its arguments."""
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
