# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Compile canonical programs for CPUs and run their steps.

    artifact = repro_mlir.runtime.compile(module, level="native")
    step = repro_mlir.runtime.load(artifact, threads=2)
    step.run(states, inputs, outputs)

States are updated in place; a step that fails a check leaves them as they were.
"""

from .buffers import Tensor
from .cache import cached_compile
from .compilation import CompileError, compile, levels, native_level, runnable_levels
from .emulation import EmulatedExecutable
from .executable import Executable, load

__all__ = [
    "CompileError",
    "EmulatedExecutable",
    "Executable",
    "Tensor",
    "cached_compile",
    "compile",
    "levels",
    "load",
    "native_level",
    "runnable_levels",
]
