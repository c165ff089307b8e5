# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""repro compile: writes the canonical program of a training step, a model or an MLIR module, or a bundle for GPUs."""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
import time
from typing import TYPE_CHECKING

import numpy as np

from repro_mlir.base.command_line import positive
from repro_mlir.base.errors import ReproError
from repro_mlir.base.printing import tell
from repro_mlir.cli.file_kinds import MODULE, ONNX, SAVED_MODEL, SCRIPT, expect
from repro_mlir.cli.options import (
    Commands,
    add_command,
    add_no_cache,
    add_numerics,
    add_sizes,
    numerics_of,
    read_program,
    refuse_sizes,
    told_next,
)
from repro_mlir.cli.parsers import set_names
from repro_mlir.cli.target import target_names

if TYPE_CHECKING:
    from repro_mlir.program import Program

_NOTES = """examples:
  repro compile examples/digits_cnn.py -o digits.repro
  repro compile model.onnx --size batch=8 -o model.repro
  repro compile model.onnx --target cortex-m4f -o model
  repro compile examples/digits_cnn.py --target cuda --steps 10 --expect -o digits.rmb
"""


def register(commands: Commands) -> None:
    """Adds the parser of `repro compile`."""
    command = add_command(
        commands,
        "compile",
        _compile,
        "write the program of a script or model, or a bundle for GPUs",
        "Writes the canonical program of a script's training step, of an ONNX model, a SavedModel or an MLIR module.",
    )
    command.epilog = _NOTES
    command.add_argument(
        "script",
        metavar="SCRIPT",
        help="defines training() -> (model, loss_fn, optimizer, batches); or an ONNX model, or a SavedModel of "
        "TensorFlow; or a module of linalg, TOSA or StableHLO, as text or bytecode",
    )
    add_numerics(command)
    add_sizes(command)
    command.add_argument("--state", metavar="FILE", help="the initial values of a module's state (safetensors)")
    command.add_argument(
        "--store-codes",
        action="store_true",
        help="with --precision, for inference: store the codes and scales of weights in blocks, not the weights",
    )
    command.add_argument(
        "-o",
        "--output",
        required=True,
        metavar="FILE",
        help="the program file or bundle to write; for cortex-m4f, the folder",
    )
    target = command.add_argument(
        "--target",
        metavar="T",
        help="also compile for this target, to check that this works; cuda or cuda:sm_75,sm_90 writes a bundle "
        "with the code for these GPUs, which runs without this package; cortex-m4f writes an object and a C header for "
        "this microcontroller",
    )
    set_names(target, _target_names, in_help=False, listed_by="repro targets")
    command.add_argument("--steps", type=positive, metavar="N", help="record the inputs of N steps in the bundle")
    command.add_argument(
        "--expect", action="store_true", help="run these steps here and record the hashes of their results"
    )
    command.add_argument("--sign", metavar="KEY", help="sign the bundle with this ed25519 private key (PEM)")
    command.add_argument(
        "--timing",
        action="store_true",
        help="print to stderr how long the capture and, with --target for a script or a model, each pass of another "
        "compilation took",
    )
    add_no_cache(command)
    command.add_argument("--seed", type=int, default=0, metavar="N", help="seed of repro_mlir.initialize, if used (0)")


def _target_names() -> list[str]:
    from repro_mlir.execute.executable import MICROCONTROLLER

    return [*target_names(), MICROCONTROLLER]


def _compile(options: argparse.Namespace) -> int:
    from repro_mlir.bundle.writer import capture_steps
    from repro_mlir.cli.compiled_outputs import output_of

    output = output_of(options)
    kind = expect(options.script, SCRIPT, MODULE, ONNX, SAVED_MODEL)
    output.check(kind)
    if options.state and kind is not MODULE:
        raise ReproError(f"{options.script}: expected an MLIR module with --state: others contain their state")
    if options.timing and options.target and kind is MODULE:
        raise ReproError(
            "--timing with --target: expected a script or a model, as an MLIR module is compiled in a child process"
        )
    if kind not in (ONNX, SAVED_MODEL):
        refuse_sizes(options.script, options.size)
    start = time.perf_counter()
    steps: list[list[np.ndarray]] = []
    if kind in (MODULE, ONNX, SAVED_MODEL):
        program = _import(options)
    else:
        from repro_mlir.frontends.torch.scripts import load_training

        program, steps = capture_steps(load_training(options.script, **numerics_of(options)), options.steps or 1)
    if options.store_codes:
        from repro_mlir.execute.stored_codes import store_codes

        program = store_codes(program)
    if options.timing:
        tell(f"capture  {time.perf_counter() - start:.1f} s", stream=sys.stderr)
    report = output.write(program, steps)
    if options.timing:
        output.time_passes(program)
    if options.json:
        tell(json.dumps(report))
        return 0
    for key, value in report.items():
        tell(f"{key:8} {value:,}" if isinstance(value, int) else f"{key:8} {value}")
    if output.reader is not None:
        tell(told_next("repro", output.reader, options.output))
    return 0


def _import(options: argparse.Namespace) -> Program:
    """Returns the program of an ONNX model, a SavedModel or an MLIR module, changed as the options --exact-digits,
    --precision and --state request."""
    from repro_mlir.base.files.tensor_file import load_tensors
    from repro_mlir.precision.apply import apply_precision
    from repro_mlir.program.exact import exact_contractions

    program = read_program(options.script, options.size)
    if options.exact_digits is not None:
        program = exact_contractions(program, options.exact_digits)
    if options.precision is not None:
        program = apply_precision(program, options.precision)
    if options.state:
        program = dataclasses.replace(program, initial=load_tensors(program.state, options.state))
    return program
