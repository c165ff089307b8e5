# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The update rules of torch.optim for one parameter, each as the single-tensor implementation of its class computes it.

A rule contains the flags of a parameter group that decide which terms an update has: without weight decay, for example,
nothing is added. Groups with equal rules need the same program. The numbers of a group are inputs of the program,
including those that torch.optim derives in f64: `1 - beta1` computed in f64 and rounded once differs from `1 - beta1`
computed in f32.
"""

import sys
import types
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol, Self

import torch

from repro_mlir.frontends.torch.base.source_lines import is_user_file

Group = Mapping[str, Any]
Numbers = Mapping[str, torch.Tensor]


Slots = dict[str, torch.Tensor]
"""The state tensors of one parameter, such as `exp_avg`, with their keys in the optimizer's state."""


class Rule(Protocol):
    """The update rule of a parameter group."""

    @property
    def keys(self) -> list[str]:
        """The keys of the state tensors; `step` counts all steps, `count` those with a momentum buffer."""

    def read(self, group: Group) -> dict[str, Any]:
        """Returns the numbers that the update reads from a group, keyed by name: Python numbers or tensors of one
        element.
        """

    def update(self, slots: Slots, parameter: torch.Tensor, gradient: torch.Tensor, number: Numbers) -> torch.Tensor:
        """Returns the parameter after a step and replaces the slots. The values of `number` are tensors of shape []."""


class SGD(NamedTuple):
    """The rule of torch.optim.SGD."""

    maximize: bool
    decay: bool
    momentum: bool
    dampening: bool
    nesterov: bool

    @classmethod
    def of(cls, group: Group) -> Self:
        """Returns the rule of a parameter group."""
        momentum = bool(group["momentum"] != 0)
        return cls(
            bool(group["maximize"]),
            bool(group["weight_decay"] != 0),
            momentum,
            momentum and bool(group["dampening"] != 0),
            momentum and bool(group["nesterov"]),
        )

    @property
    def keys(self) -> list[str]:
        # The first step differs from a step with a momentum buffer of zeros only if there is dampening.
        return ["momentum_buffer"] * self.momentum + ["count"] * self.dampening

    def read(self, group: Group) -> dict[str, Any]:
        numbers = {"lr": group["lr"]}
        if self.decay:
            numbers["weight_decay"] = group["weight_decay"]
        if self.momentum:
            numbers["momentum"] = group["momentum"]
        if self.dampening:
            numbers["one_minus_dampening"] = 1 - group["dampening"]
        return numbers

    def update(self, slots: Slots, parameter: torch.Tensor, gradient: torch.Tensor, number: Numbers) -> torch.Tensor:
        gradient = _descent(self, parameter, gradient, number)
        if self.momentum:
            buffer = slots["momentum_buffer"] * number["momentum"]
            if self.dampening:
                buffer = buffer + gradient * number["one_minus_dampening"]
                buffer = torch.where(slots["count"] == 1, gradient, buffer)
            else:
                buffer = buffer + gradient
            slots["momentum_buffer"] = buffer
            gradient = gradient + buffer * number["momentum"] if self.nesterov else buffer
        return parameter - number["lr"].to(parameter.dtype) * gradient


class Adam(NamedTuple):
    """The rule of torch.optim.Adam and AdamW."""

    maximize: bool
    decay: bool
    decoupled: bool
    amsgrad: bool

    @classmethod
    def of(cls, group: Group) -> Self:
        """Returns the rule of a parameter group."""
        decay = bool(group["weight_decay"] != 0)
        decoupled = decay and bool(group["decoupled_weight_decay"])
        return cls(bool(group["maximize"]), decay, decoupled, bool(group["amsgrad"]))

    @property
    def keys(self) -> list[str]:
        return ["step", "exp_avg", "exp_avg_sq"] + ["max_exp_avg_sq"] * self.amsgrad

    def read(self, group: Group) -> dict[str, Any]:
        beta1, beta2 = group["betas"]
        numbers = {"lr": group["lr"]}
        if self.decay:
            numbers["weight_decay"] = group["weight_decay"]
        return numbers | {
            "beta1": beta1,
            "one_minus_beta1": 1 - beta1,
            "beta2": beta2,
            "one_minus_beta2": 1 - beta2,
            "eps": group["eps"],
        }

    def update(self, slots: Slots, parameter: torch.Tensor, gradient: torch.Tensor, number: Numbers) -> torch.Tensor:
        rate = number["lr"].to(parameter.dtype)
        if self.decoupled:
            parameter = parameter * (1 - (rate * number["weight_decay"]).to(rate.dtype))
        gradient = _descent(self._replace(decay=self.decay and not self.decoupled), parameter, gradient, number)
        mean = slots["exp_avg"] + (gradient - slots["exp_avg"]) * number["one_minus_beta1"]
        square = slots["exp_avg_sq"] * number["beta2"] + (gradient * gradient) * number["one_minus_beta2"]
        slots["exp_avg"], slots["exp_avg_sq"] = mean, square
        step = slots["step"]
        correction1 = 1 - torch.pow(number["beta1"].to(step.dtype), step)
        correction2 = 1 - torch.pow(number["beta2"].to(step.dtype), step)
        if self.amsgrad:
            square = torch.maximum(slots["max_exp_avg_sq"], square)
            slots["max_exp_avg_sq"] = square
        denominator = torch.sqrt(square) / torch.sqrt(correction2) + number["eps"]
        return parameter - (rate / correction1) * mean / denominator


