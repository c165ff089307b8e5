# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""repro roofline: predicts how long a step takes, and explains how long it took."""

from __future__ import annotations

import argparse
import json

from ..command_line import positive
from ..errors import ReproError
from ..printing import tell
from .file_kinds import MODULE, ONNX, PROGRAM, SAVED_MODEL, SCRIPT, expect
from .options import Commands, add_command, add_no_cache, add_numerics, add_sizes, read_program

_NOTES = """examples:
  repro roofline calibrate -o here.json
  repro roofline predict examples/digits_cnn.py --machine here.json --measure
  repro roofline predict digits.repro --machine here.json --threads 2 --set memory_bandwidth=2x
"""


def register(commands: Commands) -> None:
    """Adds the parser of `repro roofline`."""
    summary = "predict how long a step takes, and explain how long it took"
    group = commands.add_parser("roofline", help=summary, description=summary, epilog=_NOTES)
    group.formatter_class = argparse.RawDescriptionHelpFormatter
    parts = group.add_subparsers(title="commands", required=True, metavar="COMMAND")
    command = add_command(parts, "predict", _predict, "predict a step of a script, a program file or a model")
    kinds = "a script, a program file, an ONNX model, a SavedModel or an MLIR module"
    command.add_argument("program", metavar="FILE", help=kinds)
    add_numerics(command)
    add_sizes(command)
    command.add_argument(
        "--machine", required=True, metavar="M", help="the name of a machine, or a .json file that describes one"
    )
    command.add_argument("--threads", type=positive, default=1, metavar="N", help="threads of a step (1)")
    command.add_argument(
        "--set", action="append", default=[], type=_change, metavar="NAME=V", help="another number of the machine, or "
        "a factor such as 2x; may be given again",
    )  # fmt: skip
    command.add_argument("--measure", action="store_true", help="run the step here, and show the gap")
    command.add_argument("--kernels", type=positive, default=20, metavar="N", help="kernels in the table (20)")
    add_no_cache(command)
    command = add_command(parts, "calibrate", _calibrate, "measure this machine, and write its file")
    command.add_argument("-o", "--output", required=True, metavar="FILE", help="the file to write, NAME.json")
    command.add_argument("--level", metavar="L", help="the CPU level of the code (the best one)")


def _change(text: str) -> tuple[str, str]:
    name, found, value = text.partition("=")
    if not found:
        raise argparse.ArgumentTypeError(f"expected NAME=V, got {text!r}")
    return name, value


def _predict(options: argparse.Namespace) -> int:
    from ..roofline import CpuMachine, measure, predict, read_code, read_machine
    from ..roofline.report import as_json, lines_of

    kind = expect(options.program, SCRIPT, PROGRAM, MODULE, ONNX, SAVED_MODEL)
    machine = read_machine(options.machine).with_changes(dict(options.set))
    if not isinstance(machine, CpuMachine):
        raise ReproError(f"{options.machine}: expected a CPU")
    inputs = None
    if kind is SCRIPT:
        from ..bundle.writer import capture_steps
        from ..frontends.torch.script import load_training

        if options.size:
            raise ReproError(f"{options.program}: expected an ONNX model or a SavedModel with --size")
        program, steps = capture_steps(load_training(options.program, options.exact_digits, options.precision), 1)
        inputs = steps[0]
    else:
        if options.exact_digits is not None or options.precision is not None:
            raise ReproError(f"{options.program}: expected a script with --exact-digits and --precision")
        program = read_program(options.program, options.size)
    prediction = predict(read_code(program, machine), machine, options.threads)
    ledger = measure(program, prediction, inputs) if options.measure else None
    if options.json:
        tell(json.dumps(as_json(prediction, ledger)))
    else:
        tell(*lines_of(prediction, ledger, options.kernels))
    return 0


def _calibrate(options: argparse.Namespace) -> int:
    import sys
    from pathlib import Path

    from ..roofline import calibrate, write_cpu_machine

    if not options.output.endswith(".json"):
        raise ReproError(f"{options.output}: expected a name that ends with .json, by which --machine knows a file")
    found = calibrate(Path(options.output).stem, options.level, lambda line: tell(line, stream=sys.stderr))
    write_cpu_machine(options.output, found.machine, found.sources)
    if options.json:
        tell(json.dumps({"file": options.output}))
    else:
        tell(f"file     {options.output}")
    return 0
