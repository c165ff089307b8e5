# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Examples of gradient compression: one method of each class."""

from __future__ import annotations

from typing import Any

from repro_mlir.gradient_compression import QSGD, Blocks, OneBit, PowerSGD, TopK

METHODS: dict[str, Any] = {
    "top_k": TopK(0.2),
    "one_bit": OneBit(),
    "qsgd": QSGD(4, 16),
    "power_sgd": PowerSGD(1),
    "blocks": Blocks.named("nvfp4"),
}
