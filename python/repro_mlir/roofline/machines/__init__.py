# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Descriptions of processors as data: sizes and performance (docs/contributors/machines.md)."""

from repro_mlir.base.errors import ReproError
from repro_mlir.base.field_checks import check_among
from repro_mlir.compilation.cpu import levels
from repro_mlir.compilation.gpu import architectures
from repro_mlir.roofline.machines.accelerator import ACCELERATOR_NUMBERS, Accelerator, accelerator
from repro_mlir.roofline.machines.cpu import NUMBERS, CpuMachine, cpu_machine, write_cpu_machine
from repro_mlir.roofline.machines.files import in_file, machine_names, read_file


def read_machine(name: str) -> CpuMachine | Accelerator:
    """Reads a machine from a machine file, of this package or of the user.

    Args:
      name: a machine name, or a path if it ends with `.json`.
    Raises:
      ReproError: no such machine, or a file that does not describe a machine.
    """
    file = read_file(name)
    if file.extends is None or file.extends in architectures():
        return accelerator(file)
    try:
        check_among("extends", file.extends, (*levels(), *architectures()))
    except ReproError as error:
        raise in_file(file, error) from None
    return cpu_machine(file)


__all__ = [
    "ACCELERATOR_NUMBERS",
    "NUMBERS",
    "Accelerator",
    "CpuMachine",
    "machine_names",
    "read_machine",
    "write_cpu_machine",
]
