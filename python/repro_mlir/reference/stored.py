# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Reads programs from their stored bytes (docs/verification/identity.md).

Each count is compared with the number of remaining bytes before memory is allocated for the counted items. The reader
checks the structure of a program; `canonical` checks whether types fit each other.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from repro_mlir.base.errors import ProgramError
from repro_mlir.base.numerics.digest import blake3_of
from repro_mlir.base.numerics.elements import ELEMENTS
from repro_mlir.base.numerics.environment import float_environment
from repro_mlir.base.numerics.formats import ElementType, element_type, from_bits
from repro_mlir.reference.folds import Accumulated, AnyOrder, Exact, FoldOrder, Order, Sequential
from repro_mlir.reference.indexing import Division, IndexMap, IndexSum
from repro_mlir.reference.low_precision.accumulators import Fdpa, LateFdpa
from repro_mlir.reference.low_precision.binary_formats import F16, F32
from repro_mlir.reference.program import NOWHERE, Body, Operation, Origin, ParsedProgram, ValueType
from repro_mlir.reference.stored_block_contraction import check_contraction
from repro_mlir.reference.stored_block_format import (
    InvalidFormat,
    StoredFormat,
    block_format,
    check_packed,
    check_types,
)

FILE_MAGIC = b"\x89repro-mlir\r\n\x1a\n\0"
BODY_MAGIC = b"repro-program-v2\0"
VERSION = 1
_BODY, _NAMES, _MESSAGES, _ORIGINS = range(4)

_I64 = ValueType(element_type("i64"), None)
_ELEMENTS = {name.encode().ljust(16, b"\0"): element_type(name) for name in (*ELEMENTS, "index")}

_MAX_RANK = 24
_MAX_TENSOR_BYTES = 1 << 40
_MAX_LANES = 1024
_MAX_DIVISIONS = 64
"""The maximum nesting depth of divisions in an index."""
_MAX_TERMS = 64
"""The maximum number of terms of a sum."""

_INTEGER_PREDICATES = "eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge"
_FLOAT_PREDICATES = (
    "false", "oeq", "ogt", "oge", "olt", "ole", "one", "ord", "ueq", "ugt", "uge", "ult", "ule", "une", "uno", "true",
)  # fmt: skip
_KINDS = "max", "min"
_COMBINES = "add", "mul", "maximum", "minimum", "replace"
_DIRECTIONS = "ascending", "descending"
_DISTRIBUTIONS = "bits", "uniform"
_BLOCK_STEPS = "fused", "split", "scaled"
_TOTALS = "sequential", "refold"
_SUM_ROUNDINGS = "rz_f32", "rz_e8m13", "rne_f16", "rne_f32"
_SUM_STARTS = "zero", "init"
_MAX_FLOOR = 300
_ITERATORS = "parallel", "reduction"
_DIVISIONS = "mod", "floordiv", "ceildiv"


class _Cursor:
    """Reads numbers and strings from a part of the file, which ends at `end`."""

    def __init__(self, data: bytes, at: int, end: int) -> None:
        self.data, self.at, self.end = data, at, end

    def error(self, message: str, at: int | None = None) -> ProgramError:
        """Returns an error whose message names the position of the next byte, or of byte `at`."""
        return ProgramError(f"(H2) byte {self.at if at is None else at} of the stored program: {message}")

    def take(self, size: int) -> bytes:
        if size > self.end - self.at:
            raise self.error(f"expected {size} bytes, got {self.end - self.at}")
        self.at += size
        return self.data[self.at - size : self.at]

    def number(self, size: int = 8) -> int:
        return int.from_bytes(self.take(size), "little")

    def below(self, limit: int, what: str, size: int = 8) -> int:
        value = self.number(size)
        if value >= limit:
            raise self.error(f"expected {what} below {limit}, got {value}", self.at - size)
        return value

    def word(self, words: Sequence[str], what: str, size: int = 8) -> str:
        return words[self.below(len(words), what, size)]

    def count(self, what: str, least: int) -> int:
        """Reads a count of items that occupy at least `least` bytes each."""
        value = self.number()
        if value > (self.end - self.at) // least:
            raise self.error(f"expected no more {what} than the file holds, got {value}", self.at - 8)
        return value

    def string(self) -> bytes:
        return self.take(self.count("characters", 1))

    def text(self) -> str:
        start = self.at
        try:
            return self.string().decode()
        except UnicodeDecodeError:
            raise self.error("expected UTF-8", start) from None

    def texts(self, what: str) -> tuple[str, ...]:
        return tuple(self.text() for _ in range(self.count(what, 8)))

    def naturals(self, what: str, limit: int) -> tuple[int, ...]:
        return tuple(self.below(limit, what) for _ in range(self.count(what, 8)))

    def expect_end(self, what: str) -> None:
        if self.at != self.end:
            raise self.error(f"expected the end of {what}, got {self.end - self.at} bytes more")


