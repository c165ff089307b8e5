# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""What is measured is what a step gets: its buffers are written and kept.

Two measurements of one machine are compared, each the best of as many tries as it takes, as others may use it. Input
that nobody has written, or output that is new in each step, makes one of them far off in all tries.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from repro_mlir.compilation import cpu
from repro_mlir.execute.cpu import CpuBackend
from repro_mlir.roofline import measure, predict, read_code
from repro_mlir.roofline.cpu.calibration import bandwidth
from support.predicted import MACHINE, program_of, streamed

ELEMENTS = 1 << 24
HERE = replace(MACHINE, level=cpu.native_level(), scheduling_model="generic", launch_seconds=0.0)


@pytest.fixture(scope="module")
def step() -> CpuBackend:
    return CpuBackend(cpu.compile(streamed(ELEMENTS), HERE.level), 1)


def check_same(seconds: Callable[[], float], step: CpuBackend) -> None:
    """That a way of measuring gives the seconds of the step, but for a seventh."""
    first, second = np.inf, np.inf
    for _ in range(10):
        first, second = min(first, seconds()), min(second, seconds_of(step))
        if 1 / 1.15 < first / second < 1.15:
            return
    pytest.fail(f"{first} s in place of {second} s")


def seconds_of(step: CpuBackend) -> float:
    """The least of 50 steps of one thread on buffers that are written and kept."""
    given, results = (np.ones(ELEMENTS, np.float32) for _ in range(2))
    found = []
    for _ in range(50):
        start = time.perf_counter()
        step.run([], [given], [results])
        found.append(time.perf_counter() - start)
    return min(found)


def test_the_calibrated_bandwidth(step: CpuBackend) -> None:
    # Of an element 4 bytes are read, and 4 fetched and written back.
    check_same(lambda: 12 * ELEMENTS / bandwidth(HERE, 8 * ELEMENTS, 1), step)


def test_the_measured_step(step: CpuBackend) -> None:
    program = program_of(streamed(ELEMENTS))
    prediction = predict(read_code(program, HERE), HERE)
    check_same(lambda: measure(program, prediction, seconds=0.4).seconds, step)
