# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""A second implementation of docs/verification/identity.md and of the hashes in numerics.md, in plain Python.

Imports nothing from the package: the input is the text of MLIR's generic form, and BLAKE3 is the only library.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction

from blake3 import blake3

from support.generic_form import Block, Operation, Reader, entries, split

INTEGER, INTEGERS, GROUPS, MAPS, ITERATORS, ORDER, CONSTANT, OPTIONAL, BLOCKS, ACCUMULATOR = range(10)
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
    "repro.quantize": [("format", BLOCKS), ("site", OPTIONAL), SEGMENTS],
    "repro.dequantize": [("format", BLOCKS)],
    "repro.block_contraction": [
        ("step", INTEGER),
        ("block", INTEGER),
        ("rows", INTEGERS),
        ("fraction_bits", OPTIONAL),
        SEGMENTS,
    ],
    "repro.accumulated_block_contraction": [
        ("step", INTEGER),
        ("block", INTEGER),
        ("rows", INTEGERS),
        ("accumulator", ACCUMULATOR),
        SEGMENTS,
    ],
}
WORDS = {
    "kind": ["max", "min"],
    "combine": ["add", "mul", "maximum", "minimum", "replace"],
    "direction": ["ascending", "descending"],
    "distribution": ["bits", "uniform"],
    "step": ["fused", "split", "scaled"],
    "totals": ["sequential", "refold"],
    "round": ["rz_f32", "rz_e8m13", "rne_f16", "rne_f32"],
    "start": ["zero", "init"],
}
FLAG = ["false", "true"]
# Maps each parameter of a block format to its words in the order of their numbers (None if the parameter is a number),
# and to its default.
ROUNDING = {
    "direction": (["rne", "away", "rz", "sr"], ""),
    "bits": (None, "0"),
    "layout": (["site", "ptx"], "site"),
    "saturate": (FLAG, "true"),
    "nan": (["largest", "zero", "negative_zero"], "largest"),
    "signed_zero": (FLAG, "true"),
}
SCALES = {
    "power_scale": {
        "rule": (["floor", "ceil", "even", "rceil", "rceil_product"], ""),
        "infinity": (["nan", "largest", "power"], "nan"),
        "nan": (None, "255"),
        "least": (None, "-127"),
    },
    "two_level_scale": {"largest": (None, "")},
    "quotient_scale": {"levels": (None, "")},
    "f32_scale": {
        "encoding": (["product", "reciprocal", "quotient"], ""),
        "least": ("f64", ""),
        "inverse": (FLAG, "false"),
        "power": (FLAG, "false"),
    },
    "given_scale": {},
}
# Exponent bits, fraction bits, and whether the format has infinities.
FLOATS = {
    "f64": (11, 52, True),
    "f32": (8, 23, True),
    "bf16": (8, 7, True),
    "f16": (5, 10, True),
    "f8E5M2": (5, 2, True),
    "f8E4M3FN": (4, 3, False),
    "f6E3M2FN": (3, 2, False),
    "f6E2M3FN": (2, 3, False),
    "f4E2M1FN": (2, 1, False),
    "f8E8M0FNU": (8, 0, False),
}
# The float formats that have no NaNs and no infinities, and the format of powers of two, without sign and zero.
NUMBERS_ALONE = ("f6E3M2FN", "f6E2M3FN", "f4E2M1FN")
POWERS = "f8E8M0FNU"


def u64(value: int) -> bytes:
    """Encodes an integer as 8 little-endian bytes."""
    return struct.pack("<Q", value & (2**64 - 1))


def many(items: Iterable[bytes]) -> bytes:
    """Encodes a list: its length, then its items."""
    items = list(items)
    return u64(len(items)) + b"".join(items)


def tensor_type(text: str) -> tuple[str, list[int] | None]:
    """Returns the element type and the extents of a type; the extents are None if it is a scalar."""
    tensor = re.fullmatch(r"tensor<((?:\d+x)*)(\w+)>", text)
    if tensor is None:
        return text, None
    return tensor[2], [int(extent) for extent in tensor[1].split("x") if extent]


def element_name(kind: str) -> bytes:
    """Encodes the name of an element type in 16 bytes."""
    return kind.encode().ljust(16, b"\0")


def type_bytes(text: str) -> bytes:
    """Encodes a scalar or tensor type."""
    element, shape = tensor_type(text)
    return b"\0" + element_name(element) if shape is None else b"\1" + element_name(element) + many(map(u64, shape))


