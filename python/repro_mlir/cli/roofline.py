# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""repro roofline: predicts the time of a step and explains the time that was measured."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING

from repro_mlir.base.command_line import positive
from repro_mlir.base.errors import ReproError
from repro_mlir.base.printing import tell
from repro_mlir.cli import roofline_lists, roofline_sweep, roofline_transformer
from repro_mlir.cli.options import Commands, add_command, told_next
from repro_mlir.cli.parsers import Help, set_names
from repro_mlir.cli.roofline_options import add_step, read_machines, read_step

if TYPE_CHECKING:
    from repro_mlir.roofline import CpuMachine

_NOTES = """examples:
  repro roofline machines
  repro roofline calibrate -o here.json
  repro roofline predict examples/digits_cnn.py --machine here.json --measure
  repro roofline predict digits.repro --machine here.json --threads 2 --set memory_bandwidth=2x
  repro roofline predict digits.repro --machine here.json --machine epyc-zen5 --html digits.html
  repro roofline predict digits.rmb --machine h100
  repro roofline sweep digits.repro --machine epyc-zen5 --set memory_bandwidth=0.5x,1x,2x --set clock_hz=1x,2x
  repro roofline transformer llama3-70b --machine h100 --tensor 8 --pipeline 4 --data 2 --batch 64 --precision fp8 \\
    --sequence-parallel
  repro roofline transformer llama3-8b --machine h100 --decode --batch 16 --sequence 4096
"""


def register(commands: Commands) -> None:
    """Adds the parser of `repro roofline`."""
    summary = "predict the time of a step, and explain a measured time"
    group = commands.add_parser("roofline", help=summary, description=summary, epilog=_NOTES, formatter_class=Help)
    parts = group.add_subparsers(title="commands", required=True, metavar="COMMAND")
    command = add_command(parts, "predict", _predict, "predict a step of a script, a program file or a model")
    add_step(command, "V")
    command.add_argument(
        "--measure", action="store_true", help="run the step here, and show the gap between measured and predicted time"
    )
    command.add_argument(
        "--measured", metavar="RESULTS", help="show the gap to the row of FILE in a file of benchmarks/gpu/run.py"
    )
    command.add_argument("--kernels", type=positive, default=20, metavar="N", help="kernels in the table (20)")
    roofline_sweep.register(parts)
    roofline_transformer.register(parts)
    roofline_lists.register(parts)
    command = add_command(parts, "calibrate", _calibrate, "measure this machine, and write its file")
    command.add_argument("-o", "--output", required=True, metavar="FILE", help="the file to write, NAME.json")
    level = command.add_argument("--level", metavar="L", help="the CPU level of the code (the best one)")
    set_names(level, _levels, listed_by="repro targets")


def _levels() -> list[str]:
    from repro_mlir.compilation.cpu import runnable_levels

    return runnable_levels()


def _predict(options: argparse.Namespace) -> int:
    from repro_mlir.base.files.storage import check_can_write, write_file
    from repro_mlir.program import Program
    from repro_mlir.roofline import (
        Accelerator,
        CpuMachine,
        GpuLedger,
        GpuStepPrediction,
        Ledger,
        StepPrediction,
        measure,
        predict,
        read_measured,
    )
    from repro_mlir.roofline.prediction import Codes, threads_of
    from repro_mlir.roofline.report import Case, case_as_json, comparison_lines, lines_of, prediction_page

    machines = read_machines(options)
    changed = [machine.with_changes(changes) for machine, changes in machines]
    threads = threads_of(changed, options.threads)
    # Measured times are compared with the prediction for the first machine, so that machine must be the measured one.
    first = changed[0]
    if options.measure and not isinstance(first, CpuMachine):
        raise ReproError(f"--measure: expected a CPU as the first --machine, got {first.name}")
    if options.measured is not None and not isinstance(first, Accelerator):
        raise ReproError(f"--measured: expected a GPU as the first --machine, got {first.name}")
    if options.html is not None:
        check_can_write(options.html, ".html")
    program, inputs = read_step(options, options.precision)
    codes = Codes(program)
    cases: list[Case] = []
    for (machine, changes), other, count in zip(machines, changed, threads, strict=True):
        prediction = predict(codes.read(other), other, count)
        ledger: Ledger | GpuLedger | None = None
        if options.measured is not None and not cases and isinstance(prediction, GpuStepPrediction):
            ledger = read_measured(options.measured, Path(options.program).stem, prediction)
        elif options.measure and not cases and isinstance(prediction, StepPrediction) and isinstance(program, Program):
            ledger = measure(program, prediction, inputs)
        cores = machine.cores if isinstance(machine, CpuMachine) else 1
        given = predict(codes.read(machine), machine, min(count, cores)) if changes else None
        cases.append(Case(prediction, ledger, changes, given))
    if options.html is not None:
        write_file(options.html, prediction_page(Path(options.program).name, cases).encode())
    if options.json:
        found = [case_as_json(case) for case in cases]
        tell(json.dumps(found[0] if len(found) == 1 else {"predictions": found}))
        return 0
    tell(*lines_of(cases[0].prediction, cases[0].ledger, options.kernels))
    if len(cases) > 1 or cases[0].given:
        tell("", *comparison_lines(cases))
    if options.html is not None:
        tell(f"page       {options.html}")
    return 0


def _calibrate(options: argparse.Namespace) -> int:
    import sys

    from repro_mlir.roofline import calibrate, write_cpu_machine

    if not options.output.endswith(".json"):
        raise ReproError(f"{options.output}: expected a name that ends with .json, as --machine requires")
    if not Path(options.output).parent.is_dir():
        raise ReproError(f"{options.output}: the folder of this file does not exist")
    if Path(options.output).is_dir():
        raise ReproError(f"{options.output}: expected a name for a file, got a folder")
    found = calibrate(Path(options.output).stem, options.level, lambda line: tell(line, stream=sys.stderr))
    write_cpu_machine(options.output, found.machine, found.sources)
    if fault := _order_of_bandwidths(found.machine):
        tell(f"repro: {fault}", stream=sys.stderr)
    if options.json:
        tell(json.dumps({"file": options.output}))
    else:
        for name, source in found.sources.items():
            if source.startswith("measured"):
                tell(f"{name:26} {getattr(found.machine, name):.4g}")
        tell(f"file     {options.output}")
        tell(told_next("repro", "roofline", "predict", "FILE", "--machine", options.output))
    return 0


def _order_of_bandwidths(machine: CpuMachine) -> str | None:
    """Returns a warning if a cache was measured as slower than the memory after it; None if all are in order."""
    for near, far in (("l2_bandwidth", "l3_bandwidth"), ("l3_bandwidth", "memory_bandwidth")):
        if getattr(machine, near) < getattr(machine, far):
            return f"{far} was measured above {near}: other programs were running; end them, and calibrate again"
    return None
