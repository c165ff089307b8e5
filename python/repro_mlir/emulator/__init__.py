# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Runs PTX text on the CPU, with every bit as PTX defines it.

    module = repro_mlir.emulator.load(ptx)
    memory = repro_mlir.emulator.Memory()
    memory.add(array, "x")                    # a device pointer is a host address
    module.launch("kernel", grid, block, 0, parameters, memory)

The text that a GPU's driver would get is what runs. An opcode that the emulator does not know, in exactly this form, is
an error of `load`. Every access is checked to lie in a buffer and to be aligned; with `checked=True` data races and
reads of uninitialized shared memory are faults, too. docs/gpu.md tells how programs run on it.

Other programs use the same emulator through the C interface lib/CAPI/Emulator.h, which needs neither Python nor LLVM.
"""

from .module import Fault, Kernel, LaunchError, Memory, Module, OrderDependence, PtxError, levels, load

__all__ = [
    "Fault",
    "Kernel",
    "LaunchError",
    "Memory",
    "Module",
    "OrderDependence",
    "PtxError",
    "levels",
    "load",
]
