# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The PyTorch frontend: captures training steps and inference as imported programs.

A name of this package is loaded on first use, so that importing the package imports neither PyTorch nor torch-mlir.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from repro_mlir.base.lazy_imports import load_on_first_use

if TYPE_CHECKING:
    from repro_mlir.frontends.torch.base.errors import CaptureError
    from repro_mlir.frontends.torch.base.hooks import refuse_hooks
    from repro_mlir.frontends.torch.base.model_modes import evaluation_mode, outside_inference_mode
    from repro_mlir.frontends.torch.base.user_objects import check_objects, unwrapped
    from repro_mlir.frontends.torch.capture.inference import capture_inference
    from repro_mlir.frontends.torch.capture.microbatches import first_microbatch
    from repro_mlir.frontends.torch.capture.step_results import fill_gradients, read_results, returned_by
    from repro_mlir.frontends.torch.capture.training import capture_training
    from repro_mlir.frontends.torch.objects.binding import Binding, Stale, mark_stepped
    from repro_mlir.frontends.torch.objects.captured_program import TorchBindings
    from repro_mlir.frontends.torch.objects.checkpoint import (
        CHECKPOINT_FORMAT,
        check_fits,
        load_checkpoint,
        save_checkpoint,
    )
    from repro_mlir.frontends.torch.objects.device_tensors import bring_others_back
    from repro_mlir.frontends.torch.objects.flat_batch import FlatBatch
    from repro_mlir.frontends.torch.objects.leftover_calls import LeftoverCalls
    from repro_mlir.frontends.torch.objects.module_calls import Refresh
    from repro_mlir.frontends.torch.objects.read_values import TensorContents, is_generator
    from repro_mlir.frontends.torch.objects.subject import Subject
    from repro_mlir.frontends.torch.objects.trainer_state import own_arrays, own_entries
    from repro_mlir.frontends.torch.objects.watch import (
        Form,
        Watch,
        changed_values,
        check_environment,
        difference,
        form_of,
        has_hidden_code,
    )
    from repro_mlir.frontends.torch.optimizers.averages import check_average
    from repro_mlir.frontends.torch.optimizers.loss_scaling import check_scaler

_HOMES = {
    "check_objects": "base.user_objects",
    "Binding": "objects.binding",
    "CHECKPOINT_FORMAT": "objects.checkpoint",
    "CaptureError": "base.errors",
    "TorchBindings": "objects.captured_program",
    "TensorContents": "objects.read_values",
    "FlatBatch": "objects.flat_batch",
    "Form": "objects.watch",
    "LeftoverCalls": "objects.leftover_calls",
    "Refresh": "objects.module_calls",
    "Stale": "objects.binding",
    "Subject": "objects.subject",
    "Watch": "objects.watch",
    "bring_others_back": "objects.device_tensors",
    "capture_inference": "capture.inference",
    "capture_training": "capture.training",
    "changed_values": "objects.watch",
    "check_average": "optimizers.averages",
    "check_environment": "objects.watch",
    "check_fits": "objects.checkpoint",
    "check_scaler": "optimizers.loss_scaling",
    "difference": "objects.watch",
    "evaluation_mode": "base.model_modes",
    "fill_gradients": "capture.step_results",
    "first_microbatch": "capture.microbatches",
    "form_of": "objects.watch",
    "has_hidden_code": "objects.watch",
    "is_generator": "objects.read_values",
    "load_checkpoint": "objects.checkpoint",
    "mark_stepped": "objects.binding",
    "own_arrays": "objects.trainer_state",
    "outside_inference_mode": "base.model_modes",
    "own_entries": "objects.trainer_state",
    "read_results": "capture.step_results",
    "returned_by": "capture.step_results",
    "refuse_hooks": "base.hooks",
    "save_checkpoint": "objects.checkpoint",
    "unwrapped": "base.user_objects",
}

__all__ = [
    "CHECKPOINT_FORMAT",
    "Binding",
    "CaptureError",
    "FlatBatch",
    "Form",
    "LeftoverCalls",
    "Refresh",
    "Stale",
    "Subject",
    "TensorContents",
    "TorchBindings",
    "Watch",
    "bring_others_back",
    "capture_inference",
    "capture_training",
    "changed_values",
    "check_average",
    "check_environment",
    "check_fits",
    "check_objects",
    "check_scaler",
    "difference",
    "evaluation_mode",
    "fill_gradients",
    "first_microbatch",
    "form_of",
    "has_hidden_code",
    "is_generator",
    "load_checkpoint",
    "mark_stepped",
    "outside_inference_mode",
    "own_arrays",
    "own_entries",
    "read_results",
    "refuse_hooks",
    "returned_by",
    "save_checkpoint",
    "unwrapped",
]

__getattr__, __dir__ = load_on_first_use(__name__, _HOMES)
