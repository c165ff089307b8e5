# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""CPUs as data: how fast a processor is (docs/machines.md)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path

from repro_mlir.base.errors import ReproError
from repro_mlir.base.field_checks import check_among, check_whole, shown
from repro_mlir.compilation.cpu import levels
from repro_mlir.roofline.machines.files import (
    MachineFile,
    changed_numbers,
    check_keys,
    check_number,
    in_file,
    write_entries,
)

_SIZES = ("line_bytes", "l1_bytes", "l1_ways", "l2_bytes")
# What the compiler reads and no prediction.
_UNUSED = ("line_bytes", "l1_ways")
_BITS = (256, 512)


@dataclass(frozen=True)
class CpuMachine:
    """A CPU.

    Attributes:
      name: the machine's file without its ending.
      level: the CPU level whose code it runs.
      l1_bytes, l2_bytes: caches of a core.
      l3_bytes: the last cache that a core reaches, 0 for none.
      scheduling_model: the processor of LLVM whose model of execution units it has.
      modelled_vector_bits: of what the model has vectors of 512 bits to be (`throughput.cycles_of`).
      issue_width: micro-operations that begin in a cycle at most.
      clock_hz: cycles per second under vector code.
      cores: how many share the last cache and memory.
      l2_bandwidth, l3_bandwidth, memory_bandwidth: bytes per second that one core fetches and writes back.
      shared_l3_bandwidth, shared_memory_bandwidth: of all cores together.
      launch_seconds: of a launch that does nothing.
      wake_seconds: until threads have begun and ended a launch, beyond that.
      watts: of all cores under load, 0 where nobody knows.
      l3_half_life: seconds after which the last cache has lost half of what nothing has touched, to other programs and
        virtual machines; 0 where it has none.
      scattered_memory_bandwidth: bytes per second of one core from runs of neighbouring lines that are no longer than a
        page of 4 KB; where it is 0 or more than `memory_bandwidth`, it is that.
      cold_launch_seconds: of a launch, beyond `launch_seconds`, whose code and data come from memory.
    """

    name: str
    level: str
    l1_bytes: float
    l2_bytes: float
    l3_bytes: float
    scheduling_model: str
    modelled_vector_bits: int
    issue_width: int
    clock_hz: float
    cores: int
    l2_bandwidth: float
    l3_bandwidth: float
    memory_bandwidth: float
    shared_l3_bandwidth: float
    shared_memory_bandwidth: float
    launch_seconds: float
    wake_seconds: float
    watts: float = 0.0
    l3_half_life: float = 0.0
    scattered_memory_bandwidth: float = 0.0
    cold_launch_seconds: float = 0.0

    def __post_init__(self) -> None:
        check_among("level", self.level, levels())
        if not re.fullmatch(r"[a-z0-9][a-z0-9-]{0,39}", str(self.scheduling_model)):
            raise ReproError(f"expected scheduling_model as a processor of LLVM, got {shown(self.scheduling_model)}")
        for name in NUMBERS:
            check_number(name, getattr(self, name), may_be_zero=name in _FROM_ZERO)
        if self.modelled_vector_bits not in _BITS:
            raise ReproError(f"expected modelled_vector_bits among {_BITS}, got {shown(self.modelled_vector_bits)}")
        for name in _WHOLE:
            check_whole(name, getattr(self, name), 1, 1 << 16)

    @property
    def triple(self) -> str:
        """LLVM's, of its code."""
        return "aarch64-unknown-linux-gnu" if self.level.startswith("aarch64") else "x86_64-unknown-linux-gnu"

    def with_changes(self, changes: Mapping[str, str]) -> CpuMachine:
        """The machine with other numbers.

        Args:
          changes: by attribute a number, or a factor as `2x` or `0.5x`.
        Raises:
          ReproError: an attribute that is no number, or another text.
        """
        current = {name: getattr(self, name) for name in NUMBERS}
        return replace(self, **changed_numbers(current, changes, _WHOLE))


_WHOLE = ("cores", "modelled_vector_bits", "issue_width")
UNITS = ("level", "scheduling_model", "modelled_vector_bits", "issue_width")
"""The attributes that decide cycles of instructions."""

_OPTIONAL = ("watts", "l3_half_life", "scattered_memory_bandwidth", "cold_launch_seconds")
_FROM_ZERO = ("l3_bytes", "launch_seconds", "wake_seconds", *_OPTIONAL)
NUMBERS = tuple(each.name for each in fields(CpuMachine) if each.name not in ("name", "level", "scheduling_model"))
"""The attributes that are numbers."""


def cpu_machine(file: MachineFile) -> CpuMachine:
    """The CPU that a file describes.

    Raises:
      ReproError: it describes none.
    """
    of_performance = [each for each in (*NUMBERS, "scheduling_model") if each not in _SIZES]
    try:
        check_keys("sizes", file.sizes, _SIZES, ("l1_bytes", "l2_bytes"))
        for name in _UNUSED:
            check_whole(name, file.sizes.get(name, 1), 1, 1 << 16)
        required = [each for each in of_performance if each not in _OPTIONAL]
        check_keys("performance", file.performance, of_performance, required)
        found = {key: value for key, value in (file.sizes | file.performance).items() if key not in _UNUSED}
        return CpuMachine(file.name, str(file.extends), **found)
    except ReproError as error:
        raise in_file(file, error) from None


def write_cpu_machine(path: str | Path, machine: CpuMachine, sources: Mapping[str, str]) -> None:
    """Writes the file of a machine.

    Args:
      sources: by attribute, where its value is from.
    """
    values = {key: getattr(machine, key) for key in (*NUMBERS, "scheduling_model")}
    sizes = {key: value for key, value in values.items() if key in _SIZES}
    performance = {key: value for key, value in values.items() if key not in _SIZES}
    write_entries(path, machine.level, sizes, performance, sources)