class RMSprop(NamedTuple):
    """The rule of torch.optim.RMSprop."""

    maximize: bool
    decay: bool
    momentum: bool
    centered: bool

    @classmethod
    def of(cls, group: Group) -> Self:
        """Returns the rule of a parameter group."""
        return cls(
            bool(group["maximize"]),
            bool(group["weight_decay"] != 0),
            bool(group["momentum"] > 0),
            bool(group["centered"]),
        )

    @property
    def keys(self) -> list[str]:
        return ["step", "square_avg"] + ["momentum_buffer"] * self.momentum + ["grad_avg"] * self.centered

    def read(self, group: Group) -> dict[str, Any]:
        numbers = {"lr": group["lr"]}
        if self.decay:
            numbers["weight_decay"] = group["weight_decay"]
        numbers |= {"alpha": group["alpha"], "one_minus_alpha": 1 - group["alpha"], "eps": group["eps"]}
        if self.momentum:
            numbers["momentum"] = group["momentum"]
        return numbers

    def update(self, slots: Slots, parameter: torch.Tensor, gradient: torch.Tensor, number: Numbers) -> torch.Tensor:
        gradient = _descent(self, parameter, gradient, number)
        rate = number["lr"].to(parameter.dtype)
        square = slots["square_avg"] * number["alpha"] + (gradient * gradient) * number["one_minus_alpha"]
        slots["square_avg"] = square
        if self.centered:
            mean = slots["grad_avg"] + (gradient - slots["grad_avg"]) * number["one_minus_alpha"]
            slots["grad_avg"] = mean
            square = square - mean * mean
        average = torch.sqrt(square) + number["eps"]
        if self.momentum:
            buffer = slots["momentum_buffer"] * number["momentum"] + gradient / average
            slots["momentum_buffer"] = buffer
            return parameter - rate * buffer
        return parameter - rate * gradient / average


def _descent(
    rule: SGD | Adam | RMSprop, parameter: torch.Tensor, gradient: torch.Tensor, number: Numbers
) -> torch.Tensor:
    """Returns the gradient of the descent step: negated for `maximize`, with weight decay added."""
    if rule.maximize:
        gradient = -gradient
    return gradient + parameter * number["weight_decay"] if rule.decay else gradient


RULES: dict[type, Callable[[Group], Rule]] = {
    torch.optim.SGD: SGD.of,
    torch.optim.Adam: Adam.of,
    torch.optim.AdamW: Adam.of,
    torch.optim.RMSprop: RMSprop.of,
}
"""Maps an optimizer class to the function that returns the rule of a parameter group."""


def has_rule(optimizer: torch.optim.Optimizer) -> bool:
    """Whether a rule describes an optimizer: its class is in RULES, and all functions of the class and its module are
    PyTorch's own.

    A user may have replaced the class's `step`, or a function of its module.
    """
    kind = type(optimizer)
    if kind not in RULES:
        return False
    # torch.compile adds attributes with two leading underscores to a module.
    module = vars(sys.modules[kind.__module__]).items()
    functions = [*vars(kind).values(), *(value for name, value in module if not name.startswith("__"))]
    return all(map(_is_of_pytorch, filter(_is_function, functions)))


def _is_function(value: object) -> bool:
    return isinstance(value, types.FunctionType)


def _is_of_pytorch(function: Any) -> bool:
    """Whether a function and the functions that it wraps belong to PyTorch or Python."""
    while function is not None:
        if not _is_function(function) or is_user_file(function.__code__.co_filename):
            return False
        function = getattr(function, "__wrapped__", None)
    return True
