# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Runs the captured ATen graph of a program with PyTorch's own kernels.

The graph is the frontend's captured graph after its decompositions and with the program's random numbers, so that only
the arithmetic can differ from the program.
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
from repro_mlir.frontends.torch.base.capture_options import CaptureOptions
from repro_mlir.frontends.torch.base.source_lines import caller_of
from repro_mlir.frontends.torch.capture.programs import in_numerics
from repro_mlir.frontends.torch.lower.lowering import lower
from repro_mlir.frontends.torch.objects.captured_program import TorchBindings
from repro_mlir.frontends.torch.trace.representation import represented
from repro_mlir.program import Program, import_program


def with_node_names(program: Program, captured: TorchBindings, options: CaptureOptions) -> Program:
    """Returns the same program, lowered again with the names of ATen nodes in its locations.

    Args:
      program, captured: the program and its bindings.
      options: the options with which the program was captured.
    Raises:
      ReproError: the hash of the rebuilt program differs from that of `program`.
    """
    count = len(captured.state)
    states = [kind.name for kind in captured.state]
    arguments = [*states, *(kind.name for kind in program.inputs)]
    results = [*states, *(kind.name for kind in program.outputs)]
    data = import_program(lower(captured.graph, len(states), arguments, results, name_nodes=True))
    numbers, initial = program.num_hyper_parameters, program.initial[:count]
    named = in_numerics(Program(data, captured.state, program.inputs, program.outputs, numbers, initial), options)
    if named.hash != program.hash:
        raise ReproError(f"expected the same program when captured again, {program.hash}, got {named.hash}")
    return named


class EagerGraph:
    """Runs the captured graph of a program with PyTorch's kernels, on arrays in the format of base/numerics/tensors.py.

    Attributes:
      nodes: the types of the ATen nodes whose result is one tensor of a type that programs support, keyed by node name.
      modules: the names of the modules that called the nodes, such as "module blocks.3", keyed by node name.
    """

    def __init__(self, program: Program, captured: TorchBindings) -> None:
        self._program = program
        self._count = len(captured.state)
        self._module = captured.graph
        kinds = ((node.name, _type_of_node(node)) for node in captured.graph.graph.nodes)
        self.nodes = {name: kind for name, kind in kinds if kind is not None}
        modules = ((node.name, caller_of(node)) for node in captured.graph.graph.nodes)
        self.modules = {name: module for name, module in modules if module is not None}

    def run(
        self, arrays: Sequence[np.ndarray], wanted: Sequence[str] = ()
    ) -> tuple[list[np.ndarray], dict[str, np.ndarray]]:
        """Runs a step.

        Args:
          arrays: the state before the step, then the inputs.
          wanted: names in `nodes`.
        Returns:
          a list of the new state and the outputs; and a dict of the values of the wanted nodes, keyed by name. State
          that the graph does not have, such as scales of earlier steps (Q6), is returned unchanged.
        """
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
            # A clone, because a later node may write to the tensor.
            self._keep[node.name] = value.detach().clone()
        return value


def _array(value: torch.Tensor, kind: TensorType) -> np.ndarray:
    return np.ascontiguousarray(as_array(value.detach().contiguous(), kind, "value")).reshape(kind.shape)


def _type_of_node(node: torch.fx.Node) -> TensorType | None:
    value = node.meta.get("val")
    if not isinstance(value, torch.Tensor):
        return None
    try:
        return TensorType(node.name, element_of(value.dtype), tuple(value.shape))
    except ReproError:
        return None
