# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""What files and messages of strangers, torch-mlir and the compile cache may take: one table, changed by
REPRO_MLIR_LIMITS."""

from __future__ import annotations

import dataclasses
import os
import re
from dataclasses import dataclass, field

from repro_mlir.base.errors import ReproError

VARIABLE = "REPRO_MLIR_LIMITS"

_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}


@dataclass(frozen=True)
class Limits:
    """The limits, in bytes and seconds where they are no counts.

    Attributes:
      text_bytes: of the text of a program.
      nesting: brackets within brackets, outside of strings.
      digits: of one number.
      tensor_bytes: of one declared tensor.
      constant_bytes: of all constants of a program together.
      read_seconds: to parse, verify and hash a program, or all programs of a receipt together.
      compile_seconds: to compile it for one target.
      capture_seconds: of processor time, for torch-mlir to lower a captured step.
      operator_seconds: to recompute the one operator of a dispute.
      memory_bytes: address space of a child process.
      result_bytes: of what a child gives back, and of each file that it writes.
      archive_bytes: of all members of a program file, a bundle or an .npz file together, inflated, and of the tensors
        that a bundle or a receipt describes; the memory of this machine.
      cache_bytes: of all compiled code that is kept on disk.
      archive_ratio: these bytes per byte of the file, where they are more than 256 MiB.
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
    archive_bytes: int = field(default_factory=lambda: os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    archive_ratio: int = 100


def limits() -> Limits:
    """The limits that hold: REPRO_MLIR_LIMITS changes some, such as "read_seconds=300,memory_bytes=32G".

    Raises:
      ReproError: the variable has another form.
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
