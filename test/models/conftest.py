# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Imports torchvision as `vision` does before any test imports what imports it, as the Trainer of transformers."""

import vision  # noqa: F401
