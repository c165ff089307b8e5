# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""repro compile: writes the canonical program of a training step."""

from __future__ import annotations

import argparse
import json

from ..errors import ReproError
from .options import Commands, add_command, add_script


def register(commands: Commands) -> None:
    """Adds the parser of `repro compile`."""
    command = add_command(commands, "compile", _compile, "write the canonical program of a script's training step")
    add_script(command)
    command.add_argument("-o", "--output", required=True, metavar="FILE", help="the program file to write")
    command.add_argument("--target", metavar="T", help="also compile for this target, which shows whether it can be")


def _compile(options: argparse.Namespace) -> int:
    from ..compiler import compile
    from ..program import capture
    from ..script import load_training

    given = load_training(options.script)
    try:
        batch = next(iter(given.batches))
    except StopIteration:
        raise ReproError(f"{options.script}: training() gives no batch") from None
    program = capture(given.model, given.loss_fn, given.optimizer, batch, **given.options)
    if options.target:
        compile(program, options.target)
    program.save(options.output)
    if options.json:
        print(json.dumps({"program": program.hash, "file": options.output}))
    else:
        print(f"program  {program.hash}")
        print(f"file     {options.output}")
    return 0
