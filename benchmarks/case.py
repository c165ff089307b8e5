# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""What a benchmark is: work to time, ours beside its peers."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

OURS = "ours"
PLAIN = "ours in float32"  # beside ours in low precision

# What is timed: one call does the whole work.
Contestants = dict[str, Callable[[], object]]


@dataclass(frozen=True)
class Setting:
    """Where the cases run.

    Attributes:
      level: CPU level of our code, such as "x86-64-v4"; the peers are limited to the same by the environment.
      threads: how many threads ours and the peers use.
    """

    level: str
    threads: int

    @property
    def target(self) -> str:
        """The target for repro_mlir.compile."""
        return f"cpu:{self.level}"


@dataclass(frozen=True)
class Case:
    """One row per setting.

    Attributes:
      name: unique, such as "matmul 512 NN"; what --filter looks at.
      group: rows that are judged together.
      shape: for the reader.
      build: the contestants by name, OURS among them.
      flops: floating-point operations of one call, if the arithmetic units are to be the limit.
      bytes: bytes of one call to and from memory at the least, if memory is to be the limit.
    """

    name: str
    group: str
    shape: str
    build: Callable[[Setting], Contestants]
    flops: float = 0
    bytes: float = 0


@dataclass(frozen=True)
class SampledCase:
    """One row whose figures are no times of calls, such as bytes of memory.

    Attributes:
      name, group, shape: as of a Case.
      unit: of the samples; less is better.
      sample: the samples of each contestant.
      every_setting: whether threads and level matter; else the row stands once.
    """

    name: str
    group: str
    shape: str
    unit: str
    sample: Callable[[Setting], Mapping[str, list[float]]]
    every_setting: bool = True
