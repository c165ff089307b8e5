# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The uses of values, and the checks that depend on them: undefined elements (F6) and the bits of NaNs (V4)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from repro_mlir.reference.program import Body, Operation, ValueType

EMPTY = "tensor.empty"


@dataclass(frozen=True)
class Use:
    """A use of a value as an operand of an operation, or by the terminator of a body.

    Attributes:
      operation: the operation; None for a terminator.
      position: the position among the operands.
    """

    operation: Operation | None
    position: int


class Uses:
    """The uses and the definitions of the values of a program.

    Attributes:
      made: the operation of which a value is a result, by the number of the value.
      types: the type of each value, by its number.
    """

    def __init__(self, main: Body) -> None:
        self.made: dict[int, Operation] = {}
        self.types: dict[int, ValueType] = {}
        self._uses: dict[int, list[Use]] = {}
        self._visit(main)

    def of(self, number: int) -> Sequence[Use]:
        """Returns the uses of a value."""
        return self._uses.get(number, ())

    def _visit(self, body: Body) -> None:
        self.types.update(zip(body.arguments, body.argument_types, strict=True))
        for operation in body.operations:
            self.made.update((number, operation) for number in operation.results)
            self.types.update(zip(operation.results, operation.result_types, strict=True))
            self._add(operation, operation.operands)
            for region in operation.regions:
                self._visit(region)
        self._add(None, body.yields)

    def _add(self, operation: Operation | None, operands: Sequence[int]) -> None:
        for position, number in enumerate(operands):
            self._uses.setdefault(number, []).append(Use(operation, position))


_UNREAD_OUTPUTS = {"repro.arg_reduce": 1, "repro.random": 2, "repro.scan": 1}
"""The number of inputs of the operations whose initial operands only have the types of the results."""


def check_empty(operation: Operation, uses: Uses) -> None:
    """(F6) Checks that no operation reads the undefined elements of a tensor.empty."""
    for use in uses.of(operation.results[0]):
        if use.operation is None or _reads(use.operation, use.position, uses):
            by = "a terminator" if use.operation is None else f"'{use.operation.name}'"
            raise operation.error(f"(F6) expected no read of undefined elements, got operand #{use.position} of {by}")


def _reads(operation: Operation, position: int, uses: Uses) -> bool:
    if operation.name in ("linalg.generic", "repro.fold"):
        is_output = position >= len(operation.operands) - len(operation.results)
        is_init = is_output and operation.name == "repro.fold"
        return is_init or bool(uses.of(operation.regions[0].arguments[position]))
    inputs = len(operation.results) if operation.name == "repro.sort" else _UNREAD_OUTPUTS.get(operation.name)
    return inputs is None or position < inputs


def check_bitcast(operation: Operation, body: Body, main: Body, uses: Uses) -> None:
    """(V4) Checks that the bits of a NaN are not observable: a float becomes an integer only where a select replaces
    the bits of a NaN by the canonical ones."""
    (kind,), (result,) = operation.operand_types, operation.result_types
    if not kind.element.is_float:
        return
    if result.element.is_float:
        raise operation.error(f"(V4) expected a cast to or from an integer, got {kind} to {result}")
    if body is main:
        raise operation.error("(V4) expected the bits of a float only in the body of another operation")
    for use in uses.of(operation.results[0]):
        if use.operation is None or not _replaces_nan(use.operation, operation, uses):
            raise operation.error(
                "(V4) expected each use to be select(cmpf uno x, x; bits of the canonical NaN; bitcast x)"
            )


def _replaces_nan(select: Operation, cast: Operation, uses: Uses) -> bool:
    if select.name != "arith.select":
        return False
    condition, if_nan, otherwise = select.operands
    compare, bits = uses.made.get(condition), uses.made.get(if_nan)
    if compare is None or compare.name != "arith.cmpf" or compare.attributes["predicate"] != "uno":
        return False
    extended = (_is_extension(each, cast.operands[0], uses) for each in compare.operands)
    if otherwise != cast.results[0] or not all(extended) or bits is None or bits.constant is None:
        return False
    # The select has not been checked yet, so its operands may have any types.
    if bits.result_types[0].element.is_float:
        return False
    nan = cast.operand_types[0].element.format.nan
    width = select.result_types[0].element.width
    return nan is not None and bits.constant.shape == () and (int(bits.constant) - nan) % (1 << width) == 0


def _is_extension(number: int, of: int, uses: Uses) -> bool:
    made = uses.made.get(number)
    return number == of or (made is not None and made.name == "arith.extf" and made.operands[0] == of)


def extended_argument(number: int, body: Body, uses: Uses) -> int | None:
    """Returns the argument of a body whose exact extension a value is; None for another value."""
    while (made := uses.made.get(number)) is not None and made.name == "arith.extf":
        number = made.operands[0]
    return number if number in body.arguments else None


def walk(main: Body) -> Iterator[tuple[Operation, Body]]:
    """Yields each operation with the body that contains it; an operation before those in its bodies."""
    for operation in main.operations:
        yield operation, main
        for region in operation.regions:
            yield from walk(region)
