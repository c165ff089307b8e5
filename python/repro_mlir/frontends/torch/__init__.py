# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""PyTorch frontend: training steps and inference as imported linalg and its signature.

Names are loaded on first use: importing this package imports neither PyTorch nor torch-mlir, which only captures need.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from repro_mlir.lazy_imports import load_on_first_use

if TYPE_CHECKING:
    from repro_mlir.frontends.torch.binding import Binding, Stale
    from repro_mlir.frontends.torch.capture import capture_inference, capture_training
    from repro_mlir.frontends.torch.captured import Captured, batch_kind
    from repro_mlir.frontends.torch.checkpoint import CHECKPOINT_FORMAT, check_fits, load_checkpoint, save_checkpoint
    from repro_mlir.frontends.torch.errors import CaptureError
    from repro_mlir.frontends.torch.hooks import refuse_hooks
    from repro_mlir.frontends.torch.module_calls import Refresh
    from repro_mlir.frontends.torch.reads import Contents
    from repro_mlir.frontends.torch.resident import bring_others_back
    from repro_mlir.frontends.torch.tensors import to_tensor
    from repro_mlir.frontends.torch.watch import (
        Form,
        Watch,
        check_environment,
        difference,
        form_of,
        with_structure,
    )

_HOMES = {
    "Binding": "binding",
    "CHECKPOINT_FORMAT": "checkpoint",
    "CaptureError": "errors",
    "Captured": "captured",
    "Contents": "reads",
    "Form": "watch",
    "Refresh": "module_calls",
    "Stale": "binding",
    "Watch": "watch",
    "batch_kind": "captured",
    "bring_others_back": "resident",
    "capture_inference": "capture",
    "capture_training": "capture",
    "check_environment": "watch",
    "check_fits": "checkpoint",
    "difference": "watch",
    "form_of": "watch",
    "load_checkpoint": "checkpoint",
    "refuse_hooks": "hooks",
    "save_checkpoint": "checkpoint",
    "to_tensor": "tensors",
    "with_structure": "watch",
}

__all__ = [
    "CHECKPOINT_FORMAT",
    "Binding",
    "CaptureError",
    "Captured",
    "Contents",
    "Form",
    "Refresh",
    "Stale",
    "Watch",
    "batch_kind",
    "bring_others_back",
    "capture_inference",
    "capture_training",
    "check_environment",
    "check_fits",
    "difference",
    "form_of",
    "load_checkpoint",
    "refuse_hooks",
    "save_checkpoint",
    "to_tensor",
    "with_structure",
]

__getattr__, __dir__ = load_on_first_use(__name__, _HOMES)
