# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""(H2) The identity of a program: a hash of bytes that we write ourselves.

The bytes, integers little-endian; a string is its length as u32 and its UTF-8 bytes; a list is its length as u32 and
its items:

    program    "repro-program-v1\\0", u32 number of states, body, list of result types
    body       list of argument types, list of operations, list of u32 value numbers that the terminator yields
    operation  string name, list of result types, list of u32 operand numbers, list of attributes, list of bodies
    type       u8 0 for a scalar or 1 for a tensor, string element type, list of u64 extents
    attribute  string name, value; in the order of the table below
    value      b"i" and i64, b"s" and string, b"l" and list of values, b"c" and the 32 bytes of a constant's (H1) hash,
               b"m" and an affine map: u32 dimensions, list of expressions
    expression b"d" and u32 dimension, b"c" and i64, or the operator as a string behind b"o" and two expressions

Values are numbered in the order of their definition: the arguments of a body, then each operation's bodies before its
results. Names of symbols and arguments, and locations, are no part of the bytes.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import blake3

from .errors import ReproError
from .hashing import tensor_hash
from .reference.errors import ProgramError
from .reference.indexing import AffineMap, Expression, parse_map
from .reference.program import Body, Operation, Program, ValueType, read_program

_MAGIC = b"repro-program-v1\0"

_SLICE = ("operandSegmentSizes", "static_offsets", "static_sizes", "static_strides")
# The attributes that belong to an operation's meaning; an operation that is not listed has none.
_INHERENT: dict[str, tuple[str, ...]] = {
    "arith.cmpf": ("predicate",),
    "arith.cmpi": ("predicate",),
    "arith.constant": (),
    "cf.assert": ("msg",),
    "linalg.generic": ("indexing_maps", "iterator_types", "operandSegmentSizes"),
    "linalg.index": ("dim",),
    "repro.arg_reduce": ("dimension", "kind", "operandSegmentSizes"),
    "repro.fold": ("indexing_maps", "iterator_types", "operandSegmentSizes", "order"),
    "repro.index": ("dim",),
    "repro.random": ("distribution", "operandSegmentSizes", "site"),
    "repro.scan": ("combine", "dimension", "operandSegmentSizes"),
    "repro.scatter": ("combine", "operandSegmentSizes"),
    "repro.sort": ("dimension", "direction", "operandSegmentSizes"),
    "tensor.collapse_shape": ("reassociation",),
    "tensor.concat": ("dim",),
    "tensor.expand_shape": ("reassociation", "static_output_shape"),
    "tensor.extract_slice": _SLICE,
    "tensor.insert_slice": _SLICE,
    "tensor.pad": ("nofold", "operandSegmentSizes", "static_high", "static_low"),
}
# Attributes that may stand anywhere as long as they say nothing.
_NEUTRAL = {"fastmath": "#arith.fastmath<none>", "overflowFlags": "#arith.overflow<none>"}
# Optional attributes and what their absence means.
_DEFAULTS: dict[str, Any] = {"nofold": False}

_Item = TypeVar("_Item")


def program_hash(text: str) -> str:
    """(H2) The hash of a canonical module, in hexadecimal.

    Raises:
      ReproError: text that is no canonical program, or an attribute that has no place in one.
    """
    try:
        return blake3.blake3(_MAGIC + _program(read_program(text))).hexdigest()
    except ProgramError as error:
        raise ReproError(f"the program has no identity: {error}") from None


def _u32(value: int) -> bytes:
    return struct.pack("<I", value)


def _string(text: str) -> bytes:
    data = text.encode()
    return _u32(len(data)) + data


def _list(items: Iterable[_Item], write: Callable[[_Item], bytes]) -> bytes:
    parts = [write(item) for item in items]
    return _u32(len(parts)) + b"".join(parts)


def _program(program: Program) -> bytes:
    return _u32(program.num_state) + _body(program.body) + _list(program.result_types, _type)


def _body(body: Body) -> bytes:
    return _list(body.argument_types, _type) + _list(body.operations, _operation) + _list(body.yields, _u32)


def _type(kind: ValueType) -> bytes:
    extents = _list(kind.shape or (), lambda extent: struct.pack("<Q", extent))
    return bytes([kind.shape is not None]) + _string(kind.element.name) + extents


def _operation(op: Operation) -> bytes:
    return (
        _string(op.name)
        + _list(op.result_types, _type)
        + _list(op.operands, _u32)
        + _attributes(op)
        + _list(op.regions, _body)
    )


def _attributes(op: Operation) -> bytes:
    if op.constant is not None:
        digest = tensor_hash(op.constant, op.result_types[0].element.name)
        return _list([digest], lambda value: _string("value") + b"c" + bytes.fromhex(value))
    inherent = _INHERENT.get(op.name, ())
    for name, value in op.attributes.items():
        if name not in inherent and _NEUTRAL.get(name) != value:
            raise op.error(f"expected no attribute {name}, got {value}")
    values = {name: op.attributes.get(name, _DEFAULTS.get(name)) for name in inherent}
    missing = [name for name, value in values.items() if value is None]
    if missing:
        raise op.error(f"expected an attribute {missing[0]}")
    return _list(values.items(), lambda item: _string(item[0]) + _value(item[1]))


_ORDER = re.compile(r"#repro\.order<chunk = (\d+), lanes = (\d+), run = (\d+), totals = (\w+)>")


def _value(value: Any) -> bytes:
    if isinstance(value, bool | int):
        return b"i" + struct.pack("<q", value)
    if isinstance(value, list):
        return b"l" + _list(value, _value)
    text = str(value)
    if text.startswith("affine_map<"):
        return b"m" + _map(parse_map(text))
    order = _ORDER.fullmatch(text)
    if order:
        return b"l" + _list([int(order[1]), int(order[2]), int(order[3]), order[4]], _value)
    keyword = re.fullmatch(r"#\w+\.\w+(?:\.\w+)*<(\w+)>|#\w+<\w+ (\w+)>|#(\w+\.\w+)", text)
    if keyword:
        text = next(group for group in keyword.groups() if group)
    return b"s" + _string(text)


def _map(affine: AffineMap) -> bytes:
    return _u32(affine.dims) + _list(affine.results, _expression)


def _expression(expression: Expression) -> bytes:
    if expression.kind == "dim":
        return b"d" + _u32(expression.value)
    if expression.kind == "const":
        return b"c" + struct.pack("<q", expression.value)
    return b"o" + _string(expression.kind) + b"".join(_expression(operand) for operand in expression.operands)
