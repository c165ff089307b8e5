# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""repro run: runs steps of a program file, a model or an MLIR module."""

from __future__ import annotations

import argparse
import json

import numpy as np

from repro_mlir.base.command_line import positive
from repro_mlir.base.files.npz import load_inputs, write_arrays
from repro_mlir.base.files.storage import check_can_write, write_file
from repro_mlir.base.printing import count_of, tell
from repro_mlir.cli.file_kinds import BUNDLE, MODULE, ONNX, PROGRAM, SAVED_MODEL, expect
from repro_mlir.cli.options import Commands, add_command, add_sizes, read_program
from repro_mlir.cli.target import add_target


def register(commands: Commands) -> None:
    """Adds the parser of `repro run`."""
    command = add_command(commands, "run", _run, "run steps of a program file on given inputs")
    add_target(command)
    command.add_argument(
        "program", metavar="PROGRAM", help="written by repro compile or Program.save, or ONNX, SavedModel or MLIR"
    )
    add_sizes(command)
    command.add_argument("--inputs", metavar="FILE", help=".npz with each input by name, see repro inputs")
    command.add_argument("--steps", type=positive, default=1, metavar="N", help="steps, all on the same inputs (1)")
    command.add_argument("--state", metavar="FILE", help="start from this state (safetensors), not the initial one")
    command.add_argument("--save", metavar="FILE", help="write the final state (safetensors)")
    command.add_argument("--outputs", metavar="FILE", help="write the last step's outputs (.npz)")


def _run(options: argparse.Namespace) -> int:
    from repro_mlir.base.files.tensor_file import load_tensors, write_tensors
    from repro_mlir.base.numerics.hashing import state_hash, tensor_hash
    from repro_mlir.execute.executable import check_runs, compile

    expect(options.program, PROGRAM, BUNDLE, MODULE, ONNX, SAVED_MODEL)
    check_runs(options.target)
    for path, ending in ((options.save, ".safetensors"), (options.outputs, ".npz")):
        if path:
            check_can_write(path, ending)
    program = read_program(options.program, options.size)
    if options.state:
        arrays = load_tensors(program.state, options.state)
        state = {kind.name: array for kind, array in zip(program.state, arrays, strict=True)}
    else:
        state = program.initial_state()
    inputs = load_inputs(options.inputs, program.inputs)
    executable = compile(program, options.target, options.threads)
    outputs: dict[str, np.ndarray] = {}
    for _ in range(options.steps):
        state, outputs = executable(state, *inputs)
    if options.save:
        write_file(options.save, write_tensors(program.state, list(state.values())))
    if options.outputs:
        write_arrays(options.outputs, outputs)
    report = {
        "program": program.hash,
        "target": options.target,
        "threads": executable.threads,
        "steps": options.steps,
        "outputs": {kind.name: tensor_hash(outputs[kind.name], kind.element) for kind in program.outputs},
        "state_hash": state_hash([(state[kind.name], kind.element) for kind in program.state]),
    }
    if options.json:
        tell(json.dumps(report))
    else:
        for kind in program.outputs:
            value = outputs[kind.name]
            tell(f"{kind} = {value.item()}" if value.ndim == 0 else str(kind))
            tell(f"         {report['outputs'][kind.name]}")
        tell(f"state    {report['state_hash']} after {count_of(options.steps, 'step')}")
        for path in filter(None, (options.save, options.outputs)):
            tell(f"file     {path}")
    return 0
