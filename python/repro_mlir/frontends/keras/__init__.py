# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Keras frontend: turns functions that read and write Keras variables into programs, on the backends JAX and PyTorch.

Names are loaded on first use, so importing this package does not import Keras; only captures need Keras.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from repro_mlir.base.lazy_imports import load_on_first_use

if TYPE_CHECKING:
    from repro_mlir.frontends.keras.backends import backend
    from repro_mlir.frontends.keras.capture import Imported, import_function
    from repro_mlir.frontends.keras.scope import Scope, derived_tensors
    from repro_mlir.frontends.keras.steps import evaluation_step, settings_of, state_of, training_step

_HOMES = {
    "Imported": "capture",
    "Scope": "scope",
    "backend": "backends",
    "derived_tensors": "scope",
    "evaluation_step": "steps",
    "import_function": "capture",
    "settings_of": "steps",
    "state_of": "steps",
    "training_step": "steps",
}

__all__ = [
    "Imported",
    "Scope",
    "backend",
    "derived_tensors",
    "evaluation_step",
    "import_function",
    "settings_of",
    "state_of",
    "training_step",
]

__getattr__, __dir__ = load_on_first_use(__name__, _HOMES)
