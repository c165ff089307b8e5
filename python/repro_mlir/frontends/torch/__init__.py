# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""PyTorch frontend: training steps and inference as imported linalg text and a signature."""

from repro_mlir.frontends.torch.binding import Binding, Stale
from repro_mlir.frontends.torch.capture import capture_inference, capture_training
from repro_mlir.frontends.torch.errors import CaptureError
from repro_mlir.frontends.torch.hooks import refuse_hooks
from repro_mlir.frontends.torch.module_calls import Refresh
from repro_mlir.frontends.torch.reads import Contents
from repro_mlir.frontends.torch.resident import bring_others_back
from repro_mlir.frontends.torch.signature import Captured, StateEntry, TensorSpec
from repro_mlir.frontends.torch.watch import Watch, check_environment, difference, form_of

__all__ = [
    "Binding",
    "CaptureError",
    "Captured",
    "Contents",
    "Refresh",
    "Stale",
    "StateEntry",
    "TensorSpec",
    "Watch",
    "bring_others_back",
    "capture_inference",
    "capture_training",
    "check_environment",
    "difference",
    "form_of",
    "refuse_hooks",
]
