# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""What runs graphs node by node in another form."""

from typing import Any

import torch
import torch.fx


class NodeInterpreter(torch.fx.Interpreter):
    """Runs a graph, and knows which node it is at: `current`."""

    current: torch.fx.Node

    def __init__(self, module: torch.fx.GraphModule) -> None:
        super().__init__(module)
        # Messages are one line.
        self.extra_traceback = False

    def run_node(self, node: torch.fx.Node) -> Any:
        self.current = node
        return super().run_node(node)
