# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Describes where an optimizer stores each state tensor of a program, and the tensors of a traced update."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch

Owner = torch.nn.Parameter | int
"""The owner of a value: the parameter whose entry of `optimizer.state` contains it, or a parameter group's index."""


def held_by(optimizer: torch.optim.Optimizer, owner: Owner) -> dict[Any, Any]:
    """Returns the dict in which the optimizer stores the values of an owner; an empty dict if there are none yet."""
    if isinstance(owner, int):
        return optimizer.param_groups[owner]
    return optimizer.state.get(owner, {})


@dataclass(eq=False)
class Slot:
    """One tensor of optimizer state.

    Attributes:
      name: `optimizer.<parameter name>.<key>`, or `optimizer.group<i>.<key>` if several parameters share the value.
      owners: the parameters or groups that store the value, which is equal for all of them.
      key: the key under which each owner stores the value.
      kind: `tensor`: the only owner stores a tensor. `counter`: each owner stores a tensor of shape []. `number`: each
        owner stores a Python number of the type `number`, which the program has as an f64. `count`: no owner stores the
        value, which records whether there is a momentum buffer.
      initial: the value at capture.
      start: the value for an owner that stores none yet. None: the program does not support such an optimizer.
    """

    name: str
    owners: list[Owner]
    key: Any
    kind: Literal["tensor", "counter", "number", "count"]
    initial: torch.Tensor
    start: torch.Tensor | None
    number: type[int] | type[float] = float

    def store(self, optimizer: torch.optim.Optimizer, value: torch.Tensor) -> None:
        """Stores the value in each owner, as the optimizer's own `step` leaves it."""
        for owner in self.owners:
            held = optimizer.param_groups[owner] if isinstance(owner, int) else optimizer.state[owner]
            old = held.get(self.key)
            if self.kind == "number":
                held[self.key] = self.number(value.item())
            elif isinstance(old, torch.Tensor) and old.shape == value.shape:
                with torch.no_grad():
                    old.copy_(value)
            else:
                held[self.key] = value.detach().clone()


@dataclass(frozen=True, eq=False)
class UpdateTensors:
    """The tensors of a traced update, which replaces the entries of `parameters` and `state`.

    Attributes:
      parameters, gradients: tensors, keyed by the parameter's name.
      state: state tensors, keyed by the slot's name.
      numbers: one tensor per number that the update reads.
    """

    parameters: dict[str, torch.Tensor]
    gradients: Mapping[str, torch.Tensor]
    state: dict[str, torch.Tensor]
    numbers: Sequence[torch.Tensor]
