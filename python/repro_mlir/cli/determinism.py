# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""repro determinism: reports which results of a step are defined bit by bit."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING

from repro_mlir.base.command_line import Status
from repro_mlir.base.errors import ReproError
from repro_mlir.base.files.storage import check_can_write, write_file
from repro_mlir.base.printing import tell
from repro_mlir.cli.file_kinds import MODULE, ONNX, PROGRAM, SAVED_MODEL, SCRIPT, expect
from repro_mlir.cli.options import (
    Commands,
    add_command,
    add_no_cache,
    add_numerics,
    add_sizes,
    numerics_of,
    read_program,
    refuse_sizes,
)

if TYPE_CHECKING:
    from repro_mlir.determinism_report.report import Report

_NOTES = """examples:
  repro determinism examples/names_gpt.py
  repro determinism SCRIPT --html determinism.html
  repro determinism model.onnx

exit status:
  0  the compiler accepts the step, so all of its bits are defined here
  1  the compiler refuses the step; the report says which operators, and why
  2  no answer: PyTorch cannot run the step, or this program failed

A script's step runs once in PyTorch, which records its operators. docs/guides/determinism.md defines the shares.
"""


def register(commands: Commands) -> None:
    """Adds the parser of `repro determinism`."""
    command = add_command(
        commands,
        "determinism",
        _determinism,
        "report which results of a step are defined bit by bit",
        "Reports which results of a step are defined bit by bit: here, and in PyTorch on CPUs and CUDA devices.",
    )
    command.epilog = _NOTES
    kinds = "a script, a program file, an ONNX model, a SavedModel or an MLIR module"
    command.add_argument("model", metavar="FILE", help=kinds)
    add_numerics(command)
    add_sizes(command)
    add_no_cache(command)
    command.add_argument("--html", metavar="PAGE", help="also write a page")


def _determinism(options: argparse.Namespace) -> int:
    from repro_mlir.determinism_report.page import page

    kind = expect(options.model, SCRIPT, PROGRAM, MODULE, ONNX, SAVED_MODEL)
    if options.html is not None:
        check_can_write(options.html, ".html")
    report = _of_script(options) if kind is SCRIPT else _of_file(options, kind is not PROGRAM and kind is not None)
    if options.html is not None:
        write_file(options.html, page(report).encode())
    if options.json:
        tell(json.dumps(report.as_json()))
    else:
        tell(*str(report).splitlines())
        if options.html is not None:
            tell("", f"page       {options.html}")
    return Status.RIGHT if report.program is not None else Status.WRONG


def _of_script(options: argparse.Namespace) -> Report:
    from repro_mlir.determinism_report.analysis import script_report
    from repro_mlir.frontends.torch.scripts import load_training

    refuse_sizes(options.model, options.size)
    training = load_training(options.model, **numerics_of(options))
    batch = next(iter(training.batches), None)
    if batch is None:
        raise ReproError(f"{options.model}: expected training() to return batches, got none")
    return script_report(Path(options.model).name, training, batch)


def _of_file(options: argparse.Namespace, may_be_refused: bool) -> Report:
    """Returns the report on a file.

    Args:
      may_be_refused: whether the file contains a model of another program, which the compiler may refuse.
    """
    from repro_mlir.determinism_report.analysis import program_report
    from repro_mlir.determinism_report.report import Report

    if options.exact_digits is not None or options.precision is not None:
        raise ReproError(f"{options.model}: expected a script with --exact-digits or --precision")
    name = Path(options.model).name
    try:
        return program_report(name, read_program(options.model, options.size))
    except ReproError as error:
        if not may_be_refused:
            raise
        return Report(name, None, str(error))
