# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Predicts transformers that nobody compiles, from their sizes and a device's numbers (docs/roofline.md)."""

from .config import TransformerConfig, config_of
from .kernel_time import operation_seconds
from .kernels import Kernels, training_products
from .memory import TrainingMemory, training_memory
from .operations import Operation, Product
from .parallelism import RECOMPUTATIONS, SHARDINGS, Parallelism, Training
from .prediction import DecodingPrediction, TrainingPrediction, predict_decoding, predict_training
from .presets import PRESETS, read_transformer
from .share import Share

__all__ = [
    "PRESETS",
    "RECOMPUTATIONS",
    "SHARDINGS",
    "DecodingPrediction",
    "Kernels",
    "Operation",
    "Parallelism",
    "Product",
    "Share",
    "Training",
    "TrainingMemory",
    "TrainingPrediction",
    "TransformerConfig",
    "config_of",
    "operation_seconds",
    "predict_decoding",
    "predict_training",
    "read_transformer",
    "training_memory",
    "training_products",
]
