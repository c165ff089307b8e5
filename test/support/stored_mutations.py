# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Deterministic mutations of stored programs that change types, operands, operations or attributes.

Unlike damaged bytes (test/fuzz/damage.py), most mutations have the structure of a program, so that a reader comes to
its checks of types, shapes, accesses and orders.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

from repro_mlir.base.numerics.formats import element_type
from repro_mlir.reference.canonical.program import CHECKS
from repro_mlir.reference.program import Body, Operation, ParsedProgram, ValueType
from repro_mlir.reference.stored import OPERATIONS, read_program
from repro_mlir.reference.stored_writer import write_program

_ELEMENTS = (
    "f64", "f32", "bf16", "f16", "f8E4M3FN", "f8E5M2", "f6E3M2FN", "f6E2M3FN", "f4E2M1FN", "f8E8M0FNU", "i1", "i8",
    "i16", "i32", "i64", "index",
)  # fmt: skip
_SMALL = (0, 1, 2, 3, 4, 5, 7, 8)
_LARGE = (16, 24, 31, 64, 100, 2**20, 2**32, 2**40, 2**40 + 1, 2**61, 2**62, 2**63 - 1, 2**63, 2**64 - 1, 2**64 - 2)


def mutate(data: bytes, draw: random.Random) -> bytes:
    """Returns the stored bytes of a program with one to three changes."""
    program = read_program(data)
    for _ in range(draw.choice((1, 1, 1, 2, 3))):
        program = _Mutation(program, draw).run()
    return write_program(program)


