# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""A canonical program as plain data, read from an MLIR module.

MLIR's Python bindings are used here alone, to parse and to walk; nothing of the compiler takes part in what an
operation means.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from .environment import float_environment
from .errors import ProgramError
from .formats import ElementType, canonical, element_type, from_bits, round_to_format, sign_extend

if TYPE_CHECKING:
    from repro_mlir import ir


@dataclass(frozen=True)
class ValueType:
    """The type of a value: a tensor of static shape, or with `shape` None a scalar."""

    element: ElementType
    shape: tuple[int, ...] | None

    def __str__(self) -> str:
        if self.shape is None:
            return self.element.name
        return f"tensor<{''.join(f'{extent}x' for extent in self.shape)}{self.element.name}>"


@dataclass(frozen=True)
class Operation:
    """An operation; `operands` and `results` are value numbers, `constant` is the array of an arith.constant."""

    name: str
    operands: tuple[int, ...]
    operand_types: tuple[ValueType, ...]
    results: tuple[int, ...]
    result_types: tuple[ValueType, ...]
    attributes: dict[str, Any]
    regions: tuple[Body, ...]
    location: str
    constant: np.ndarray | None = None

    def error(self, message: str) -> ProgramError:
        return ProgramError(f"{self.location}: '{self.name}': {message}")

    def keyword(self, name: str) -> str:
        """The word that an enumeration attribute holds."""
        return re.findall(r"\w+", str(self.attributes[name]))[-1]


@dataclass(frozen=True)
class Body:
    """A block: the numbers and types of its arguments, its operations, and the numbers that its terminator yields."""

    arguments: tuple[int, ...]
    argument_types: tuple[ValueType, ...]
    operations: tuple[Operation, ...]
    yields: tuple[int, ...]

    def captured(self) -> set[int]:
        """The numbers of the values from outside that the block uses."""
        defined = set(self.arguments)
        used = set(self.yields)
        for op in self.operations:
            defined.update(op.results)
            used.update(op.operands)
            for region in op.regions:
                used.update(region.captured())
        return used - defined


@dataclass(frozen=True)
class Program:
    """The function @main of a module; its first `num_state` arguments and results are the state."""

    body: Body
    result_types: tuple[ValueType, ...]
    num_state: int
    argument_names: tuple[str, ...]
    result_names: tuple[str, ...]


_TENSOR = re.compile(r"tensor<((?:\d+x)*)(\w+)>")


def parse_type(text: str) -> ValueType:
    """The type that MLIR prints as `text`."""
    match = _TENSOR.fullmatch(text)
    if not match:
        return ValueType(element_type(text), None)
    return ValueType(element_type(match[2]), tuple(int(extent) for extent in match[1].split("x")[:-1]))


@float_environment()
def read_program(module: ir.Module | str) -> Program:
    """Reads a module, or its text. ProgramError where it is not one @main function of one block."""
    from repro_mlir import ir

    if isinstance(module, str):
        with ir.Context(), ir.Location.unknown():
            try:
                return _Reader(ir).read(ir.Module.parse(module))
            except ir.MLIRError as error:  # type: ignore[attr-defined]  # the stubs lack it
                raise ProgramError(f"expected an MLIR module: {error}") from None
    return _Reader(ir).read(module)


