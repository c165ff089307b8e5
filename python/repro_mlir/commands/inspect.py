# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""repro inspect: shows what a program file computes."""

from __future__ import annotations

import argparse
import json

import numpy as np

from .options import Commands, add_command


def register(commands: Commands) -> None:
    """Adds the parser of `repro inspect`."""
    command = add_command(commands, "inspect", _inspect, "show what a program file computes")
    command.add_argument("program", metavar="PROGRAM", help="a file written by repro compile or Program.save")
    command.add_argument("--text", action="store_true", help="print the canonical module")


def _inspect(options: argparse.Namespace) -> int:
    from ..inspection import count_operations
    from ..program import Program

    program = Program.load(options.program)
    if options.text:
        print(program.text)
        return 0
    operations = count_operations(program.text)
    elements = sum(int(np.prod(kind.shape, dtype=np.int64)) for kind in program.state)
    size = sum(value.nbytes for value in program.initial)
    if options.json:
        report = {
            "program": program.hash,
            "state": [str(kind) for kind in program.state],
            "inputs": [str(kind) for kind in program.inputs],
            "outputs": [str(kind) for kind in program.outputs],
            "state_elements": elements,
            "state_bytes": size,
            "operations": operations,
        }
        print(json.dumps(report))
        return 0
    print(f"program  {program.hash}")
    print(f"state    {len(program.state)} tensors, {elements:,} elements, {size:,} bytes")
    for title, kinds in (("inputs", program.inputs), ("outputs", program.outputs)):
        for i, kind in enumerate(kinds):
            print(f"{title if i == 0 else '':8} {kind}")
    for i, (name, count) in enumerate(sorted(operations.items(), key=lambda item: (-item[1], item[0]))):
        print(f"{'ops' if i == 0 else '':8} {count:6} {name}")
    return 0
