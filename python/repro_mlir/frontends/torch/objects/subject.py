# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The subject of a capture: the user's objects and the options."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import torch

from repro_mlir.frontends.torch.base.capture_options import CaptureOptions
from repro_mlir.frontends.torch.optimizers.averages import average_functions, average_tensors
from repro_mlir.frontends.torch.optimizers.loss_scaling import scaler_rule, scaler_tensors


@dataclass(frozen=True)
class Subject:
    """The user's objects of a step.

    Attributes:
      model, loss_fn: see `capture_training`.
      optimizer: the optimizer; None for an evaluation.
      options: the options of the capture; changes of the user's objects in the options are detected too.
    """

    model: torch.nn.Module
    loss_fn: Any
    optimizer: torch.optim.Optimizer | None
    options: CaptureOptions

    @property
    def functions(self) -> dict[str, Any]:
        """The functions that are not part of the model, keyed by name."""
        named = {"loss_fn": self.loss_fn}
        if "metrics" in self.options.returns:
            named |= {f"metric {name}": function for name, function in (self.options.metrics or {}).items()}
        if self.average is not None:
            named |= average_functions(self.average)
        return named

    @property
    def average(self) -> Any:
        """The average that follows the model's steps; None for an evaluation."""
        return self.options.average if self.optimizer is not None else None

    @property
    def scaler(self) -> Any:
        """The GradScaler that scales the loss; None for an evaluation."""
        return self.options.loss_scale if self.optimizer is not None else None

    @property
    def extra(self) -> dict[str, torch.Tensor]:
        """The state tensors that belong to neither the model nor the optimizer, keyed by name."""
        beside = {} if self.average is None else average_tensors(self.average)
        return beside if self.scaler is None else beside | scaler_tensors(self.scaler)

    @property
    def choices(self) -> tuple[tuple[str, Hashable], ...]:
        """The options that may differ from step to step, each as a pair of its name in messages and its value."""
        rule = None if self.scaler is None else scaler_rule(self.scaler)
        return ("what is asked for in returns", self.options.returns), ("a factor of loss_scale", rule)
