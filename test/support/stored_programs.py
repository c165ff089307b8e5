# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Groups of programs, by name. Tests compare the stored bytes of the programs."""

from __future__ import annotations

from collections.abc import Iterator

from support import accumulated_blocks, block_programs, catalogue, random_programs
from support.stored_samples import ACCUMULATED_BLOCKS, BLOCKS, EVERYTHING, LINES, MANY_FORMS, PROGRAM

_SAMPLES = {
    "program": PROGRAM,
    "every": EVERYTHING,
    "forms": MANY_FORMS,
    "lines": LINES,
    "tensors-in-blocks": BLOCKS,
    "units": ACCUMULATED_BLOCKS,
}

_CASES = {**catalogue.GROUPS, **block_programs.GROUPS, "accumulated-blocks": accumulated_blocks.cases}

GROUPS = (*_SAMPLES, *_CASES, "random")


def programs(group: str) -> Iterator[str]:
    """Yields the texts of the programs in a group."""
    if group in _SAMPLES:
        yield _SAMPLES[group]
    elif group == "random":
        for number in range(100):
            yield from (random_programs.program(number, checks=checks).program for checks in (False, True))
    else:
        yield from (case.program for case in _CASES[group]())
