# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Makes training steps from inference programs of any frontend. Losses and optimizers are programs too."""

from repro_mlir.program_training.losses import Loss, cross_entropy, mean_squared_error
from repro_mlir.program_training.optimizers import Optimizer, adamw, sgd
from repro_mlir.program_training.trainer import ProgramTrainer
from repro_mlir.program_training.training import training_step

__all__ = [
    "Loss",
    "Optimizer",
    "ProgramTrainer",
    "adamw",
    "cross_entropy",
    "mean_squared_error",
    "sgd",
    "training_step",
]
