# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The causes for which an operator of PyTorch gives other bits on another machine, or in another run."""

from __future__ import annotations

import enum
from typing import NamedTuple


class Grade(enum.Enum):
    """Where the results of an operator are the same bits, if its operands are."""

    EVERYWHERE = "everywhere"
    MACHINE = "same machine"
    RUN = "same run"
    UNKNOWN = "unknown"


class Cause(NamedTuple):
    """A cause of different bits.

    Attributes:
      name: the name in reports.
      cpu, cuda: where results are the same bits on a CPU and on a CUDA device.
      text: what differs, as one sentence.
    """

    name: str
    cpu: Grade
    cuda: Grade
    text: str


EXACT = Cause(
    "exact",
    Grade.EVERYWHERE,
    Grade.EVERYWHERE,
    "Integers, moves, comparisons, or one operation that IEEE 754 rounds.",
)
ROUNDING = Cause(
    "roundings",
    Grade.MACHINE,
    Grade.MACHINE,
    "Kernels differ in how often they round: a product and a sum once or twice, a quotient or a reciprocal.",
)
FUNCTION = Cause(
    "functions",
    Grade.MACHINE,
    Grade.MACHINE,
    "Elementary functions of a mathematical library, whose last bits depend on its version and on the machine.",
)
ORDER = Cause(
    "order",
    Grade.MACHINE,
    Grade.MACHINE,
    "The order of the additions depends on kernel, number of threads, vector width, and version of the library.",
)
CHOICE = Cause(
    "choice",
    Grade.MACHINE,
    Grade.MACHINE,
    "Which one of equal elements is chosen depends on the kernel.",
)
RANDOM = Cause(
    "random numbers",
    Grade.MACHINE,
    Grade.MACHINE,
    "Random numbers differ between CPU and CUDA, and between GPUs with other numbers of processors.",
)
ATOMICS = Cause(
    "atomics on CUDA",
    Grade.MACHINE,
    Grade.RUN,
    "On CUDA, threads add in the order in which they arrive, or the library may choose a kernel in which they do.",
)
ATOMICS_ON_CPU = Cause(
    "atomics on CPU",
    Grade.RUN,
    Grade.MACHINE,
    "On a CPU, threads add to one element in the order in which they arrive; on CUDA, rows are sorted first.",
)
CHOICE_ON_CUDA = Cause(
    "choice on CUDA",
    Grade.MACHINE,
    Grade.RUN,
    "On CUDA, threads decide by the order in which they arrive which of several values an element gets.",
)
RACES = Cause(
    "races",
    Grade.RUN,
    Grade.RUN,
    "On CPU and CUDA, threads decide by the order in which they arrive which of several values an element gets.",
)
UNSET = Cause(
    "unset memory",
    Grade.RUN,
    Grade.RUN,
    "The operator reads memory that nothing has written.",
)
UNKNOWN = Cause(
    "unknown",
    Grade.UNKNOWN,
    Grade.UNKNOWN,
    "The operator is in no class; nothing is claimed.",
)

CAUSES = (
    *(EXACT, ROUNDING, FUNCTION, ORDER, CHOICE, RANDOM),
    *(ATOMICS, CHOICE_ON_CUDA, ATOMICS_ON_CPU, RACES, UNSET, UNKNOWN),
)
"""All causes, the least harmful first."""
