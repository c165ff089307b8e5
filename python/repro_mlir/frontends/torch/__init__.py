# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""PyTorch frontend: training steps and inference as imported linalg and its signature.

Names are loaded on first use: importing this package imports neither PyTorch nor torch-mlir, which only captures need.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from repro_mlir.lazy_imports import load_on_first_use

if TYPE_CHECKING:
    from repro_mlir.frontends.torch.arguments import check_objects, unwrapped
    from repro_mlir.frontends.torch.averages import check_average
    from repro_mlir.frontends.torch.binding import Binding, Stale
    from repro_mlir.frontends.torch.capture import capture_inference, capture_training, check_compression
    from repro_mlir.frontends.torch.captured import Captured
    from repro_mlir.frontends.torch.checkpoint import (
        CHECKPOINT_FORMAT,
        check_fits,
        load_checkpoint,
        save_checkpoint,
    )
    from repro_mlir.frontends.torch.errors import CaptureError
    from repro_mlir.frontends.torch.flat_batch import FlatBatch
    from repro_mlir.frontends.torch.hooks import refuse_hooks
    from repro_mlir.frontends.torch.loss_scaling import check_scaler
    from repro_mlir.frontends.torch.microbatches import first_microbatch
    from repro_mlir.frontends.torch.modes import evaluation_mode, outside_inference_mode
    from repro_mlir.frontends.torch.module_calls import Refresh
    from repro_mlir.frontends.torch.own_state import own_arrays, own_entries
    from repro_mlir.frontends.torch.reads import Contents
    from repro_mlir.frontends.torch.resident import bring_others_back
    from repro_mlir.frontends.torch.results import check_returns, fill_gradients, read_results, returned_by
    from repro_mlir.frontends.torch.subject import Subject
    from repro_mlir.frontends.torch.tensors import to_tensor
    from repro_mlir.frontends.torch.watch import (
        Form,
        Watch,
        changed_values,
        check_environment,
        difference,
        form_of,
    )

_HOMES = {
    "check_objects": "arguments",
    "Binding": "binding",
    "CHECKPOINT_FORMAT": "checkpoint",
    "CaptureError": "errors",
    "Captured": "captured",
    "Contents": "reads",
    "FlatBatch": "flat_batch",
    "Form": "watch",
    "Refresh": "module_calls",
    "Stale": "binding",
    "Subject": "subject",
    "Watch": "watch",
    "bring_others_back": "resident",
    "capture_inference": "capture",
    "capture_training": "capture",
    "changed_values": "watch",
    "check_average": "averages",
    "check_compression": "capture",
    "check_environment": "watch",
    "check_fits": "checkpoint",
    "check_returns": "results",
    "check_scaler": "loss_scaling",
    "difference": "watch",
    "evaluation_mode": "modes",
    "fill_gradients": "results",
    "first_microbatch": "microbatches",
    "form_of": "watch",
    "load_checkpoint": "checkpoint",
    "own_arrays": "own_state",
    "outside_inference_mode": "modes",
    "own_entries": "own_state",
    "read_results": "results",
    "returned_by": "results",
    "refuse_hooks": "hooks",
    "save_checkpoint": "checkpoint",
    "to_tensor": "tensors",
    "unwrapped": "arguments",
}

__all__ = [
    "CHECKPOINT_FORMAT",
    "Binding",
    "CaptureError",
    "Captured",
    "Contents",
    "FlatBatch",
    "Form",
    "Refresh",
    "Stale",
    "Subject",
    "Watch",
    "bring_others_back",
    "capture_inference",
    "capture_training",
    "changed_values",
    "check_average",
    "check_compression",
    "check_environment",
    "check_fits",
    "check_objects",
    "check_returns",
    "check_scaler",
    "difference",
    "evaluation_mode",
    "fill_gradients",
    "first_microbatch",
    "form_of",
    "load_checkpoint",
    "outside_inference_mode",
    "own_arrays",
    "own_entries",
    "read_results",
    "refuse_hooks",
    "returned_by",
    "save_checkpoint",
    "to_tensor",
    "unwrapped",
]

__getattr__, __dir__ = load_on_first_use(__name__, _HOMES)
