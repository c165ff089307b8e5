# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The captured ATen graph of a program, run by PyTorch's own kernels.

The graph is what the frontend captured, after its decompositions and with our random numbers, so that only arithmetic
can differ from the program.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
import torch.fx

from repro_mlir.base.errors import ReproError
from repro_mlir.base.numerics.tensors import TensorType
from repro_mlir.base.tensors.arrays import as_array
from repro_mlir.base.tensors.torch_tensors import element_of, to_tensor
from repro_mlir.frontends.torch.base.source_lines import module_of
from repro_mlir.frontends.torch.capture.programs import in_precision
from repro_mlir.frontends.torch.lower.lowering import lower
from repro_mlir.frontends.torch.objects.captured_program import Captured
from repro_mlir.frontends.torch.trace.representation import represented
from repro_mlir.program import Program, import_program
from repro_mlir.program.exact import exact_contractions


def with_node_names(
    program: Program, captured: Captured, exact_digits: int | None = None, precision: Any = None
) -> Program:
    """The same program, captured with these options, with the names of ATen nodes in its locations."""
    count = len(captured.state)
    states = [kind.name for kind in captured.state]
    arguments = [*states, *(kind.name for kind in program.inputs)]
    results = [*states, *(kind.name for kind in program.outputs)]
    data = import_program(lower(captured.graph, len(states), arguments, results, name_nodes=True))
    numbers, initial = program.num_hyper_parameters, program.initial[:count]
    named = Program(data, captured.state, program.inputs, program.outputs, numbers, initial)
    if exact_digits is not None:
        named = exact_contractions(named, exact_digits)
    if precision is not None:
        named = in_precision(named, precision)
    if named.hash != program.hash:
        raise ReproError(f"capturing again gave another program: {program.hash} and {named.hash}")
    return named


class EagerGraph:
    """PyTorch's kernels on the captured graph of a program. Arrays are as base/numerics/tensors.py holds them.

    Attributes:
      nodes: the ATen nodes that give one tensor of a type that programs have, by name, with that type.
      modules: the names of the modules that called them, such as "module blocks.3", by the names of nodes.
    """

    def __init__(self, program: Program, captured: Captured) -> None:
        self._program = program
        self._count = len(captured.state)
        self._module = captured.graph
        kinds = ((node.name, _kind_of(node)) for node in captured.graph.graph.nodes)
        self.nodes = {name: kind for name, kind in kinds if kind is not None}
        modules = ((node.name, module_of(node)) for node in captured.graph.graph.nodes)
        self.modules = {name: module for name, module in modules if module is not None}

    def run(
        self, arrays: Sequence[np.ndarray], wanted: Sequence[str] = ()
    ) -> tuple[list[np.ndarray], dict[str, np.ndarray]]:
        """New state and outputs of a step, from the state before it and its inputs; and the values of `wanted`, which
        are names of `nodes`. State that the graph has not, (Q6) scales of former steps, stays as it is."""
        program = self._program
        own, added = program.state[: self._count], arrays[self._count : len(program.state)]
        read = [*arrays[: self._count], *arrays[len(program.state) :]]
        tensors = [
            represented(to_tensor(array.copy(), kind))
            for array, kind in zip(read, (*own, *program.inputs), strict=True)
        ]
        kept: dict[str, Any] = dict.fromkeys(wanted)
        with torch.no_grad():
            results = _Keeping(self._module, kept).run(*tensors)
        found = [
            _array(value, replace(kind, unsigned=False, complex=False)).view(kind.dtype)
            for value, kind in zip(results, (*own, *program.outputs), strict=True)
        ]
        return (
            [*found[: self._count], *added, *found[self._count :]],
            {name: _array(value, self.nodes[name]) for name, value in kept.items()},
        )


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


def _kind_of(node: torch.fx.Node) -> TensorType | None:
    value = node.meta.get("val")
    if not isinstance(value, torch.Tensor):
        return None
    try:
        return TensorType(node.name, element_of(value.dtype), tuple(value.shape))
    except ReproError:
        return None
