# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Machines as data: how fast a processor is (docs/machines.md)."""

from .cpu import NUMBERS, CpuMachine, cpu_machine, write_cpu_machine
from .files import machine_names, read_file


def read_machine(name: str) -> CpuMachine:
    """A machine of `machine_names`, or that of a file.

    Args:
      name: a path where it ends with `.json`.
    Raises:
      ReproError: no such machine, or a file that describes none.
    """
    return cpu_machine(read_file(name))


__all__ = ["NUMBERS", "CpuMachine", "machine_names", "read_machine", "write_cpu_machine"]
