# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Refuses calls that a loop with `loss.backward()` needs, and that have no effect next to a trainer.

A trainer's step computes gradients, clips them and updates the parameters. So the clipping functions of torch.nn.utils,
`unscale_` and `step` of a GradScaler, and `optimizer.step` find no gradients, and PyTorch does nothing. A gradient that
the step returns has already been used. `update` of a GradScaler finds no scaled gradients, and `update_parameters` of
the trainer's average would average the parameters twice. These calls are refused while a trainer has the parameters. If
`backward` of the user's own loop has computed a gradient, the calls have an effect and are allowed.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
from torch.optim.swa_utils import AveragedModel
from torch.utils.hooks import RemovableHandle
from torch.utils.weak import WeakTensorKeyDictionary

from repro_mlir.base.errors import ReproError
from repro_mlir.frontends.torch.base.hooks import TrainerStepHook
from repro_mlir.frontends.torch.base.torch_internals import precede_gradient_functions, precede_updates
from repro_mlir.frontends.torch.optimizers.given_gradients import GivenGradients

_NO_EFFECT = "has no effect: a Trainer's step computes the gradients and updates the parameters itself"
_EFFECTS = {"AveragedModel.update_parameters": "would count a step twice: a Trainer's step updates its average itself"}
_SCALER = "pass loss_scale= to Trainer and remove the calls of the GradScaler"
_REMEDIES = {
    "clip_grad_norm_": "pass clip_norm= to Trainer and remove the call of clip_grad_norm_",
    "clip_grads_with_norm_": "pass clip_norm= to Trainer and remove the call of clip_grads_with_norm_",
    "clip_grad_value_": "clamp in a hook of each parameter, such as p.register_hook(lambda g: g.clamp(-1, 1)), and "
    "remove the call of clip_grad_value_",
    "GradScaler.unscale_": _SCALER,
    "GradScaler.step": _SCALER,
    "GradScaler.update": _SCALER,
    "AveragedModel.update_parameters": "remove the call of update_parameters",
    "optimizer.step": "remove optimizer.step(), or call trainer.close() before a loop of your own",
}
"""The remedy for each call, by the function that the user calls."""


class LeftoverCalls:
    """The calls that are refused for one model and its optimizer, from `begin` until `end`."""

    def __init__(
        self, model: torch.nn.Module, optimizer: torch.optim.Optimizer, average: AveragedModel | None = None
    ) -> None:
        self._model = model
        self._average = average
        self._optimizer = optimizer
        self._remove: Callable[[], object] | None = None
        # The gradients that the trainer has set, each with its version.
        self._returned: WeakTensorKeyDictionary = WeakTensorKeyDictionary()
        self._reference = weakref.ref(self)
        # The gradients that a compiled optimizer gets are the user's own.
        self._applies = not isinstance(model, GivenGradients)

    def begin(self) -> None:
        """Refuses the calls from now on."""
        if self._remove is None and self._applies:
            handle = self._optimizer.register_step_pre_hook(_StepHook(self._reference))
            self._remove = weakref.finalize(self, _release, handle, self._reference)
            _ACTIVE.add(self._reference)

    def end(self) -> None:
        """Allows the calls again."""
        if self._remove is not None:
            self._remove()
            self._remove = None

    def note_returned(self) -> None:
        """Records that the present gradients of the model have been used by a step."""
        self._returned.clear()
        for parameter in self._model.parameters():
            if parameter.grad is not None:
                self._returned[parameter.grad] = parameter.grad._version

    def has_any(self, parameters: Iterable[torch.Tensor]) -> bool:
        """Whether one of the parameters is the model's."""
        own = {*map(id, self._model.parameters())}
        return any(id(parameter) in own for parameter in parameters)

    def updates(self, average: AveragedModel) -> bool:
        """Whether the trainer's step updates this average."""
        return average is self._average

    def refuse(self, name: str, parameters: Iterable[torch.Tensor]) -> None:
        """Raises ReproError if none of the parameters has a gradient that the user's own loop has computed."""
        gradients = [parameter.grad for parameter in parameters]
        if all(each is None or self._returned.get(each) == each._version for each in gradients):
            raise ReproError(f"{name}() {_EFFECTS.get(name, _NO_EFFECT)}: {_REMEDIES[name]}")

    def refuse_unless_used(self, name: str) -> None:
        """Raises ReproError if the model has no gradient that the user's own loop has computed."""
        self.refuse(name, self._model.parameters())


_ACTIVE: set[weakref.ref[LeftoverCalls]] = set()
"""Copying this set is atomic with respect to other threads."""


def _release(handle: RemovableHandle, reference: weakref.ref[LeftoverCalls]) -> None:
    handle.remove()
    _ACTIVE.discard(reference)


class _StepHook(TrainerStepHook):
    """Refuses `optimizer.step()`, except with a closure, which computes gradients itself."""

    def __init__(self, calls: weakref.ref[LeftoverCalls]) -> None:
        self._calls = calls

    def __call__(self, optimizer: torch.optim.Optimizer, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> None:
        calls = self._calls()
        if calls is not None and not arguments[1:] and not keywords:
            calls.refuse(
                "optimizer.step", (parameter for group in optimizer.param_groups for parameter in group["params"])
            )


def _active() -> Iterator[LeftoverCalls]:
    return (calls for reference in tuple(_ACTIVE) if (calls := reference()) is not None)


def _check(name: str, parameters: list[torch.Tensor]) -> None:
    for calls in _active():
        if calls.has_any(parameters):
            calls.refuse(name, parameters)


def _check_average(average: AveragedModel) -> None:
    for calls in _active():
        if calls.updates(average):
            calls.refuse_unless_used("AveragedModel.update_parameters")


def _check_scaler() -> None:
    for calls in _active():
        calls.refuse_unless_used("GradScaler.update")


precede_gradient_functions(_check)
precede_updates(_check_average, _check_scaler)
