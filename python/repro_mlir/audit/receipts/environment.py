# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Describes the environment of a run, for information only."""

from __future__ import annotations

import platform

import numpy as np

from repro_mlir._mlir_libs import _repro


def describe(target: str, threads: int) -> dict[str, str]:
    """Returns the facts about the environment that a receipt reports; no result depends on them."""
    from repro_mlir.compilation.cpu import native_level

    return {
        "repro_mlir": _repro.__version__,
        "target": target,
        "threads": str(threads),
        "level": native_level(),
        "system": platform.system(),
        "python": platform.python_version(),
        "numpy": np.__version__,
    }
