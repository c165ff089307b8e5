# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Implements `Executor` of verification/executors.py for all targets of `repro_mlir.compile`."""

from __future__ import annotations

import platform

import numpy as np

from repro_mlir._mlir_libs import _repro
from repro_mlir.compilation.cpu import native_level
from repro_mlir.execute.executable import check_runs, check_target
from repro_mlir.execute.microbatches import compile_step

__all__ = ["check_runs", "check_target", "compile_step", "describe"]


def describe(target: str, threads: int) -> dict[str, str]:
    """Returns the facts about the environment of a run, such as the machine, that a receipt reports; no result depends
    on them."""
    return {
        "repro_mlir": _repro.__version__,
        "target": target,
        "threads": str(threads),
        "level": native_level(),
        "system": platform.system(),
        "python": platform.python_version(),
        "numpy": np.__version__,
    }
