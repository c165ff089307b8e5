# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""docs/identity.md written a second time: the bytes of a canonical program, from the parsed module alone."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable
from typing import Any

import numpy as np
from repro_mlir import ir

INTEGER, INTEGERS, GROUPS, MAPS, ITERATORS, ORDER, CONSTANT = range(7)
SEGMENTS = ("operandSegmentSizes", INTEGERS)
SLICE = [("static_offsets", INTEGERS), ("static_sizes", INTEGERS), ("static_strides", INTEGERS), SEGMENTS]
ATTRIBUTES = {
    "arith.cmpi": [("predicate", INTEGER)],
    "arith.cmpf": [("predicate", INTEGER)],
    "arith.constant": [("value", CONSTANT)],
    "linalg.generic": [("indexing_maps", MAPS), ("iterator_types", ITERATORS), SEGMENTS],
    "linalg.index": [("dim", INTEGER)],
    "tensor.extract_slice": SLICE,
    "tensor.insert_slice": SLICE,
    "tensor.expand_shape": [("reassociation", GROUPS), ("static_output_shape", INTEGERS)],
    "tensor.collapse_shape": [("reassociation", GROUPS)],
    "tensor.pad": [("static_low", INTEGERS), ("static_high", INTEGERS), SEGMENTS],
    "tensor.concat": [("dim", INTEGER)],
    "repro.fold": [("indexing_maps", MAPS), ("iterator_types", ITERATORS), ("order", ORDER), SEGMENTS],
    "repro.index": [("dim", INTEGER)],
    "repro.arg_reduce": [("kind", INTEGER), ("dimension", INTEGER), SEGMENTS],
    "repro.scatter": [("combine", INTEGER), SEGMENTS],
    "repro.scan": [("combine", INTEGER), ("dimension", INTEGER), SEGMENTS],
    "repro.sort": [("direction", INTEGER), ("dimension", INTEGER), SEGMENTS],
    "repro.random": [("distribution", INTEGER), ("site", INTEGER), SEGMENTS],
}
WORDS = {
    "kind": ["max", "min"],
    "combine": ["add", "mul", "maximum", "minimum", "replace"],
    "direction": ["ascending", "descending"],
    "distribution": ["bits", "uniform"],
    "totals": ["sequential", "refold"],
}
BINARY = [ir.AffineAddExpr, ir.AffineMulExpr, ir.AffineModExpr, ir.AffineFloorDivExpr, ir.AffineCeilDivExpr]
# Bits of exponent and of fraction, to find the NaNs of the elements that NumPy does not know.
FLOATS = {"f64": (11, 52), "f32": (8, 23), "bf16": (8, 7), "f16": (5, 10), "f8E5M2": (5, 2)}


def u64(value: int) -> bytes:
    return struct.pack("<Q", value & (2**64 - 1))


def many(items: Iterable[bytes]) -> bytes:
    items = list(items)
    return u64(len(items)) + b"".join(items)


def element_name(kind: ir.Type) -> bytes:
    return str(kind).encode().ljust(16, b"\0")


def type_bytes(kind: ir.Type) -> bytes:
    if not isinstance(kind, ir.RankedTensorType):
        return b"\0" + element_name(kind)
    return b"\1" + element_name(kind.element_type) + many(u64(n) for n in kind.shape)


def downcast(cls: Any, expr: ir.AffineExpr) -> Any:
    """The expression as one of class `cls`, None where it is of another."""
    try:
        return cls(expr)
    except ValueError:
        return None


def map_expr(expr: ir.AffineExpr) -> bytes:
    if constant := downcast(ir.AffineConstantExpr, expr):
        return b"\0" + u64(constant.value)
    if dimension := downcast(ir.AffineDimExpr, expr):
        return b"\1" + u64(dimension.position)
    for code, cls in enumerate(BINARY, 2):
        if binary := downcast(cls, expr):
            return bytes([code]) + map_expr(binary.lhs) + map_expr(binary.rhs)
    raise ValueError(f"no affine expression of a program: {expr}")


