# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Compares a program with PyTorch's eager execution.

The value of an ATen node is compared with the result of the last operator that comes from the node, if both have the
same type (extents of 1 are ignored). The node's other operators compute intermediate values and are not compared. If
the last operator only moves data (a sum that keeps its dimensions), a difference is reported for the operator of the
node that computed this data. A node that only moves data is not compared: it differs exactly if its operand differs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from repro_mlir import ir
from repro_mlir.base.numerics.tensors import TensorType
from repro_mlir.program import Program
from repro_mlir.program.canonical import read_module
from repro_mlir.verification.operators import Operator, OperatorGraph

if TYPE_CHECKING:
    from repro_mlir.frontends.torch.compile_backend.eager import EagerGraph

_NAMED = re.compile(r'loc\("([^"]*)"(?:\("|\)$)')


class EagerSide:
    """Implements `Side` with PyTorch: runs the captured graph in eager mode, with PyTorch's kernels."""

    name = "eager"

    def __init__(self, graph: OperatorGraph, nodes: Sequence[str | None], eager: EagerGraph) -> None:
        """
        Args:
          graph: the operators of the program.
          nodes: the ATen node of each operator, see `nodes_of`.
          eager: the captured graph of the program.
        """
        self._graph = graph
        self._nodes = nodes
        self._eager = eager
        matches = _matches(graph, nodes, eager.nodes)
        sources = ((index, self._source(graph.operators[index])) for index in matches)
        self._sources = {index: source for index, source in sources if source is not None}
        self._node_of = {index: matches[index] for index in self._sources}

    def results(self, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        return self._eager.run(arrays)[0]

    def values(self, arrays: Sequence[np.ndarray]) -> Iterator[tuple[Operator, tuple[np.ndarray, ...] | None]]:
        _, found = self._eager.run(arrays, tuple(self._node_of.values()))
        for operator in self._graph.operators:
            name = self._node_of.get(operator.index)
            yield operator, None if name is None else (found[name].reshape(operator.outputs[0].kind.shape),)

    def source(self, operator: Operator) -> Operator:
        return self._sources.get(operator.index, operator)

    def _source(self, operator: Operator) -> Operator | None:
        """Returns the operator that computes the values in this operator's result: the operator itself, unless it only
        moves data. Returns None if the values come from another ATen node."""
        if not self._graph.moves(operator):
            return operator
        node = self._nodes[operator.index]
        producers = sorted({value.producer for value in operator.inputs if value.producer is not None}, reverse=True)
        found = (self._source(self._graph.operators[i]) for i in producers if self._nodes[i] == node)
        return next((source for source in found if source is not None), None)


def nodes_of(named: Program) -> list[str | None]:
    """Returns, for each operator of a program, the name of the ATen node in its location; None if its location names no
    node."""
    with ir.Context():
        parsed = read_module(named.data)
        block = parsed.body.operations[0].regions[0].blocks[0]
        found = [_NAMED.match(str(operation.operation.location)) for operation in block.operations]
    return [each and each[1] for each in found]


def _matches(graph: OperatorGraph, operators: Sequence[str | None], nodes: Mapping[str, TensorType]) -> dict[int, str]:
    """Maps the index of each operator that computes the value of an ATen node to the name of that node."""
    last = {
        name: operator.index
        for operator, name in zip(graph.operators, operators, strict=False)
        if name is not None and not operator.inline
    }
    return {
        last[name]: name for name, kind in nodes.items() if name in last and _gives(graph.operators[last[name]], kind)
    }


def _gives(operator: Operator, kind: TensorType) -> bool:
    """Returns whether an operator has exactly one result and it is a tensor of this type. Extents of 1 are ignored."""
    outputs = operator.outputs
    if len(outputs) != 1 or outputs[0].scalar:
        return False
    given, wanted = ([extent for extent in each.shape if extent != 1] for each in (outputs[0].kind, kind))
    return outputs[0].kind.element == kind.element and given == wanted
