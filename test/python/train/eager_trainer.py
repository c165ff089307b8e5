# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""A trainer in PyTorch's eager mode, with which tests compare `Trainer`."""

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import torch
from repro_mlir import StepResult


class EagerTrainer:
    """Implements those methods of `Trainer` that scripts use, with a forward pass, a backward pass and
    `optimizer.step()`."""

    def __init__(
        self,
        model: torch.nn.Module,
        loss_fn: Callable[..., torch.Tensor] | None,
        optimizer: torch.optim.Optimizer,
        *,
        clip_norm: float | None = None,
        autocast: torch.dtype | None = None,
        metrics: Mapping[str, Callable[[Any, Any], torch.Tensor]] | None = None,
        average: Any = None,
        loss_scale: torch.amp.GradScaler | None = None,
        returns: Sequence[str] = (),
    ) -> None:
        self.model = model
        self.loss_fn = loss_fn
        self.optimizer = optimizer
        self.clip_norm = float("inf") if clip_norm is None else clip_norm
        self.autocast = autocast
        self.metrics = metrics or {}
        self.average = average
        self.scaler = torch.amp.GradScaler("cpu", enabled=False) if loss_scale is None else loss_scale
        self.steps = 0

    def step(self, *batch: Any, returns: Sequence[str] = ()) -> float | StepResult:
        """Runs a training step; see `Trainer.step`."""
        self.model.zero_grad()
        loss, output, target = self._forward(self.model, batch)
        self.scaler.scale(loss).backward()
        self.scaler.unscale_(self.optimizer)
        norm = torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.clip_norm)
        named = self.model.named_parameters()
        gradients = {name: value.grad.clone() for name, value in named if value.grad is not None}
        self.scaler.step(self.optimizer)
        self.scaler.update()
        if self.average is not None:
            self.average.update_parameters(self.model)
        self.steps += 1
        found = {"gradient_norm": norm.item(), "gradients": gradients}
        return self._result(loss, output, target, returns, found)

    def evaluate(self, *batch: Any, returns: Sequence[str] = (), average: bool = False) -> float | StepResult:
        """Returns the loss in evaluation mode; see `Trainer.evaluate`."""
        model = self.average if average else self.model
        former = [(module, module.training) for module in model.modules()]
        model.eval()
        with torch.no_grad():
            result = self._result(*self._forward(model, batch), returns, {})
        for module, training in former:
            module.training = training
        return result

    def fit(self, batches: Iterable[Any], steps: int, callbacks: Sequence[Callable[..., object]] = ()) -> list[float]:
        """Runs several steps with callbacks and returns their losses; see `Trainer.fit`."""
        losses: list[float] = []
        repeated = itertools.chain.from_iterable(itertools.repeat(batches))
        for batch in itertools.islice(repeated, steps):
            losses.append(self.step(*batch) if isinstance(batch, tuple | list) else self.step(batch))
            if any([callback(self, losses[-1]) for callback in callbacks]):
                break
        return losses

    def save_checkpoint(self, path: Path) -> None:
        """Writes the state of the model and the optimizer to a file."""
        torch.save({"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict()}, path)

    def load_checkpoint(self, path: Path) -> None:
        """Restores the state that `save_checkpoint` has written."""
        state = torch.load(path)
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])

    def _forward(self, model: torch.nn.Module, batch: Sequence[Any]) -> tuple[torch.Tensor, Any, Any]:
        """Returns the loss, the output, and the other value that metrics get: the target, or the model's arguments if
        the model computes the loss."""
        given = [torch.from_numpy(each) if isinstance(each, np.ndarray) else each for each in batch]
        autocast = nullcontext() if self.autocast is None else torch.autocast("cpu", self.autocast)
        with autocast:
            if self.loss_fn is not None:
                output = model(*given[:-1])
                return self.loss_fn(output, given[-1]), output, given[-1]
            arguments = given[0] if isinstance(given[0], Mapping) else given
            result = model(**arguments) if isinstance(arguments, Mapping) else model(*arguments)
        if isinstance(result, Mapping):
            return result["loss"], result, arguments
        return (result[0] if isinstance(result, tuple) else result), result, arguments

    def _result(
        self, loss: torch.Tensor, output: Any, target: Any, returns: Sequence[str], found: Mapping[str, Any]
    ) -> float | StepResult:
        if not returns:
            return loss.item()
        metrics = {name: float(function(output, target)) for name, function in self.metrics.items()}
        found = {**found, "outputs": output, "metrics": metrics}
        return StepResult(loss.item(), **{name: found[name] for name in returns})
