# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""What a processor has under way together: blocks in a row, and loops of few iterations with the code around them."""

from __future__ import annotations

from collections.abc import Sequence as Items
from dataclasses import dataclass, replace

from repro_mlir.roofline.cpu.assembly import Block

# More instructions than a reorder buffer holds (512 in Golden Cove): of a longer sequence the ends hardly overlap.
_MOST = 512


@dataclass(frozen=True)
class Sequence:
    """Instructions that run one after the other, jumps among them.

    Attributes:
      runs: how often.
      repeats: whether the next run follows at once, so that one waits for the results of another.
      instructions: of all of its blocks.
    """

    runs: int
    repeats: bool
    instructions: tuple[str, ...]


@dataclass(frozen=True)
class _Part:
    """What takes the place of the blocks `first` to `last` of a kernel, in the loop `inside` that is no part."""

    runs: int
    first: int
    last: int
    instructions: tuple[str, ...]
    repeats: bool = False
    inside: int | None = None


def sequences_of(blocks: Items[Block]) -> list[Sequence]:
    """Sequences whose runs are all those of the blocks of a kernel.

    What runs equally often joins in the order of the text, within a loop. A loop joins what is before it, as often as
    it runs at least for each run of that; the rest of its runs is a sequence of its own.
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
    """A loop behind what it begins after, or None where it is too long or begins less often."""
    times = body.runs // start.runs
    code = len(start.instructions) + times * len(body.instructions)
    if not times or code > _MOST or start.inside is not None:
        return None
    return replace(
        body, runs=start.runs, first=start.first, instructions=start.instructions + times * body.instructions
    )


def _joined(parts: list[_Part]) -> list[_Part]:
    """Neighbours that run equally often as one."""
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
