# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""ONNX frontend: turns inference models into programs.

Names are loaded on first use because they need onnx, PyTorch and torch-mlir.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from repro_mlir.base.lazy_imports import load_on_first_use

if TYPE_CHECKING:
    from repro_mlir.frontends.onnx.errors import OnnxError
    from repro_mlir.frontends.onnx.programs import import_model, load

_HOMES = {"OnnxError": "errors", "import_model": "programs", "load": "programs"}

__all__ = ["OnnxError", "import_model", "load"]

__getattr__, __dir__ = load_on_first_use(__name__, _HOMES)
