# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Measures the cases of one CPU level and prints a line of JSON for each row.

run.py starts this script in its own process, because PyTorch reads the limit of its CPU level when it is loaded.
"""

import argparse
import json
import sys
import traceback
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

import accumulator_cases
import attention_cases
import block_cases
import convolution_cases
import fresh_cases
import matmul_cases
import normalization_cases
import optimizer_cases
import torch
import training_cases
from case import OURS, Case, Contestants, SampledCase, Setting
from peaks import fma_peak, stream_bandwidth
from timing import Figure, interleaved


def all_cases() -> list[Case | SampledCase]:
    """Returns all benchmarks in the order in which they run."""
    timed = (
        matmul_cases,
        accumulator_cases,
        block_cases,
        convolution_cases,
        normalization_cases,
        attention_cases,
        optimizer_cases,
        training_cases,
    )
    return [case for module in timed for case in module.cases()] + fresh_cases.cases()


def selected(filters: list[str]) -> list[Case | SampledCase]:
    """Returns the benchmarks whose name contains one of the filters; all of them if there are no filters."""
    return [case for case in all_cases() if not filters or any(text in case.name for text in filters)]


def _row(case: Case | SampledCase, setting: Setting, unit: str, figures: Mapping[str, Figure]) -> dict[str, Any]:
    return {
        "name": case.name,
        "group": case.group,
        "shape": case.shape,
        "level": setting.level,
        "threads": setting.threads,
        "unit": unit,
        "figures": {name: asdict(figure) for name, figure in figures.items()},
    }


def _working(contestants: Contestants, fail: Callable[[str], None]) -> Contestants:
    """Calls each contestant once and returns those that did not fail. Calls `fail` with a message for each peer that
    failed; raises the error if ours failed."""
    working = {}
    for name, function in contestants.items():
        try:
            function()
        except Exception as error:
            if name == OURS:
                raise
            traceback.print_exc()
            fail(f"{name}: {error}")
        else:
            working[name] = function
    return working


def _timed(case: Case, setting: Setting, seconds: float, fail: Callable[[str], None]) -> dict[str, Any]:
    figures = interleaved(_working(case.build(setting), fail), seconds)
    row = _row(case, setting, "s", figures)
    best = figures[OURS].best
    rate = {"GFLOP/s": case.flops / best * 1e-9} if case.flops else {"GB/s": case.bytes / best * 1e-9}
    return row | rate


def _peaks(setting: Setting) -> dict[str, Any]:
    return {
        "level": setting.level,
        "threads": setting.threads,
        "GFLOP/s": fma_peak(setting) * 1e-9,
        "GB/s": stream_bandwidth() * 1e-9,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--level", required=True)
    parser.add_argument("--threads", required=True, help="numbers, with commas")
    parser.add_argument("--filter", action="append", default=[])
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--sampled", action="store_true", help="with the cases of fresh processes")
    options = parser.parse_args()
    numbers = [int(number) for number in options.threads.split(",")]
    # Writes to stdout go to stderr instead, because run.py reads the rows from stdout.
    lines, sys.stdout = sys.stdout, sys.stderr

    def emit(kind: str, value: Mapping[str, Any]) -> None:
        lines.write(json.dumps({kind: value}) + "\n")
        lines.flush()

    cases = selected(options.filter)
    for threads in numbers:
        torch.set_num_threads(threads)
        setting = Setting(options.level, threads)
        timed = any(isinstance(case, Case) for case in cases)
        if timed:
            emit("peak", _peaks(setting))
        for case in cases:

            def fail(error: str, name: str = case.name, threads: int = threads) -> None:
                emit("failure", {"name": name, "level": options.level, "threads": threads, "error": error})

            try:
                if isinstance(case, Case):
                    emit("row", _timed(case, setting, options.seconds, fail))
                elif options.sampled and threads == numbers[-1]:
                    figures = {name: Figure.of(samples) for name, samples in case.sample(setting).items()}
                    emit("row", _row(case, setting, case.unit, figures))
            except Exception as error:
                traceback.print_exc()
                fail(str(error))
            torch.compiler.reset()
        # Measures the peaks a second time, because the machine may have been busy the first time.
        if timed:
            emit("peak", _peaks(setting))


if __name__ == "__main__":
    main()
