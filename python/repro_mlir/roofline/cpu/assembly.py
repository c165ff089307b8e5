# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The assembly of kernels as the compiler describes it: blocks of instructions, and how often each runs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

_KERNEL = re.compile(r"([A-Za-z_][\w.]*):\s+(?:#|//) @")
_BLOCK = re.compile(r"(?:(?:#|//) %bb\.\d+|(\.LBB\d+_\d+)):")
_RUNS = re.compile(r"runs\.(\d+)")
_LINES = re.compile(r"%(runs\.\d+\.missed\.(\d+)\.scattered\.(\d+)\.\d*)")
_COMMENT = re.compile(r"\s*(?:#(?!-?\d)|//).*")
_BRANCH = re.compile(r"(?:j\w+|b|b\.\w+|cbn?z|tbn?z)\b.*?(\.LBB\d+_\d+)")
# What ends a block for a simulator of one, without work that counts.
_CONTROL = re.compile(r"(?:callq?|retq?|bl|blr)\b")
_CALL = re.compile(r"^\t(?:callq?|bl)\s+([A-Za-z_]\w*)", re.MULTILINE)
# Of these the bytes count.
_MOVES = {"memcpy", "memmove", "memset"}


@dataclass(eq=False)
class Block:
    """Instructions that run one after the other.

    Attributes:
      runs: how often, in one call with all work items.
      loop: how many blocks of the text, this one and those before it, its last instruction repeats; 0 for none.
      instructions: without calls and returns.
      missed: cache lines from beyond the L2 cache in all runs; it begins empty.
      scattered: of these the ones that no long run of neighbouring lines led to.
    """

    runs: int
    loop: int = 0
    instructions: list[str] = field(default_factory=list)
    missed: int = 0
    scattered: int = 0


def read_assembly(text: str) -> dict[str, list[Block]]:
    """The blocks of each kernel, of what `repro_mlir.compilation.cpu.analyze` gives. A block that code generation has
    put in between is taken to run as often as the one before it."""
    kernels: dict[str, list[Block]] = {}
    for name, lines in _functions(text):
        blocks = [Block(1)]
        starts: dict[str, int] = {}
        names: set[str] = set()
        for line in lines:
            if found := _BLOCK.match(line):
                runs = _RUNS.search(line)
                blocks.append(Block(int(runs.group(1)) if runs else blocks[-1].runs))
                # Two blocks of a name are parts of one.
                if (touched := _LINES.search(line)) and touched.group(1) not in names:
                    names.add(touched.group(1))
                    blocks[-1].missed, blocks[-1].scattered = int(touched.group(2)), int(touched.group(3))
                if found.group(1):
                    starts[found.group(1)] = len(blocks) - 1
            elif line.startswith("\t") and not line.startswith("\t."):
                instruction = _COMMENT.sub("", line).strip()
                if not _CONTROL.match(instruction):
                    blocks[-1].instructions.append(instruction)
                branch = _BRANCH.match(instruction)
                if branch and branch.group(1) in starts:
                    first = starts[branch.group(1)]
                    blocks[-1].loop = sum(map(_counts, blocks[first:]))
        kernels[name] = [block for block in blocks if _counts(block)]
    return kernels


def calls_of(text: str) -> tuple[str, ...]:
    """The routines that kernels call, whose instructions are not in their blocks."""
    return tuple(sorted({*_CALL.findall(text)} - _MOVES))


def _counts(block: Block) -> bool:
    return bool(block.instructions) and block.runs > 0


def _functions(text: str) -> Iterator[tuple[str, list[str]]]:
    """Name and lines of each function."""
    name, lines = "", list[str]()
    for line in text.splitlines():
        if found := _KERNEL.match(line):
            name, lines = found.group(1), []
        elif line.startswith(".Lfunc_end") and name:
            yield name, lines
            name = ""
        elif name:
            lines.append(line)
