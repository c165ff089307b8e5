# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""An optimizer as a tensor program: its hyper-parameters are arguments, and its state consists of named tensors."""

from __future__ import annotations

import struct
from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

import torch

from repro_mlir.base.numerics.environment import float_environment
from repro_mlir.base.numerics.tensors import TensorType
from repro_mlir.base.tensors.torch_tensors import dtype_of
from repro_mlir.frontends.torch.base.errors import CaptureError, one_line
from repro_mlir.frontends.torch.base.source_lines import phase
from repro_mlir.frontends.torch.optimizers.optimizer_rules import has_rule
from repro_mlir.frontends.torch.optimizers.rule_updates import RuleUpdate
from repro_mlir.frontends.torch.optimizers.state_slots import Slot, UpdateTensors
from repro_mlir.frontends.torch.optimizers.traced_optimizers import TracedUpdate


class Update(Protocol):
    """The update of an optimizer, ready to be traced.

    An update is constructed from the optimizer, the names of all parameters of the model, and the names of the
    parameters that receive a gradient. The constructor raises CaptureError for an unsupported optimizer or option.

    Attributes:
      slots: state tensors in the order of the program's arguments.
      constants: entries that the first step creates in `optimizer.state` and that are not state tensors: None, flags
        and strings, keyed by parameter and then by key. A parameter's dict may be empty.
      numbers: names and element types of the numbers that are read from the optimizer before each step.
      structure: the properties of the optimizer at capture that determine its program.
      depends_on_state: whether `structure` depends on the optimizer's state, so that a step may need another program
        than the previous step.
    """

    slots: list[Slot]
    numbers: list[TensorType]

    @property
    def constants(self) -> Mapping[torch.Tensor, dict[Any, Any]]: ...
    @property
    def depends_on_state(self) -> bool: ...
    @property
    def structure(self) -> Hashable: ...

    def present_structure(self) -> Hashable:
        """Returns `structure` as it is now; raises CaptureError for an option that no program supports."""

    def explain(self) -> str:
        """Returns a description of how the present structure differs from that at capture."""

    def read(self) -> Sequence[float]:
        """Returns the present values of `numbers`; raises CaptureError or OverflowError if a value is not a number."""

    def update(self, tensors: UpdateTensors, /) -> None:
        """Traces one step: replaces the entries of `tensors.parameters` and `tensors.state`."""


class OptimizerProgram:
    """The update of an optimizer with optional gradient clipping, ready to be traced.

    Attributes:
      slots: state tensors in the order of the program's arguments.
      constants: see `Update`.
      hyper_parameters: names, shapes and element types of the hyper-parameters that are arguments.
    """

    def __init__(
        self,
        optimizer: torch.optim.Optimizer,
        names: Mapping[torch.Tensor, str],
        updated: Collection[str],
        clip_norm: float | None,
    ) -> None:
        """Reads the groups and state of `optimizer`.

        Args:
          optimizer: an optimizer of a class in RULES, or one whose `step` can be traced.
          names: names of all parameters of the model, including those of the optimizer.
          updated: names of the parameters that receive a gradient; the optimizer decides what happens to the others.
          clip_norm: the 2-norm to which all gradients together are clipped; None for no clipping.
        Raises:
          CaptureError: the optimizer or an option is not supported, or a hyper-parameter is not a number.
        """
        self._clip_norm = None if clip_norm is None else float(clip_norm)
        self._optimizer = optimizer
        members = [parameter for group in optimizer.param_groups for parameter in group["params"]]
        # The rules would square complex elements, whereas PyTorch's steps update real and imaginary parts separately.
        by_rule = has_rule(optimizer) and not any(parameter.is_complex() for parameter in members)
        make = RuleUpdate if by_rule else TracedUpdate
        self._update: Update = make(optimizer, names, updated)
        self.slots = self._update.slots
        self.constants = self._update.constants
        self.hyper_parameters = [*self._update.numbers]
        if clip_norm is not None:
            wide = any(parameter.dtype is torch.float64 for parameter in members)
            self.hyper_parameters.append(TensorType("clip_norm", "f64" if wide else "f32", ()))
        self._format = f"{len(self.hyper_parameters)}d"
        self._packed = b""
        self._tensors: list[torch.Tensor] = []

    @property
    def depends_on_state(self) -> bool:
        """See `Update`."""
        return self._update.depends_on_state

    @property
    def structure(self) -> Hashable:
        """The properties of the optimizer at capture that determine its program; see `present_structure`."""
        return self._update.structure

    def present_structure(self) -> Hashable:
        """Returns the present properties that determine the optimizer's program; cheap enough to be called before every
        step.

        Raises:
          CaptureError: an option has a value that no program supports.
        """
        return self._update.present_structure()

    @float_environment()
    def read_hyper_parameters(self) -> list[torch.Tensor]:
        """Returns the present `hyper_parameters`, each rounded once; equal numbers yield the same tensors again.

        Raises:
          CaptureError: the structure differs from that at capture, or a hyper-parameter is not a number.
        """
        if self.present_structure() != self.structure:
            raise CaptureError(f"{self._update.explain()}: capture the step again")
        try:
            values = [*self._update.read()]
        except OverflowError as error:
            raise CaptureError(f"a hyper-parameter: {one_line(error)}") from None
        if self._clip_norm is not None:
            values.append(self._clip_norm)
        packed = struct.pack(self._format, *values)
        if packed != self._packed:
            self._tensors = [
                torch.tensor(number, dtype=torch.float64).to(dtype_of(kind))
                for number, kind in zip(values, self.hyper_parameters, strict=True)
            ]
            self._packed = packed
        return list(self._tensors)

    def update(self, tensors: UpdateTensors) -> None:
        """Traces one step; `tensors.numbers` has one tensor per entry of `hyper_parameters`."""
        count, gradients = len(self._update.numbers), tensors.gradients
        if self._clip_norm is not None:
            with phase("gradient clipping"):
                gradients = clip_by_global_norm(gradients, tensors.numbers[count])
        self._update.update(replace(tensors, gradients=gradients, numbers=tensors.numbers[:count]))

    def write_state(self, values: Sequence[torch.Tensor]) -> None:
        """Stores the slots' `values` in the optimizer, as the optimizer's own `step` would leave them."""
        without_step = {
            parameter
            for slot, value in zip(self.slots, values, strict=True)
            for parameter in slot.owners
            if slot.kind == "count" and value == 0
        }
        for slot, value in zip(self.slots, values, strict=True):
            if slot.kind != "count" and without_step.isdisjoint(slot.owners):
                slot.store(self._optimizer, value)
        for parameter, constants in self.constants.items():
            self._optimizer.state[parameter].update(constants)


def clip_by_global_norm(gradients: Mapping[str, torch.Tensor], limit: torch.Tensor) -> dict[str, torch.Tensor]:
    """Scales gradients as `torch.nn.utils.clip_grad_norm_(parameters, limit)` does (2-norm)."""
    norms = [torch.linalg.vector_norm(gradient) for gradient in gradients.values()]
    total = torch.linalg.vector_norm(torch.stack([norm.to(norms[0].dtype) for norm in norms]))
    # PyTorch computes a Python number divided by a tensor as a product with the reciprocal.
    factor = torch.clamp((torch.reciprocal(total + 1e-6) * limit).to(total.dtype), max=1.0)
    return {name: gradient * factor.to(gradient.dtype) for name, gradient in gradients.items()}
