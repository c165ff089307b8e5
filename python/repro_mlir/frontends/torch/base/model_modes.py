# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The mode of a model, training or evaluation, and PyTorch's inference mode."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

import torch

from repro_mlir.base.signals import deferred_signals


def outside_inference_mode() -> AbstractContextManager[object]:
    """A block without `torch.inference_mode`, whose tensors could take no part in later steps."""
    return torch.inference_mode(False) if torch.is_inference_mode_enabled() else nullcontext()


@contextmanager
def evaluation_mode(model: torch.nn.Module) -> Iterator[None]:
    """A block in which all modules are in evaluation mode; afterwards each has its own one again.

    The flags alone are set: what a class does beside in a `train` of its own, such as merging weights, would write to
    the state.
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
