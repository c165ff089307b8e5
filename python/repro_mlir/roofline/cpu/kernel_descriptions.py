# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The buffers of CPU kernels, and the operations that the kernels compute."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from repro_mlir.base.errors import ReproError
from repro_mlir.roofline.traffic import Access, Touch, touches_of
from repro_mlir.runner.plan import Plan


@dataclass(frozen=True)
class Operand:
    """A buffer of a kernel: its size in bytes and its accesses."""

    size: int
    reads: bool
    writes: bool


@dataclass(frozen=True)
class KernelDescription:
    """A kernel of a compiled program.

    Attributes:
      operands: the buffers, in the order of the arguments.
      operation: what the kernel computes, such as `contraction` or `mulf, addf`.
      source: the modules, parameters or source lines that the operations come from; empty if the program names none.
    """

    operands: tuple[Operand, ...]
    operation: str
    source: str


def read_kernels(text: str) -> dict[str, KernelDescription]:
    """Parses the descriptions of kernels in the text that `repro_mlir.compilation.cpu.analyze` returns, by name of the
    kernel."""
    kernels = {}
    for line in text.split("\n")[:-1]:
        fields, operation, source = line.split("\t")
        name, *buffers = fields.split()
        pairs = [buffer.rsplit(":", 1) for buffer in buffers]
        operands = tuple(Operand(int(size), "read" in access, "write" in access) for access, size in pairs)
        kernels[name] = KernelDescription(operands, operation, source)
    return kernels


def touches(plan: Plan, kernels: Mapping[str, KernelDescription]) -> list[list[Touch]]:
    """Returns the ranges of bytes that each launch reads or writes.

    Args:
      plan: the plan of a CPU program.
      kernels: the kernels, by name.
    Raises:
      ReproError: a launch and its kernel have different numbers of operands.
    """
    return [touches_of(_accesses(plan, kernels, number), fetches_written=True) for number in range(len(plan.launches))]


def _accesses(plan: Plan, kernels: Mapping[str, KernelDescription], number: int) -> Iterator[Access]:
    launch = plan.launches[number]
    operands = kernels[plan.kernels[launch.kernel].name].operands
    if len(operands) != len(launch.arguments):
        raise ReproError(f"launch {number}: expected its kernel's {len(operands)} buffers, got {len(launch.arguments)}")
    for operand, place in zip(operands, launch.arguments, strict=True):
        yield *place, operand.size, operand.reads, operand.writes
