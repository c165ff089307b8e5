# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Measures peak memory and the time of capture and compilation, which require a fresh process.

Run by fresh_cases.py; prints one JSON object.
"""

import argparse
import json
import re
import time
from pathlib import Path

import repro_mlir
import torch
from repro_mlir.compilation.cache import cached_compile
from repro_mlir.execute.cpu import CpuBackend
from training_models import STEPS, Step, eager

_STATUS, _CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")
_STEPS = 3


def _megabytes(field: str) -> float:
    found = re.search(rf"{field}:\s+(\d+) kB", _STATUS.read_text())
    return int(found[1]) / 1024 if found else float("nan")


def _peak(run) -> float:
    """Calls `run` several times; returns the peak of the resident memory in MB, less the memory before the first
    call."""
    before = _megabytes("VmRSS")
    _CLEAR.write_text("5")  # Resets the peak (VmHWM) that Linux records.
    for _ in range(_STEPS):
        run()
    return _megabytes("VmHWM") - before


def memory(step: Step, peer: bool, program_file: str, level: str, threads: int) -> dict[str, float]:
    """Returns the peak memory of training steps in MB. `peer` selects PyTorch; otherwise our step runs, from a program
    file and with compiled code from the cache."""
    start = _megabytes("VmRSS")
    if peer:
        run = eager(*step.make())
        result = {"peak": _peak(run)}
    else:
        program = repro_mlir.Program.load(program_file)
        executable = CpuBackend(cached_compile(program.data, level), threads)
        states = list(program.initial_state().values())
        batch = [value.numpy() for value in step.make()[2]]
        hyper_parameters = [kind.empty() for kind in executable.inputs[: program.num_hyper_parameters]]
        for value in hyper_parameters:
            value[...] = 1e-3
        del program
        result = {
            "peak": _peak(lambda: executable.run(states, [*hyper_parameters, *batch])),
            "arena": executable.arena_bytes / 2**20,
        }
    return result | {"total": _megabytes("VmHWM") - start}


def compilation(step: Step, program_file: str | None, level: str, threads: int) -> dict[str, float]:
    """Returns the seconds of capture and of compilation, and saves the program to `program_file`, if given. Code that
    is in the cache is not compiled again."""
    model, optimizer, batch = step.make()
    start = time.perf_counter()
    program = repro_mlir.capture(model, None, optimizer, batch, attention_block=step.attention_block)
    captured = time.perf_counter()
    repro_mlir.compile(program, f"cpu:{level}", threads)
    end = time.perf_counter()
    if program_file:
        program.save(program_file)
    return {"capture": captured - start, "compile": end - captured}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("memory", "compile"))
    parser.add_argument("step", choices=STEPS)
    parser.add_argument("--level", required=True)
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--program", help="a program file")
    parser.add_argument("--peer", action="store_true", help="PyTorch eager instead of ours")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    step = STEPS[options.step]
    if options.what == "memory":
        figures = memory(step, options.peer, options.program, options.level, options.threads)
    else:
        figures = compilation(step, options.program, options.level, options.threads)
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
