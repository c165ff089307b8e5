# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The least data memory of a core with which a step fits onto a machine."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from repro_mlir.base.errors import ReproError
from repro_mlir.compilation.cores import machine_text, native_description

if TYPE_CHECKING:
    from repro_mlir.program import Program

_STEP = 1024
"""The search ends if the bytes differ by at most this number."""

_MOST = 1 << 30
"""The greatest data memory in a machine file (docs/schemas/machine.schema.json)."""


def error_with_least_memory(program: Program, machine: str, error: ReproError) -> ReproError:
    """Returns the error of a step that cannot be mapped. If the step fits onto the machine with more data memory a
    core, the message contains the least number of bytes."""
    begin = int(json.loads(machine_text(machine))["core"]["data_bytes"]["value"])
    if not _fits(program, machine, _MOST):
        return error
    # Doubles the memory until the step fits, and then halves the distance to the least number.
    fits = min(2 * begin, _MOST)
    while not _fits(program, machine, fits):
        begin, fits = fits, min(2 * fits, _MOST)
    while fits - begin > _STEP:
        middle = (begin + fits) // 2 // _STEP * _STEP
        if middle <= begin:
            break
        if _fits(program, machine, middle):
            fits = middle
        else:
            begin = middle
    reason, _, _ = str(error).partition("; use a machine")
    return ReproError(
        f"{reason}; the step fits if each core of this machine has {fits:,} data bytes, and no number of cores helps, "
        "because the smallest tile is the same for each number"
    )


def _fits(program: Program, machine: str, data_bytes: int) -> bool:
    """Whether a step can be mapped onto a machine with another data memory of its cores."""
    changed = json.loads(machine_text(machine))
    changed["core"]["data_bytes"] = {"value": data_bytes, "source": "a search for the least number"}
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "machine.json"
        file.write_text(json.dumps(changed))
        try:
            native_description(program.data, str(file), untrusted=program.untrusted)
        except ReproError:
            return False
    return True