# --- Affine maps ---


DIVISIONS = {"mod": 1, "floordiv": 2, "ceildiv": 3}


class IndexSum:
    """An index expression in normal form: a constant plus factors times terms. A term is the bytes of its encoding."""

    def __init__(self, constant: int = 0, factors: dict[bytes, int] | None = None) -> None:
        self.constant = constant
        self.factors = factors or {}

    def plus(self, other: IndexSum) -> IndexSum:
        """Returns the sum of two expressions."""
        terms = [*self.factors, *other.factors]
        factors = {term: self.factors.get(term, 0) + other.factors.get(term, 0) for term in terms}
        return IndexSum(self.constant + other.constant, factors)

    def times(self, factor: int) -> IndexSum:
        """Returns the expression times a constant."""
        return IndexSum(self.constant * factor, {term: each * factor for term, each in self.factors.items()})

    def bytes(self) -> bytes:
        """Returns the encoding: the constant, and the terms in sorted order with their factors."""
        terms = sorted((term, factor) for term, factor in self.factors.items() if factor % 2**64)
        return u64(self.constant) + many(u64(factor) + term for term, factor in terms)


class MapExpression:
    """Parses an affine expression: sums of products, `mod`, `floordiv` and `ceildiv`; the attribute `sum` is the
    result."""

    def __init__(self, text: str) -> None:
        self.tokens = re.findall(r"\d+|\w+|[-+*()]", text)[::-1]
        self.sum = self.read_sum()

    def peek(self) -> str:
        """Returns the next token without consuming it, or an empty string at the end."""
        return self.tokens[-1] if self.tokens else ""

    def read_sum(self) -> IndexSum:
        """Parses a sum."""
        left = self.read_product()
        while self.peek() in ("+", "-"):
            sign = -1 if self.tokens.pop() == "-" else 1
            left = left.plus(self.read_product().times(sign))
        return left

    def read_product(self) -> IndexSum:
        """Parses a product."""
        left = self.read_unit()
        while self.peek() in ("*", *DIVISIONS):
            operator, right = self.tokens.pop(), self.read_unit()
            assert not right.factors
            if operator == "*":
                left = left.times(right.constant)
            else:
                left = IndexSum(0, {bytes([DIVISIONS[operator]]) + left.bytes() + u64(right.constant): 1})
        return left

    def read_unit(self) -> IndexSum:
        """Parses a number, a dimension or an expression in parentheses."""
        token = self.tokens.pop()
        if token == "(":
            inner = self.read_sum()
            self.tokens.pop()
            return inner
        if token == "-":
            return self.read_unit().times(-1)
        return IndexSum(int(token)) if token.isdigit() else IndexSum(0, {b"\0" + u64(int(token[1:])): 1})


def map_bytes(text: str) -> bytes:
    """Encodes an affine map."""
    match = re.fullmatch(r"affine_map<\((.*?)\) -> \((.*)\)>", text)
    assert match, text
    return u64(len(split(match[1]))) + many(MapExpression(expr).sum.bytes() for expr in split(match[2]))


# --- Constants ---


def nan_bits(kind: str) -> int:
    """(V4) Returns the bits of the canonical NaN: positive, quiet and with payload zero."""
    exponent, fraction, infinities = FLOATS[kind]
    return ((1 << exponent) - 1) << fraction | (1 << (fraction - 1) if infinities else (1 << fraction) - 1)


def is_nan(bits: int, kind: str) -> bool:
    """Whether these bits of a float type are a NaN."""
    if kind in NUMBERS_ALONE:
        return False
    exponent, fraction, infinities = FLOATS[kind]
    magnitude = bits & ((1 << (exponent + fraction)) - 1)
    return magnitude > ((1 << exponent) - 1) << fraction if infinities else magnitude == nan_bits(kind)


def rounded(value: Fraction, kind: str) -> int:
    """Returns the bits of a non-negative value, rounded to nearest even."""
    exponent, fraction, _ = FLOATS[kind]
    if value == 0:
        return 0
    least = 2 - (1 << (exponent - 1)) - fraction
    scale = max(math.floor(math.log2(value)) - fraction, least) if value > Fraction(1, 2**1060) else least
    while value >= Fraction(2) ** (scale + fraction + 1):
        scale += 1
    while scale > least and value < Fraction(2) ** (scale + fraction):
        scale -= 1
    significand = round(value / Fraction(2) ** scale)
    return significand + ((scale - least) << fraction)


