# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Predicts transformers without compilation, from their sizes and a device's parameters (docs/guides/roofline.md)."""

from repro_mlir.roofline.transformer.config import TransformerConfig, config_of
from repro_mlir.roofline.transformer.kernel_time import operation_seconds
from repro_mlir.roofline.transformer.kernels import Kernels, training_products
from repro_mlir.roofline.transformer.memory import TrainingMemory, training_memory
from repro_mlir.roofline.transformer.operations import Operation, Product
from repro_mlir.roofline.transformer.parallelism import RECOMPUTATIONS, SHARDINGS, Parallelism, Training
from repro_mlir.roofline.transformer.prediction import (
    DecodingPrediction,
    TrainingPrediction,
    predict_decoding,
    predict_training,
)
from repro_mlir.roofline.transformer.presets import PRESETS, read_transformer
from repro_mlir.roofline.transformer.share import Share

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
