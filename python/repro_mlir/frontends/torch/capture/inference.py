# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Captures models and functions without gradients, with static or dynamic sizes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch

from repro_mlir.base.printing import kind_of
from repro_mlir.frontends.torch.base.capture_options import CaptureOptions
from repro_mlir.frontends.torch.base.errors import CaptureError, located
from repro_mlir.frontends.torch.base.open_sizes import SymbolicSizes
from repro_mlir.frontends.torch.base.source_lines import origin_of_node
from repro_mlir.frontends.torch.capture.imported_steps import import_step, lowered_text
from repro_mlir.frontends.torch.capture.step_results import Results
from repro_mlir.frontends.torch.capture.steps import DEFAULTS, Step, StepTensors, called
from repro_mlir.frontends.torch.capture.traced_steps import trace_step
from repro_mlir.frontends.torch.lower.symbolic_reshapes import replace_views
from repro_mlir.frontends.torch.objects.captured_program import TorchBindings
from repro_mlir.frontends.torch.trace.unsigned import is_unsigned
from repro_mlir.program.imported import ImportedProgram, SymbolicImport


def capture_inference(
    model: torch.nn.Module, example_inputs: Any, options: CaptureOptions = DEFAULTS
) -> ImportedProgram[TorchBindings]:
    """Captures `model(*example_inputs)` without gradients.

    Args:
      model: its parameters and buffers become state; the program updates the buffers that the model writes.
      example_inputs: a tensor, a tuple of arguments, or a dict of keyword arguments.
      options: only `attention_block` is used.
    Returns:
      the program; its outputs are the tensors of the model's result.
    Raises:
      CaptureError: the model cannot be captured.
    """
    return import_step(_Inference(model, example_inputs), options)


def capture_function(
    function: Callable[[dict[str, torch.Tensor], dict[str, torch.Tensor]], Mapping[str, torch.Tensor]],
    state: Mapping[str, torch.Tensor],
    inputs: Mapping[str, torch.Tensor],
    origins: Mapping[int, str],
    options: CaptureOptions = DEFAULTS,
) -> ImportedProgram[TorchBindings]:
    """Captures a function of named tensors, without gradients: a model that is not a torch.nn.Module, or a step.

    Args:
      function: `function(state, inputs)` returns the outputs. The function must not write to the tensors; to change a
        state tensor, it replaces the tensor's entry in `state` by the new value.
      state: the state tensors.
      inputs: examples of the inputs; only the shapes and element types matter.
      origins: names of objects, keyed by id. Messages and locations give such a name to an operator that a method of
        the object calls.
      options: as for `capture_inference`.
    Returns:
      the program; its state contains first the floating-point tensors, then the integer tensors.
    Raises:
      CaptureError: the function cannot be captured.
    """
    return import_step(_Function(function, state, inputs, origins), options)


def capture_symbolic(
    model: torch.nn.Module,
    example_inputs: Any,
    make_sizes: Callable[[bool], SymbolicSizes],
    options: CaptureOptions = DEFAULTS,
) -> SymbolicImport:
    """Captures inference as `capture_inference` does, with dynamic sizes.

    Args:
      model, example_inputs: as for `capture_inference`.
      make_sizes: `make_sizes(of_examples)` returns the sizes for a trace. The first trace uses sizes other than the
        examples'. If the conditions of this trace do not hold for the examples, a second trace uses the examples'
        sizes.
      options: as for `capture_inference`, without `attention_block`.
    Raises:
      CaptureError: as for `capture_inference`; `attention_block` is set; an extent is not an expression of the sizes.
    """
    if options.attention_block is not None:
        raise CaptureError("expected static sizes of attention with attention_block, got dynamic ones")
    step = _Inference(model, example_inputs)
    sizes = make_sizes(False)
    try:
        traced = trace_step(step, options, sizes)
        is_done = sizes.hold_for_examples()
    except CaptureError:
        is_done = False
    if not is_done:
        sizes = make_sizes(True)
        traced = trace_step(step, options, sizes)
    graph, draws = traced.second
    _require_known_extents(graph.graph, sizes)
    replace_views(graph.graph)
    entries = traced.entries(draws)
    try:
        text = lowered_text(step, graph, entries, sizes)
    except CaptureError as error:
        if not str(error).endswith("is not supported"):
            raise
        raise CaptureError(f"{error} with dynamic sizes") from None
    tensors = [
        *((("state", entry.name), entry.initial) for entry in entries),
        *((("input", name), tensor) for name, tensor in zip(step.batch_names, step.batch, strict=True)),
        *((("output", name), tensor) for name, tensor in zip(step.output_names, traced.results(), strict=True)),
    ]
    return SymbolicImport(
        text=text,
        initial=tuple(entry.array() for entry in entries),
        unsigned=frozenset(place for place, tensor in tensors if is_unsigned(tensor)),
        complex=frozenset(place for place, tensor in tensors if tensor.is_complex()),
    )


def _require_known_extents(graph: torch.fx.Graph, sizes: SymbolicSizes) -> None:
    """Raises CaptureError if an extent is neither a number nor an expression of the dynamic sizes."""
    for node in graph.nodes:
        value = node.meta.get("val")
        for each in value if isinstance(value, tuple | list) else [value]:
            for extent in each.shape if isinstance(each, torch.Tensor) else ():
                if isinstance(extent, torch.SymInt) and not extent.node.expr.free_symbols <= {*sizes.variables}:
                    raise located(origin_of_node(node), "a shape depends on tensor values")


class _Inference(Step):
    def run(self, tensors: StepTensors) -> list[torch.Tensor]:
        with torch.no_grad(), self.model_with(tensors.parameters, tensors):
            result = called(self.model, tensors.batch)
        results = Results()
        results.append_all("output", result)
        if not results.tensors:
            raise CaptureError(f"the model returns {kind_of(result)} without tensors, expected at least one")
        return self.give(results)


class _Function(Step):
    """A function without a module: `function(state, inputs)` maps named tensors to named tensors."""

    def __init__(
        self,
        function: Callable[[dict[str, torch.Tensor], dict[str, torch.Tensor]], Mapping[str, torch.Tensor]],
        state: Mapping[str, torch.Tensor],
        inputs: Mapping[str, torch.Tensor],
        origins: Mapping[int, str],
    ) -> None:
        super().__init__(torch.nn.Module(), dict(inputs))
        self.function = function
        floats = {name: value for name, value in state.items() if value.is_floating_point()}
        self.parameters = {name: torch.nn.Parameter(value, requires_grad=False) for name, value in floats.items()}
        self.buffers = {name: value for name, value in state.items() if name not in floats}
        self.batch_names = [*inputs]
        self.origins = origins

    def run(self, tensors: StepTensors) -> list[torch.Tensor]:
        results = Results()
        values = {**tensors.parameters, **tensors.buffers}
        with torch.no_grad():
            for name, value in self.function(values, tensors.batch).items():
                results.append(name, value)
        for own in (tensors.parameters, tensors.buffers):
            own.update({name: values[name] for name in own})
        return self.give(results)