class _Mutation:
    """One change of a program."""

    def __init__(self, program: ParsedProgram, draw: random.Random) -> None:
        self._program, self._draw = program, draw
        self._types: dict[int, ValueType] = {}
        # The number of operations that are visited before the one that changes.
        self._left = draw.randrange(self._examine(program.body) + 1)

    def _examine(self, body: Body) -> int:
        """Notes the types of values; returns the number of operations, without nested ones."""
        self._types.update(zip(body.arguments, body.argument_types, strict=True))
        for operation in body.operations:
            self._types.update(zip(operation.results, operation.result_types, strict=True))
            for region in operation.regions:
                self._examine(region)
        return len(body.operations)

    def run(self) -> ParsedProgram:
        body = self._program.body
        if self._left == len(body.operations):
            return self._signature()
        visible = [*body.arguments, *(number for each in body.operations[: self._left] for number in each.results)]
        operations = list(body.operations)
        operations[self._left] = self._changed(operations[self._left], visible)
        return replace(self._program, body=replace(body, operations=tuple(operations)))

    def _signature(self) -> ParsedProgram:
        program, body, draw = self._program, self._program.body, self._draw
        which = draw.randrange(3)
        if which == 0:
            return replace(program, num_state=draw.randrange(min(len(body.arguments), len(body.yields)) + 1))
        if which == 1 and body.arguments:
            return replace(program, body=self._other_argument(body))
        if not body.yields:
            return program
        yields, types = list(body.yields), list(program.result_types)
        at = draw.randrange(len(yields))
        yields[at] = draw.choice([*body.arguments, *(n for each in body.operations for n in each.results)])
        types[at] = self._types[yields[at]]
        return replace(program, body=replace(body, yields=tuple(yields)), result_types=tuple(types))

    def _changed(self, operation: Operation, visible: Sequence[int]) -> Operation:
        which = self._draw.randrange(8)
        if operation.regions and which < 3:
            return replace(operation, regions=(self._changed_body(operation.regions[0], visible),))
        if which < 5 and len(operation.encoded):
            return replace(operation, encoded=self._other_bytes(bytes(operation.encoded)))
        if which == 5 and operation.results:
            return replace(operation, result_types=self._other_types(operation.result_types))
        if which == 6:
            return replace(operation, name=self._other_name(operation))
        return replace(operation, operands=self._other_operands(operation.operands, visible))

    def _changed_body(self, body: Body, visible: Sequence[int]) -> Body:
        draw, operations = self._draw, list(body.operations)
        which = draw.randrange(8)
        if which == 0 and body.arguments:
            return self._other_argument(body)
        inside = [*visible, *body.arguments, *(number for each in operations for number in each.results)]
        if which == 1 and body.yields:
            yields = list(body.yields)
            yields[draw.randrange(len(yields))] = draw.choice(inside)
            return replace(body, yields=tuple(yields))
        if which == 6 and inside:
            return replace(body, yields=draw.choice((body.yields[1:], (*body.yields, draw.choice(inside)))))
        if which == 7:
            return self._one_more_argument(body)
        if not operations:
            return body
        at = draw.randrange(len(operations))
        before = [*visible, *body.arguments, *(number for each in operations[:at] for number in each.results)]
        if which == 2:
            return self._without(body, at, before)
        operations[at] = self._changed(operations[at], before)
        return replace(body, operations=tuple(operations))

    def _without(self, body: Body, at: int, before: Sequence[int]) -> Body:
        """Removes an operation; other values of the same types, if there are any, replace its results."""
        gone, renamed = body.operations[at], {}
        for number, kind in zip(gone.results, gone.result_types, strict=True):
            same = [each for each in before if self._types[each] == kind]
            if not (same or before):
                return body
            renamed[number] = self._draw.choice(same or before)
        rest = [
            replace(each, operands=tuple(renamed.get(number, number) for number in each.operands))
            for each in (*body.operations[:at], *body.operations[at + 1 :])
        ]
        yields = tuple(renamed.get(number, number) for number in body.yields)
        return replace(body, operations=tuple(rest), yields=yields)

    def _other_argument(self, body: Body) -> Body:
        return replace(body, argument_types=self._other_types(body.argument_types))

    def _one_more_argument(self, body: Body) -> Body:
        kind = self._other_type(body.argument_types[-1] if body.arguments else ValueType(element_type("f32"), None))
        number = max(self._types, default=-1) + 1
        return replace(body, arguments=(*body.arguments, number), argument_types=(*body.argument_types, kind))

    def _other_types(self, types: Sequence[ValueType]) -> tuple[ValueType, ...]:
        found = list(types)
        at = self._draw.randrange(len(found))
        found[at] = self._other_type(found[at])
        return tuple(found)

    def _other_type(self, kind: ValueType) -> ValueType:
        draw, shape = self._draw, kind.shape
        which = draw.randrange(6)
        if which == 0:
            return replace(kind, shape=None if shape is not None else draw.choice(((), (4,), (2, 2))))
        if which < 3 or not shape:
            return replace(kind, element=element_type(draw.choice(_ELEMENTS)))
        at = draw.randrange(len(shape))
        extent = shape[at]
        others = {
            3: (draw.choice((*_SMALL, extent + 1, max(extent - 1, 0), 2**20, 2**40)),),
            4: (),
            5: (extent, draw.choice((0, 1, 2))),
        }
        return replace(kind, shape=(*shape[:at], *others[which], *shape[at + 1 :]))

    def _other_bytes(self, data: bytes) -> bytes:
        """Changes a bit, or a number of 64 bits, of the attributes."""
        draw, changed = self._draw, bytearray(data)
        # Numbers may begin at any byte; the upper bytes of most numbers are equal.
        words = [at for at in range(min(len(data), 4096) - 7) if data[at + 3 : at + 8] in (bytes(5), b"\xff" * 5)]
        if not words or draw.random() < 0.2:
            changed[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
            return bytes(changed)
        at = draw.choice(words)
        word = int.from_bytes(data[at : at + 8], "little")
        other = draw.choice((word + 1, word - 1, 2 * word, -word, draw.choice(_SMALL), draw.choice(_LARGE)))
        changed[at : at + 8] = (other % 2**64).to_bytes(8, "little")
        return bytes(changed)

    def _other_name(self, operation: Operation) -> str:
        """Returns an operation with the same attributes and the same numbers of operands and results."""

        def fits(name: str) -> bool:
            form, own = OPERATIONS[name], OPERATIONS[operation.name]
            counts = len(operation.operands) in form.operands and len(operation.results) in form.results
            return counts and [key for key, _ in form.attributes] == [key for key, _ in own.attributes]

        # An operation may fit no name after a change of its operands.
        return self._draw.choice([name for name in CHECKS if fits(name)] or [operation.name])

    def _other_operands(self, operands: Sequence[int], visible: Sequence[int]) -> tuple[int, ...]:
        draw, found = self._draw, list(operands)
        if not visible:
            return tuple(operands)
        if not found or draw.random() < 0.2:
            found.insert(draw.randrange(len(found) + 1), draw.choice(visible))
            return tuple(found)
        at = draw.randrange(len(found))
        if draw.random() < 0.2:
            del found[at]
            return tuple(found)
        same = [each for each in visible if self._types[each] == self._types[found[at]]]
        found[at] = draw.choice(same if draw.random() < 0.6 and same else visible)
        return tuple(found)
