# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Writes programs in their stored form (docs/verification/identity.md), from operations that `stored` has read or that
have the attributes of such operations."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from repro_mlir.reference.program import Body, Origin, ParsedProgram, ValueType
from repro_mlir.reference.stored import BODY_MAGIC, FILE_MAGIC, MAIN, TERMINATORS, VERSION


def write_program(program: ParsedProgram) -> bytes:
    """Returns the stored bytes of a program. The numbers of its values may be any that are unique in the program."""
    writer = _BodyWriter()
    body = [BODY_MAGIC, word(program.num_state), counted(map(type_bytes, program.result_types))]
    body.append(writer.block(program.body, MAIN))
    sections = [b"".join(body), b"", counted(map(text_bytes, writer.messages)), _origins(writer.origins)]
    names = program.argument_names, program.result_names
    if any(map(any, names)):
        sections[1] = b"".join(counted(map(text_bytes, each)) for each in names)
    parts = [FILE_MAGIC, VERSION.to_bytes(4, "little")]
    for kind, contents in enumerate(sections):
        if len(contents) > 8:  # a section with a count of 0 has no contents
            parts += [kind.to_bytes(4, "little"), word(len(contents)), contents]
    return b"".join(parts)


def word(number: int) -> bytes:
    """Returns a number of 64 bits, modulo 2^64."""
    return (number % (1 << 64)).to_bytes(8, "little")


def counted(items: Iterable[bytes]) -> bytes:
    """Returns a list of encoded items with its count."""
    items = list(items)
    return word(len(items)) + b"".join(items)


def words(numbers: Iterable[int]) -> bytes:
    """Returns a list of numbers with its count."""
    return counted(map(word, numbers))


def text_bytes(text: str) -> bytes:
    data = text.encode()
    return word(len(data)) + data


def type_bytes(kind: ValueType) -> bytes:
    element = kind.element.name.encode().ljust(16, b"\0")
    return b"\0" + element if kind.shape is None else b"\1" + element + words(kind.shape)


class _BodyWriter:
    """Writes blocks, and collects what the other sections contain.

    Attributes:
      messages: the messages of the assertions.
      origins: the origins of the operations.
    """

    def __init__(self) -> None:
        self._numbers: dict[int, int] = {}
        self.messages: list[str] = []
        self.origins: list[Origin] = []

    def block(self, body: Body, within: str) -> bytes:
        self._define(body.arguments)
        operations = list(self._operations(body))
        self.origins.append(body.end)
        end = self._head(TERMINATORS[within], (), body.yields) + word(0)
        return counted(map(type_bytes, body.argument_types)) + counted([*operations, end])

    def _operations(self, body: Body) -> Iterator[bytes]:
        for operation in body.operations:
            self.origins.append(operation.origin)
            if "msg" in operation.attributes:
                self.messages.append(operation.attributes["msg"])
            head = self._head(operation.name, operation.result_types, operation.operands)
            self._define(operation.results)
            regions = counted([self.block(each, operation.name) for each in operation.regions])
            yield b"".join([head, operation.encoded, regions])

    def _head(self, name: str, results: Sequence[ValueType], operands: Sequence[int]) -> bytes:
        numbers = words(self._numbers[each] for each in operands)
        return text_bytes(name) + counted(map(type_bytes, results)) + numbers

    def _define(self, numbers: Sequence[int]) -> None:
        for number in numbers:
            self._numbers[number] = len(self._numbers)


def _origins(origins: Sequence[Origin]) -> bytes:
    """Returns the section of origins; empty if no operation has one."""
    texts: dict[str, int] = {}

    def number(text: str | None) -> int:
        return 0 if text is None else texts.setdefault(text, len(texts) + 1)

    entries = [(number(each.name), number(each.file), each.line, each.column) for each in origins]
    if not texts:
        return b""
    places = b"".join(part.to_bytes(4, "little") for entry in entries for part in entry)
    return counted(map(text_bytes, texts)) + places
