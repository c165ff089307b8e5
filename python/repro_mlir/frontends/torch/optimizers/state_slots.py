# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The state of an optimizer as tensors of a program, and where the optimizer keeps each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import torch

Owner = torch.nn.Parameter | int
"""Whose `optimizer.state` holds a value; a number: the parameter group that does."""


def held_by(optimizer: torch.optim.Optimizer, owner: Owner) -> dict[Any, Any]:
    """The dict in which the optimizer keeps what it has for an owner; an empty one where it has nothing yet."""
    if isinstance(owner, int):
        return optimizer.param_groups[owner]
    return optimizer.state.get(owner, {})


@dataclass(eq=False)
class Slot:
    """One tensor of optimizer state.

    Attributes:
      name: `optimizer.<parameter name>.<key>`, or `optimizer.group<i>.<key>` of a value that several parameters have.
      owners: those whose state holds it; all hold the same value.
      key: where they hold it.
      kind: `tensor`: its one owner holds a tensor. `counter`: each owner holds a tensor of shape []. `number`: each
        owner holds a Python number of the type `number`, here an f64. `count`: no owner holds it: whether there is a
        momentum buffer.
      initial: its value at capture.
      start: its value where an owner holds none. None: the program is not for such an optimizer.
    """

    name: str
    owners: list[Owner]
    key: Any
    kind: Literal["tensor", "counter", "number", "count"]
    initial: torch.Tensor
    start: torch.Tensor | None
    number: type[int] | type[float] = float

    def store(self, optimizer: torch.optim.Optimizer, value: torch.Tensor) -> None:
        """Gives each owner the value, as the optimizer's own `step` leaves it."""
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