@dataclass
class _Reader:
    """Numbers the values of a module while it reads the operations."""

    ir: Any
    numbers: dict[Any, int] = field(default_factory=dict)
    resources: Callable[[], dict[str, bytes]] = dict

    def read(self, module: Any) -> Program:
        self.resources = functools.cache(lambda: _resources(str(module)))
        functions = [op for op in module.body.operations if op.operation.name == "func.func"]
        mains = [f for f in functions if self.ir.StringAttr(f.operation.attributes["sym_name"]).value == "main"]
        if len(mains) != 1 or len(list(module.body.operations)) != 1:
            names = ", ".join(op.operation.name for op in module.body.operations)
            raise ProgramError(f"expected a module with one func.func @main alone, got {names or 'an empty one'}")
        main = mains[0].operation
        attributes = self._attributes(main)
        blocks = list(main.regions[0].blocks)
        if len(blocks) != 1:
            raise ProgramError(f"expected @main to have one block, got {len(blocks)}")
        body = self._body(blocks[0])
        types = {n: t for op in body.operations for n, t in zip(op.results, op.result_types, strict=True)}
        types.update(zip(body.arguments, body.argument_types, strict=True))
        result_types = tuple(types[n] for n in body.yields)
        return Program(
            body,
            result_types,
            int(attributes.get("repro.num_state", 0)),
            self._names(attributes.get("arg_attrs"), len(body.arguments)),
            self._names(attributes.get("res_attrs"), len(result_types)),
        )

    @staticmethod
    def _names(attributes: list[Any] | None, count: int) -> tuple[str, ...]:
        entries = attributes or [{}] * count
        return tuple(entry.get("repro.name", "") for entry in entries)

    def _number(self, value: Any) -> int:
        return self.numbers.setdefault(value, len(self.numbers))

    def _body(self, block: Any) -> Body:
        arguments = tuple(self._number(argument) for argument in block.arguments)
        types = tuple(parse_type(str(argument.type)) for argument in block.arguments)
        *operations, terminator = list(block.operations)
        read = tuple(self._operation(op.operation) for op in operations)
        yields = tuple(self._number(value) for value in terminator.operation.operands)
        return Body(arguments, types, read, yields)

    def _operation(self, op: Any) -> Operation:
        location = _location(str(op.location))
        try:
            operand_types = tuple(parse_type(str(value.type)) for value in op.operands)
            result_types = tuple(parse_type(str(value.type)) for value in op.results)
        except ProgramError as error:
            raise ProgramError(f"{location}: '{op.name}': {error}") from None
        regions = []
        for region in op.regions:
            blocks = list(region.blocks)
            if len(blocks) != 1:
                raise ProgramError(f"{location}: '{op.name}': expected regions of one block, got {len(blocks)} blocks")
            regions.append(self._body(blocks[0]))
        constant = None
        attributes = {}
        if op.name == "arith.constant":
            constant = self._constant(op.attributes["value"], result_types[0], location)
        else:
            attributes = self._attributes(op)
        return Operation(
            op.name,
            tuple(self._number(value) for value in op.operands),
            operand_types,
            tuple(self._number(value) for value in op.results),
            result_types,
            attributes,
            tuple(regions),
            location,
            constant,
        )

    def _attributes(self, op: Any) -> dict[str, Any]:
        named = (op.attributes[i] for i in range(len(op.attributes)))
        return {entry.name: self._attribute(entry.attr) for entry in named}

    def _attribute(self, attr: Any) -> Any:
        ir = self.ir
        if isinstance(attr, (ir.IntegerAttr, ir.BoolAttr, ir.FloatAttr, ir.StringAttr)):
            return attr.value
        if isinstance(attr, (ir.DenseI64ArrayAttr, ir.DenseI32ArrayAttr, ir.DenseBoolArrayAttr)):
            return list(attr)
        if isinstance(attr, ir.ArrayAttr):
            return [self._attribute(element) for element in attr]
        if isinstance(attr, ir.DictAttr):
            return {attr[i].name: self._attribute(attr[i].attr) for i in range(len(attr))}
        return str(attr)

    def _constant(self, attr: Any, kind: ValueType, location: str) -> np.ndarray:
        ir, element = self.ir, kind.element
        if isinstance(attr, ir.DenseElementsAttr) and attr.is_splat:
            attr = attr.get_splat_value()
        if isinstance(attr, (ir.IntegerAttr, ir.BoolAttr)):
            array = sign_extend(np.array(int(attr.value), np.int64), element.width)
        elif isinstance(attr, ir.FloatAttr):
            # The value is exact in f64, whatever its type.
            array = np.array(attr.value, np.float64)
            array = round_to_format(array, element) if element.is_storage else array.astype(element.dtype)
        elif isinstance(attr, ir.DenseElementsAttr):
            array = _dense(attr, element)
        else:
            name = re.match(r'dense_resource<"?([^">]+)"?>', str(attr))
            if not name or name[1] not in self.resources():
                raise ProgramError(f"{location}: expected a dense constant, got {str(attr)[:80]}")
            array = _raw(self.resources()[name[1]], element).reshape(kind.shape or ())
        return canonical(np.array(np.broadcast_to(array, kind.shape or ())), element)


def _dense(attr: Any, element: ElementType) -> np.ndarray:
    if not element.is_storage and element.width in (1, 8, 16, 32, 64):
        return np.array(attr).astype(element.dtype)
    # The buffer interface does not know these types; their printed form holds bits, or numbers.
    match = re.fullmatch(r"dense<(.*)> : tensor<((?:\d+x)*)\w+>", str(attr), re.DOTALL)
    assert match
    shape = tuple(int(extent) for extent in match[2].split("x")[:-1])
    raw = re.fullmatch(r'"0x([0-9A-Fa-f]*)"', match[1])
    if raw:
        return _raw(bytes.fromhex(raw[1]), element).reshape(shape)
    items = re.findall(r"[^\s,\[\]]+", match[1])
    if element.is_float:
        bits = [int(item, 16) if item.startswith("0x") else None for item in items]
        values = np.array([0.0 if b is not None else float(item) for item, b in zip(items, bits, strict=True)])
        array = round_to_format(values, element)
        stated = np.array([b is not None for b in bits], np.bool_)
        array[stated] = from_bits(np.array([b for b in bits if b is not None], np.int64), element)
        return array.reshape(shape)
    return sign_extend(np.array([int(item) for item in items], np.int64), element.width).reshape(shape)


def _raw(data: bytes, element: ElementType) -> np.ndarray:
    size = 8 if element.width > 32 else 4 if element.width > 16 else (element.width + 7) // 8
    return from_bits(np.frombuffer(data, f"<u{size}"), element)


def _resources(module: str) -> dict[str, bytes]:
    """The blobs at the end of a module's text, which the bindings do not give: four bytes of alignment, then data."""
    start = module.rfind("\n{-#")
    blobs = re.findall(r'([\w.$-]+|"[^"]*"): "0x([0-9A-Fa-f]*)"', module[start:]) if start >= 0 else []
    return {name.strip('"'): bytes.fromhex(data)[4:] for name, data in blobs}


_LOCATION = re.compile(r'loc\((?:"[^"]*"\()?"([^"]*)"(:\d+:\d+)?\)+')
"""A line or a name, perhaps with another name for it."""


def _location(text: str) -> str:
    match = _LOCATION.fullmatch(text)
    return match[1] + (match[2] or "") if match else text
