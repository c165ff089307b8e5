# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Lossy compression of gradients, as state and operations of a training step (docs/guides/gradient-compression.md).

Names are imported on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from repro_mlir.base.lazy_imports import load_on_first_use

if TYPE_CHECKING:
    from repro_mlir.gradient_compression.apply import compress_gradients
    from repro_mlir.gradient_compression.chosen import (
        METHODS,
        compression_from_json,
        compression_of,
        compression_to_json,
    )
    from repro_mlir.gradient_compression.methods import QSGD, Blocks, GradientCompression, OneBit, PowerSGD, TopK

_HOMES = {
    "METHODS": "chosen",
    "Blocks": "methods",
    "GradientCompression": "methods",
    "OneBit": "methods",
    "PowerSGD": "methods",
    "QSGD": "methods",
    "TopK": "methods",
    "compress_gradients": "apply",
    "compression_from_json": "chosen",
    "compression_of": "chosen",
    "compression_to_json": "chosen",
}

__all__ = [
    "METHODS",
    "QSGD",
    "Blocks",
    "GradientCompression",
    "OneBit",
    "PowerSGD",
    "TopK",
    "compress_gradients",
    "compression_from_json",
    "compression_of",
    "compression_to_json",
]

__getattr__, __dir__ = load_on_first_use(__name__, _HOMES)
