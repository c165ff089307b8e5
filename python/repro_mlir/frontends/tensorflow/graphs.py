# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The graph of a traced function: the user's source lines of its nodes, and effects that XLA would drop."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import tensorflow as tf

from repro_mlir.frontends.stablehlo.errors import CaptureError, users_place
from repro_mlir.frontends.stablehlo.hlo import Place

_DROPPED = {
    **dict.fromkeys(("Assert", "CheckNumerics", "CheckNumericsV2"), "a check of values"),
    **dict.fromkeys(("Print", "PrintV2"), "a print"),
}
"""Operations that XLA drops when it compiles a function, each with its description in messages."""

_CALLS = re.compile(r"(?:Stateful)?PartitionedCall(?:_\d+)?/")


class Nodes:
    """The nodes of a function's graph and of the functions that it calls.

    Args:
      function: the result of `get_concrete_function`.
      has_lines: whether the graph's tracebacks are the user's; those of a SavedModel point to where it was loaded.
    """

    def __init__(self, function: Any, has_lines: bool) -> None:
        self._places: dict[str, set[Place | None]] = {}
        for operation in _operations(function.graph):
            frames = operation.traceback if has_lines else None
            place = users_place([(frame.filename, frame.lineno, 0) for frame in reversed(frames or [])])
            self._places.setdefault(operation.name, set()).add(place)

    def place(self, name: str) -> Place | None:
        """Returns a node's source line in the user's code; None if the line is unknown or if several functions have a
        node of this name.

        Raises:
          KeyError: no node has the name.
        """
        while name not in self._places:
            # The name starts with the name of the node that calls the function.
            if not (called := _CALLS.match(name)):
                raise KeyError(name)
            name = name[called.end() :]
        places = self._places[name]
        return next(iter(places)) if len(places) == 1 else None

    def error(self, name: str, message: str) -> CaptureError:
        """Returns an error whose message starts with the node's source line and name."""
        try:
            place = self.place(name)
        except KeyError:
            place = None
        return CaptureError(": ".join([*([f"{place[0]}:{place[1]}"] if place else []), f"node {name}", message]))

    def require_no_effects(self, function: Any) -> None:
        """Raises CaptureError for a node that XLA would drop."""
        graph = function.graph.as_graph_def()
        for nodes in (graph.node, *(each.node_def for each in graph.library.function)):
            for node in nodes:
                if what := _DROPPED.get(node.op):
                    raise self.error(node.name, f"operation {node.op} is {what}, which programs cannot express")


def _operations(graph: Any, seen: set[str] | None = None) -> Iterator[tf.Operation]:
    seen = set() if seen is None else seen
    yield from graph.get_operations()
    for name, function in graph._functions.items():
        # Functions of TensorFlow 1 have no graph.
        if name not in seen and hasattr(function, "graph"):
            seen.add(name)
            yield from _operations(function.graph, seen)
