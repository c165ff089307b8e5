# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Imports torchvision through `vision` before any test imports a module, such as transformers, that needs it."""

import vision  # noqa: F401