def float_bits(value: float, kind: str) -> int:
    """The bits of a value that the bindings give as a double, of a NaN the canonical ones."""
    exponent, fraction = FLOATS[kind]
    if value != value:
        return ((1 << exponent) - 1) << fraction | 1 << (fraction - 1)
    bits = struct.unpack("<Q", struct.pack("<d", value))[0]
    sign, wide, mantissa = bits >> 63, bits >> 52 & 2047, bits & (2**52 - 1)
    bias = (1 << (exponent - 1)) - 1
    if wide == 2047:
        body = ((1 << exponent) - 1) << fraction
    elif value == 0:
        body = 0
    else:  # exact: the bindings widened it
        shift = wide - 1023 + bias
        significand = mantissa | (1 << 52 if wide else 0)
        if kind == "f64":
            body = bits & (2**63 - 1)
        elif shift > 0:
            body = shift << fraction | (significand & (2**52 - 1)) >> (52 - fraction)
        else:
            body = significand >> (52 - fraction + 1 - shift)
    return sign << (exponent + fraction) | body


def constant_bytes(attribute: ir.Attribute) -> bytes:
    kind = attribute.type
    tensor = isinstance(kind, ir.RankedTensorType)
    shape = list(kind.shape) if tensor else []
    element = kind.element_type if tensor else kind
    head = element_name(element) + struct.pack("<I", len(shape)) + b"".join(map(u64, shape))
    values: list[Any]
    if not tensor:
        values = [attribute.value]
    elif attribute.is_splat:
        values = [attribute.get_splat_value().value] * int(np.prod(shape))
    else:
        values = [attribute[i] for i in range(int(np.prod(shape)))]
    name = str(element)
    if name in FLOATS:
        size = (sum(FLOATS[name]) + 1) // 8
        return head + b"".join(float_bits(float(v), name).to_bytes(size, "little") for v in values)
    width = 64 if name == "index" else int(name[1:])
    size = (width + 7) // 8
    return head + b"".join((int(v) & ((1 << width) - 1)).to_bytes(size, "little") for v in values)


def attribute_bytes(name: str, form: int, attribute: Any) -> bytes:
    if form == INTEGER:
        if name in WORDS:
            return u64(WORDS[name].index(re.findall(r"\w+", str(attribute))[-1]))
        return u64(attribute.value)
    if form == INTEGERS:
        return many(u64(v) for v in attribute)
    if form == GROUPS:
        return many(many(u64(v.value) for v in group) for group in attribute)
    if form == MAPS:
        maps = [m.value for m in attribute]
        return many(u64(m.n_dims) + many(map(map_expr, m.results)) for m in maps)
    if form == ITERATORS:
        return many(b"\1" if "reduction" in str(v) else b"\0" for v in attribute)
    if form == ORDER:
        text = str(attribute)
        if "any_order" in text or "sequential" in text.split("<")[0]:
            return b"\1" if "any_order" in text else b"\2"
        fields = dict(re.findall(r"(\w+) = (\w+)", text))
        if "digits" in fields:
            return b"\3" + u64(int(fields["digits"]))
        numbers = [int(fields[k]) for k in ("chunk", "lanes", "run")]
        return b"\0" + b"".join(map(u64, [*numbers, WORDS["totals"].index(fields["totals"])]))
    return constant_bytes(attribute)


class ProgramBytes:
    """Numbers the values of a program while it writes it."""

    def __init__(self) -> None:
        self.numbers: dict[ir.Value, int] = {}

    def define(self, values: Iterable[ir.Value]) -> None:
        for value in values:
            self.numbers[value] = len(self.numbers)

    def block(self, block: ir.Block) -> bytes:
        arguments = many(type_bytes(a.type) for a in block.arguments)
        self.define(block.arguments)
        return arguments + many(self.operation(op.operation) for op in block.operations)

    def operation(self, op: ir.Operation) -> bytes:
        name = op.name.encode()
        data = u64(len(name)) + name + many(type_bytes(r.type) for r in op.results)
        data += many(u64(self.numbers[v]) for v in op.operands)
        for attribute, form in ATTRIBUTES.get(op.name, []):
            data += attribute_bytes(attribute, form, op.attributes[attribute])
        self.define(op.results)
        return data + many(self.block(region.blocks[0]) for region in op.regions)

    def program(self, module: ir.Module) -> bytes:
        main = module.body.operations[0]
        results = many(type_bytes(t) for t in main.type.results)
        state = main.attributes["repro.num_state"].value
        return b"repro-program-v1\0" + u64(state) + results + self.block(main.regions[0].blocks[0])
