# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Context managers for the mode of a model (training or evaluation) and for PyTorch's inference mode."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

import torch

from repro_mlir.base.signals import deferred_signals


def outside_inference_mode() -> AbstractContextManager[object]:
    """Returns a context that disables `torch.inference_mode`, because later steps cannot use inference tensors."""
    return torch.inference_mode(False) if torch.is_inference_mode_enabled() else nullcontext()


@contextmanager
def evaluation_mode(model: torch.nn.Module) -> Iterator[None]:
    """Sets all modules to evaluation mode within the block and restores the mode of each module afterwards.

    Only the flag `training` is set. A module's own `train` method is not called, because it may write to the state, for
    example to merge weights.
    """
    former = [(module, module.training) for module in model.modules()]
    try:
        for module, training in former:
            if training:
                module.training = False
        yield
    finally:
        with deferred_signals():
            for module, training in former:
                if module.training is not training:
                    module.training = training
