# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Imports torchvision by way of vision.py before a test imports a module that needs it, such as transformers."""

import vision  # noqa: F401