@dataclass(frozen=True)
class _Form:
    """The layout of a stored operation.

    Attributes:
      operands, results: the allowed numbers of operands and results.
      within: the operation whose body must contain this operation; None for any.
      attributes: the attributes by name, in their stored order.
    """

    operands: range
    results: range
    within: str | None
    attributes: tuple[tuple[str, Callable[[_BodyReader, _Head], Any]], ...]


@dataclass(frozen=True)
class _Head:
    """The parts of an operation that are read before its attributes, because the attributes depend on them."""

    name: str
    start: int
    operand_types: tuple[ValueType, ...]
    result_types: tuple[ValueType, ...]


class _Messages:
    """Reads the messages of the assertions, in the order of the assertions."""

    def __init__(self, section: _Cursor | None) -> None:
        self._section = section
        self._left = section.count("messages", 8) if section else 0
        if section and not self._left:
            raise section.error("expected at least one message, or no section of messages")

    def next(self, body: _Cursor) -> str:
        if not self._section or not self._left:
            raise body.error("expected a message for each assertion")
        self._left -= 1
        return self._section.text()

    def expect_end(self) -> None:
        if self._section:
            self._section.expect_end("the messages")


class _Origins:
    """Reads the source locations of the operations, in the order of the operations."""

    def __init__(self, section: _Cursor | None) -> None:
        self._section = section
        self._texts = section.texts("texts") if section else ()
        self._used = 0
        if section and (not self._texts or len(set(self._texts)) != len(self._texts)):
            raise section.error("expected each text only once")

    def _text(self, section: _Cursor) -> str | None:
        number = section.below(min(self._used + 1, len(self._texts)) + 1, "the number of a text", 4)
        self._used = max(self._used, number)
        return self._texts[number - 1] if number else None

    def next(self) -> Origin:
        section = self._section
        if section is None:
            return NOWHERE
        name, before = self._text(section), section.at
        found = Origin(name, self._text(section), section.number(4), section.number(4))
        if found.file is None and (found.line or found.column):
            raise section.error("expected no line without a file", before)
        return found

    def expect_end(self) -> None:
        if self._section:
            if self._used != len(self._texts):
                raise self._section.error("expected only texts that operations use")
            self._section.expect_end("the origins")


