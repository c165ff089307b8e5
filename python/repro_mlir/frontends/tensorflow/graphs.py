# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The graph of a traced function: its nodes with the user's lines, and what of it XLA would leave out."""

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
"""Operations without which XLA compiles a function."""

_CALLS = re.compile(r"(?:Stateful)?PartitionedCall(?:_\d+)?/")


class Nodes:
    """The nodes of a function's graph, and of the functions that it calls.

    Args:
      function: what `get_concrete_function` gives.
      has_lines: whether the tracebacks of the graph are the user's: those of a SavedModel are where it was loaded.
    """

    def __init__(self, function: Any, has_lines: bool) -> None:
        self._places: dict[str, set[Place | None]] = {}
        for operation in _operations(function.graph):
            frames = operation.traceback if has_lines else None
            place = users_place([(frame.filename, frame.lineno, 0) for frame in reversed(frames or [])])
            self._places.setdefault(operation.name, set()).add(place)

    def place(self, name: str) -> Place | None:
        """The user's line, None where it is not known or where nodes of several functions have the name.

        Raises:
          KeyError: no node has the name.
        """
        while name not in self._places:
            # Behind the name of the node that calls its function.
            if not (called := _CALLS.match(name)):
                raise KeyError(name)
            name = name[called.end() :]
        places = self._places[name]
        return next(iter(places)) if len(places) == 1 else None

    def error(self, name: str, message: str) -> CaptureError:
        """The error with the line of a node, and the node, before it."""
        try:
            place = self.place(name)
        except KeyError:
            place = None
        return CaptureError(": ".join([*([f"{place[0]}:{place[1]}"] if place else []), f"node {name}", message]))

    def require_no_effects(self, function: Any) -> None:
        """CaptureError for a node that XLA would leave out."""
        graph = function.graph.as_graph_def()
        for nodes in (graph.node, *(each.node_def for each in graph.library.function)):
            for node in nodes:
                if what := _DROPPED.get(node.op):
                    raise self.error(node.name, f"operation {node.op} is {what}, for which programs have no form")


def _operations(graph: Any, seen: set[str] | None = None) -> Iterator[tf.Operation]:
    seen = set() if seen is None else seen
    yield from graph.get_operations()
    for name, function in graph._functions.items():
        # Functions of TensorFlow 1 keep no graph.
        if name not in seen and hasattr(function, "graph"):
            seen.add(name)
            yield from _operations(function.graph, seen)
