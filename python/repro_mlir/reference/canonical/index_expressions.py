# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Index expressions in the form in which MLIR simplifies them.

Only a sum that is stable has a place in a stored program (docs/verification/identity.md): the expression that is built
from the sum, with MLIR's simplifications, is written as the same sum again. `is_stable` builds this expression, on
which the bounds of accesses (A2) depend, too.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from repro_mlir.reference.indexing import Division, IndexSum

_WORDS = 1 << 64
_MAX_TERMS = 64
_MAX_DIVISIONS = 64
_KINDS = ("mod", "floordiv", "ceildiv")


def signed(number: int) -> int:
    """Returns the signed number of 64 bits that equals `number` modulo 2^64."""
    number %= _WORDS
    return number - _WORDS if number >> 63 else number


@dataclass(frozen=True, eq=False)
class Expression:
    """An index expression. `Expressions` creates each expression once, so that equal expressions are identical.

    Attributes:
      kind: "constant", "dimension", "add", "multiply", "mod", "floordiv" or "ceildiv".
      number: the value of a constant, the dimension, the factor, or the divisor.
      left: the first term, or what is multiplied or divided; None for a constant and a dimension.
      right: the second term of a sum; else None.
      divisor: a divisor of all values of the expression, the largest that MLIR knows.
    """

    kind: str
    number: int
    left: Expression | None
    right: Expression | None
    divisor: int

    def terms(self) -> list[Expression]:
        """Returns the terms of nested sums, from left to right; of another expression, the expression itself."""
        found, open = [], [self]
        while open:
            last = open.pop()
            if last.kind == "add":
                open += _left(last), _right(last)
            else:
                found.append(last)
        return found[::-1]


