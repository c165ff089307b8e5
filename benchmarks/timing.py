# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Times of several functions, interleaved: a machine that slows down slows them all."""

import itertools
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from case import Contestants

# A shorter sample is lost in the clock.
_SAMPLE_SECONDS = 2e-4
# In one turn a function is called for this long, at least once.
_TURN_SECONDS = 0.02
# Threads of another runtime may spin this long after their last loop (libgomp: 300,000 pauses, each up to 140 cycles):
# nothing is timed meanwhile.
_SETTLE_SECONDS = 0.03
_LEAST_ROUNDS = 4


@dataclass(frozen=True)
class Figure:
    """Median and best of many samples."""

    median: float
    best: float
    samples: int

    @staticmethod
    def of(samples: list[float]) -> "Figure":
        return Figure(statistics.median(samples), min(samples), len(samples))


def interleaved(
    contestants: Contestants, seconds: float, clock: Callable[[], float] = time.perf_counter
) -> Mapping[str, Figure]:
    """The seconds of a call of each.

    Rounds go through all contestants, each time beginning with another one. A turn begins with calls that are not
    timed: they bring the data back into the caches and wait until the threads of the contestant before are asleep.

    Args:
      contestants: functions without arguments.
      seconds: time to spend on each of them; four rounds are made in any case.
      clock: what a sample is the difference of, such as time.process_time on a machine that does other work, too.
    """
    calls = {}
    for name, function in contestants.items():
        function()
        calls[name] = max(1, round(_SAMPLE_SECONDS / _seconds(function, 1, time.perf_counter)))
    samples: dict[str, list[float]] = {name: [] for name in contestants}
    names = list(contestants)
    end = time.perf_counter() + seconds * len(contestants)
    for number in itertools.count():
        if number >= _LEAST_ROUNDS and time.perf_counter() > end:
            break
        for name in names[number % len(names) :] + names[: number % len(names)]:
            _turn(contestants[name], calls[name], samples[name], clock)
    return {name: Figure.of(values) for name, values in samples.items()}


def _turn(function, calls: int, samples: list[float], clock: Callable[[], float]) -> None:
    start = time.perf_counter()
    while True:
        function()
        if time.perf_counter() - start > _SETTLE_SECONDS:
            break
    start = time.perf_counter()
    while True:
        samples.append(_seconds(function, calls, clock))
        if time.perf_counter() - start > _TURN_SECONDS:
            break


def _seconds(function, calls: int, clock: Callable[[], float]) -> float:
    start = clock()
    for _ in range(calls):
        function()
    return (clock() - start) / calls
