# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Predicts the times that run.py measures, for machines that need not be available.

    python benchmarks/gpu/predict.py --machine h100 h200 [--tiny] [--only TEXT ...] [--measured RESULTS] -o FILE.md

Needs no GPU and no prepared directory. FILE.md has a row for each program: the milliseconds that a step takes on each
machine, and the main causes of this time; with --launches, FILE.json has the microseconds of each launch. With
--measured, the table also has the results of run.py on the first machine.
"""

from __future__ import annotations

import argparse
import datetime
import json
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import tensor_cores
from cases import calls, trainings
from prepare import call_program, product_program, step_program
from repro_mlir.base.errors import ReproError
from repro_mlir.compilation.device_code import compile_for
from repro_mlir.program import Program
from repro_mlir.roofline import (
    Accelerator,
    GpuCode,
    GpuLedger,
    GpuStepPrediction,
    predict,
    read_machine,
    read_measured,
)
from repro_mlir.roofline.gpu.prediction import gpu_code_of
from repro_mlir.runner.certificates import TENSOR_CORES

_SHARE = 0.1  # A row names each cause that accounts for at least this share of the step's time.


def programs(tiny: bool, architecture: str) -> Iterator[tuple[str, str, Callable[[], Program]]]:
    """Yields for each program: the name of its row in run.py's results, the architecture for which it is compiled, and
    a function that creates the program."""
    for training in trainings(tiny):
        yield training.name, architecture, lambda training=training: step_program(training)[0]
    for call in calls(tiny):
        yield call.name, architecture, lambda call=call: call_program(call)
    for product in tensor_cores.products(tiny):
        make = lambda product=product: product_program(product, architecture)  # noqa: E731
        yield product.name, architecture + TENSOR_CORES, make


def row(name: str, steps: list[GpuStepPrediction], measured: Sequence[GpuLedger | None]) -> str:
    """Returns a line of the table. `measured` has the measurement on the first machine (None if there is none), or is
    empty if the table has no column for it."""
    first = steps[0]
    causes = sorted(first.causes.items(), key=lambda item: -item[1])
    parts = ", ".join(
        f"{cause} {seconds / first.seconds:.0%}" for cause, seconds in causes if seconds > _SHARE * first.seconds
    )
    cells = [name, str(len(first.launches)), *(f"{1e3 * step.seconds:.4g}" for step in steps)]
    for ledger in measured:
        cells += [f"{1e3 * ledger.seconds:.4g}", f"{first.seconds / ledger.seconds - 1:+.0%}"] if ledger else ["", ""]
    return f"| {' | '.join([*cells, parts])} |"


def commit_of(folder: Path) -> str:
    """Returns the commit of a folder's repository, with "-dirty" if files differ from it; "unknown" without a
    repository."""
    command = ["git", "describe", "--always", "--exclude=*", "--abbrev=12", "--dirty"]
    found = subprocess.run(command, capture_output=True, text=True, cwd=folder)
    return found.stdout.strip() or "unknown"


def main() -> int:
    """Predicts all programs and writes the table. Returns 1 if a program could not be predicted or has no measurement,
    else 0."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--machine", nargs="+", required=True, metavar="M", help="of one architecture")
    parser.add_argument("--tiny", action="store_true", help="small sizes")
    parser.add_argument("--only", metavar="TEXT", nargs="+", default=[""], help="only what has a TEXT in its name")
    parser.add_argument("--measured", metavar="RESULTS", help="the JSON file of run.py on the first machine")
    parser.add_argument("--launches", action="store_true", help="write FILE.json as well")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="FILE.md")
    options = parser.parse_args()
    machines = [read_machine(name) for name in options.machine]
    gpus = [machine for machine in machines if isinstance(machine, Accelerator)]
    architectures = {machine.architecture for machine in gpus}
    if len(gpus) < len(machines) or len(architectures) > 1 or None in architectures:
        parser.error("expected GPUs of one architecture")
    architecture = str(gpus[0].architecture)
    commit = commit_of(Path(__file__).parent)
    lines = [
        "# Predictions for GPUs",
        "",
        "This page is for readers who judge the predictions of times. It lists predicted times of a step of the",
        "programs of benchmarks/gpu, in milliseconds.",
        "[roofline.md](../guides/roofline.md) describes how the times are predicted, and the causes to which parts of",
        "a time are attributed. The last column lists the causes that account for more than a tenth of the time on the",
        "first machine, with their share of this time. The page was written by",
        "",
        f"    python benchmarks/gpu/predict.py {shlex.join(sys.argv[1:])}",
        "",
        f"on {datetime.date.today()} at commit {commit}.",
        "",
    ]
    columns = ["program", "launches", *(machine.name for machine in gpus)]
    columns += ["measured", "error"] if options.measured else []
    lines += [f"| {' | '.join([*columns, 'spent on'])} |", f"|{' --- |' * (len(columns) + 1)}"]
    failed = 0
    launches: dict[str, object] = {}
    for name, target, make in programs(options.tiny, architecture):
        if not any(text in name for text in options.only):
            continue
        start = time.perf_counter()
        try:
            (code,) = compile_for(make(), [target])
            found: GpuCode = gpu_code_of(code, architecture)
            steps = [predict(found, machine) for machine in gpus]
        except ReproError as error:
            print(f"{name}: {error}", file=sys.stderr, flush=True)
            failed += 1
            continue
        measured: list[GpuLedger | None] = []
        if options.measured:
            try:
                measured.append(read_measured(options.measured, name, steps[0]))
            except ReproError as error:
                print(error, file=sys.stderr, flush=True)
                measured.append(None)
                failed += 1
        lines.append(row(name, steps, measured))
        launches[name] = {
            "kernels": [launch.kernel for launch in steps[0].launches],
            "us": {step.machine.name: [round(1e6 * launch.seconds, 3) for launch in step.launches] for step in steps},
        }
        print(f"{lines[-1]} {time.perf_counter() - start:.1f} s", flush=True)
    options.output.write_text("\n".join([*lines, ""]))
    if options.launches:
        head = {"date": str(datetime.date.today()), "commit": commit}
        options.output.with_suffix(".json").write_text(json.dumps({**head, "programs": launches}) + "\n")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
