# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""A small reader of MLIR's generic form in plain Python, sufficient for canonical programs.

Values of attributes remain text, in which aliases are resolved; identity_bytes.py encodes them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

CLOSING = {"(": ")", "[": "]", "{": "}", "<": ">"}


@dataclass
class Block:
    """A block: names and types of its arguments, and its operations."""

    arguments: list[tuple[str, str]] = field(default_factory=list)
    operations: list[Operation] = field(default_factory=list)


@dataclass
class Operation:
    """An operation; `results` and `operands` are names such as `%3` or `%3#1`."""

    name: str
    results: list[str]
    operands: list[str]
    attributes: dict[str, str]
    regions: list[Block]
    result_types: list[str]


def closing(text: str, start: int) -> int:
    """Returns the position after the bracket that closes the bracket at `start`."""
    open_brackets = []
    for match in re.compile(r'"(?:[^"\\]|\\.)*"|->|[()\[\]{}<>]').finditer(text, start):
        token = match.group()
        if token in CLOSING:
            open_brackets.append(CLOSING[token])
        elif open_brackets and token == open_brackets[-1]:
            open_brackets.pop()
            if not open_brackets:
                return match.end()
    raise ValueError(f"no closing bracket for {text[start : start + 40]!r}")


def split(text: str) -> list[str]:
    """Returns the parts of a list, split at the commas outside of brackets and strings."""
    parts, start, position = [], 0, 0
    while position < len(text):
        character = text[position]
        if character == '"':
            position = re.compile(r'"(?:[^"\\]|\\.)*"').match(text, position).end()  # type: ignore[union-attr]
        elif character in CLOSING:
            position = closing(text, position)
        else:
            if character == ",":
                parts.append(text[start:position].strip())
                start = position + 1
            position += 1
    return [part for part in [*parts, text[start:].strip()] if part]


def entries(text: str) -> dict[str, str]:
    """Returns the entries `name = value` of an attribute dictionary, which is given without its braces."""
    pairs = (part.partition("=") for part in split(text))
    return {name.strip().strip('"'): value.strip() for name, _, value in pairs}


class Reader:
    """Parses the text of a module in generic form; the attribute `module` is the parsed operation."""

    def __init__(self, text: str) -> None:
        self.aliases: dict[str, str] = {}
        body = []
        for line in text.splitlines():
            if alias := re.match(r"(#[\w$.-]+) = (.*)", line):
                self.aliases[alias[1]] = alias[2]
            else:
                body.append(line)
        self.text, self.position = "\n".join(body), 0
        self.module = self.operation()

    def take(self, pattern: str) -> re.Match[str] | None:
        """Matches a pattern at the current position, after white space, and moves past it. Returns the match, or
        None."""
        match = re.compile(r"\s*" + pattern).match(self.text, self.position)
        if match:
            self.position = match.end()
        return match

    def need(self, pattern: str) -> re.Match[str]:
        """Like `take`, but raises ValueError if the pattern does not match."""
        match = self.take(pattern)
        if match is None:
            raise ValueError(f"expected {pattern}, got {self.text[self.position : self.position + 60]!r}")
        return match

    def bracketed(self, opening: str) -> str | None:
        """If the bracket `opening` is next, moves past its closing bracket and returns the text between them; else
        returns None."""
        if not self.take(f"(?={re.escape(opening)})"):
            return None
        start, self.position = self.position, closing(self.text, self.position)
        return self.text[start + 1 : self.position - 1]

    def attributes(self, text: str | None) -> dict[str, str]:
        """Returns the entries of an attribute dictionary with aliases resolved."""
        found = entries(text or "")
        return {name: self.resolve(value) for name, value in found.items()}

    def resolve(self, value: str) -> str:
        """Returns the value with its aliases (`#map`) replaced by their definitions."""
        return re.sub(r"#[\w$-]+(?![\w.<])", lambda match: self.aliases.get(match[0], match[0]), value)

    def operation(self) -> Operation:
        """Parses an operation."""
        results = []
        if left := self.take(r"(%[\w$.-]+)(?::(\d+))?(?:, %[\w$.:-]+)* = "):
            count = int(left[2] or 1)
            results = [f"{left[1]}#{i}" for i in range(count)] if left[2] else [left[1]]
        name = self.need(r'"([\w.]+)"')[1]
        operands = split(self.bracketed("(") or "")
        attributes: dict[str, str] = {}
        if self.take(r"(?=<\{)"):
            properties = self.bracketed("<")
            attributes |= self.attributes((properties or "").strip()[1:-1])
        regions = []
        if self.take(r"\((?=\s*\{)"):
            while self.take(r"\{"):
                regions.append(self.block())
                self.need(r"\}")
                self.take(",")
            self.need(r"\)")
        attributes |= self.attributes(self.bracketed("{"))
        self.need(":")
        self.bracketed("(")
        self.need("->")
        types = self.bracketed("(")
        if types is None:
            types = self.need(r"(\w+(?:<[^>]*>)?)")[1]
        if self.take("loc(?=\\()"):
            self.bracketed("(")
        return Operation(name, results, operands, attributes, regions, split(types))

    def block(self) -> Block:
        """Parses a block."""
        block = Block()
        if self.take(r"\^\w+"):
            for argument in split(self.bracketed("(") or ""):
                name, _, kind = argument.partition(":")
                block.arguments.append((name.strip(), re.sub(r"\s*loc\(.*", "", kind).strip()))
            self.need(":")
        while not self.take(r"(?=\})"):
            block.operations.append(self.operation())
        return block
