# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Machines as data: how fast a processor is (docs/machines.md)."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from ..compilation.cpu import levels
from ..errors import ReproError
from ..field_checks import check_among, check_whole, shown
from ..files import json_text
from ..files.regular import read_regular, write_file

_FOLDER = Path(__file__).parent / "machines"
_LIMIT = 1 << 16
_SIZES = ("line_bytes", "l1_bytes", "l1_ways", "l2_bytes")
_BITS = (128, 256, 512)
# Larger than any machine's, so that times and pages are finite numbers.
_MOST = 1e18


@dataclass(frozen=True)
class Machine:
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
      l2_bandwidth, l3_bandwidth, memory_bandwidth: bytes per second that one core reads.
      shared_l3_bandwidth, shared_memory_bandwidth: of all cores together.
      launch_seconds: of a launch that does nothing.
      wake_seconds: until threads have begun and ended a launch, beyond that.
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

    def __post_init__(self) -> None:
        check_among("level", self.level, levels())
        if not re.fullmatch(r"[a-z0-9][a-z0-9-]{0,39}", str(self.scheduling_model)):
            raise ReproError(f"expected scheduling_model as a processor of LLVM, got {shown(self.scheduling_model)}")
        for name in NUMBERS:
            value = getattr(self, name)
            least = 0.0 if name in _FROM_ZERO else 1e-12
            is_number = isinstance(value, int | float) and not isinstance(value, bool)
            if not is_number or not least <= value <= _MOST:
                raise ReproError(f"expected {name} as a number from {least:g} to {_MOST:g}, got {shown(value)}")
        if self.modelled_vector_bits not in _BITS:
            raise ReproError(f"expected modelled_vector_bits among {_BITS}, got {shown(self.modelled_vector_bits)}")
        for name in _WHOLE:
            check_whole(name, getattr(self, name), 1, 1 << 16)

    @property
    def triple(self) -> str:
        """LLVM's, of its code."""
        return "aarch64-unknown-linux-gnu" if self.level.startswith("aarch64") else "x86_64-unknown-linux-gnu"

    def with_changes(self, changes: Mapping[str, str]) -> Machine:
        """The machine with other numbers.

        Args:
          changes: by attribute a number, or a factor as `2x` or `0.5x`.
        Raises:
          ReproError: an attribute that is no number, or another text.
        """
        found: dict[str, Any] = {}
        for name, text in changes.items():
            check_among("what is set", name, NUMBERS)
            match = re.fullmatch(r"([0-9.]+(?:[eE][+-]?[0-9]+)?)(x?)", text)
            try:
                value = float(match.group(1)) if match else math.nan
            except ValueError:
                value = math.nan
            if not match or not math.isfinite(value):
                raise ReproError(f"{name}: expected a number, or a factor such as 2x, got {shown(text)}")
            changed = getattr(self, name) * value if match.group(2) else value
            found[name] = int(changed) if name in _WHOLE and changed == int(changed) else changed
        return replace(self, **found)


_WHOLE = ("cores", "modelled_vector_bits", "issue_width")
_FROM_ZERO = ("l3_bytes", "launch_seconds", "wake_seconds")
NUMBERS = tuple(each.name for each in fields(Machine) if each.name not in ("name", "level", "scheduling_model"))
"""The attributes that are numbers."""


def machine_names() -> list[str]:
    """The machines that come with the package."""
    return sorted(path.stem for path in _FOLDER.glob("*.json"))


def read_machine(name: str) -> Machine:
    """A machine of `machine_names`, or that of a file.

    Args:
      name: a path where it ends with `.json`.
    Raises:
      ReproError: no such machine, or a file that describes none.
    """
    if name.endswith(".json"):
        data, where = read_regular(name, _LIMIT), name
    else:
        check_among("machine", name, machine_names())
        data, where = (_FOLDER / f"{name}.json").read_bytes(), name
    try:
        return _machine(Path(name).stem, json_text.parse(data, where, _LIMIT))
    except ReproError as error:
        raise ReproError(str(error) if str(error).startswith(where) else f"{where}: {error}") from None


def _machine(name: str, given: Any) -> Machine:
    _check_keys("the file", given, ("extends", "sizes", "performance"), ("extends", "sizes", "performance"))
    sizes, performance = given["sizes"], given["performance"]
    of_performance = [each for each in (*NUMBERS, "scheduling_model") if each not in _SIZES]
    _check_keys("sizes", sizes, _SIZES, ("l1_bytes", "l2_bytes"))
    _check_keys("performance", performance, of_performance, of_performance)
    found = {}
    for key, entry in (sizes | performance).items():
        _check_keys(key, entry, ("value", "source"), ("value", "source"))
        if not isinstance(entry["source"], str) or not entry["source"].strip():
            raise ReproError(f"{key}: expected a source that says where the value is from")
        found[key] = entry["value"]
    return Machine(
        name, given["extends"], **{key: found[key] for key in found if key in (*NUMBERS, "scheduling_model")}
    )


def _check_keys(
    what: str, given: Any, known: tuple[str, ...] | list[str], required: tuple[str, ...] | list[str]
) -> None:
    if not isinstance(given, dict):
        raise ReproError(f"expected {what} as an object, got {shown(given)}")
    for key in given:
        check_among(f"a key of {what}", key, known)
    for key in required:
        if key not in given:
            raise ReproError(f"expected the key {key} in {what}")


def write_machine(path: str | Path, machine: Machine, sources: Mapping[str, str]) -> None:
    """Writes the file of a machine.

    Args:
      sources: by attribute, where its value is from.
    """
    entries = {key: {"value": getattr(machine, key), "source": sources[key]} for key in (*NUMBERS, "scheduling_model")}
    found = {
        "extends": machine.level,
        "sizes": {key: entries[key] for key in ("l1_bytes", "l2_bytes")},
        "performance": {key: entry for key, entry in entries.items() if key not in _SIZES},
    }
    write_file(path, (json.dumps(found, indent=2) + "\n").encode())
