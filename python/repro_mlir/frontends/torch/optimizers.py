# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Optimizer updates as tensor programs: the rules of torch.optim on named state.

Each rule follows the single-tensor path of its torch.optim class. The learning rate is an argument of the
program and the step counters are tensors, so bias corrections are computed by the program itself.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from repro_mlir.frontends.torch.errors import CaptureError

Update = Callable[["_Slots", torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]


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

    def __contains__(self, key: str) -> bool:
        return key in self._names

    def __getitem__(self, key: str) -> torch.Tensor:
        return self._values[self._names[key]]

    def __setitem__(self, key: str, value: torch.Tensor) -> None:
        self._values[self._names[key]] = value


class OptimizerProgram:
    """The update of a torch.optim optimizer, ready to be traced.

    Attributes:
      slots: state tensors in the order of the program's arguments.
      learning_rates: names of the learning-rate arguments, one per parameter group.
    """

    def __init__(self, optimizer: torch.optim.Optimizer, names: Mapping[torch.Tensor, str]) -> None:
        """Reads groups and state of `optimizer`.

        Args:
          optimizer: SGD, Adam, AdamW or RMSprop.
          names: name of every parameter that receives a gradient; others are left alone, as torch.optim does.
        Raises:
          CaptureError: another optimizer, an unsupported option, or a parameter that is not of the model.
        """
        rule = _RULES.get(type(optimizer))
        if rule is None:
            supported = ", ".join(sorted(kind.__name__ for kind in _RULES))
            raise CaptureError(
                f"optimizer {type(optimizer).__module__}.{type(optimizer).__qualname__} is not supported; "
                f"supported are {supported} of torch.optim"
            )
        self._optimizer = optimizer
        self.slots: list[Slot] = []
        groups = optimizer.param_groups
        self.learning_rates = ["lr"] if len(groups) == 1 else [f"lr.{index}" for index in range(len(groups))]
        self._updates: list[tuple[str, int, Update, Mapping[str, str]]] = []
        self._counters: list[str] = []
        for index, group in enumerate(groups):
            if group.get("differentiable"):
                raise CaptureError(f"optimizer parameter group {index}: differentiable=True is not supported")
            update, keys = rule(group)
            for parameter in group["params"]:
                name = names.get(parameter)
                if name is not None:
                    self._add(index, name, parameter, update, keys)

    def _add(self, group: int, name: str, parameter: torch.nn.Parameter, update: Update, keys: Sequence[str]) -> None:
        state = self._optimizer.state.get(parameter, {})
        slots = {}
        for key in keys:
            if key in ("step", "count"):
                taken = state.get("step", 0.0) if key == "step" else float(state.get("momentum_buffer") is not None)
                slots[key] = self._counter(group, parameter, key, taken)
                continue
            value = state.get(key)
            initial = torch.zeros_like(parameter) if value is None else value
            slots[key] = f"optimizer.{name}.{key}"
            self.slots.append(Slot(slots[key], [parameter], key, initial.detach().clone()))
        self._updates.append((name, group, update, slots))

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

    def read_learning_rates(self) -> list[torch.Tensor]:
        """The present learning rate of each parameter group: f32 of shape []."""
        return [
            torch.as_tensor(group["lr"], dtype=torch.float32).detach().clone().reshape([])
            for group in self._optimizer.param_groups
        ]

    def update(
        self,
        parameters: dict[str, torch.Tensor],
        gradients: Mapping[str, torch.Tensor],
        state: dict[str, torch.Tensor],
        learning_rates: Sequence[torch.Tensor],
    ) -> None:
        """One step: replaces the entries of `parameters` and `state`.

        Args:
          parameters, gradients: by parameter name.
          state: by slot name.
          learning_rates: f32 of shape [], one per parameter group.
        """
        for name in self._counters:
            state[name] = state[name] + 1
        for name, group, rule, slots in self._updates:
            if name in gradients:
                value = parameters[name]
                rate = learning_rates[group].to(value.dtype)
                parameters[name] = rule(_Slots(slots, state), value, gradients[name].to(value.dtype), rate)

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

    def read_state(self) -> list[torch.Tensor]:
        """The optimizer's present slot values; a slot that it has not created yet has its value at capture."""
        result = []
        for slot in self.slots:
            state = self._optimizer.state.get(slot.parameters[0], {})
            value = state.get(slot.key)
            if slot.key == "count":
                value = float(state.get("momentum_buffer") is not None)
            if value is None:
                value = slot.initial
            result.append(torch.as_tensor(value, dtype=slot.initial.dtype).detach().clone())
        return result


# --- Rules ---


def _decayed(gradient: torch.Tensor, parameter: torch.Tensor, group: Mapping[str, Any]) -> torch.Tensor:
    if group.get("maximize"):
        gradient = -gradient
    if group["weight_decay"] != 0:
        gradient = gradient + parameter * group["weight_decay"]
    return gradient


def _sgd(group: Mapping[str, Any]) -> tuple[Update, list[str]]:
    momentum, dampening, nesterov = group["momentum"], group["dampening"], group["nesterov"]
    keys = []
    if momentum != 0:
        # Only with dampening does the first step differ from one with a momentum of zero.
        keys = ["momentum_buffer", "count"] if dampening != 0 else ["momentum_buffer"]

    def update(slots: _Slots, parameter: torch.Tensor, gradient: torch.Tensor, rate: torch.Tensor) -> torch.Tensor:
        gradient = _decayed(gradient, parameter, group)
        if momentum != 0:
            buffer = slots["momentum_buffer"] * momentum + gradient * (1 - dampening)
            if dampening != 0:
                buffer = torch.where(slots["count"] == 1, gradient, buffer)
            slots["momentum_buffer"] = buffer
            gradient = gradient + buffer * momentum if nesterov else buffer
        return parameter - rate * gradient

    return update, keys


def _adam(group: Mapping[str, Any], decoupled: bool) -> tuple[Update, list[str]]:
    beta1, beta2 = (float(beta) for beta in group["betas"])
    eps, decay, amsgrad = group["eps"], group["weight_decay"], group["amsgrad"]
    keys = ["step", "exp_avg", "exp_avg_sq"] + (["max_exp_avg_sq"] if amsgrad else [])

    def update(slots: _Slots, parameter: torch.Tensor, gradient: torch.Tensor, rate: torch.Tensor) -> torch.Tensor:
        if decoupled:
            if group.get("maximize"):
                gradient = -gradient
            if decay != 0:
                parameter = parameter * (1 - rate * decay)
        else:
            gradient = _decayed(gradient, parameter, group)
        mean = slots["exp_avg"] + (gradient - slots["exp_avg"]) * (1 - beta1)
        square = slots["exp_avg_sq"] * beta2 + (gradient * gradient) * (1 - beta2)
        slots["exp_avg"], slots["exp_avg_sq"] = mean, square
        step = slots["step"]
        correction1 = 1 - torch.pow(torch.full([], beta1, dtype=step.dtype), step)
        correction2 = 1 - torch.pow(torch.full([], beta2, dtype=step.dtype), step)
        if amsgrad:
            square = torch.maximum(slots["max_exp_avg_sq"], square)
            slots["max_exp_avg_sq"] = square
        denominator = torch.sqrt(square) / torch.sqrt(correction2) + eps
        return parameter - (rate / correction1) * mean / denominator

    return update, keys


def _rmsprop(group: Mapping[str, Any]) -> tuple[Update, list[str]]:
    alpha, eps, momentum, centered = group["alpha"], group["eps"], group["momentum"], group["centered"]
    keys = ["step", "square_avg"]
    keys += ["momentum_buffer"] if momentum > 0 else []
    keys += ["grad_avg"] if centered else []

    def update(slots: _Slots, parameter: torch.Tensor, gradient: torch.Tensor, rate: torch.Tensor) -> torch.Tensor:
        gradient = _decayed(gradient, parameter, group)
        square = slots["square_avg"] * alpha + (gradient * gradient) * (1 - alpha)
        slots["square_avg"] = square
        if centered:
            mean = slots["grad_avg"] + (gradient - slots["grad_avg"]) * (1 - alpha)
            slots["grad_avg"] = mean
            square = square - mean * mean
        average = torch.sqrt(square) + eps
        if momentum > 0:
            buffer = slots["momentum_buffer"] * momentum + gradient / average
            slots["momentum_buffer"] = buffer
            return parameter - rate * buffer
        return parameter - rate * gradient / average

    return update, keys


_RULES: dict[type, Callable[[Mapping[str, Any]], tuple[Update, list[str]]]] = {
    torch.optim.SGD: _sgd,
    torch.optim.Adam: lambda group: _adam(group, bool(group.get("decoupled_weight_decay"))),
    torch.optim.AdamW: lambda group: _adam(group, True),
    torch.optim.RMSprop: _rmsprop,
}


def clip_by_global_norm(gradients: Mapping[str, torch.Tensor], limit: float) -> dict[str, torch.Tensor]:
    """Scales gradients as torch.nn.utils.clip_grad_norm_(parameters, limit) does (the 2-norm)."""
    norms = [torch.linalg.vector_norm(gradient) for gradient in gradients.values()]
    total = torch.linalg.vector_norm(torch.stack([norm.to(norms[0].dtype) for norm in norms]))
    factor = torch.clamp(limit / (total + 1e-6), max=1.0)
    return {name: gradient * factor.to(gradient.dtype) for name, gradient in gradients.items()}
