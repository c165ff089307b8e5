# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Measures the errors of predicted step times on this machine.

    python benchmarks/predictions.py [--json FILE] [--filter TEXT ...] [--threads 1,2] [--level LEVEL ...]
        [--rounds N] [--seconds S]

Each round calibrates the machine for each level, with programs other than the steps, and measures each step. The rounds
are minutes apart, because on a shared machine, processors and memory are slow at times. The result uses the calibration
with the highest clock, and the shortest time of each launch. FILE contains each kernel and is written at the end; see
docs/guides/roofline.md. The machine should run nothing else.
"""

import argparse
import json
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from held_out_models import HELD_OUT
from host import describe_host
from repro_mlir.base.progress import Progress
from repro_mlir.bundle.writer import capture_steps
from repro_mlir.compilation import cpu
from repro_mlir.frontends.torch.scripts import Training, load_training
from repro_mlir.program.program import Program
from repro_mlir.roofline import CpuMachine, Ledger, calibrate, measure, predict, read_code
from training_models import Step

_EXAMPLES = Path(__file__).parent.parent / "examples"


def _of_step(step: Step) -> Training:
    model, optimizer, batch = step.make()
    options = {"attention_block": step.attention_block} if step.attention_block else {}
    return Training(model, None, optimizer, [batch], options)


def _programs() -> dict[str, Callable[[], Training]]:
    examples = {
        path.name: lambda path=path: load_training(str(path))
        for path in (_EXAMPLES / "digits_cnn.py", _EXAMPLES / "names_gpt.py")
    }
    return examples | {name: lambda step=step: _of_step(step) for name, step in HELD_OUT.items()}


def _least(before: Ledger | None, now: Ledger) -> Ledger:
    """Returns a ledger with the shorter of each launch's two times; returns `now` if `before` is None."""
    if before is None:
        return now
    pairs = zip(before.entries, now.entries, strict=True)
    entries = [replace(one, seconds=min(one.seconds, other.seconds)) for one, other in pairs]
    return Ledger(tuple(entries), before.steps + now.steps)


def _row(name: str, program: Program, machine: CpuMachine, threads: int, measured: Ledger) -> dict[str, Any]:
    """Returns a row of the report: the predicted and the measured times of a step and of its kernels."""
    prediction = predict(read_code(program, machine), machine, threads)
    pairs = list(zip(prediction.launches, measured.entries, strict=True))
    ledger = replace(measured, entries=tuple(replace(each, predicted=launch) for launch, each in pairs))
    kernels: dict[str, dict[str, Any]] = {}
    for launch, entry in pairs:
        kernel = kernels.setdefault(launch.kernel, {"launches": 0, "predicted": 0.0, "measured": 0.0, "causes": {}})
        kernel["launches"] += 1
        kernel["predicted"] += launch.seconds
        kernel["measured"] += entry.seconds
        for cause, seconds in launch.causes.items():
            kernel["causes"][cause] = kernel["causes"].get(cause, 0.0) + seconds
    errors = [abs(each["predicted"] / each["measured"] - 1) for each in kernels.values()]
    return {
        "name": name,
        "level": machine.level,
        "threads": threads,
        "predicted": prediction.seconds,
        "measured": ledger.seconds,
        "median_error": ledger.median_error,
        "median_of_kernels": float(np.median(errors)),
        "unknown": ledger.unsigned_unknown / ledger.seconds,
        "causes": ledger.causes,
        "kernels": kernels,
    }


def _text(report: dict[str, Any]) -> str:
    """Returns the report as JSON, with one line for each row and numbers rounded to four digits."""
    rows = ",\n".join(json.dumps(_rounded(row)) for row in report["rows"])
    parts = [f"{json.dumps(name)}: {json.dumps(_rounded(each))}" for name, each in report.items() if name != "rows"]
    return "{" + ",\n".join([*parts, f'"rows": [\n{rows}\n]']) + "}\n"


def _rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _rounded(each) for key, each in value.items()}
    return float(f"{value:.4g}") if isinstance(value, float) else value


def main() -> int:
    """Measures all steps and writes the results; returns 0 if every step was measured."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", metavar="FILE", type=Path, help="write everything to a file")
    parser.add_argument("--filter", action="append", default=[], metavar="TEXT", help="only names that contain TEXT")
    parser.add_argument("--threads", default="1,2", help="numbers, with commas (default 1,2)")
    parser.add_argument("--level", action="append", help="CPU level (default: the best, and x86-64-v3)")
    parser.add_argument("--rounds", type=int, default=3, help="how often each step is measured (default 3)")
    parser.add_argument("--seconds", type=float, default=4.0, help="how long in each round (default 4)")
    options = parser.parse_args()
    if options.rounds < 1:
        parser.error(f"--rounds {options.rounds}: expected 1 or more")
    # describe_host() includes the machine's load, so it is called before the measurement adds to the load.
    report: dict[str, Any] = {"machine": describe_host(), "rounds": options.rounds, "seconds": options.seconds}
    native = cpu.native_level()
    levels = options.level or list(dict.fromkeys([native, "x86-64-v3"]))
    threads = [int(each) for each in options.threads.split(",")]
    captured = {
        name: capture_steps(make(), 1)
        for name, make in _programs().items()
        if not options.filter or any(text in name for text in options.filter)
    }
    rows = [(name, level, count) for name in captured for level in levels for count in threads]
    machines: dict[str, list[CpuMachine]] = {level: [] for level in levels}
    ledgers: dict[tuple[str, str, int], Ledger] = {}
    with Progress(options.rounds * len(rows), "measuring") as progress:
        for _ in range(options.rounds):
            for level in levels:
                machines[level].append(calibrate("here", level).machine)
            for row in rows:
                name, level, count = row
                program, (inputs,) = captured[name]
                prediction = predict(read_code(program, machines[level][0]), machines[level][0], count)
                ledgers[row] = _least(ledgers.get(row), measure(program, prediction, inputs, options.seconds))
                progress.advance()
    chosen = {level: max(found, key=lambda machine: machine.clock_hz) for level, found in machines.items()}
    report["machines"] = {level: vars(machine) for level, machine in chosen.items()}
    report["rows"] = [
        _row(name, captured[name][0], chosen[level], count, ledgers[name, level, count]) for name, level, count in rows
    ]
    for row in report["rows"]:
        off = row["predicted"] / row["measured"] - 1
        print(
            f"{row['name']:14} {row['level']:15} {row['threads']} threads {row['measured'] * 1e3:9.2f} ms "
            f"{row['predicted'] * 1e3:9.2f} predicted {off:+7.1%}, a launch {row['median_error']:6.1%}, "
            f"a kernel {row['median_of_kernels']:6.1%}, unknown {row['unknown']:6.1%}"
        )
    if options.json:
        options.json.write_text(_text(report))
    return 0


if __name__ == "__main__":
    sys.exit(main())
