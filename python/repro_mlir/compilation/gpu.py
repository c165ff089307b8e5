# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""From a canonical program to code for NVIDIA devices.

No device and no CUDA toolkit is needed.
"""

from __future__ import annotations

from dataclasses import dataclass

from repro_mlir._mlir_libs import _repro
from repro_mlir.base.errors import CompileError
from repro_mlir.compilation.cpu import module_of


@dataclass(frozen=True)
class DeviceCode:
    """One PTX module and how to launch its kernels.

    Attributes:
        arch: what it was compiled for, such as "sm_90".
        ptx: the text of the module.
        constants: the bytes of the space "constant".
        plan: the bytes of the launch plan (docs/plan.md).
    """

    arch: str
    ptx: str
    constants: bytes
    plan: bytes


def architectures() -> list[str]:
    """The names of the architectures; all give the same bits."""
    return _repro.gpu_architectures().split(", ")


def compile(program: bytes | str, arch: str = "sm_75", *, timing: bool = False) -> DeviceCode:
    """Compiles a canonical program.

    Args:
        program: as it is stored (docs/identity.md), or its MLIR text.
        arch: one of `architectures()`, or the path of a machine's file (docs/machines.md); with "+tensor-cores" behind
          it accumulators (M4) of its class are matrix instructions, whose bits are the rule's on certified GPUs alone.
        timing: print the time of each pass to stderr.

    Raises:
        CompileError: the first error of the compiler.
    """
    module = module_of(program)
    try:
        ptx, plan, constants = _repro.compile_gpu(module, arch, timing)
    except ValueError as error:
        raise CompileError(str(error)) from None
    return DeviceCode(arch, ptx, constants, plan)
