# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""PyTorch beside our program: the captured ATen graph run by PyTorch's own kernels.

The graph is what the frontend captured, after its decompositions and with our random numbers, so that only arithmetic
can differ. A value of PyTorch is compared where the last operator that came from its ATen node gives a tensor of the
same shape and type; the other operators are steps on the way, and are left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
import torch.fx

from repro_mlir import ir
from repro_mlir.audit.operators import Operator, OperatorGraph
from repro_mlir.errors import ReproError
from repro_mlir.frontends.arrays import as_array
from repro_mlir.frontends.torch.captured import Captured
from repro_mlir.frontends.torch.lowering import lower
from repro_mlir.frontends.torch.tensors import element_of, to_tensor
from repro_mlir.numerics.tensors import TensorType
from repro_mlir.program import Program, import_program
from repro_mlir.program.canonical import read_module
from repro_mlir.program.exact import exact_contractions

_NAMED = re.compile(r'loc\("([^"]*)"(?:\("|\)$)')


def with_node_names(program: Program, captured: Captured, exact_digits: int | None = None) -> Program:
    """The same program, captured with these `exact_digits`, with the names of ATen nodes in its locations."""
    states = [kind.name for kind in program.state]
    arguments = [*states, *(kind.name for kind in program.inputs)]
    results = [*states, *(kind.name for kind in program.outputs)]
    data = import_program(lower(captured.graph, len(states), arguments, results, name_nodes=True))
    named = Program(data, program.state, program.inputs, program.outputs, program.num_hyper_parameters, program.initial)
    if exact_digits is not None:
        named = exact_contractions(named, exact_digits)
    if named.hash != program.hash:
        raise ReproError(f"capturing again gave another program: {program.hash} and {named.hash}")
    return named


class EagerSide:
    """PyTorch's kernels on the captured graph."""

    name = "eager"

    def __init__(self, graph: OperatorGraph, captured: Captured) -> None:
        """`graph` is of a program with node names."""
        self._graph = graph
        self._module = captured.graph
        self._node_of = _matches(graph, captured.graph)

    def results(self, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        return self._run(arrays, {})

    def values(self, arrays: Sequence[np.ndarray]) -> Iterator[tuple[Operator, tuple[np.ndarray, ...] | None]]:
        wanted: dict[str, Any] = dict.fromkeys(self._node_of.values())
        self._run(arrays, wanted)
        for operator in self._graph.operators:
            name = self._node_of.get(operator.index)
            yield operator, None if name is None else (_array(wanted[name], operator.outputs[0].kind),)

    def _run(self, arrays: Sequence[np.ndarray], keep: dict[str, Any]) -> list[np.ndarray]:
        program = self._graph.program
        tensors = [
            to_tensor(array.copy(), kind.element)
            for array, kind in zip(arrays, (*program.state, *program.inputs), strict=True)
        ]
        with torch.no_grad():
            results = _Keeping(self._module, keep).run(*tensors)
        return [_array(value, kind) for value, kind in zip(results, (*program.state, *program.outputs), strict=True)]


class _Keeping(torch.fx.Interpreter):
    """Runs a graph and keeps the values of some nodes."""

    def __init__(self, module: torch.fx.GraphModule, keep: dict[str, Any]) -> None:
        super().__init__(module)
        self._keep = keep

    def run_node(self, node: torch.fx.Node) -> Any:
        value = super().run_node(node)
        if node.name in self._keep:
            # A later node may write into it.
            self._keep[node.name] = value.detach().clone()
        return value


def _array(value: torch.Tensor, kind: TensorType) -> np.ndarray:
    return np.ascontiguousarray(as_array(value.detach().contiguous(), kind, "value")).reshape(kind.shape)


def _matches(graph: OperatorGraph, module: torch.fx.GraphModule) -> dict[int, str]:
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
    found = {}
    for node in module.graph.nodes:
        value = node.meta.get("val")
        index = last.get(node.name)
        if index is None or not isinstance(value, torch.Tensor):
            continue
        outputs = graph.operators[index].outputs
        if len(outputs) == 1 and not outputs[0].scalar and _fits(value, outputs[0].kind):
            found[index] = node.name
    return found


def _fits(value: torch.Tensor, kind: TensorType) -> bool:
    try:
        return tuple(value.shape) == kind.shape and element_of(value.dtype) == kind.element
    except ReproError:
        return False
