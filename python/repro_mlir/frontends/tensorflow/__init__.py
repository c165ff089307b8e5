# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""TensorFlow frontend: turns functions with variables, including training steps, and SavedModels into programs.

Names are loaded on first use, so importing this package does not import TensorFlow; only captures need TensorFlow.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from repro_mlir.base.lazy_imports import load_on_first_use

if TYPE_CHECKING:
    from repro_mlir.frontends.tensorflow.bindings import TensorFlowBindings
    from repro_mlir.frontends.tensorflow.programs import capture, import_function, import_saved_model, load

_HOMES = {"TensorFlowBindings": "bindings"} | dict.fromkeys(
    ("capture", "import_function", "import_saved_model", "load"), "programs"
)

__all__ = ["TensorFlowBindings", "capture", "import_function", "import_saved_model", "load"]

__getattr__, __dir__ = load_on_first_use(__name__, _HOMES)
