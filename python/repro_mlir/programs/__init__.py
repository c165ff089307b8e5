# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Training steps for inference programs of any frontend: losses and optimizers are programs too."""

from repro_mlir.programs.losses import Loss, cross_entropy, mean_squared_error
from repro_mlir.programs.optimizers import Optimizer, adamw, sgd
from repro_mlir.programs.trainer import ProgramTrainer
from repro_mlir.programs.training import training_step

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
