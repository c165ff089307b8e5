# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Groups instructions whose execution overlaps on a CPU: adjacent blocks, and short loops with the code around them."""

from __future__ import annotations

from collections.abc import Sequence as Items
from dataclasses import dataclass, replace

from repro_mlir.roofline.cpu.assembly import Block

# The maximum number of instructions of a merged sequence: the size of a large reorder buffer (Golden Cove). The two
# ends of a longer sequence would hardly overlap.
_MOST = 512


@dataclass(frozen=True)
class Sequence:
    """Instructions that execute in order, including jumps.

    Attributes:
      runs: the number of executions.
      repeats: whether runs follow each other directly, so that a run waits for the results of the previous one.
      instructions: the instructions of all blocks of the sequence.
    """

    runs: int
    repeats: bool
    instructions: tuple[str, ...]


@dataclass(frozen=True)
class _Part:
    """Merged instructions that replace the blocks `first` to `last` of a kernel. `inside` is the number of the
    innermost loop that contains these blocks and cannot be merged; None if there is no such loop."""

    runs: int
    first: int
    last: int
    instructions: tuple[str, ...]
    repeats: bool = False
    inside: int | None = None


def sequences_of(blocks: Items[Block]) -> list[Sequence]:
    """Groups the blocks of a kernel into sequences that account for all runs of each block.

    Within a loop, adjacent blocks with equal execution counts merge. A loop merges with the code before it, unrolled by
    the minimum number of iterations per run of that code; its remaining iterations form a separate sequence.
    """
    parts = [_Part(block.runs, at, at, tuple(block.instructions)) for at, block in enumerate(blocks)]
    rest: list[Sequence] = []
    loops = [(at + 1 - block.loop, at) for at, block in enumerate(blocks) if block.loop]
    for number, (first, last) in enumerate(sorted(loops, key=lambda loop: loop[1] - loop[0])):
        before = [part for part in parts if part.first < first]
        body = _joined([part for part in parts if first <= part.first <= last])
        behind = [part for part in parts if part.first > last]
        is_one = len(body) == 1 and body[0].last == last
        if is_one:
            body = [replace(body[0], repeats=True)]
        one = _repeated(before[-1], body[0]) if is_one and before and before[-1].last == first - 1 else None
        if one:
            if left := body[0].runs % one.runs:
                rest.append(Sequence(left, True, body[0].instructions))
            parts = [*before[:-1], one, *behind]
        else:
            body = [part if part.inside is not None else replace(part, inside=number) for part in body]
            parts = before + body + behind
    return rest + [Sequence(part.runs, part.repeats, part.instructions) for part in _joined(parts)]


def _repeated(start: _Part, body: _Part) -> _Part | None:
    """Returns the code `start` followed by the unrolled loop `body`. None if the result is too long, if the loop has
    less than one iteration per run of `start`, or if `start` is inside another loop."""
    times = body.runs // start.runs
    code = len(start.instructions) + times * len(body.instructions)
    if not times or code > _MOST or start.inside is not None:
        return None
    return replace(
        body, runs=start.runs, first=start.first, instructions=start.instructions + times * body.instructions
    )


def _joined(parts: list[_Part]) -> list[_Part]:
    """Merges adjacent parts with equal execution counts."""
    found: list[_Part] = []
    for part in parts:
        one = found[-1] if found else part
        code = one.instructions + part.instructions
        if found and (one.runs, one.inside) == (part.runs, part.inside) and len(code) <= _MOST:
            repeats = one.repeats or part.repeats
            found[-1] = replace(one, last=part.last, instructions=code, repeats=repeats)
        else:
            found.append(part)
    return found
