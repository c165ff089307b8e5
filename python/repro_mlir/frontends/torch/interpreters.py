# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""What runs graphs node by node in another form."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
import torch.fx
from torch.fx.experimental.proxy_tensor import make_fx


class NodeInterpreter(torch.fx.Interpreter):
    """Runs a graph, and knows which node it is at: `current`."""

    module: torch.fx.GraphModule
    current: torch.fx.Node

    def __init__(self, module: torch.fx.GraphModule) -> None:
        super().__init__(module)
        # Messages are one line.
        self.extra_traceback = False

    def run_node(self, node: torch.fx.Node) -> Any:
        self.current = node
        return super().run_node(node)


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
    run = torch.func.functionalize(torch.fx.Interpreter(graph).run)
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
