# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""repro inputs: writes the inputs of one step of a script in the format that repro run reads."""

from __future__ import annotations

import argparse
import json
import shlex

from repro_mlir.base.command_line import positive
from repro_mlir.base.files.storage import check_can_write
from repro_mlir.base.printing import tell
from repro_mlir.cli.file_kinds import SCRIPT, expect
from repro_mlir.cli.options import Commands, add_command, add_numerics, add_script, numerics_of


def register(commands: Commands) -> None:
    """Adds the parser of `repro inputs`."""
    command = add_command(commands, "inputs", _inputs, "write the inputs of a script's step, for repro run --inputs")
    add_script(command)
    add_numerics(command)
    command.add_argument("-o", "--output", required=True, metavar="FILE", help="the .npz file to write")
    command.add_argument("--batch", type=positive, default=1, metavar="N", help="the number of the script's batch (1)")


def _inputs(options: argparse.Namespace) -> int:
    from repro_mlir.base.files.npz import write_arrays
    from repro_mlir.bundle.writer import capture_steps
    from repro_mlir.frontends.torch.scripts import load_training

    expect(options.script, SCRIPT)
    check_can_write(options.output, ".npz")
    given = load_training(options.script, **numerics_of(options))
    program, (inputs,) = capture_steps(given, 1, skipped=options.batch - 1)
    write_arrays(options.output, {kind.name: array for kind, array in zip(program.inputs, inputs, strict=True)})
    if options.json:
        report = {"program": program.hash, "inputs": [str(kind) for kind in program.inputs], "file": options.output}
        tell(json.dumps(report))
        return 0
    tell(f"program  {program.hash}")
    for i, kind in enumerate(program.inputs):
        tell(f"{'inputs' if i == 0 else '':8} {kind}")
    tell(f"file     {options.output}")
    tell(f"next     repro run PROGRAM --inputs {shlex.quote(options.output)}")
    return 0
