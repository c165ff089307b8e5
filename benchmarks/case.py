# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The classes of benchmarks, which compare our functions with those of peers such as PyTorch."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

OURS = "ours"
PLAIN = "ours in float32"  # the name of our float32 code, with which our low-precision code is compared

# Maps the name of a contestant to the function that is timed. One call of the function does all the work of the
# benchmark.
Contestants = dict[str, Callable[[], object]]


@dataclass(frozen=True)
class Setting:
    """The CPU level and the number of threads of a measurement.

    Attributes:
      level: CPU level of our code, such as "x86-64-v4"; environment variables limit the peers to the same level.
      threads: the number of threads of our code and of the peers.
    """

    level: str
    threads: int

    @property
    def target(self) -> str:
        """Returns the target for repro_mlir.compile."""
        return f"cpu:{self.level}"


@dataclass(frozen=True)
class Case:
    """A benchmark with one row per setting.

    Attributes:
      name: unique name, which --filter matches.
      group: name of the group; a goal (goals.py) is judged on all rows of a group together.
      shape: description for the reader.
      build: returns the contestants by name, with OURS among them.
      flops: the number of floating-point operations in one call, if arithmetic is expected to limit the speed.
      bytes: the minimum number of bytes that one call moves to and from memory, if memory is expected to limit the
        speed.
    """

    name: str
    group: str
    shape: str
    build: Callable[[Setting], Contestants]
    flops: float = 0
    bytes: float = 0


@dataclass(frozen=True)
class SampledCase:
    """A benchmark that measures something other than the time of calls, such as memory.

    Attributes:
      name, group, shape: as for a Case.
      unit: unit of the samples; less is better.
      sample: measures once or more; returns the samples of each contestant by name.
      every_setting: whether the result depends on the number of threads and the CPU level; if not, it is measured only
        once.
    """

    name: str
    group: str
    shape: str
    unit: str
    sample: Callable[[Setting], Mapping[str, list[float]]]
    every_setting: bool = True