class Expressions:
    """Creates index expressions with the simplifications that MLIR makes when it creates an expression."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, int, Expression | None, Expression | None], Expression] = {}
        self._built: dict[IndexSum, Expression] = {}

    def constant(self, number: int) -> Expression:
        number = signed(number)
        return self._unique("constant", number, None, None, abs(number))

    def dimension(self, number: int) -> Expression:
        return self._unique("dimension", number, None, None, 1)

    def add(self, left: Expression, right: Expression) -> Expression:
        divisor = math.gcd(left.divisor, right.divisor)
        return self._added(left, right) or self._unique("add", 0, left, right, divisor)

    def _added(self, left: Expression, right: Expression) -> Expression | None:
        """Returns the sum if MLIR simplifies it; else None."""
        if left.kind == right.kind == "constant":
            return self.constant(left.number + right.number)
        is_descending = left.kind == right.kind == "dimension" and left.number > right.number
        if left.kind == "constant" or is_descending:
            return self.add(right, left)
        if right.kind == "constant" and not right.number:
            return left
        ends_in_constant = left.kind == "add" and left.right is not None and left.right.kind == "constant"
        if ends_in_constant and right.kind == "constant":
            return self.add(_left(left), self.constant(_right(left).number + right.number))
        (one, first), (other, second) = _factored(left), _factored(right)
        if one is other:
            return self.multiply(one, first + second)
        if ends_in_constant:
            return self.add(self.add(_left(left), right), _right(left))
        quotient = right.left if right.kind == "multiply" else None
        if quotient is None or quotient.kind != "floordiv":
            return None
        # x - (x floordiv n) * n is the remainder of x, which may be the last term of the left side.
        if quotient.left is left and quotient.number == -right.number:
            return self.divide("mod", left, quotient.number)
        last = self._added(_right(left), right) if left.kind == "add" else None
        return None if last is None else self.add(_left(left), last)

    def multiply(self, left: Expression, factor: int) -> Expression:
        factor = signed(factor)
        if left.kind == "constant":
            return self.constant(left.number * factor)
        if factor == 1:
            return left
        if factor == 0:
            return self.constant(0)
        if left.kind == "multiply":
            return self.multiply(_left(left), left.number * factor)
        return self._unique("multiply", factor, left, None, abs(signed(left.divisor * factor)))

    def divide(self, kind: str, left: Expression, divisor: int) -> Expression:
        """Returns a quotient or remainder by a positive divisor."""
        if left.kind == "constant":
            return self.constant(evaluate_division(kind, left.number, divisor))
        return self._remainder(left, divisor) if kind == "mod" else self._quotient(kind, left, divisor)

    def _remainder(self, left: Expression, divisor: int) -> Expression:
        if left.divisor % divisor == 0:
            return self.constant(0)
        if left.kind == "add":
            if _left(left).divisor % divisor == 0:
                return self.divide("mod", _right(left), divisor)
            if _right(left).divisor % divisor == 0:
                return self.divide("mod", _left(left), divisor)
        if left.kind == "mod" and left.number % divisor == 0:
            return self.divide("mod", _left(left), divisor)
        return self._unique("mod", divisor, left, None, math.gcd(left.divisor, divisor))

    def _quotient(self, kind: str, left: Expression, divisor: int) -> Expression:
        if divisor == 1:
            return left
        if left.kind == "multiply" and left.number % divisor == 0:
            return self.multiply(_left(left), left.number // divisor)
        if kind == "floordiv" and left.kind == "add":
            parts = _left(left), _right(left)
            if any(part.divisor % divisor == 0 for part in parts):
                return self.add(*(self.divide(kind, part, divisor) for part in parts))
        known = left.divisor // divisor if left.divisor % divisor == 0 else 1
        return self._unique(kind, divisor, left, None, known)

    def build(self, index: IndexSum) -> Expression:
        """Returns the expression that a reader builds from a stored sum."""
        found = self._built.get(index)
        if found is None:
            found = self._built[index] = self._sum(index)
        return found

    def _sum(self, index: IndexSum) -> Expression:
        total: Expression | None = None
        for dimension, factor in index.dimensions:
            term = self.multiply(self.dimension(dimension), factor)
            total = term if total is None else self.add(total, term)
        for division, factor in index.divisions:
            quotient = self.divide(division.kind, self.build(division.dividend), division.divisor)
            term = self.multiply(quotient, factor)
            total = term if total is None else self.add(total, term)
        constant = self.constant(index.constant)
        return constant if total is None else self.add(total, constant)

    def is_stable(self, index: IndexSum) -> bool:
        """Returns whether the expression that is built from a stored sum is written as the same sum."""
        return _written(self.build(index), 0) == _bytes_of(index)

    def _unique(
        self, kind: str, number: int, left: Expression | None, right: Expression | None, divisor: int
    ) -> Expression:
        key = kind, number, left, right
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = Expression(kind, number, left, right, divisor)
        return found


def evaluate_division(kind: str, value: int, divisor: int) -> int:
    if kind == "mod":
        return value % divisor
    return value // divisor if kind == "floordiv" else -(-value // divisor)


def _left(expression: Expression) -> Expression:
    assert expression.left is not None
    return expression.left


def _right(expression: Expression) -> Expression:
    assert expression.right is not None
    return expression.right


def _factored(expression: Expression) -> tuple[Expression, int]:
    return (_left(expression), expression.number) if expression.kind == "multiply" else (expression, 1)


def _word(number: int) -> bytes:
    return (number % _WORDS).to_bytes(8, "little")


def _sum_bytes(constant: int, terms: list[tuple[bytes, int]]) -> bytes:
    return b"".join([_word(constant), _word(len(terms)), *(_word(factor) + term for term, factor in terms)])


def _bytes_of(index: IndexSum) -> bytes:
    terms = [(b"\0" + _word(dimension), factor) for dimension, factor in index.dimensions]
    terms += [(_division_bytes(division), factor) for division, factor in index.divisions]
    return _sum_bytes(index.constant, terms)


def _division_bytes(division: Division) -> bytes:
    kind = bytes([1 + _KINDS.index(division.kind)])
    return kind + _bytes_of(division.dividend) + _word(division.divisor)


def _written(expression: Expression, depth: int) -> bytes | None:
    """Returns the bytes of an expression as a sum; None for a sum that has too many terms or divisions."""
    constant, factors, open = 0, dict[bytes, int](), [(expression, 1)]
    while open:
        term, factor = open.pop()
        if term.kind == "add":
            open += (_left(term), factor), (_right(term), factor)
            continue
        if term.kind == "multiply":
            open.append((_left(term), factor * term.number))
            continue
        if term.kind == "constant":
            constant += term.number * factor
            continue
        if term.kind == "dimension":
            written = b"\0" + _word(term.number)
        else:
            dividend = _written(_left(term), depth + 1) if depth < _MAX_DIVISIONS else None
            if dividend is None:
                return None
            written = bytes([1 + _KINDS.index(term.kind)]) + dividend + _word(term.number)
        factors[written] = factors.get(written, 0) + factor
    if len(factors) > _MAX_TERMS:
        return None
    return _sum_bytes(constant, sorted((term, factor) for term, factor in factors.items() if factor % _WORDS))