def float_bits(token: str, kind: str) -> int:
    """Returns the bits of a printed float; NaNs become canonical."""
    exponent, fraction, _ = FLOATS[kind]
    if token.startswith("0x"):
        bits = int(token, 16)
    elif kind == POWERS:
        power = Fraction(token)
        bits = power.numerator.bit_length() - power.denominator.bit_length() + 127
        # MLIR prints a rounded decimal number. The code is that of the closest power of two.
        bits = min((bits - 1, bits, bits + 1), key=lambda code: abs(Fraction(2) ** (code - 127) - power))
    else:
        sign = token.startswith("-")
        bits = rounded(Fraction(token.lstrip("-")), kind) | sign << (exponent + fraction)
    return nan_bits(kind) if is_nan(bits, kind) else bits


def element_bytes(token: str, kind: str) -> bytes:
    """Encodes a printed element in little-endian order."""
    if kind in FLOATS:
        return float_bits(token, kind).to_bytes((sum(FLOATS[kind][:2]) + (kind != POWERS) + 7) // 8, "little")
    width = 64 if kind == "index" else int(kind[1:])
    value = token == "true" if token in ("true", "false") else int(token)
    return (value & ((1 << width) - 1)).to_bytes((width + 7) // 8, "little")


def raw_elements(data: bytes, count: int, kind: str) -> list[bytes]:
    """Returns the elements of `dense<"0x...">`, whose bytes are in memory order; eight i1 are packed into a byte."""
    if kind == "i1":
        return [bytes([data[i // 8] >> (i % 8) & 1]) for i in range(count)]
    size = len(data) // count
    items = [data[i : i + size] for i in range(0, len(data), size)]
    if kind in FLOATS:
        items = [float_bits(hex(int.from_bytes(item, "little")), kind).to_bytes(size, "little") for item in items]
    return items


def constant_bytes(text: str) -> bytes:
    """Encodes a constant: all elements, or a single one if it is a splat."""
    value, _, kind = (
        text.rpartition(" : ") if " : " in text else (text, "", "i1" if text in ("true", "false") else "f64")
    )
    element, shape = tensor_type(kind)
    if shape is None:
        return b"\0" + element_bytes(value, element)
    count = math.prod(shape)
    inner = value.removeprefix("dense<").removesuffix(">")
    if inner.startswith('"0x'):
        items = raw_elements(bytes.fromhex(inner[3:-1]), count, element)
    else:
        items = [element_bytes(token, element) for token in re.findall(r"[\w.+-]+", inner)]
        items = items * count if len(items) == 1 else items
    return b"\1" + items[0] if count > 1 and len(set(items)) == 1 else b"\0" + b"".join(items)


# --- Programs ---


def attribute_bytes(name: str, form: int, text: str) -> bytes:
    """Encodes an attribute."""
    if form == INTEGER:
        word = re.findall(r"-?\w+", text.partition(" : ")[0])[-1]
        return u64(WORDS[name].index(word) if name in WORDS else int(word))
    if form == INTEGERS:
        return many(u64(int(v)) for v in re.findall(r"-?\d+", text.partition(":")[2]))
    if form == GROUPS:
        return many(many(u64(int(v)) for v in split(group[1:-1])) for group in split(text[1:-1]))
    if form == MAPS:
        return many(map(map_bytes, split(text[1:-1])))
    if form == ITERATORS:
        return many(b"\1" if "reduction" in v else b"\0" for v in split(text[1:-1]))
    if form == ORDER:
        fields = dict(re.findall(r"(\w+) = (-?\w+)", text))
        if "terms" in fields:
            return b"\4" + accumulator_bytes(text, "chunk", "start")
        if "digits" in fields:
            return b"\3" + u64(int(fields["digits"]))
        if fields:
            totals = WORDS["totals"].index(fields["totals"])
            return b"\0" + b"".join(map(u64, [*(int(fields[k]) for k in ("chunk", "lanes", "run")), totals]))
        return b"\1" if "any_order" in text else b"\2"
    if form == OPTIONAL:
        return many([u64(int(text.partition(" : ")[0]))] if text else [])
    if form == ACCUMULATOR:
        return accumulator_bytes(text, "group")
    return blocks_bytes(text) if form == BLOCKS else constant_bytes(text)


def accumulator_bytes(text: str, *more: str) -> bytes:
    """Encodes the parameters from `terms` to `late`, which all accumulators have, and then those named in `more`."""
    fields = {"fraction": "0", "late": "false", "chunk": "0", "start": "zero", "group": "1"}
    fields |= dict(re.findall(r"(\w+) = (-?\w+)", text))
    words = {"round": WORDS["round"], "late": ["false", "true"], "start": WORDS["start"]}
    names = ("terms", "fraction", "round", "floor", "late", *more)
    return b"".join(u64(words[k].index(fields[k]) if k in words else int(fields[k])) for k in names)


def parameters(text: str, known: Mapping[str, tuple[list[str] | str | None, str]]) -> list[int]:
    """Returns the parameters `<name = value, ...>` at the end of `text` as integers: the index of a word, the bits of a
    float. A missing parameter has its default."""
    given = entries(text[text.index("<") + 1 : -1]) if known else {}
    assert known.keys() >= given.keys()
    numbers = []
    for name, (words, default) in known.items():
        value = given.get(name, default)
        if words == "f64":
            numbers.append(float_bits(value.partition(" : ")[0], "f64"))
        else:
            numbers.append(int(value) if words is None else words.index(value))
    return numbers


def blocks_bytes(text: str) -> bytes:
    """Encodes a block format."""
    fields = entries(text[text.index("<") + 1 : -1])
    kind = re.match(r"#repro\.(\w+)", fields["scale"])[1]  # type: ignore[index]
    numbers = [int(fields["rows"]), int(fields["columns"]), FLAG.index(fields.get("symmetric", "true"))]
    numbers += parameters(fields["rounding"], ROUNDING)
    numbers += [list(SCALES).index(kind), *parameters(fields["scale"], SCALES[kind])]
    return many(map(u64, numbers)) + element_name(fields["element"])


class ProgramBytes:
    """Encodes a program; numbers its values in the order in which they are defined."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}
        self.count = 0

    def define(self, names: Iterable[str]) -> None:
        """Gives the next numbers to values that are defined here."""
        for name in names:
            self.numbers[name] = self.count
            self.count += 1

    def block(self, block: Block) -> bytes:
        """Encodes a block."""
        # Restores the numbers after the region, because names are visible only inside of it and may be defined again.
        outside = dict(self.numbers)
        arguments = many(type_bytes(kind) for _, kind in block.arguments)
        self.define(name for name, _ in block.arguments)
        data = arguments + many(map(self.operation, block.operations))
        self.numbers = outside
        return data

    def operation(self, op: Operation) -> bytes:
        """Encodes an operation and its regions."""
        stored = op.name
        if stored == "repro.block_contraction" and "accumulator" in op.attributes:
            stored = "repro.accumulated_block_contraction"
        data = u64(len(stored)) + stored.encode() + many(map(type_bytes, op.result_types))
        data += many(u64(self.numbers[name]) for name in op.operands)
        for name, form in ATTRIBUTES.get(stored, []):
            data += attribute_bytes(name, form, op.attributes.get(name, ""))
        self.define(op.results)
        return data + many(map(self.block, op.regions))

    def program(self, text: str) -> bytes:
        """Encodes a program."""
        (main,) = Reader(text).module.regions[0].operations
        results = split(main.attributes["function_type"].partition("->")[2].strip())
        if len(results) == 1 and results[0].startswith("("):
            results = split(results[0][1:-1])
        state = int(main.attributes["repro.num_state"].partition(" ")[0])
        return b"repro-program-v2\0" + u64(state) + many(map(type_bytes, results)) + self.block(main.regions[0])


def program_hash(text: str) -> str:
    """(H2) Returns the identity of a canonical program, given as a module in generic form."""
    return blake3(ProgramBytes().program(text)).hexdigest()


def tensor_hash(element: str, shape: Sequence[int], elements: Iterable[bytes]) -> bytes:
    """(H1) Returns the hash of a tensor, given its elements as little-endian bytes in row-major order; NaNs become
    canonical (V4)."""
    data = b"repro-tensor-v1\0" + element_name(element) + struct.pack("<I", len(shape)) + b"".join(map(u64, shape))
    for item in elements:
        if element in FLOATS:
            item = float_bits(hex(int.from_bytes(item, "little")), element).to_bytes(len(item), "little")
        data += item
    return blake3(data).digest()


def state_hash(tensors: Sequence[bytes]) -> str:
    """(H3) Returns the hash of a state from the hashes of its tensors."""
    return blake3(b"repro-state-v1\0\0" + struct.pack("<I", len(tensors)) + b"".join(tensors)).hexdigest()
