# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Parses the kernels of a PTX module, as the compiler prints them, into basic blocks."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

_ENTRY = re.compile(r"(?:\.visible )?\.entry (\w+)\(")
_LABEL = re.compile(r"(\$\w+):")
_INSTRUCTION = re.compile(r"\s*(?:@!?(%\w+)\s+)?([a-z]\w*(?:[.:]+\w+)*)\s*([^;]*);")
_DONE = re.compile(r";|//|^\s*$")
_REGISTER = re.compile(r"%[a-z]+\d+")
_NO_RESULT = ("st", "red", "bra", "brx", "ret", "exit", "trap", "bar", "barrier", "membar", "fence", "prefetch", "cp")
_ENDS = ("bra", "brx", "ret", "exit", "trap")


@dataclass(frozen=True)
class Instruction:
    """An instruction.

    Attributes:
      line: the line number in the text, from 1.
      opcode: the opcode, such as "fma.rn.f32".
      operands: the text of the operands.
      results, sources: the registers that are written and read; a guard predicate is a source.
    """

    line: int
    opcode: str
    operands: str
    results: tuple[str, ...]
    sources: tuple[str, ...]

    @property
    def name(self) -> str:
        """The first part of the opcode."""
        return self.opcode.partition(".")[0]


@dataclass
class Block:
    """Instructions that execute in sequence.

    Attributes:
      labels: the labels of the block.
      target: the label to which the branch at the end of the block jumps; None without a branch.
      ends: whether control never falls through to the next block.
    """

    labels: list[str] = field(default_factory=list)
    instructions: list[Instruction] = field(default_factory=list)
    target: str | None = None
    ends: bool = False

    @property
    def is_loop(self) -> bool:
        """Whether the last instruction branches to the first."""
        return self.target in self.labels


def read_kernels(text: str) -> dict[str, list[Block]]:
    """Parses the blocks of each kernel, in program order."""
    return {name: _blocks(lines) for name, lines in _kernels(text)}


def _kernels(text: str) -> Iterator[tuple[str, list[tuple[int, str]]]]:
    """Yields the name and the numbered lines of each kernel body."""
    name, lines, is_body = "", list[tuple[int, str]](), False
    for number, line in enumerate(text.splitlines(), 1):
        if found := _ENTRY.match(line):
            name, lines, is_body = found.group(1), [], False
        elif line.startswith("{"):
            is_body = True
        elif line.startswith("}") and name:
            yield name, lines
            name = ""
        elif name and is_body and lines and lines[-1][1].startswith("\t") and not _DONE.search(lines[-1][1]):
            # An instruction that spans several lines has the number of its first line.
            lines[-1] = (lines[-1][0], f"{lines[-1][1]} {line.strip()}")
        elif name and is_body:
            lines.append((number, line))


def _blocks(lines: list[tuple[int, str]]) -> list[Block]:
    blocks = [Block()]
    for number, line in lines:
        if found := _LABEL.match(line):
            if blocks[-1].instructions:
                blocks.append(Block())
            blocks[-1].labels.append(found.group(1))
            continue
        found = _INSTRUCTION.match(line)
        if not found:
            continue
        guard, opcode, operands = found.groups()
        if blocks[-1].instructions and blocks[-1].instructions[-1].name in _ENDS:
            blocks.append(Block())
        instruction = _instruction(number, guard, opcode, operands)
        blocks[-1].instructions.append(instruction)
        if instruction.name in _ENDS:
            blocks[-1].ends = guard is None
            blocks[-1].target = operands.strip() if instruction.name == "bra" else None
    return [block for block in blocks if block.instructions]


def _instruction(line: int, guard: str | None, opcode: str, operands: str) -> Instruction:
    first = ""
    if opcode.partition(".")[0] not in _NO_RESULT:
        first = operands[: operands.find("}") + 1] if operands.startswith("{") else operands.partition(",")[0]
    results = tuple(_REGISTER.findall(first))
    sources = tuple(_REGISTER.findall(operands[len(first) :])) + ((guard,) if guard else ())
    return Instruction(line, opcode, operands, results, sources)


def most_live_registers(blocks: list[Block]) -> int:
    """Returns the maximum number of live 32-bit registers; predicates are not counted."""
    where = {label: number for number, block in enumerate(blocks) for label in block.labels}
    following = []
    for number, block in enumerate(blocks):
        after = [] if block.ends or number + 1 == len(blocks) else [number + 1]
        following.append(after + ([where[block.target]] if block.target in where else []))
    live_in: list[frozenset[str]] = [frozenset()] * len(blocks)
    is_changed = True
    while is_changed:
        is_changed = False
        for number in reversed(range(len(blocks))):
            live = {register for each in following[number] for register in live_in[each]}
            for instruction in reversed(blocks[number].instructions):
                live.difference_update(instruction.results)
                live.update(instruction.sources)
            if live != live_in[number]:
                live_in[number], is_changed = frozenset(live), True
    most = 0
    for number, block in enumerate(blocks):
        live = {register for each in following[number] for register in live_in[each]}
        most = max(most, _words(live))
        for instruction in reversed(block.instructions):
            live.difference_update(instruction.results)
            live.update(instruction.sources)
            most = max(most, _words(live))
    return most


def _words(registers: set[str]) -> int:
    # %p are predicates; %rd and %fd have 64 bits.
    return sum(0 if each.startswith("%p") else 2 if each[2] == "d" else 1 for each in registers)
