# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Calls of a model whose state is on a device: a hook first brings the model's tensors up to date.

Functions of torch bring tensors up to date themselves (device_tensors.py), but `torch.func` bypasses the class of
tensors. `torch.jit` also bypasses the class, and calls no hooks: see `Trainer.sync`.
"""

from __future__ import annotations

import weakref
from typing import Any, Protocol

import torch

from repro_mlir.frontends.torch.base.torch_internals import disable_dynamo


class Owner(Protocol):
    """An object that keeps the state of a model on a device, such as a trainer."""

    def bring_back(self) -> None:
        """Brings the tensors of the model up to date."""


class Refresh:
    """A hook that brings a trainer's tensors up to date as long as the trainer exists; a copy of the hook does nothing.

    A pickled model contains the hook, so unpickling the model imports this package, but not torch-mlir.
    """

    def __init__(self, trainer: Owner | None = None) -> None:
        self._trainer = weakref.ref(trainer) if trainer is not None else None
        self._watched: weakref.WeakSet[Any] = weakref.WeakSet()

    @disable_dynamo
    def __call__(self, *_: Any) -> None:
        trainer = self._trainer() if self._trainer is not None else None
        if trainer is not None:
            trainer.bring_back()

    def __reduce__(self) -> tuple[type[Refresh], tuple[()]]:
        return Refresh, ()

    def watch(self, model: torch.nn.Module) -> None:
        """Registers the hook at all modules of the model."""
        for module in model.modules():
            if module not in self._watched:
                self._watched.add(module)
                module.register_forward_pre_hook(self)
