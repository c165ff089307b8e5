# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""A torch.optim optimizer as a tensor program: its hyper-parameters are arguments, its state is named state.

The step counters are tensors, so bias corrections are computed by the program itself.
"""

import math
import numbers
import struct
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from repro_mlir.frontends.torch.errors import CaptureError
from repro_mlir.frontends.torch.optimizer_rules import RULES, Rule
from repro_mlir.frontends.torch.source_lines import phase
from repro_mlir.frontends.torch.tensors import dtype_of
from repro_mlir.numerics.tensors import TensorType


@dataclass
class Slot:
    """One tensor of optimizer state.

    Attributes:
      name: `optimizer.<parameter name>.<key>`, or `optimizer.group<i>.step` for a counter of several parameters.
      parameters: those whose `optimizer.state` holds it; all hold the same value.
      key: the key in `optimizer.state[parameter]`; `count` is a counter that torch.optim does not have.
      initial: its value at capture.
    """

    name: str
    parameters: list[torch.nn.Parameter]
    key: str
    initial: torch.Tensor


class _Slots:
    """The state tensors of one parameter during the trace."""

    def __init__(self, names: Mapping[str, str], values: dict[str, torch.Tensor]) -> None:
        self._names = names
        self._values = values

    def __getitem__(self, key: str) -> torch.Tensor:
        return self._values[self._names[key]]

    def __setitem__(self, key: str, value: torch.Tensor) -> None:
        self._values[self._names[key]] = value


class OptimizerProgram:
    """The update of a torch.optim optimizer, ready to be traced.

    Attributes:
      slots: state tensors in the order of the program's arguments.
      hyper_parameters: names, shapes and element types of the hyper-parameters that are arguments.
      structure: what of the optimizer decides which program it needs, at capture; see `present_structure`.
    """

    def __init__(
        self, optimizer: torch.optim.Optimizer, names: Mapping[torch.Tensor, str], clip_norm: float | None
    ) -> None:
        """Reads groups and state of `optimizer`.

        Args:
          optimizer: SGD, Adam, AdamW or RMSprop.
          names: name of every parameter that receives a gradient; others are left alone, as torch.optim does.
          clip_norm: clips all gradients together to this 2-norm.
        Raises:
          CaptureError: another optimizer, an unsupported option, or a hyper-parameter that is no number.
        """
        if type(optimizer) not in RULES:
            supported = ", ".join(sorted(kind.__name__ for kind in RULES))
            raise CaptureError(
                f"optimizer {type(optimizer).__module__}.{type(optimizer).__qualname__} is not supported; "
                f"supported are {supported} of torch.optim"
            )
        self._optimizer = optimizer
        self._rule = RULES[type(optimizer)]
        if clip_norm is not None and not (isinstance(clip_norm, numbers.Real) and 0 < float(clip_norm) < math.inf):
            raise CaptureError(f"expected a number above 0 as clip_norm, got {clip_norm!r}")
        self._clip_norm = None if clip_norm is None else float(clip_norm)
        self.slots: list[Slot] = []
        self._updates: list[tuple[str, int, Rule, Mapping[str, str]]] = []
        self._counters: list[str] = []
        self._rules = self._present_rules()
        # Kept alive, as the structure tells them apart by their identities.
        self._parameters = [list(group["params"]) for group in optimizer.param_groups]
        self.structure = self.present_structure()
        self.hyper_parameters: list[TensorType] = []
        for index, (rule, parameters) in enumerate(zip(self._rules, self._parameters, strict=True)):
            suffix = f".{index}" if len(self._rules) > 1 else ""
            wide = any(parameter.dtype is torch.float64 for parameter in parameters)
            element = "f64" if wide else "f32"
            self.hyper_parameters += [TensorType(name + suffix, element, ()) for name in self._numbers(index)]
            for parameter in parameters:
                name = names.get(parameter)
                if name is not None:
                    self._add(index, name, parameter, rule)
        if clip_norm is not None:
            wide = any(kind.element == "f64" for kind in self.hyper_parameters)
            self.hyper_parameters.append(TensorType("clip_norm", "f64" if wide else "f32", ()))
        self._format = f"{len(self.hyper_parameters)}d"
        self._packed = b""
        self._tensors: list[torch.Tensor] = []

    def _add(self, group: int, name: str, parameter: torch.nn.Parameter, rule: Rule) -> None:
        state = self._optimizer.state.get(parameter, {})
        slots = {}
        for key in rule.keys:
            if key in ("step", "count"):
                taken = state.get("step", 0.0) if key == "step" else float(state.get("momentum_buffer") is not None)
                slots[key] = self._counter(group, parameter, key, taken)
                continue
            value = state.get(key)
            initial = torch.zeros_like(parameter) if value is None else value
            slots[key] = f"optimizer.{name}.{key}"
            self.slots.append(Slot(slots[key], [parameter], key, initial.detach().clone()))
        self._updates.append((name, group, rule, slots))

    def _counter(self, group: int, parameter: torch.nn.Parameter, key: str, taken: Any) -> str:
        """The step counter of a parameter: one per group and value, as all its parameters step together."""
        value = torch.as_tensor(taken, dtype=torch.float32).detach().clone().reshape([])
        prefix = f"optimizer.group{group}.{key}"
        for slot in self.slots:
            if slot.name.startswith(prefix) and torch.equal(slot.initial, value):
                slot.parameters.append(parameter)
                return slot.name
        count = sum(slot.name.startswith(prefix) for slot in self.slots)
        name = f"{prefix}.{count}" if count else prefix
        self.slots.append(Slot(name, [parameter], key, value))
        self._counters.append(name)
        return name

    def _present_rules(self) -> list[Rule]:
        rules = []
        for index, group in enumerate(self._optimizer.param_groups):
            if group.get("differentiable"):
                raise CaptureError(f"optimizer parameter group {index}: differentiable=True is not supported")
            try:
                rules.append(self._rule(group))
            except (KeyError, TypeError, ValueError, RuntimeError) as error:
                raise CaptureError(f"optimizer parameter group {index}: {_line(error)}") from None
        return rules

    def present_structure(self) -> Hashable:
        """What of the optimizer decides which program it needs, as it is now; cheap enough for every step.

        Per parameter group its rule (flags, and which hyper-parameters are zero) and the identities of its parameters.

        Raises:
          CaptureError: an option that no program supports.
        """
        members = [tuple(map(id, group["params"])) for group in self._optimizer.param_groups]
        return tuple(zip(self._present_rules(), members, strict=True))

    def _numbers(self, index: int) -> dict[str, float]:
        """The present hyper-parameters of a group of the captured structure by name."""
        group = self._optimizer.param_groups[index]
        try:
            return {name: float(number) for name, number in self._rules[index].read(group).items()}
        except (KeyError, TypeError, ValueError, RuntimeError, OverflowError) as error:
            raise CaptureError(f"optimizer parameter group {index}: {_line(error)}") from None

    def read_hyper_parameters(self) -> list[torch.Tensor]:
        """The present values of `hyper_parameters`, each rounded once; equal numbers give the same tensors again.

        Raises:
          CaptureError: the structure is another than at capture, or a hyper-parameter is no number.
        """
        self._check_structure()
        numbers = [number for index in range(len(self._rules)) for number in self._numbers(index).values()]
        if self._clip_norm is not None:
            numbers.append(self._clip_norm)
        packed = struct.pack(self._format, *numbers)
        if packed != self._packed:
            self._tensors = [
                torch.tensor(number, dtype=torch.float64).to(dtype_of(kind.element))
                for number, kind in zip(numbers, self.hyper_parameters, strict=True)
            ]
            self._packed = packed
        return list(self._tensors)

    def _check_structure(self) -> None:
        present = self.present_structure()
        if present == self.structure:
            return
        for index, (was, now) in enumerate(zip(self._rules, self._present_rules(), strict=False)):
            if was != now:
                raise CaptureError(
                    f"optimizer parameter group {index} was captured as {was}, is {now}: capture the step again"
                )
        raise CaptureError("the parameter groups are others than at capture: capture the step again")

    def update(
        self,
        parameters: dict[str, torch.Tensor],
        gradients: Mapping[str, torch.Tensor],
        state: dict[str, torch.Tensor],
        hyper_parameters: Sequence[torch.Tensor],
    ) -> None:
        """One step: replaces the entries of `parameters` and `state`.

        Args:
          parameters, gradients: by parameter name.
          state: by slot name.
          hyper_parameters: one tensor per entry of the attribute.
        """
        remaining = iter(hyper_parameters)
        numbers = [{name: next(remaining) for name in self._numbers(index)} for index in range(len(self._rules))]
        if self._clip_norm is not None:
            with phase("gradient clipping"):
                gradients = clip_by_global_norm(gradients, next(remaining))
        for name in self._counters:
            with phase(f"update of {name}"):
                state[name] = state[name] + 1
        for name, group, rule, slots in self._updates:
            if name in gradients:
                value = parameters[name]
                with phase(f"update of {name}"):
                    gradient = gradients[name].to(value.dtype)
                    parameters[name] = rule.update(_Slots(slots, state), value, gradient, numbers[group])

    def write_state(self, values: Sequence[torch.Tensor]) -> None:
        """Stores the slots' `values` in the optimizer, as its own `step` would leave them."""
        without_step = {
            parameter
            for slot, value in zip(self.slots, values, strict=True)
            for parameter in slot.parameters
            if slot.key == "count" and value == 0
        }
        for slot, value in zip(self.slots, values, strict=True):
            for parameter in slot.parameters:
                if slot.key == "count" or parameter in without_step:
                    continue
                state = self._optimizer.state[parameter]
                old = state.get(slot.key)
                if isinstance(old, torch.Tensor) and old.shape == value.shape:
                    with torch.no_grad():
                        old.copy_(value)
                else:
                    state[slot.key] = value.detach().clone()


def clip_by_global_norm(gradients: Mapping[str, torch.Tensor], limit: torch.Tensor) -> dict[str, torch.Tensor]:
    """Scales gradients as torch.nn.utils.clip_grad_norm_(parameters, limit) does (the 2-norm)."""
    norms = [torch.linalg.vector_norm(gradient) for gradient in gradients.values()]
    total = torch.linalg.vector_norm(torch.stack([norm.to(norms[0].dtype) for norm in norms]))
    # PyTorch divides a Python number by a tensor so.
    factor = torch.clamp((torch.reciprocal(total + 1e-6) * limit).to(total.dtype), max=1.0)
    return {name: gradient * factor.to(gradient.dtype) for name, gradient in gradients.items()}


def _line(error: Exception) -> str:
    text = str(error).splitlines()
    return f"{type(error).__name__}: {text[0]}" if text else type(error).__name__
