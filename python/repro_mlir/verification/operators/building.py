# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Builds stored programs from copies of operations and from new operations."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from repro_mlir.base.numerics.formats import element_type
from repro_mlir.base.numerics.tensors import TensorType
from repro_mlir.reference.program import NOWHERE, Body, Operation, ParsedProgram, ValueType
from repro_mlir.reference.stored_writer import counted, word, words, write_program


def type_of(kind: TensorType) -> ValueType:
    """Returns the type of the value of a tensor."""
    return ValueType(element_type(kind.element), kind.shape)


class BlockBuilder:
    """Builds a block.

    Attributes:
      arguments: the numbers of the arguments.
      operations: the operations of the block.
    """

    def __init__(self, argument_types: Sequence[ValueType], outside: BlockBuilder | None = None) -> None:
        """
        Args:
          outside: the block that contains the operation of this block; None for the block of `main`.
        """
        self._numbers: Iterator[int] = itertools.count() if outside is None else outside._numbers
        self._types: dict[int, ValueType] = {} if outside is None else outside._types
        self._argument_types = tuple(argument_types)
        self.arguments = self._define(argument_types)
        self.operations: list[Operation] = []

    def write(
        self,
        name: str,
        operands: Sequence[int],
        result_types: Sequence[ValueType],
        encoded: bytes = b"",
        region: Body | None = None,
        message: str | None = None,
    ) -> tuple[int, ...]:
        """Appends a new operation, which has no origin, and returns the numbers of its results.

        Args:
          encoded: the attributes as stored.
          message: the message of an assertion.
        """
        attributes = {} if message is None else {"msg": message}
        regions = () if region is None else (region,)
        results = self._define(result_types)
        types = tuple(self._types[each] for each in operands)
        self.operations.append(
            Operation(name, tuple(operands), types, results, tuple(result_types), attributes, encoded, regions, NOWHERE)
        )
        return results

    def clone(self, old: Operation, renamed: dict[int, int]) -> tuple[int, ...]:
        """Appends a copy of an operation of another program, and returns the numbers of its results.

        Args:
          renamed: maps the values of the other program to those of this one; the function adds what it defines.
        """
        copied = self._copy(old, renamed)
        self.operations.append(copied)
        return copied.results

    def _copy(self, old: Operation, renamed: dict[int, int]) -> Operation:
        operands = tuple(renamed[each] for each in old.operands)
        results = self._define(old.result_types)
        renamed.update(zip(old.results, results, strict=True))
        regions = tuple(self._copy_body(each, renamed) for each in old.regions)
        return replace(old, operands=operands, results=results, regions=regions)

    def _copy_body(self, old: Body, renamed: dict[int, int]) -> Body:
        arguments = self._define(old.argument_types)
        renamed.update(zip(old.arguments, arguments, strict=True))
        operations = tuple(self._copy(each, renamed) for each in old.operations)
        yields = tuple(renamed[each] for each in old.yields)
        return replace(old, arguments=arguments, operations=operations, yields=yields)

    def body(self, yields: Iterable[int]) -> Body:
        """Returns the block, which yields these values."""
        return Body(self.arguments, self._argument_types, tuple(self.operations), tuple(yields))

    def program(self, returned: Sequence[int], num_state: int = 0) -> bytes:
        """Returns the stored program whose `main` has this block and returns these values."""
        types, names = tuple(self._types[each] for each in returned), ("",) * len(returned)
        body = self.body(returned)
        return write_program(ParsedProgram(body, types, num_state, ("",) * len(self.arguments), names))

    def constant(self, kind: ValueType, number: int) -> int:
        """Appends a scalar constant of i64."""
        (result,) = self.write("arith.constant", (), [kind], b"\0" + word(number))
        return result

    def slice(self, source: int, offsets: Sequence[int], kind: ValueType) -> int:
        """Appends the slice of type `kind`, with strides of 1."""
        assert kind.shape is not None
        encoded = words(offsets) + words(kind.shape) + words([1] * len(offsets)) + words((1, 0, 0, 0))
        (result,) = self.write("tensor.extract_slice", [source], [kind], encoded)
        return result

    def without_first(self, source: int, kind: ValueType) -> int:
        """Appends the removal of a first dimension of extent 1; `kind` is the type of the result."""
        (result,) = self.write("tensor.collapse_shape", [source], [kind], _joined(kind.shape or ()))
        return result

    def with_first(self, source: int, kind: ValueType) -> int:
        """Appends the insertion of a first dimension of extent 1; `kind` is the type of the result."""
        shape = kind.shape or ()
        (result,) = self.write("tensor.expand_shape", [source], [kind], _joined(shape[1:]) + words(shape))
        return result

    def concatenate(self, parts: Sequence[int], kind: ValueType) -> int:
        """Appends the concatenation of tensors along their first dimension."""
        (result,) = self.write("tensor.concat", parts, [kind], word(0))
        return result

    def elementwise(self, operands: Sequence[int], kind: ValueType) -> BlockBuilder:
        """Returns the body of an operation that computes each element of a tensor of type `kind` from the elements of
        operands of this type. `write_elementwise` appends the operation."""
        return BlockBuilder([ValueType(kind.element, None)] * (len(operands) + 1), self)

    def write_elementwise(self, operands: Sequence[int], kind: ValueType, body: BlockBuilder, element: int) -> int:
        """Appends an operation whose body yields `element`; see `elementwise`."""
        (empty,) = self.write("tensor.empty", (), [kind])
        rank, count = len(kind.shape or ()), len(operands) + 1
        # The sum 0 + 1 * dimension, for each dimension.
        indices = counted(word(0) + word(1) + word(1) + b"\0" + word(dimension) for dimension in range(rank))
        maps = counted([word(rank) + indices] * count)
        encoded = maps + word(rank) + bytes(rank) + words((len(operands), 1))
        (result,) = self.write("linalg.generic", [*operands, empty], [kind], encoded, body.body([element]))
        return result

    def _define(self, types: Sequence[ValueType]) -> tuple[int, ...]:
        numbers = tuple(next(self._numbers) for _ in types)
        self._types.update(zip(numbers, types, strict=True))
        return numbers


def _joined(part: Sequence[int]) -> bytes:
    """Returns the reassociation of a shape [1, *part] and `part`: the dimensions of the first that form each dimension
    of the second."""
    groups = [[dimension + 1] for dimension in range(len(part))]
    if groups:
        groups[0].insert(0, 0)
    return counted(map(words, groups))
