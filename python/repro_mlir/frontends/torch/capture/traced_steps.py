# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Traces a step to a graph."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from repro_mlir.base.numerics.philox import signed_seed
from repro_mlir.frontends.torch.base.batch_leaves import named_leaves
from repro_mlir.frontends.torch.base.capture_options import CaptureOptions
from repro_mlir.frontends.torch.base.errors import CaptureError
from repro_mlir.frontends.torch.base.open_sizes import SymbolicSizes
from repro_mlir.frontends.torch.capture.steps import StateTensor, Step
from repro_mlir.frontends.torch.objects.captured_program import Role
from repro_mlir.frontends.torch.objects.kept_tensors import kept_tensors
from repro_mlir.frontends.torch.trace.random_sites import RandomSites
from repro_mlir.frontends.torch.trace.tracing import first_stage, second_stage
from repro_mlir.frontends.torch.trace.written_tensors import refuse_new_entries, refuse_writes


@dataclass(frozen=True, eq=False)
class TracedStep:
    """The graph of a step and the state tensors that are its first arguments.

    Attributes:
      first: the graph that `tracing.first_stage` returned; its arguments `seed` and `step` follow the state of model
        and optimizer.
      own: the state of the model and the optimizer.
      random: the state tensors `seed` and `step` of the random numbers.
      keeps_random: whether the program keeps seed and step even if the step draws no random numbers, because a chosen
        precision or gradient compression rounds stochastically.
    """

    first: torch.fx.GraphModule
    own: list[StateTensor]
    random: list[StateTensor]
    keeps_random: bool = False

    @functools.cached_property
    def second(self) -> tuple[torch.fx.GraphModule, bool]:
        """The graph to lower, and whether its program draws random numbers. If it draws none, seed and step are
        removed.
        """
        graph = second_stage(self.first)
        seed = [node for node in graph.graph.nodes if node.op == "placeholder"][len(self.own)]
        draws = self.keeps_random or any(user.op != "output" for user in seed.users)
        if not draws:
            _drop_random_state(graph, len(self.own))
        return graph, draws

    def graph(self) -> torch.fx.GraphModule:
        """Returns the graph to lower."""
        return self.second[0]

    def results(self) -> list[torch.Tensor]:
        """Returns the outputs of the step as fake tensors."""
        output = next(node for node in self.first.graph.nodes if node.op == "output")
        return [node.meta["val"] for node in output.args[0][len(self.own) + len(self.random) :]]

    def entries(self, draws: bool) -> list[StateTensor]:
        """Returns the state of the program, which includes `seed` and `step` if the program draws random numbers.

        Raises:
          CaptureError: a state tensor of the model is named `seed` or `step`.
        """
        if not draws:
            return self.own
        for entry in self.own:
            if entry.name in ("seed", "step"):
                raise CaptureError(
                    f"{entry.role} {entry.name} of the model has the name of random-number state: rename it"
                )
        return [*self.own, *self.random]


def trace_step(step: Step, options: CaptureOptions, sizes: SymbolicSizes | None = None) -> TracedStep:
    """Traces a step with `sizes`; if None, with the sizes of the step's tensors.

    Raises:
      CaptureError: the step cannot be traced, or reads or writes tensors that are not part of a program.
    """
    own = step.state()
    _check_names(own)
    random_state = [
        StateTensor("seed", "seed", torch.tensor(signed_seed(options.seed), dtype=torch.int64)),
        StateTensor("step", "step", torch.tensor(0, dtype=torch.int64)),
    ]
    numbers = step.numbers()

    def function(*arguments: torch.Tensor) -> list[torch.Tensor]:
        remaining = iter(arguments)
        state = {entry.name: next(remaining) for entry in own}
        seed_value, step_value = next(remaining), next(remaining)
        number_values = [next(remaining) for _ in numbers]
        recorded = contextlib.nullcontext() if step.recording is None else step.recording.recorded()
        with RandomSites(seed_value, step_value), recorded:
            tensors = step.tensors(state, number_values, [*remaining])
            leaves = dict(named_leaves(tensors.batch))
            outputs = step.run(tensors)
            refuse_new_entries(leaves, dict(named_leaves(tensors.batch)))
        kept.note_constants()
        new_state = [*tensors.parameters.values(), *tensors.buffers.values(), *tensors.state.values()]
        return [*new_state, seed_value, step_value + 1, *outputs]

    arguments = [*(entry.initial for entry in (*own, *random_state)), *numbers]
    block = options.attention_block
    with kept_tensors(step.modules()) as kept, contextlib.nullcontext() if sizes is None else sizes.tracing():
        arguments = [*arguments, *step.batch] if sizes is None else sizes.fake(arguments)
        trace = functools.partial(
            first_stage, function, arguments, None if block is None else int(block), step.origins, step.recording
        )
        first = trace()
        kept.check(first, trace)
        traced = TracedStep(first, own, random_state, step.optimizer is not None and options.is_stochastic)
        if sizes is not None:
            # The second stage may add conditions on the sizes, so it must run within `sizes.tracing()`.
            _ = traced.second
    refuse_writes(first.graph, step.batch_names)
    _check_constants(first.meta["constants"], step)
    return traced


def _check_names(entries: Sequence[StateTensor]) -> None:
    """Raises CaptureError if two state tensors have the same name."""
    roles: dict[str, Role] = {}
    for entry in entries:
        if entry.name in roles:
            raise CaptureError(
                f"{roles[entry.name]} {entry.name} of the model has the same name as a state tensor of another kind "
                f"({entry.role}): rename the module"
            )
        roles[entry.name] = entry.role


def _check_constants(constants: Sequence[torch.Tensor], step: Step) -> None:
    """Raises CaptureError if the step reads a parameter or buffer other than through the model."""
    held = {
        value.untyped_storage().data_ptr(): name
        for name, value in (*step.parameters.items(), *step.buffers.items())
        if value.numel() and value.device.type == "cpu"
    }
    for constant in constants:
        if constant.layout is torch.strided and constant.device.type == "cpu" and constant.numel():
            name = held.get(constant.untyped_storage().data_ptr())
            if name is not None:
                raise CaptureError(
                    f"the step reads the tensor of {name} through a reference outside of the model: read it as an "
                    "attribute of its module, so that it changes with each step and has a gradient"
                )


def _drop_random_state(graph: torch.fx.GraphModule, position: int) -> None:
    """Removes the arguments and results for seed and step from a graph that draws no random numbers."""
    placeholders = [node for node in graph.graph.nodes if node.op == "placeholder"]
    output = next(node for node in graph.graph.nodes if node.op == "output")
    results = list(output.args[0])
    output.args = ([*results[:position], *results[position + 2 :]],)
    graph.graph.eliminate_dead_code()
    for node in placeholders[position : position + 2]:
        graph.graph.erase_node(node)
    graph.recompile()
