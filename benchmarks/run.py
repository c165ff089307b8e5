# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Compares the speed of compiled programs with PyTorch and oneDNN.

    python benchmarks/run.py [--json FILE] [--filter TEXT ...] [--threads 1,2] [--level LEVEL ...] [--list]

Our programs and the peers take turns in one process, so that a change of the machine's speed affects all of them. Each
CPU level is measured in its own process, in which the peers are limited to that level. Rows are printed as they are
measured; the last lines list the goals that are met. Times on a busy machine mean little, so FILE contains the load.
"""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import worker
from case import SampledCase
from host import describe_host
from report import add_measured, line, summary
from repro_mlir.base.progress import Progress
from repro_mlir.compilation import cpu

# For each CPU level, the environment variables that limit PyTorch, oneDNN and MKL to it. The best level needs none.
_LIMITS = {
    "x86-64-v3": {"ATEN_CPU_CAPABILITY": "avx2", "ONEDNN_MAX_CPU_ISA": "AVX2", "MKL_ENABLE_INSTRUCTIONS": "AVX2"},
    "x86-64-v2": {"ATEN_CPU_CAPABILITY": "default", "ONEDNN_MAX_CPU_ISA": "SSE41", "MKL_ENABLE_INSTRUCTIONS": "SSE4_2"},
}
_WORKER = Path(worker.__file__)


def _default_levels() -> list[str]:
    native = cpu.native_level()
    return [native, *(["x86-64-v3"] if native.startswith("x86-64-v4") else [])]


def main() -> int:
    """Measures all rows and writes the report; returns 0 if every row was measured."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", metavar="FILE", help="write everything to a file")
    parser.add_argument("--filter", action="append", default=[], metavar="TEXT", help="only names that contain TEXT")
    parser.add_argument("--threads", default="1,2", help="numbers, with commas (default 1,2)")
    parser.add_argument("--level", action="append", help="CPU level (default: the best, and x86-64-v3)")
    parser.add_argument("--seconds", type=float, default=0.5, help="time for each contestant of a row (default 0.5)")
    parser.add_argument("--list", action="store_true", help="only print the names")
    options = parser.parse_args()
    cases = worker.selected(options.filter)
    if options.list:
        print("\n".join(case.name for case in cases))
        return 0
    if not cases:
        parser.error(f"no row has a name with {' or '.join(options.filter)}; --list prints them")
    if not all(number.isdigit() and int(number) > 0 for number in options.threads.split(",")):
        parser.error(f"--threads: expected numbers such as 1,2, got {options.threads!r}")
    levels = options.level or _default_levels()
    for level in levels:
        if level not in cpu.runnable_levels():
            parser.error(f"--level: expected one of {', '.join(cpu.runnable_levels())}, got {level!r}")

    report: dict[str, Any] = {"machine": describe_host(), "peaks": [], "rows": [], "failures": []}
    sampled = sum(isinstance(case, SampledCase) for case in cases)
    total = (len(cases) - sampled) * len(levels) * len(options.threads.split(",")) + sampled
    with Progress(total, "measuring") as progress:
        for level in levels:
            command = [sys.executable, str(_WORKER), "--level", level, "--threads", options.threads]
            command += [f"--seconds={options.seconds}", *(f"--filter={text}" for text in options.filter)]
            command += ["--sampled"] if level == levels[0] else []
            environment = os.environ | (_LIMITS.get(level, {}) if level != cpu.native_level() else {})
            with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
                assert process.stdout is not None
                for text in process.stdout:
                    _take(json.loads(text), report, progress)
                    if options.json:
                        _write(report, Path(options.json))
            if process.returncode:
                failure = {"name": "all", "level": level, "threads": 0, "error": f"exit status {process.returncode}"}
                _take({"failure": failure}, report, progress)
    if options.json:
        _write(report, Path(options.json))
    print(f"\n{summary(report['rows'])}".rstrip())
    return 1 if report["failures"] else 0


def _write(report: dict[str, Any], path: Path) -> None:
    """Writes the report. It is written after each row, so that an interrupted run keeps its measurements."""
    report["machine"]["load_after"] = round(os.getloadavg()[0], 2)
    path.write_text(json.dumps(report, indent=1) + "\n")


def _take(message: dict[str, Any], report: dict[str, Any], progress: Progress) -> None:
    """Adds a worker's message to the report, and shows it."""
    if "peak" in message:
        peak = message["peak"]
        add_measured(report, "peaks", peak)
        text = "{level}, {threads} threads: at most {GFLOP/s:.0f} GFLOP/s, {GB/s:.1f} GB/s".format(**peak)
    elif "row" in message:
        add_measured(report, "rows", message["row"])
        text = line(message["row"])
    else:
        report["failures"].append(message["failure"])
        text = "{name}, {level}, {threads} threads: FAILED: {error}".format(**message["failure"])
    clear = "\r\x1b[K" if sys.stderr.isatty() else ""
    print(f"{clear}{text}", flush=True)
    if "peak" not in message:
        progress.advance()


if __name__ == "__main__":
    sys.exit(main())
