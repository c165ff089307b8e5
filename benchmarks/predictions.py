# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""How far predictions of steps are off, on this machine.

    python benchmarks/predictions.py [--json FILE] [--filter TEXT ...] [--threads 1,2] [--level LEVEL ...] [--seconds S]

The machine is calibrated for each level, by programs that are none of these. Each kernel is in the file; see
docs/roofline.md. The machine should do nothing else meanwhile.
"""

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from held_out_models import HELD_OUT
from host import describe_host
from repro_mlir.bundle.writer import capture_steps
from repro_mlir.compilation import cpu
from repro_mlir.frontends.torch.script import Training, load_training
from repro_mlir.program.program import Program
from repro_mlir.progress import Progress
from repro_mlir.roofline import CpuMachine, calibrate, measure, predict, read_code
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


def _row(
    name: str, program: Program, inputs: list[np.ndarray], machine: CpuMachine, threads: int, seconds: float
) -> dict[str, Any]:
    prediction = predict(read_code(program, machine), machine, threads)
    ledger = measure(program, prediction, inputs, seconds)
    kernels: dict[str, dict[str, Any]] = {}
    for entry in ledger.entries:
        kernel = kernels.setdefault(
            entry.predicted.kernel, {"launches": 0, "predicted": 0.0, "measured": 0.0, "causes": {}}
        )
        kernel["launches"] += 1
        kernel["predicted"] += entry.predicted.seconds
        kernel["measured"] += entry.seconds
        for cause, seconds in entry.predicted.causes.items():
            kernel["causes"][cause] = kernel["causes"].get(cause, 0.0) + seconds
    return {
        "name": name,
        "level": machine.level,
        "threads": threads,
        "predicted": prediction.seconds,
        "measured": ledger.seconds,
        "median_error": ledger.median_error,
        "unknown": ledger.unsigned_unknown / ledger.seconds,
        "causes": ledger.causes,
        "kernels": kernels,
    }


def _text(report: dict[str, Any]) -> str:
    """JSON with a line for each row, and four digits of each number."""
    rows = ",\n".join(json.dumps(_rounded(row)) for row in report["rows"])
    parts = [f"{json.dumps(name)}: {json.dumps(_rounded(report[name]))}" for name in ("machine", "machines")]
    return "{" + ",\n".join([*parts, f'"rows": [\n{rows}\n]']) + "}\n"


def _rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _rounded(each) for key, each in value.items()}
    return float(f"{value:.4g}") if isinstance(value, float) else value


def main() -> int:
    """0 if every step was measured."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", metavar="FILE", type=Path, help="write everything to a file")
    parser.add_argument("--filter", action="append", default=[], metavar="TEXT", help="only names that contain TEXT")
    parser.add_argument("--threads", default="1,2", help="numbers, with commas (default 1,2)")
    parser.add_argument("--level", action="append", help="CPU level (default: the best, and x86-64-v3)")
    parser.add_argument("--seconds", type=float, default=10.0, help="how long each step is measured (default 10)")
    options = parser.parse_args()
    native = cpu.native_level()
    levels = options.level or list(dict.fromkeys([native, "x86-64-v3"]))
    threads = [int(each) for each in options.threads.split(",")]
    programs = {
        name: make
        for name, make in _programs().items()
        if not options.filter or any(text in name for text in options.filter)
    }
    report: dict[str, Any] = {"machine": describe_host(), "machines": {}, "rows": []}
    with Progress(len(programs) * len(levels) * len(threads), "measuring") as progress:
        machines = {level: calibrate("here", level).machine for level in levels}
        report["machines"] = {level: vars(machine) for level, machine in machines.items()}
        for name, make in programs.items():
            program, (inputs,) = capture_steps(make(), 1)
            for level in levels:
                for count in threads:
                    row = _row(name, program, inputs, machines[level], count, options.seconds)
                    report["rows"].append(row)
                    off = row["predicted"] / row["measured"] - 1
                    print(
                        f"{name:14} {level:15} {count} threads {row['measured'] * 1e3:9.2f} ms "
                        f"{row['predicted'] * 1e3:9.2f} predicted {off:+7.1%}, a launch {row['median_error']:6.1%}, "
                        f"unknown {row['unknown']:6.1%}",
                        flush=True,
                    )
                    progress.advance()
                    if options.json:
                        options.json.write_text(_text(report))
    return 0


if __name__ == "__main__":
    sys.exit(main())
