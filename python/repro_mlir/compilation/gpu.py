# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Compiles a canonical program for NVIDIA GPUs. This needs neither a GPU nor a CUDA toolkit."""

from __future__ import annotations

from dataclasses import dataclass

from repro_mlir._mlir_libs import _repro
from repro_mlir.base.errors import CompileError
from repro_mlir.compilation.cpu import module_of


@dataclass(frozen=True)
class DeviceCode:
    """A PTX module and the plan to launch its kernels.

    Attributes:
        arch: the target architecture, such as "sm_90".
        ptx: the text of the module.
        constants: the bytes of the memory space "constant".
        plan: the bytes of the launch plan (docs/reference/plan.md).
    """

    arch: str
    ptx: str
    constants: bytes
    plan: bytes


def architectures() -> list[str]:
    """Returns the names of the GPU architectures. The results of a program have the same bits on all of them."""
    return _repro.gpu_architectures().split(", ")


def compile(program: bytes | str, arch: str = "sm_75", *, timing: bool = False) -> DeviceCode:
    """Compiles a canonical program to PTX.

    Args:
        program: the stored program (docs/verification/identity.md), or its MLIR text.
        arch: one of `architectures()`, or the path of a machine file (docs/contributors/machines.md). With the suffix
          "+tensor-cores", contractions in the accumulator class of the architecture (M4) are computed by matrix
          instructions. Their results are certain to follow the rule of the class only on certified GPUs.
        timing: whether to print the time of each pass to stderr.

    Raises:
        CompileError: the compilation fails; the message is the first error of the compiler.
    """
    module = module_of(program)
    try:
        ptx, plan, constants = _repro.compile_gpu(module, arch, timing)
    except ValueError as error:
        raise CompileError(str(error)) from None
    return DeviceCode(arch, ptx, constants, plan)
