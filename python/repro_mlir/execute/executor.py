# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Implements `Executor` of verification/executors.py for all targets of `repro_mlir.compile`."""

from __future__ import annotations

import platform

import blake3
import numpy as np

from repro_mlir._mlir_libs import _repro
from repro_mlir.compilation.cores import read_machine
from repro_mlir.compilation.cpu import native_level
from repro_mlir.execute.executable import CORES, check_runs, check_target
from repro_mlir.execute.microbatches import compile_step

__all__ = ["check_runs", "check_target", "compile_step", "describe", "name_for_others"]


def name_for_others(target: str) -> str:
    """Returns the name of a target in files for others. Instead of the path of a machine file, it contains the hash of
    the machine's description."""
    if not (target.startswith(CORES) and target.endswith(".json")):
        return target
    text = read_machine(target.removeprefix(CORES)).text
    return f"{CORES}blake3:{blake3.blake3(text.encode()).hexdigest()}"


def describe(target: str, threads: int) -> dict[str, str]:
    """Returns the facts about the environment of a run, such as the machine, that a receipt reports; no result depends
    on them."""
    return {
        "repro_mlir": _repro.__version__,
        "target": name_for_others(target),
        "threads": str(threads),
        "level": native_level(),
        "system": platform.system(),
        "python": platform.python_version(),
        "numpy": np.__version__,
    }