class _BodyReader:
    """Reads the section of the body, and the messages and locations of its operations in the other sections."""

    def __init__(self, body: _Cursor, messages: _Messages, origins: _Origins) -> None:
        self.bytes = body
        self.messages = messages
        self.origins = origins
        # The types of the values defined so far; None for values that cannot be used at this point.
        self.types: list[ValueType | None] = []

    # --- Types and values ---

    def element(self) -> ElementType:
        start = self.bytes.at
        element = _ELEMENTS.get(self.bytes.take(16))
        if element is None:
            raise self.bytes.error("expected the name of an element type in 16 bytes", start)
        return element

    def type(self) -> ValueType:
        start = self.bytes.at
        is_tensor = self.bytes.below(2, "a kind of type", 1)
        element = self.element()
        if not is_tensor:
            return ValueType(element, None)
        shape = self.bytes.naturals("dimensions", 1 << 63)
        if element.name == "index":
            raise self.bytes.error("expected a tensor with elements of (V1)", start)
        extents = math.prod(filter(None, shape[: _MAX_RANK + 1])) * _size(element)
        if len(shape) > _MAX_RANK or extents > _MAX_TENSOR_BYTES:
            raise self.bytes.error("(A4) expected a tensor of at most 24 dimensions and 2^40 bytes", start)
        return ValueType(element, shape)

    def type_list(self) -> tuple[ValueType, ...]:
        return tuple(self.type() for _ in range(self.bytes.count("types", 17)))

    def define(self, types: Sequence[ValueType]) -> tuple[int, ...]:
        first = len(self.types)
        self.types += types
        return tuple(range(first, len(self.types)))

    def operands(self) -> tuple[tuple[int, ...], tuple[ValueType, ...]]:
        numbers, types = [], []
        for _ in range(self.bytes.count("operands", 8)):
            number = self.bytes.below(len(self.types), "a definition")
            kind = self.types[number]
            if kind is None:
                raise self.bytes.error(f"expected a value defined before its use, got {number}", self.bytes.at - 8)
            numbers.append(number)
            types.append(kind)
        return tuple(numbers), tuple(types)

    # --- Attributes ---

    def integer(self, head: _Head) -> int:
        return self.bytes.below(1 << 63, "an integer")

    def integers(self, head: _Head) -> tuple[int, ...]:
        return self.bytes.naturals("integers", 1 << 63)

    def optional_integer(self, head: _Head) -> int | None:
        start = self.bytes.at
        found = self.bytes.naturals("integers", 1 << 63)
        if len(found) > 1:
            raise self.bytes.error("expected one integer or none", start)
        return found[0] if found else None

    def block_format(self, head: _Head) -> StoredFormat:
        start = self.bytes.at
        numbers = self.bytes.naturals("integers", 1 << 64)
        try:
            return block_format(numbers, self.element())
        except InvalidFormat as error:
            raise self.bytes.error(str(error), start) from None

    def reassociation(self, head: _Head) -> tuple[tuple[int, ...], ...]:
        count = self.bytes.count("groups of dimensions", 8)
        return tuple(self.bytes.naturals("dimensions", _MAX_RANK) for _ in range(count))

    def segments(self, head: _Head) -> tuple[int, ...]:
        """Reads the number of operands in each role, such as inputs and outputs, and checks that these match the
        operation."""
        start = self.bytes.at
        found = self.bytes.naturals("segments", 1 << 31)
        if head.name == "repro.quantize":
            if len(found) != 4 or found[0] != 1 or max(found) > 1 or sum(found) != len(head.operand_types):
                raise self.bytes.error(
                    f"expected one operand, and at most one of each optional operand, got {list(found)}", start
                )
            return found
        count, results = len(head.operand_types), len(head.result_types)
        expected = _SEGMENTS.get(head.name, (count - results, results))
        if found != expected:
            raise self.bytes.error(f"expected {list(expected)} operands by role, got {list(found)}", start)
        return found

    def iterators(self, head: _Head) -> tuple[str, ...]:
        return tuple(self.bytes.word(_ITERATORS, "an iterator", 1) for _ in range(self.bytes.count("iterators", 1)))

    def maps(self, head: _Head) -> tuple[IndexMap, ...]:
        start = self.bytes.at
        maps = tuple(self.map() for _ in range(self.bytes.count("maps", 16)))
        ranks = [len(kind.shape or ()) for kind in head.operand_types]
        if [len(each.results) for each in maps] != ranks:
            raise self.bytes.error("expected a map for each operand with an index for each of its dimensions", start)
        return maps

    def map(self) -> IndexMap:
        dims = self.bytes.below(_MAX_RANK + 1, "a number of dimensions")
        return IndexMap(dims, tuple(self.sum(dims, 0) for _ in range(self.bytes.count("indices", 16))))

    def sum(self, dims: int, depth: int) -> IndexSum:
        constant = _signed(self.bytes.number())
        dimensions: list[tuple[int, int]] = []
        divisions: list[tuple[Division, int]] = []
        previous = b""
        terms = self.bytes.count("terms", 17)
        if terms > _MAX_TERMS:
            raise self.bytes.error(f"expected at most {_MAX_TERMS} terms")
        for _ in range(terms):
            start = self.bytes.at
            factor = _signed(self.bytes.number())
            kind = self.bytes.below(4, "a kind of term", 1)
            if kind:
                divisions.append((self.division(_DIVISIONS[kind - 1], dims, depth), factor))
            else:
                dimensions.append((self.bytes.below(dims, "a dimension"), factor))
            term = self.bytes.data[start + 8 : self.bytes.at]
            if factor == 0 or term <= previous:
                raise self.bytes.error("expected terms in ascending order with factors other than 0", start)
            previous = term
        return IndexSum(constant, tuple(dimensions), tuple(divisions))

    def division(self, kind: str, dims: int, depth: int) -> Division:
        start = self.bytes.at - 1
        if depth == _MAX_DIVISIONS:
            raise self.bytes.error(f"expected divisions at most {_MAX_DIVISIONS} deep", start)
        dividend, divisor = self.sum(dims, depth + 1), _signed(self.bytes.number())
        if divisor <= 0 or not (dividend.dimensions or dividend.divisions):
            raise self.bytes.error("expected a division by a positive constant, of dimensions", start)
        return Division(kind, dividend, divisor)

    def order(self, head: _Head) -> FoldOrder:
        start = self.bytes.at
        kind = self.bytes.below(5, "a kind of order", 1)
        if kind == 1:
            return AnyOrder()
        if kind == 2:
            return Sequential()
        if kind == 3:
            digits = self.bytes.number()
            if digits not in (2, 3):
                raise self.bytes.error(f"(K4) expected 2 or 3 digits, got {digits}", start)
            return Exact(digits)
        if kind == 4:
            return self.accumulated(start)
        chunk, lanes, run = (self.integer(head) for _ in range(3))
        refold = self.bytes.word(_TOTALS, "a way of totals") == "refold"
        # With `refold`, chunks of one element would give as many results as elements, so refolding would never end.
        if chunk < 1 + refold or not 1 <= lanes <= _MAX_LANES or lanes & (lanes - 1):
            raise self.bytes.error(
                f"(F1), (F2) expected chunk > 0 (with refold > 1) and as lanes a power of two of at most {_MAX_LANES}, "
                f"got chunk = {chunk} and lanes = {lanes}",
                start,
            )
        return Order(chunk, lanes, run, refold)

    def accumulated(self, start: int) -> Accumulated:
        fields = self.block_sum()
        chunk = self.bytes.number()
        from_init = self.bytes.word(_SUM_STARTS, "a start of sums") == "init"
        accumulator = self.made_accumulator(start, *fields)
        if chunk % accumulator.terms or (from_init and chunk):
            raise self.bytes.error(f"(M4) expected chunks of whole blocks, without an init, got {chunk}", start)
        return Accumulated(accumulator, chunk, from_init)

    def accumulator(self, head: _Head) -> Fdpa | LateFdpa:
        """(M5) Reads the accumulator of a contraction in blocks."""
        start = self.bytes.at
        return self.made_accumulator(start, *self.block_sum(), group=self.bytes.number())

    def block_sum(self) -> tuple[int, int, str, int, int]:
        """Returns the numbers that define how the products of a block are added: terms, fraction, rounding, floor and
        late."""
        terms, fraction = self.bytes.number(), self.bytes.number()
        rounding = self.bytes.word(_SUM_ROUNDINGS, "a rounding of sums")
        return terms, fraction, rounding, _signed(self.bytes.number()), self.bytes.below(2, "late")

    def made_accumulator(
        self, start: int, terms: int, fraction: int, rounding: str, floor: int, late: int, group: int = 1
    ) -> Fdpa | LateFdpa:
        if (not fraction and floor) or abs(floor) > _MAX_FLOOR or (late and terms % 2):
            raise self.bytes.error(
                f"(M4) expected a floor of at most {_MAX_FLOOR} (0 without fraction) and an even number of terms if "
                f"late, got {floor} and {terms}",
                start,
            )
        try:
            inner = Fdpa(terms, fraction or None, rounding, floor, group)
        except ValueError as error:
            raise self.bytes.error(f"(M1) {error}", start) from None
        return LateFdpa(inner, F16 if inner.result == F16 else F32) if late else inner

    def message(self, head: _Head) -> str:
        return self.messages.next(self.bytes)

    def constant(self, head: _Head) -> np.ndarray:
        """Reads an array of the result's shape; if it is a splat, memory contains its element only once."""
        start = self.bytes.at
        (kind,) = head.result_types
        shape, size = kind.shape or (), _size(kind.element)
        count = math.prod(shape)
        is_splat = self.bytes.below(2, "a form of constant", 1)
        if is_splat and count < 2:
            raise self.bytes.error("expected all elements of a tensor with fewer than two", start)
        bits = np.frombuffer(self.bytes.take(size if is_splat else size * count), f"<u{size}")
        if not is_splat and count > 1 and (bits == bits[0]).all():
            raise self.bytes.error("expected equal elements to be stored as one", start)
        if kind.element.width == 1 and (bits > 1).any():
            raise self.bytes.error("expected elements that are 0 or 1", start)
        if kind.element.is_float and kind.element.width < 8 and (bits >> kind.element.width != 0).any():
            raise self.bytes.error(f"(V1) expected elements of {kind.element.width} bits", start)
        array = from_bits(bits, kind.element)
        if kind.element.is_float and (bits[np.isnan(array)] != kind.element.format.nan).any():
            raise self.bytes.error("(V4) expected canonical NaNs", start)
        return np.broadcast_to(array, shape) if is_splat else array.reshape(shape)

    # --- Operations ---

    def operation(self, within: str) -> Operation:
        """Reads an operation of the body of `within`."""
        start = self.bytes.at
        name = self.bytes.string().decode(errors="replace")
        form = OPERATIONS.get(name)
        if form is None:
            raise self.bytes.error("expected the name of an operation of a canonical program", start)
        if form.within not in (None, within):
            raise self.bytes.error(f"expected no {name} in the body of a {within}", start)
        origin = self.origins.next()
        result_types = self.type_list()
        operands, operand_types = self.operands()
        for what, due, found in (("operand", form.operands, operands), ("result", form.results, result_types)):
            if len(found) not in due:
                raise self.bytes.error(f"expected {_counted(due, what)} of {name}, got {len(found)}", start)
        head, attributes_at = _Head(name, start, operand_types, result_types), self.bytes.at
        attributes = {key: read(self, head) for key, read in form.attributes}
        encoded = memoryview(self.bytes.data)[attributes_at : self.bytes.at]
        constant = attributes.pop("value", None)
        if "order" in attributes or "iterator_types" in attributes:
            self.check_iterators(head, attributes)
        if "format" in attributes:
            self.check_blocks(head, attributes)
        if "step" in attributes:
            self.check_contraction(head, attributes)
        if name in ("repro.pack_codes", "repro.unpack_codes"):
            self.check_packed(head)
        results = self.define(result_types)
        regions = self.regions(head)
        return Operation(
            name, operands, operand_types, results, result_types, attributes, encoded, regions, origin, constant
        )

    def check_iterators(self, head: _Head, attributes: dict[str, Any]) -> None:
        iterators, order = attributes["iterator_types"], attributes.get("order")
        if any(each.dims != len(iterators) for each in attributes["indexing_maps"]):
            raise self.bytes.error(f"expected maps of {len(iterators)} dimensions, as there are iterators", head.start)
        if isinstance(order, Order) and order.run > iterators.count("reduction"):
            raise self.bytes.error("(F1) expected no more dimensions in a run than reduction dimensions", head.start)

    def check_blocks(self, head: _Head, attributes: dict[str, Any]) -> None:
        form: StoredFormat = attributes["format"]
        kinds = iter(head.operand_types)
        try:
            if head.name == "repro.dequantize":
                codes, scales = next(kinds), next(kinds)
                check_types(form, head.result_types[0], codes, scales, next(kinds, None), form.keeps_tensor)
                return
            _, has_tensor, *random = attributes["operandSegmentSizes"]
            site = attributes["site"]
            if any(is_there != form.is_stochastic for is_there in (*map(bool, random), site is not None)):
                raise InvalidFormat("(Q3) expected a site, seed and step for stochastic rounding, and none for other")
            if site is not None and site >= 1 << 32:
                raise InvalidFormat(f"(R1) expected a site of 32 bits, got {site}")
            codes, scales = head.result_types
            values, tensor = next(kinds), next(kinds) if has_tensor else None
            check_types(form, values, codes, scales, tensor, form.takes_tensor)
            for each in kinds:
                if each != _I64:
                    raise InvalidFormat(f"(Q3) expected a seed and a step of i64, got {each}")
        except InvalidFormat as error:
            raise self.bytes.error(str(error), head.start) from None

    def check_contraction(self, head: _Head, attributes: dict[str, Any]) -> None:
        try:
            check_contraction(attributes, head.operand_types, head.result_types[0])
        except InvalidFormat as error:
            raise self.bytes.error(str(error), head.start) from None

    def check_packed(self, head: _Head) -> None:
        types = (*head.operand_types, *head.result_types)
        try:
            check_packed(*(types if head.name == "repro.pack_codes" else reversed(types)))
        except InvalidFormat as error:
            raise self.bytes.error(str(error), head.start) from None

    def regions(self, head: _Head) -> tuple[Body, ...]:
        due = int(head.name in TERMINATORS)
        start = self.bytes.at
        found = self.bytes.number()
        if found != due:
            raise self.bytes.error(f"expected {'one body' if due else 'no body'} of {head.name}, got {found}", start)
        if not due:
            return ()
        # The body cannot use the operation's results, and operations after the body cannot use the body's values.
        outside, results = len(self.types), len(head.result_types)
        self.types[outside - results :] = [None] * results
        body, yielded = self.block(head.name)
        self.types[outside - results :] = [*head.result_types, *[None] * (len(self.types) - outside)]
        arguments = len(head.operand_types)
        if head.name == "tensor.pad":
            arguments = len(head.result_types[0].shape or ())
        if len(body.arguments) != arguments or len(yielded) != results:
            raise self.bytes.error(
                f"expected a body of {arguments} arguments that yields {results} values, "
                f"got {len(body.arguments)} and {len(yielded)}",
                start,
            )
        return (body,)

    def block(self, within: str) -> tuple[Body, tuple[ValueType, ...]]:
        """Reads the body of `within`; returns the body and the types of the values that it yields."""
        types = self.type_list()
        arguments = self.define(types)
        # An operation occupies at least 32 bytes: its name and its numbers of results, operands and regions.
        count = self.bytes.count("operations", 32)
        operations = []
        for i in range(count):
            start = self.bytes.at
            operation = self.operation(within)
            if (operation.name == TERMINATORS[within]) != (i == count - 1):
                raise self.bytes.error(f"expected {TERMINATORS[within]} only as the last operation", start)
            operations.append(operation)
        if not operations:
            raise self.bytes.error(f"expected {TERMINATORS[within]} at the end of the body")
        last = operations.pop()
        return Body(arguments, types, tuple(operations), last.operands, last.origin), last.operand_types


