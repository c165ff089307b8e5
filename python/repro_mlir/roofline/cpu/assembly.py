# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Parses annotated assembly of kernels into basic blocks with execution counts."""

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
# Calls and returns end a basic block; llvm-mca does not simulate them.
_CONTROL = re.compile(r"(?:callq?|retq?|bl|blr)\b")
_CALL = re.compile(r"^\t(?:callq?|bl)\s+([A-Za-z_]\w*)", re.MULTILINE)
# The bytes that these calls move are part of the predicted traffic, so `calls_of` leaves these calls out.
_MOVES = {"memcpy", "memmove", "memset"}


@dataclass(eq=False)
class Block:
    """Instructions that execute in sequence.

    Attributes:
      runs: the number of executions in one call with all work items.
      loop: the number of blocks, up to and including this one, that the last instruction of this block repeats; 0 for
        none.
      instructions: the instructions of the block without calls and returns.
      missed: the number of cache lines that all runs together load from beyond the L2 cache; `read_assembly` sets it.
      scattered: the number of missed lines that are not part of a long sequence of adjacent lines.
    """

    runs: int
    loop: int = 0
    instructions: list[str] = field(default_factory=list)
    missed: int = 0
    scattered: int = 0


def read_assembly(text: str) -> dict[str, list[Block]]:
    """Parses the assembly that `repro_mlir.compilation.cpu.analyze` returns, into the blocks of each kernel.

    A block that code generation has inserted has the execution count of the block before it.
    """
    kernels: dict[str, list[Block]] = {}
    for name, lines in _functions(text):
        blocks = [Block(1)]
        starts: dict[str, int] = {}
        names: set[str] = set()
        for line in lines:
            if found := _BLOCK.match(line):
                runs = _RUNS.search(line)
                blocks.append(Block(int(runs.group(1)) if runs else blocks[-1].runs))
                # Blocks with the same name are parts of one block. Only the first part gets the numbers of cache lines,
                # so that they count once.
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
    """Returns the routines that the kernels call; their instructions are not part of the blocks."""
    return tuple(sorted({*_CALL.findall(text)} - _MOVES))


def _counts(block: Block) -> bool:
    return bool(block.instructions) and block.runs > 0


def _functions(text: str) -> Iterator[tuple[str, list[str]]]:
    name, lines = "", list[str]()
    for line in text.splitlines():
        if found := _KERNEL.match(line):
            name, lines = found.group(1), []
        elif line.startswith(".Lfunc_end") and name:
            yield name, lines
            name = ""
        elif name:
            lines.append(line)
