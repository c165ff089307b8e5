# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Compares bits and measures speed on a GPU, from a directory that prepare.py wrote on another machine.

    python benchmarks/gpu/run.py DIR [--output results/h200] [--budget 450]

Needs the CUDA driver, Python 3.11 and NumPy; also PyTorch, to compare times in `speed` and to measure `launches`. The
only files of ours that it needs are DIR and the files next to this one. Uses no network. Parts:
- `rates` times instructions, memory and launches.
- `operations` compares checksums of single PTX operations over all patterns with the CPU's.
- `tensor cores` compares matrix instructions with the accumulator class of the GPU, as `repro certify-device` does.
  It also times matrix products, some of them without tensor cores, and compares their results with the CPU's.
- `programs` compares hashes of training steps with the CPU's, for machine code and for PTX that the driver assembles.
- `catalogue` compares the programs of the tests with the reference interpreter.
- `speed` times functions and training steps, and PyTorch with TF32 off.
- `launches` times each launch of the functions and training steps.

Each part runs in its own process, and writes results after every row (one measurement or comparison). If the process
fails in a row, a new process continues with the next row. The exit status is 1 if any bit differs or anything failed.
"""

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path

# For each part, the share of the time budget after which it must have ended. A part may use time that earlier parts
# have left.
SHARES = {
    "rates": 0.1,
    "operations": 0.2,
    "tensor cores": 0.3,
    "programs": 0.5,
    "catalogue": 0.65,
    "speed": 0.85,
    "launches": 1.0,
}
_LOST = 3


def run_part(part: str, directory: Path, output: Path, seconds: float) -> int:
    """Runs a part in this process. Returns 0, or 3 if the GPU context is lost and another process must continue the
    part."""
    from machine import describe
    from repro_mlir.runner import Device
    from repro_mlir.runner.certificates import VARIABLE
    from results import ContextLost, Results
    from run_catalogue import run_catalogue
    from run_launches import run_launches
    from run_operations import run_operations
    from run_programs import run_programs
    from run_rates import run_rates
    from run_speed import run_speed
    from run_tensor_cores import run_tensor_cores

    # The certificates of this run are stored in DIR, since this machine may have other certificates.
    os.environ[VARIABLE] = str(directory / "certificates")
    deadline = time.perf_counter() + seconds
    results = Results(output)
    work = {
        "rates": run_rates,
        "operations": run_operations,
        "tensor cores": run_tensor_cores,
        "programs": run_programs,
        "catalogue": run_catalogue,
        "speed": run_speed,
        "launches": run_launches,
    }[part]
    try:
        device = Device()
        results.facts |= describe(device)
        results.run(part, lambda: work(directory, device, results, deadline))
    except ContextLost:
        return _LOST
    return 0


def run_all(directory: Path, output: Path, budget: float, only: str | None) -> int:
    """Runs the parts, each in its own process; returns 1 if any bit differs or anything failed, else 0."""
    from results import Results

    start = time.perf_counter()
    for suffix in (".json", ".md"):
        (output.parent / f"{output.name}{suffix}").unlink(missing_ok=True)
    for part, share in SHARES.items():
        if only not in (None, part):
            continue
        status: int | str = _LOST
        begun = -1
        while status != 0:
            left = start + share * budget - time.perf_counter()
            # A part ends if its last process has begun no new row: otherwise the part would be restarted forever.
            count = len(Results(output).begun.get(part, []))
            if left <= 0 or count == begun:
                break
            begun = count
            command = [sys.executable, __file__, str(directory), "--output", str(output)]
            command += ["--part", part, "--budget", str(left)]
            try:
                # A process checks the time only between rows. The timeout ends a process whose row hangs.
                status = subprocess.run(command, timeout=left + 30).returncode
            except subprocess.TimeoutExpired:
                status = "no end in time"
            if status not in (0, _LOST):
                results = Results(output)
                last = results.begun.get(part, ["its beginning"])[-1]
                results.note(part, f"{last}: the process ended: {status}")
    results = Results(output)
    results.facts["seconds in all"] = round(time.perf_counter() - start, 1)
    results.write()
    return int(results.failed)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=Path, metavar="DIR")
    parser.add_argument("--output", type=Path, metavar="PATH", help="results without suffix (DIR/results)")
    parser.add_argument("--budget", type=float, default=450, metavar="S", help="seconds for everything (450)")
    parser.add_argument("--only", metavar="PART", choices=SHARES, help="only this part")
    parser.add_argument("--part", choices=SHARES, help=argparse.SUPPRESS)
    options = parser.parse_args()
    # The parts import modules of the runner from the prepared directory, because this machine need not have the
    # package.
    sys.path.insert(0, str(options.directory / "runner.pyz"))
    output = options.output or options.directory / "results"
    output.parent.mkdir(parents=True, exist_ok=True)
    if options.part:
        return run_part(options.part, options.directory, output, options.budget)
    return run_all(options.directory, output, options.budget, options.only)


if __name__ == "__main__":
    sys.exit(main())
