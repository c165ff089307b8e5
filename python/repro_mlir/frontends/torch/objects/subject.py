# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""What a program is captured from: the user's objects, and what is chosen beside them."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import torch

from repro_mlir.frontends.torch.optimizers.averages import average_functions, average_tensors
from repro_mlir.frontends.torch.optimizers.loss_scaling import scaler_rule, scaler_tensors
from repro_mlir.program.imported import CaptureOptions


@dataclass(frozen=True)
class Subject:
    """The user's objects of a step.

    Attributes:
      model, loss_fn: see `capture_training`.
      optimizer: None for an evaluation.
      options: what is chosen beside them; its objects of the user's are looked at as the others are.
    """

    model: torch.nn.Module
    loss_fn: Any
    optimizer: torch.optim.Optimizer | None
    options: CaptureOptions

    @property
    def functions(self) -> dict[str, Any]:
        """The functions beside the model's, by name."""
        named = {"loss_fn": self.loss_fn}
        if "metrics" in self.options.returns:
            named |= {f"metric {name}": function for name, function in (self.options.metrics or {}).items()}
        if self.average is not None:
            named |= average_functions(self.average)
        return named

    @property
    def average(self) -> Any:
        """The average that follows the steps of the model; None for an evaluation."""
        return self.options.average if self.optimizer is not None else None

    @property
    def scaler(self) -> Any:
        """What scales the loss; None for an evaluation."""
        return self.options.loss_scale if self.optimizer is not None else None

    @property
    def extra(self) -> dict[str, torch.Tensor]:
        """The tensors of the state that are neither the model's nor the optimizer's, by name."""
        beside = {} if self.average is None else average_tensors(self.average)
        return beside if self.scaler is None else beside | scaler_tensors(self.scaler)

    @property
    def choices(self) -> tuple[tuple[str, Hashable], ...]:
        """The choices that may differ from step to step, by name."""
        rule = None if self.scaler is None else scaler_rule(self.scaler)
        return ("what is asked for in returns", self.options.returns), ("a factor of loss_scale", rule)
