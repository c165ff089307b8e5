# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""CPUs as data: the performance of a processor (docs/contributors/machines.md)."""

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
# Sizes in machine files that the compiler uses and the predictions do not use.
_UNUSED = ("line_bytes", "l1_ways")
_BITS = (256, 512)


@dataclass(frozen=True)
class CpuMachine:
    """A CPU.

    Attributes:
      name: the name of the machine's file without its extension.
      level: the CPU level whose code the machine runs.
      l1_bytes, l2_bytes: the sizes of the caches of a core.
      l3_bytes: the size of the last-level cache that a core reaches, 0 for none.
      scheduling_model: the LLVM processor whose scheduling model describes the execution units.
      modelled_vector_bits: the actual width of the units that the model describes as 512 bits wide
        (`throughput.cycles_of`).
      issue_width: the maximum number of micro-operations that begin in a cycle.
      clock_hz: the number of cycles per second under vector code.
      cores: the number of cores that share the L3 cache and memory.
      l2_bandwidth, l3_bandwidth, memory_bandwidth: bytes per second that one core fetches and writes back.
      shared_l3_bandwidth, shared_memory_bandwidth: bytes per second of all cores together.
      launch_seconds: the time of an empty launch.
      wake_seconds: the additional time in which threads begin and end a launch.
      watts: the power of all cores under load, in watts; 0 if unknown.
      l3_half_life: the seconds after which the L3 cache has lost half of the untouched data to other programs and
        virtual machines; 0 if it loses none.
      scattered_memory_bandwidth: bytes per second that one core fetches from runs of adjacent lines of at most 4 KB (a
        page); 0 and values above `memory_bandwidth` mean `memory_bandwidth`.
      cold_launch_seconds: the additional time of a launch whose code and data come from memory.
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
            raise ReproError(f"expected scheduling_model as an LLVM processor, got {shown(self.scheduling_model)}")
        for name in NUMBERS:
            check_number(name, getattr(self, name), may_be_zero=name in _FROM_ZERO)
        if self.modelled_vector_bits not in _BITS:
            raise ReproError(f"expected modelled_vector_bits among {_BITS}, got {shown(self.modelled_vector_bits)}")
        for name in _WHOLE:
            check_whole(name, getattr(self, name), 1, 1 << 16)

    @property
    def triple(self) -> str:
        """The LLVM target triple of the machine's code."""
        return "aarch64-unknown-linux-gnu" if self.level.startswith("aarch64") else "x86_64-unknown-linux-gnu"

    def with_changes(self, changes: Mapping[str, str]) -> CpuMachine:
        """Returns the machine with changed parameters.

        Args:
          changes: maps the name of an attribute to a number, or to a factor such as `2x` or `0.5x`.
        Raises:
          ReproError: an attribute that is not numeric, or a malformed value.
        """
        return replace(self, **changed_numbers({name: getattr(self, name) for name in NUMBERS}, changes, _WHOLE))


_WHOLE = ("cores", "modelled_vector_bits", "issue_width")
UNITS = ("level", "scheduling_model", "modelled_vector_bits", "issue_width")
"""The attributes that determine the cycles of instructions."""

_OPTIONAL = ("watts", "l3_half_life", "scattered_memory_bandwidth", "cold_launch_seconds")
_FROM_ZERO = ("l3_bytes", "launch_seconds", "wake_seconds", *_OPTIONAL)
NUMBERS = tuple(each.name for each in fields(CpuMachine) if each.name not in ("name", "level", "scheduling_model"))
"""The numeric attributes."""


def cpu_machine(file: MachineFile) -> CpuMachine:
    """Returns the CPU that a file describes.

    Raises:
      ReproError: the file does not describe a CPU.
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
    """Writes a machine file.

    Args:
      sources: the origin of each value, by attribute.
    """
    values = {key: getattr(machine, key) for key in (*NUMBERS, "scheduling_model")}
    sizes = {key: value for key, value in values.items() if key in _SIZES}
    performance = {key: value for key, value in values.items() if key not in _SIZES}
    write_entries(path, machine.level, sizes, performance, sources)
