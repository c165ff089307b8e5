# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The least data memory of a core with which a step fits onto a machine."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

from repro_mlir.base.errors import ReproError
from repro_mlir.compilation.cores import Machine, make_description

if TYPE_CHECKING:
    from repro_mlir.program import Program

_STEP = 1024
"""The search ends if the bytes differ by at most this number, or by the alignment of transfers if it is larger."""

_MOST = 1 << 30
"""The greatest data memory in a machine file (docs/schemas/machine.schema.json)."""


def overflow_message(program: Program, machine: Machine, reason: str) -> str:
    """Returns the error message of a step with a tile that does not fit into the data memory of a core. If the step
    fits onto the machine with more data memory a core, the message contains the least number of bytes.

    Args:
      reason: the beginning of the message.
    """
    try:
        least = _least(program, machine)
    except ReproError as error:
        # For example, the tensors do not fit into the DRAM either.
        return f"{reason}; with more data memory: {error}"
    if least is None:
        return f"{reason}; the step does not fit either if each core of this machine has {_MOST:,} data bytes"
    return (
        f"{reason}; the step fits if each core of this machine has {least:,} data bytes, and no number of cores helps, "
        "because the smallest tile is the same for each number"
    )


def _least(program: Program, machine: Machine) -> int | None:
    """Returns the least number of data bytes with which a step fits, or None if it does not fit with `_MOST`."""
    step = max(_STEP, int(machine.number("dma", "alignment")))
    begin = int(machine.number("core", "data_bytes"))
    if not _fits(program, machine, _MOST):
        return None
    # Doubles the memory until the step fits, and then halves the distance to the least number.
    fits = min(2 * begin, _MOST)
    while not _fits(program, machine, fits):
        begin, fits = fits, min(2 * fits, _MOST)
    while fits - begin > step:
        middle = (begin + fits) // 2 // step * step
        if middle <= begin:
            break
        if _fits(program, machine, middle):
            fits = middle
        else:
            begin = middle
    return fits


def _fits(program: Program, machine: Machine, data_bytes: int) -> bool:
    """Whether the tiles of a step fit onto a machine with another data memory of its cores."""
    changed = json.loads(machine.text)
    changed["core"]["data_bytes"]["value"] = data_bytes
    larger = replace(machine, text=json.dumps(changed, separators=(",", ":"), ensure_ascii=False))
    return "overflow" not in json.loads(make_description(program.data, larger, untrusted=program.untrusted))
