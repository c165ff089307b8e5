# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""JAX frontend: turns pure functions, including training steps, into programs.

Names are loaded on first use, so importing this package does not import JAX; only captures need JAX.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from repro_mlir.base.lazy_imports import load_on_first_use

if TYPE_CHECKING:
    from repro_mlir.frontends.jax.bindings import JaxBindings
    from repro_mlir.frontends.jax.programs import capture, import_function

_HOMES = {"JaxBindings": "bindings", "capture": "programs", "import_function": "programs"}

__all__ = ["JaxBindings", "capture", "import_function"]

__getattr__, __dir__ = load_on_first_use(__name__, _HOMES)
