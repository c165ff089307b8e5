# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""PyTorch beside our program.

A value of PyTorch is compared where the last operator that came from its ATen node gives a tensor of the same shape and
type; the other operators are steps on the way, and are left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from ... import ir
from ...numerics.tensors import TensorType
from ...program.canonical import read_module
from ..operators import Operator, OperatorGraph

if TYPE_CHECKING:
    from ...frontends.torch.eager import EagerGraph

_NAMED = re.compile(r'loc\("([^"]*)"(?:\("|\)$)')


class EagerSide:
    """PyTorch's kernels on the captured graph."""

    name = "eager"

    def __init__(self, graph: OperatorGraph, eager: EagerGraph) -> None:
        """`graph` is of a program with the names of ATen nodes in its locations."""
        self._graph = graph
        self._eager = eager
        self._node_of = _matches(graph, eager.nodes)

    def results(self, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        return self._eager.run(arrays)[0]

    def values(self, arrays: Sequence[np.ndarray]) -> Iterator[tuple[Operator, tuple[np.ndarray, ...] | None]]:
        _, found = self._eager.run(arrays, tuple(self._node_of.values()))
        for operator in self._graph.operators:
            name = self._node_of.get(operator.index)
            yield operator, None if name is None else (found[name],)


def _matches(graph: OperatorGraph, nodes: Mapping[str, TensorType]) -> dict[int, str]:
    """The ATen node of each operator that ends one."""
    with ir.Context():
        parsed = read_module(graph.program.data)
        block = parsed.body.operations[0].regions[0].blocks[0]
        locations = [str(operation.operation.location) for operation in block.operations]
    last: dict[str, int] = {}
    for operator, location in zip(graph.operators, locations, strict=False):
        named = _NAMED.match(location)
        if named and not operator.inline:
            last[named[1]] = operator.index
    return {
        last[name]: name for name, kind in nodes.items() if name in last and _gives(graph.operators[last[name]], kind)
    }


def _gives(operator: Operator, kind: TensorType) -> bool:
    """Whether all that an operator gives is one tensor of this type."""
    outputs = operator.outputs
    if len(outputs) != 1 or outputs[0].scalar:
        return False
    return (outputs[0].kind.element, outputs[0].kind.shape) == (kind.element, kind.shape)
