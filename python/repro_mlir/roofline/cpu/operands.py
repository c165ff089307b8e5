# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The buffers that CPU kernels read and write."""

from __future__ import annotations

from collections.abc import Iterator
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


def read_operands(text: str) -> dict[str, list[Operand]]:
    """Parses the buffers of each kernel in the text that `repro_mlir.compilation.cpu.analyze` returns."""
    kernels = {}
    for line in text.splitlines():
        name, *buffers = line.split()
        pairs = [buffer.rsplit(":", 1) for buffer in buffers]
        kernels[name] = [Operand(int(size), "read" in access, "write" in access) for access, size in pairs]
    return kernels


def touches(plan: Plan, operands: dict[str, list[Operand]]) -> list[list[Touch]]:
    """Returns the ranges of bytes that each launch reads or writes.

    Args:
      plan: the plan of a CPU program.
      operands: the operands of each kernel, by name of the kernel.
    Raises:
      ReproError: a launch and its kernel have different numbers of operands.
    """
    return [touches_of(_accesses(plan, operands, number), fetches_written=True) for number in range(len(plan.launches))]


def _accesses(plan: Plan, operands: dict[str, list[Operand]], number: int) -> Iterator[Access]:
    launch = plan.launches[number]
    kernel = operands[plan.kernels[launch.kernel].name]
    if len(kernel) != len(launch.arguments):
        raise ReproError(f"launch {number}: expected its kernel's {len(kernel)} buffers, got {len(launch.arguments)}")
    for operand, place in zip(kernel, launch.arguments, strict=True):
        yield *place, operand.size, operand.reads, operand.writes
