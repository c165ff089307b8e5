# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Times several functions in turns, so that a change of the machine's speed affects all of them."""

import itertools
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from case import Contestants

# The least length of a sample in seconds. A shorter one would be too close to the resolution of the clock.
_SAMPLE_SECONDS = 2e-4
# The length of a turn in seconds: a function is called again until this time has passed.
_TURN_SECONDS = 0.02
# The pause before a turn. Threads of another runtime may spin this long after their last loop (libgomp: 300,000 pauses
# of up to 140 cycles each), so nothing is timed until they stop.
_SETTLE_SECONDS = 0.03
_LEAST_ROUNDS = 4


@dataclass(frozen=True)
class Figure:
    """The median and the smallest of several samples, and the number of samples."""

    median: float
    best: float
    samples: int

    @staticmethod
    def of(samples: list[float]) -> "Figure":
        """Returns the median, the minimum and the number of the samples."""
        return Figure(statistics.median(samples), min(samples), len(samples))


def interleaved(
    contestants: Contestants, seconds: float, clock: Callable[[], float] = time.perf_counter
) -> Mapping[str, Figure]:
    """Returns the seconds per call for each contestant.

    Each round calls all contestants in turn, and begins with a different contestant than the previous round. A turn
    starts with untimed calls, which bring the data back into the caches and continue until the previous contestant's
    threads are asleep.

    Args:
      contestants: functions without arguments.
      seconds: time to spend on each of them; at least four rounds are made.
      clock: the clock that measures a sample: for example, time.process_time if the machine also does other work.
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