def _size(element: ElementType) -> int:
    return -(-element.width // 8)


def _signed(number: int) -> int:
    return number - (1 << 64) if number >> 63 else number


MAIN = "func.func"
TERMINATORS = {
    MAIN: "func.return",
    "linalg.generic": "linalg.yield",
    "repro.fold": "repro.yield",
    "tensor.pad": "tensor.yield",
}
"""Maps each operation with a body to the terminator of the body."""

_SEGMENTS = {"tensor.extract_slice": (1, 0, 0, 0), "tensor.insert_slice": (1, 1, 0, 0, 0), "tensor.pad": (1, 0, 0)}
"""The operand segments of slice and pad operations. The segments of structured operations are the inputs, and one
output per result."""


def _enumeration(words: Sequence[str], what: str) -> Callable[[_BodyReader, _Head], str]:
    return lambda reader, head: reader.bytes.word(words, what)


_ITERATION = ("indexing_maps", _BodyReader.maps), ("iterator_types", _BodyReader.iterators)
_SEGMENTED = ("operandSegmentSizes", _BodyReader.segments)
_DIM, _DIMENSION = ("dim", _BodyReader.integer), ("dimension", _BodyReader.integer)
_SLICED = tuple((f"static_{name}", _BodyReader.integers) for name in ("offsets", "sizes", "strides"))


_ANY, _SOME = range(1 << 63), range(1, 1 << 63)


def _counted(due: range, what: str) -> str:
    if len(due) == 1:
        return f"{due.start} {what}{'s' * (due.start != 1)}"
    return f"one {what} or more" if due == _SOME else f"{due.start} to {due.stop - 1} {what}s"


def _counts(count: int | range) -> range:
    return count if isinstance(count, range) else range(count, count + 1)


def _forms() -> dict[str, _Form]:
    forms: dict[str, _Form] = {}

    def add(
        dialect: str, names: str, operands: int | range, results: int | range, within: str | None, *attributes: Any
    ) -> None:
        for name in names.split():
            forms[f"{dialect}.{name}"] = _Form(_counts(operands), _counts(results), within, attributes)

    add("arith", "bitcast extf extsi extui fptosi fptoui index_cast index_castui negf", 1, 1, None)
    add("arith", "sitofp truncf trunci uitofp", 1, 1, None)
    add("arith", "addf divf maximumf minimumf mulf remf subf", 2, 1, None)
    add("arith", "addi andi divsi divui maxsi maxui minsi minui muli ori remsi remui", 2, 1, None)
    add("arith", "shli shrsi shrui subi xori", 2, 1, None)
    add("arith", "addui_extended mulsi_extended mului_extended", 2, 2, None)
    add("arith", "select", 3, 1, None)
    add("arith", "cmpi", 2, 1, None, ("predicate", _enumeration(_INTEGER_PREDICATES, "an integer predicate")))
    add("arith", "cmpf", 2, 1, None, ("predicate", _enumeration(_FLOAT_PREDICATES, "a float predicate")))
    add("arith", "constant", 0, 1, None, ("value", _BodyReader.constant))
    add("math", "absf absi ceil ctlz ctpop cttz floor round roundeven sqrt trunc", 1, 1, None)
    add("math", "copysign", 2, 1, None)
    add("math", "fma", 3, 1, None)
    add("cf", "assert", 1, 0, None, ("msg", _BodyReader.message))
    add("repro", "acos acosh asin asinh atan atanh cbrt cos cosh erf erfc exp exp10 exp2 expm1", 1, 1, None)
    add("repro", "log log10 log1p log2 rsqrt sin sinh tan tanh", 1, 1, None)
    add("repro", "atan2 hypot pow powi", 2, 1, None)
    add("tensor", "dim", 2, 1, None)
    add("tensor", "extract", _SOME, 1, None)

    add("linalg", "index", 0, 1, "linalg.generic", _DIM)
    add("repro", "index", 0, 1, "repro.fold", _DIM)
    for within, name in TERMINATORS.items():
        dialect, _, word = name.partition(".")
        add(dialect, word, _ANY, 0, within)

    add("linalg", "generic", _ANY, _ANY, MAIN, *_ITERATION, _SEGMENTED)
    add("repro", "fold", _SOME, _SOME, MAIN, *_ITERATION, ("order", _BodyReader.order), _SEGMENTED)
    add("tensor", "cast splat", 1, 1, MAIN)
    add("repro", "barrier", 1, 1, MAIN)
    form = ("format", _BodyReader.block_format)
    add("repro", "quantize", range(1, 5), 2, MAIN, form, ("site", _BodyReader.optional_integer), _SEGMENTED)
    add("repro", "dequantize", range(2, 4), 1, MAIN, form)
    add("repro", "pack_codes unpack_codes", 1, 1, MAIN)
    step, rows = ("step", _enumeration(_BLOCK_STEPS, "a step")), ("rows", _BodyReader.integers)
    blocks = (step, ("block", _BodyReader.integer), rows)
    fraction_bits = ("fraction_bits", _BodyReader.optional_integer)
    add("repro", "block_contraction", 5, 1, MAIN, *blocks, fraction_bits, _SEGMENTED)
    accumulator = ("accumulator", _BodyReader.accumulator)
    add("repro", "accumulated_block_contraction", 5, 1, MAIN, *blocks, accumulator, _SEGMENTED)
    add("tensor", "empty", 0, 1, MAIN)
    add("tensor", "from_elements", _ANY, 1, MAIN)
    add("tensor", "extract_slice", 1, 1, MAIN, *_SLICED, _SEGMENTED)
    add("tensor", "insert_slice", 2, 1, MAIN, *_SLICED, _SEGMENTED)
    groups = ("reassociation", _BodyReader.reassociation)
    add("tensor", "expand_shape", 1, 1, MAIN, groups, ("static_output_shape", _BodyReader.integers))
    add("tensor", "collapse_shape", 1, 1, MAIN, groups)
    padding = (("static_low", _BodyReader.integers), ("static_high", _BodyReader.integers))
    add("tensor", "pad", 1, 1, MAIN, *padding, _SEGMENTED)
    add("tensor", "concat", _SOME, 1, MAIN, _DIM)
    kind = ("kind", _enumeration(_KINDS, "a kind"))
    add("repro", "arg_reduce", 3, 2, MAIN, kind, _DIMENSION, _SEGMENTED)
    combine = ("combine", _enumeration(_COMBINES, "a combination"))
    add("repro", "scatter", 3, 1, MAIN, combine, _SEGMENTED)
    add("repro", "scan", 2, 1, MAIN, combine, _DIMENSION, _SEGMENTED)
    direction = ("direction", _enumeration(_DIRECTIONS, "a direction"))
    add("repro", "sort", _SOME, _SOME, MAIN, direction, _DIMENSION, _SEGMENTED)
    distribution = ("distribution", _enumeration(_DISTRIBUTIONS, "a distribution"))
    add("repro", "random", 3, 1, MAIN, distribution, ("site", _BodyReader.integer), _SEGMENTED)
    return forms


OPERATIONS = _forms()


def _sections(data: bytes) -> list[_Cursor | None]:
    """Returns the sections in the order of their numbers; None for an absent section. Only the body is required."""
    file = _Cursor(data, 0, len(data))
    if not data.startswith(FILE_MAGIC):
        raise file.error("expected the beginning of a stored program")
    file.at = len(FILE_MAGIC)
    version = file.number(4)
    if version != VERSION:
        raise file.error(f"expected version {VERSION} of the format, got {version}", file.at - 4)
    sections: list[_Cursor | None] = [None] * 4
    least = _BODY
    while file.at < file.end:
        start = file.at
        kind = file.below(len(sections), "a kind of section", 4)
        size = file.count("bytes", 1)
        if kind < least:
            raise file.error("expected the sections in their order", start)
        least = kind + 1
        sections[kind] = _Cursor(data, file.at, file.at + size)
        file.at += size
    return sections


def body_hash(data: bytes) -> str:
    """(H2) Returns the identity of a program that `read_program` accepts."""
    body = _sections(data)[_BODY]
    assert body is not None
    return blake3_of(data[body.at : body.end]).hex()


@float_environment()
def read_program(data: bytes) -> ParsedProgram:
    """Reads a stored program.

    Raises:
      ProgramError: malformed bytes; the message names the position.
    """
    body, names, messages, origins = _sections(data)
    if body is None:
        raise _Cursor(data, len(data), len(data)).error("expected a body")
    if body.data[body.at : min(body.at + len(BODY_MAGIC), body.end)] != BODY_MAGIC:
        raise body.error("expected the beginning of a body")
    body.at += len(BODY_MAGIC)
    start = body.at
    reader = _BodyReader(body, _Messages(messages), _Origins(origins))
    num_state, result_types = body.number(), reader.type_list()
    main, returned = reader.block(MAIN)
    if returned != result_types:
        raise body.error("expected returned values of the types of the results", start)
    if num_state > min(len(main.arguments), len(result_types)):
        raise body.error(f"expected as many arguments and results as states, got {num_state} states", start)
    body.expect_end("the body")
    reader.messages.expect_end()
    reader.origins.expect_end()
    argument_names, result_names = ("",) * len(main.arguments), ("",) * len(result_types)
    if names:
        start = names.at
        argument_names, result_names = names.texts("names"), names.texts("names")
        if (len(argument_names), len(result_names)) != (len(main.arguments), len(result_types)):
            raise names.error("expected a name for each argument and result", start)
        if not any((*argument_names, *result_names)):
            raise names.error("expected at least one name, or no section of names", start)
        names.expect_end("the names")
    return ParsedProgram(main, result_types, num_state, argument_names, result_names)
