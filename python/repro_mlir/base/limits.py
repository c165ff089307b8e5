# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Resource limits for untrusted files and messages, torch-mlir and the compile cache, in one table that the environment
variable REPRO_MLIR_LIMITS changes."""

from __future__ import annotations

import dataclasses
import functools
import os
import re
from dataclasses import dataclass, field
from typing import Any

from repro_mlir.base.errors import ReproError

VARIABLE = "REPRO_MLIR_LIMITS"

_UNKNOWN_MEMORY = 4 << 30
"""The assumed size of a memory whose size the system does not tell."""

_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}


@functools.cache
def _memory() -> int:
    """Returns the size of this machine's memory in bytes."""
    if hasattr(os, "sysconf"):
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    # Windows: GetPhysicallyInstalledSystemMemory states the size in KiB.
    import ctypes

    kibibytes = ctypes.c_ulonglong()
    library: Any = ctypes.CDLL("kernel32")
    known = library.GetPhysicallyInstalledSystemMemory(ctypes.byref(kibibytes))
    return kibibytes.value << 10 if known else _UNKNOWN_MEMORY


@dataclass(frozen=True)
class Limits:
    """The limits, in bytes, in seconds, or as counts.

    Attributes:
      text_bytes: the size of the text of a program.
      nesting: the nesting depth of brackets outside of strings.
      digits: the number of digits of one number.
      tensor_bytes: the size of one declared tensor.
      constant_bytes: the total size of all constants of a program.
      read_seconds: the time to parse, verify and hash a program, or all programs of a receipt together.
      compile_seconds: the time to compile a program for one target.
      capture_seconds: the processor time in which torch-mlir lowers a captured step.
      operator_seconds: the time to recompute the one operator of a dispute.
      memory_bytes: the address space of each child process; the process of torch-mlir is one of them.
      result_bytes: the size of the result of a child process, and of each file that it writes.
      archive_bytes: the total decompressed size of the members of a program file, a bundle or an .npz file, and of the
        tensors that a bundle or a receipt describes; by default the memory of this machine.
      cache_bytes: the total size of all compiled code on disk.
      archive_ratio: the decompressed bytes per byte of the file, for decompressed sizes above 256 MiB.
    """

    text_bytes: int = 256 << 20
    nesting: int = 256
    digits: int = 64
    tensor_bytes: int = 64 << 30
    constant_bytes: int = 2 << 30
    read_seconds: int = 60
    compile_seconds: int = 600
    capture_seconds: int = 600
    operator_seconds: int = 3600
    memory_bytes: int = 8 << 30
    result_bytes: int = 4 << 30
    cache_bytes: int = 10 << 30
    archive_bytes: int = field(default_factory=_memory)
    archive_ratio: int = 100


def limits() -> Limits:
    """Returns the current limits; REPRO_MLIR_LIMITS overrides some, for example "read_seconds=300,memory_bytes=32G".

    Raises:
      ReproError: the variable is malformed.
    """
    text = os.environ.get(VARIABLE, "")
    known = {each.name for each in dataclasses.fields(Limits)}
    changed = {}
    for entry in filter(None, (part.strip() for part in text.split(","))):
        match = re.fullmatch(r"([a-z_]+)=([0-9]{1,15})([kmgt]?)", entry, re.IGNORECASE)
        if match is None or match[1] not in known or int(match[2]) == 0:
            raise ReproError(
                f"{VARIABLE}: expected entries such as memory_bytes=32G with names among {', '.join(sorted(known))}, "
                f"got {entry!r}"
            )
        changed[match[1]] = int(match[2]) * _UNITS[match[3].lower()]
    return Limits(**changed)
