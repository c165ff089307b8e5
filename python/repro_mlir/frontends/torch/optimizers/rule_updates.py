# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The update of an optimizer of torch.optim that has a rule (`optimizer_rules`).

Step counters are tensors, so the program itself computes bias corrections.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Hashable, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from repro_mlir.base.numerics.tensors import TensorType
from repro_mlir.frontends.torch.base.errors import CaptureError, one_line
from repro_mlir.frontends.torch.base.source_lines import phase
from repro_mlir.frontends.torch.optimizers.optimizer_rules import RULES, Rule
from repro_mlir.frontends.torch.optimizers.state_slots import Slot, UpdateTensors
from repro_mlir.frontends.torch.trace.recording import unrecorded
from repro_mlir.frontends.torch.trace.repeated_calls import Repeats


class RuleUpdate:
    """An `optimizers.Update` that applies the rule of the optimizer's class.

    The structure consists of the rule (flags, and which hyper-parameters are zero) and the identities of the parameters
    per parameter group.
    """

    constants: Mapping[torch.Tensor, dict[Any, Any]] = {}
    depends_on_state = False

    def __init__(
        self, optimizer: torch.optim.Optimizer, names: Mapping[torch.Tensor, str], updated: Collection[str]
    ) -> None:
        """See `optimizers.Update`; the optimizer's class is in RULES."""
        self._optimizer = optimizer
        self._rule = RULES[type(optimizer)]
        self.slots: list[Slot] = []
        self._updates: list[tuple[str, int, Rule, Mapping[str, str]]] = []
        self._counters: list[str] = []
        self._rules = self._present_rules()
        # Keeps the parameters alive, because the structure distinguishes them by their `id`.
        self._parameters = [list(group["params"]) for group in optimizer.param_groups]
        self.structure = self.present_structure()
        self.numbers: list[TensorType] = []
        for index, (rule, parameters) in enumerate(zip(self._rules, self._parameters, strict=True)):
            suffix = f".{index}" if len(self._rules) > 1 else ""
            wide = any(parameter.dtype is torch.float64 for parameter in parameters)
            element = "f64" if wide else "f32"
            self.numbers += [TensorType(name + suffix, element, ()) for name in self._numbers(index)]
            for parameter in parameters:
                name = names[parameter]
                if name in updated:
                    self._add(index, name, parameter, rule)

    def _add(self, group: int, name: str, parameter: torch.nn.Parameter, rule: Rule) -> None:
        state = self._optimizer.state.get(parameter, {})
        slots = {}
        for key in rule.keys:
            if key in ("step", "count"):
                taken = state.get("step", 0.0) if key == "step" else float(state.get("momentum_buffer") is not None)
                slots[key] = self._counter(group, parameter, key, taken)
                continue
            value = state.get(key)
            initial = _zeros_like(parameter) if value is None else value.detach().clone()
            slots[key] = f"optimizer.{name}.{key}"
            start = initial if value is None else None
            self.slots.append(Slot(slots[key], [parameter], key, "tensor", initial, start))
        self._updates.append((name, group, rule, slots))

    def _counter(self, group: int, parameter: torch.nn.Parameter, key: str, taken: Any) -> str:
        """Returns the name of a parameter's step counter, whose value is `taken`; parameters of a group with equal
        values share one counter.
        """
        value = torch.as_tensor(taken, dtype=torch.float32).detach().clone().reshape([])
        prefix = f"optimizer.group{group}.{key}"
        for slot in self.slots:
            if slot.name.startswith(prefix) and torch.equal(slot.initial, value):
                slot.owners.append(parameter)
                return slot.name
        count = sum(slot.name.startswith(prefix) for slot in self.slots)
        name = f"{prefix}.{count}" if count else prefix
        self.slots.append(
            Slot(name, [parameter], key, "count" if key == "count" else "counter", value, torch.zeros([]))
        )
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
                raise CaptureError(f"optimizer parameter group {index}: {one_line(error)}") from None
        return rules

    def present_structure(self) -> Hashable:
        """Returns the present rule and the parameter identities of each group; see `optimizers.Update`."""
        members = [tuple(map(id, group["params"])) for group in self._optimizer.param_groups]
        return tuple(zip(self._present_rules(), members, strict=True))

    def explain(self) -> str:
        """Returns a description of how the present structure differs from that at capture."""
        for index, (was, now) in enumerate(zip(self._rules, self._present_rules(), strict=False)):
            if was != now:
                return f"optimizer parameter group {index} was captured as {was}, is {now}"
        return "the parameter groups differ from those at capture"

    def _numbers(self, index: int) -> dict[str, float]:
        """Returns the present hyper-parameters, keyed by name, of a group that still has its captured structure."""
        group = self._optimizer.param_groups[index]
        try:
            return {name: float(number) for name, number in self._rules[index].read(group).items()}
        except (KeyError, TypeError, ValueError, RuntimeError, OverflowError) as error:
            raise CaptureError(f"optimizer parameter group {index}: {one_line(error)}") from None

    def read(self) -> list[float]:
        """Returns the present hyper-parameters of all groups, in the order of `numbers`."""
        return [number for index in range(len(self._rules)) for number in self._numbers(index).values()]

    def update(self, tensors: UpdateTensors) -> None:
        """Traces one step, as `optimizers.Update.update` describes."""
        parameters, gradients, state = tensors.parameters, tensors.gradients, tensors.state
        remaining = iter(tensors.numbers)
        named = [{name: next(remaining) for name in self._numbers(index)} for index in range(len(self._rules))]
        for name in self._counters:
            with phase(f"update of {name}"):
                state[name] = state[name] + 1
        repeats = Repeats()
        for name, group, rule, slots in self._updates:
            if name in gradients:
                key = rule, *named[group]
                held = [state[each] for each in slots.values()]
                given = parameters[name], gradients[name], *held, *named[group].values()
                updating = functools.partial(_updated, rule, [*named[group]])
                with phase(f"update of {name}"):
                    updated = unrecorded(repeats.call_on_tensors, key, updating, given)
                parameters[name] = updated[0]
                state |= zip(slots.values(), updated[1:], strict=True)


def _updated(
    rule: Rule, names: Sequence[str], parameter: torch.Tensor, gradient: torch.Tensor, *values: torch.Tensor
) -> list[torch.Tensor]:
    """Returns the parameter and its slots after a step; `values` are its slots, then the numbers that `names` lists."""
    slots = dict(zip(rule.keys, values, strict=False))
    number = dict(zip(names, values[len(slots) :], strict=True))
    after = rule.update(slots, parameter, gradient.to(parameter.dtype), number)
    return [after, *slots.values()]


def _zeros_like(parameter: torch.Tensor) -> torch.Tensor:
    """Returns zeros that take no memory until they are written: `np.zeros` does not touch its pages, as `torch.zeros`
    does."""
    data = torch.from_numpy(np.zeros(parameter.numel() * parameter.element_size(), np.uint8))
    return data.view(parameter.dtype).reshape(parameter.shape)
